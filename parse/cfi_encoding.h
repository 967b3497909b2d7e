/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the numbers and pointers of call frame information: LEB128 (DWARF 5 section 7.6) and
 * encoded pointers (LSB 5.0 section 10.5.1). Internal to parse/. */
#ifndef PARSE_CFI_ENCODING_H
#define PARSE_CFI_ENCODING_H

#include <stdbool.h>
#include <stdint.h>

#include "common/cursor.h"

/* DW_EH_PE_*: a format, and what the value is relative to. */
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

/* The encoding of an entry's pointers, and what they may be relative to. */
struct cfi_pointers {
	uint64_t text_vaddr, data_vaddr;
	uint8_t encoding; /* PE_* */
	uint8_t address_bytes;
};

struct cfi_leb {
	uint64_t value;
	size_t length; /* in bytes; 0: it is cut off or too long */
};

/* Reads a LEB128 number of any length. */
struct cfi_leb cfi_leb_long(const uint8_t *at, const uint8_t *end, bool is_signed);

/* Reads a number of which the first byte was consumed already. The address of the cursor is not
 * passed on, so that the compiler can keep it in registers. A cursor that fails is at its end. */
static inline uint64_t cfi_read_leb_rest(struct cursor *c, bool is_signed)
{
	const struct cfi_leb leb = cfi_leb_long(c->at - 1, c->end, is_signed);

	c->failed |= leb.length == 0;
	c->at = leb.length > 0 ? c->at + leb.length - 1 : c->end;
	return leb.value;
}

/* Reads an unsigned number. Nearly all have one byte. */
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

/* Reads a number in one of the formats, extended to 64 bits. Returns false if the format is unknown
 * or the number is cut off. */
bool cfi_read_format(struct cursor *c, unsigned int format, unsigned int address_bytes,
		     uint64_t *value);

/*
 * Reads an encoded pointer. `vaddr` is the virtual address of the cursor's base, `function` the
 * base of funcrel or NULL. A null pointer stays null whatever its base is: linkers leave it in the
 * FDEs of functions that they dropped. Returns false if the encoding is not supported (an indirect
 * pointer, for example) or the pointer is cut off.
 */
bool cfi_read_pointer(struct cursor *c, uint64_t vaddr, const struct cfi_pointers *how,
		      const uint64_t *function, uint64_t *pointer);

#endif
