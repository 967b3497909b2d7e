/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/worker/symbols.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file_read.h"
#include "parse/debug_link.h"
#include "parse/elf_cache.h"
#include "symbolizer/worker/symbols_private.h"

static void cleanup_symbols(struct symbols **symbols)
{
	symbols_free(*symbols);
}

/* Reads .gnu_debuglink. Returns 0, also if there is none, or -ENOMEM. */
static int read_link(struct symbols *symbols, const struct elf_image *image)
{
	struct debug_link link;
	const int r = debug_link_read(image, &link);

	if (r < 0)
		return r == -ENOMEM ? r : 0;
	symbols->link.name = strdup(link.name);
	symbols->link.crc = link.crc;
	return symbols->link.name ? 0 : -ENOMEM;
}

int symbols_new(int fd, size_t cap_bytes, struct symbols **symbols)
{
	_cleanup_(cleanup_symbols) struct symbols *made = calloc(1, sizeof(*made));
	struct elf_source source;
	struct elf_image image;
	int r;

	if (!made)
		return -ENOMEM;
	made->fd = made->names.fd = made->namer_fd = fd;
	made->cap_bytes = cap_bytes;
	r = symbol_file_source(&source, &fd);
	if (r)
		return r;
	symbol_file_hash(fd, source.size, made->ids.htlhash);

	r = elf_image_init(&image, &source);
	if (r == 0) {
		made->build_id_length = image.build_id_length;
		memcpy(made->build_id, image.build_id, sizeof(made->build_id));
		r = symbol_table_build(made, &image, cap_bytes);
		if (r == 0)
			r = read_link(made, &image);
		if (r == 0)
			r = namer_open(&made->namer, &image);
		elf_image_fini(&image);
	} else if (r == -ENOEXEC || r == -ENODATA) {
		r = 0;
	}
	if (r)
		return r == -ENOMEM || r == -EFBIG ? r : -EIO;
	*symbols = TAKE_PTR(made);
	return 0;
}

void symbols_close_further(struct symbols *symbols)
{
	while (symbols->further_count)
		close(symbols->further_fds[--symbols->further_count]);
}

void symbols_free(struct symbols *symbols)
{
	if (!symbols)
		return;
	free(symbols->segments);
	free(symbols->regions);
	free(symbols->entries);
	free((void *)symbols->names.more.data);
	function_ranges_fini(&symbols->ranges);
	namer_close(&symbols->namer);
	symbols_close_further(symbols);
	free(symbols->link.name);
	free(symbols);
}

/* --- lookup --- */

size_t symbols_bytes(const struct symbols *symbols)
{
	return symbol_table_fixed_bytes(symbols) +
	       symbols->entry_count * sizeof(struct symbol_entry) +
	       function_ranges_bytes(&symbols->ranges) + namer_bytes(&symbols->namer);
}

const struct symbols_ids *symbols_get_ids(const struct symbols *symbols)
{
	return &symbols->ids;
}

bool symbols_offset_to_vaddr(const struct symbols *symbols, uint64_t file_offset, uint64_t *vaddr)
{
	for (uint32_t i = 0; i < symbols->segment_count; i++) {
		const struct symbol_segment *segment = &symbols->segments[i];

		if (file_offset >= segment->offset &&
		    file_offset - segment->offset < segment->file_size) {
			*vaddr = segment->vaddr + (file_offset - segment->offset);
			return true;
		}
	}
	return false;
}

bool symbols_code_start(const struct symbols *symbols, uint64_t *vaddr, uint64_t *file_offset)
{
	for (uint32_t i = 0; i < symbols->segment_count; i++) {
		if (symbols->segments[i].executable) {
			*vaddr = symbols->segments[i].vaddr;
			*file_offset = symbols->segments[i].offset;
			return true;
		}
	}
	return false;
}

bool symbols_have_namer(const struct symbols *symbols)
{
	return symbols->namer.ops != NULL;
}

bool symbols_find(const struct symbols *symbols, uint64_t file_offset, struct symbol *symbol)
{
	const struct symbol_region *region;
	const struct symbol_entry *entry;
	struct symbol found;
	uint64_t vaddr;
	bool ok;

	if (!symbols_offset_to_vaddr(symbols, file_offset, &vaddr))
		return false;
	region = symbol_sections_find_region(symbols, vaddr);
	entry = symbol_table_find_entry(symbols, vaddr);
	if (entry)
		ok = symbol_table_read_entry(symbols, entry, "", &found);
	else
		ok = region && region->plt &&
		     symbol_plt_find(symbols, region, file_offset, vaddr, &found);
	if (ok)
		*symbol = found;
	return ok;
}

