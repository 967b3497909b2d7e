/* SPDX-License-Identifier: Apache-2.0 */
/* One byte of switches, then code: of functions at every 64th byte or of none known. Besides
 * memory, it checks what cfi.h promises of what is told, and that it does not depend on what came
 * before. */
#include "parse/code_flow.h"
#include "tests/support/cfi_check.h"

enum {
	SWITCH_ENTRIES = 1,
	SWITCH_OUTERMOST = 2,
	ENTRY_BYTES = 64,
	ENTRIES_MAX = 1024,
	VADDR = 0x401000,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint64_t entries[ENTRIES_MAX];
	static struct cfi_rules rules;
	struct code_flow *flow;

	if (size < 2)
		return 0;
	if (!rules.rules)
		check(cfi_rules_init(&rules) == 0);
	for (unsigned int i = 0; i < ENTRIES_MAX; i++)
		entries[i] = VADDR + (uint64_t)i * ENTRY_BYTES;
	const struct code_stretch stretch = {
	    .bytes = data + 1,
	    .length = size - 1,
	    .vaddr = VADDR,
	    .entries = entries,
	    .entry_count = data[0] & SWITCH_ENTRIES ? ENTRIES_MAX : 0,
	    .outermost = data[0] & SWITCH_OUTERMOST ? VADDR : 0,
	};
	cfi_rules_forget(&rules);
	struct cfi_told told = {.rules = &rules};
	const struct cfi_sink sink = check_sink(&told);
	check(code_flow_new(&flow, &sink) == 0);
	check(code_flow_parse(flow, &stretch) == 0);
	const struct cfi_told once = told;
	check(code_flow_parse(flow, &stretch) == 0);
	check(told.fdes == 2 * once.fdes && told.rows == 2 * once.rows);
	code_flow_free(flow);
	return 0;
}
