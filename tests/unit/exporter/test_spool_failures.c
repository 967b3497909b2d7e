/* SPDX-License-Identifier: Apache-2.0 */
/* The spool on disks that fail, and in processes that are killed. */
#include <criterion/criterion.h>
#include <criterion/logging.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/exporter/spool_harness.h"

/* Disks that fail. */

static void expect_recovery(struct harness *harness, int error, void (*mend)(struct harness *))
{
	put_all(harness, 1, 20, 100000);
	cr_expect_eq(spool_keep(harness->spool, harness_now(harness)), -error);
	cr_expect_eq(harness_stats(harness).disk_error, error);
	put_all(harness, 21, 21, 1000);
	mend(harness);
	/* The next attempt is not made at once. */
	harness->now += second;
	cr_expect_eq(spool_keep(harness->spool, harness_now(harness)), -error);
	harness->now += 10 * second;
	cr_expect_eq(spool_keep(harness->spool, harness_now(harness)), 0);
	cr_expect_eq(harness_stats(harness).disk_error, 0);
	cr_expect_eq(harness_stats(harness).memory_bytes, 0);
	harness_reopen(harness);
	expect_all(harness, 1, 21);
	expect_empty(harness);
	expect_nothing_lost(harness);
}

static void mend_size(struct harness *harness)
{
	const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};

	(void)harness;
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &none), 0);
}

/* The eleventh record is torn, in a segment that has good ones. */
Test(spool, a_file_size_limit_keeps_records_in_memory)
{
	const struct rlimit limit = {900000, RLIM_INFINITY};
	struct harness harness;

	signal(SIGXFSZ, SIG_IGN);
	harness_start(&harness, true);
	/* The memory is below that limit as well. */
	put_all(&harness, 1, 10, 100000);
	cr_assert_eq(spool_keep(harness.spool, harness_now(&harness)), 0);
	put_all(&harness, 11, 15, 100000);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	cr_expect_eq(spool_keep(harness.spool, harness_now(&harness)), -EFBIG);
	cr_expect_eq(harness_stats(&harness).disk_error, EFBIG);
	struct stat st;
	cr_assert_eq(stat(segments_of(&harness).paths[0], &st), 0);
	cr_expect_eq((uint64_t)st.st_size, harness_stats(&harness).disk_bytes, "nothing torn is left");
	cr_expect_eq(harness_stats(&harness).records, 15);
	harness_reopen(&harness);
	cr_expect_eq(harness_stats(&harness).records, 15);
	mend_size(&harness);
	put_all(&harness, 16, 16, 100000);
	cr_expect_eq(spool_keep(harness.spool, harness_now(&harness)), 0);
	expect_all(&harness, 1, 16);
	expect_empty(&harness);
	expect_nothing_lost(&harness);
	harness_end(&harness);
}

static void mend_tmpfs(struct harness *harness)
{
	cr_assert_eq(mount("tmpfs", harness->directory, "tmpfs", MS_REMOUNT, "size=16m"), 0);
}

Test(spool, a_full_file_system_keeps_records_in_memory)
{
	struct harness harness;

	harness_start(&harness, true);
	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("tmpfs", harness.directory, "tmpfs", 0, "size=600k")) {
		harness_end(&harness);
		cr_log_warn("full_file_system: SKIPPED, a tmpfs cannot be mounted here");
		cr_skip_test("a tmpfs cannot be mounted here");
	}
	harness_reopen(&harness);
	expect_recovery(&harness, ENOSPC, mend_tmpfs);
	harness_reopen(&harness);
	each_file(&harness, remove_file);
	umount2(harness.directory, MNT_DETACH);
	harness_end(&harness);
}

/* On a full file system and with a full memory, the oldest of the memory goes. */
Test(spool, a_full_file_system_and_memory_drop_the_oldest)
{
	struct harness harness;
	uint64_t got = 0;

	harness_start(&harness, true);
	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("tmpfs", harness.directory, "tmpfs", 0, "size=300k")) {
		harness_end(&harness);
		cr_log_warn("full_file_system_and_full_memory: SKIPPED, no tmpfs");
		cr_skip_test("a tmpfs cannot be mounted here");
	}
	harness.config.memory_bytes_max = 300000;
	harness_reopen(&harness);
	for (uint64_t id = 1; id <= 60; id++) {
		harness.now += second;
		cr_assert_eq(put(&harness, id, 20000, true), 0);
		cr_assert_leq(harness_stats(&harness).memory_bytes, 300000);
	}
	cr_expect_eq(harness_stats(&harness).disk_error, ENOSPC);
	for (uint64_t id; (id = take(&harness));)
		got += id;
	cr_expect_eq(got + harness_stats(&harness).dropped_full_samples, 1830);
	cr_expect_eq(harness_stats(&harness).damaged_records, 0);
	umount2(harness.directory, MNT_DETACH);
	harness_end(&harness);
}

