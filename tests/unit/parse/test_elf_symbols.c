/* SPDX-License-Identifier: Apache-2.0 */
#include "parse/elf_symbols.h"

#include <criterion/criterion.h>
#include <elf.h>

static const Elf64_Sym table[] = {
    {0},
    {.st_name = 1,
     .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
     .st_shndx = 7,
     .st_value = 0x1122334455667788,
     .st_size = 0x99aabbccddeeff00},
    {.st_name = 0xfffefdfc,
     .st_info = ELF64_ST_INFO(STB_WEAK, STT_GNU_IFUNC),
     .st_other = 3,
     .st_shndx = 0xfff1,
     .st_value = 2,
     .st_size = 3},
};

static int visit_nth(void *context, const struct elf_symbol *symbol)
{
	struct elf_symbol *seen = context;

	seen[seen[0].size + 1] = *symbol;
	return ++seen[0].size == 3 ? -7 : 0;
}

Test(elf_symbols, all_fields_are_decoded)
{
	struct elf_symbol seen[4] = {0};

	cr_assert_eq(elf_symbols_each(table, sizeof(table), visit_nth, seen), -7);
	cr_assert_eq(seen[0].size, 3);
	cr_assert_eq(seen[2].value, 0x1122334455667788);
	cr_assert_eq(seen[2].size, 0x99aabbccddeeff00);
	cr_assert_eq(seen[2].name, 1);
	cr_assert_eq(seen[2].section, 7);
	cr_assert_eq(seen[2].type, STT_FUNC);
	cr_assert_eq(seen[2].bind, STB_GLOBAL);
	cr_assert_eq(seen[3].name, 0xfffefdfc);
	cr_assert_eq(seen[3].section, SHN_ABS);
	cr_assert_eq(seen[3].type, STT_GNU_IFUNC);
	cr_assert_eq(seen[3].bind, STB_WEAK);
}

Test(elf_symbols, an_entry_that_is_cut_off_is_the_end)
{
	struct elf_symbol seen[4] = {0};

	cr_assert_eq(elf_symbols_each(table, sizeof(table) - 1, visit_nth, seen), 0);
	cr_assert_eq(seen[0].size, 2);
	cr_assert_eq(elf_symbols_each(table, 0, visit_nth, seen), 0);
	cr_assert_eq(seen[0].size, 2);
}

Test(elf_symbols, functions_and_labels_are_recognised)
{
	struct elf_symbol s = {.name = 1, .section = 1, .type = STT_FUNC};

	cr_assert(elf_symbol_is_function(&s, true));
	cr_assert_not(elf_symbol_is_function(&s, false));
	s.section = SHN_UNDEF;
	cr_assert_not(elf_symbol_is_function(&s, true));
	s.section = SHN_ABS;
	cr_assert(elf_symbol_is_function(&s, true));
	s.type = STT_NOTYPE;
	cr_assert_not(elf_symbol_is_function(&s, true));
	s.section = 1;
	cr_assert(elf_symbol_is_function(&s, true));
	s.name = 0;
	cr_assert_not(elf_symbol_is_function(&s, true));
	s.name = 1;
	s.type = STT_GNU_IFUNC;
	cr_assert(elf_symbol_is_function(&s, true));

	static const uint8_t never[] = {STT_OBJECT, STT_SECTION, STT_FILE, STT_TLS, STT_COMMON, 13};
	for (size_t i = 0; i < sizeof(never); i++) {
		s.type = never[i];
		cr_assert_not(elf_symbol_is_function(&s, true), "type %u", never[i]);
	}
}

Test(elf_symbols, mapping_symbols_are_recognised_by_name)
{
	cr_assert(elf_symbol_name_is_mapping("$x"));
	cr_assert(elf_symbol_name_is_mapping("$d.17"));
	cr_assert(elf_symbol_name_is_mapping("$xrv64i2p1"));
	cr_assert_not(elf_symbol_name_is_mapping("$"));
	cr_assert_not(elf_symbol_name_is_mapping(""));
	cr_assert_not(elf_symbol_name_is_mapping("$exit"));
	cr_assert_not(elf_symbol_name_is_mapping("$drop"));
	cr_assert_not(elf_symbol_name_is_mapping("x"));
}

