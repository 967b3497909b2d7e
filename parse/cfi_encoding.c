/* SPDX-License-Identifier: Apache-2.0 */
#include "parse/cfi_encoding.h"

enum {
	LEB_BYTES_MAX = 16, /* 64 bits need 10 bytes; longer padding would only waste time */
};

struct cfi_leb cfi_leb_long(const uint8_t *at, const uint8_t *end, bool is_signed)
{
	const size_t left = (size_t)(end - at);
	struct cursor c = cursor_init(at, left < LEB_BYTES_MAX ? left : LEB_BYTES_MAX);
	uint64_t value = is_signed ? (uint64_t)cursor_sleb128(&c) : cursor_uleb128(&c);

	return (struct cfi_leb){value, c.failed ? 0 : cursor_offset(&c)};
}

bool cfi_read_format(struct cursor *c, unsigned int format, unsigned int address_bytes,
		     uint64_t *value)
{
	switch (format) {
	case PE_ABSPTR:
		*value = address_bytes == sizeof(uint64_t) ? cursor_u64(c) : cursor_u32(c);
		break;
	case PE_SIGNED:
		*value = address_bytes == sizeof(uint64_t) ? cursor_u64(c)
							   : (uint64_t)(int32_t)cursor_u32(c);
		break;
	case PE_ULEB128:
		*value = cfi_read_uleb(c);
		break;
	case PE_SLEB128:
		*value = (uint64_t)cfi_read_sleb(c);
		break;
	case PE_UDATA2:
		*value = cursor_u16(c);
		break;
	case PE_SDATA2:
		*value = (uint64_t)(int16_t)cursor_u16(c);
		break;
	case PE_UDATA4:
		*value = cursor_u32(c);
		break;
	case PE_SDATA4:
		*value = (uint64_t)(int32_t)cursor_u32(c);
		break;
	case PE_UDATA8:
	case PE_SDATA8:
		*value = cursor_u64(c);
		break;
	default:
		return false;
	}
	return !c->failed;
}

bool cfi_read_pointer(struct cursor *c, uint64_t vaddr, const struct cfi_pointers *how,
		      const uint64_t *function, uint64_t *pointer)
{
	const uint64_t here = vaddr + cursor_offset(c);
	uint64_t base = 0, value;

	if (how->encoding & PE_INDIRECT)
		return false;
	switch (how->encoding & PE_BASE_MASK) {
	case PE_ABSPTR:
		break;
	case PE_PCREL:
		base = here;
		break;
	case PE_TEXTREL:
		base = how->text_vaddr;
		break;
	case PE_DATAREL:
		base = how->data_vaddr;
		break;
	case PE_FUNCREL:
		if (!function)
			return false;
		base = *function;
		break;
	case PE_ALIGNED:
		cursor_skip(c, -here & (how->address_bytes - 1u));
		break;
	default:
		return false;
	}
	if (!cfi_read_format(c, how->encoding & PE_FORMAT_MASK, how->address_bytes, &value))
		return false;
	*pointer = value ? base + value : 0;
	return true;
}
