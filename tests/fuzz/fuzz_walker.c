/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the unwinder. Tables, registers and a stack come from the input. They may be inconsistent,
 * as they are while the manager writes them. The walk must end, must not leave the slabs and the
 * stack, and must only push frames that are well-formed.
 */
#include <stdlib.h>
#include <string.h>

#include "common/cursor.h"
#include "unwinder-mgr/walker.h"

enum {
	MAPPINGS_MAX = 8,
	MODULES = 4,
	PAGES = 16,
	DELTAS = 64,
	RULES = 16,
	PAGES_AT = 0x1000,
	DELTAS_AT = 0x2000,
	TEXT = 0x10000,
};
#define STACK 0x7ffc00000000ull

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct world {
	uint8_t slab[BH_SLAB_BYTES];
	struct bh_module modules[1 << BH_MODULES_BITS];
	struct bh_rule rules[1 << BH_RULES_BITS];
};

static void check(bool good)
{
	if (!good)
		abort();
}

/* Returns an address: mostly in the text or the stack, sometimes any value. */
static uint64_t take_address(struct cursor *c)
{
	const uint8_t how = cursor_u8(c);

	if (how < 100)
		return TEXT + cursor_u16(c) % (MAPPINGS_MAX * 0x1000);
	if (how < 200)
		return STACK + cursor_u16(c) * (how & 1 ? 8u : 1u);
	return cursor_u64(c);
}

static void take_tables(struct cursor *c, struct world *w, uint32_t mapping_count)
{
	struct bh_mapping *mappings = (void *)w->slab;
	struct bh_page *pages = (void *)(w->slab + PAGES_AT);
	struct bh_delta *deltas = (void *)(w->slab + DELTAS_AT);

	for (uint32_t i = 0; i < mapping_count; i++) {
		const uint8_t slot = cursor_u8(c);

		mappings[i].start = TEXT + i * 0x1000;
		mappings[i].end = mappings[i].start + cursor_u16(c);
		mappings[i].bias = slot & 0x80 ? cursor_u64(c) : TEXT;
		mappings[i].slot = slot & 0x40 ? cursor_u32(c) : slot % MODULES;
		mappings[i].module_id =
		    slot & 0x20 ? cursor_u32(c) & BH_MODULE_ID_MAX : slot % MODULES;
	}
	for (uint32_t i = 0; i < MODULES; i++) {
		const uint8_t state = cursor_u8(c);

		w->modules[i] = (struct bh_module){
		    .state = state % 4, .id = i, .page_offset = PAGES_AT, .page_count = PAGES};
		if (state & 0x80)
			w->modules[i].page_slab = cursor_u32(c);
		if (state & 0x40)
			w->modules[i].page_offset = cursor_u32(c);
		if (state & 0x20)
			w->modules[i].page_count = cursor_u32(c);
		if (state & 0x10)
			w->modules[i].first_page = cursor_u32(c);
	}
	for (uint32_t i = 0; i < PAGES; i++) {
		const uint8_t how = cursor_u8(c);

		pages[i] = (struct bh_page){.offset = DELTAS_AT + (how & 0x3f) * 4,
					    .count = 1 + (how >> 6) * 4};
		if (how == 0x80) {
			pages[i].offset = cursor_u32(c);
			pages[i].slab = cursor_u16(c);
			pages[i].count = cursor_u16(c);
		}
	}
	for (uint32_t i = 0; i < DELTAS; i++) {
		deltas[i].low = cursor_u16(c);
		deltas[i].rule = cursor_u8(c) % RULES;
	}
}

static void take_rules(struct cursor *c, struct world *w)
{
	for (uint32_t i = 0; i < RULES; i++) {
		const uint8_t how = cursor_u8(c);
		struct bh_rule *rule = &w->rules[i];

		*rule = (struct bh_rule){.kind = how % 11, .fp_kind = how >> 6};
		rule->cfa = (int8_t)cursor_u8(c);
		rule->fp = (int8_t)cursor_u8(c);
		if (how & 0x10) {
			rule->reg = cursor_u8(c);
			rule->bx_kind = cursor_u8(c) % 5;
			rule->bx = (int16_t)cursor_u16(c);
			rule->extra = (int32_t)cursor_u32(c);
		}
		if (how & 0x20)
			rule->cfa = (int32_t)cursor_u32(c);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct world *w;
	struct cursor c = cursor_init(data, size);
	struct bh_registers registers;
	uint64_t frames[BH_USER_FRAMES_MAX + 1];
	unsigned int count = UINT32_MAX;

	w = w ? w : calloc(1, sizeof(*w));
	const uint8_t head = cursor_u8(&c);
	const uint32_t mapping_count = head % (MAPPINGS_MAX + 1);
	registers.rip = take_address(&c);
	for (unsigned int i = 0; i < 16; i++)
		registers.gpr[i] = take_address(&c);
	take_tables(&c, w, mapping_count);
	take_rules(&c, w);
	/* The rest of the input is the stack. It is copied to memory of that size, so that ASan
	 * finds a read beyond its end. */
	const size_t length = cursor_left(&c);
	uint8_t *stack = malloc(length ? length : 1);
	if (length)
		memcpy(stack, cursor_take(&c, length), length);
	const struct walker_stack copy = {.start = STACK, .bytes = stack, .length = length};
	const struct walker_tables tables = {
	    .slabs = {w->slab}, .modules = w->modules, .rules = w->rules};
	frames[BH_USER_FRAMES_MAX] = 0x5555;
	unsigned int reason =
	    walker_run(&tables, &registers, &copy, head & 0x80 ? head : 0,
		       head & 0x40 ? 0xfffffff0u : 0, mapping_count, frames, &count);
	check(reason < BH_REASON_COUNT && reason != BH_REASON_READ_FAULT);
	check(count <= BH_USER_FRAMES_MAX && frames[BH_USER_FRAMES_MAX] == 0x5555);
	for (unsigned int i = 0; i < count; i++)
		check(!(frames[i] & BH_FRAME_RAW) || !((frames[i] & ~BH_FRAME_RAW) >> 48));
	free(stack);
	return 0;
}
