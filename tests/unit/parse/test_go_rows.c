/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proves that the unwind rows of a real program of Go are those that libdw reads from the DWARF
 * which the linker of Go wrote into the same file, at both ends of each row and in its middle, and
 * that no function is left out.
 *
 * DWARF has nothing between two functions. There, the row of the function before holds: the test
 * checks that only padding, the instruction int3, is there.
 */
#include <criterion/criterion.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file_read.h"
#include "parse/go_functions.h"
#include "parse/go_rows.h"
#include "tests/support/cfi_rules.h"
#include "tests/unit/parse/go_rule.h"

/* FIXTURE_GO is the program, with DWARF. */

enum {
	ROWS_MAX = 1 << 20, /* more than the program has */
	INT3 = 0xcc,
	NAME_BYTES = 64,
};

struct program {
	int fd;
	struct elf_source source;
	struct elf_image image;
	struct go_module module;
	struct cfi_rules rules;
	Dwarf *dwarf;
	Dwarf_CFI *cfi;
	uint64_t next; /* where the function after the last one starts */
	unsigned int functions, rows, compared, padding, outermost, switching, abandoning;
	unsigned int left_out; /* ranges of functions */
	bool goexit_is_outermost, systemstack_switches, mcall_abandons, morestack_abandons;
};

static void program_open(struct program *program)
{
	struct stat st;

	*program = (struct program){.fd = open(FIXTURE_GO, O_RDONLY | O_CLOEXEC)};
	cr_assert_geq(program->fd, 0);
	cr_assert_eq(fstat(program->fd, &st), 0);
	program->source = (struct elf_source){file_read_from, &program->fd, (uint64_t)st.st_size};
	cr_assert_eq(elf_image_init(&program->image, &program->source), 0);
	cr_assert_eq(go_module_find(&program->module, &program->image), 0);
	cr_assert_eq(cfi_rules_init(&program->rules), 0);
	elf_version(EV_CURRENT);
	program->dwarf = dwarf_begin(program->fd, DWARF_C_READ);
	cr_assert_not_null(program->dwarf, "%s", dwarf_errmsg(-1));
	program->cfi = dwarf_getcfi(program->dwarf);
	cr_assert_not_null(program->cfi, "%s", dwarf_errmsg(-1));
	program->next = program->module.text_vaddr;
}

static void program_close(struct program *program)
{
	dwarf_end(program->dwarf);
	cfi_rules_fini(&program->rules);
	elf_image_fini(&program->image);
	close(program->fd);
}

/* Returns the name of the function at an address. */
static const char *name_at(struct program *program, uint64_t vaddr, char *name)
{
	static struct go_position position;

	cr_assert(go_functions_find(&program->module, &program->source, vaddr, &position));
	go_functions_text(&program->module.names, &program->source,
			  position.calls[position.count - 1].name, name, NAME_BYTES);
	return name;
}

static bool is_padding(struct program *program, uint64_t start, uint64_t end)
{
	while (start < end) {
		uint64_t offset;
		uint8_t byte;

		cr_assert(elf_image_vaddr_to_offset(&program->image, start++, &offset));
		cr_assert_eq(file_read_exactly(program->fd, offset, &byte, 1), 0);
		if (byte != INT3)
			return false;
	}
	return true;
}

/* Compares the rule at an address with libdw's. `end` is that of the function. */
static void compare(struct program *program, uint64_t vaddr, uint64_t end,
		    const struct cfi_rule *rule)
{
	Dwarf_Frame *frame = NULL;
	Dwarf_Op *ops;
	size_t count;

	if (dwarf_cfi_addrframe(program->cfi, vaddr, &frame) != 0) {
		cr_assert(is_padding(program, vaddr, end), "%#lx has no frame", vaddr);
		program->padding++;
		return;
	}
	cr_assert_eq(dwarf_frame_cfa(frame, &ops, &count), 0);
	cr_assert(count == 1 && ops[0].atom == DW_OP_bregx && ops[0].number == 7, "%#lx", vaddr);
	cr_assert_eq(rule->cfa_offset, (int64_t)ops[0].number2, "%#lx: %d, not %ld", vaddr,
		     rule->cfa_offset, (int64_t)ops[0].number2);
	free(frame);
	program->compared++;
}

