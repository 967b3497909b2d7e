/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "tests/security/attempt.h"

/* System calls that open and change files, with any flags, and that use the network. */
static const struct sandbox_syscall more[] = {
    ALLOW(openat, "test"),  ALLOW(openat2, "test"),   ALLOW(unlinkat, "test"),
    ALLOW(mkdirat, "test"), ALLOW(renameat2, "test"), ALLOW(linkat, "test"),
    ALLOW(mknodat, "test"), ALLOW(symlinkat, "test"), ALLOW(truncate, "test"),
    ALLOW(connect, "test"), ALLOW(bind, "test"),
};

enum {
	SYSCALLS_MAX = 160
};

static bool allows_always(const struct sandbox_policy *policy, int number)
{
	for (size_t i = 0; i < policy->syscall_count; i++) {
		if (policy->syscalls[i].number == number && !policy->syscalls[i].condition_count)
			return true;
	}
	for (size_t i = 0; i < policy->more_syscall_count; i++) {
		if (policy->more_syscalls[i].number == number &&
		    !policy->more_syscalls[i].condition_count)
			return true;
	}
	return false;
}

/* Returns a copy of the policy whose filter allows every operation on files, connect and bind. */
static struct sandbox_policy widen(const struct sandbox_policy *policy,
				   struct sandbox_syscall all[SYSCALLS_MAX])
{
	struct sandbox_policy widened = *policy;

	memcpy(all, policy->syscalls, policy->syscall_count * sizeof(all[0]));
	if (policy->more_syscall_count)
		memcpy(all + policy->syscall_count, policy->more_syscalls,
		       policy->more_syscall_count * sizeof(all[0]));
	widened.syscalls = all;
	widened.syscall_count += policy->more_syscall_count;
	widened.more_syscall_count = 0;
	for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
		if (!allows_always(policy, more[i].number))
			all[widened.syscall_count++] = more[i];
	}
	return widened;
}

/* ---- Roles whose Landlock rules have no exception. ---- */

static int try_openat2(const char *path, uint64_t flags)
{
	struct open_how how = {.flags = flags, .mode = flags & O_CREAT ? 0666 : 0};

	return syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how)) < 0 ? errno : 0;
}

static int try_openat2_read(const struct fixture *fixture)
{
	(void)fixture;
	return try_openat2("/etc/passwd", O_RDONLY | O_CLOEXEC);
}

static int try_connect(const struct fixture *fixture)
{
	const struct sockaddr_in there = {.sin_family = AF_INET,
					  .sin_port = fixture->port,
					  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	return connect(fixture->inet, (const struct sockaddr *)&there, sizeof(there)) < 0 ? errno
											  : 0;
}

static int try_bind(const struct fixture *fixture)
{
	const struct sockaddr_in here = {.sin_family = AF_INET,
					 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	return bind(fixture->inet, (const struct sockaddr *)&here, sizeof(here)) < 0 ? errno : 0;
}

static int try_openat2_create(const struct fixture *fixture)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/made", fixture->dir);
	return try_openat2(path, O_WRONLY | O_CREAT | O_EXCL);
}

/*
 * Tests Landlock on its own: the role's policy with a filter that also allows opening and changing
 * files, and to connect and bind a socket of TCP that the role got from somewhere. What that filter
 * lets through must still fail.
 */
static void try_roles(struct tally *tally, const struct fixture *s)
{
	char made[128];
	const int tcp = s->landlock >= LANDLOCK_TCP ? EACCES : SKIPPED;
	snprintf(made, sizeof(made), "%s/directory", s->dir);
	/* clang-format off */
	const struct attempt rows[] = {
		{"Landlock: open to read",   EVERYWHERE(EACCES),
			CALL(SYS_openat, AT_FDCWD, P("/etc/passwd"), O_RDONLY)},
		{"Landlock: open to write",  EVERYWHERE(EACCES),
			CALL(SYS_openat, AT_FDCWD, P(s->file), O_RDWR)},
		{"Landlock: openat2",        EVERYWHERE(EACCES), .fn = try_openat2_read},
		{"Landlock: list",           EVERYWHERE(EACCES),
			CALL(SYS_openat, AT_FDCWD, P("/proc"), O_RDONLY | O_DIRECTORY)},
		{"Landlock: create",         EVERYWHERE(EACCES), .fn = try_openat2_create},
		{"Landlock: unlinkat",       EVERYWHERE(EACCES),
			CALL(SYS_unlinkat, AT_FDCWD, P(s->program))},
		{"Landlock: mkdirat",        EVERYWHERE(EACCES),
			CALL(SYS_mkdirat, AT_FDCWD, P(made), 0755)},
		{"Landlock: connect by TCP", EVERYWHERE(tcp), .fn = try_connect},
		{"Landlock: bind for TCP",   EVERYWHERE(tcp), .fn = try_bind},
	};
	/* clang-format on */

	for (unsigned int role = 0; role < ROLES; role++) {
		struct sandbox_syscall all[SYSCALLS_MAX];

		if (policies[role]->no_landlock)
			continue;
		const struct sandbox_policy widened = widen(policies[role], all);
		for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
			if (rows[i].expected[LOADER] == SKIPPED)
				continue;
			attempt_judge(tally, titles[role], &rows[i], EACCES,
				      attempt_outcome(&rows[i], &widened, NULL, s));
		}
	}
}

