/* SPDX-License-Identifier: Apache-2.0 */
#include "parse/code_flow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "parse/code_frame.h"

enum {
	/* What is known of a byte of the code: nothing, that it is inside of an instruction, or
	 * that one begins there and the number of the frame before it. */
	AT_NOTHING = 0,
	AT_INSIDE = 1,
	AT_FRAMES = 2,
	AT_MASK = 0x1fff,
	AT_ENTRY = 0x8000,   /* a function begins */
	AT_RETURNS = 0x4000, /* and may come back to its caller */
	AT_SWITCH = 0x2000,  /* a jump to where a register or memory says */
	FRAMES_MAX = AT_MASK + 1 - AT_FRAMES,
	FRAME_BUCKETS = 1 << 14,
	FRAME_PROBES = 16,
	FRAME_LOST = 0, /* numbers */
	FRAME_CALLED = 1,
	ALIGNMENT = 16,	  /* of functions, where they are padded */
	PADDING_MAX = 16, /* so many bytes without an instruction are a hole */
};

/* A way that is to be followed: from there on, with that frame, in the function that begins at
 * `owner`. */
struct code_way {
	uint32_t at;
	uint32_t frame;
	uint32_t owner;
};

/* What is to be done if a function turns out to return: follow the way behind its call, or if that
 * is at the end of code (a tail call), the way's owner returns as well. */
struct code_waiter {
	struct code_way way;
	uint32_t next; /* number of the next of the same function + 1 */
};

struct code_ways {
	struct code_way *ways;
	size_t count, capacity;
};

struct code_flow {
	const struct code_stretch *stretch;
	const struct cfi_sink *sink;
	ZydisDecoder decoder, scanner; /* of all of an instruction, and of its bytes alone */
	uint16_t *at;		       /* AT_*, of each byte */
	/* Where a byte's function begins: once it was followed for sure, before that the nearest
	 * one known. */
	uint32_t *owners;
	uint32_t *waiting; /* of each function: numbers of its waiters + 1 */
	struct code_waiter *waiters;
	size_t waiter_count, waiter_capacity;
	struct code_ways returned; /* functions found to return, whose waiters are to be told */
	/* Where control goes for sure, functions that are mentioned (their owner is the place where
	 * they are), and behind calls of what is not here, which may not come back: in this order.
	 */
	struct code_ways sure, mentioned, behind_calls;
	/* Of frames by their number: each once; the sink's rule, less than 0 while it was not
	 * asked. */
	uint32_t frame_count;
	struct code_frame frames[FRAMES_MAX];
	int64_t rules[FRAMES_MAX];
	uint16_t buckets[FRAME_BUCKETS]; /* numbers + 1, by hash */
	struct cfi_row *rows;		 /* of the FDE under construction */
	size_t row_count, row_capacity;
};

/* ---- Frames by number ---- */

static uint32_t frame_hash(const struct code_frame *frame)
{
	const uint64_t spread = 0x9e3779b97f4a7c15ull;
	uint64_t h = (uint32_t)frame->sp;

	h = h * spread + (uint32_t)frame->fp;
	h = h * spread + (uint32_t)frame->fp_saved;
	h = h * spread + (uint32_t)frame->bx_saved;
	h = (h + frame->kind) * spread;
	return (uint32_t)(h >> 40);
}

/* The frame's number; when there are too many, that of one of which nothing is known. */
static uint32_t flow_number(struct code_flow *flow, const struct code_frame *frame)
{
	uint32_t bucket = frame_hash(frame);

	for (int probe = 0; probe < FRAME_PROBES; probe++, bucket++) {
		uint16_t *known = &flow->buckets[bucket % FRAME_BUCKETS];

		if (*known && code_frame_equal(&flow->frames[*known - 1], frame))
			return *known - 1u;
		if (*known || flow->frame_count == FRAMES_MAX)
			continue;
		flow->frames[flow->frame_count] = *frame;
		flow->rules[flow->frame_count] = -1;
		*known = (uint16_t)++flow->frame_count;
		return *known - 1u;
	}
	return FRAME_LOST;
}

