/* SPDX-License-Identifier: Apache-2.0 */
#include "common/process_memory.h"

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

ssize_t process_memory_read(int fd, pid_t pid, uint64_t address, void *buffer, size_t length)
{
	const struct iovec local = {.iov_base = buffer, .iov_len = length};
	const struct iovec remote = {.iov_base = (void *)(uintptr_t)address, .iov_len = length};
	const ssize_t n = fd < 0 ? process_vm_readv(pid, &local, 1, &remote, 1, 0)
				 : pread(fd, buffer, length, (off_t)address);

	return n < 0 ? -errno : n;
}