/* Replaces the C library's function, to simulate disks that accept all data but cannot sync it. */
static int sync_error;

int fdatasync(int fd)
{
	errno = sync_error;
	return sync_error ? -1 : (int)syscall(SYS_fdatasync, fd);
}

static void mend_sync(struct harness *harness)
{
	(void)harness;
	sync_error = 0;
}

Test(spool, a_disk_that_cannot_sync_keeps_records_in_memory)
{
	struct harness harness;

	harness_start(&harness, true);
	sync_error = EIO;
	expect_recovery(&harness, EIO, mend_sync);
	/* The same with a segment that has good records. */
	put_all(&harness, 1, 2, 1000);
	cr_assert_eq(spool_keep(harness.spool, harness_now(&harness)), 0);
	put_all(&harness, 3, 4, 1000);
	sync_error = EIO;
	cr_expect_eq(spool_keep(harness.spool, harness_now(&harness)), -EIO);
	struct stat st;
	cr_assert_eq(stat(segments_of(&harness).paths[0], &st), 0);
	cr_expect_eq((uint64_t)st.st_size, harness_stats(&harness).disk_bytes);
	cr_expect_eq(harness_stats(&harness).records, 4);
	sync_error = 0;
	harness_reopen(&harness);
	cr_expect_eq(harness_stats(&harness).records, 4);
	cr_assert_eq(spool_keep(harness.spool, harness_now(&harness)), 0);
	expect_all(&harness, 1, 4);
	expect_empty(&harness);
	expect_nothing_lost(&harness);
	harness_end(&harness);
}

static void mend_mode(struct harness *harness)
{
	cr_assert_eq(chmod(harness->directory, 0700), 0);
}

Test(spool, a_directory_without_permission_is_tried_again)
{
	const uid_t uid = geteuid();
	struct harness harness;
	char cursor[128];

	if (uid == 0)
		cr_assert_eq(seteuid(65534), 0);
	harness_start(&harness, true);
	cr_assert_eq(chmod(harness.directory, 0500), 0);
	snprintf(cursor, sizeof(cursor), "%s/cursor", harness.directory);
	cr_assert_eq(unlink(cursor), -1);
	harness_reopen(&harness);
	cr_expect_eq(harness_stats(&harness).disk_error, 0, "the cursor can be written");
	expect_recovery(&harness, EACCES, mend_mode);
	cr_assert_eq(unlink(cursor), 0);
	cr_assert_eq(chmod(harness.directory, 0500), 0);
	harness_reopen(&harness);
	cr_expect_eq(harness_stats(&harness).disk_error, EACCES, "known at once");
	/* The spool notices by itself that the directory can be written again. */
	mend_mode(&harness);
	harness.now += second;
	spool_expire(harness.spool, harness_now(&harness));
	cr_expect_eq(harness_stats(&harness).disk_error, EACCES);
	harness.now += 9 * second;
	spool_expire(harness.spool, harness_now(&harness));
	cr_expect_eq(harness_stats(&harness).disk_error, 0);
	/* LeakSanitizer must be able to trace this process. */
	cr_assert(seteuid(uid) == 0 && prctl(PR_SET_DUMPABLE, 1) == 0);
	harness_end(&harness);
}

Test(spool, a_removed_directory_is_reported)
{
	struct harness harness;

	harness_start(&harness, true);
	each_file(&harness, remove_file);
	cr_assert_eq(rmdir(harness.directory), 0);
	put_all(&harness, 1, 3, 1000);
	cr_expect_eq(spool_keep(harness.spool, harness_now(&harness)), -ENOENT);
	cr_expect_eq(harness_stats(&harness).disk_error, ENOENT);
	expect_all(&harness, 1, 3);
	expect_empty(&harness);
	spool_close(harness.spool);
	close(harness.memory_fd);
}

/* Processes that are killed. */

/* Killed after records were moved to disk and before they are removed from memory, and at every step before. */
Test(spool, killed_while_moving_records_loses_none)
{
	static uint8_t memory[FILE_BYTES_MAX], segment[FILE_BYTES_MAX];
	struct harness harness;

	harness_start(&harness, true);
	put_all(&harness, 1, 5, 300);
	size_t memory_length = file_read(harness.memory_fd, memory);
	cr_assert_eq(spool_keep(harness.spool, harness_now(&harness)), 0);
	char path[128];
	memcpy(path, segments_of(&harness).paths[0], sizeof(path));
	size_t length = path_read(path, segment);
	for (size_t done = 0; done <= length; done += 11) {
		each_file(&harness, remove_file);
		if (done)
			path_write(path, segment, done);
		file_write(harness.memory_fd, memory, memory_length);
		harness_reopen(&harness);
		cr_expect_eq(harness_stats(&harness).records, 5, "%zu of %zu bytes", done, length);
		put_all(&harness, 6, 6, 300);
		if (done % 2)
			cr_assert_eq(spool_keep(harness.spool, harness_now(&harness)), 0);
		expect_all(&harness, 1, 6);
		expect_empty(&harness);
		expect_nothing_lost(&harness);
	}
	harness_end(&harness);
}

