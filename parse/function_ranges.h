/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the function that covers an address in an ELF file without symbols. Unwind tables describe
 * each function by one FDE, which survives `strip`, so the start of the FDE's address range
 * identifies the function.
 *
 * How this works:
 * - Linkers write .eh_frame_hdr, a table of pairs {start of function, address of its FDE} sorted by
 *   the first (LSB 5.0, 10.6.2). If it is well-formed and really sorted, a lookup is a binary
 *   search in the file: 17 reads of 8 bytes for 100,000 functions, and no memory. The FDE that is
 *   found is then read to learn where the function ends.
 * - Without such a table, all FDEs of .eh_frame are read once into an index of 8 bytes each.
 * - Without .eh_frame, or if it cannot be parsed, no function is found.
 *
 * Example: .eh_frame_hdr has {0x1000, F1} and {0x1200, F2}; the FDE F1 covers 0x1000 to 0x1180. A
 * lookup of 0x1170 finds 0x1000..0x1180. A lookup of 0x1190 reaches the same pair, but the FDE ends
 * before the address, so there is no function: this is a gap (padding, or code without an FDE).
 *
 * Pure: bytes come through an elf_source. The file may be hostile and may change at any moment;
 * then a lookup finds nothing or a wrong range.
 */
#ifndef PARSE_FUNCTION_RANGES_H
#define PARSE_FUNCTION_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "parse/elf_image.h"

/* Virtual addresses as linked, start < end. */
struct function_range {
	uint64_t start, end;
};

struct function_ranges {
	uint64_t frames_offset, frames_bytes, frames_vaddr; /* .eh_frame; no bytes: there is none */
	uint64_t text_vaddr, data_vaddr; /* bases of encoded pointers, see cfi.h */
	uint64_t header_vaddr;		 /* .eh_frame_hdr, base of the addresses in its table */
	uint64_t table_offset;		 /* of its table, in the file */
	uint32_t table_count;		 /* pairs; 0: the index is used */
	uint32_t entry_count;
	struct function_ranges_entry *entries; /* the index, sorted by start */
	uint64_t base;			       /* of the starts in the index */
};

/* Prepares lookups in the file of `image`, which need not live longer than this call. The index, if
 * one is needed, takes at most `cap_bytes`; functions beyond that are not found. Returns 0, also if
 * there are no unwind tables; or -ENOMEM. Release with function_ranges_fini(). */
int function_ranges_init(struct function_ranges *ranges, const struct elf_image *image,
			 size_t cap_bytes);
void function_ranges_fini(struct function_ranges *ranges);

/* Returns the heap memory that the index holds, in bytes. */
size_t function_ranges_bytes(const struct function_ranges *ranges);

/* Finds the function that covers `vaddr`. `source` is the same file as in function_ranges_init().
 * Returns false, and `range` untouched, if no FDE covers the address or the file cannot be read. */
bool function_ranges_find(const struct function_ranges *ranges, const struct elf_source *source,
			  uint64_t vaddr, struct function_range *range);

#endif
