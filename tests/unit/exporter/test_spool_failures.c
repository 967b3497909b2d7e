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

#include "tests/unit/exporter/spool_rig.h"

/* Disks that fail. */

static void expect_recovery(struct rig *rig, int error, void (*mend)(struct rig *))
{
	put_all(rig, 1, 20, 100000);
	cr_expect_eq(spool_keep(rig->spool, rig->now), -error);
	cr_expect_eq(figures(rig).disk_error, error);
	put_all(rig, 21, 21, 1000);
	mend(rig);
	/* Not at once again. */
	rig->now += second;
	cr_expect_eq(spool_keep(rig->spool, rig->now), -error);
	rig->now += 10 * second;
	cr_expect_eq(spool_keep(rig->spool, rig->now), 0);
	cr_expect_eq(figures(rig).disk_error, 0);
	cr_expect_eq(figures(rig).memory_bytes, 0);
	rig_reopen(rig);
	expect_all(rig, 1, 21);
	expect_empty(rig);
	expect_nothing_lost(rig);
}

static void mend_size(struct rig *rig)
{
	const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};

	(void)rig;
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &none), 0);
}

/* The eleventh record is torn, in a segment that has good ones. */
Test(spool, file_size_limit)
{
	const struct rlimit limit = {900000, RLIM_INFINITY};
	struct rig rig;

	signal(SIGXFSZ, SIG_IGN);
	rig_start(&rig, true);
	/* The memory is below that limit as well. */
	put_all(&rig, 1, 10, 100000);
	cr_assert_eq(spool_keep(rig.spool, rig.now), 0);
	put_all(&rig, 11, 15, 100000);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	cr_expect_eq(spool_keep(rig.spool, rig.now), -EFBIG);
	cr_expect_eq(figures(&rig).disk_error, EFBIG);
	struct stat st;
	cr_assert_eq(stat(segments_of(&rig).paths[0], &st), 0);
	cr_expect_eq((uint64_t)st.st_size, figures(&rig).disk_bytes, "nothing torn is left");
	cr_expect_eq(figures(&rig).records, 15);
	rig_reopen(&rig);
	cr_expect_eq(figures(&rig).records, 15);
	mend_size(&rig);
	put_all(&rig, 16, 16, 100000);
	cr_expect_eq(spool_keep(rig.spool, rig.now), 0);
	expect_all(&rig, 1, 16);
	expect_empty(&rig);
	expect_nothing_lost(&rig);
	rig_end(&rig);
}

static void mend_tmpfs(struct rig *rig)
{
	cr_assert_eq(mount("tmpfs", rig->directory, "tmpfs", MS_REMOUNT, "size=16m"), 0);
}

Test(spool, full_file_system)
{
	struct rig rig;

	rig_start(&rig, true);
	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("tmpfs", rig.directory, "tmpfs", 0, "size=600k")) {
		rig_end(&rig);
		cr_log_warn("full_file_system: SKIPPED, a tmpfs cannot be mounted here");
		cr_skip_test("a tmpfs cannot be mounted here");
	}
	rig_reopen(&rig);
	expect_recovery(&rig, ENOSPC, mend_tmpfs);
	rig_reopen(&rig);
	each_file(&rig, remove_file);
	umount2(rig.directory, MNT_DETACH);
	rig_end(&rig);
}

/* On a full file system and with a full memory, the oldest of the memory goes. */
Test(spool, full_file_system_and_full_memory)
{
	struct rig rig;
	uint64_t got = 0;

	rig_start(&rig, true);
	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("tmpfs", rig.directory, "tmpfs", 0, "size=300k")) {
		rig_end(&rig);
		cr_log_warn("full_file_system_and_full_memory: SKIPPED, no tmpfs");
		cr_skip_test("a tmpfs cannot be mounted here");
	}
	rig.config.memory_bytes_max = 300000;
	rig_reopen(&rig);
	for (uint64_t id = 1; id <= 60; id++) {
		rig.now += second;
		cr_assert_eq(put(&rig, id, 20000, true), 0);
		cr_assert_leq(figures(&rig).memory_bytes, 300000);
	}
	cr_expect_eq(figures(&rig).disk_error, ENOSPC);
	for (uint64_t id; (id = take(&rig));)
		got += id;
	cr_expect_eq(got + figures(&rig).dropped_full_samples, 1830);
	cr_expect_eq(figures(&rig).damaged_records, 0);
	umount2(rig.directory, MNT_DETACH);
	rig_end(&rig);
}

/* In place of the C library's, for disks that take everything and keep nothing. */
static int sync_error;

int fdatasync(int fd)
{
	errno = sync_error;
	return sync_error ? -1 : (int)syscall(SYS_fdatasync, fd);
}

