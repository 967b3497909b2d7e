/* SPDX-License-Identifier: Apache-2.0 */
/* Maps of generated code in the worker: when one is asked for, how long samples wait, and which
 * names frames have. The opener is the test; the maps are files that it writes. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/time_units.h"
#include "symbolizer/worker/jit_maps.h"
#include "symbolizer/worker/limits.h"
#include "symbolizer/worker/worker.h"
#include "tests/support/fake_peer.h"
#include "tests/support/timespec_add.h"

enum {
	TGID = 42,
	OTHER = 43,
};

static struct worker worker;
static struct bh_worker_control control;
static struct msg_open_jit_map asked; /* the last request */
static int refusal;
static uint64_t later_ns; /* how much later it is than it really is */
static int64_t set_by_s;  /* how far somebody has set the clock forward */
static char path[] = "/tmp/unit-jit_maps-XXXXXX";
static int map = -1; /* the file */
static bool is_dump;
static uint64_t sample_ns; /* when the stack was sampled */

static int on_send(enum message_type type, const void *payload, size_t length)
{
	if (type != MESSAGE_OPEN_JIT_MAP)
		return 0;
	cr_assert_eq(length, sizeof(asked));
	memcpy(&asked, payload, length);
	return refusal;
}

FAKE_PEER(on_send);

int __real_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
	const int r = __real_clock_gettime(clock, time);

	timespec_add(time, later_ns);
	time->tv_sec += clock == CLOCK_REALTIME ? set_by_s : 0;
	return r;
}

static void setup(void)
{
	cr_assert_eq(worker_init(&worker, false), 0);
	worker.control = &control;
	worker.naming_until_ns = 1;
	map = mkstemp(path);
	cr_assert_geq(map, 0);
}

static void teardown(void)
{
	worker_fini(&worker);
	close(map);
	unlink(path);
}

TestSuite(jit_maps, .init = setup, .fini = teardown);

static unsigned int asks(void)
{
	return fake_peer.attempts[MESSAGE_OPEN_JIT_MAP];
}

/* Selects the map for a stack with one frame. */
static uint64_t select_for(uint32_t tgid, uint64_t start_ns, uint64_t frame)
{
	const struct bh_sample header = {
	    .tgid = tgid, .process_start_ns = start_ns, .time_ns = sample_ns, .user_count = 1};

	return jit_maps_select(&worker, &header, &frame);
}

static uint64_t select_map(void)
{
	return select_for(TGID, 0, bh_frame_raw(0x1000));
}

static void write_map(const char *text)
{
	cr_assert_eq(write(map, text, strlen(text)), (ssize_t)strlen(text));
}

/* Lets the opener answer. Returns whether the descriptor was taken. */
static bool answer_with(uint32_t tgid, uint32_t cookie, int fd)
{
	struct msg_jit_map answer = {
	    .tgid = tgid, .cookie = cookie, .error = fd < 0 ? ENOENT : 0, .is_dump = is_dump};
	struct message message = {
	    .payload = (void *)&answer, .length = sizeof(answer), .fd_count = fd >= 0, .fds = {fd}};

	jit_maps_on_answer(&worker, &message);
	const bool taken = fd >= 0 && message.fds[0] == -1;
	if (fd >= 0 && !taken)
		close(fd);
	return taken;
}

static void open_map(void)
{
	select_map();
	cr_assert(answer_with(TGID, asked.cookie, open(path, O_RDONLY | O_CLOEXEC)));
	jit_maps_tick(&worker);
}

/* Finds a name. Returns "none" if that is final, "later" if not, "wait" if the sample has to. */
static const char *find(uint64_t address)
{
	struct jit_name found;

	select_map();
	const int r = jit_maps_find(&worker, address, &found);
	const char *name = found.name;
	if (r < 0) {
		cr_expect_eq(r, -EAGAIN);
		return "wait";
	}
	cr_expect(!name || r == NAMES_FINAL);
	return name ? name : r == NAMES_FINAL ? "none" : "later";
}

static void later(uint64_t ms)
{
	later_ns += ms * NS_PER_MS;
	jit_maps_tick(&worker);
}

