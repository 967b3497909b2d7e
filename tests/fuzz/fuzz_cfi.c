/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the CFI parser. The input is one byte of options and a section. In addition to memory
 * errors, it checks what cfi.h promises of every FDE and its rules, and that small windows give the
 * same result. */
#include <stdlib.h>
#include <string.h>

#include "parse/cfi.h"
#include "tests/support/cfi_check.h"

enum {
	SWITCH_DEBUG_FRAME = 1,
	SWITCH_NO_ADDRESSES = 2,
	SWITCH_SMALL_BUDGET = 4,
	SMALL_WINDOW_BYTES = 13,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct cfi_delivered parse(struct cfi_section section, const struct elf_source *source,
			     struct cfi_rules *rules, const struct cfi_budget *budget, size_t step)
{
	struct cfi_delivered delivered = {.rules = rules};
	const struct cfi_sink sink = check_sink(&delivered);
	struct elf_window window;
	struct cfi_stats stats;

	elf_window_init(&window, source, 0, source->size);
	if (step)
		window.step = step;
	section.window = &window;
	cfi_parse(&section, budget, &sink, &stats);
	elf_window_fini(&window);
	check(delivered.fdes == stats.fdes && delivered.rows == stats.rows);
	check(stats.fdes + stats.bad_fdes <= budget->fdes && stats.rows <= budget->rows);
	return delivered;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct cfi_rules rules;
	struct cfi_budget budget = {10000, 100000, 1000000};

	if (size == 0)
		return 0;
	if (!rules.rules)
		check(cfi_rules_init(&rules) == 0);
	struct cfi_section section = {.debug_frame = data[0] & SWITCH_DEBUG_FRAME};
	if (!(data[0] & SWITCH_NO_ADDRESSES)) {
		section.vaddr = 0x10000;
		section.text_vaddr = 0x20000;
		section.data_vaddr = 0x30000;
	}
	if (data[0] & SWITCH_SMALL_BUDGET)
		budget = (struct cfi_budget){5, 20, 50};
	struct elf_buffer buffer = {data + 1, size - 1};
	const struct elf_source source = elf_source_from_buffer(&buffer);
	cfi_rules_reset(&rules);
	const struct cfi_delivered whole = parse(section, &source, &rules, &budget, 0);
	const struct cfi_delivered pieces = parse(section, &source, &rules, &budget, SMALL_WINDOW_BYTES);
	check(whole.fdes == pieces.fdes && whole.rows == pieces.rows && whole.sum == pieces.sum);
	return 0;
}
