/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps a copy of a file as code, renames something else into its place, and uses CPU time in it; again and
 * again: a FIFO, a socket, a device, a link to a file that is secret, and a directory.
 *
 *	replaced_files DIRECTORY FILE
 *
 * The code is at the start of the second page, and counts down from its argument. A user can have no device
 * made, so it is made before the change of the uid.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

#include "attack.h"

enum {
	MS = 20,
	SIZE_MAX_BYTES = 64 << 10,
	KINDS = 5,
};

static int make_socket(const char *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const int s = socket(AF_UNIX, SOCK_STREAM, 0);

	strcpy(address.sun_path, name);
	return s < 0 || bind(s, (struct sockaddr *)&address, sizeof(address)) < 0 || close(s) < 0 ? -1 : 0;
}

static int make(int kind, const char *name)
{
	switch (kind) {
	case 0:
		return mkfifo(name, 0666);
	case 1:
		return make_socket(name);
	case 2:
		return rename("device", name);
	case 3:
		return symlink("/etc/shadow", name);
	default:
		return mkdir(name, 0777);
	}
}

static void use_file(int kind, const unsigned char *bytes, size_t size)
{
	const int file = open("code", O_RDWR | O_CREAT | O_EXCL, 0755);

	if (file < 0 || write(file, bytes, size) != (ssize_t)size)
		attack_fail("copy");
	const unsigned char *memory = mmap(NULL, size, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
	if (memory == MAP_FAILED || make(kind, "other") < 0)
		attack_fail("other");
	close(file);
	/* A file cannot become a directory, so it is removed before. */
	if ((kind == KINDS - 1 && unlink("code") < 0) || rename("other", "code") < 0)
		attack_fail("rename");
	attack_call_code(memory + ATTACK_PAGE, MS);
	munmap((void *)memory, size);
	if (kind == KINDS - 1 ? rmdir("code") < 0 : kind == 2 ? rename("code", "device") < 0 : unlink("code") < 0)
		attack_fail("clean up");
}

int main(int argc, char **argv)
{
	static unsigned char bytes[SIZE_MAX_BYTES];
	const int file = open(argc == 3 ? argv[2] : "", O_RDONLY);

	const ssize_t size = read(file, bytes, sizeof(bytes));

	if (size <= ATTACK_PAGE || chdir(argv[1]) < 0 || chown(".", NOBODY, NOBODY) < 0)
		attack_fail("files");
	/* /dev/ptmx: to open it makes a terminal. */
	if (mknod("device", S_IFCHR | 0666, makedev(5, 2)) < 0)
		attack_fail("device");
	attack_contain();
	attack_drop_privileges();
	attack_say_ready();
	for (int i = 0;; i = (i + 1) % KINDS)
		use_file(i, bytes, (size_t)size);
}