Test(jit_maps, are_asked_for_if_a_stack_has_generated_code)
{
	cr_expect_eq(select_for(TGID, 0, 5ull << BH_FRAME_OFFSET_BITS | 16), 0);
	cr_expect_eq(select_for(TGID, 0, bh_frame_raw(BH_VSYSCALL_PAGE << 12 | 0x400)), 0);
	cr_expect_eq(asks(), 0);
	select_map();
	cr_expect_eq(asks(), 1);
	cr_expect_eq(asked.tgid, TGID);
	select_map();
	cr_expect_eq(asks(), 1, "once");
	select_for(OTHER, 0, bh_frame_raw(0x1000));
	cr_expect_eq(asks(), 2);
	cr_expect_eq(asked.tgid, OTHER);
}

Test(jit_maps, give_names)
{
	write_map("1000 10 f\n1010 20 g\n");
	cr_expect_str_eq(find(0x1000), "wait");
	open_map();
	cr_expect_neq(select_map(), 0);
	cr_expect_str_eq(find(0x100f), "f");
	cr_expect_str_eq(find(0x1010), "g");
	cr_expect_str_eq(find(0x1030), "later");
}

Test(jit_maps, that_do_not_exist_are_asked_for_again_later)
{
	select_map();
	answer_with(TGID, asked.cookie, -1);
	cr_expect_str_eq(find(0x1000), "none");
	cr_expect_eq(select_map(), 0);
	cr_expect_eq(asks(), 1);
	later(LIMIT_JIT_RETRY_MS);
	cr_expect_eq(select_map(), 0);
	cr_expect_eq(asks(), 2);
	cr_expect_str_eq(find(0x1000), "later", "nobody waits again");
}

Test(jit_maps, are_waited_for_a_moment)
{
	cr_expect_str_eq(find(0x1000), "wait");
	cr_expect(worker.naming_waits);
	for (int i = 0; i < 3; i++) {
		cr_expect_str_eq(find(0x1000), "wait", "try %d", i);
		later(40);
	}
	later(80);
	cr_expect_str_eq(find(0x1000), "later");
	cr_expect_eq(asks(), 1);
	cr_expect_str_eq(find(0x1000), "later", "nobody waits again");
	answer_with(TGID, asked.cookie, -1);
	cr_expect_str_eq(find(0x1000), "none");
}

/* Of the sample that had it asked for, the frames before may take long: those of a large file that
 * is read from a slow disk. The answer is there then, but was not handled yet. */
Test(jit_maps, are_waited_for_however_long_the_worker_was_busy)
{
	select_map();
	later(1000);
	cr_expect_str_eq(find(0x1000), "wait");
	later(1000);
	cr_expect_str_eq(find(0x1000), "wait", "the answer may be the next message");
	write_map("1000 10 f\n");
	open_map();
	cr_expect_str_eq(find(0x1000), "f");
}

/* Samples of the manager, which cannot wait, are described before. */
Test(jit_maps, are_waited_for_after_samples_that_cannot_wait)
{
	worker.naming_until_ns = 0;
	cr_expect_str_eq(find(0x1000), "later", "the same stack is described again");
	later_ns += NS_PER_S;
	worker.naming_until_ns = 1;
	cr_expect_str_eq(find(0x1000), "wait");
}

Test(jit_maps, are_not_waited_for_by_samples_of_the_manager)
{
	worker.naming_until_ns = 0;
	cr_expect_str_eq(find(0x1000), "later");
	write_map("1000 10 f\n");
	open_map();
	cr_expect(worker.jit_maps.changed, "so that they come again");
	cr_expect_str_eq(find(0x1000), "f");
}

/* They are read at once for such samples. */
Test(jit_maps, are_read_for_samples_that_cannot_wait)
{
	worker.naming_until_ns = 0;
	write_map("1000 10 f\n");
	select_map();
	cr_assert(answer_with(TGID, asked.cookie, open(path, O_RDONLY | O_CLOEXEC)));
	cr_expect_str_eq(find(0x1000), "f");
}

