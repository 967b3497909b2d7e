/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see table_parts.h. */
#include "unwinder-mgr/table_parts.h"

#include <errno.h>
#include <string.h>

#include "common/array.h"
#include "ipc/fd_passing.h"
#include "unwinder-mgr/limits.h"

enum {
	/* Sizes of the first allocations, in items. They double from there. */
	ITEMS_FIRST = 256,
};

static const size_t item_bytes[] = {
    [TABLE_PART_RULES] = sizeof(struct table_part_rule),
    [TABLE_PART_RANGES] = sizeof(struct unwind_range),
    [TABLE_PART_ROWS] = sizeof(struct unwind_row),
    [TABLE_PART_END] = sizeof(struct table_part_end),
};

/* --- in the helper --- */

static int send_part(int socket, struct table_part *part, enum table_part_kind kind, size_t count)
{
	int r;

	part->kind = kind;
	part->count = (uint32_t)count;
	do
		r = fd_passing_send(socket, part,
				    offsetof(struct table_part, items) + count * item_bytes[kind],
				    NULL, 0, 0);
	while (r == -EINTR);
	return r;
}

/* Sends an array. */
static int send_items(int socket, struct table_part *part, enum table_part_kind kind,
		      const void *items, size_t count)
{
	const size_t most = TABLE_PART_BYTES / item_bytes[kind];
	const uint8_t *from = items;
	int r = 0;

	while (count && !r) {
		const size_t n = count < most ? count : most;

		memcpy(part->items, from, n * item_bytes[kind]);
		r = send_part(socket, part, kind, n);
		from += n * item_bytes[kind];
		count -= n;
	}
	return r;
}

static int send_rules(int socket, struct table_part *part,
		      const struct unwind_table_builder *builder, const struct rules *rules)
{
	struct table_part_rule *items = (struct table_part_rule *)part->items;
	const size_t most = TABLE_PART_BYTES / sizeof(items[0]);
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; i < builder->rule_count && !r; i++) {
		const uint16_t id = builder->rules[i];

		items[n++] = (struct table_part_rule){.rule = rules->table[id], .id = id};
		if (n == most || i + 1 == builder->rule_count) {
			r = send_part(socket, part, TABLE_PART_RULES, n);
			n = 0;
		}
	}
	return r;
}

int table_parts_send(int socket, const struct unwind_table_builder *builder,
		     const struct rules *rules, const struct table_part_end *end)
{
	static struct table_part part;
	int r = 0;

	if (!end->error) {
		r = send_rules(socket, &part, builder, rules);
		if (!r)
			r = send_items(socket, &part, TABLE_PART_RANGES, builder->ranges.items,
				       builder->ranges.count);
		if (!r)
			r = send_items(socket, &part, TABLE_PART_ROWS, builder->rows,
				       builder->row_count);
	}
	return r ? r : send_items(socket, &part, TABLE_PART_END, end, 1);
}

/* --- in the manager --- */

void table_receiver_begin(struct table_receiver *receiver, struct rules *rules, uint32_t rules_most)
{
	receiver->builder = (struct unwind_table_builder){0};
	receiver->rules = rules;
	receiver->rules_most = receiver->rules_left = rules_most;
	for (unsigned int i = 0; i < RULES_MAX; i++)
		receiver->ids[i] = (uint16_t)(i < BH_RULE_IDS_FIXED ? i : BH_RULE_ID_REFUSED);
}

static int take_rules(struct table_receiver *receiver, const struct table_part_rule *items,
		      size_t count)
{
	struct unwind_table_builder *builder = &receiver->builder;
	int r = ARRAY_RESERVE(builder->rules, builder->rule_capacity, builder->rule_count + count,
			      ITEMS_FIRST, RULES_MAX);

	for (size_t i = 0; i < count && !r; i++) {
		uint16_t id;

		if (items[i].id < BH_RULE_IDS_FIXED)
			return -EPROTO;
		r = rules_get(receiver->rules, &items[i].rule, &receiver->rules_left, &id);
		if (!r && id >= BH_RULE_IDS_FIXED)
			builder->rules[builder->rule_count++] = id;
		if (!r)
			receiver->ids[items[i].id] = id;
		builder->rules_missing += r == -ENOSPC;
		r = r == -ENOSPC ? 0 : r;
	}
	return r;
}

