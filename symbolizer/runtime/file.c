/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/runtime/file.h"

#include <errno.h>

#include "common/file_read.h"

static int file_source_read(void *context, uint64_t offset, void *buffer, size_t length)
{
	return file_read_exactly((int)(intptr_t)context, offset, buffer, length);
}

int runtime_file_init(struct runtime_file *file, int fd, const char *path)
{
	struct stat st;

	*file = (struct runtime_file){.path = path};
	int r = file_read_status(fd, &st);
	if (r < 0)
		return r;
	const struct elf_source source = {.read = file_source_read,
					  .context = (void *)(intptr_t)fd,
					  .size = (uint64_t)st.st_size};
	r = elf_image_init(&file->image, &source);
	if (r < 0)
		return r;
	r = elf_lookup_init(&file->symbols, &file->image);
	if (r < 0)
		runtime_file_fini(file);
	return r;
}

void runtime_file_fini(struct runtime_file *file)
{
	elf_lookup_fini(&file->symbols);
	elf_image_fini(&file->image);
}

static int symbol_take(int r, const struct elf_symbol *found, struct runtime_symbol *symbol)
{
	if (r == 0)
		*symbol = (struct runtime_symbol){.vaddr = found->value, .size = found->size};
	return r;
}

int runtime_file_exported(const struct runtime_file *file, const char *name,
			  struct runtime_symbol *symbol)
{
	struct elf_symbol found;

	return symbol_take(elf_lookup_exported(&file->symbols, name, &found), &found, symbol);
}

int runtime_file_variable(const struct runtime_file *file, const char *name,
			  struct runtime_variable *variable)
{
	struct elf_symbol found;
	int r = elf_lookup_exported(&file->symbols, name, &found);

	if (r < 0)
		return r;
	*variable = (struct runtime_variable){.vaddr = found.value};
	/* What a program has is never taken over. */
	if (!elf_image_find_section(&file->image, ".interp"))
		elf_lookup_slot(&file->symbols, name, &variable->slot);
	return 0;
}

int runtime_variable_address(const struct runtime_variable *variable, struct memory *memory,
			     uint64_t bias, uint64_t *address)
{
	*address = variable->vaddr + bias;
	if (!variable->slot)
		return 0;
	int r = memory_read_u64(memory, variable->slot + bias, address);
	return r ? r : *address ? 0 : -EAGAIN;
}

int runtime_file_local(const struct runtime_file *file, const char *name,
		       struct runtime_symbol *symbol)
{
	struct elf_symbol found;

	return symbol_take(elf_lookup_local(&file->symbols, name, &found), &found, symbol);
}

int runtime_file_read(const struct runtime_file *file, uint64_t vaddr, void *buffer, size_t length)
{
	const struct elf_source *source = &file->image.source;
	uint64_t offset;

	if (!elf_image_vaddr_to_offset(&file->image, vaddr, &offset))
		return -ENODATA;
	return source->read(source->context, offset, buffer, length);
}