Test(elf_symbols, global_functions_rank_highest)
{
	struct elf_symbol global = {.bind = STB_GLOBAL, .type = STT_NOTYPE};
	struct elf_symbol weak = {.bind = STB_WEAK, .type = STT_FUNC};
	struct elf_symbol local = {.bind = STB_LOCAL, .type = STT_GNU_IFUNC};
	struct elf_symbol label = {.bind = STB_LOCAL, .type = STT_NOTYPE};

	cr_assert_gt(elf_symbol_rank(&global), elf_symbol_rank(&weak));
	cr_assert_gt(elf_symbol_rank(&weak), elf_symbol_rank(&local));
	cr_assert_gt(elf_symbol_rank(&local), elf_symbol_rank(&label));
	global.type = STT_FUNC;
	cr_assert_leq(elf_symbol_rank(&global), ELF_SYMBOL_RANK_MAX);
}

Test(elf_symbols, shorter_names_without_underscores_are_better)
{
	cr_assert(elf_symbol_name_is_better("malloc_longer", "__libc_malloc"));
	cr_assert(elf_symbol_name_is_better("_x", "__x"));
	cr_assert(elf_symbol_name_is_better("read", "read64"));
	cr_assert(elf_symbol_name_is_better("aa", "ab"));
	cr_assert_not(elf_symbol_name_is_better("ab", "aa"));
	cr_assert_not(elf_symbol_name_is_better("aa", "aa"));
}

Test(elf_symbols, plt_entries_of_x86_64_are_decoded)
{
	static const uint8_t jump[] = {0xff, 0x25, 0x10, 0, 0, 0, 0x68, 5, 0, 0, 0};
	static const uint8_t ibt[] = {0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff,
				      0x25, 0xf0, 0xff, 0xff, 0xff};
	static const uint8_t lazy[] = {0xf3, 0x0f, 0x1e, 0xfa, 0x68, 5, 1, 0, 0, 0xf2, 0xe9};
	static const uint8_t first[] = {0xff, 0x35, 0x10, 0, 0, 0, 0xff, 0x25, 0x10, 0, 0, 0};
	struct elf_plt_target target;

	cr_assert(elf_plt_decode(EM_X86_64, jump, sizeof(jump), 0x1000, &target));
	cr_assert_eq(target.slot, 0x1016);
	cr_assert(elf_plt_decode(EM_X86_64, ibt, sizeof(ibt), 0x1000, &target));
	cr_assert_eq(target.slot, 0x1000 + 11 - 16);
	cr_assert(elf_plt_decode(EM_X86_64, lazy, sizeof(lazy), 0x1000, &target));
	cr_assert_eq(target.slot, 0);
	cr_assert_eq(target.index, 0x105);
	cr_assert_not(elf_plt_decode(EM_X86_64, first, sizeof(first), 0x1000, &target));
	for (size_t i = 0; i < 6; i++)
		cr_assert_not(elf_plt_decode(EM_X86_64, jump, i, 0x1000, &target));
	cr_assert_not(elf_plt_decode(EM_RISCV, jump, sizeof(jump), 0x1000, &target));
}

Test(elf_symbols, plt_entries_of_aarch64_are_decoded)
{
	/* adrp x16, .+0x10000 (from 0x400570); ldr x17, [x16, #0x18]; as objdump prints them */
	static const uint8_t plain[] = {0x90, 0x00, 0x00, 0x90, 0x11, 0x0e, 0x40, 0xf9};
	static const uint8_t bti[] = {0x5f, 0x24, 0x03, 0xd5, 0x90, 0x00,
				      0x00, 0x90, 0x11, 0x0e, 0x40, 0xf9};
	/* adrp x16, .-0x1000 */
	static const uint8_t back[] = {0xf0, 0xff, 0xff, 0xf0, 0x11, 0x0e, 0x40, 0xf9};
	struct elf_plt_target target;

	cr_assert(elf_plt_decode(EM_AARCH64, plain, sizeof(plain), 0x400570, &target));
	cr_assert_eq(target.slot, 0x410018);
	cr_assert(elf_plt_decode(EM_AARCH64, bti, sizeof(bti), 0x400570, &target));
	cr_assert_eq(target.slot, 0x410018);
	cr_assert(elf_plt_decode(EM_AARCH64, back, sizeof(back), 0x400570, &target));
	cr_assert_eq(target.slot, 0x3ff018);
	cr_assert_not(elf_plt_decode(EM_AARCH64, plain, 7, 0x400570, &target));
}