static uint32_t flow_frame_at(const struct code_flow *flow, uint32_t at)
{
	return (flow->at[at] & AT_MASK) - AT_FRAMES;
}

static bool flow_has(const struct code_flow *flow, uint32_t at)
{
	return (flow->at[at] & AT_MASK) != AT_NOTHING;
}

/* ---- Ways ---- */

/* Room for one more of `size` bytes. */
static int reserve_one(void **array, size_t count, size_t *capacity, size_t size)
{
	if (count < *capacity)
		return 0;
	const size_t more = *capacity ? *capacity * 2 : 256;
	void *grown = realloc(*array, more * size);

	if (!grown)
		return -ENOMEM;
	*array = grown;
	*capacity = more;
	return 0;
}

static int ways_push(struct code_ways *ways, uint32_t at, uint32_t frame, uint32_t owner)
{
	int r =
	    reserve_one((void **)&ways->ways, ways->count, &ways->capacity, sizeof(*ways->ways));

	if (!r)
		ways->ways[ways->count++] = (struct code_way){at, frame, owner};
	return r;
}

static struct code_way ways_pop(struct code_ways *ways)
{
	return ways->ways[--ways->count];
}

/* A function begins there. */
static int flow_add_entry(struct code_flow *flow, uint32_t at, uint32_t frame)
{
	if ((flow->at[at] & AT_ENTRY) || (flow->at[at] & AT_MASK) == AT_INSIDE)
		return 0;
	flow->at[at] |= AT_ENTRY;
	return ways_push(&flow->sure, at, frame, at);
}

/* ---- Functions that return ---- */

static int flow_returns(struct code_flow *flow, uint32_t function)
{
	if (flow->at[function] & AT_RETURNS)
		return 0;
	flow->at[function] |= AT_RETURNS;
	return ways_push(&flow->returned, function, 0, function);
}

/* Behind a call of `function`, or a jump to it, if it returns. */
static int flow_await(struct code_flow *flow, uint32_t function, struct code_way way)
{
	if (flow->at[function] & AT_RETURNS)
		return way.at < flow->stretch->length
			   ? ways_push(&flow->sure, way.at, way.frame, way.owner)
			   : flow_returns(flow, way.owner);
	int r = reserve_one((void **)&flow->waiters, flow->waiter_count, &flow->waiter_capacity,
			    sizeof(*flow->waiters));

	if (r < 0)
		return r;
	flow->waiters[flow->waiter_count] = (struct code_waiter){way, flow->waiting[function]};
	flow->waiting[function] = (uint32_t)++flow->waiter_count;
	return 0;
}

/* Control goes to code of another function, never to come back. */
static int flow_await_tail(struct code_flow *flow, uint32_t function, uint32_t owner)
{
	const struct code_way end = {(uint32_t)flow->stretch->length, FRAME_LOST, owner};

	return function == owner ? 0 : flow_await(flow, function, end);
}

/* Tell those that waited for it. */
static int flow_tell_waiters(struct code_flow *flow, uint32_t function)
{
	uint32_t number = flow->waiting[function];
	int r = 0;

	flow->waiting[function] = 0;
	while (number && !r) {
		const struct code_waiter waiter = flow->waiters[number - 1];

		r = flow_await(flow, function, waiter.way);
		number = waiter.next;
	}
	return r;
}

/* ---- Instructions ---- */

static bool flow_decode(const struct code_flow *flow, uint32_t at, struct code_instruction *out)
{
	const struct code_stretch *stretch = flow->stretch;

	return ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(
	    &flow->decoder, &out->context, stretch->bytes + at, stretch->length - at, &out->head));
}

static bool is_relative(const struct code_instruction *instruction)
{
	return instruction->head.raw.imm[0].is_relative;
}

/* Where a relative jump or call goes, if that is in the stretch. */
static bool flow_find(const struct code_flow *flow, uint32_t at,
		      const struct code_instruction *instruction, uint32_t *target)
{
	const uint64_t found =
	    at + instruction->head.length + (uint64_t)instruction->head.raw.imm[0].value.s;

	*target = (uint32_t)found;
	return is_relative(instruction) && found < flow->stretch->length;
}

