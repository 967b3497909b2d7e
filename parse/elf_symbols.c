/* SPDX-License-Identifier: Apache-2.0 */
#include "parse/elf_symbols.h"

#include <elf.h>

bool elf_symbol_read(struct cursor *c, struct elf_symbol *symbol)
{
	if (cursor_left(c) < ELF_SYMBOL_BYTES)
		return false;

	uint32_t name = cursor_u32(c);
	uint8_t info = cursor_u8(c);

	cursor_u8(c); /* st_other: visibility does not matter here */
	*symbol = (struct elf_symbol){
	    .name = name,
	    .type = ELF64_ST_TYPE(info),
	    .bind = ELF64_ST_BIND(info),
	};
	symbol->section = cursor_u16(c);
	symbol->value = cursor_u64(c);
	symbol->size = cursor_u64(c);
	return true;
}

bool elf_relocation_read(struct cursor *c, struct elf_relocation *relocation)
{
	if (cursor_left(c) < ELF_RELOCATION_BYTES)
		return false;
	relocation->offset = cursor_u64(c);
	relocation->type = cursor_u32(c); /* r_info, low half first */
	relocation->symbol = cursor_u32(c);
	relocation->addend = (int64_t)cursor_u64(c);
	return true;
}

int elf_symbols_each(const void *data, size_t length,
		     int (*visit)(void *context, const struct elf_symbol *symbol), void *context)
{
	struct cursor c = cursor_init(data, length);
	struct elf_symbol symbol;
	int r = 0;

	while (!r && elf_symbol_read(&c, &symbol))
		r = visit(context, &symbol);
	return r;
}

bool elf_symbol_is_function(const struct elf_symbol *symbol, bool executable)
{
	if (symbol->section == SHN_UNDEF || symbol->name == 0 || !executable)
		return false;
	switch (symbol->type) {
	case STT_FUNC:
	case STT_GNU_IFUNC:
		return true;
	case STT_NOTYPE:
		/* The value of an absolute symbol is a number, even if it looks like an address. */
		return symbol->section != SHN_ABS && symbol->section != SHN_COMMON;
	default:
		return false;
	}
}

bool elf_symbol_maybe_mapping(const struct elf_symbol *symbol)
{
	return symbol->type == STT_NOTYPE && symbol->bind == STB_LOCAL && symbol->size == 0;
}

bool elf_symbol_name_is_mapping(const char *name)
{
	if (name[0] != '$' || name[1] == '\0' || !strchr("xdat", name[1]))
		return false;
	if (name[2] == '\0' || name[2] == '.')
		return true;
	return name[1] == 'x' && name[2] == 'r' && name[3] == 'v';
}

unsigned int elf_symbol_rank(const struct elf_symbol *symbol)
{
	unsigned int bind = 0;

	if (symbol->bind == STB_GLOBAL || symbol->bind == STB_GNU_UNIQUE)
		bind = 2;
	else if (symbol->bind == STB_WEAK)
		bind = 1;
	return bind * 2 + (symbol->type != STT_NOTYPE);
}

bool elf_symbol_name_is_better(const char *a, const char *b)
{
	size_t a_underscores = strspn(a, "_"), b_underscores = strspn(b, "_");
	size_t a_length = strlen(a), b_length = strlen(b);

	/* All mangled C++ and Rust names start with an underscore, too. */
	if (a_underscores != b_underscores)
		return a_underscores < b_underscores;
	if (a_length != b_length)
		return a_length < b_length;
	return memcmp(a, b, a_length) < 0;
}

static bool plt_decode_x86_64(struct cursor c, uint64_t vaddr, struct elf_plt_target *target)
{
	static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
	struct cursor ahead = c;
	const uint8_t *start = cursor_take(&ahead, sizeof(endbr64));
	uint8_t opcode;

	if (start && memcmp(start, endbr64, sizeof(endbr64)) == 0)
		c = ahead;
	opcode = cursor_u8(&c);
	if (opcode == 0xf2) /* bnd */
		opcode = cursor_u8(&c);
	if (opcode == 0x68) { /* push index */
		*target = (struct elf_plt_target){.index = cursor_u32(&c)};
		return !c.failed;
	}
	if (opcode != 0xff || cursor_u8(&c) != 0x25) /* jmp *displacement(%rip) */
		return false;
	int32_t displacement = (int32_t)cursor_u32(&c);
	if (c.failed)
		return false;
	*target = (struct elf_plt_target){.slot = vaddr + cursor_offset(&c) +
						  (uint64_t)(int64_t)displacement};
	return true;
}

static bool plt_decode_aarch64(struct cursor c, uint64_t vaddr, struct elf_plt_target *target)
{
	uint32_t adrp = cursor_u32(&c), ldr;

	if (adrp == 0xd503245f) { /* bti c */
		adrp = cursor_u32(&c);
		vaddr += 4;
	}
	ldr = cursor_u32(&c);
	/* adrp x16, page; ldr x17, [x16, offset] */
	if (c.failed || (adrp & 0x9f00001f) != 0x90000010 || (ldr & 0xffc003ff) != 0xf9400211)
		return false;
	uint64_t pages = (uint64_t)(adrp >> 5 & 0x7ffff) << 2 | (adrp >> 29 & 3);
	if (pages & 1u << 20)
		pages |= ~0ull << 21;
	*target = (struct elf_plt_target){.slot = (vaddr & ~0xfffull) + (pages << 12) +
						  (uint64_t)(ldr >> 10 & 0xfff) * 8};
	return true;
}

bool elf_plt_decode(uint16_t machine, const void *code, size_t length, uint64_t vaddr,
		    struct elf_plt_target *target)
{
	struct elf_plt_target found;
	bool known = false;

	if (machine == EM_X86_64)
		known = plt_decode_x86_64(cursor_init(code, length), vaddr, &found);
	else if (machine == EM_AARCH64)
		known = plt_decode_aarch64(cursor_init(code, length), vaddr, &found);
	if (known)
		*target = found;
	return known;
}
