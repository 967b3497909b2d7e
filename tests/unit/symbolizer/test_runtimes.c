/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/time_units.h"
#include "symbolizer/worker/managed_processes.h"
#include "symbolizer/worker/runtime_attachment.h"
#include "symbolizer/worker/runtimes.h"
#include "symbolizer/worker/runtimes_private.h"
#include "symbolizer/worker/worker.h"
#include "tests/support/fake_peer.h"
#include "tests/support/timespec_add.h"
#include "tests/unit/symbolizer/python_module.h"

enum {
	MODULE = 7
};

static struct worker worker;
static int table = -1;

FAKE_PEER(NULL);

static void setup(void)
{
	table = prepare_runtimes(&worker);
	process_work_init(&worker.memory_work, NULL);
}

TestSuite(runtimes, .init = setup);

static bool is_attached_to(uint32_t tgid)
{
	return runtimes_process(&worker, tgid) != NULL;
}

/* Reports mappings of the whole file, because the offset of its text is not known. */
static void map(uint32_t exec_generation)
{
	struct msg_mapped mapped = {.tgid = (uint32_t)getpid(),
				    .module = MODULE,
				    .exec_generation = exec_generation,
				    .start = 1 << 30,
				    .end = (1 << 30) + (1 << 20)};

	for (; mapped.file_offset < 64 << 20; mapped.file_offset += 1 << 16)
		runtimes_on_mapped(&worker, &mapped);
}

Test(runtimes, unwanted_runtimes_are_not_attached)
{
	cr_assert_eq(runtimes_init(&worker, table, false), 0);
	recognition_begin(&worker, 1u << BH_RUNTIME_HOTSPOT);
	recognition_on_module(&worker, add_python(&worker, MODULE));
	cr_expect_eq(fake_peer.attempts[MESSAGE_WATCH], 0);
	map(1);
	cr_expect_not(is_attached_to((uint32_t)getpid()));
	cr_expect_eq(fake_peer.attempts[MESSAGE_OPEN_MEMORY], 0);
}

Test(runtimes, memory_is_requested_once_per_process)
{
	cr_assert_eq(runtimes_init(&worker, table, false), 0);
	recognition_begin(&worker, 1u << BH_RUNTIME_CPYTHON);
	recognition_on_module(&worker, add_python(&worker, MODULE));
	map(1);
	cr_expect(is_attached_to((uint32_t)getpid()));
	map(1);
	cr_expect_eq(fake_peer.attempts[MESSAGE_OPEN_MEMORY], 1);
}

/* Without a descriptor, memory may be read only until an exec of the process is reported. */
static bool would_be_read(void)
{
	worker.role.loop.next_tick_ns = UINT64_MAX;
	runtimes_tick(&worker);
	/* The attach fails because nothing is mapped there, so another one is scheduled. */
	return worker.role.loop.next_tick_ns != UINT64_MAX;
}

Test(runtimes, strict_memory_is_read_while_the_program_stays_the_same)
{
	const uint64_t word[] = {bh_frame_managed(BH_RUNTIME_CPYTHON, 0x1000, 0), 0, 0, 0};
	struct msg_process said = {.tgid = (uint32_t)getpid(), .exec_generation = 1};
	struct msg_runtime stats[RUNTIME_ID_COUNT] = {0};
	static struct named_frames frames;

	worker.role.strict_memory = true;
	cr_assert_eq(runtimes_init(&worker, table, false), 0);
	recognition_begin(&worker, BH_RUNTIMES_ALL);
	recognition_on_module(&worker, add_python(&worker, MODULE));
	map(1);
	map(1);
	cr_expect_eq(fake_peer.attempts[MESSAGE_OPEN_MEMORY], 0);
	const uint64_t first = runtimes_names_generation(runtimes_process(&worker, said.tgid));
	runtimes_on_process(&worker, &said);
	cr_expect(would_be_read());
	said.exec_generation = 2;
	runtimes_on_process(&worker, &said);
	cr_expect_not(would_be_read());
	/* Frames of the previous program can no longer be named. */
	runtimes_symbolize(&worker, runtimes_process(&worker, said.tgid), word, &frames);
	cr_expect_eq(frames.count, 1);
	cr_expect_str_eq(frames.frames[0].function, "[Python: process ended]");
	map(2);
	cr_expect(would_be_read());
	cr_expect_neq(runtimes_names_generation(runtimes_process(&worker, said.tgid)), first);
	cr_expect_eq(fake_peer.attempts[MESSAGE_OPEN_MEMORY], 0);
	runtimes_stats(&worker, stats);
	cr_expect_eq(stats[BH_RUNTIME_CPYTHON].unnamed, 1);
	cr_expect_eq(stats[BH_RUNTIME_CPYTHON].named, 0);
	cr_expect_eq(stats[BH_RUNTIME_CPYTHON].attached, 0);
	runtimes_free(&worker);
}

