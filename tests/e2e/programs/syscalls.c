/* SPDX-License-Identifier: Apache-2.0 */
/* syscalls SECONDS: spends most of its time in system calls, always called by the same chain. */
#include <fcntl.h>

#include "chain.h"

CHAIN_GLOBALS;

KEEP long reader(int fd)
{
	static char buffer[65536];

	for (;;)
		chain_sink += (unsigned long)read(fd, buffer, sizeof(buffer));
	return 0;
}

KEEP long reader_outer(int fd)
{
	return reader(fd) + 1;
}

int main(int argc, char **argv)
{
	int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);

	chain_start(argc, argv, 0);
	chain_say("{'chains': [[{'re': '(__GI_)?(__)?(libc_)?read|libc.so.6.*', 'min': 0}, 'reader', 'reader_outer', 'main', '@start']], 'need': {'(__GI_)?(__)?(libc_)?read|libc.so.6.*': 0.5}}");
	return (int)reader_outer(fd);
}
