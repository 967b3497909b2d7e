/* SPDX-License-Identifier: Apache-2.0 */
/* What a turn takes from the ring, and when a sample stays there. The ring, the clock and the
 * naming of managed frames are replaced. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "common/bpf_ring.h"
#include "common/time_units.h"
#include "symbolizer/worker/limits.h"
#include "symbolizer/worker/runtimes.h"
#include "symbolizer/worker/samples.h"
#include "symbolizer/worker/turn.h"
#include "symbolizer/worker/worker.h"

enum {
	RECORDS_MAX = 200,
	WORDS_MAX = 64,
	TURN_MS = 20 /* between two turns */
};

struct record {
	struct bh_sample header;
	uint64_t frames[WORDS_MAX];
};

static struct {
	struct record records[RECORDS_MAX];
	unsigned int count, taken;
} ring;
static uint64_t now_ns = NS_PER_S;
static unsigned int named;
static uint64_t naming_ns;   /* how long naming a frame takes */
static uint64_t step_ns;     /* by which the clock goes on each time it is read */
static unsigned int batches; /* that were sent */
static struct worker *worker;

bool __wrap_bpf_ring_peek(struct bpf_ring *from, const void **record, size_t *length);
void __wrap_bpf_ring_next(struct bpf_ring *from);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_peer_send(struct peer *peer, enum message_type type, const void *payload, size_t length,
		     const int *fds, unsigned int fd_count);
enum names_due __wrap_runtimes_symbolize(struct worker *of, struct managed_process *process,
					 const uint64_t *words, struct named_frames *frames);

bool __wrap_bpf_ring_peek(struct bpf_ring *from, const void **record, size_t *length)
{
	(void)from;
	*record = &ring.records[ring.taken];
	*length = sizeof(struct record);
	return ring.taken < ring.count;
}

void __wrap_bpf_ring_next(struct bpf_ring *from)
{
	(void)from;
	ring.taken++;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
	(void)clock;
	now_ns += step_ns;
	time->tv_sec = (time_t)(now_ns / NS_PER_S);
	time->tv_nsec = (long)(now_ns % NS_PER_S);
	return 0;
}

int __wrap_peer_send(struct peer *peer, enum message_type type, const void *payload, size_t length,
		     const int *fds, unsigned int fd_count)
{
	(void)peer;
	(void)payload;
	(void)length;
	(void)fds;
	(void)fd_count;
	batches += type == MESSAGE_BATCH;
	return 0;
}

enum names_due __wrap_runtimes_symbolize(struct worker *of, struct managed_process *process,
					 const uint64_t *words, struct named_frames *frames)
{
	(void)of;
	(void)process;
	(void)words;
	named++;
	now_ns += naming_ns;
	frames->count = 1;
	frames->frames[0] = (struct named_frame){.function = "f", .file = "file"};
	return NAMES_FINAL;
}

static void setup(void)
{
	static const uint8_t data;

	worker = calloc(1, sizeof(*worker));
	cr_assert_not_null(worker);
	cr_assert_eq(worker_init(worker, false), 0);
	cr_assert_eq(loop_init(&worker->role.loop), 0);
	worker->ring.data = &data;
}

static void teardown(void)
{
	worker_fini(worker);
	loop_fini(&worker->role.loop);
	free(worker);
}

TestSuite(turn, .init = setup, .fini = teardown);

static struct record *put_record(void)
{
	struct record *record = &ring.records[ring.count++];

	record->header = (struct bh_sample){.time_ns = 1, .tgid = 42, .tid = 42, .comm = "test"};
	return record;
}

/* Puts a sample into the ring that has a frame in each of two modules. */
static void put_sample(uint32_t module, uint32_t other)
{
	struct record *record = put_record();

	record->header.user_count = 2;
	record->frames[0] = (uint64_t)module << BH_FRAME_OFFSET_BITS | 0x1000;
	record->frames[1] = (uint64_t)other << BH_FRAME_OFFSET_BITS | 0x1000;
}