static bool is_padding(const struct code_instruction *instruction)
{
	return instruction->head.mnemonic == ZYDIS_MNEMONIC_NOP ||
	       instruction->head.mnemonic == ZYDIS_MNEMONIC_INT3;
}

/* An instruction begins at `at`, with that frame before it. */
static void flow_mark(struct code_flow *flow, uint32_t at, uint32_t length, uint32_t frame,
		      uint32_t owner)
{
	flow->at[at] = (uint16_t)((flow->at[at] & ~AT_MASK) | (frame + AT_FRAMES));
	flow->owners[at] = owner;
	for (uint32_t i = at + 1; i < at + length && !flow_has(flow, i); i++)
		flow->at[i] = AT_INSIDE;
}

/* The kernel lets a signal handler return to `mov $15, %eax; syscall` (rt_sigreturn), in one of two
 * encodings; debuggers know it by these bytes as well. */
static bool flow_is_sigreturn(const struct code_flow *flow, uint32_t at)
{
	static const uint8_t short_one[] = {0xb8, 15, 0, 0, 0, 0x0f, 0x05};
	static const uint8_t long_one[] = {0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05};
	const uint8_t *bytes = flow->stretch->bytes + at;
	const size_t left = flow->stretch->length - at;

	return (left >= sizeof(short_one) && !memcmp(bytes, short_one, sizeof(short_one))) ||
	       (left >= sizeof(long_one) && !memcmp(bytes, long_one, sizeof(long_one)));
}

/* A jump on a condition, back to where rsp was another: the loop takes more and more stack. */
static bool flow_grows(const struct code_flow *flow, uint32_t at, uint32_t target,
		       const struct code_frame *frame)
{
	return target <= at && (flow->at[target] & AT_MASK) >= AT_FRAMES &&
	       flow->frames[flow_frame_at(flow, target)].sp != frame->sp;
}

/* ---- Following ---- */

/* The way goes on at `at`, which may be known. */
static int flow_go(struct code_flow *flow, uint32_t at, const struct code_frame *frame,
		   uint32_t owner)
{
	if (flow->at[at] & AT_ENTRY)
		return flow_await_tail(flow, at, owner);
	if ((flow->at[at] & AT_MASK) == AT_INSIDE)
		return flow_returns(flow, owner);
	if (flow_has(flow, at))
		return flow_await_tail(flow, flow->owners[at], owner);
	return ways_push(&flow->sure, at, flow_number(flow, frame), owner);
}

static int flow_jump(struct code_flow *flow, uint32_t at, uint32_t owner,
		     const struct code_instruction *instruction, struct code_frame *frame)
{
	uint32_t target;

	if (!is_relative(instruction)) {
		flow->at[at] |= AT_SWITCH;
		return flow_returns(flow, owner);
	}
	if (!flow_find(flow, at, instruction, &target))
		return flow_returns(flow, owner);
	if (instruction->head.meta.category == ZYDIS_CATEGORY_COND_BR &&
	    flow_grows(flow, at, target, frame))
		frame->sp = CODE_LOST;
	return flow_go(flow, target, frame, owner);
}

static int flow_call(struct code_flow *flow, uint32_t at, uint32_t owner,
		     const struct code_instruction *instruction, const struct code_frame *frame)
{
	const struct code_way behind = {at + instruction->head.length, flow_number(flow, frame),
					owner};
	uint32_t target;
	int r;

	if (behind.at >= flow->stretch->length)
		return 0;
	if (!flow_find(flow, at, instruction, &target) || target == behind.at)
		return ways_push(&flow->behind_calls, behind.at, behind.frame, behind.owner);
	r = flow_add_entry(flow, target, FRAME_CALLED);
	return r ? r : flow_await(flow, target, behind);
}

/* The instruction at `at`: where else control goes from it, and what becomes of the frame. 1: on to
 * the next; 0: the way ends here; -ENOMEM. */
