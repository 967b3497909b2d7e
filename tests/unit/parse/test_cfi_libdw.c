/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the rows of real files with what libdw finds. */
#include <criterion/criterion.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "parse/cfi.h"
#include "parse/elf_image.h"
#include "tests/support/cfi_rules.h"

/* A budget that is never used up. */
static const struct cfi_budget plenty = {1000000, 1000000, 10000000};

struct truth {
	struct cfi_rules rule_ids;
	Dwarf_CFI *cfi;
	unsigned long fdes, rows, unknown_rows, checked, skip;
	const char *path;
};

/* Converts one of libdw's locations to a rule. `deref`: it is the place where a register is
 * saved. */
static void save_from_ops(const Dwarf_Op *ops, size_t count, const Dwarf_Op *memory, uint8_t *kind,
			  uint8_t *reg, int32_t *offset)
{
	*kind = CFI_SAVE_UNKNOWN;
	*reg = 0;
	*offset = 0;
	if (count == 0) {
		*kind = ops == memory ? CFI_SAVE_UNDEFINED : CFI_SAVE_SAME;
		return;
	}
	bool from_cfa = ops[0].atom == DW_OP_call_frame_cfa;
	if (from_cfa) {
		ops++;
		count--;
	}
	if (count == 0) {
		*kind = CFI_SAVE_CFA;
	} else if (count == 1 && ops[0].atom == DW_OP_plus_uconst && from_cfa) {
		*kind = CFI_SAVE_CFA;
		*offset = (int32_t)ops[0].number;
	} else if (count == 1 && ops[0].atom == DW_OP_regx && ops[0].number < 16) {
		*kind = CFI_SAVE_IN_REGISTER;
		*reg = (uint8_t)ops[0].number;
	} else if (count == 1 && ops[0].atom >= DW_OP_reg0 && ops[0].atom <= DW_OP_reg15) {
		*kind = CFI_SAVE_IN_REGISTER;
		*reg = ops[0].atom - DW_OP_reg0;
	} else if (count == 1 && ops[0].atom >= DW_OP_breg0 && ops[0].atom <= DW_OP_breg15) {
		*kind = CFI_SAVE_REGISTER;
		*reg = ops[0].atom - DW_OP_breg0;
		*offset = (int32_t)ops[0].number;
	} else if (count == 1 && ops[0].atom == DW_OP_bregx && ops[0].number < 16) {
		*kind = CFI_SAVE_REGISTER;
		*reg = (uint8_t)ops[0].number;
		*offset = (int32_t)ops[0].number2;
	}
}

static void cfa_from_ops(const Dwarf_Op *ops, size_t count, struct cfi_rule *rule)
{
	static const uint8_t plt[] = {DW_OP_breg7, DW_OP_breg16, DW_OP_lit15,
				      DW_OP_and,   DW_OP_lit11,	 DW_OP_ge,
				      DW_OP_lit3,  DW_OP_shl,	 DW_OP_plus};
	uint64_t reg = 99;
	int64_t offset = 0;

	if (count == sizeof(plt)) {
		bool same = true;

		for (size_t i = 0; i < count; i++)
			same &= ops[i].atom == plt[i] ||
				(i == 4 && ops[i].atom >= DW_OP_lit0 && ops[i].atom <= DW_OP_lit15);
		if (same && ops[0].number == 8 && ops[1].number == 0) {
			rule->cfa_kind = CFI_CFA_PLT;
			rule->cfa_offset = 8;
			rule->cfa_add = ops[4].atom - DW_OP_lit0;
		}
		return;
	}
	if (ops[0].atom == DW_OP_bregx) {
		reg = ops[0].number;
		offset = (int64_t)ops[0].number2;
	} else if (ops[0].atom >= DW_OP_breg0 && ops[0].atom <= DW_OP_breg31) {
		reg = ops[0].atom - DW_OP_breg0;
		offset = (int64_t)ops[0].number;
	}
	if (reg > 15 || (count > 1 && ops[1].atom != DW_OP_deref) || count > 3 ||
	    (count == 3 && ops[2].atom != DW_OP_plus_uconst))
		return;
	rule->cfa_kind = count == 1 ? CFI_CFA_REGISTER : CFI_CFA_DEREF;
	rule->cfa_register = (uint8_t)reg;
	rule->cfa_offset = (int32_t)offset;
	rule->cfa_add = count == 3 ? (int32_t)ops[2].number : 0;
}

