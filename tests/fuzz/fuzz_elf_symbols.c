/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the decoders of symbols, relocations and PLT entries. The first 2 bytes of the input are the
 * machine for the PLT decoder; the rest is read as each of the three. */
#include <elf.h>

#include "parse/elf_symbols.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
	size_t symbols, functions;
	char name[16];
};

static int visit(void *context, const struct elf_symbol *symbol)
{
	struct seen *seen = context;

	seen->symbols++;
	if (elf_symbol_is_function(symbol, true)) {
		seen->functions++;
		if (symbol->section == SHN_UNDEF || symbol->type == STT_OBJECT ||
		    symbol->type == STT_SECTION || symbol->type == STT_FILE ||
		    symbol->type == STT_TLS)
			__builtin_trap();
	}
	if (elf_symbol_is_function(symbol, false) || elf_symbol_rank(symbol) > ELF_SYMBOL_RANK_MAX)
		__builtin_trap();
	return seen->symbols == 1000;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cursor c = cursor_init(data, size);
	uint16_t machine = cursor_u16(&c);
	size_t left = cursor_left(&c), relocations = 0;
	struct seen seen = {0};
	struct elf_relocation relocation;
	struct elf_plt_target target;
	char a[16] = {0}, b[16] = {0};

	if (c.failed)
		return 0;
	elf_symbols_each(c.at, left, visit, &seen);
	if (seen.symbols > left / ELF_SYMBOL_BYTES)
		__builtin_trap();
	for (size_t at = 0; at < left; at += 8)
		elf_plt_decode(machine, c.at + at, left - at < 16 ? left - at : 16, at << 40,
			       &target);
	if (left >= 30) {
		memcpy(a, c.at, 15);
		memcpy(b, c.at + 15, 15);
		elf_symbol_name_is_mapping(a);
		if (elf_symbol_name_is_better(a, b) && elf_symbol_name_is_better(b, a))
			__builtin_trap();
	}
	while (elf_relocation_read(&c, &relocation))
		relocations++;
	if (relocations != left / ELF_RELOCATION_BYTES)
		__builtin_trap();
	return 0;
}
