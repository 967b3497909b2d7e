/* SPDX-License-Identifier: Apache-2.0 */
/* What the fuzzers of jitdump files and of maps of generated code have read, in its order. At each
 * address, what was read last counts. */
#ifndef TESTS_FUZZ_SEEN_CODE_H
#define TESTS_FUZZ_SEEN_CODE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "symbolizer/worker/jit_symbols.h"

enum {
	ENTRIES_MAX = 64, /* that are compared */
};

struct seen {
	struct jit_symbols symbols;
	struct jit_entry entries[ENTRIES_MAX];
	size_t count;
	uint64_t id;
};

static void check(bool good)
{
	if (!good)
		abort();
}

/* Returns the id of the last entry with an address, or 0. */
static uint64_t seen_last_id(const struct seen *seen, uint64_t address)
{
	for (size_t i = seen->count; i-- > 0;) {
		if (address >= seen->entries[i].start && address < seen->entries[i].end)
			return seen->entries[i].id;
	}
	return 0;
}

/* Checks the entry at the first and last address of each range, and next to it; `check_address`
 * checks what is special. */
static void seen_check_all(const struct seen *seen,
			   void (*check_address)(const struct seen *seen, uint64_t address))
{
	for (size_t i = 0; i < seen->count; i++) {
		const uint64_t start = seen->entries[i].start, end = seen->entries[i].end;
		const uint64_t addresses[] = {start, start - 1, end, end - 1};

		for (int k = 0; k < 4; k++) {
			const struct jit_entry *entry =
			    jit_symbols_find(&seen->symbols, addresses[k]);

			check((entry ? entry->id : 0) == seen_last_id(seen, addresses[k]));
			check_address(seen, addresses[k]);
		}
	}
}

#endif
