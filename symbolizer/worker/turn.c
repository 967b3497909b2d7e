/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/worker/turn.h"

#include "common/clock.h"
#include "common/exit_status.h"
#include "common/time_units.h"
#include "common/limits.h"
#include "common/log.h"
#include "symbolizer/worker/identity.h"
#include "symbolizer/worker/kallsyms_file.h"
#include "symbolizer/worker/memory_copies.h"
#include "symbolizer/worker/runtimes.h"
#include "symbolizer/worker/sample_check.h"
#include "symbolizer/worker/samples.h"
#include "symbolizer/worker/worker.h"

enum {
	TURN_RETRY_MS = 20, /* while a record waits */
	/* Messages are handled again after this number of records, or after this time. The last
	 * record may take up to 10 ms. */
	TURN_RECORDS = 4096,
	TURN_MOST_NS = 10 * NS_PER_MS,
	/* If a tick has worked on other things than samples for longer than this, messages are
	 * handled before it takes samples. */
	UPKEEP_MOST_NS = 5 * NS_PER_MS,
	/* A record waits this long for the announcement of a module. The manager needs
	 * milliseconds, unless the machine is overloaded. The ring has room for 4 s of samples of
	 * usual depth. */
	ANNOUNCEMENT_TIMEOUT_MS = 1000,
	/* The same for all modules and processes, which a worker hears of that takes over from
	 * another one. It needs some milliseconds for each new file. */
	TAKE_OVER_MS = 3000,
	/* Sampling begins when the language runtimes that are running already are attached, but no
	 * later than this after all processes and runtimes are known. */
	ATTACHED_TIMEOUT_MS = 300,
	/* The files that run already are checked for language runtimes before that, for no longer
	 * than this: somebody may map new ones all the time. */
	RECOGNISED_TIMEOUT_MS = 1000,
	/* The kernel's symbols are read this long after the worker is ready: sampling has begun
	 * then, and the loader and the CLI do not need the CPU. */
	KERNEL_SYMBOLS_AFTER_MS = 20,
};

void turn_take_over(struct worker *worker)
{
	worker->takes_over_ns = clock_monotonic_ns() + TAKE_OVER_MS * NS_PER_MS;
}

/* Returns whether the worker has not heard yet of all that there was before it. */
static bool turn_must_be_told(struct worker *worker, uint64_t now)
{
	if (worker->scanned_ns || now >= worker->takes_over_ns)
		return false;
	loop_tick_within(&worker->role.loop, TURN_RETRY_MS);
	return true;
}

static void turn_end_wait(struct worker *worker, uint64_t now)
{
	time_share_spend(&worker->waiting, now - worker->waiting_since_ns);
	worker->waiting_since_ns = 0;
}

/* Returns whether a sample names a module whose announcement is still on its way. The manager
 * assigns ids in ascending order. So if it was waited for one in vain, none below it will come. */
static bool turn_module_is_late(struct worker *worker, const struct bh_sample *header,
				const uint64_t *frames)
{
	const uint32_t missing =
	    worker->manager_drained
		? 0
		: sample_missing_module(&worker->modules, header, frames, worker->module_given_up);

	if (!missing && !worker->waiting_since_ns)
		return false;
	const uint64_t now = clock_monotonic_ns();

	if (missing && !worker->waiting_since_ns) {
		if (!time_share_is_left(&worker->waiting, now))
			return false;
		worker->waiting_since_ns = now;
	}
	if (missing && now - worker->waiting_since_ns < ANNOUNCEMENT_TIMEOUT_MS * NS_PER_MS &&
	    !worker_is_behind(worker))
		return true;
	worker->module_given_up = missing ? missing : worker->module_given_up;
	turn_end_wait(worker, now);
	return false;
}

/* Returns whether a sample has to wait in the ring, because what names its frames is on its way. */
static bool turn_must_wait(struct worker *worker, const struct bh_sample *header,
			   const uint64_t *frames)
{
	return turn_module_is_late(worker, header, frames) ||
	       (header->flags & BH_SAMPLE_MANAGED && !sample_is_reference(header) &&
		runtimes_must_wait(worker, header->tgid) && !worker_is_behind(worker));
}

/* Holds the batch for a moment if the opener is still looking up processes in it, or as long as the
 * maps have not come: only they say how many samples earlier workers have taken, and stacks of the
 * manager may come before them. A tick follows after that moment, or with the last answer. */
static bool turn_hold_batch(struct worker *worker)
{
	const bool asked = identity_must_wait(worker);

	worker->batch_held = asked || !worker->control;
	if (asked)
		loop_tick_within(&worker->role.loop, LIMIT_IDENTITY_HOLD_MS);
	return worker->batch_held;
}

/* Returns whether symbols are being read, in slices. */
static bool is_reading(const struct worker *worker)
{
	return worker->modules.being_read || slices_are_under_way(&worker->kallsyms.slices);
}