static int flow_step(struct code_flow *flow, uint32_t at, uint32_t owner,
		     const struct code_instruction *instruction, struct code_frame *frame)
{
	int r;

	switch (instruction->head.meta.category) {
	case ZYDIS_CATEGORY_UNCOND_BR:
		return flow_jump(flow, at, owner, instruction, frame);
	case ZYDIS_CATEGORY_COND_BR:
		r = flow_jump(flow, at, owner, instruction, frame);
		return r < 0 ? r : 1;
	case ZYDIS_CATEGORY_CALL:
		return flow_call(flow, at, owner, instruction, frame);
	case ZYDIS_CATEGORY_RET:
		return flow_returns(flow, owner);
	default:
		break;
	}
	switch (instruction->head.mnemonic) {
	case ZYDIS_MNEMONIC_HLT:
	case ZYDIS_MNEMONIC_UD0:
	case ZYDIS_MNEMONIC_UD1:
	case ZYDIS_MNEMONIC_UD2:
	case ZYDIS_MNEMONIC_INT3:
		return 0;
	case ZYDIS_MNEMONIC_SYSCALL:
		return frame->kind != CODE_FRAME_SIGNAL;
	default:
		code_frame_step(frame, &flow->decoder, instruction);
		return 1;
	}
}

/* Until the way ends, or meets one that was followed before, or another function. */
static int flow_follow(struct code_flow *flow, struct code_way way)
{
	struct code_frame frame = flow->frames[way.frame];
	struct code_instruction instruction;
	uint32_t at = way.at;
	int r = 1;

	if (flow_has(flow, at))
		return flow_await_tail(flow, flow->owners[at], way.owner);
	if (way.frame == FRAME_CALLED && flow_is_sigreturn(flow, at)) {
		frame.kind = CODE_FRAME_SIGNAL;
		/* It is looked up like a return address: where the call would be, one byte before.
		 */
		if (at && !flow_has(flow, at - 1))
			flow_mark(flow, at - 1, 1, flow_number(flow, &frame), way.owner);
	}
	while (r > 0) {
		if (!flow_decode(flow, at, &instruction))
			return 0;
		flow_mark(flow, at, instruction.head.length, flow_number(flow, &frame), way.owner);
		r = flow_step(flow, at, way.owner, &instruction, &frame);
		at += instruction.head.length;
		if (r <= 0 || at >= flow->stretch->length)
			break;
		if (flow_has(flow, at) || (flow->at[at] & AT_ENTRY))
			return flow_go(flow, at, &frame, way.owner);
	}
	return r < 0 ? r : 0;
}

/* At a multiple of what functions are aligned to, and behind padding. */
static bool flow_is_aligned(const struct code_flow *flow, uint32_t at)
{
	const struct code_stretch *stretch = flow->stretch;
	struct code_instruction instruction;

	if ((stretch->vaddr + at) % ALIGNMENT)
		return false;
	for (uint32_t length = 1; length < ALIGNMENT && length <= at; length++) {
		if (flow_decode(flow, at - length, &instruction) &&
		    instruction.head.length == length && is_padding(&instruction))
			return true;
	}
	return false;
}

/* A function, unless it is a label of the function that mentions it. */
static int flow_add_mentioned(struct code_flow *flow, struct code_way way)
{
	const bool label =
	    flow->owners[way.at] == flow->owners[way.owner] && !flow_is_aligned(flow, way.at);

	return flow_has(flow, way.at) || label ? 0 : flow_add_entry(flow, way.at, way.frame);
}

/* All ways that are known, and those found on them. */
static int flow_follow_all(struct code_flow *flow)
{
	int r = 0;

	while (!r) {
		if (flow->returned.count) {
			r = flow_tell_waiters(flow, ways_pop(&flow->returned).owner);
		} else if (flow->sure.count) {
			r = flow_follow(flow, ways_pop(&flow->sure));
		} else if (flow->mentioned.count) {
			r = flow_add_mentioned(flow, ways_pop(&flow->mentioned));
		} else if (flow->behind_calls.count) {
			r = flow_follow(flow, ways_pop(&flow->behind_calls));
		} else {
			break;
		}
	}
	return r;
}

