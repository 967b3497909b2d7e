/* SPDX-License-Identifier: Apache-2.0 */
#include "parse/dwarf_value.h"

#include <dwarf.h>

int dwarf_form_bytes(const struct dwarf_encoding *encoding, uint64_t form)
{
	switch (form) {
	case DW_FORM_flag_present:
	case DW_FORM_implicit_const:
		return 0;
	case DW_FORM_data1:
	case DW_FORM_ref1:
	case DW_FORM_flag:
	case DW_FORM_strx1:
	case DW_FORM_addrx1:
		return 1;
	case DW_FORM_data2:
	case DW_FORM_ref2:
	case DW_FORM_strx2:
	case DW_FORM_addrx2:
		return 2;
	case DW_FORM_strx3:
	case DW_FORM_addrx3:
		return 3;
	case DW_FORM_data4:
	case DW_FORM_ref4:
	case DW_FORM_strx4:
	case DW_FORM_addrx4:
	case DW_FORM_ref_sup4:
		return 4;
	case DW_FORM_data8:
	case DW_FORM_ref8:
	case DW_FORM_ref_sig8:
	case DW_FORM_ref_sup8:
		return 8;
	case DW_FORM_data16:
		return 16;
	case DW_FORM_addr:
		return encoding->address_bytes;
	case DW_FORM_ref_addr: /* DWARF 2 has an address there */
		return encoding->version < 3 ? encoding->address_bytes : encoding->offset_bytes;
	case DW_FORM_strp:
	case DW_FORM_line_strp:
	case DW_FORM_strp_sup:
	case DW_FORM_sec_offset:
	case DW_FORM_GNU_ref_alt:
	case DW_FORM_GNU_strp_alt:
		return encoding->offset_bytes;
	default:
		return -1;
	}
}

/* Reads a value whose size is in it; of a block, zero. `start` is the offset of the cursor's start.
 * Returns false if the form is not one of these. */
static bool read_variable(struct cursor *c, uint64_t form, uint64_t start, uint64_t *number)
{
	*number = 0;
	switch (form) {
	case DW_FORM_block1:
		cursor_skip(c, cursor_u8(c));
		return true;
	case DW_FORM_block2:
		cursor_skip(c, cursor_u16(c));
		return true;
	case DW_FORM_block4:
		cursor_skip(c, cursor_u32(c));
		return true;
	case DW_FORM_block:
	case DW_FORM_exprloc:
		cursor_skip(c, cursor_uleb128(c));
		return true;
	case DW_FORM_string:
		*number = start + cursor_offset(c);
		cursor_string(c);
		return true;
	case DW_FORM_sdata:
		*number = (uint64_t)cursor_sleb128(c);
		return true;
	case DW_FORM_udata:
	case DW_FORM_ref_udata:
	case DW_FORM_strx:
	case DW_FORM_addrx:
	case DW_FORM_loclistx:
	case DW_FORM_rnglistx:
	case DW_FORM_GNU_addr_index:
	case DW_FORM_GNU_str_index:
		*number = cursor_uleb128(c);
		return true;
	default:
		return false;
	}
}

/* Returns the form that an indirect one stands for. It cannot be indirect again, nor a constant
 * that is in the abbreviation. */
static uint64_t form_resolve(struct cursor *c, uint64_t form)
{
	if (form != DW_FORM_indirect)
		return form;
	form = cursor_uleb128(c);
	if (form == DW_FORM_indirect || form == DW_FORM_implicit_const || form > UINT16_MAX)
		c->failed = true;
	return form;
}

void dwarf_value_skip(struct cursor *c, const struct dwarf_encoding *encoding, uint64_t form)
{
	form = form_resolve(c, form);
	const int bytes = dwarf_form_bytes(encoding, form);
	uint64_t unused;

	if (bytes >= 0)
		cursor_skip(c, (uint64_t)bytes);
	else if (!read_variable(c, form, 0, &unused))
		c->failed = true;
}

