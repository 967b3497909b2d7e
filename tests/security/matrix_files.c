/* SPDX-License-Identifier: Apache-2.0 */
/* Attempts on files, directories and descriptors. */
#include "tests/security/matrix.h"

#include <linux/openat2.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

static int try_openat2_read(const struct fixture *fixture)
{
	struct open_how how = {.flags = O_RDONLY | O_CLOEXEC};

	(void)fixture;
	return syscall(SYS_openat2, AT_FDCWD, "/etc/passwd", &how, sizeof(how)) < 0 ? errno : 0;
}

/* Writes to a pipe that is descriptor 2: the filter allows write for this descriptor, whatever it refers to. */
static int try_write_as_stderr(const struct fixture *fixture)
{
	close(2);
	if (fcntl(fixture->pipe[1], F_DUPFD_CLOEXEC, 2) != 2)
		return EBADF;
	return write(2, "x", 1) < 0 ? errno : 0;
}

/* Writes to a file that is descriptor 2. */
static int try_write_file_as_stderr(const struct fixture *fixture)
{
	close(2);
	if (fcntl(fixture->regular, F_DUPFD_CLOEXEC, 2) != 2)
		return EBADF;
	return write(2, "x", 1) < 0 ? errno : 0;
}

void matrix_try_files(struct tally *tally, const struct fixture *s)
{
	static char handle[128];
	char memory[64], environment[64], map_files[64], maps[64];
	/* A filter cannot see names, only numbers and pointers. */
	const int by_name = s->landlock ? EACCES : WORKS;
	const int no_removal = s->landlock ? EACCES : EISDIR;
	snprintf(memory, sizeof(memory), "/proc/%d/mem", (int)s->victim);
	snprintf(environment, sizeof(environment), "/proc/%d/environ", (int)s->victim);
	snprintf(map_files, sizeof(map_files), "/proc/%d/map_files", (int)s->victim);
	snprintf(maps, sizeof(maps), "/proc/%d/maps", (int)s->victim);
	/* clang-format off */
	const struct attempt rows[] = {
		/*                                   loader, manager, opener, worker, exporter, otlp, strict: opener, worker */
		{"openat to read",                   {KILLED, KILLED, WORKS, KILLED, KILLED, by_name, WORKS, KILLED},
			CALL(SYS_openat, AT_FDCWD, P("/etc/passwd"), O_RDONLY | O_CLOEXEC)},
		{"openat O_WRONLY",                  ONLY_OTLP(by_name),
			CALL(SYS_openat, AT_FDCWD, P(s->file), O_WRONLY)},
		{"openat O_RDWR",                    ONLY_OTLP(by_name),
			CALL(SYS_openat, AT_FDCWD, P(s->file), O_RDWR)},
		/* Files that only their owner may read, even if the owner is root. */
		{"openat of another's /proc/PID/mem",
			{KILLED, KILLED, WORKS, KILLED, KILLED, EACCES, EACCES, KILLED},
			CALL(SYS_openat, AT_FDCWD, P(memory), O_RDONLY)},
		{"openat of another's /proc/PID/environ",
			{KILLED, KILLED, WORKS, KILLED, KILLED, EACCES, EACCES, KILLED},
			CALL(SYS_openat, AT_FDCWD, P(environment), O_RDONLY)},
		{"openat of another's map_files",
			{KILLED, KILLED, WORKS, KILLED, KILLED, EACCES, EACCES, KILLED},
			CALL(SYS_openat, AT_FDCWD, P(map_files), O_RDONLY | O_DIRECTORY)},
		{"openat of root's file, mode 0400",
			{KILLED, KILLED, WORKS, KILLED, KILLED, EACCES, EACCES, KILLED},
			CALL(SYS_openat, AT_FDCWD, P(s->secret), O_RDONLY)},
		/* A file that requires CAP_SYS_PTRACE. */
		{"openat of another's /proc/PID/maps",
			{KILLED, KILLED, WORKS, KILLED, KILLED, EACCES, WORKS, KILLED},
			CALL(SYS_openat, AT_FDCWD, P(maps), O_RDONLY)},
		{"openat O_RDWR of another's /proc/PID/mem",
			{KILLED, KILLED, KILLED, KILLED, KILLED, EACCES, KILLED, KILLED},
			CALL(SYS_openat, AT_FDCWD, P(memory), O_RDWR)},
		/* Its own memory. The process is not dumpable, so the file belongs to root. */
		{"openat O_RDWR of /proc/PID/mem",   ONLY_OTLP(EACCES),
			CALL(SYS_openat, AT_FDCWD, P("/proc/self/mem"), O_RDWR)},
		{"openat O_CREAT",                   ONLY_OTLP(by_name),
			CALL(SYS_openat, AT_FDCWD, P(s->file), O_RDONLY | O_CREAT, 0666)},
		{"openat O_TRUNC",                   EVERYWHERE(KILLED),
			CALL(SYS_openat, AT_FDCWD, P(s->file), O_RDONLY | O_TRUNC)},
		{"openat O_TMPFILE",                 EVERYWHERE(KILLED),
			CALL(SYS_openat, AT_FDCWD, P(s->dir), O_RDWR | O_TMPFILE, 0666)},
		{"openat access mode 3",             EVERYWHERE(KILLED),
			CALL(SYS_openat, AT_FDCWD, P("/dev/null"), O_ACCMODE)},
		{"openat O_PATH",                    {KILLED, KILLED, SKIPPED, KILLED, KILLED, KILLED, SKIPPED, KILLED},
			CALL(SYS_openat, AT_FDCWD, P("/"), O_PATH)},
		/* The flags of openat2 are in a struct, where no filter sees them. */
		{"openat2",                          EVERYWHERE(KILLED), .fn = try_openat2_read},
		{"open_by_handle_at",                EVERYWHERE(KILLED),
			CALL(SYS_open_by_handle_at, s->regular, P(handle), O_RDONLY)},
		{"open_tree",                        EVERYWHERE(KILLED),
			CALL(SYS_open_tree, AT_FDCWD, P("/"), 0)},
		{"unlinkat",                         {no_removal, KILLED, KILLED, KILLED, KILLED, no_removal, KILLED, KILLED},
			CALL(SYS_unlinkat, AT_FDCWD, P(s->dir))},
		{"unlinkat AT_REMOVEDIR",            EVERYWHERE(KILLED),
			CALL(SYS_unlinkat, AT_FDCWD, P(s->spool), AT_REMOVEDIR)},
		{"renameat2",                        EVERYWHERE(KILLED),
			CALL(SYS_renameat2, AT_FDCWD, P(s->program), AT_FDCWD, P(s->program))},
		{"linkat",                           EVERYWHERE(KILLED),
			CALL(SYS_linkat, AT_FDCWD, P(s->program), AT_FDCWD, P(s->program))},
		{"symlinkat",                        EVERYWHERE(KILLED),
			CALL(SYS_symlinkat, P("/"), AT_FDCWD, P(s->program))},
		{"mkdirat",                          EVERYWHERE(KILLED),
			CALL(SYS_mkdirat, AT_FDCWD, P(s->file), 0755)},
		{"mknodat",                          EVERYWHERE(KILLED),
			CALL(SYS_mknodat, AT_FDCWD, P(s->file), S_IFIFO | 0666)},
		{"fchmod",                           EVERYWHERE(KILLED),
			CALL(SYS_fchmod, s->regular, 0666)},
		{"fchmodat",                         EVERYWHERE(KILLED),
			CALL(SYS_fchmodat, AT_FDCWD, P(s->file), 0666)},
		{"fchown",                           EVERYWHERE(KILLED),
			CALL(SYS_fchown, s->regular, -1, -1)},
		{"fsetxattr",                        EVERYWHERE(KILLED),
			CALL(SYS_fsetxattr, s->regular, P("user.x"), P("x"), 1)},
		{"utimensat",                        EVERYWHERE(KILLED),
			CALL(SYS_utimensat, AT_FDCWD, P(s->file))},
		{"chdir",                            EVERYWHERE(KILLED), CALL(SYS_chdir, P("/"))},
		{"inotify_init1",                    EVERYWHERE(KILLED), CALL(SYS_inotify_init1)},
		{"fanotify_init",                    EVERYWHERE(KILLED), CALL(SYS_fanotify_init)},
		{"faccessat",                        EVERYWHERE(KILLED),
			CALL(SYS_faccessat, AT_FDCWD, P("/"), R_OK)},
		{"statx",                            EVERYWHERE(KILLED),
			CALL(SYS_statx, AT_FDCWD, P("/"), 0, 0, P(s->memory))},
		{"newfstatat of a name",             {KILLED, KILLED, WORKS, KILLED, KILLED, WORKS, WORKS, KILLED},
			CALL(SYS_newfstatat, AT_FDCWD, P("/"), P(s->memory))},
		/* The flag allows an empty name, and does not require one: a filter cannot see which it is. */
		{"newfstatat of a name, AT_EMPTY_PATH",
			{KILLED, KILLED, WORKS, KILLED, KILLED, WORKS, WORKS, KILLED},
			CALL(SYS_newfstatat, AT_FDCWD, P("/"), P(s->memory), AT_EMPTY_PATH)},
		{"fstat",                            {KILLED, WORKS, WORKS, WORKS, KILLED, WORKS, WORKS, WORKS},
			CALL(SYS_fstat, s->regular, P(s->memory))},
#ifdef __x86_64__
		{"open",                             EVERYWHERE(KILLED),
			CALL(SYS_open, P("/etc/passwd"), O_RDONLY)},
		{"creat",                            EVERYWHERE(KILLED),
			CALL(SYS_creat, P(s->file), 0666)},
		{"unlink",                           EVERYWHERE(KILLED),
			CALL(SYS_unlink, P(s->program))},
		{"rename",                           EVERYWHERE(KILLED),
			CALL(SYS_rename, P(s->program), P(s->program))},
		{"mkdir",                            EVERYWHERE(KILLED),
			CALL(SYS_mkdir, P(s->file), 0755)},
		{"stat by name",                     EVERYWHERE(KILLED),
			CALL(SYS_stat, P("/"), P(s->memory))},
		{"readlink",                         ONLY_OTLP(EINVAL),
			CALL(SYS_readlink, P("/"), P(s->memory), 8), .not_sanitized = true},
#endif
	};
	/* clang-format on */

	CHECK(rows);
}

