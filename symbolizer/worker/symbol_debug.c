/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Debug files of the files with symbols.
 *
 * How this works. A debug file belongs to a file if both have the same build id. A file without a
 * build id has .gnu_debuglink, with a checksum of the whole debug file.
 *
 * Further files of the namer, such as an alternate file with what several debug files have in
 * common, belong to a file if the namer says so.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "common/cleanup.h"
#include "common/file_read.h"
#include "parse/debug_link.h"
#include "symbolizer/worker/symbols.h"
#include "symbolizer/worker/symbols_private.h"

enum {
	CHECK_STEP_BYTES = 64 << 10, /* that are read at once for the checksum */
};
/* A file with a larger one is not checked: that would take some seconds. */
static const uint64_t check_bytes_max = 1ull << 30;

size_t symbols_want_debug(const struct symbols *symbols, const uint8_t **id)
{
	*id = symbols->build_id;
	return symbols->namer.ops ? 0 : symbols->build_id_length;
}

const char *symbols_debug_link(const struct symbols *symbols)
{
	return symbols->namer.ops || !symbols->link.name ? "" : symbols->link.name;
}

/* Checks a file that .gnu_debuglink may mean. Returns 0: it is the right one; -ENOENT: it is
 * another one; -ENOMEM. */
static int link_check(const struct symbol_link *link, const struct elf_source *source)
{
	uint32_t crc = 0;

	if (!link->name || source->size > check_bytes_max)
		return -ENOENT;
	_cleanup_free_ uint8_t *bytes = malloc(CHECK_STEP_BYTES);
	if (!bytes)
		return -ENOMEM;
	for (uint64_t at = 0; at < source->size; at += CHECK_STEP_BYTES) {
		const uint64_t left = source->size - at;
		const size_t length = left < CHECK_STEP_BYTES ? (size_t)left : CHECK_STEP_BYTES;

		if (source->read(source->context, at, bytes, length) < 0)
			return -ENOENT;
		crc = (uint32_t)crc32(crc, bytes, (uInt)length);
	}
	return crc == link->crc ? 0 : -ENOENT;
}

/* Returns 0 if an image is that of the debug file of a file; otherwise as link_check(). */
static int check_debug_image(const struct symbols *symbols, const struct elf_image *image)
{
	if (!symbol_sections_are_of(symbols, image))
		return -ENOENT;
	if (!symbols->build_id_length)
		return link_check(&symbols->link, &image->source);
	return image->build_id_length == symbols->build_id_length &&
		       !memcmp(image->build_id, symbols->build_id, symbols->build_id_length)
		   ? 0
		   : -ENOENT;
}

/* Adds what the debug file with this image says. */
static int add_debug_image(struct symbols *symbols, const struct elf_image *image, int fd)
{
	int r = check_debug_image(symbols, image);

	if (r < 0)
		return r;
	if (!symbols->has_symtab)
		r = symbol_table_replace(symbols, image, fd);
	/* A table of symbols that is too large does not keep the namer from its work. */
	if (r != -ENOMEM && !symbols->namer.ops) {
		symbols->namer_fd = fd;
		const int opened = namer_open(&symbols->namer, image);
		r = r ? r : opened;
	}
	return r;
}

int symbols_add_debug(struct symbols *symbols, int fd)
{
	struct elf_source source;
	struct elf_image image;
	int r = symbol_file_source(&source, &fd);

	if (r)
		return r;
	r = elf_image_init(&image, &source);
	if (r == 0) {
		r = add_debug_image(symbols, &image, fd);
		elf_image_fini(&image);
	}
	return r == -ENODATA ? -ENOEXEC : r;
}

const struct namer_wanted *symbols_wanted(const struct symbols *symbols)
{
	return namer_wanted(&symbols->namer);
}

int symbols_add_wanted(struct symbols *symbols, int fd)
{
	struct elf_source source;
	struct elf_image image;
	int r = symbol_file_source(&source, &fd);

	if (r)
		return r;
	r = elf_image_init_sections(&image, &source);
	if (r == 0) {
		r = symbols->further_count < NAMER_FILES_MAX ? namer_add(&symbols->namer, &image)
							     : -EFBIG;
		elf_image_fini(&image);
		if (r == 0)
			symbols->further_fds[symbols->further_count++] = fd;
		else if (r == -ENOENT)
			r = -ENOEXEC;
	}
	return r == -ESTALE ? -ENOENT : r == -ENODATA || r == -EBADMSG ? -ENOEXEC : r;
}

void symbols_do_without(struct symbols *symbols)
{
	namer_do_without(&symbols->namer);
}

unsigned int symbols_further_files(const struct symbols *symbols)
{
	return symbols->further_count;
}

size_t symbols_drop_debug(struct symbols *symbols)
{
	if (!symbols->namer.ops || symbols->namer_fd == symbols->fd)
		return 0;
	const size_t before = symbols_bytes(symbols);

	namer_close(&symbols->namer);
	symbols_close_further(symbols);
	return before - symbols_bytes(symbols);
}
