/* SPDX-License-Identifier: Apache-2.0 */
/* A sink that stores, for each byte of a region of code, the last rule that was delivered for it. */
#ifndef TESTS_SUPPORT_CFI_PAINT_H
#define TESTS_SUPPORT_CFI_PAINT_H

#include <stdlib.h>

#include "tests/support/cfi_rules.h"

struct cfi_paint {
	struct cfi_rules rules;
	uint64_t start, length; /* virtual addresses */
	uint32_t *at;		/* per byte: the id of its rule + 1; 0: none */
	unsigned int fdes;
	uint64_t outside; /* delivered bytes that are not in the region */
};

/* Returns 0 or -ENOMEM. */
static inline int cfi_paint_init(struct cfi_paint *paint, uint64_t start, uint64_t length)
{
	*paint = (struct cfi_paint){
	    .start = start, .length = length, .at = calloc(length, sizeof(*paint->at))};
	return paint->at ? cfi_rules_init(&paint->rules) : -ENOMEM;
}

static inline void cfi_paint_fini(struct cfi_paint *paint)
{
	cfi_rules_fini(&paint->rules);
	free(paint->at);
}

/* Returns the rule at an address, or NULL if none was delivered or the address is not in the region. */
static inline const struct cfi_rule *cfi_paint_rule(const struct cfi_paint *paint, uint64_t vaddr)
{
	const uint32_t id =
	    vaddr - paint->start < paint->length ? paint->at[vaddr - paint->start] : 0;

	return id ? &paint->rules.rules[id - 1] : NULL;
}

static inline int cfi_paint_on_rule(void *context, const struct cfi_rule *rule, uint32_t *id)
{
	struct cfi_paint *paint = context;

	return cfi_rules_id(&paint->rules, rule, id);
}

static inline int cfi_paint_on_fde(void *context, const struct cfi_fde *fde)
{
	struct cfi_paint *paint = context;

	paint->fdes++;
	for (unsigned int i = 0; i < fde->row_count; i++) {
		const uint64_t end =
		    i + 1 < fde->row_count ? fde->start + fde->rows[i + 1].at : fde->end;

		for (uint64_t a = fde->start + fde->rows[i].at; a < end; a++) {
			if (a - paint->start < paint->length)
				paint->at[a - paint->start] = fde->rows[i].rule + 1;
			else
				paint->outside++;
		}
	}
	return 0;
}

static inline struct cfi_sink cfi_paint_sink(struct cfi_paint *paint)
{
	return (struct cfi_sink){
	    .context = paint, .rule = cfi_paint_on_rule, .fde = cfi_paint_on_fde};
}

#endif