/* However many programs it executes, one after the other. */
Test(jit_maps, are_waited_for_in_a_share_of_the_time)
{
	unsigned int waits = 0;

	for (uint64_t start_ns = 1; start_ns <= 100; start_ns++) {
		struct jit_name name;

		select_for(TGID, start_ns, bh_frame_raw(0x1000));
		waits += jit_maps_find(&worker, 0x1000, &name) == -EAGAIN;
		for (int i = 0; i < 4; i++) {
			later(50);
			jit_maps_find(&worker, 0x1000, &name);
		}
	}
	cr_expect_geq(waits, 5);
	cr_expect_leq(waits, 25, "%u", waits);
}

Test(jit_maps, are_read_on_while_they_grow)
{
	write_map("1000 10 f\n1010 10");
	open_map();
	cr_expect_str_eq(find(0x1000), "f");
	cr_expect_str_eq(find(0x1010), "later");
	write_map(" g\n");
	cr_expect_str_eq(find(0x1010), "later", "not for each address that is not in it");
	later_ns += 200 * NS_PER_MS;
	cr_expect_str_eq(find(0x1010), "g", "but soon");
	write_map("1020 10 h\n");
	later(2000);
	cr_expect_str_eq(find(0x1020), "h", "at a tick");
}

Test(jit_maps, have_another_generation_when_code_is_replaced)
{
	write_map("1000 10 f\n1010 10 g\n");
	open_map();
	const uint64_t generation = select_map();
	const uint64_t f = jit_maps_name_id(&worker.jit_maps, 0x1000),
		       g = jit_maps_name_id(&worker.jit_maps, 0x1010);
	cr_expect_neq(f, g);
	write_map("2000 10 h\n");
	later(2000);
	cr_expect_eq(select_map(), generation);
	write_map("1000 10 other\n");
	worker.jit_maps.changed = false;
	later(2000);
	cr_expect_neq(select_map(), generation);
	cr_expect(worker.jit_maps.changed);
	cr_expect_str_eq(find(0x1000), "other");
	cr_expect_neq(jit_maps_name_id(&worker.jit_maps, 0x1000), f);
	cr_expect_eq(jit_maps_name_id(&worker.jit_maps, 0x1010), g);
}

Test(jit_maps, that_are_truncated_are_read_again)
{
	write_map("1000 10 f\n1010 10 g\n");
	open_map();
	cr_assert_eq(ftruncate(map, 0), 0);
	cr_assert_eq(lseek(map, 0, SEEK_SET), 0);
	write_map("1000 10 h\n");
	later(2000);
	cr_expect_str_eq(find(0x1000), "h");
	cr_expect_str_eq(find(0x1010), "later");
}

Test(jit_maps, of_a_process_are_not_those_of_its_successor)
{
	write_map("1000 10 f\n");
	open_map();
	cr_expect_neq(select_map(), 0);
	cr_expect_eq(select_for(TGID, 7, bh_frame_raw(0x1000)), 0, "another process");
	cr_expect_eq(asks(), 2);
}

/* The opener hung on files of this user in this container before. */
Test(jit_maps, are_asked_for_with_the_container)
{
	const struct msg_process process = {.tgid = TGID, .container = 9};

	processes_announce(&worker.processes, &process);
	select_map();
	cr_expect_eq(asked.container, 9);
}

Test(jit_maps, of_a_program_are_not_those_of_the_next_one)
{
	struct msg_process process = {.tgid = TGID, .exec_generation = 3};

	processes_announce(&worker.processes, &process);
	write_map("1000 10 f\n");
	open_map();
	cr_expect_neq(select_map(), 0);
	process.exec_generation = 4;
	processes_announce(&worker.processes, &process);
	cr_expect_eq(select_map(), 0);
	cr_expect_eq(asks(), 2);
}

Test(jit_maps, that_are_older_than_the_process_are_not_used)
{
	struct timespec boot;
	const struct timespec old[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = time(NULL) - 60}};

	write_map("1000 10 f\n");
	cr_assert_eq(futimens(map, old), 0);
	__real_clock_gettime(CLOCK_BOOTTIME, &boot);
	select_for(TGID, (uint64_t)boot.tv_sec * NS_PER_S - 30 * NS_PER_S, bh_frame_raw(0x1000));
	cr_expect_not(answer_with(TGID, asked.cookie, open(path, O_RDONLY | O_CLOEXEC)));
	select_for(OTHER, (uint64_t)boot.tv_sec * NS_PER_S - 90 * NS_PER_S, bh_frame_raw(0x1000));
	cr_expect(answer_with(OTHER, asked.cookie, open(path, O_RDONLY | O_CLOEXEC)));
}