/* Returns the bytes of a symbol's name up to the end of a function's name, if the symbol has a
 * namespace before that; otherwise 0: work::hidden.part.0 is the function hidden. */
static size_t qualified_length(const char *symbol, const char *function)
{
	const size_t length = strlen(function);

	for (const char *at = symbol; (at = strstr(at, function)); at++) {
		if (at - symbol >= 2 && at[-1] == ':' && at[-2] == ':' &&
		    (!at[length] || at[length] == '.'))
			return (size_t)(at - symbol) + length;
	}
	return 0;
}

/* Names the outermost function by its symbol, where that says more than debug information does: if
 * only the line is known, or if the symbol has a namespace. (gcc leaves that out of functions in
 * anonymous namespaces.) Returns 0, or -ENOENT if it has no name. */
static int complete_by_symbol(const struct symbols *symbols, uint64_t file_offset,
			      struct named_frames *frames)
{
	struct named_frame *outermost = &frames->frames[frames->count - 1];
	const bool has_name = outermost->function[0] != 0;
	struct symbol symbol;

	if (outermost->mangled || !symbols_find(symbols, file_offset, &symbol))
		return has_name ? 0 : -ENOENT;
	const size_t length =
	    has_name ? qualified_length(symbol.name, outermost->function) : strlen(symbol.name);
	if (length)
		outermost->function = named_frames_keep(frames, symbol.name, length);
	if (length && symbol.system_name[0])
		outermost->system_name =
		    named_frames_keep(frames, symbol.system_name, strlen(symbol.system_name));
	return 0;
}

int symbols_find_frames(struct symbols *symbols, struct elf_cache *cache, uint64_t file_offset,
			struct named_frames *frames)
{
	const struct elf_source source = {
	    .read = file_read_from, .context = &symbols->namer_fd, .size = UINT64_MAX};
	struct elf_source further[NAMER_FILES_MAX];
	uint64_t vaddr;

	if (!symbols_offset_to_vaddr(symbols, file_offset, &vaddr))
		return -ENOENT;
	const struct elf_source cached =
	    cache ? elf_cache_source(cache, &source, &symbols->cached_file) : source;
	for (unsigned int i = 0; i < symbols->further_count; i++)
		further[i] = (struct elf_source){.read = file_read_from,
						 .context = &symbols->further_fds[i],
						 .size = UINT64_MAX};
	const struct namer_sources sources = {.file = &cached, .further = further};
	const int r = namer_name(&symbols->namer, &sources, vaddr, frames);
	return r == 0 && frames->kind == FRAME_KIND_NATIVE
		   ? complete_by_symbol(symbols, file_offset, frames)
		   : r;
}

void symbols_index_ranges(struct symbols *symbols)
{
	struct elf_source source = {.read = file_read_from, .context = &symbols->fd};
	const size_t used = symbols_bytes(symbols);
	struct elf_image image;
	struct stat stat;

	if (symbols->ranges_ready)
		return;
	symbols->ranges_ready = true;
	if (used >= symbols->cap_bytes || file_read_status(symbols->fd, &stat) < 0 ||
	    stat.st_size <= 0)
		return;
	source.size = (uint64_t)stat.st_size;
	if (elf_image_init(&image, &source) < 0)
		return;
	function_ranges_init(&symbols->ranges, &image, symbols->cap_bytes - used);
	elf_image_fini(&image);
}

int symbols_find_start(const struct symbols *symbols, uint64_t file_offset, uint64_t *start_vaddr)
{
	int fd = symbols->fd;
	const struct elf_source source = {
	    .read = file_read_from, .context = &fd, .size = UINT64_MAX};
	struct function_range range;
	uint64_t vaddr;

	if (!symbols_offset_to_vaddr(symbols, file_offset, &vaddr))
		return -ENOENT;
	/* One FDE covers the whole of a procedure linkage table. */
	const struct symbol_region *region = symbol_sections_find_region(symbols, vaddr);
	if (region && region->plt) {
		*start_vaddr = vaddr - symbol_plt_into_entry(symbols, region, vaddr);
		return 0;
	}
	if (!symbols->ranges_ready)
		return -EAGAIN;
	if (!function_ranges_find(&symbols->ranges, &source, vaddr, &range))
		return -ENOENT;
	*start_vaddr = range.start;
	return 0;
}