/* --- attempts that take long --- */

static uint64_t skipped_ns; /* by how much the clock is fast */

static bool interrupted; /* other processes seem to have the CPU all the time */

int __wrap_getrusage(__rusage_who_t who, struct rusage *usage);

int __wrap_getrusage(__rusage_who_t who, struct rusage *usage)
{
	static long interruptions;

	(void)who;
	interruptions += interrupted;
	*usage = (struct rusage){.ru_nivcsw = interruptions};
	return 0;
}

int __real_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
	const int r = __real_clock_gettime(clock, time);

	timespec_add(time, skipped_ns);
	return r;
}

enum {
	SLOW_PROCESSES = 20,
	SLOW_US = 3000,
};

static bool slow;
static unsigned int attempts[SLOW_PROCESSES]; /* by pid */

__typeof__(runtime_attachment_try) __real_runtime_attachment_try, __wrap_runtime_attachment_try;

enum runtime_attachment_result __wrap_runtime_attachment_try(struct runtime_attachment *a,
							     struct process_work *work,
							     struct runtime_stats *stats,
							     uint64_t since_ns, uint64_t now_ns)
{
	if (!slow)
		return __real_runtime_attachment_try(a, work, stats, since_ns, now_ns);
	usleep(SLOW_US);
	attempts[a->process.tgid - 1]++;
	return RUNTIME_ATTACHMENT_UNCHANGED; /* and it stays due */
}

/* Reports that SLOW_PROCESSES processes map the file. Each is tried once. */
static void begin_slow(void)
{
	struct msg_mapped mapped = {
	    .module = MODULE, .exec_generation = 1, .start = 1 << 30, .end = (1 << 30) + (1 << 20)};

	slow = true;
	worker.role.strict_memory = true;
	cr_assert_eq(runtimes_init(&worker, table, false), 0);
	recognition_begin(&worker, BH_RUNTIMES_ALL);
	recognition_on_module(&worker, add_python(&worker, MODULE));
	for (mapped.tgid = 1; mapped.tgid <= SLOW_PROCESSES; mapped.tgid++) {
		const unsigned int *tried = &attempts[mapped.tgid - 1];

		/* The offset of the file's code is not known. */
		for (mapped.file_offset = 0; !*tried && mapped.file_offset < 64 << 20;
		     mapped.file_offset += 1 << 16)
			runtimes_on_mapped(&worker, &mapped);
		cr_assert_eq(*tried, 1);
	}
}

/* Messages and samples are handled in between, and no process is left out. */
Test(runtimes, a_tick_attaches_for_a_moment_and_the_next_one_goes_on)
{
	unsigned int sum = SLOW_PROCESSES;

	begin_slow();
	for (unsigned int tick = 0; tick < 3 * SLOW_PROCESSES; tick++) {
		const unsigned int before = sum;
		unsigned int least = UINT_MAX, most = 0;

		sum = 0;
		skipped_ns += NS_PER_S; /* so that there is time for attempts again */
		worker.role.loop.next_tick_ns = UINT64_MAX;
		runtimes_tick(&worker);
		for (unsigned int i = 0; i < SLOW_PROCESSES; i++) {
			least = attempts[i] < least ? attempts[i] : least;
			most = attempts[i] > most ? attempts[i] : most;
			sum += attempts[i];
		}
		cr_assert_gt(sum, before);
		cr_assert_leq(sum - before, 6, "in one tick: %u", sum - before);
		cr_assert_leq(most - least, 1);
		cr_assert_neq(worker.role.loop.next_tick_ns, UINT64_MAX, "it goes on");
	}
	runtimes_free(&worker);
}

