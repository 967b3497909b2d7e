/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the walkers of the language runtimes. Registers, memory, ranges and blocks come from the
 * input. A block may be inconsistent, as it is while the worker writes it. Memory belongs to the
 * profiled process. The walk must end within its steps and its frames, and must not read more than
 * its steps can.
 */
#include <stdlib.h>
#include <string.h>

#include "common/cursor.h"
#include "tests/runtime/walk_in_process.h"

enum {
	TGID = 1,
	MODULE = 1, /* slot and id of the only module */
	MAPPINGS_AT = 0,
	PAGES_AT = 0x1000,
	DELTAS_AT = 0x2000,
	TEXT = 0x400000,
	TEXT_BYTES = 16 << BH_PAGE_BITS,
	JIT = 0x600000, /* executable memory without a file */
	JIT_BYTES = 0x4000,
	RULES = 8,
	DELTAS = 16,
	RANGES_MAX = 4,
	BLOCKS = 2,
	IMAGE_BYTES = 1 << 15,
	/* One call of a walker reads some KiB. */
	READS_PER_STEP = 256,
};
#define HEAP 0x7f0000000000ull
#define STACK 0x7ffc00000000ull

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct world {
	uint8_t slab[BH_SLAB_BYTES];
	struct bh_module modules[1 << BH_MODULES_BITS];
	struct bh_rule rules[1 << BH_RULES_BITS];
	struct bh_runtime_table runtimes;
	struct walk_in_process_result result;
	uint8_t image[IMAGE_BYTES]; /* mapped at the heap and at the stack */
	size_t image_bytes;
	uint64_t reads;
};

static void check(bool good)
{
	if (!good)
		abort();
}

/* Makes an address of a word. Most words of memory that matter are pointers, so the top byte
 * selects to what it points. */
static uint64_t as_address(uint64_t word)
{
	const uint8_t how = (uint8_t)(word >> 56);

	if (how == 0 || how >= 0xe0)
		return word;
	if (how < 0x60)
		return HEAP + (word & (IMAGE_BYTES - 8));
	if (how < 0xb0)
		return STACK + (word & (IMAGE_BYTES - 8));
	if (how < 0xd0)
		return TEXT + (word & (TEXT_BYTES - 1));
	return JIT + (word & (JIT_BYTES - 1));
}

static int world_read(void *context, uint64_t address, void *to, size_t bytes)
{
	struct world *w = context;
	const uint64_t at = address - (address >= STACK ? STACK : HEAP);

	w->reads++;
	if (address < HEAP || at > w->image_bytes || bytes > w->image_bytes - at)
		return -1;
	memcpy(to, w->image + at, bytes);
	return 0;
}

static void take_tables(struct cursor *c, struct world *w)
{
	struct bh_mapping *mappings = (void *)(w->slab + MAPPINGS_AT);
	struct bh_page *pages = (void *)(w->slab + PAGES_AT);
	struct bh_delta *deltas = (void *)(w->slab + DELTAS_AT);

	mappings[0] = (struct bh_mapping){.start = TEXT,
					  .end = TEXT + TEXT_BYTES,
					  .bias = TEXT,
					  .slot = MODULE,
					  .module_id = MODULE};
	mappings[1] = (struct bh_mapping){.start = JIT, .end = JIT + JIT_BYTES};
	w->modules[0] = (struct bh_module){.state = BH_MODULE_FRAME_POINTERS};
	w->modules[MODULE] = (struct bh_module){.state = BH_MODULE_READY,
						.id = MODULE,
						.page_offset = PAGES_AT,
						.page_count = TEXT_BYTES >> BH_PAGE_BITS};
	for (unsigned int i = 0; i < TEXT_BYTES >> BH_PAGE_BITS; i++)
		pages[i] = (struct bh_page){.offset = DELTAS_AT, .count = DELTAS};
	for (unsigned int i = 0; i < DELTAS; i++)
		deltas[i] =
		    (struct bh_delta){.low = (uint16_t)(i << 6), .rule = cursor_u8(c) % RULES};
	for (unsigned int i = 1; i < RULES; i++) {
		const uint8_t how = cursor_u8(c);

		w->rules[i] = (struct bh_rule){.kind = how % 10,
					       .reg = how >> 4,
					       .fp_kind = how >> 6,
					       .cfa = (int8_t)cursor_u8(c) * 8,
					       .fp = -2};
	}
}