static void announce(uint32_t module)
{
	const struct msg_module message = {.id = module, .path = "/bin/program"};

	cr_assert_eq(modules_add(&worker->modules, &message, -1), 0);
}

/* Takes a turn every TURN_MS for this time. */
static void take_turns(uint64_t ms)
{
	for (uint64_t i = 0; i <= ms; i += TURN_MS) {
		turn_on_ring(worker, 0);
		now_ns += TURN_MS * NS_PER_MS;
	}
}

Test(turn, a_sample_waits_for_the_announcement_of_its_module)
{
	announce(4);
	put_sample(4, 5);
	take_turns(100);
	cr_expect_eq(ring.taken, 0);
	announce(5);
	turn_on_ring(worker, 0);
	cr_expect_eq(ring.taken, 1);
}

static void put_waiting(uint64_t bytes, size_t of)
{
	static uint64_t consumer, producer;

	producer = bytes;
	worker->ring.consumer = &consumer;
	worker->ring.producer = &producer;
	worker->ring.bytes = of;
}

Test(turn, no_sample_waits_while_samples_may_get_lost)
{
	put_sample(4, 4);
	put_waiting(2048, 4096);
	take_turns(100);
	cr_expect_eq(ring.taken, 0);
	put_waiting(2056, 4096);
	turn_on_ring(worker, 0);
	cr_expect_eq(ring.taken, 1);
}

/* The worker before it may have hung until the ring was full. */
Test(turn, a_worker_that_takes_over_hears_of_all_modules_first)
{
	put_sample(4, 4);
	put_sample(4, 5);
	put_waiting(4096, 4096);
	cr_expect(worker_is_behind(worker));
	turn_take_over(worker);
	cr_expect_not(worker_is_behind(worker));
	take_turns(1900);
	cr_expect_eq(ring.taken, 0);
	announce(4);
	worker->scanned_ns = now_ns;
	take_turns(500);
	cr_expect_eq(ring.taken, 1, "and waits for those that come later, as always");
	take_turns(700);
	cr_expect_eq(ring.taken, 2);
	cr_expect(worker_is_behind(worker), "for three seconds");
}

Test(turn, a_worker_that_takes_over_does_not_wait_for_ever)
{
	put_sample(4, 4);
	put_waiting(4096, 4096);
	turn_take_over(worker);
	take_turns(2900);
	cr_expect_eq(ring.taken, 0);
	take_turns(100);
	cr_expect_eq(ring.taken, 1);
}

/* A module with a lower id would have come earlier. One with a higher id may still come. */
Test(turn, a_module_that_did_not_come_in_time_is_not_waited_for_again)
{
	put_sample(5, 5);
	put_sample(5, 4);
	put_sample(4, 5);
	put_sample(6, 5);
	take_turns(900);
	cr_expect_eq(ring.taken, 0);
	take_turns(200);
	cr_expect_eq(ring.taken, 3);
	announce(6);
	turn_on_ring(worker, 0);
	cr_expect_eq(ring.taken, 4);
}

Test(turn, all_waits_for_modules_have_a_share_of_the_time)
{
	for (uint32_t i = 1; i <= 100; i++)
		put_sample(i, i);
	take_turns(5000);
	cr_expect_eq(ring.taken, 100, "%u", ring.taken);
	/* Later there is time again. */
	take_turns(10000);
	put_sample(101, 101);
	take_turns(900);
	cr_expect_eq(ring.taken, 100);
}

Test(turn, short_waits_do_not_use_the_share_up)
{
	for (uint32_t i = 1; i <= 100; i++) {
		put_sample(i, i);
		turn_on_ring(worker, 0);
		cr_assert_eq(ring.taken, i - 1);
		now_ns += 3 * NS_PER_MS;
		announce(i);
		take_turns(0);
		cr_assert_eq(ring.taken, i);
	}
}

/* --- naming --- */

