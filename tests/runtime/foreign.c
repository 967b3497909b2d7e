/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/runtime/foreign.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "symbolizer/runtime/file.h"

/* The wrapped functions have nothing else to know it by. */
static struct foreign *current;

ssize_t __real_pread(int fd, void *buffer, size_t length, off_t offset);
ssize_t __wrap_pread(int fd, void *buffer, size_t length, off_t offset);
ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
				const struct iovec *remote, unsigned long remote_count,
				unsigned long flags);
int __real_runtime_file_local(const struct runtime_file *file, const char *name,
			      struct runtime_symbol *symbol);
int __wrap_runtime_file_local(const struct runtime_file *file, const char *name,
			      struct runtime_symbol *symbol);

void foreign_use(struct foreign *foreign)
{
	current = foreign;
}

/* xorshift64* (Vigna 2016). */
static uint64_t random_next(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1dull;
}

static bool fault_fails(struct foreign *foreign)
{
	foreign->reads++;
	return foreign->faults.fail_every && foreign->reads % foreign->faults.fail_every == 0;
}

/* A pointer into what is there already makes more trouble than noise does. */
static void fault_flip(struct foreign *foreign, uint8_t *bytes, size_t length)
{
	struct foreign_faults *faults = &foreign->faults;

	if (!faults->flip_one_in || !length || random_next(&faults->random) % faults->flip_one_in)
		return;
	const uint64_t how = random_next(&faults->random);
	const size_t at = (size_t)((how >> 16) % length);
	const size_t from = (size_t)((how >> 40) % length);
	switch (how % 4) {
	case 0:
		bytes[at] ^= (uint8_t)(1u << (how >> 8 & 7));
		break;
	case 1:
		bytes[at] = (uint8_t)(how >> 8);
		break;
	case 2:
		memset(bytes, how & 16 ? 0xff : 0, length);
		break;
	default:
		for (size_t i = 0; i < 8 && (at & ~7ull) + i < length; i++)
			bytes[(at & ~7ull) + i] =
			    bytes[(from & ~7ull) + i < length ? (from & ~7ull) + i : from];
	}
}

static void outside(struct foreign *foreign, const char *of, uint64_t address, uint64_t length)
{
	if (foreign->outside++)
		return;
	foreign->outside_of = of;
	foreign->outside_address = address;
	foreign->outside_length = length;
}

static int recorded_read(struct foreign *foreign, const struct recording *recording, const char *of,
			 uint64_t address, void *to, size_t length)
{
	if (fault_fails(foreign))
		return -EFAULT;
	int r = recording_get(recording, address, to, length);
	if (r < 0 && foreign->faults.anywhere) {
		recording_get_some(recording, address, to, length, foreign->faults.anywhere);
		r = 0;
	}
	if (r == -ENODATA)
		outside(foreign, of, address, length);
	if (r < 0)
		return -EFAULT;
	fault_flip(foreign, to, length);
	return 0;
}

static int live_read(struct foreign *foreign, struct recording *recording, int fd, uint64_t address,
		     void *to, size_t length)
{
	size_t done = 0;

	while (done < length && address <= INT64_MAX - length) {
		const ssize_t n =
		    __real_pread(fd, (uint8_t *)to + done, length - done, (off_t)(address + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	const int r = done == length ? recording_put(recording, address, to, length)
				     : recording_put_failure(recording, address, length);
	if (r < 0)
		foreign->error = r;
	return done == length ? 0 : -EFAULT;
}

int foreign_read(struct foreign *foreign, uint64_t address, void *to, size_t length)
{
	if (foreign->live_fd >= 0)
		return live_read(foreign, foreign->memory, foreign->live_fd, address, to, length);
	return recorded_read(foreign, foreign->memory, "memory", address, to, length);
}

int foreign_read_around(void *context, uint64_t address, void *to, size_t length)
{
	struct foreign *foreign = context;

	if (foreign->live_fd >= 0 ||
	    recording_get(foreign->memory, address, to, length) != -ENODATA ||
	    !recording_get_some(foreign->memory, address, to, length, 0))
		return foreign_read(foreign, address, to, length);
	if (fault_fails(foreign))
		return -EFAULT;
	fault_flip(foreign, to, length);
	return 0;
}

/* memory.c's one way to memory, in strict mode. */
ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
				const struct iovec *remote, unsigned long remote_count,
				unsigned long flags)
{
	(void)pid;
	(void)local_count;
	(void)remote_count;
	(void)flags;
	if (!current || foreign_read(current, (uint64_t)(uintptr_t)remote->iov_base,
				     local->iov_base, local->iov_len) < 0) {
		errno = EFAULT;
		return -1;
	}
	return (ssize_t)local->iov_len;
}

/* file.c's. */
ssize_t __wrap_pread(int fd, void *buffer, size_t length, off_t offset)
{
	struct foreign_file *file = current ? current->file : NULL;
	int r;

	if (!file || fd != file->fd)
		return __real_pread(fd, buffer, length, offset);
	if (current->live_fd >= 0)
		r = live_read(current, &file->bytes, fd, (uint64_t)offset, buffer, length);
	else
		r = recorded_read(current, &file->bytes, "file", (uint64_t)offset, buffer, length);
	errno = EIO;
	return r < 0 ? -1 : (ssize_t)length;
}

const struct foreign_symbol *foreign_file_symbol(const struct foreign_file *file, const char *name)
{
	for (unsigned int i = 0; i < file->symbol_count; i++) {
		if (!strcmp(file->symbols[i].name, name))
			return &file->symbols[i];
	}
	return NULL;
}

int __wrap_runtime_file_local(const struct runtime_file *file, const char *name,
			      struct runtime_symbol *symbol)
{
	struct foreign *foreign = current;

	if (!foreign || !foreign->file)
		return __real_runtime_file_local(file, name, symbol);
	struct foreign_file *from = foreign->file;
	const struct foreign_symbol *known = foreign_file_symbol(from, name);
	if (!known && foreign->live_fd >= 0 && from->symbol_count < FOREIGN_SYMBOLS_MAX) {
		struct foreign_symbol *s = &from->symbols[from->symbol_count++];
		struct runtime_symbol found = {0};

		/* Without its reads of .symtab being recorded. */
		foreign_use(NULL);
		s->found = __real_runtime_file_local(file, name, &found) == 0;
		foreign_use(foreign);
		snprintf(s->name, sizeof(s->name), "%s", name);
		s->vaddr = found.vaddr;
		s->size = found.size;
		known = s;
	}
	if (!known) {
		outside(foreign, "symbols of the file", 0, 0);
		return -ENOENT;
	}
	if (!known->found || fault_fails(foreign))
		return -ENOENT;
	*symbol = (struct runtime_symbol){.vaddr = known->vaddr, .size = known->size};
	return 0;
}

int foreign_file_stand_in(uint64_t size)
{
	const int fd = memfd_create("recorded", MFD_CLOEXEC);

	if (fd >= 0 && ftruncate(fd, (off_t)size) < 0) {
		close(fd);
		return -EINVAL;
	}
	return fd < 0 ? -errno : fd;
}

void foreign_file_fini(struct foreign_file *file)
{
	if (file->fd >= 0)
		close(file->fd);
	file->fd = -1;
	recording_fini(&file->bytes);
}
