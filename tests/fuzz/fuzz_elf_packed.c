/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes reads of compressed sections. The input is a section. If it can be decompressed as a
 * whole, its parts are the same. */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "parse/elf_decompress.h"
#include "parse/elf_packed.h"

enum {
	CAP = 1 << 20,
	KEEP_BYTES = 64 << 10,
	PART_BYTES = 5000,
	READS_MAX = 64,
	COST = 8 << 20,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
	if (!good)
		abort();
}

/* Reads parts from `at` to the beginning, and compares them if the whole is known. */
static void read_parts(struct elf_packed *packed, const struct elf_source *file, uint64_t at,
		       const uint8_t *whole)
{
	uint8_t bytes[PART_BYTES];
	uint64_t unpaid = 0;
	const struct elf_source source = elf_packed_source(packed, file, &unpaid);

	for (int i = 0; i < READS_MAX && at > 0; i++) {
		const size_t length = at < PART_BYTES ? (size_t)at : PART_BYTES;

		at -= length;
		const int r = source.read(source.context, at, bytes, length);
		check(!whole || (r == 0 && !memcmp(bytes, whole + at, length)));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_buffer buffer = {data, size};
	const struct elf_image image = {.source = elf_source_from_buffer(&buffer)};
	const struct elf_section section = {.flags = SHF_COMPRESSED, .size = size};
	struct elf_packed *packed;
	_cleanup_free_ uint8_t *whole = NULL;
	uint64_t left = COST;
	size_t length;

	if (elf_packed_open(&image, &section, KEEP_BYTES, &packed) < 0)
		return 0;
	const bool is_whole = elf_decompress(data, size, CAP, &whole, &length) == 0;
	const uint64_t unpacked = elf_packed_length(packed);
	for (uint64_t quarter = 1; quarter <= 4; quarter++) {
		const uint64_t until = unpacked / 4 * quarter + unpacked % 4 * quarter / 4;
		const int r = elf_packed_index(packed, &image.source, until, &left);

		check(!is_whole || (r == 0 && length == unpacked));
		read_parts(packed, &image.source, until, whole);
	}
	elf_packed_free(packed);
	return 0;
}