/* Puts a sample into the ring with this many managed frames. */
static void put_managed(unsigned int count)
{
	struct record *record = put_record();

	record->header.user_count = (uint16_t)(2 * count);
	record->header.flags = BH_SAMPLE_MANAGED;
	for (unsigned int i = 0; i < count; i++) {
		record->frames[2 * i] = bh_frame_managed(BH_RUNTIME_CPYTHON, 0x1000 * (i + 1), 1);
		record->frames[2 * i + 1] = i;
	}
}

/* Messages are handled in between. */
Test(turn, naming_that_takes_long_goes_on_in_the_next_turn)
{
	put_managed(10);
	naming_ns = 4 * NS_PER_MS;
	for (unsigned int i = 1; i <= 3; i++) {
		turn_on_ring(worker, 0);
		cr_expect_eq(named, 3 * i, "turn %u: %u", i, named);
		cr_expect_eq(ring.taken, 0);
		cr_expect_leq(worker->role.loop.next_tick_ns, now_ns, "the next turn follows");
	}
	turn_on_ring(worker, 0);
	cr_expect_eq(named, 10);
	cr_expect_eq(ring.taken, 1);
}

Test(turn, a_frame_that_takes_longer_than_a_turn_is_named)
{
	put_managed(3);
	naming_ns = 100 * NS_PER_MS;
	for (unsigned int i = 1; i <= 3; i++) {
		cr_expect_eq(ring.taken, 0);
		turn_on_ring(worker, 0);
		cr_expect_eq(named, i);
	}
	cr_expect_eq(ring.taken, 1);
}

/* A stack that the manager has walked, for a worker that has replaced another one. */
Test(turn, no_batch_is_sent_before_its_position_is_known)
{
	struct bh_worker_control control = {.position = 1000};
	const struct record *record = put_record();

	ring.taken = ring.count;
	samples_add(worker, &record->header, record->frames);
	turn_on_tick(worker, 0);
	cr_expect_eq(batches, 0);
	worker->control = &control;
	worker->batch.sent_samples += control.position;
	turn_on_tick(worker, 0);
	cr_expect_eq(batches, 1);
	cr_expect_eq(batch_position(&worker->batch), 1001);
	worker->control = NULL;
}

/* Gives the worker a file of kernel symbols with one function. */
static void give_kallsyms(void)
{
	static const char text[] = "ffffffff81000000 T startup\nffffffff81001000 T _etext\n";

	worker->kallsyms.fd = memfd_create("kallsyms", MFD_CLOEXEC);
	cr_assert_eq(write(worker->kallsyms.fd, text, strlen(text)), (ssize_t)strlen(text));
	cr_assert_eq(lseek(worker->kallsyms.fd, 0, SEEK_SET), 0);
}

/* They take longer than everything else before sampling begins. */
Test(turn, kernel_symbols_are_read_when_the_worker_is_ready)
{
	give_kallsyms();
	worker->role.state = ROLE_CONFIGURED;
	turn_on_tick(worker, 0);
	cr_expect_null(worker->kernel);
	worker->scanned_ns = now_ns;
	turn_on_tick(worker, 0);
	cr_assert_eq(worker->role.state, ROLE_READY);
	turn_on_tick(worker, 0);
	cr_expect_null(worker->kernel, "the loader may start first");
	now_ns += 20 * NS_PER_MS;
	turn_on_tick(worker, 0);
	cr_expect_not_null(worker->kernel);
	cr_expect_eq(worker->kallsyms.fd, -1);
}

Test(turn, kernel_symbols_are_read_for_the_first_kernel_frame)
{
	struct record *record = put_record();

	give_kallsyms();
	record->header.kernel_count = 1;
	record->frames[0] = 0xffffffff81000010;
	take_turns(0);
	cr_expect_eq(ring.taken, 1);
	cr_expect_not_null(worker->kernel);
}

