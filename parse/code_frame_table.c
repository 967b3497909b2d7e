/* SPDX-License-Identifier: Apache-2.0 */
#include "parse/code_frame_table.h"

#include "common/hash.h"

enum {
	PROBES = 16, /* buckets that are searched; the table is at most half full */
};

void code_frame_table_init(struct code_frame_table *table)
{
	const struct code_frame lost = {.sp = CODE_LOST, .fp = CODE_LOST};
	const struct code_frame called = code_frame_at_entry(CODE_FRAME_CALLED);

	code_frame_table_intern(table, &lost);
	code_frame_table_intern(table, &called);
}

static uint32_t frame_hash(const struct code_frame *frame)
{
	uint64_t h = (uint32_t)frame->sp;

	h = hash_spread(h) + (uint32_t)frame->fp;
	h = hash_spread(h) + (uint32_t)frame->fp_saved;
	h = hash_spread(h) + (uint32_t)frame->bx_saved;
	h = hash_spread(h + frame->kind + ((uint32_t)frame->other_stack << 8));
	return (uint32_t)(h >> 40);
}

uint32_t code_frame_table_intern(struct code_frame_table *table, const struct code_frame *frame)
{
	uint32_t bucket = frame_hash(frame);

	for (int probe = 0; probe < PROBES; probe++, bucket++) {
		uint16_t *slot = &table->buckets[bucket % CODE_FRAME_BUCKETS];

		if (*slot && code_frame_equal(&table->frames[*slot - 1], frame))
			return *slot - 1u;
		if (*slot || table->count == CODE_FRAME_IDS_MAX)
			continue;
		table->frames[table->count] = *frame;
		table->rules[table->count] = -1;
		*slot = (uint16_t)++table->count;
		return *slot - 1u;
	}
	return CODE_FRAME_ID_LOST;
}

int code_frame_table_rule(struct code_frame_table *table, const struct cfi_sink *sink, uint32_t id,
			  uint32_t *rule)
{
	if (table->rules[id] < 0) {
		const struct cfi_rule described = code_frame_rule(&table->frames[id]);
		uint32_t rule_id;
		int r = sink->rule(sink->context, &described, &rule_id);

		if (r < 0)
			return r;
		table->rules[id] = rule_id;
	}
	*rule = (uint32_t)table->rules[id];
	return 0;
}