Test(runtimes, all_attempts_have_a_share_of_the_time)
{
	unsigned int sum = 0, least = UINT_MAX;

	begin_slow();
	const uint64_t began_ns = clock_monotonic_ns();
	for (unsigned int tick = 0; tick < 300; tick++) {
		runtimes_tick(&worker);
		skipped_ns += NS_PER_MS;
	}
	const uint64_t passed_us = (clock_monotonic_ns() - began_ns) / 1000;
	for (unsigned int i = 0; i < SLOW_PROCESSES; i++) {
		least = attempts[i] < least ? attempts[i] : least;
		sum += attempts[i];
	}
	cr_expect_leq((uint64_t)sum * SLOW_US, 300000 + passed_us / 2);
	cr_expect_geq(least, 2);
	runtimes_free(&worker);
}

/* --- names that take long --- */

static uint32_t slow_to_name; /* a pid */

__typeof__(runtime_attachment_symbolize) __real_runtime_attachment_symbolize,
    __wrap_runtime_attachment_symbolize;

int __wrap_runtime_attachment_symbolize(struct runtime_attachment *a, struct process_work *work,
					bool readable, const struct memory_copies *copies,
					const uint64_t *words, struct named_frames *frames)
{
	if (!slow_to_name)
		return __real_runtime_attachment_symbolize(a, work, readable, copies, words,
							   frames);
	if (a->process.tgid == slow_to_name)
		skipped_ns += 10 * NS_PER_MS;
	frames->count = 1;
	frames->frames[0] = (struct named_frame){.function = "name", .file = ""};
	return 0;
}

Test(runtimes, a_process_that_takes_long_to_name_leaves_time_for_others)
{
	static struct named_frames frames;
	const uint64_t word[] = {bh_frame_managed(BH_RUNTIME_CPYTHON, 0x1000, 0), 0, 0, 0};
	struct msg_runtime stats[RUNTIME_ID_COUNT] = {0};
	struct managed_process *process, *other;
	unsigned int named = 0;

	begin_slow();
	slow_to_name = 1;
	process = runtimes_process(&worker, slow_to_name);
	other = runtimes_process(&worker, 2);
	/* Only attachments that are published are asked for names. */
	process->attachments[0]->state = RUNTIME_ATTACHMENT_PUBLISHED;
	other->attachments[0]->state = RUNTIME_ATTACHMENT_PUBLISHED;
	skipped_ns += 10 * NS_PER_S;
	while (runtimes_symbolize(&worker, process, word, &frames) == NAMES_FINAL)
		cr_assert_leq(named++, 30);
	cr_expect_geq(named, 10);
	cr_expect_eq(frames.count, 1);
	cr_expect_str_eq(frames.frames[0].function, "[Python: name not read in time]");
	runtimes_stats(&worker, stats);
	cr_expect_eq(stats[BH_RUNTIME_CPYTHON].named, named);
	cr_expect_eq(stats[BH_RUNTIME_CPYTHON].unnamed, 1);
	for (int i = 0; i < 100; i++) {
		cr_expect_eq(runtimes_symbolize(&worker, other, word, &frames), NAMES_FINAL);
		cr_expect_str_eq(frames.frames[0].function, "name");
	}
	skipped_ns += NS_PER_S;
	cr_expect_eq(runtimes_symbolize(&worker, process, word, &frames), NAMES_FINAL);
	runtimes_free(&worker);
}

/* On a loaded machine it takes long to get the CPU. */
Test(runtimes, a_process_pays_for_others_only_if_samples_wait)
{
	static struct named_frames frames;
	static uint64_t consumer, producer;
	const uint64_t word[] = {bh_frame_managed(BH_RUNTIME_CPYTHON, 0x1000, 0), 0, 0, 0};
	unsigned int named = 0;

	begin_slow();
	slow_to_name = 1;
	interrupted = true;
	struct managed_process *process = runtimes_process(&worker, slow_to_name);

	process->attachments[0]->state = RUNTIME_ATTACHMENT_PUBLISHED;
	skipped_ns += 10 * NS_PER_S;
	worker.ring =
	    (struct bpf_ring){.consumer = &consumer, .producer = &producer, .bytes = 8 << 10};
	producer = 1 << 10;
	producer--;
	for (int i = 0; i < 200; i++)
		cr_assert_eq(runtimes_symbolize(&worker, process, word, &frames), NAMES_FINAL);
	producer++;
	while (runtimes_symbolize(&worker, process, word, &frames) == NAMES_FINAL)
		cr_assert_leq(named++, 100);
	worker.ring = (struct bpf_ring){0};
	runtimes_free(&worker);
}