/* It may be older than the process: somebody has set the clock back since it was written. */
Test(jit_maps, that_are_from_the_future_are_not_used)
{
	const struct timespec future[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = time(NULL) + 60}};

	write_map("1000 10 f\n");
	cr_assert_eq(futimens(map, future), 0);
	select_for(TGID, 0, bh_frame_raw(0x1000));
	cr_expect_not(answer_with(TGID, asked.cookie, open(path, O_RDONLY | O_CLOEXEC)));
	/* Its process goes on writing it. */
	write_map("1000 10 f\n2000 10 g\n");
	cr_assert_eq(futimens(map, NULL), 0);
	select_for(OTHER, 0, bh_frame_raw(0x1000));
	cr_expect(answer_with(OTHER, asked.cookie, open(path, O_RDONLY | O_CLOEXEC)));
}

/* Gives the map a time by the clock, and lets the opener answer for a process that started at this
 * boot time. Returns whether the map was taken. */
static bool is_taken(uint32_t tgid, time_t written, uint64_t start_ns)
{
	const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = written}};

	cr_assert_eq(futimens(map, times), 0);
	later_ns += LIMIT_JIT_RETRY_MS * NS_PER_MS;
	select_for(tgid, start_ns, bh_frame_raw(0x1000));
	return answer_with(tgid, asked.cookie, open(path, O_RDONLY | O_CLOEXEC));
}

Test(jit_maps, are_used_after_the_clock_was_set_forward)
{
	const time_t now = time(NULL);
	const uint64_t boot_ns = clock_boot_ns();

	write_map("1000 10 f\n");
	jit_maps_tick(&worker);
	set_by_s = 7200;
	jit_maps_tick(&worker);
	cr_expect_not(is_taken(TGID, now - 60, boot_ns - 30 * NS_PER_S));
	cr_expect(is_taken(OTHER, now - 60, boot_ns - 90 * NS_PER_S));
}

/* When the clock comes to the time of the map again, it still is that of another process. */
Test(jit_maps, of_another_process_stay_unused_after_the_clock_was_set_back)
{
	const time_t now = time(NULL);
	const uint64_t boot_ns = clock_boot_ns();

	write_map("1000 10 f\n");
	jit_maps_tick(&worker);
	set_by_s = -3600;
	jit_maps_tick(&worker);
	cr_expect_not(is_taken(TGID, now - 60, boot_ns - 10 * NS_PER_S));
	later_ns += 3600 * NS_PER_S;
	cr_expect_not(is_taken(TGID, now - 60, boot_ns - 10 * NS_PER_S));
	/* It writes its own. */
	cr_expect(is_taken(TGID, now - 50, boot_ns - 10 * NS_PER_S));
}

Test(jit_maps, only_the_answer_to_the_request_counts)
{
	select_map();
	cr_expect_not(answer_with(TGID, asked.cookie + 1, open(path, O_RDONLY | O_CLOEXEC)));
	cr_expect_not(answer_with(OTHER, asked.cookie, open(path, O_RDONLY | O_CLOEXEC)));
	cr_expect(answer_with(TGID, asked.cookie, open(path, O_RDONLY | O_CLOEXEC)));
	cr_expect_not(answer_with(TGID, asked.cookie, open(path, O_RDONLY | O_CLOEXEC)));
}

Test(jit_maps, of_processes_that_ended_are_dropped_later)
{
	write_map("1000 10 f\n");
	open_map();
	jit_maps_on_process_gone(&worker, TGID);
	later(1000);
	cr_expect_str_eq(find(0x1000), "f", "samples are still in the ring");
	later(20000);
	cr_expect_eq(worker.jit_maps.count, 0);
	cr_expect_eq(worker.jit_maps.bytes, 0);
}