/* One instruction behind the other, whoever runs them: which functions are called (call rel32) and
 * mentioned (lea disp32(%rip), reg). */
static int flow_survey(struct code_flow *flow)
{
	const struct code_stretch *stretch = flow->stretch;
	ZydisDecodedInstruction head;
	uint32_t entry = 0;
	int r = 0;

	for (uint32_t at = 0; at < stretch->length && !r; at++) {
		if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(
			&flow->scanner, NULL, stretch->bytes + at, stretch->length - at, &head)))
			continue;
		if (head.opcode_map == ZYDIS_OPCODE_MAP_DEFAULT && head.opcode == 0xe8) {
			const uint64_t to = at + head.length + (uint64_t)head.raw.imm[0].value.s;

			if (to < stretch->length)
				r = flow_add_entry(flow, (uint32_t)to, FRAME_CALLED);
		} else if (head.opcode_map == ZYDIS_OPCODE_MAP_DEFAULT && head.opcode == 0x8d &&
			   head.raw.modrm.mod == 0 && head.raw.modrm.rm == 5) {
			const uint64_t to = at + head.length + (uint64_t)head.raw.disp.value;

			if (to < stretch->length)
				r = ways_push(&flow->mentioned, (uint32_t)to, FRAME_CALLED, at);
		}
		at += head.length - 1u;
	}
	for (uint32_t at = 0; at < stretch->length; at++) {
		if (flow->at[at] & AT_ENTRY)
			entry = at;
		flow->owners[at] = entry;
	}
	return r;
}

static int flow_begin(struct code_flow *flow)
{
	const struct code_frame outermost = code_frame_at_entry(CODE_FRAME_OUTERMOST);
	const struct code_stretch *stretch = flow->stretch;
	int r = 0;

	if (stretch->outermost - stretch->vaddr < stretch->length)
		r = flow_add_entry(flow, (uint32_t)(stretch->outermost - stretch->vaddr),
				   flow_number(flow, &outermost));
	for (size_t i = 0; i < stretch->entry_count && !r; i++) {
		const uint64_t at = stretch->entries[i] - stretch->vaddr;

		if (at < stretch->length)
			r = flow_add_entry(flow, (uint32_t)at, FRAME_CALLED);
	}
	if (!r)
		r = flow_survey(flow);
	return r ? r : flow_follow_all(flow);
}

/* ---- What no way led to ---- */

/*
 * What is left is behind a jump through a table, and has its frame, or else a function that only
 * pointers lead to.
 */
static int flow_follow_rest(struct code_flow *flow)
{
	const struct code_stretch *stretch = flow->stretch;
	struct code_instruction instruction;
	uint32_t frame = FRAME_CALLED, owner = 0;

	for (uint32_t at = 0; at < stretch->length; at++) {
		if (flow->at[at] & AT_ENTRY)
			frame = FRAME_CALLED;
		if (!flow_has(flow, at)) {
			/* No compiler begins with `add %al, ...`: zeros are padding. */
			if (!stretch->bytes[at] || !flow_decode(flow, at, &instruction))
				continue;
			if (is_padding(&instruction)) {
				at += instruction.head.length - 1u;
				continue;
			}
			int r = frame == FRAME_CALLED ? flow_add_entry(flow, at, frame)
						      : ways_push(&flow->sure, at, frame, owner);
			if (!r)
				r = flow_follow_all(flow);
			if (r < 0)
				return r;
		}
		if (flow->at[at] & AT_SWITCH) {
			frame = flow_frame_at(flow, at);
			owner = flow->owners[at];
		}
	}
	return 0;
}

/* ---- Rows ---- */