/* Naming may take 150 ms at once. Samples of deep stacks fill the ring within half a second. */
Test(runtimes, a_process_that_takes_long_to_name_waits_while_samples_may_get_lost)
{
	static struct named_frames frames;
	static uint64_t consumer, producer;
	const uint64_t word[] = {bh_frame_managed(BH_RUNTIME_CPYTHON, 0x1000, 0), 0, 0, 0};

	begin_slow();
	slow_to_name = 1;
	struct managed_process *process = runtimes_process(&worker, slow_to_name);
	struct managed_process *other = runtimes_process(&worker, 2);

	process->attachments[0]->state = RUNTIME_ATTACHMENT_PUBLISHED;
	other->attachments[0]->state = RUNTIME_ATTACHMENT_PUBLISHED;
	skipped_ns += 10 * NS_PER_S;
	worker.ring =
	    (struct bpf_ring){.consumer = &consumer, .producer = &producer, .bytes = 8 << 10};
	producer = 5 << 10;
	for (int i = 0; i < 3; i++)
		cr_expect_eq(runtimes_symbolize(&worker, process, word, &frames), NAMES_FINAL);
	cr_expect_eq(runtimes_symbolize(&worker, process, word, &frames), NAMES_SOON);
	cr_expect_eq(runtimes_symbolize(&worker, other, word, &frames), NAMES_FINAL);
	producer = 4 << 10;
	cr_expect_eq(runtimes_symbolize(&worker, process, word, &frames), NAMES_FINAL);
	worker.ring = (struct bpf_ring){0};
	runtimes_free(&worker);
}

/* --- a runtime whose names come with the samples --- */

static int attach_at_once(struct runtime_process *process)
{
	process->layout.ranges[0] = (struct runtime_range){.start = 1 << 20, .end = 2 << 20};
	process->layout.range_count = 1;
	return 0;
}

static int symbolize_nothing(struct runtime_process *process, const uint64_t *words,
			     struct named_frames *frames)
{
	(void)process;
	(void)words;
	(void)frames;
	return -ESTALE;
}

Test(runtimes, memory_that_is_not_needed_is_not_requested)
{
	static struct named_frames frames;
	const uint64_t word[] = {bh_frame_managed(BH_RUNTIME_CPYTHON, 0x1000, 0), 0, 0, 0};
	struct msg_runtime stats[RUNTIME_ID_COUNT] = {0};

	cr_assert_eq(runtimes_init(&worker, table, false), 0);
	recognition_begin(&worker, 1u << BH_RUNTIME_CPYTHON);
	recognition_on_module(&worker, add_python(&worker, MODULE));
	struct runtime_ops ops = *worker.runtimes->processes.images->ops;

	ops.without_memory = true;
	ops.expect = NULL;
	ops.attach = attach_at_once;
	ops.symbolize = symbolize_nothing;
	worker.runtimes->processes.images->ops = &ops;
	map(1);
	cr_expect_eq(fake_peer.attempts[MESSAGE_OPEN_MEMORY], 0);
	runtimes_on_watched(&worker);
	cr_expect_eq(runtimes_unsettled(&worker), 0);
	runtimes_stats(&worker, stats);
	cr_expect_eq(stats[BH_RUNTIME_CPYTHON].attached, 1);
	/* Its copy may come with a later stack. */
	cr_expect_eq(runtimes_symbolize(&worker, runtimes_process(&worker, (uint32_t)getpid()),
					word, &frames),
		     NAMES_LATER);
	runtimes_free(&worker);
}

/* --- answers of the opener --- */

static bool named_too_early; /* what the last answer returned */

/* Answers OPEN_MEMORY with this process's own memory, or with an error. Returns whether the
 * descriptor was taken. */