Test(jit_maps, have_a_cap)
{
	for (uint32_t tgid = 1; tgid <= 3 * LIMIT_JIT_MAPS; tgid++)
		select_for(tgid, 0, bh_frame_raw(0x1000));
	cr_expect_eq(worker.jit_maps.count, LIMIT_JIT_MAPS);
	cr_expect_eq(asks(), 3 * LIMIT_JIT_MAPS);
}

/* Those so far may be of code that was replaced since. */
Test(jit_maps, with_too_many_names_have_the_last_ones)
{
	FILE *file = fopen(path, "w");

	for (unsigned int i = 0; i < LIMIT_JIT_ENTRIES + 1000; i++)
		fprintf(file, "%x 8 f%u\n", 0x1000 + 16 * i, i);
	fprintf(file, "100 10 last\n");
	fclose(file);
	open_map();
	for (int i = 0; i < 1000 && strcmp(find(0x100), "last"); i++)
		later(100);
	cr_expect_str_eq(find(0x100), "last");
	cr_expect_str_eq(find(0x1000), "later", "it is not there any more");
	cr_expect_leq(worker.jit_maps.bytes, 16 << 20);
}

/* A record of a jitdump: code at 0x1000. */
struct load {
	uint32_t kind, bytes;
	uint64_t time_ns, ids, vma, start, size, index;
	char name[8];
};

static void write_dump(const struct load *loads, size_t count)
{
	static const uint32_t header[10] = {0x4a695444, 1, 40, 62};

	cr_assert_eq(write(map, header, sizeof(header)), sizeof(header));
	cr_assert_eq(write(map, loads, count * sizeof(*loads)), (ssize_t)(count * sizeof(*loads)));
	is_dump = true;
	open_map();
}

/* tests/unit/symbolizer/test_jit_file.c has what is in such a file. */
Test(jit_maps, may_be_jitdump_files)
{
	const struct load load = {0, 64, 1, 0, 0, 0x1000, 16, 7, "f"};

	write_dump(&load, 1);
	cr_expect_str_eq(find(0x1008), "f");
	write_map("1010 10 g\n");
	later(2000);
	cr_expect_str_eq(find(0x1010), "later", "it is no map");
}

/* Also if stacks with the same words come before and after each other. */
Test(jit_maps, name_code_by_the_time_of_the_sample)
{
	const struct load loads[] = {{0, 64, 100, 0, 0, 0x1000, 16, 7, "f"},
				     {0, 64, 200, 0, 0, 0x1000, 16, 8, "g"}};

	write_dump(loads, 2);
	sample_ns = 150;
	const uint64_t before = select_map();
	const uint64_t f = jit_maps_name_id(&worker.jit_maps, 0x1000);
	cr_expect_str_eq(find(0x1000), "f");
	sample_ns = 200;
	const uint64_t after = select_map();
	cr_expect_str_eq(find(0x1000), "g");
	cr_expect_neq(jit_maps_name_id(&worker.jit_maps, 0x1000), f);
	cr_expect_neq((uint32_t)before, (uint32_t)after, "the key of a stack has 32 bits of it");
	sample_ns = 300;
	cr_expect_eq(select_map(), after);
	sample_ns = 101;
	cr_expect_eq(select_map(), before);
}

/* A process with few names keeps them. */
Test(jit_maps, with_the_most_names_are_dropped_first)
{
	write_map("1000 10 f\n");
	open_map();
	for (uint32_t tgid = 100; tgid < 112; tgid++) {
		cr_assert_eq(unlink(path), 0);
		FILE *file = fopen(path, "w");
		for (unsigned int i = 0; i < LIMIT_JIT_ENTRIES - 1; i++)
			fprintf(file, "%x 8 a name that is as long as that of a method %u\n",
				0x1000 + 16 * i, i);
		fclose(file);
		select_for(tgid, 0, bh_frame_raw(0x1000));
		cr_assert(answer_with(tgid, asked.cookie, open(path, O_RDONLY | O_CLOEXEC)));
		for (int i = 0; i < 100; i++) {
			later(100);
			cr_assert_leq(worker.jit_maps.bytes, LIMIT_JIT_BYTES);
		}
	}
	cr_expect_gt(worker.jit_maps.bytes, 8 << 20);
	cr_expect_str_eq(find(0x1000), "f");
}