static void mend_sync(struct rig *rig)
{
	(void)rig;
	sync_error = 0;
}

Test(spool, disk_that_cannot_sync)
{
	struct rig rig;

	rig_start(&rig, true);
	sync_error = EIO;
	expect_recovery(&rig, EIO, mend_sync);
	/* Nor a segment that has good records. */
	put_all(&rig, 1, 2, 1000);
	cr_assert_eq(spool_keep(rig.spool, rig.now), 0);
	put_all(&rig, 3, 4, 1000);
	sync_error = EIO;
	cr_expect_eq(spool_keep(rig.spool, rig.now), -EIO);
	struct stat st;
	cr_assert_eq(stat(segments_of(&rig).paths[0], &st), 0);
	cr_expect_eq((uint64_t)st.st_size, figures(&rig).disk_bytes);
	cr_expect_eq(figures(&rig).records, 4);
	sync_error = 0;
	rig_reopen(&rig);
	cr_expect_eq(figures(&rig).records, 4);
	cr_assert_eq(spool_keep(rig.spool, rig.now), 0);
	expect_all(&rig, 1, 4);
	expect_empty(&rig);
	expect_nothing_lost(&rig);
	rig_end(&rig);
}

static void mend_mode(struct rig *rig)
{
	cr_assert_eq(chmod(rig->directory, 0700), 0);
}

Test(spool, directory_without_permission)
{
	const uid_t uid = geteuid();
	struct rig rig;
	char cursor[128];

	if (uid == 0)
		cr_assert_eq(seteuid(65534), 0);
	rig_start(&rig, true);
	cr_assert_eq(chmod(rig.directory, 0500), 0);
	snprintf(cursor, sizeof(cursor), "%s/cursor", rig.directory);
	cr_assert_eq(unlink(cursor), -1);
	rig_reopen(&rig);
	cr_expect_eq(figures(&rig).disk_error, 0, "the cursor can be written");
	expect_recovery(&rig, EACCES, mend_mode);
	cr_assert_eq(unlink(cursor), 0);
	cr_assert_eq(chmod(rig.directory, 0500), 0);
	rig_reopen(&rig);
	cr_expect_eq(figures(&rig).disk_error, EACCES, "known at once");
	/* And found out by itself when it is over. */
	mend_mode(&rig);
	spool_expire(rig.spool, rig.now + second);
	cr_expect_eq(figures(&rig).disk_error, EACCES);
	spool_expire(rig.spool, rig.now + 10 * second);
	cr_expect_eq(figures(&rig).disk_error, 0);
	/* A sanitizer that looks for leaks wants to be let in. */
	cr_assert(seteuid(uid) == 0 && prctl(PR_SET_DUMPABLE, 1) == 0);
	rig_end(&rig);
}

Test(spool, directory_that_was_removed)
{
	struct rig rig;

	rig_start(&rig, true);
	each_file(&rig, remove_file);
	cr_assert_eq(rmdir(rig.directory), 0);
	put_all(&rig, 1, 3, 1000);
	cr_expect_eq(spool_keep(rig.spool, rig.now), -ENOENT);
	cr_expect_eq(figures(&rig).disk_error, ENOENT);
	expect_all(&rig, 1, 3);
	expect_empty(&rig);
	spool_close(rig.spool);
	close(rig.memory_fd);
}

/* Killed. */

/* The moment after records were moved and before the memory forgets them, and all before that. */
Test(spool, killed_while_records_are_moved)
{
	static uint8_t memory[FILE_BYTES_MAX], segment[FILE_BYTES_MAX];
	struct rig rig;

	rig_start(&rig, true);
	put_all(&rig, 1, 5, 300);
	size_t memory_length = file_read(rig.memory_fd, memory);
	cr_assert_eq(spool_keep(rig.spool, rig.now), 0);
	char path[128];
	memcpy(path, segments_of(&rig).paths[0], sizeof(path));
	size_t length = path_read(path, segment);
	for (size_t done = 0; done <= length; done += 11) {
		each_file(&rig, remove_file);
		if (done)
			path_write(path, segment, done);
		file_write(rig.memory_fd, memory, memory_length);
		rig_reopen(&rig);
		cr_expect_eq(figures(&rig).records, 5, "%zu of %zu bytes", done, length);
		put_all(&rig, 6, 6, 300);
		if (done % 2)
			cr_assert_eq(spool_keep(rig.spool, rig.now), 0);
		expect_all(&rig, 1, 6);
		expect_empty(&rig);
		expect_nothing_lost(&rig);
	}
	rig_end(&rig);
}