static uint64_t take_runtimes(struct cursor *c, struct world *w)
{
	struct bh_runtime_slot *slot =
	    &w->runtimes.slots[bh_runtime_hash(TGID) & ((1 << BH_RUNTIME_SLOTS_BITS) - 1)];
	const uint8_t head = cursor_u8(c);
	uint64_t start = head & 0x80 ? JIT : TEXT;

	*slot = (struct bh_runtime_slot){.tgid = TGID, .range_count = 1 + head % RANGES_MAX};
	slot->code_filters[0] = (struct bh_runtime_code_filter){TEXT, TEXT_BYTES};
	for (unsigned int i = 0; i < slot->range_count; i++) {
		const uint8_t how = cursor_u8(c);
		struct bh_runtime_range *range = &w->runtimes.ranges[i];

		range->start = start;
		range->end = start + 64u * (1 + (how & 0x3f));
		range->block = how >> 7;
		range->data = cursor_u32(c);
		/* Walkers use few bits of the data, so the upper ones select the runtime, too. */
		range->runtime =
		    (uint16_t)(1 + (how >> 6 | range->data >> 24 << 2) % (BH_RUNTIME_COUNT - 1));
		start = range->end;
	}
	for (unsigned int i = 0; i < BLOCKS; i++) {
		const uint8_t *bytes = cursor_take(c, BH_RUNTIME_BLOCK_BYTES);
		uint64_t *words = w->runtimes.blocks[i].words;

		memset(words, 0, BH_RUNTIME_BLOCK_BYTES);
		if (bytes)
			memcpy(words, bytes, BH_RUNTIME_BLOCK_BYTES);
		for (unsigned int j = 0; j < BH_RUNTIME_BLOCK_BYTES / 8; j++)
			words[j] = as_address(words[j]);
	}
	return as_address(cursor_u64(c));
}

static void take_memory(struct cursor *c, struct world *w)
{
	w->image_bytes = 0;
	while (cursor_left(c) >= 8 && w->image_bytes < IMAGE_BYTES) {
		const uint64_t word = as_address(cursor_u64(c));

		memcpy(w->image + w->image_bytes, &word, sizeof(word));
		w->image_bytes += sizeof(word);
	}
}

static void check_frames(const struct walk_in_process_result *result)
{
	for (unsigned int i = 0; i < result->count;) {
		const uint64_t frame = result->frames[i];
		const unsigned int words = bh_frame_words(frame);

		if (bh_frame_is_managed(frame))
			check(bh_frame_runtime(frame) > 0 &&
			      bh_frame_runtime(frame) < BH_RUNTIME_COUNT);
		check(words <= result->count - i);
		i += words;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct world *w;
	struct cursor c = cursor_init(data, size);
	struct bh_registers registers;

	w = w ? w : calloc(1, sizeof(*w));
	check(w != NULL);
	registers.rip = as_address(cursor_u64(&c));
	for (unsigned int i = 0; i < 16; i++)
		registers.gpr[i] = as_address(cursor_u64(&c));
	take_tables(&c, w);
	const uint64_t thread_pointer = take_runtimes(&c, w);
	take_memory(&c, w);
	w->reads = 0;
	const struct walker_tables tables = {
	    .slabs = {w->slab}, .modules = w->modules, .rules = w->rules};
	const struct walk_in_process walk = {.tables = &tables,
					     .runtimes = &w->runtimes,
					     .tgid = TGID,
					     .mapping_offset = MAPPINGS_AT,
					     .mapping_count = 2,
					     .thread_pointer = thread_pointer,
					     .read = world_read,
					     .context = w};
	walk_in_process_run(&walk, &registers, &w->result);
	check(w->result.reason < BH_REASON_COUNT && w->result.steps <= WALK_IN_PROCESS_STEPS_MAX);
	check(w->result.count <= BH_USER_FRAMES_MAX);
	check(w->reads <= (uint64_t)READS_PER_STEP * (w->result.steps + 1));
	check_frames(&w->result);
	return 0;
}