/* Checks the functions that were left out: DWARF has no rows of them, either. */
static void check_left_out(struct program *program, uint64_t start, uint64_t end)
{
	Dwarf_Frame *frame = NULL;
	char name[NAME_BYTES];

	for (uint64_t vaddr = start; vaddr < end; vaddr++)
		cr_assert_neq(dwarf_cfi_addrframe(program->cfi, vaddr, &frame), 0, "%s is left out",
			      name_at(program, vaddr, name));
	program->left_out++;
}

static void program_advance(struct program *program, uint64_t start, uint64_t end)
{
	cr_assert_lt(start, end);
	cr_assert_leq(program->next, start);
	if (program->next < start)
		check_left_out(program, program->next, start);
	program->next = end;
	program->functions++;
}

static int program_rule(void *context, const struct cfi_rule *rule, uint32_t *id)
{
	struct program *program = context;

	return cfi_rules_id(&program->rules, rule, id);
}

static int program_fde(void *context, const struct cfi_fde *fde)
{
	struct program *program = context;
	char name[NAME_BYTES];

	program_advance(program, fde->start, fde->end);
	cr_assert_gt(fde->row_count, 0);
	cr_assert_eq(fde->rows[0].at, 0);
	for (unsigned int i = 0; i < fde->row_count; i++) {
		const struct cfi_rule *rule = &program->rules.rules[fde->rows[i].rule];
		const uint64_t start = fde->start + fde->rows[i].at;
		const uint64_t end =
		    i + 1 < fde->row_count ? fde->start + fde->rows[i + 1].at : fde->end;

		cr_assert_lt(start, end);
		if (rule->ra_kind == CFI_SAVE_UNDEFINED) {
			cr_assert_eq(fde->row_count, 1);
			program->outermost++;
			program->goexit_is_outermost |=
			    !strcmp(name_at(program, start, name), "runtime.goexit");
			continue;
		}
		cr_assert(i == 0 || fde->rows[i].rule != fde->rows[i - 1].rule);
		if (rule->cfa_kind == CFI_CFA_UNKNOWN) {
			/* It takes its return address from the stack. */
			cr_assert_str_eq(name_at(program, start, name), "syscall.rawVforkSyscall");
			continue;
		}
		go_check_rule(rule);
		program->rows++;
		compare(program, start, fde->end, rule);
		compare(program, start + (end - start) / 2, fde->end, rule);
		compare(program, end - 1, fde->end, rule);
	}
	return 0;
}

static int program_visit(void *context, uint64_t start, uint64_t end, bool abandons)
{
	struct program *program = context;
	char name[NAME_BYTES];

	program_advance(program, start, end);
	name_at(program, start, name);
	cr_log_info("%s: %s", abandons ? "abandons" : "switches", name);
	program->switching++;
	program->abandoning += abandons;
	program->systemstack_switches |= !strcmp(name, "runtime.systemstack") && !abandons;
	program->mcall_abandons |= !strcmp(name, "runtime.mcall") && abandons;
	program->morestack_abandons |= !strcmp(name, "runtime.morestack") && abandons;
	return 0;
}

Test(go_rows, agree_with_the_dwarf_of_the_same_program, .timeout = 300)
{
	struct program program;
	const struct cfi_sink sink = {
	    .context = &program, .rule = program_rule, .fde = program_fde};

	program_open(&program);
	cr_assert_eq(go_rows_parse(&program.module, &program.source, ROWS_MAX, &sink, program_visit,
				   &program),
		     0);
	cr_log_info("%u functions, %u rows, %u addresses compared, %u in padding, %u outermost, "
		    "%u switching, %u left out",
		    program.functions, program.rows, program.compared, program.padding,
		    program.outermost, program.switching, program.left_out);
	check_left_out(&program, program.next,
		       elf_image_find_section(&program.image, ".text")->vaddr +
			   elf_image_find_section(&program.image, ".text")->size);
	cr_expect_gt(program.functions, 1000);
	cr_expect_gt(program.compared, 10000);
	cr_expect_gt(program.padding, 100);
	/* The rest is compared. */
	cr_expect_lt(program.outermost, 15);
	cr_expect_lt(program.switching, 25);
	cr_expect_lt(program.left_out, 5);
	cr_expect(program.goexit_is_outermost);
	cr_expect(program.systemstack_switches);
	cr_expect(program.mcall_abandons);
	cr_expect(program.morestack_abandons);
	cr_expect_eq(program.abandoning, 2);
	program_close(&program);
}
