/* SPDX-License-Identifier: Apache-2.0 */
/* Memory is opened only of a process that maps the file which the manager has named. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "symbolizer/opener/open_file.h"

/* What happens just before the memory is opened. */
static void (*before_memory)(void);

int __real_openat(int directory, const char *path, int flags);
int __wrap_openat(int directory, const char *path, int flags);
int __wrap_openat(int directory, const char *path, int flags)
{
	if (before_memory && !strcmp(path, "mem"))
		before_memory();
	return __real_openat(directory, path, flags);
}

/* Returns where this process maps the file that contains `code`. */
static struct msg_allow_memory mapping_of(uintptr_t code)
{
	struct msg_allow_memory found = {.tgid = (uint32_t)getpid(), .exec_generation = 1};
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[4096], *end;
	struct stat st;

	cr_assert_not_null(maps);
	while (fgets(line, sizeof(line), maps)) {
		found.address_start = strtoull(line, &end, 16);
		found.address_end = strtoull(end + 1, NULL, 16);
		if (found.address_start <= code && code < found.address_end)
			break;
	}
	fclose(maps);
	cr_assert_eq(stat("/proc/self/exe", &st), 0);
	found.device_major = major(st.st_dev);
	found.device_minor = minor(st.st_dev);
	found.inode = st.st_ino;
	return found;
}

static struct msg_allow_memory own_mapping(void)
{
	const struct msg_allow_memory own = mapping_of((uintptr_t)own_mapping);
	const int memory = open_file_memory(&own);

	if (memory == -EPERM || memory == -EACCES)
		cr_skip_test("only root can open /proc/PID/map_files");
	if (memory >= 0)
		close(memory);
	return own;
}

static void expect_memory(const struct msg_allow_memory *allowed)
{
	const int memory = open_file_memory(allowed);
	char byte;

	cr_assert_geq(memory, 0, "%s", strerror(-memory));
	cr_expect_eq(pread(memory, &byte, 1, (off_t)allowed->address_start), 1);
	cr_expect_eq(pwrite(memory, &byte, 1, (off_t)allowed->address_start), -1);
	close(memory);
}

Test(open_memory, a_process_that_maps_the_file_is_opened)
{
	const struct msg_allow_memory own = own_mapping();

	expect_memory(&own);
}

/* A linker may place data in the range that was mapped for the whole file at first. */
Test(open_memory, a_mapping_that_was_split_is_found)
{
	struct msg_allow_memory own = own_mapping();

	own.address_end += 1 << 20;
	expect_memory(&own);
}

Test(open_memory, another_file_at_that_address_is_refused)
{
	struct msg_allow_memory own = own_mapping();

	own.inode++;
	cr_expect_eq(open_file_memory(&own), -ESTALE);
	own.inode--;
	own.device_minor++;
	cr_expect_eq(open_file_memory(&own), -ESTALE);
	own.device_minor--;
	own.device_major++;
	cr_expect_eq(open_file_memory(&own), -ESTALE);
}

Test(open_memory, an_address_without_a_file_is_refused)
{
	struct msg_allow_memory own = own_mapping();
	void *anonymous = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	own.address_start = (uint64_t)(uintptr_t)anonymous;
	own.address_end = own.address_start + 4096;
	cr_expect_eq(open_file_memory(&own), -ENOENT);
	munmap(anonymous, 4096);
	own.address_start = 4096;
	cr_expect_eq(open_file_memory(&own), -ENOENT);
}

/* Starts a child that has the mappings of this process; `said` becomes readable when it has them no
 * longer. */
static pid_t start_child(int *said)
{
	int ends[2];

	cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
	const pid_t child = fork();
	if (child == 0) {
		pause();
		_exit(0);
	}
	close(ends[1]);
	*said = ends[0];
	return child;
}

static void on_signal(int signal)
{
	(void)signal;
	execl("/bin/sleep", "sleep", "60", (char *)NULL);
	_exit(1);
}

static void wait_for_end(int said)
{
	char byte;

	cr_assert_eq(read(said, &byte, 1), 0);
	close(said);
}

Test(open_memory, a_process_that_has_executed_another_program_is_refused)
{
	struct msg_allow_memory allowed = own_mapping();
	int said;

	signal(SIGUSR1, on_signal);
	const pid_t child = start_child(&said);
	allowed.tgid = (uint32_t)child;
	expect_memory(&allowed);
	kill(child, SIGUSR1);
	wait_for_end(said); /* the pipe is closed by exec */
	cr_expect_eq(open_file_memory(&allowed), -ENOENT);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static pid_t racing_child;
static int racing_said;

static void let_child_execute(void)
{
	kill(racing_child, SIGUSR1);
	wait_for_end(racing_said);
}

/* The memory that is opened then is that of the other program. */
Test(open_memory, a_process_that_executes_another_program_meanwhile_is_refused)
{
	struct msg_allow_memory allowed = own_mapping();

	signal(SIGUSR1, on_signal);
	racing_child = start_child(&racing_said);
	allowed.tgid = (uint32_t)racing_child;
	before_memory = let_child_execute;
	cr_expect_eq(open_file_memory(&allowed), -ENOENT);
	kill(racing_child, SIGKILL);
	waitpid(racing_child, NULL, 0);
}

Test(open_memory, a_process_that_has_ended_is_refused)
{
	struct msg_allow_memory allowed = own_mapping();
	int said;
	const pid_t child = start_child(&said);

	allowed.tgid = (uint32_t)child;
	kill(child, SIGKILL);
	wait_for_end(said);
	/* A zombie, and then nothing. */
	cr_expect_lt(open_file_memory(&allowed), 0);
	waitpid(child, NULL, 0);
	cr_expect_eq(open_file_memory(&allowed), -ENOENT);
}