static void check_against(const struct truth *t, uint64_t address, struct cfi_rule mine)
{
	struct cfi_rule theirs = {0};
	Dwarf_Frame *frame = NULL;
	Dwarf_Op memory[3], *ops;
	Dwarf_Addr start, end;
	bool signal_frame;
	size_t count;

	cr_assert_eq(dwarf_cfi_addrframe(t->cfi, address, &frame), 0, "%s %#lx: %s", t->path,
		     address, dwarf_errmsg(-1));
	cr_assert_geq(dwarf_frame_info(frame, &start, &end, &signal_frame), 0);
	cr_assert(start <= address && address < end);
	theirs.signal_frame = signal_frame;
	cr_assert_eq(dwarf_frame_cfa(frame, &ops, &count), 0);
	cfa_from_ops(ops, count, &theirs);
	cr_assert_eq(dwarf_frame_register(frame, 6, memory, &ops, &count), 0);
	save_from_ops(ops, count, memory, &theirs.fp_kind, &theirs.fp_register, &theirs.fp_offset);
	cr_assert_eq(dwarf_frame_register(frame, 16, memory, &ops, &count), 0);
	save_from_ops(ops, count, memory, &theirs.ra_kind, &theirs.ra_register, &theirs.ra_offset);
	uint8_t unused;
	cr_assert_eq(dwarf_frame_register(frame, 3, memory, &ops, &count), 0);
	save_from_ops(ops, count, memory, &theirs.bx_kind, &unused, &theirs.bx_offset);
	/* libdw's table of what the ABI preserves gives rbx the number 0, so an rbx without a rule
	 * is "undefined" to it. */
	if (theirs.bx_kind == CFI_SAVE_UNDEFINED && mine.bx_kind == CFI_SAVE_SAME)
		theirs.bx_kind = CFI_SAVE_SAME;
	if (theirs.bx_kind != CFI_SAVE_SAME && theirs.bx_kind != CFI_SAVE_CFA) {
		theirs.bx_kind = CFI_SAVE_UNKNOWN;
		theirs.bx_offset = 0;
	}
	/* No rule at all is "undefined" to libdw. */
	if (mine.ra_kind == CFI_SAVE_SAME)
		mine.ra_kind = CFI_SAVE_UNDEFINED;
	cr_assert_eq(
	    memcmp(&mine, &theirs, sizeof(mine)), 0,
	    "%s %#lx: cfa %d r%d%+d+%d / %d r%d%+d+%d, fp %d r%d%+d / %d r%d%+d, ra %d r%d%+d / "
	    "%d r%d%+d, bx %d%+d / %d%+d, signal %d / %d",
	    t->path, address, mine.cfa_kind, mine.cfa_register, mine.cfa_offset, mine.cfa_add,
	    theirs.cfa_kind, theirs.cfa_register, theirs.cfa_offset, theirs.cfa_add, mine.fp_kind,
	    mine.fp_register, mine.fp_offset, theirs.fp_kind, theirs.fp_register, theirs.fp_offset,
	    mine.ra_kind, mine.ra_register, mine.ra_offset, theirs.ra_kind, theirs.ra_register,
	    theirs.ra_offset, mine.bx_kind, mine.bx_offset, theirs.bx_kind, theirs.bx_offset,
	    mine.signal_frame, theirs.signal_frame);
	free(frame);
}

/* Compares every `skip`th row, and every unusual one, at its first and last address. */
static int compare_fde(void *context, const struct cfi_fde *fde)
{
	struct truth *t = context;

	t->fdes++;
	for (unsigned int i = 0; i < fde->row_count; i++) {
		const struct cfi_rule *rule = &t->rule_ids.rules[fde->rows[i].rule];
		uint64_t start = fde->start + fde->rows[i].at;
		uint64_t end = i + 1 < fde->row_count ? fde->start + fde->rows[i + 1].at : fde->end;

		bool odd = rule->cfa_kind != CFI_CFA_REGISTER || rule->signal_frame ||
			   rule->fp_kind > CFI_SAVE_CFA || rule->ra_kind != CFI_SAVE_CFA;
		t->unknown_rows += rule->cfa_kind == CFI_CFA_UNKNOWN;
		if (t->rows++ % t->skip != 0 && !odd)
			continue;
		check_against(t, start, *rule);
		check_against(t, end - 1, *rule);
		t->checked += 2;
	}
	return 0;
}