/* Progress that children report to their parent, before and after each step. */
struct progress {
	uint64_t put_begun, put_ended;	 /* ids */
	uint64_t done_begun, done_ended; /* likewise */
	uint64_t keeps;
	int fault; /* a line of this file */
};

#define REQUIRE(condition)                                                                         \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			progress->fault = __LINE__;                                                  \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

static void child_put(struct harness *harness, volatile struct progress *progress, uint64_t *next)
{
	static uint8_t data[RECORD_BYTES_MAX];
	const uint64_t last = *next + (uint64_t)(rand() % 3);

	progress->put_begun = last;
	for (; *next <= last; ++*next)
		REQUIRE(!spool_put(harness->spool, data,
				   contents(*next, 8 + (size_t)(rand() % 20000), data), *next, last,
				   *next == last, harness_now(harness)));
	progress->put_ended = last;
}

/* Records leave strictly in order. Only a process that was killed in spool_done() may deliver a record twice. */
static void child_take(struct harness *harness, volatile struct progress *progress)
{
	struct spool_record record;
	uint8_t *data;
	int r = spool_first(harness->spool, harness_now(harness), &record, &data);

	if (r == 0) {
		REQUIRE(progress->done_begun == progress->put_ended ||
			progress->done_ended == progress->put_ended);
		return;
	}
	REQUIRE(r == 1);
	uint64_t id = contents_id(data, record.bytes);
	free(data);
	REQUIRE(id && id == record.samples);
	REQUIRE(id == progress->done_ended + 1 ||
		(id == progress->done_begun + 1 && progress->done_begun == progress->done_ended + 1));
	progress->done_ended = id - 1;
	if (rand() % 4 == 0)
		return;
	progress->done_begun = id;
	spool_done(harness->spool, record.number);
	progress->done_ended = id;
}

static void child_check(struct harness *harness, volatile struct progress *progress)
{
	struct spool_stats f = harness_stats(harness);

	REQUIRE(harness->mark == progress->put_ended || harness->mark == progress->put_begun);
	REQUIRE(f.records == harness->mark - progress->done_ended ||
		f.records == harness->mark - progress->done_begun);
	REQUIRE(!f.damaged_records && !f.dropped_full_samples && !f.dropped_age_samples);
	REQUIRE(!f.disk_error);
}

static void child_run(struct harness *harness, volatile struct progress *progress)
{
	harness_open(harness);
	child_check(harness, progress);
	progress->put_ended = harness->mark;
	uint64_t next = harness->mark + 1;
	for (;;) {
		const bool behind = progress->put_ended - progress->done_ended > 60;
		switch (behind ? 4 + rand() % 8 : rand() % 8) {
		case 0 ... 3:
			child_put(harness, progress, &next);
			break;
		case 4:
			REQUIRE(spool_keep(harness->spool, harness_now(harness)) == 0);
			progress->keeps++;
			break;
		default:
			child_take(harness, progress);
		}
	}
}

static void kill_rounds(struct harness *harness, unsigned int rounds)
{
	struct progress *progress =
	    mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(progress, MAP_FAILED);
	spool_close(harness->spool);
	for (unsigned int round = 0; round < rounds; round++) {
		int status;
		pid_t child = fork();
		cr_assert_geq(child, 0);
		if (child == 0) {
			srand(round);
			child_run(harness, progress);
		}
		usleep((useconds_t)(300 + rand() % 8000));
		kill(child, SIGKILL);
		cr_assert_eq(waitpid(child, &status, 0), child);
		cr_assert_eq(progress->fault, 0, "round %u, line %d", round, progress->fault);
		cr_assert(WIFSIGNALED(status));
	}
	harness_open(harness);
	uint64_t id = first(harness, &(struct spool_record){0});
	uint64_t from = id ? id : harness->mark + 1;
	cr_assert(from == progress->done_ended + 1 || from == progress->done_begun + 1);
	expect_all(harness, from, harness->mark);
	expect_empty(harness);
	expect_nothing_lost(harness);
	   cr_assert_gt(harness->mark, rounds, "the children made progress");
	cr_assert(harness->directory[0] == 0 || progress->keeps > rounds / 10);
	munmap(progress, sizeof(*progress));
}

Test(spool, killed_at_any_moment_loses_none)
{
	struct harness harness;

	harness_start(&harness, true);
	harness.config.memory_bytes_max = 200000;
	kill_rounds(&harness, 300);
	harness_end(&harness);
}

Test(spool, killed_at_any_moment_without_a_disk_loses_none)
{
	struct harness harness;

	harness_start(&harness, false);
	kill_rounds(&harness, 200);
	harness_end(&harness);
}
