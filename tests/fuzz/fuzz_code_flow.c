/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the derivation of rows from machine code. The input is one byte of options and the code,
 * with function entries at every 64th byte or none. In addition to memory errors, it checks what cfi.h
 * promises of the rows, and that they do not depend on code that was parsed before. */
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
	const struct code_region region = {
	    .bytes = data + 1,
	    .length = size - 1,
	    .vaddr = VADDR,
	    .entries = entries,
	    .entry_count = data[0] & SWITCH_ENTRIES ? ENTRIES_MAX : 0,
	    .outermost = data[0] & SWITCH_OUTERMOST ? VADDR : 0,
	};
	cfi_rules_reset(&rules);
	struct cfi_delivered delivered = {.rules = &rules};
	const struct cfi_sink sink = check_sink(&delivered);
	check(code_flow_new(&flow, &sink) == 0);
	check(code_flow_parse(flow, &region) == 0);
	const struct cfi_delivered once = delivered;
	check(code_flow_parse(flow, &region) == 0);
	check(delivered.fdes == 2 * once.fdes && delivered.rows == 2 * once.rows);
	code_flow_free(flow);
	return 0;
}