static int truth_rule(void *context, const struct cfi_rule *rule, uint32_t *id)
{
	struct truth *t = context;

	return cfi_rules_id(&t->rule_ids, rule, id);
}

static int count_fde(void *context, const struct cfi_fde *fde)
{
	(void)context;
	(void)fde;
	return 0;
}

/* Goes through the FDEs with libdw, in the section as it is in the file. */
static unsigned long count_entries(Elf *elf, const uint8_t *bytes, size_t length)
{
	Elf_Data data = {.d_buf = (void *)bytes, .d_size = length, .d_type = ELF_T_BYTE};
	Dwarf_Off offset = 0, next;
	unsigned long fdes = 0;
	Dwarf_CFI_Entry entry;

	while (dwarf_next_cfi((const unsigned char *)elf_getident(elf, NULL), &data, true, offset,
			      &next, &entry) == 0) {
		fdes += entry.CIE_id != DW_CIE_ID_64;
		offset = next;
	}
	return fdes;
}

static int fd_read(void *context, uint64_t offset, void *buffer, size_t length)
{
	ssize_t n = pread(*(int *)context, buffer, length, (off_t)offset);

	return n == (ssize_t)length ? 0 : -ENODATA;
}

static bool compare_file(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	_cleanup_free_ uint8_t *data = NULL;
	struct truth truth = {.path = path};
	struct elf_image image;
	struct cfi_stats stats;
	size_t length;
	struct stat st;

	if (fd < 0)
		return false;
	cr_assert_eq(fstat(fd, &st), 0);
	struct elf_source source = {.read = fd_read, .context = &fd, .size = (uint64_t)st.st_size};
	cr_assert_eq(elf_image_init(&image, &source), 0, "%s", path);
	const struct elf_section *s = elf_image_find_section(&image, ".eh_frame");
	cr_assert_not_null(s);
	cr_assert_eq(elf_image_read_section(&image, s, 1 << 30, &data, &length), 0);
	elf_version(EV_CURRENT);
	Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
	truth.cfi = dwarf_getcfi_elf(elf);
	cr_assert_not_null(truth.cfi);

	struct elf_window window;
	struct cfi_section section = {.window = &window, .vaddr = s->vaddr};
	struct cfi_sink sink = {.context = &truth, .rule = truth_rule, .fde = count_fde};
	cr_assert_eq(cfi_rules_init(&truth.rule_ids), 0);
	cr_assert_eq(elf_window_init_section(&window, &image, s, 1 << 30), 0);
	cr_assert_eq(cfi_parse(&section, &plenty, &sink, &stats), 0);
	const unsigned long rows = stats.rows;
	truth.skip = rows / 5000 + 1;
	sink.fde = compare_fde;
	cr_assert_eq(cfi_parse(&section, &plenty, &sink, &stats), 0);
	cr_assert_eq(stats.bad_fdes, 0);
	/* libcrypto computes three CFAs from two registers; libdw must have called each of those
	 * unknown, too. */
	cr_assert_leq(truth.unknown_rows, 3, "%s", path);
	cr_assert_not(stats.truncated);
	cr_assert_eq(stats.fdes, count_entries(elf, data, length));
	cr_assert_eq(stats.rows, rows);
	cr_log_info("%s: %lu FDEs, %lu rows, %lu addresses compared", path, truth.fdes, rows,
		    truth.checked);
	dwarf_cfi_end(truth.cfi);
	elf_window_fini(&window);
	cfi_rules_fini(&truth.rule_ids);
	elf_end(elf);
	elf_image_fini(&image);
	return true;
}

Test(cfi, agrees_with_libdw, .timeout = 300)
{
	static const char *const paths[] = {
	    "/lib/x86_64-linux-gnu/libc.so.6",
	    "/lib64/libc.so.6",
	    "/lib64/ld-linux-x86-64.so.2",
	    "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
	    "/usr/lib/x86_64-linux-gnu/libcrypto.so.3",
	    "/usr/bin/gdb",
	    "/usr/bin/cmake",
	    "/usr/bin/python3",
	};
	unsigned int files = 0;

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		files += compare_file(paths[i]);
	cr_assert_gt(files, 1, "not even a libc and a loader");
}
