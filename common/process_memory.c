/* SPDX-License-Identifier: Apache-2.0 */
#include "common/process_memory.h"

#include <sys/syscall.h>
#include <sys/uio.h>

#include "common/raw_syscall.h"

/* The thread of a role may come back from here while another one goes on with the role. */
ssize_t process_memory_read(int fd, pid_t pid, uint64_t address, void *buffer, size_t length)
{
	const struct iovec local = {.iov_base = buffer, .iov_len = length};
	const struct iovec remote = {.iov_base = (void *)(uintptr_t)address, .iov_len = length};

	if (fd < 0)
		return RAW_SYSCALL(SYS_process_vm_readv, pid, (long)&local, 1, (long)&remote, 1);
	return RAW_SYSCALL(SYS_pread64, fd, (long)buffer, (long)length, (long)address);
}
