/* SPDX-License-Identifier: Apache-2.0 */
/* The symbolizer's worker: takes samples out of the ring, names their frames, passes batches to the
 * exporter. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/exit_status.h"
#include "common/log.h"
#include "symbolizer/worker/identity.h"
#include "symbolizer/worker/policy.h"
#include "symbolizer/worker/runtimes.h"
#include "symbolizer/worker/sample_check.h"
#include "symbolizer/worker/samples.h"
#include "symbolizer/worker/worker.h"

enum {
	WORKER_TICK_MS = 1000,
	WORKER_BUSY_MS = 20,	    /* while a record waits for a module's announcement */
	WORKER_TURN_RECORDS = 4096, /* from the ring, before messages get their turn */
	WORKER_PATIENCE_MS = 2000,  /* for a module's announcement */
};

/* The protocol gives the size of a record without bpf/shared.h. */
_Static_assert(sizeof(struct bh_sample) == MSG_SAMPLE_BYTES_LEAST &&
		   sizeof(struct bh_sample_record) == MSG_SAMPLE_BYTES_MOST,
	       "DEFERRED_SAMPLE carries a struct bh_sample_record");

/* A sample may name a module whose announcement is still on its way; it then waits in the ring. */
static bool worker_must_wait(struct worker *worker, const struct bh_sample *header,
			     const uint64_t *frames)
{
	if (worker->manager_drained || sample_modules_announced(&worker->modules, header, frames)) {
		worker->waiting_since_ns = 0;
		return false;
	}
	const uint64_t now = clock_monotonic_ns();
	if (!worker->waiting_since_ns)
		worker->waiting_since_ns = now;
	return now - worker->waiting_since_ns < WORKER_PATIENCE_MS * 1000000ull;
}

/* The batch stays a moment for what the opener finds out of the processes in it; then, or with the
 * last answer, comes a tick. */
static bool worker_hold(struct worker *worker)
{
	worker->batch_held = identity_must_wait(worker);
	if (worker->batch_held)
		loop_tick_within(&worker->role.loop, LIMIT_IDENTITY_HOLD_MS);
	return worker->batch_held;
}

/* true if the ring was emptied; else there will be another turn soon. */
static bool worker_consume(struct worker *worker)
{
	const uint64_t now = clock_monotonic_ns();
	const void *record;
	size_t length;

	if (!worker->ring.data || resend_buffer_is_full(&worker->batch.resend))
		return false;
	for (int i = 0; i < WORKER_TURN_RECORDS; i++) {
		if (!bpf_ring_peek(&worker->ring, &record, &length)) {
			stack_ids_reset_when_due(worker, now);
			return true;
		}
		const struct bh_sample *header = record;
		const uint64_t *frames = (const uint64_t *)(header + 1);
		if (!sample_is_valid(record, length)) {
			worker->losses.lost[LOSS_BAD_RECORD]++;
		} else {
			if (worker_must_wait(worker, header, frames)) {
				loop_tick_within(&worker->role.loop, WORKER_BUSY_MS);
				return false;
			}
			stack_ids_reset_when_due(worker, header->time_ns);
			if (worker->identity && batch_is_full(&worker->batch) &&
			    worker_hold(worker))
				return false;
			samples_add(worker, header, frames);
		}
		bpf_ring_next(&worker->ring);
	}
	loop_tick_within(&worker->role.loop, 0);
	return false;
}

static void worker_send_status(struct worker *worker)
{
	struct msg_status status = {
	    .ring_bytes = worker->ring.consumed_bytes,
	    .batch_bytes = worker->batch.sent_bytes,
	    .losses = worker->losses,
	};

	runtimes_stats(worker, status.runtimes);
	role_send_status(&worker->role, &status);
}

/* The recording has been stopped, the manager has sent all it had, the ring is empty: that was all.
 */
static void worker_send_end(struct worker *worker)
{
	peer_send(&worker->role.peers[ROLE_EXPORTER], MESSAGE_END, &worker->losses,
		  sizeof(worker->losses), NULL, 0);
}

static void worker_end(struct worker *worker)
{
	batch_flush(&worker->batch);
	worker->role.state = ROLE_STOPPED;
	worker_send_end(worker);
	worker_send_status(worker);
}