/* Appends `count` functions to the file of kernel symbols. */
static void append_kallsyms(unsigned int count)
{
	char line[64];

	for (unsigned int i = 0; i < count; i++) {
		const int length =
		    snprintf(line, sizeof(line), "%lx t module_function_%u\t[module]\n",
			     0xffffffffa0000000 + i * 16ul, i);

		cr_assert_eq(pwrite(worker->kallsyms.fd, line, (size_t)length,
				    lseek(worker->kallsyms.fd, 0, SEEK_END)),
			     length);
	}
}

/* What the kernel says while they are read must not be lost. */
Test(turn, kernel_symbols_are_read_in_slices)
{
	const struct msg_kernel_text loaded = {
	    .address = 0xffffffffb0000000, .length = 64, .bpf = 1, .name = "bpf_prog_test"};
	const struct msg_kernel_text unloaded = {.address = 0xffffffffa0000010, .unregistered = 1};
	struct kernel_symbol symbol;
	struct record *record = put_record();
	unsigned int slices = 1;

	give_kallsyms();
	append_kallsyms(10000);
	record->header.kernel_count = 1;
	record->frames[0] = 0xffffffff81000010;
	step_ns = 6 * NS_PER_MS;
	turn_on_ring(worker, 0);
	cr_expect_eq(ring.taken, 0, "it waits for its name");
	cr_expect_null(worker->kernel);
	kallsyms_file_on_text(worker, &loaded);
	kallsyms_file_on_text(worker, &unloaded);
	for (; !worker->kernel; slices++) {
		cr_assert_lt(slices, 100);
		turn_on_tick(worker, 0);
	}
	cr_expect_geq(slices, 5);
	step_ns = 0;
	turn_on_ring(worker, 0);
	cr_expect_eq(ring.taken, 1);
	cr_expect(kernel_symbols_find(worker->kernel, loaded.address, &symbol));
	cr_expect_str_eq(symbol.name, loaded.name);
	cr_expect_not(kernel_symbols_find(worker->kernel, unloaded.address, &symbol));
	cr_expect(kernel_symbols_find(worker->kernel, unloaded.address + 16, &symbol));
}

/* Names of a sample of the manager may take long. Those that follow keep their order. */
Test(turn, samples_of_the_manager_wait_for_names)
{
	struct record record = {
	    .header = {
		.time_ns = 1, .tgid = 42, .tid = 42, .user_count = 3, .flags = BH_SAMPLE_MANAGED}};
	struct bh_sample plain = {.time_ns = 2, .tgid = 42, .tid = 42};
	struct bh_worker_control control = {0};

	for (unsigned int i = 0; i < 3; i++)
		record.frames[i] = bh_frame_managed(BH_RUNTIME_CPYTHON, i, 0);
	naming_ns = 20 * NS_PER_MS;
	worker->control = &control;
	turn_on_deferred(worker, &record, sizeof(record.header) + 3 * sizeof(record.frames[0]));
	turn_on_deferred(worker, &plain, sizeof(plain));
	cr_expect_eq(named, 1);
	cr_expect_eq(batch_position(&worker->batch), 0);
	cr_expect_eq(control.position, 2, "if this worker ended now, they would be missing");
	worker->role.state = ROLE_STOPPING;
	worker->manager_drained = true;
	turn_on_tick(worker, 0);
	cr_expect_eq(named, 2);
	cr_expect_eq(worker->role.state, ROLE_STOPPING);
	for (unsigned int i = 0; i < 3; i++)
		turn_on_tick(worker, 0);
	cr_expect_eq(named, 3);
	cr_expect_eq(worker->role.state, ROLE_STOPPED);
	cr_expect_eq(batch_position(&worker->batch), 2);
	cr_expect_eq(control.position, 2);
	worker->control = NULL;
}