/* ---- The exceptions for the agent's exporter. ---- */

static int allow_one(struct sandbox *sandbox, const char *path, int flags, bool writable)
{
	int fd = open(path, flags | O_CLOEXEC);

	return fd < 0 ? -errno : sandbox_allow_path(sandbox, fd, writable);
}

/* Adds the exceptions as configure.c does: the spool's directory by descriptor, files by name. */
static int allow_spool(struct sandbox *sandbox, const struct fixture *fixture)
{
	int r = allow_one(sandbox, fixture->readable, O_PATH, false);

	return r ? r : allow_one(sandbox, fixture->spool, O_RDONLY | O_DIRECTORY, true);
}

/* Performs every operation that the spool performs on a segment. */
static int try_segment(const struct fixture *s)
{
	const char *const name = "made";
	char bytes[4];
	_cleanup_close_ int directory =
	    openat(AT_FDCWD, s->spool, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	NEED(directory >= 0);
	_cleanup_close_ int fd =
	    openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	NEED(fd >= 0);
	NEED(pwrite(fd, "abc", 3, 0) == 3 && fdatasync(fd) == 0 && ftruncate(fd, 2) == 0);
	_cleanup_close_ int again = openat(directory, name, O_RDWR | O_CLOEXEC);
	NEED(again >= 0);
	NEED(pread(again, bytes, sizeof(bytes), 0) == 2 && ftruncate(again, 1) == 0);
	NEED(lseek(again, 0, SEEK_DATA) == 0);
	NEED(syscall(SYS_getdents64, directory, s->memory, 4096) > 0);
	NEED(unlinkat(directory, name, 0) == 0);
	NEED(openat(directory, name, O_RDONLY) < 0);
	return errno == ENOENT ? 0 : errno;
}

/* The exporter holds Unix sockets, and may call bind for internet sockets. */
static int try_bind_unix(const struct fixture *s)
{
	struct sockaddr_un there = {.sun_family = AF_UNIX};

	snprintf(there.sun_path, sizeof(there.sun_path), "%s/socket", s->spool);
	return bind(s->sockets[0], (struct sockaddr *)&there, sizeof(there)) < 0 ? errno : 0;
}

/* Opens a directory above the spool without access rights, and uses names below it. */
static int try_path_descriptor(const struct fixture *s)
{
	_cleanup_close_ int root = openat(AT_FDCWD, "/", O_PATH | O_CLOEXEC);

	(void)s;
	NEED(root >= 0);
	NEED(openat(root, "etc/passwd", O_RDONLY | O_CLOEXEC) >= 0);
	return 0;
}

static int try_memory_of_others(const struct fixture *s)
{
	NEED(fixture_open_proc(s->victim, "stat") >= 0);
	return 0;
}

struct exception_row {
	struct attempt attempt;
	int filtered, alone; /* expected under the policy, and under Landlock without the filter */
};

struct names {
	char segment[160], above[160], up_and_sibling[160], link[160], fresh[160], sibling[160];
};

static void names_init(struct names *n, const struct fixture *s)
{
	snprintf(n->segment, sizeof(n->segment), "%s/segment", s->spool);
	snprintf(n->above, sizeof(n->above), "%s/..", s->spool);
	snprintf(n->up_and_sibling, sizeof(n->up_and_sibling), "%s/../file", s->spool);
	snprintf(n->link, sizeof(n->link), "%s/link", s->spool);
	snprintf(n->fresh, sizeof(n->fresh), "%s/fresh", s->spool);
	snprintf(n->sibling, sizeof(n->sibling), "%s/fresh", s->dir);
}

static void judge_exceptions(struct tally *tally, const struct exception_row *rows, size_t count,
			     const struct fixture *s)
{
	struct sandbox_syscall all[SYSCALLS_MAX];
	const struct sandbox_policy widened = widen(policies[OTLP], all);

	for (size_t i = 0; i < count; i++) {
		const struct attempt *a = &rows[i].attempt;

		attempt_judge(tally, titles[OTLP], a, rows[i].filtered,
			      attempt_outcome(a, policies[OTLP], allow_spool, s));
		attempt_judge(tally, "Landlock alone", a, rows[i].alone,
			      attempt_outcome(a, &widened, allow_spool, s));
	}
}

#define EXCEPTIONS(rows) judge_exceptions(tally, rows, sizeof(rows) / sizeof((rows)[0]), s)
#define OPEN(path, ...) CALL(SYS_openat, AT_FDCWD, P(path), __VA_ARGS__)

static void try_opens(struct tally *tally, const struct fixture *s, const struct names *n)
{
	/* Landlock controls truncation from version 3 on. Before, only the filter prevents it. */
	const int cut = s->landlock >= 3 ? EACCES : WORKS;
	/* clang-format off */
	const struct exception_row rows[] = {
		/* What the exporter is meant to use. */
		{{"spool: a segment's life",      .fn = try_segment},                    WORKS, WORKS},
		{{"spool: read",                  OPEN(n->segment, O_RDONLY)},           WORKS, WORKS},
		{{"spool: write",                 OPEN(n->segment, O_WRONLY)},           WORKS, WORKS},
		{{"spool: O_TRUNC",               OPEN(n->segment, O_WRONLY | O_TRUNC)}, KILLED, WORKS},
		{{"readable file: read",          OPEN(s->readable, O_RDONLY)},          WORKS, WORKS},
		/* A file that it may only read. */
		{{"readable file: write",         OPEN(s->readable, O_WRONLY)},          EACCES, EACCES},
		{{"readable file: read and write", OPEN(s->readable, O_RDWR)},           EACCES, EACCES},
		{{"readable file: cut by O_TRUNC", OPEN(s->readable, O_RDONLY | O_TRUNC)}, KILLED, cut},
		{{"readable file: truncate",      CALL(SYS_truncate, P(s->readable), 0)}, KILLED, cut},
		{{"readable file: unlink",        CALL(SYS_unlinkat, AT_FDCWD, P(s->readable))},
			EACCES, EACCES},
		/* Everything else. */
		{{"/etc/passwd",                  OPEN("/etc/passwd", O_RDONLY)},        EACCES, EACCES},
		{{"/proc/self/environ",           OPEN("/proc/self/environ", O_RDONLY)}, EACCES, EACCES},
		{{"/proc/self/status",            OPEN("/proc/self/status", O_RDONLY)},  EACCES, EACCES},
		{{"/proc/PID/stat of another",    .fn = try_memory_of_others},           EACCES, EACCES},
		{{"/dev/null",                    OPEN("/dev/null", O_RDWR)},            EACCES, EACCES},
		{{"sibling: read",                 OPEN(s->file, O_RDONLY)},              EACCES, EACCES},
		{{"sibling: write",                OPEN(s->file, O_WRONLY)},              EACCES, EACCES},
		{{"sibling: create",               OPEN(n->sibling, O_WRONLY | O_CREAT, 0600)}, EACCES, EACCES},
		{{"sibling: unlink",               CALL(SYS_unlinkat, AT_FDCWD, P(s->program))}, EACCES, EACCES},
		{{"sibling, by ..",                OPEN(n->up_and_sibling, O_RDONLY)},     EACCES, EACCES},
		{{"sibling, by a symbolic link",   OPEN(n->link, O_RDONLY)},              EACCES, EACCES},
		{{"directory above: list",        OPEN(n->above, O_RDONLY | O_DIRECTORY)}, EACCES, EACCES},
		{{"directory above: O_TMPFILE",   OPEN(n->above, O_RDWR | O_TMPFILE, 0600)}, KILLED, EACCES},
		{{"below / by O_PATH",            .fn = try_path_descriptor},            KILLED, EACCES},
	};
	/* clang-format on */

	EXCEPTIONS(rows);
}

static void try_makes(struct tally *tally, const struct fixture *s, const struct names *n)
{
#define MAKE(type) CALL(SYS_mknodat, AT_FDCWD, P(n->fresh), (type) | 0600, 0x0103 /* null */)
#define MOVE(call, from, to) CALL(call, AT_FDCWD, P(from), AT_FDCWD, P(to))
	/* clang-format off */
	const struct exception_row rows[] = {
		{{"spool: make a directory",      CALL(SYS_mkdirat, AT_FDCWD, P(n->fresh), 0700)},
			KILLED, EACCES},
		{{"spool: make a symbolic link",  CALL(SYS_symlinkat, P("/"), AT_FDCWD, P(n->fresh))},
			KILLED, EACCES},
		{{"spool: make a FIFO",           MAKE(S_IFIFO)},  KILLED, EACCES},
		{{"spool: make a socket",         MAKE(S_IFSOCK)}, KILLED, EACCES},
		{{"spool: make a device",         MAKE(S_IFCHR)},  KILLED, REFUSED},
		{{"spool: make a disk",           MAKE(S_IFBLK)},  KILLED, REFUSED},
		{{"spool: bind a Unix socket",    .fn = try_bind_unix}, EACCES, EACCES},
		{{"rename out of the spool",      MOVE(SYS_renameat2, n->segment, n->sibling)},
			KILLED, REFUSED},
		{{"rename into the spool",        MOVE(SYS_renameat2, s->program, n->fresh)},
			KILLED, REFUSED},
		{{"rename, over a sibling",  MOVE(SYS_renameat2, n->segment, s->file)},
			KILLED, REFUSED},
		{{"link out of the spool",        MOVE(SYS_linkat, n->segment, n->sibling)},
			KILLED, REFUSED},
		{{"link into the spool",          MOVE(SYS_linkat, s->program, n->fresh)},
			KILLED, REFUSED},
		{{"link of the readable file",    MOVE(SYS_linkat, s->readable, n->fresh)},
			KILLED, REFUSED},
	};
	/* clang-format on */

	EXCEPTIONS(rows);
}

/* ---- The ports of the agent's exporter. ---- */

/* Allows ports as configure.c does: that of the backend, of name servers, and one that the kernel
 * chooses. */
static int allow_ports(struct sandbox *sandbox, const struct fixture *fixture)
{
	int r = sandbox_allow_port(sandbox, ntohs(fixture->port), false);

	return r ? r : sandbox_allow_port(sandbox, 0, true);
}

static int allow_other_port(struct sandbox *sandbox, const struct fixture *fixture)
{
	return sandbox_allow_port(sandbox, (uint16_t)(ntohs(fixture->port) ^ 1), false);
}

/* Binds a new socket to a port, as gRPC does to find out whether there is IPv6. */
static int try_bind_port(uint16_t port)
{
	const struct sockaddr_in here = {
	    .sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	_cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	NEED(fd >= 0);
	return bind(fd, (const struct sockaddr *)&here, sizeof(here)) < 0 ? errno : 0;
}

static int try_bind_any(const struct fixture *s)
{
	(void)s;
	return try_bind_port(0);
}

/* A port that others may listen on, were it free. */
static int try_bind_fixed(const struct fixture *s)
{
	return try_bind_port(s->port);
}

static void try_ports(struct tally *tally, const struct fixture *s)
{
	const struct {
		struct attempt attempt;
		attempt_allow_fn allow;
		int expected;
	} rows[] = {
	    {{"TCP to the allowed port", .fn = needs_loopback}, allow_ports, WORKS},
	    {{"TCP to another port", .fn = needs_loopback}, allow_other_port, EACCES},
	    {{"TCP without a port", .fn = needs_loopback}, NULL, EACCES},
	    {{"bind to any free port", .fn = try_bind_any}, allow_ports, WORKS},
	    {{"bind to a port", .fn = try_bind_fixed}, allow_ports, EACCES},
	    {{"bind without a port", .fn = try_bind_any}, allow_other_port, EACCES},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		attempt_judge(tally, titles[OTLP], &rows[i].attempt, rows[i].expected,
			      attempt_outcome(&rows[i].attempt, policies[OTLP], rows[i].allow, s));
}

void landlock_try(struct tally *tally, const struct fixture *s)
{
	struct names names;

	if (!s->landlock) {
		printf("skipped: this kernel has no Landlock\n");
		return;
	}
	names_init(&names, s);
	try_roles(tally, s);
	try_opens(tally, s, &names);
	try_makes(tally, s, &names);
	if (s->landlock >= LANDLOCK_TCP)
		try_ports(tally, s);
	else
		printf("skipped: the Landlock of this kernel does not restrict TCP\n");
}
