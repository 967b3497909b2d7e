/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/runtime/other_process.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "parse/v8_builtins.h"
#include "symbolizer/runtime/file.h"
#include "symbolizer/runtime/memory.h"

/* A global, because the wrapped functions have no argument for it. */
static struct other_process *current;

ssize_t __real_pread(int fd, void *buffer, size_t length, off_t offset);
ssize_t __wrap_pread(int fd, void *buffer, size_t length, off_t offset);
ssize_t __wrap_process_memory_read(int fd, pid_t pid, uint64_t address, void *buffer,
				   size_t length);
int __real_runtime_file_local(const struct runtime_file *file, const char *name,
			      struct runtime_symbol *symbol);
int __wrap_runtime_file_local(const struct runtime_file *file, const char *name,
			      struct runtime_symbol *symbol);
int __real_v8_builtins_find(struct v8_builtins *builtins, const struct elf_image *image,
			    const struct v8_builtins_form *form);
int __wrap_v8_builtins_find(struct v8_builtins *builtins, const struct elf_image *image,
			    const struct v8_builtins_form *form);
int __real_v8_bytecode_sizes_find(uint64_t *vaddr, const struct elf_image *image,
				  unsigned int count);
int __wrap_v8_bytecode_sizes_find(uint64_t *vaddr, const struct elf_image *image,
				  unsigned int count);

void other_process_use(struct other_process *other)
{
	current = other;
}

/* Returns the next number of the generator xorshift64* (Vigna, 2016). */
static uint64_t random_next(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1dull;
}

static bool fault_fails(struct other_process *other)
{
	other->reads++;
	return other->faults.fail_every && other->reads % other->faults.fail_every == 0;
}

/* Changes some bytes. A pointer into recorded memory causes more trouble than random bytes do. */
static void fault_flip(struct other_process *other, uint8_t *bytes, size_t length)
{
	struct other_process_faults *faults = &other->faults;

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

static void outside(struct other_process *other, const char *of, uint64_t address, uint64_t length)
{
	if (other->outside++)
		return;
	other->outside_of = of;
	other->outside_address = address;
	other->outside_length = length;
}

static int recorded_read(struct other_process *other, const struct recording *recording,
			 const char *of, uint64_t address, void *to, size_t length)
{
	if (fault_fails(other))
		return -EFAULT;
	int r = recording_get(recording, address, to, length);
	if (r < 0 && other->faults.anywhere) {
		recording_get_some(recording, address, to, length, other->faults.anywhere);
		r = 0;
	}
	/* The cache tries whole pages first (symbolizer/runtime/memory.h). Of one that was recorded
	 * in part, it reads what is needed. */
	const bool whole_page = length == MEMORY_PAGE_BYTES && address % MEMORY_PAGE_BYTES == 0;
	if (r == -ENODATA && !whole_page)
		outside(other, of, address, length);
	if (r < 0)
		return -EFAULT;
	fault_flip(other, to, length);
	return 0;
}

static int live_read(struct other_process *other, struct recording *recording, int fd,
		     uint64_t address, void *to, size_t length)
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
		other->error = r;
	return done == length ? 0 : -EFAULT;
}

int other_process_read(struct other_process *other, uint64_t address, void *to, size_t length)
{
	if (other->live_fd >= 0)
		return live_read(other, other->memory, other->live_fd, address, to, length);
	return recorded_read(other, other->memory, "memory", address, to, length);
}

int other_process_read_around(void *context, uint64_t address, void *to, size_t length)
{
	struct other_process *other = context;

	if (other->live_fd >= 0 || recording_get(other->memory, address, to, length) != -ENODATA ||
	    !recording_get_some(other->memory, address, to, length, 0))
		return other_process_read(other, address, to, length);
	if (fault_fails(other))
		return -EFAULT;
	fault_flip(other, to, length);
	return 0;
}

/* memory.c reads memory only through this function. */
ssize_t __wrap_process_memory_read(int fd, pid_t pid, uint64_t address, void *buffer, size_t length)
{
	(void)fd;
	(void)pid;
	return current && !other_process_read(current, address, buffer, length) ? (ssize_t)length
										: -EFAULT;
}