static int flow_rule(struct code_flow *flow, uint32_t frame, uint32_t *rule)
{
	if (flow->rules[frame] < 0) {
		const struct cfi_rule said = code_frame_rule(&flow->frames[frame]);
		uint32_t number;
		int r = flow->sink->rule(flow->sink->context, &said, &number);

		if (r < 0)
			return r;
		flow->rules[frame] = number;
	}
	*rule = (uint32_t)flow->rules[frame];
	return 0;
}

static int flow_put_row(struct code_flow *flow, uint32_t at, uint32_t rule)
{
	if (flow->row_count && flow->rows[flow->row_count - 1].rule == rule)
		return 0;
	int r = reserve_one((void **)&flow->rows, flow->row_count, &flow->row_capacity,
			    sizeof(*flow->rows));
	if (!r)
		flow->rows[flow->row_count++] = (struct cfi_row){at, rule};
	return r;
}

/* The rows so far are of code from `start` to `end`. */
static int flow_tell(struct code_flow *flow, uint32_t start, uint32_t end)
{
	const struct cfi_fde fde = {flow->stretch->vaddr + start, flow->stretch->vaddr + end,
				    flow->rows, (unsigned int)flow->row_count};
	const struct cfi_sink *sink = flow->sink;

	flow->row_count = 0;
	if (!fde.row_count || (sink->want && !sink->want(sink->context, fde.start, fde.end)))
		return 0;
	return sink->fde(sink->context, &fde);
}

static int flow_tell_all(struct code_flow *flow)
{
	const uint32_t length = (uint32_t)flow->stretch->length;
	uint32_t start = 0, end = 0;
	int r = 0;

	for (uint32_t at = 0; at < length && !r; at++) {
		uint32_t rule;

		if (!flow_has(flow, at))
			continue;
		if (flow->row_count && at - end >= PADDING_MAX)
			r = flow_tell(flow, start, end);
		end = at + 1;
		if (r || (flow->at[at] & AT_MASK) == AT_INSIDE)
			continue;
		if (!flow->row_count)
			start = at;
		r = flow_rule(flow, flow_frame_at(flow, at), &rule);
		if (!r)
			r = flow_put_row(flow, at - start, rule);
	}
	return r ? r : flow_tell(flow, start, end);
}

/* ---- Interface ---- */

int code_flow_new(struct code_flow **out, const struct cfi_sink *sink)
{
	static const struct code_frame lost = {.sp = CODE_LOST, .fp = CODE_LOST};
	const struct code_frame called = code_frame_at_entry(CODE_FRAME_CALLED);
	struct code_flow *flow = calloc(1, sizeof(*flow));

	if (!flow)
		return -ENOMEM;
	flow->sink = sink;
	ZydisDecoderInit(&flow->decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	flow->scanner = flow->decoder;
	ZydisDecoderEnableMode(&flow->scanner, ZYDIS_DECODER_MODE_MINIMAL, ZYAN_TRUE);
	flow_number(flow, &lost);
	flow_number(flow, &called);
	*out = flow;
	return 0;
}

void code_flow_free(struct code_flow *flow)
{
	if (!flow)
		return;
	free(flow->waiters);
	free(flow->returned.ways);
	free(flow->sure.ways);
	free(flow->behind_calls.ways);
	free(flow->mentioned.ways);
	free(flow->rows);
	free(flow);
}

int code_flow_parse(struct code_flow *flow, const struct code_stretch *stretch)
{
	_cleanup_free_ uint16_t *at = calloc(stretch->length, sizeof(*at));
	_cleanup_free_ uint32_t *owners = calloc(stretch->length, sizeof(*owners));
	_cleanup_free_ uint32_t *waiting = calloc(stretch->length, sizeof(*waiting));

	if (!at || !owners || !waiting)
		return -ENOMEM;
	flow->stretch = stretch;
	flow->at = at;
	flow->owners = owners;
	flow->waiting = waiting;
	flow->waiter_count = flow->row_count = flow->returned.count = 0;
	flow->sure.count = flow->behind_calls.count = flow->mentioned.count = 0;
	int r = flow_begin(flow);
	if (!r)
		r = flow_follow_rest(flow);
	return r ? r : flow_tell_all(flow);
}
