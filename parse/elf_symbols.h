/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symbol table entries (Elf64_Sym, 24 bytes each; gABI chapter 4, "Symbol Table") and the
 * relocations that name PLT slots (Elf64_Rela), decoded from raw bytes. Says which symbols are
 * functions and which of two at one address is better. Pure: no system call, no allocation, no
 * logging.
 */
#ifndef PARSE_ELF_SYMBOLS_H
#define PARSE_ELF_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cursor.h"

enum {
	ELF_SYMBOL_BYTES = 24,
	ELF_RELOCATION_BYTES = 24,
	ELF_SYMBOL_RANK_MAX = 7,
};

struct elf_symbol {
	uint64_t value, size;
	uint32_t name;	    /* offset in the string table */
	uint16_t section;   /* SHN_* */
	uint8_t type, bind; /* STT_*, STB_* */
};

struct elf_relocation {
	uint64_t offset;
	int64_t addend;
	uint32_t symbol, type;
};

/* The next entry; false, and `symbol` untouched, at the end (a cut last entry counts as the end).
 */
bool elf_symbol_read(struct cursor *c, struct elf_symbol *symbol);
bool elf_relocation_read(struct cursor *c, struct elf_relocation *relocation);

/* Call `visit` for each whole entry in `data`; stops at the first nonzero return and returns it,
 * else 0. */
int elf_symbols_each(const void *data, size_t length,
		     int (*visit)(void *context, const struct elf_symbol *symbol), void *context);

/* Is it a defined function, or a label of hand-written assembly? `executable`: its address lies in
 * an executable section. Mapping symbols pass, for their name is not known here: see
 * elf_symbol_maybe_mapping(). */
bool elf_symbol_is_function(const struct elf_symbol *symbol, bool executable);

/* May it be a mapping symbol, so that its name has to be looked at? */
bool elf_symbol_maybe_mapping(const struct elf_symbol *symbol);

/* $x, $d, $a, $t, alone or followed by a dot (ELF for the Arm 64-bit Architecture, 5.5.5; RISC-V's
 * $x with an ISA string). */
bool elf_symbol_name_is_mapping(const char *name);

/* How good a name for its address: 0 to ELF_SYMBOL_RANK_MAX, more is better. Global over weak over
 * local, and within those functions over plain labels. Sizes (something over 0) are compared by the
 * caller, after the rank. */
unsigned int elf_symbol_rank(const struct elf_symbol *symbol);

/* Of two names of one address and rank: is `a` the better one for people? Fewer leading
 * underscores, then the shorter one, then by bytes, so that the answer does not depend on the order
 * in the file. */
bool elf_symbol_name_is_better(const char *a, const char *b);

/* Which relocation an entry of a procedure linkage table jumps through. */
struct elf_plt_target {
	uint64_t slot;	/* virtual address of the GOT slot (r_offset), or 0: */
	uint32_t index; /* ... the number of the relocation in .rela.plt */
};

/* Decode one PLT entry (x86-64 psABI 5.2, with or without endbr64 and bnd; AArch64, with or without
 * bti) that is loaded at `vaddr`. false: of no known form, as the first entry of the table is. */
bool elf_plt_decode(uint16_t machine, const void *code, size_t length, uint64_t vaddr,
		    struct elf_plt_target *target);

#endif