/* file.c reads files only through pread(). */
ssize_t __wrap_pread(int fd, void *buffer, size_t length, off_t offset)
{
	struct other_process_file *file = current ? current->file : NULL;
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

const struct other_process_symbol *other_process_file_symbol(const struct other_process_file *file,
							     const char *name)
{
	for (unsigned int i = 0; i < file->symbol_count; i++) {
		if (!strcmp(file->symbols[i].name, name))
			return &file->symbols[i];
	}
	return NULL;
}

/* Keeps what was found in the live file as a symbol. */
static void symbol_keep(struct other_process_file *file, const char *name, bool found,
			const struct runtime_symbol *symbol)
{
	if (file->symbol_count == OTHER_PROCESS_SYMBOLS_MAX)
		return;
	struct other_process_symbol *s = &file->symbols[file->symbol_count++];

	*s = (struct other_process_symbol){
	    .found = found, .vaddr = symbol->vaddr, .size = symbol->size};
	snprintf(s->name, sizeof(s->name), "%s", name);
}

/* Looks a symbol up in what was recorded. */
static int symbol_recorded(struct other_process *other, const char *name,
			   struct runtime_symbol *symbol)
{
	const struct other_process_symbol *known = other_process_file_symbol(other->file, name);

	if (!known) {
		outside(other, "symbols of the file", 0, 0);
		return -ENOENT;
	}
	if (!known->found || fault_fails(other))
		return -ENOENT;
	*symbol = (struct runtime_symbol){.vaddr = known->vaddr, .size = known->size};
	return 0;
}

/* Returns whether the live file is to be searched, because the symbol is not known yet. What is
 * read for that must not be recorded. */
static bool search_begin(struct other_process *other, const char *name)
{
	const bool searched = other->live_fd >= 0 && !other_process_file_symbol(other->file, name);

	if (searched)
		other_process_use(NULL);
	return searched;
}

int __wrap_runtime_file_local(const struct runtime_file *file, const char *name,
			      struct runtime_symbol *symbol)
{
	struct other_process *other = current;

	if (!other || !other->file)
		return __real_runtime_file_local(file, name, symbol);
	if (search_begin(other, name)) {
		struct runtime_symbol found = {0};
		const bool is_found = __real_runtime_file_local(file, name, &found) == 0;

		other_process_use(other);
		symbol_keep(other->file, name, is_found, &found);
	}
	return symbol_recorded(other, name, symbol);
}

/* V8's builtins are found by reading most of the file. So what was found is recorded, as if it had
 * been symbols. */
static const char builtins_name[] = "V8 builtins", entry_name[] = "V8 entry",
		  handlers_name[] = "V8 handlers", sizes_name[] = "V8 bytecode sizes";

int __wrap_v8_builtins_find(struct v8_builtins *builtins, const struct elf_image *image,
			    const struct v8_builtins_form *form)
{
	struct other_process *other = current;
	struct runtime_symbol all, entry, handlers;

	if (!other || !other->file)
		return __real_v8_builtins_find(builtins, image, form);
	if (search_begin(other, builtins_name)) {
		struct v8_builtins b = {0};
		const bool found = __real_v8_builtins_find(&b, image, form) == 0;

		other_process_use(other);
		all = (struct runtime_symbol){.vaddr = b.start, .size = b.end - b.start};
		entry = (struct runtime_symbol){.vaddr = b.entry, .size = b.entry_end - b.entry};
		handlers = (struct runtime_symbol){.vaddr = b.handlers};
		symbol_keep(other->file, builtins_name, found, &all);
		symbol_keep(other->file, entry_name, found, &entry);
		symbol_keep(other->file, handlers_name, found, &handlers);
	}
	if (symbol_recorded(other, builtins_name, &all) < 0 ||
	    symbol_recorded(other, entry_name, &entry) < 0 ||
	    symbol_recorded(other, handlers_name, &handlers) < 0)
		return -ENOENT;
	*builtins = (struct v8_builtins){.start = all.vaddr,
					 .end = all.vaddr + all.size,
					 .entry = entry.vaddr,
					 .entry_end = entry.vaddr + entry.size,
					 .handlers = handlers.vaddr};
	return 0;
}

int __wrap_v8_bytecode_sizes_find(uint64_t *vaddr, const struct elf_image *image,
				  unsigned int count)
{
	struct other_process *other = current;
	struct runtime_symbol sizes = {0};

	if (!other || !other->file)
		return __real_v8_bytecode_sizes_find(vaddr, image, count);
	if (search_begin(other, sizes_name)) {
		const bool found = __real_v8_bytecode_sizes_find(&sizes.vaddr, image, count) == 0;

		other_process_use(other);
		symbol_keep(other->file, sizes_name, found, &sizes);
	}
	int r = symbol_recorded(other, sizes_name, &sizes);
	*vaddr = sizes.vaddr;
	return r;
}

int other_process_file_stand_in(uint64_t size)
{
	const int fd = memfd_create("recorded", MFD_CLOEXEC);

	if (fd >= 0 && ftruncate(fd, (off_t)size) < 0) {
		close(fd);
		return -EINVAL;
	}
	return fd < 0 ? -errno : fd;
}

void other_process_file_fini(struct other_process_file *file)
{
	if (file->fd >= 0)
		close(file->fd);
	file->fd = -1;
	recording_fini(&file->bytes);
}
