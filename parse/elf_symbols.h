/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes symbols (Elf64_Sym; gABI chapter 4, "Symbol Table"), relocations (Elf64_Rela) and entries
 * of procedure linkage tables (PLT). Decides which symbols are functions and which of two at one
 * address names it better. Pure: no system call, no allocation, no logging.
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

/* Read the next entry. Return false, with the output untouched, at the end or if the entry is cut
 * off. */
bool elf_symbol_read(struct cursor *c, struct elf_symbol *symbol);
bool elf_relocation_read(struct cursor *c, struct elf_relocation *relocation);

/* Calls `visit` for each whole entry in `data`. Stops when it returns nonzero, and returns that,
 * otherwise 0. */
int elf_symbols_each(const void *data, size_t length,
		     int (*visit)(void *context, const struct elf_symbol *symbol), void *context);

/* Returns whether the symbol is a defined function, or a label in hand-written assembly.
 * `executable` says whether its address is in an executable section. Mapping symbols count as
 * functions here, because only their name distinguishes them: see elf_symbol_maybe_mapping(). */
bool elf_symbol_is_function(const struct elf_symbol *symbol, bool executable);

/* Returns whether the symbol can be a mapping symbol. Then elf_symbol_name_is_mapping() has to
 * check its name. */
bool elf_symbol_maybe_mapping(const struct elf_symbol *symbol);

/* Returns whether `name` is that of a mapping symbol, which marks where code or data starts. $x,
 * $d, $a or $t, alone or followed by a dot (ELF for the Arm 64-bit Architecture, 5.5.5), and
 * RISC-V's $x with an ISA string. */
bool elf_symbol_name_is_mapping(const char *name);

/* Returns how well the symbol names its address: 0 to ELF_SYMBOL_RANK_MAX, greater is better.
 * Global is better than weak, weak better than local, and of equal ones a function better than a
 * label. If the ranks are equal, the caller prefers a symbol with a size. */
unsigned int elf_symbol_rank(const struct elf_symbol *symbol);

/* Returns whether `a` is better to read than `b`, for names with equal rank. Fewer leading
 * underscores are better, then the shorter name, then the first in byte order, so that the order in
 * the file does not matter. */
bool elf_symbol_name_is_better(const char *a, const char *b);

/* The relocation through which a PLT entry jumps. */
struct elf_plt_target {
	uint64_t slot;	/* the virtual address of its GOT slot (r_offset), or 0: `index` is valid */
	uint32_t index; /* its index in .rela.plt */
};

/* Decodes a PLT entry at the virtual address `vaddr`: x86-64 psABI 5.2, with or without endbr64 and
 * bnd; AArch64, with or without bti. Returns false if it has another form, as the first entry of a
 * table has. */
bool elf_plt_decode(uint16_t machine, const void *code, size_t length, uint64_t vaddr,
		    struct elf_plt_target *target);

#endif