/* Adds a sample to the batch. If naming its frames takes longer than until `until_ns`, it is not
 * added, and the next turn goes on with it. Each turn names at least one frame. */
static bool turn_add_sample(struct worker *worker, const struct bh_sample *header,
			    const uint64_t *frames, uint64_t until_ns)
{
	worker->naming_until_ns = until_ns;
	const bool added = samples_add(worker, header, frames);

	worker->naming_until_ns = 0;
	worker->naming_paused = false;
	/* An answer that is waited for causes a tick, too. */
	if (!added)
		loop_tick_within(&worker->role.loop,
				 worker->naming_waits && !is_reading(worker) ? TURN_RETRY_MS : 0);
	worker->naming_waits = false;
	return added;
}

/* Handles the record at the head of the ring. Returns false if it has to stay there for now. */
static bool turn_handle_record(struct worker *worker, const void *record, size_t length,
			       uint64_t until_ns)
{
	const struct bh_sample *header = record;
	const uint64_t *frames = (const uint64_t *)(header + 1);

	if (memory_copy_is(record, length)) {
		runtimes_on_copy(worker, record, length);
		return true;
	}
	if (!sample_is_valid(record, length)) {
		worker->losses.lost[LOSS_BAD_RECORD]++;
		return true;
	}
	if (turn_must_wait(worker, header, frames)) {
		loop_tick_within(&worker->role.loop, TURN_RETRY_MS);
		return false;
	}
	stack_ids_reset_when_due(worker, header->time_ns);
	if (worker->identity && batch_is_full(&worker->batch) && turn_hold_batch(worker))
		return false;
	return turn_add_sample(worker, header, frames, until_ns);
}

void turn_on_deferred(struct worker *worker, const void *record, size_t length)
{
	const struct bh_sample *header = record;
	const uint64_t *frames = (const uint64_t *)(header + 1);

	deferred_count_received(worker);
	if (!sample_is_valid(record, length)) {
		worker->losses.lost[LOSS_BAD_RECORD]++;
		return;
	}
	if (!worker->control && batch_is_full(&worker->batch)) {
		worker->losses.lost[LOSS_MANAGER_QUEUE]++; /* see turn_hold_batch() */
		return;
	}
	if (late_samples_first(&worker->late) ||
	    !turn_add_sample(worker, header, frames, clock_monotonic_ns() + TURN_MOST_NS)) {
		/* Without room, it does not wait for names. */
		if (!late_samples_add(&worker->late, record, length))
			samples_add(worker, header, frames);
	}
	samples_set_position(worker);
}

/* Takes the samples of the manager that have waited for names. */
static void turn_take_late(struct worker *worker, uint64_t until_ns)
{
	const struct bh_sample *header;

	while ((header = late_samples_first(&worker->late)) &&
	       turn_add_sample(worker, header, (const uint64_t *)(header + 1), until_ns)) {
		late_samples_remove_first(&worker->late);
		samples_set_position(worker);
		if (clock_monotonic_ns() >= until_ns) {
			loop_tick_within(&worker->role.loop, TURN_RETRY_MS);
			break;
		}
	}
}

/* Takes records from the ring. Returns true if the ring is empty; otherwise another turn follows
 * soon. */
static bool turn_consume(struct worker *worker)
{
	const uint64_t now = clock_monotonic_ns();
	const void *record;
	size_t length;

	if (!worker->ring.data || resend_buffer_is_full(&worker->batch.resend) ||
	    turn_must_be_told(worker, now))
		return false;
	for (int i = 0; i < TURN_RECORDS; i++) {
		const uint32_t defined = worker->ids.frame;

		if (!bpf_ring_peek(&worker->ring, &record, &length)) {
			stack_ids_reset_when_due(worker, now);
			return true;
		}
		if (!turn_handle_record(worker, record, length, now + TURN_MOST_NS))
			return false;
		bpf_ring_next(&worker->ring);
		/* Not before: a worker that ended in between would have its last sample counted as
		 * lost, and taken again. */
		samples_set_position(worker);
		/* Only a record with frames that are looked up can take long. */
		if ((worker->ids.frame != defined || worker->names_due) &&
		    clock_monotonic_ns() - now > TURN_MOST_NS)
			break;
	}
	loop_tick_within(&worker->role.loop, 0);
	return false;
}

void turn_send_status(struct worker *worker)
{
	struct msg_status status = {
	    .ring_bytes = worker->ring.consumed_bytes,
	    .batch_bytes = worker->batch.sent_bytes,
	    .losses = worker->losses,
	};

	runtimes_stats(worker, status.runtimes);
	role_send_status(&worker->role, &status);
}