static void worker_on_tick(void *context, uint32_t events)
{
	struct worker *worker = context;
	const bool held = worker->batch_held;

	(void)events;
	runtimes_tick(worker);
	/* What was held goes out first: new processes among new samples would hold it again. */
	if (!held)
		worker->ring_emptied = worker_consume(worker);
	if (worker_hold(worker))
		return;
	batch_flush(&worker->batch);
	const bool stopping = worker->role.state >= ROLE_STOPPING;
	if (held && (!worker->ring_emptied || stopping))
		loop_tick_within(&worker->role.loop, 0);
	else if (worker->role.state == ROLE_STOPPING && worker->manager_drained &&
		 worker->ring_emptied)
		worker_end(worker);
	else if (worker->role.state != ROLE_STOPPED)
		worker_send_status(worker);
}

static void worker_on_ring(void *context, uint32_t events)
{
	struct worker *worker = context;

	(void)events;
	worker->ring_emptied = worker_consume(worker);
}

/* ---- Messages. ---- */

static int worker_on_maps(void *context, const struct msg_maps *maps, struct message *message)
{
	struct worker *worker = context;
	int r = bpf_ring_init(&worker->ring, message->fds[0], maps->ring_bytes);

	if (r < 0)
		return r;
	message->fds[0] = -1;
	void *control = mmap(NULL, sizeof(struct bh_worker_control), PROT_READ | PROT_WRITE,
			     MAP_SHARED, message->fds[2], 0);
	if (control == MAP_FAILED)
		return -errno;
	worker->control = control;
	r = runtimes_init(worker, message->fds[3], maps->runtimes);
	if (r < 0)
		return r;
	r = kernel_symbols_new(message->fds[1], &worker->kernel);
	if (r < 0)
		log_warning("kernel frames will have no names: error=%s", strerror(-r));
	r = loop_add(&worker->role.loop, worker->ring.fd, EPOLLIN | EPOLLET, worker_on_ring,
		     worker);
	if (r < 0)
		return r;
	worker->role.state = ROLE_READY;
	worker_send_status(worker);
	return 0;
}

static int worker_on_configure(void *context, const struct msg_configure_worker *config)
{
	return identity_configure(context, config);
}

static int worker_on_stop(void *context)
{
	struct worker *worker = context;

	worker->role.state = ROLE_STOPPING;
	loop_tick_within(&worker->role.loop, 0);
	return 0;
}

static int worker_on_module(void *context, const struct msg_module *module, struct message *message)
{
	struct worker *worker = context;
	int fd = message->fd_count ? message->fds[0] : -1;

	if (modules_add(&worker->modules, module, fd) < 0)
		return 0;
	if (fd >= 0)
		message->fds[0] = -1;
	runtimes_on_module(worker, modules_find(&worker->modules, module->number));
	return 0;
}

static int worker_on_module_gone(void *context, const struct msg_id *module)
{
	struct worker *worker = context;

	modules_remove(&worker->modules, module->id);
	runtimes_on_module_gone(worker, module->id);
	return 0;
}

static int worker_on_process(void *context, const struct msg_process *process)
{
	struct worker *worker = context;

	processes_announce(&worker->processes, process);
	runtimes_on_process(worker, process);
	return 0;
}

static int worker_on_process_gone(void *context, const struct msg_id *process)
{
	struct worker *worker = context;

	processes_remove(&worker->processes, process->id);
	runtimes_on_process_gone(worker, process->id);
	return 0;
}

static int worker_on_mapped(void *context, const struct msg_mapped *mapped)
{
	runtimes_on_mapped(context, mapped);
	return 0;
}

static int worker_on_memory(void *context, const struct msg_memory *memory, struct message *message)
{
	(void)memory;
	runtimes_on_memory(context, message);
	return 0;
}

static int worker_on_identity(void *context, const struct msg_identity *identity,
			      struct message *message)
{
	(void)identity;
	identity_on_answer(context, message);
	return 0;
}

