/* SPDX-License-Identifier: Apache-2.0 */
/* The memory that the manager shares with the kernel (slabs, rules, modules), in ordinary memory of
 * this process. For tests and benchmarks. */
#ifndef TESTS_SUPPORT_UNWIND_MEMORY_H
#define TESTS_SUPPORT_UNWIND_MEMORY_H

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "unwinder-mgr/tables.h"
#include "unwinder-mgr/walker.h"

struct unwind_memory {
	struct slabs slabs;
	struct rules *rules;
	struct bh_module *modules;
};

/* Adds a slab, as if the loader had sent it. Returns 0 or a negative errno. */
static inline int unwind_memory_add_slab(struct unwind_memory *memory)
{
	_cleanup_close_ int fd = memfd_create("slab", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, BH_SLAB_BYTES) < 0)
		return -errno;
	return slabs_add(&memory->slabs, memory->slabs.count, fd);
}

/* Creates the memory with this many slabs. There will be no more. Returns 0 or a negative errno. */
static inline int unwind_memory_init(struct unwind_memory *memory, unsigned int slab_count)
{
	int r = 0;

	*memory = (struct unwind_memory){.rules = calloc(1, sizeof(*memory->rules))};
	struct bh_rule *table = calloc(RULES_MAX, sizeof(*table));
	memory->modules = calloc(1 << BH_MODULES_BITS, sizeof(*memory->modules));
	if (!memory->rules || !table || !memory->modules)
		return -ENOMEM;
	rules_init(memory->rules, table);
	memory->modules[0].state = BH_MODULE_FRAME_POINTERS;
	for (unsigned int i = 0; i < slab_count && !r; i++)
		r = unwind_memory_add_slab(memory);
	memory->slabs.exhausted = true;
	return r;
}

static inline void unwind_memory_fini(struct unwind_memory *memory)
{
	for (unsigned int i = 0; i < memory->slabs.count; i++) {
		munmap(memory->slabs.slabs[i].data, BH_SLAB_BYTES);
		free(memory->slabs.slabs[i].free);
	}
	free(memory->slabs.retired);
	free(memory->rules->table);
	free(memory->rules);
	free(memory->modules);
}

static inline struct walker_tables unwind_memory_tables(const struct unwind_memory *memory)
{
	struct walker_tables tables = {.modules = memory->modules, .rules = memory->rules->table};

	for (unsigned int i = 0; i < memory->slabs.count; i++)
		tables.slabs[i] = memory->slabs.slabs[i].data;
	return tables;
}

static inline void unwind_memory_publish(struct unwind_memory *memory, uint32_t slot,
					 uint32_t id, const struct table *table)
{
	memory->modules[slot] = (struct bh_module){
	    .state = BH_MODULE_READY,
	    .id = id,
	    .page_slab = table->pages.slab,
	    .page_offset = table->pages.offset,
	    .first_page = table->first_page,
	    .page_count = table->page_count,
	};
}

/* A file that has been read into memory, as an elf_source. */
struct unwind_file {
	uint8_t *data;
	struct elf_buffer buffer;
	struct elf_source source;
};

static inline int unwind_file_read(struct unwind_file *file, const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	*file = (struct unwind_file){0};
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -ENOEXEC;
	uint8_t *data = malloc((size_t)st.st_size + 1);
	if (!data)
		return -ENOMEM;
	for (size_t done = 0; done < (size_t)st.st_size;) {
		ssize_t n = read(fd, data + done, (size_t)st.st_size - done);

		if (n <= 0) {
			free(data);
			return n < 0 ? -errno : -ENODATA;
		}
		done += (size_t)n;
	}
	file->data = data;
	file->buffer = (struct elf_buffer){data, (size_t)st.st_size};
	return 0;
}

/* Returns the source. `file` must not be moved after that. */
static inline const struct elf_source *unwind_file_source(struct unwind_file *file)
{
	file->source = elf_source_from_buffer(&file->buffer);
	return &file->source;
}

#endif