/* Operations on descriptors that were open before, or are received from a peer. */
void matrix_try_descriptors(struct tally *tally, const struct fixture *s)
{
	struct iovec part = {.iov_base = "x", .iov_len = 1};
	/* clang-format off */
	const struct attempt rows[] = {
		/*                                   loader, manager, opener, worker, exporter, otlp, strict: opener, worker */
		{"write to a file",                  BOTH_EXPORTERS(WORKS),
			CALL(SYS_write, s->regular, P("x"), 1)},
		{"write to a pipe",                  BOTH_EXPORTERS(WORKS),
			CALL(SYS_write, s->pipe[1], P("x"), 1)},
		{"write to stdout",                  BOTH_EXPORTERS(WORKS),
			CALL(SYS_write, 1, P(""), 0)},
		{"write to stderr",                  EVERYWHERE(WORKS),
			CALL(SYS_write, 2, P(""), 0)},
		{"write to 2 with bits above 32",    BOTH_EXPORTERS(WORKS),
			CALL(SYS_write, 1l << 32 | 2, P(""), 0)},
		{"writev",                           BOTH_EXPORTERS(WORKS),
			CALL(SYS_writev, s->regular, P(&part), 1)},
		{"close 2, dup to 2, write a pipe",  EVERYWHERE(KILLED),
			.fn = try_write_as_stderr},
		{"close 2, dup to 2, write a file",  EVERYWHERE(KILLED),
			.fn = try_write_file_as_stderr},
		{"pwrite64",                         ONLY_OTLP(WORKS),
			CALL(SYS_pwrite64, s->regular, P("x"), 1, 0)},
		{"pwritev2",                         EVERYWHERE(KILLED),
			CALL(SYS_pwritev2, s->regular, P(&part), 1, 0)},
		{"sendfile",                         EVERYWHERE(KILLED),
			CALL(SYS_sendfile, s->regular, s->null, 0, 1)},
		{"splice",                           EVERYWHERE(KILLED),
			CALL(SYS_splice, s->pipe[0], 0, s->regular, 0, 1)},
		{"vmsplice",                         EVERYWHERE(KILLED),
			CALL(SYS_vmsplice, s->pipe[1], P(&part), 1)},
		{"copy_file_range",                  EVERYWHERE(KILLED),
			CALL(SYS_copy_file_range, s->regular, 0, s->regular, 0, 1)},
		{"ftruncate",                        ONLY_OTLP(WORKS),
			CALL(SYS_ftruncate, s->regular, 4096)},
		{"fallocate",                        EVERYWHERE(KILLED),
			CALL(SYS_fallocate, s->regular, 0, 0, 1)},
		{"fallocate, punch",                ONLY_OTLP(WORKS),
			CALL(SYS_fallocate, s->memory_file,
			     FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096)},
		{"fdatasync",                        ONLY_OTLP(WORKS),
			CALL(SYS_fdatasync, s->regular)},
		{"fsync",                            EVERYWHERE(KILLED),
			CALL(SYS_fsync, s->regular)},
		{"flock",                            EVERYWHERE(KILLED),
			CALL(SYS_flock, s->regular, 1)},
		{"dup",                              EVERYWHERE(KILLED), CALL(SYS_dup, s->regular)},
		{"dup3",                             EVERYWHERE(KILLED),
			CALL(SYS_dup3, s->regular, 2)},
		{"dup3 of standard input elsewhere", EVERYWHERE(KILLED),
			CALL(SYS_dup3, STDIN_FILENO, 3)},
		{"close_range of standard output",   EVERYWHERE(KILLED),
			CALL(SYS_close_range, STDOUT_FILENO, STDOUT_FILENO, 0)},
		{"fcntl(F_DUPFD)",                   EVERYWHERE(KILLED),
			CALL(SYS_fcntl, s->regular, F_DUPFD)},
		{"fcntl(F_SETFL)",                   ONLY_OTLP(WORKS),
			CALL(SYS_fcntl, s->regular, F_SETFL, O_ASYNC)},
		{"fcntl(F_SETOWN)",                  EVERYWHERE(KILLED),
			CALL(SYS_fcntl, s->regular, F_SETOWN, s->victim)},
		{"fcntl(F_SETPIPE_SZ)",              EVERYWHERE(KILLED),
			CALL(SYS_fcntl, s->pipe[1], F_SETPIPE_SZ, 4096)},
		{"fcntl(F_GETFL)",                   {KILLED, KILLED, WORKS, KILLED, WORKS, WORKS, WORKS, KILLED},
			CALL(SYS_fcntl, s->regular, F_GETFL)},
		{"fcntl(F_SETFD)",                   ONLY_OTLP(WORKS),
			CALL(SYS_fcntl, s->regular, F_SETFD, FD_CLOEXEC)},
		{"fcntl(F_SETLK)",                   EVERYWHERE(KILLED),
			CALL(SYS_fcntl, s->regular, F_SETLK, P(s->memory))},
		{"fcntl(F_SETSIG)",                  EVERYWHERE(KILLED),
			CALL(SYS_fcntl, s->regular, F_SETSIG, 9)},
		{"fcntl(F_ADD_SEALS)",               EVERYWHERE(KILLED),
			CALL(SYS_fcntl, s->memory_file, F_ADD_SEALS, F_SEAL_GROW)},
		{"eventfd2",                         ONLY_OTLP(WORKS), CALL(SYS_eventfd2)},
		{"epoll_create1",                    ONLY_OTLP(WORKS), CALL(SYS_epoll_create1)},
		{"pipe2",                            ONLY_OTLP(WORKS),
			CALL(SYS_pipe2, P(s->memory))},
		{"timerfd_create",                   EVERYWHERE(KILLED), CALL(SYS_timerfd_create)},
		{"signalfd4",                        EVERYWHERE(KILLED),
			CALL(SYS_signalfd4, -1, P(s->memory), 8)},
		{"getdents64",                       {ENOTDIR, KILLED, ENOTDIR, KILLED, KILLED, ENOTDIR, ENOTDIR, KILLED},
			CALL(SYS_getdents64, s->regular, P(s->memory), 4096)},
	};
	/* clang-format on */

	CHECK(rows);
}