uint64_t dwarf_number_read(struct cursor *c, unsigned int bytes)
{
	switch (bytes) {
	case 1:
		return cursor_u8(c);
	case 2:
		return cursor_u16(c);
	case 3: {
		const uint16_t low = cursor_u16(c);
		const uint8_t high = cursor_u8(c);

		return (uint64_t)high << 16 | low;
	}
	case 4:
		return cursor_u32(c);
	case 8:
		return cursor_u64(c);
	default:
		cursor_skip(c, bytes);
		return 0;
	}
}

void dwarf_value_read(struct cursor *c, const struct dwarf_encoding *encoding, uint64_t start,
		      struct dwarf_value *value)
{
	const uint64_t form = form_resolve(c, value->form);
	const int bytes = dwarf_form_bytes(encoding, form);

	if (c->failed)
		return;
	value->form = (uint16_t)form;
	if (form == DW_FORM_implicit_const)
		return;
	if (bytes >= 0)
		value->number = dwarf_number_read(c, (unsigned int)bytes);
	else if (!read_variable(c, form, start, &value->number))
		c->failed = true;
}

bool dwarf_value_find_text(struct dwarf_reader *reader, const struct dwarf_encoding *encoding,
			   const struct dwarf_value *value, enum dwarf_section_kind own,
			   enum dwarf_section_kind *kind, uint64_t *offset)
{
	*offset = value->number;
	switch (value->form) {
	case DW_FORM_string:
		*kind = own;
		return true;
	case DW_FORM_line_strp:
		*kind = DWARF_LINE_STR;
		return true;
	case DW_FORM_strp:
		*kind = DWARF_STR;
		return true;
	case DW_FORM_strp_sup:
	case DW_FORM_GNU_strp_alt:
		*kind = DWARF_ALTERNATE_STR;
		return true;
	case DW_FORM_strx:
	case DW_FORM_strx1:
	case DW_FORM_strx2:
	case DW_FORM_strx3:
	case DW_FORM_strx4:
	case DW_FORM_GNU_str_index:
		*kind = DWARF_STR;
		return dwarf_read_indexed(reader, DWARF_STR_OFFSETS, encoding->str_offsets_base,
					  value->number, encoding->offset_bytes, offset);
	default:
		return false;
	}
}

bool dwarf_value_address(struct dwarf_reader *reader, const struct dwarf_encoding *encoding,
			 const struct dwarf_value *value, uint64_t *vaddr)
{
	switch (value->form) {
	case DW_FORM_addr:
		*vaddr = value->number;
		return true;
	case DW_FORM_addrx:
	case DW_FORM_addrx1:
	case DW_FORM_addrx2:
	case DW_FORM_addrx3:
	case DW_FORM_addrx4:
	case DW_FORM_GNU_addr_index:
		return dwarf_read_indexed(reader, DWARF_ADDR, encoding->addr_base, value->number,
					  encoding->address_bytes, vaddr);
	default:
		return false;
	}
}

bool dwarf_value_reference(const struct dwarf_encoding *encoding, const struct dwarf_value *value,
			   uint64_t *offset)
{
	switch (value->form) {
	case DW_FORM_ref1:
	case DW_FORM_ref2:
	case DW_FORM_ref4:
	case DW_FORM_ref8:
	case DW_FORM_ref_udata:
		return !__builtin_add_overflow(encoding->unit, value->number, offset);
	case DW_FORM_ref_addr:
		*offset = value->number;
		return true;
	default:
		return false;
	}
}

bool dwarf_value_alternate_reference(const struct dwarf_value *value, uint64_t *offset)
{
	switch (value->form) {
	case DW_FORM_ref_sup4:
	case DW_FORM_ref_sup8:
	case DW_FORM_GNU_ref_alt:
		*offset = value->number;
		return true;
	default:
		return false;
	}
}