/* What the parent knows of its children, who tell it before and after each thing they do. */
struct ledger {
	uint64_t put_begun, put_ended;	 /* ids */
	uint64_t done_begun, done_ended; /* likewise */
	uint64_t keeps;
	int fault; /* a line of this file */
};

#define REQUIRE(condition)                                                                         \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			ledger->fault = __LINE__;                                                  \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

static void child_put(struct rig *rig, volatile struct ledger *ledger, uint64_t *next)
{
	static uint8_t data[RECORD_BYTES_MAX];
	const uint64_t last = *next + (uint64_t)(rand() % 3);

	ledger->put_begun = last;
	for (; *next <= last; ++*next)
		REQUIRE(!spool_put(rig->spool, data,
				   contents(*next, 8 + (size_t)(rand() % 20000), data), *next, last,
				   *next == last, rig->now));
	ledger->put_ended = last;
}

/* Strictly in order: the next one is the one after the last that was done, or, if the process was
 * killed in spool_done, perhaps that one again. */
static void child_take(struct rig *rig, volatile struct ledger *ledger)
{
	struct spool_record record;
	uint8_t *data;
	int r = spool_first(rig->spool, rig->now, &record, &data);

	if (r == 0) {
		REQUIRE(ledger->done_begun == ledger->put_ended ||
			ledger->done_ended == ledger->put_ended);
		return;
	}
	REQUIRE(r == 1);
	uint64_t id = contents_id(data, record.bytes);
	free(data);
	REQUIRE(id && id == record.samples);
	REQUIRE(id == ledger->done_ended + 1 ||
		(id == ledger->done_begun + 1 && ledger->done_begun == ledger->done_ended + 1));
	ledger->done_ended = id - 1;
	if (rand() % 4 == 0)
		return;
	ledger->done_begun = id;
	spool_done(rig->spool, record.number);
	ledger->done_ended = id;
}

static void child_check(struct rig *rig, volatile struct ledger *ledger)
{
	struct spool_figures f = figures(rig);

	REQUIRE(rig->mark == ledger->put_ended || rig->mark == ledger->put_begun);
	REQUIRE(f.records == rig->mark - ledger->done_ended ||
		f.records == rig->mark - ledger->done_begun);
	REQUIRE(!f.damaged_records && !f.dropped_full_samples && !f.dropped_age_samples);
	REQUIRE(!f.disk_error);
}

static void child_run(struct rig *rig, volatile struct ledger *ledger)
{
	rig_open(rig);
	child_check(rig, ledger);
	ledger->put_ended = rig->mark;
	uint64_t next = rig->mark + 1;
	for (;;) {
		const bool behind = ledger->put_ended - ledger->done_ended > 60;
		switch (behind ? 4 + rand() % 8 : rand() % 8) {
		case 0 ... 3:
			child_put(rig, ledger, &next);
			break;
		case 4:
			REQUIRE(spool_keep(rig->spool, rig->now) == 0);
			ledger->keeps++;
			break;
		default:
			child_take(rig, ledger);
		}
	}
}

static void kill_rounds(struct rig *rig, unsigned int rounds)
{
	struct ledger *ledger =
	    mmap(NULL, sizeof(*ledger), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(ledger, MAP_FAILED);
	spool_close(rig->spool);
	for (unsigned int round = 0; round < rounds; round++) {
		int status;
		pid_t child = fork();
		cr_assert_geq(child, 0);
		if (child == 0) {
			srand(round);
			child_run(rig, ledger);
		}
		usleep((useconds_t)(300 + rand() % 8000));
		kill(child, SIGKILL);
		cr_assert_eq(waitpid(child, &status, 0), child);
		cr_assert_eq(ledger->fault, 0, "round %u, line %d", round, ledger->fault);
		cr_assert(WIFSIGNALED(status));
	}
	rig_open(rig);
	uint64_t id = first(rig, &(struct spool_record){0});
	uint64_t from = id ? id : rig->mark + 1;
	cr_assert(from == ledger->done_ended + 1 || from == ledger->done_begun + 1);
	expect_all(rig, from, rig->mark);
	expect_empty(rig);
	expect_nothing_lost(rig);
	cr_assert_gt(rig->mark, rounds, "the children came to something");
	cr_assert(rig->directory[0] == 0 || ledger->keeps > rounds / 10);
	munmap(ledger, sizeof(*ledger));
}

Test(spool, killed_at_any_moment)
{
	struct rig rig;

	rig_start(&rig, true);
	rig.config.memory_bytes_max = 200000;
	kill_rounds(&rig, 300);
	rig_end(&rig);
}

Test(spool, killed_at_any_moment_without_a_disk)
{
	struct rig rig;

	rig_start(&rig, false);
	kill_rounds(&rig, 200);
	rig_end(&rig);
}