void turn_check_ready(struct worker *worker)
{
	if (worker->role.state != ROLE_CONFIGURED || !worker->scanned_ns)
		return;
	const uint64_t now = clock_monotonic_ns();
	const uint64_t recognised_by_ns = worker->scanned_ns + RECOGNISED_TIMEOUT_MS * NS_PER_MS;
	if (recognition_is_under_way(worker) && now < recognised_by_ns)
		return;
	const unsigned int late = runtimes_unsettled(worker);
	uint64_t since_ns = worker->recognition.ended_ns;
	if (since_ns < worker->scanned_ns)
		since_ns = worker->scanned_ns;
	if (since_ns > recognised_by_ns)
		since_ns = recognised_by_ns;
	const uint64_t waited_ms = (now - since_ns) / NS_PER_MS;
	if (late && waited_ms < ATTACHED_TIMEOUT_MS) {
		loop_tick_within(&worker->role.loop, ATTACHED_TIMEOUT_MS - (int)waited_ms);
		return;
	}
	if (late)
		log_warning("the language runtimes of some processes are not found yet; until "
			    "then their functions are shown as native code: processes=%u",
			    late);
	worker->role.state = ROLE_READY;
	turn_send_status(worker);
	/* The answer comes before the first sample of the kernel. */
	kernel_debug_ask(worker);
	worker->kernel_due_ns = clock_monotonic_ns() + KERNEL_SYMBOLS_AFTER_MS * NS_PER_MS;
	loop_tick_within(&worker->role.loop, KERNEL_SYMBOLS_AFTER_MS);
}

void turn_send_end(struct worker *worker)
{
	peer_send(&worker->role.peers[ROLE_EXPORTER], MESSAGE_END, &worker->losses,
		  sizeof(worker->losses), NULL, 0);
}

/* Ends a recording that was stopped, when the manager has sent everything and nothing waits. */
static void turn_end(struct worker *worker)
{
	batch_flush(&worker->batch);
	worker->role.state = ROLE_STOPPED;
	turn_send_end(worker);
	turn_send_status(worker);
}

/* Ends a worker that has lacked memory for long. The next one may have more. */
static void turn_check_memory(struct worker *worker)
{
	const uint64_t lost = worker->losses.lost[LOSS_WORKER_MEMORY];

	if (!memory_shortage_lasts(&worker->shortage, lost, clock_monotonic_ns()))
		return;
	log_error("no memory for samples for %d s; restarting: lost=%llu", LIMIT_SHORTAGE_MS / 1000,
		  (unsigned long long)lost);
	loop_stop(&worker->role.loop, STATUS_DONE);
}

/* Goes on with files that are read in slices, with one slice for each kind: none waits for the
 * others. What only improves names waits while many samples do. */
static void turn_read_on(struct worker *worker)
{
	bool more = recognition_go_on(worker);

	more |= modules_read_on(&worker->modules);
	more |= kallsyms_file_read_on(worker);
	const int name_on_ms = modules_name_on(&worker->modules, !worker_is_behind(worker));
	if (more || name_on_ms >= 0)
		loop_tick_within(&worker->role.loop, more ? 0 : name_on_ms);
	if (worker->kernel_due_ns && clock_monotonic_ns() >= worker->kernel_due_ns &&
	    !kallsyms_file_is_read(worker))
		loop_tick_within(&worker->role.loop, 0);
}

/* Does what a tick does, but for the samples. Returns whether messages have to be handled before
 * these. */
static bool turn_upkeep(struct worker *worker)
{
	const uint64_t began_ns = clock_monotonic_ns();

	process_reader_tick(&worker->reader);
	turn_read_on(worker);
	runtimes_tick(worker);
	jit_maps_tick(worker);
	turn_check_ready(worker);
	return clock_monotonic_ns() - began_ns > UPKEEP_MOST_NS;
}

void turn_on_tick(void *context, uint32_t events)
{
	struct worker *worker = context;
	const bool held = worker->batch_held;

	(void)events;
	if (worker->samples_are_due) {
		worker->samples_are_due = false;
		/* For what upkeep has requested. */
		loop_tick_within(&worker->role.loop, 0);
	} else if (turn_upkeep(worker)) {
		worker->samples_are_due = true;
		loop_tick_within(&worker->role.loop, 0);
		return;
	}
	/* A held batch is sent before more samples are taken: new processes among them would hold
	 * it again. */
	if (!held) {
		turn_take_late(worker, clock_monotonic_ns() + TURN_MOST_NS);
		worker->ring_emptied = turn_consume(worker);
	}
	if (turn_hold_batch(worker))
		return;
	batch_flush(&worker->batch);
	const enum role_state state = worker->role.state;
	const bool taken = worker->ring_emptied && !late_samples_first(&worker->late);
	if (held && (!taken || state >= ROLE_STOPPING))
		loop_tick_within(&worker->role.loop, 0);
	else if (state == ROLE_STOPPING && worker->manager_drained && taken)
		turn_end(worker);
	else if (state != ROLE_STOPPED)
		turn_send_status(worker);
	if (state == ROLE_READY)
		turn_check_memory(worker);
}

void turn_on_ring(void *context, uint32_t events)
{
	struct worker *worker = context;

	(void)events;
	worker->ring_emptied = turn_consume(worker);
}