static int worker_on_kernel_text(void *context, const struct msg_kernel_text *text)
{
	struct worker *worker = context;
	char name[sizeof(text->name) + 1];

	if (!worker->kernel)
		return 0;
	memcpy(name, text->name, sizeof(text->name));
	name[sizeof(text->name) - 1] = 0;
	if (text->unregistered)
		kernel_symbols_unregister(worker->kernel, text->address);
	else
		kernel_symbols_register(worker->kernel, text->address, text->length, name,
					text->bpf);
	return 0;
}

static int worker_on_deferred_sample(void *context, const void *payload, size_t length)
{
	struct worker *worker = context;
	const struct bh_sample *header = payload;

	if (sample_is_valid(payload, length))
		samples_add(worker, header, (const uint64_t *)(header + 1));
	else
		worker->losses.lost[LOSS_BAD_RECORD]++;
	return 0;
}

static int worker_on_drained(void *context, const struct msg_losses *losses)
{
	struct worker *worker = context;

	for (int i = 0; i < LOSS_COUNT; i++)
		worker->losses.lost[i] += losses->lost[i];
	worker->manager_drained = true;
	loop_tick_within(&worker->role.loop, 0);
	return 0;
}

static int worker_on_resume(void *context, const struct msg_resume *resume)
{
	struct worker *worker = context;

	if (!resend_buffer_resume(&worker->batch.resend, &worker->role.peers[ROLE_EXPORTER],
				  resume->sequence)) {
		log_warning("a new exporter connected that lacks earlier batches: resending all "
			    "definitions");
		stack_ids_reset(worker);
	}
	if (worker->role.state == ROLE_STOPPED)
		worker_send_end(worker);
	loop_tick_within(&worker->role.loop, 0);
	return 0;
}

static int worker_on_reset_request(void *context)
{
	stack_ids_request_reset(context);
	return 0;
}

#define WORKER_HANDLERS(HANDLER, REFUSED)                                                          \
	HANDLER(CONFIGURE_WORKER, worker_on_configure)                                             \
	HANDLER(STOP, worker_on_stop)                                                              \
	HANDLER(WORKER_MAPS, worker_on_maps)                                                       \
	HANDLER(MODULE, worker_on_module)                                                          \
	HANDLER(MODULE_GONE, worker_on_module_gone)                                                \
	HANDLER(PROCESS, worker_on_process)                                                        \
	HANDLER(PROCESS_GONE, worker_on_process_gone)                                              \
	HANDLER(MAPPED, worker_on_mapped)                                                          \
	HANDLER(KERNEL_TEXT, worker_on_kernel_text)                                                \
	HANDLER(DEFERRED_SAMPLE, worker_on_deferred_sample)                                        \
	HANDLER(DRAINED, worker_on_drained)                                                        \
	HANDLER(IDENTITY, worker_on_identity)                                                      \
	HANDLER(MEMORY, worker_on_memory)                                                          \
	HANDLER(RESUME, worker_on_resume)                                                          \
	HANDLER(RESET_REQUEST, worker_on_reset_request)
MESSAGE_HANDLERS(worker_handlers, WORKER, WORKER_HANDLERS);

static bool worker_on_gone(void *context, enum role_id other)
{
	struct worker *worker = context;

	if (!worker->role.agent || other != ROLE_EXPORTER)
		return false;
	resend_buffer_disconnect(&worker->batch.resend);
	return true;
}

int main(int argc, char **argv)
{
	static struct worker worker;
	int status = role_start(&worker.role, ROLE_WORKER, &worker_policy, argc, argv);

	if (!status)
		status = role_meet(&worker.role, ROLE_BIT(ROLE_LOADER) | ROLE_BIT(ROLE_OPENER),
				   ROLE_BIT(ROLE_MANAGER) | ROLE_BIT(ROLE_EXPORTER) |
				       ROLE_BIT(ROLE_CLI));
	if (!status)
		status = role_enter_sandbox(&worker.role);
	if (status)
		return status;
	worker.role.handlers = &worker_handlers;
	worker.role.context = &worker;
	worker.role.on_gone = worker_on_gone;
	if (worker_init(&worker, worker.role.agent) < 0 || role_watch_peers(&worker.role) < 0)
		return STATUS_FAILED;
	loop_set_tick(&worker.role.loop, WORKER_TICK_MS, worker_on_tick, &worker);
	return loop_run(&worker.role.loop);
}