static bool answer_memory(uint32_t exec_generation, int error)
{
	const struct msg_memory answer = {.tgid = (uint32_t)getpid(),
					  .exec_generation = exec_generation,
					  .error = (uint32_t)error};
	const int fd = error ? -1 : open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	struct message message = {.type = MESSAGE_MEMORY,
				  .length = sizeof(answer),
				  .payload = &answer,
				  .fds = {fd},
				  .fd_count = !error};

	named_too_early = runtimes_on_memory(&worker, &message);
	const bool taken = !error && message.fds[0] < 0;
	if (!error && !taken)
		close(fd);
	return taken;
}

static void begin(void)
{
	cr_assert_eq(runtimes_init(&worker, table, false), 0);
	recognition_begin(&worker, 1u << BH_RUNTIME_CPYTHON);
	recognition_on_module(&worker, add_python(&worker, MODULE));
	map(1);
}

/* A child of vfork(2) has its parent's memory, until it executes a program. If the opener opens it
 * before that, the descriptor stays readable, and it is not the memory of the new program. */
Test(runtimes, memory_that_was_opened_before_an_exec_is_not_used)
{
	begin();
	map(2);
	cr_expect_eq(fake_peer.attempts[MESSAGE_OPEN_MEMORY], 2);
	cr_expect_not(answer_memory(1, 0));
	cr_expect_not(would_be_read());
	cr_expect(answer_memory(2, 0));
	cr_expect(would_be_read());
	runtimes_free(&worker);
}

Test(runtimes, memory_is_requested_again_if_the_answer_found_no_room)
{
	begin();
	cr_expect_not(answer_memory(1, ENOBUFS));
	cr_expect_eq(fake_peer.attempts[MESSAGE_OPEN_MEMORY], 1);
	usleep(30 * 1000);
	runtimes_tick(&worker);
	cr_expect_eq(fake_peer.attempts[MESSAGE_OPEN_MEMORY], 2);
	cr_expect(answer_memory(1, 0));
	cr_expect(would_be_read());
	runtimes_free(&worker);
}

static uint64_t refused(void)
{
	struct msg_runtime stats[RUNTIME_ID_COUNT] = {0};

	runtimes_stats(&worker, stats);
	return stats[BH_RUNTIME_CPYTHON].refused;
}

/* The manager may have withdrawn its permission when the request arrives. */
Test(runtimes, memory_of_a_process_that_has_ended_counts_as_no_refusal)
{
	begin();
	cr_expect_not(answer_memory(1, ESRCH));
	cr_expect_eq(refused(), 0);
	cr_expect_not(would_be_read());
	cr_expect_eq(fake_peer.attempts[MESSAGE_OPEN_MEMORY], 1);
	/* Its next program is asked for again. */
	map(2);
	cr_expect_eq(fake_peer.attempts[MESSAGE_OPEN_MEMORY], 2);
	cr_expect_not(answer_memory(2, EACCES));
	cr_expect_eq(refused(), 1);
	runtimes_free(&worker);
}

/* Sampling waits until it is known what the processes that run already have. */
Test(runtimes, are_settled_when_every_process_was_tried)
{
	cr_assert_eq(runtimes_init(&worker, table, false), 0);
	recognition_begin(&worker, 1u << BH_RUNTIME_CPYTHON);
	cr_expect_eq(runtimes_unsettled(&worker), 0);
	recognition_on_module(&worker, add_python(&worker, MODULE));
	cr_expect_eq(runtimes_unsettled(&worker), 1, "the processes that map it are not known");
	map(1);
	runtimes_on_watched(&worker);
	cr_expect_eq(runtimes_unsettled(&worker), 1, "its memory was asked for");
	cr_expect(answer_memory(1, 0));
	cr_expect_eq(runtimes_unsettled(&worker), 0, "it cannot be attached yet");
	runtimes_free(&worker);
}

Test(runtimes, are_settled_without_memory_that_is_refused)
{
	begin();
	runtimes_on_watched(&worker);
	cr_expect_not(answer_memory(1, EACCES));
	cr_expect_eq(runtimes_unsettled(&worker), 0);
	runtimes_free(&worker);
}

