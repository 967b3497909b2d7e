/* SPDX-License-Identifier: Apache-2.0 */
/* How call frame information writes numbers and pointers: LEB128 (DWARF 5 section 7.6), encoded
 * pointers (LSB 5.0 10.5.1). Internal to cfi*.c. */
#ifndef PARSE_CFI_ENCODING_H
#define PARSE_CFI_ENCODING_H

#include <stdbool.h>
#include <stdint.h>

#include "common/cursor.h"

enum {
	PE_ABSPTR = 0x00,
	PE_ULEB128 = 0x01,
	PE_UDATA2 = 0x02,
	PE_UDATA4 = 0x03,
	PE_UDATA8 = 0x04,
	PE_SIGNED = 0x08, /* like absptr, but signed */
	PE_SLEB128 = 0x09,
	PE_SDATA2 = 0x0a,
	PE_SDATA4 = 0x0b,
	PE_SDATA8 = 0x0c,
	PE_FORMAT_MASK = 0x0f,

	PE_PCREL = 0x10,
	PE_TEXTREL = 0x20,
	PE_DATAREL = 0x30,
	PE_FUNCREL = 0x40,
	PE_ALIGNED = 0x50,
	PE_BASE_MASK = 0x70,
	PE_INDIRECT = 0x80,
};

/* How an entry writes its pointers, and what they may be relative to. */
struct cfi_pointers {
	uint64_t text_vaddr, data_vaddr;
	uint8_t encoding; /* PE_ */
	uint8_t address_bytes;
};

struct cfi_leb {
	uint64_t value;
	size_t length; /* 0: not a number */
};

struct cfi_leb cfi_leb_long(const uint8_t *at, const uint8_t *end, bool is_signed);

/* The rest of a number of which one byte was read. The cursor itself is not passed on, so that one
 * in registers stays there; one that fails is at its end. */
static inline uint64_t cfi_read_leb_rest(struct cursor *c, bool is_signed)
{
	const struct cfi_leb leb = cfi_leb_long(c->at - 1, c->end, is_signed);

	c->failed |= leb.length == 0;
	c->at = leb.length > 0 ? c->at + leb.length - 1 : c->end;
	return leb.value;
}

/* Nearly all are one byte long. */
static inline uint64_t cfi_read_uleb(struct cursor *c)
{
	uint8_t byte = cursor_u8(c);

	return __builtin_expect(byte < 0x80, 1) ? byte : cfi_read_leb_rest(c, false);
}

static inline int64_t cfi_read_sleb(struct cursor *c)
{
	uint8_t byte = cursor_u8(c);

	if (__builtin_expect(byte < 0x80, 1))
		return (int64_t)((byte ^ 0x40) - 0x40);
	return (int64_t)cfi_read_leb_rest(c, true);
}

/* A number in one of the formats of a pointer encoding, extended to 64 bits. */
bool cfi_read_format(struct cursor *c, unsigned int format, unsigned int address_bytes,
		     uint64_t *value);

/*
 * An encoded pointer. `vaddr` is the virtual address of the cursor's base; `function` the base of
 * funcrel, NULL where there is none. A null stays null whatever its base: that is how linkers leave
 * the FDEs of functions that they dropped.
 */
bool cfi_read_pointer(struct cursor *c, uint64_t vaddr, const struct cfi_pointers *how,
		      const uint64_t *function, uint64_t *pointer);

#endif
