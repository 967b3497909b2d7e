/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of entries of procedure linkage tables (PLT), which have no symbols.
 *
 * How this works: an entry of the PLT jumps through a slot of the global offset table. The code of
 * the entry says which slot; the relocation of that slot says which dynamic symbol the loader puts
 * there. Everything is read from the file when a name is needed.
 *
 * Example: the entry at 0x1030 is `jmp *0x3fd2(%rip)`, 6 bytes long; the relocation of slot 0x5008
 * in .rela.plt names the symbol `printf`; the name is "printf@plt".
 */
#include <elf.h>

#include "common/cursor.h"
#include "common/file_read.h"
#include "symbolizer/worker/symbols_private.h"

enum {
	/* Relocations that are searched for one name: 64 Ki, 1.5 MiB. */
	RELOCATIONS_BYTES_MAX = ELF_RELOCATION_BYTES * 64 * 1024,
	PLT_ENTRY_BYTES = 16,
	/* The first entry of .plt is longer than the others on arm64. */
	PLT_HEADER_BYTES_AARCH64 = 32,
};

/* Finds the relocation of GOT slot `slot` in a table. Returns false if there is none. */
static bool relocation_find(int fd, struct extent table, uint64_t slot,
			    struct elf_relocation *relocation)
{
	uint8_t chunk[ELF_RELOCATION_BYTES * 128];
	uint64_t size = table.size < RELOCATIONS_BYTES_MAX ? table.size : RELOCATIONS_BYTES_MAX;

	for (uint64_t at = 0; at < size; at += sizeof(chunk)) {
		size_t length = size - at < sizeof(chunk) ? (size_t)(size - at) : sizeof(chunk);

		if (file_read_exactly(fd, table.offset + at, chunk, length))
			return false;
		struct cursor c = cursor_init(chunk, length);
		while (elf_relocation_read(&c, relocation)) {
			if (relocation->offset == slot)
				return true;
		}
	}
	return false;
}

static bool relocation_get(int fd, struct extent table, uint32_t index,
			   struct elf_relocation *relocation)
{
	uint64_t at = (uint64_t)index * ELF_RELOCATION_BYTES;
	uint8_t bytes[ELF_RELOCATION_BYTES];

	if (at >= table.size || file_read_exactly(fd, table.offset + at, bytes, sizeof(bytes)))
		return false;
	struct cursor c = cursor_init(bytes, sizeof(bytes));
	return elf_relocation_read(&c, relocation);
}

static bool relocation_to_symbol(const struct symbols *symbols,
				 const struct elf_relocation *relocation, struct symbol *symbol)
{
	uint64_t at = (uint64_t)relocation->symbol * ELF_SYMBOL_BYTES;
	uint8_t bytes[ELF_SYMBOL_BYTES];
	struct elf_symbol target;

	/* A function that is chosen at load time (ifunc) has no symbol; the addend is the address
	 * of its resolver. */
	if (relocation->symbol == 0) {
		const struct symbol_entry *entry =
		    symbol_table_find_entry(symbols, (uint64_t)relocation->addend);

		return entry && symbol_table_read_entry(symbols, entry, "@plt", symbol);
	}
	if (at >= symbols->dynamic_symbols.size ||
	    file_read_exactly(symbols->fd, symbols->dynamic_symbols.offset + at, bytes,
			      sizeof(bytes)))
		return false;
	struct cursor c = cursor_init(bytes, sizeof(bytes));
	const struct name_tables names = {.fd = symbols->fd, .strings = symbols->dynamic_strings};
	return elf_symbol_read(&c, &target) &&
	       symbol_table_read_name(&names, target.name, "@plt", symbol);
}

uint64_t symbol_plt_into_entry(const struct symbols *symbols, const struct symbol_region *region,
			       uint64_t vaddr)
{
	const uint64_t header = symbols->machine == EM_AARCH64 ? PLT_HEADER_BYTES_AARCH64 : 0;
	const uint64_t into = vaddr - region->vaddr;

	return into < header ? into : (into - header) % region->entry_size;
}

bool symbol_plt_find(const struct symbols *symbols, const struct symbol_region *region,
		     uint64_t file_offset, uint64_t vaddr, struct symbol *symbol)
{
	uint64_t into_entry = symbol_plt_into_entry(symbols, region, vaddr);
	uint8_t code[PLT_ENTRY_BYTES];
	struct elf_plt_target target;
	struct elf_relocation relocation;
	bool found;

	if (into_entry > file_offset ||
	    file_read_exactly(symbols->fd, file_offset - into_entry, code, sizeof(code)) ||
	    !elf_plt_decode(symbols->machine, code, sizeof(code), vaddr - into_entry, &target))
		return false;
	if (target.slot)
		found = relocation_find(symbols->fd, symbols->plt_relocations, target.slot,
					&relocation) ||
			relocation_find(symbols->fd, symbols->dynamic_relocations, target.slot,
					&relocation);
	else
		found = relocation_get(symbols->fd, symbols->plt_relocations, target.index,
				       &relocation);
	if (!found || !relocation_to_symbol(symbols, &relocation, symbol))
		return false;
	symbol->start_vaddr = vaddr - into_entry;
	symbol->size = region->entry_size;
	return true;
}