/* The kernel side may walk managed frames of a process before its memory is open. A name that was
 * not found then must not stay. */
Test(runtimes, samples_wait_for_memory_and_their_names_do_not_stay_missing)
{
	const uint32_t self = (uint32_t)getpid();

	begin();
	const uint64_t without = runtimes_names_generation(runtimes_process(&worker, self));
	cr_expect(runtimes_must_wait(&worker, self));
	cr_expect_not(runtimes_must_wait(&worker, self + 1), "it is not known");
	cr_expect(answer_memory(1, 0));
	cr_expect_not(runtimes_must_wait(&worker, self));
	cr_expect_neq(runtimes_names_generation(runtimes_process(&worker, self)), without);
	runtimes_free(&worker);
}

Test(runtimes, samples_do_not_wait_for_an_opener_without_answers)
{
	begin();
	cr_expect(runtimes_must_wait(&worker, (uint32_t)getpid()));
	usleep(110 * 1000);
	cr_expect_not(runtimes_must_wait(&worker, (uint32_t)getpid()));
	runtimes_free(&worker);
}

Test(runtimes, samples_do_not_wait_for_memory_that_is_refused)
{
	begin();
	cr_expect_not(answer_memory(1, EACCES));
	cr_expect_not(runtimes_must_wait(&worker, (uint32_t)getpid()));
	runtimes_free(&worker);
}

/* The kernel side refers to stacks that were named too early, and has to send them again. */
Test(runtimes, say_that_frames_were_named_before_the_memory_came)
{
	static struct named_frames frames;
	const uint64_t word[] = {bh_frame_managed(BH_RUNTIME_CPYTHON, 0x1000, 0), 0, 0, 0};
	struct managed_process *process;

	begin();
	cr_expect(answer_memory(1, 0));
	cr_expect_not(named_too_early, "nothing was named");
	map(2);
	process = runtimes_process(&worker, (uint32_t)getpid());
	runtimes_symbolize(&worker, process, word, &frames);
	cr_expect_str_eq(frames.frames[0].function, "[Python: process ended]");
	cr_expect(answer_memory(2, 0));
	cr_expect(named_too_early);
	runtimes_symbolize(&worker, process, word, &frames);
	map(3);
	cr_expect(answer_memory(3, 0));
	cr_expect_not(named_too_early, "the memory of the program before was there");
	runtimes_free(&worker);
}

/* --- processes and files on which an earlier worker hung or died --- */

static struct work_page page;

static void leave_alone(const struct quarantine_key *key)
{
	worker.role.work_page = worker.modules.work_page = &page;
	quarantine_add(&page.quarantine, key, clock_monotonic_ns());
}

Test(runtimes, memory_of_a_process_that_is_left_alone_is_not_read)
{
	const struct quarantine_key process = {QUARANTINE_PROCESS, {(uint32_t)getpid()}};
	const uint64_t word[] = {bh_frame_managed(BH_RUNTIME_CPYTHON, 0x1000, 0), 0, 0, 0};
	static struct named_frames frames;

	worker.role.strict_memory = true;
	leave_alone(&process);
	cr_assert_eq(runtimes_init(&worker, table, false), 0);
	recognition_begin(&worker, BH_RUNTIMES_ALL);
	recognition_on_module(&worker, add_python(&worker, MODULE));
	map(1);
	struct managed_process *managed = runtimes_process(&worker, (uint32_t)getpid());
	cr_expect_not(managed->attachments[0]->tried);
	managed->attachments[0]->state = RUNTIME_ATTACHMENT_PUBLISHED;
	cr_expect_eq(runtimes_symbolize(&worker, managed, word, &frames), NAMES_LATER);
	cr_expect_eq(frames.count, 1);
	cr_expect_str_eq(frames.frames[0].function, "[Python: process left alone]");
	cr_expect_eq(page.subject.tgid, 0, "it was not worked on");
	page.quarantine = (struct quarantine){0};
	managed->attachments[0]->state = RUNTIME_ATTACHMENT_WANTED;
	runtimes_tick(&worker);
	cr_expect(managed->attachments[0]->tried);
	cr_expect_eq(page.subject.tgid, getpid());
	cr_expect_eq(page.working, 0);
}