static int take_ranges(struct unwind_table_builder *builder, const struct unwind_range *items,
		       size_t count)
{
	struct unwind_ranges *ranges = &builder->ranges;
	int r = ARRAY_RESERVE(ranges->items, ranges->capacity, ranges->count + count, ITEMS_FIRST,
			      LIMIT_CFI_ROWS);

	if (r < 0)
		return r;
	memcpy(&ranges->items[ranges->count], items, count * sizeof(items[0]));
	ranges->count += count;
	return 0;
}

static int take_rows(struct table_receiver *receiver, const struct unwind_row *items, size_t count)
{
	struct unwind_table_builder *builder = &receiver->builder;
	int r = ARRAY_RESERVE(builder->rows, builder->row_capacity, builder->row_count + count,
			      ITEMS_FIRST, LIMIT_CFI_ROWS);

	if (r < 0)
		return r;
	struct unwind_row *row = &builder->rows[builder->row_count];
	for (size_t i = 0; i < count; i++)
		row[i] = (struct unwind_row){items[i].advance, receiver->ids[items[i].rule]};
	builder->row_count += count;
	return 0;
}

/* Returns whether the rows of a range ascend from its start and end before its end. */
static bool range_is_valid(const struct unwind_table_builder *builder,
			   const struct unwind_range *range)
{
	uint64_t offset = range->start;

	if (range->first_row > builder->row_count ||
	    range->row_count > builder->row_count - range->first_row)
		return false;
	const struct unwind_row *rows = &builder->rows[range->first_row];
	for (uint32_t i = 0; i < range->row_count; i++) {
		if (i && !rows[i].advance)
			return false;
		offset += rows[i].advance;
	}
	return offset < range->end;
}

/* Returns whether the rows can be placed (tables.h). */
static bool builder_is_valid(const struct unwind_table_builder *builder)
{
	const struct unwind_ranges *ranges = &builder->ranges;
	uint64_t rows = 0;

	for (size_t i = 0; i < ranges->count; i++) {
		if ((i && ranges->items[i].start < ranges->items[i - 1].end) ||
		    !range_is_valid(builder, &ranges->items[i]))
			return false;
		rows += ranges->items[i].row_count;
	}
	return ranges->count && rows <= builder->row_count;
}

int table_receiver_take(struct table_receiver *receiver, const struct table_part *part,
			size_t length, struct table_part_end *end)
{
	if (length < offsetof(struct table_part, items) || part->kind > TABLE_PART_END ||
	    part->count > TABLE_PART_BYTES / item_bytes[part->kind] ||
	    length != offsetof(struct table_part, items) + part->count * item_bytes[part->kind])
		return -EPROTO;
	switch ((enum table_part_kind)part->kind) {
	case TABLE_PART_RULES:
		return take_rules(receiver, (const void *)part->items, part->count);
	case TABLE_PART_RANGES:
		return take_ranges(&receiver->builder, (const void *)part->items, part->count);
	case TABLE_PART_ROWS:
		return take_rows(receiver, (const void *)part->items, part->count);
	case TABLE_PART_END:
		break;
	}
	if (part->count != 1)
		return -EPROTO;
	memcpy(end, part->items, sizeof(*end));
	receiver->builder.rules_added = receiver->rules_most - receiver->rules_left;
	if (end->error > 0 || (!end->error && !builder_is_valid(&receiver->builder)))
		return -EPROTO;
	return 1;
}

void table_receiver_drop(struct table_receiver *receiver, uint64_t now_ns)
{
	unwind_table_builder_fini(&receiver->builder, receiver->rules, now_ns);
}