Test(turn, few_samples_of_the_manager_wait)
{
	struct record record = {
	    .header = {.time_ns = 1, .tgid = 42, .tid = 42, .flags = BH_SAMPLE_MANAGED}};
	unsigned int sent = 0;

	naming_ns = 20 * NS_PER_MS;
	record.header.user_count = 2;
	for (uint64_t i = 0;
	     worker->late.bytes < LIMIT_LATE_SAMPLES_BYTES - sizeof(record) && sent < 1000000;
	     i++, sent++) {
		record.frames[0] = bh_frame_managed(BH_RUNTIME_CPYTHON, 2 * i, 0);
		record.frames[1] = bh_frame_managed(BH_RUNTIME_CPYTHON, 2 * i + 1, 0);
		turn_on_deferred(worker, &record, sizeof(record));
	}
	cr_expect_eq(batch_position(&worker->batch), 0);
	turn_on_deferred(worker, &record, sizeof(record));
	turn_on_deferred(worker, &record, sizeof(record));
	cr_expect_geq(batch_position(&worker->batch), 1, "further ones do not");
	cr_expect_leq(worker->late.bytes, LIMIT_LATE_SAMPLES_BYTES);
}

/* Somebody may map new files all the time, which are to be checked for language runtimes. */
Test(turn, a_worker_is_ready_however_many_files_there_are)
{
	worker->role.state = ROLE_CONFIGURED;
	worker->scanned_ns = now_ns;
	for (unsigned int i = 0; i < 200 && worker->role.state == ROLE_CONFIGURED; i++) {
		worker->recognition.others_wait = true;
		worker->recognition.ended_ns = now_ns;
		turn_check_ready(worker);
		cr_expect(i > 20 || worker->role.state == ROLE_CONFIGURED, "too early: %u", i);
		now_ns += 20 * NS_PER_MS;
	}
	cr_expect_eq(worker->role.state, ROLE_READY);
}

/* The position of the next batch tells the exporter that they are missing. */
Test(turn, stacks_that_the_manager_took_and_did_not_send_are_made_up_for)
{
	struct bh_worker_control control = {.position = 1000, .deferred_received = 483};
	struct bh_sample plain = {.time_ns = 1, .tgid = 42, .tid = 42};

	worker->control = &control;
	worker->batch.sent_samples = control.position;
	deferred_count_told(worker, 500);
	cr_expect_eq(control.position, 1017);
	cr_expect_eq(control.deferred_received, 500);
	turn_on_deferred(worker, &plain, sizeof(plain));
	turn_on_deferred(worker, &plain, sizeof(plain) - 1); /* it has arrived all the same */
	cr_expect_eq(control.deferred_received, 502);
	cr_expect_eq(control.position, 1018);
	/* The manager, which sent one stack more than it had counted, was replaced. */
	deferred_count_told(worker, 501);
	cr_expect_eq(control.deferred_received, 501);
	cr_expect_eq(control.position, 1018);
	worker->control = NULL;
}

/* The manager may have its maps first. */
Test(turn, stacks_are_made_up_for_when_the_count_of_the_last_worker_is_known)
{
	struct bh_worker_control control = {.position = 1000, .deferred_received = 483};
	struct bh_sample plain = {.time_ns = 1, .tgid = 42, .tid = 42};

	deferred_count_told(worker, 500);
	turn_on_deferred(worker, &plain, sizeof(plain));
	turn_on_deferred(worker, &plain, sizeof(plain));
	/* Another manager: the last one had taken seven more. */
	deferred_count_told(worker, 509);
	turn_on_deferred(worker, &plain, sizeof(plain));
	worker->control = &control;
	worker->batch.sent_samples += control.position;
	deferred_count_resume(worker);
	cr_expect_eq(control.deferred_received, 510);
	cr_expect_eq(batch_position(&worker->batch), 1000 + 17 + 7 + 3);
	worker->control = NULL;
}

Test(turn, the_first_worker_misses_nothing)
{
	struct bh_worker_control control = {0};

	worker->control = &control;
	deferred_count_resume(worker);
	deferred_count_told(worker, 0);
	cr_expect_eq(control.deferred_received, 0);
	cr_expect_eq(control.position, 0);
	worker->control = NULL;
}
