/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Derives unwind rows from machine code.
 *
 * How this works: code_frame.c knows what one instruction does to the frame (where the CFA is
 * relative to rsp and rbp). If the frame at the start of a function is known, following the
 * instructions gives the frame at each of them. So every path of a function is followed: straight
 * on, and to the target of each jump. A byte is visited once; where two paths meet, the first one
 * counts. The result is a map with one entry per byte: the id of the frame before the instruction
 * that starts there. From it the rows are made.
 *
 * The difficulty is to know where functions start, and where a path ends:
 *
 *	- Entries are those that the caller knows (symbols, relocations), the targets of call
 *	  instructions, and addresses that code takes (lea), unless they are labels in the function
 *	  that takes them.
 *	- The code after a call is only reached if the called function returns. A function is known
 *	  to return once a path of it ends in `ret`, in an indirect jump, or in a jump to a function
 *	  that returns. Until then the code after its calls waits. After a call of `exit` there is
 *	  often another function with another frame, or data.
 *	- After a call to something outside this code, nothing is known. It is followed last, when
 *	  the proven paths have claimed all that they reach.
 *
 * So there are three worklists, in descending priority: proven (targets of proven paths),
 * address_taken, and after_call (after calls to external functions). What is left in the end was
 * not reached by any path. Code after an indirect jump is taken for a case of a switch, which has
 * the frame of the jump; other code for a function that only pointers in data lead to.
 *
 * Example:
 *
 *	0: push %rbx       entry: CFA = rsp + 8
 *	1: call 20         CFA = rsp + 16, rbx at CFA - 16. 20 becomes an entry. 6 waits for it.
 *	6: pop %rbx        CFA = rsp + 16
 *	7: ret             CFA = rsp + 8: the function at 0 returns
 *	...
 *	20: sub $24,%rsp   entry: CFA = rsp + 8
 *	24: jz 32          CFA = rsp + 32. 32 is pushed to `proven`.
 *	26: call abort     external: 31 is pushed to `after_call`
 *	32: add $24,%rsp
 *	36: ret            the function at 20 returns: 6 is pushed to `proven`
 *
 * The rows are (0, rsp + 8), (1, rsp + 16), (7, rsp + 8), (24, rsp + 32), (36, rsp + 8). If the
 * function at 20 never returned, 6 would be reached by nothing, and would be taken for the entry of
 * another function.
 *
 * Every byte is followed once and every waiter is woken once, so the work is linear in the length
 * of the code.
 */
#include "parse/code_flow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "parse/code_frame.h"
#include "parse/code_frame_table.h"
#include "parse/code_rows.h"
#include "parse/code_worklist.h"

enum {
	/* The map has one of three values for a byte. MAP_UNKNOWN: no path has reached it.
	 * MAP_INSIDE: an instruction covers it but starts before it. Otherwise an instruction
	 * starts there, and the value is MAP_FRAME plus the id of the frame before it. */
	MAP_UNKNOWN = 0,
	MAP_INSIDE = 1,
	MAP_FRAME = 2,
	MAP_MASK = 0x1fff,
	/* Flags in addition: a function starts there; that function returns to its caller; the
	 * instruction is an indirect jump. */
	MAP_ENTRY = 0x8000,
	MAP_RETURNS = 0x4000,
	MAP_SWITCH = 0x2000,
	/* Compilers align functions to 16 bytes and fill the gap with padding. So at this many
	 * bytes without an instruction an FDE ends. */
	ALIGNMENT = 16,
	GAP_MIN = 16,
	WAITERS_INITIAL = 256,
	/* Opcodes (Intel SDM, volume 2): call rel32, lea; ModRM of disp32(%rip). */
	OPCODE_CALL = 0xe8,
	OPCODE_LEA = 0x8d,
	MODRM_RM_RIP = 5,
};
_Static_assert(CODE_FRAME_IDS_MAX + MAP_FRAME <= MAP_MASK + 1, "an id fits into the map");

/* What is to be done when a function turns out to return: follow the code after its call. If
 * `work.at` is the end of the code, the owner had jumped there (a tail call), so it returns too. */
struct code_waiter {
	struct code_work work;
	uint32_t next; /* index + 1 of the next waiter for the same function; 0: none */
};

struct code_flow {
	const struct code_region *region;
	ZydisDecoder decoder; /* decodes everything but operands */
	ZydisDecoder scanner; /* decodes only lengths and opcodes */
	uint16_t *map;	      /* MAP_*, per byte */
	/* The start of the function that a byte belongs to: of the one that was followed through
	 * it, before that of the nearest entry before it. */
	uint32_t *owners;
	uint32_t *waiting; /* per function start: index + 1 of its first waiter */
	struct code_waiter *waiters;
	size_t waiter_count, waiter_capacity;
	struct code_worklist returning; /* functions found to return, whose waiters still wait */
	/* In descending priority, see the top of this file. Work of `address_taken` has the
	 * instruction that takes the address as its owner. */
	struct code_worklist proven, address_taken, after_call;
	struct code_frame_table frames;
	struct code_rows rows; /* of the FDE under construction */
};

/* ---- The map ---- */

static uint32_t flow_frame_at(const struct code_flow *flow, uint32_t at)
{
	return (flow->map[at] & MAP_MASK) - MAP_FRAME;
}

static bool flow_has(const struct code_flow *flow, uint32_t at)
{
	return (flow->map[at] & MAP_MASK) != MAP_UNKNOWN;
}

/* Records that an instruction of `owner` starts at `at`, and that the frame before it is
 * `frame`. */
static void flow_mark(struct code_flow *flow, uint32_t at, uint32_t length, uint32_t frame,
		      uint32_t owner)
{
	flow->map[at] = (uint16_t)((flow->map[at] & ~MAP_MASK) | (frame + MAP_FRAME));
	flow->owners[at] = owner;
	for (uint32_t i = at + 1; i < at + length && !flow_has(flow, i); i++)
		flow->map[i] = MAP_INSIDE;
}

static int flow_push_proven(struct code_flow *flow, uint32_t at, uint32_t frame, uint32_t owner)
{
	return code_worklist_push(&flow->proven, (struct code_work){at, frame, owner});
}

/* Records that a function starts at `at`, unless that is inside an instruction. */
static int flow_add_entry(struct code_flow *flow, uint32_t at, uint32_t frame)
{
	if ((flow->map[at] & MAP_ENTRY) || (flow->map[at] & MAP_MASK) == MAP_INSIDE)
		return 0;
	flow->map[at] |= MAP_ENTRY;
	return flow_push_proven(flow, at, frame, at);
}

/* ---- Functions that return ---- */

static int flow_returns(struct code_flow *flow, uint32_t function)
{
	if (flow->map[function] & MAP_RETURNS)
		return 0;
	flow->map[function] |= MAP_RETURNS;
	return code_worklist_push(&flow->returning, (struct code_work){function, 0, function});
}

/* Follows the code after a call of `function` (or a jump to it), now or when it turns out to
 * return. */
static int flow_await(struct code_flow *flow, uint32_t function, struct code_work work)
{
	if (flow->map[function] & MAP_RETURNS)
		return work.at < flow->region->length ? code_worklist_push(&flow->proven, work)
						      : flow_returns(flow, work.owner);
	int r = ARRAY_RESERVE(flow->waiters, flow->waiter_capacity, flow->waiter_count + 1,
			      WAITERS_INITIAL, ARRAY_UNLIMITED);

	if (r < 0)
		return r;
	flow->waiters[flow->waiter_count] = (struct code_waiter){work, flow->waiting[function]};
	flow->waiting[function] = (uint32_t)++flow->waiter_count;
	return 0;
}

/* Records that the path of `owner` ends in code of another function: it returns if that does. */
static int flow_await_tail(struct code_flow *flow, uint32_t function, uint32_t owner)
{
	const struct code_work end = {(uint32_t)flow->region->length, CODE_FRAME_ID_LOST, owner};

	return function == owner ? 0 : flow_await(flow, function, end);
}

static int flow_wake_waiters(struct code_flow *flow, uint32_t function)
{
	uint32_t next = flow->waiting[function];
	int r = 0;

	flow->waiting[function] = 0;
	while (next && !r) {
		const struct code_waiter waiter = flow->waiters[next - 1];

		r = flow_await(flow, function, waiter.work);
		next = waiter.next;
	}
	return r;
}

/* ---- Instructions ---- */

static bool flow_decode(const struct code_flow *flow, uint32_t at, struct code_instruction *out)
{
	const struct code_region *region = flow->region;

	return ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(
	    &flow->decoder, &out->context, region->bytes + at, region->length - at, &out->head));
}

static bool is_relative(const struct code_instruction *instruction)
{
	return instruction->head.raw.imm[0].is_relative;
}

/* Finds the target of a relative jump or call. Returns false if it is outside of the region. */
static bool flow_find_target(const struct code_flow *flow, uint32_t at,
			     const struct code_instruction *instruction, uint32_t *target)
{
	const uint64_t found =
	    at + instruction->head.length + (uint64_t)instruction->head.raw.imm[0].value.s;

	*target = (uint32_t)found;
	return is_relative(instruction) && found < flow->region->length;
}

/* Returns whether the instruction is a backward jump to where rsp was different. Such a loop takes
 * more stack with each round (a dynamic array in steps), so no distance from rsp is right. */
static bool flow_grows(const struct code_flow *flow, uint32_t at, uint32_t target,
		       const struct code_frame *frame)
{
	return target <= at && (flow->map[target] & MAP_MASK) >= MAP_FRAME &&
	       flow->frames.frames[flow_frame_at(flow, target)].sp != frame->sp;
}

/* ---- Following paths ---- */

/* Continues a path of `owner` at `at`, which may have been followed already or be another
 * function. */
static int flow_continue(struct code_flow *flow, uint32_t at, const struct code_frame *frame,
			 uint32_t owner)
{
	if (flow->map[at] & MAP_ENTRY)
		return flow_await_tail(flow, at, owner);
	if ((flow->map[at] & MAP_MASK) == MAP_INSIDE)
		return flow_returns(flow, owner);
	if (flow_has(flow, at))
		return flow_await_tail(flow, flow->owners[at], owner);
	return flow_push_proven(flow, at, code_frame_table_intern(&flow->frames, frame), owner);
}

static int flow_jump(struct code_flow *flow, uint32_t at, uint32_t owner,
		     const struct code_instruction *instruction, struct code_frame *frame)
{
	uint32_t target;

	if (!is_relative(instruction)) {
		flow->map[at] |= MAP_SWITCH;
		return flow_returns(flow, owner);
	}
	if (!flow_find_target(flow, at, instruction, &target))
		return flow_returns(flow, owner);
	if (instruction->head.meta.category == ZYDIS_CATEGORY_COND_BR &&
	    flow_grows(flow, at, target, frame))
		frame->sp = CODE_LOST;
	return flow_continue(flow, target, frame, owner);
}

static int flow_call(struct code_flow *flow, uint32_t at, uint32_t owner,
		     const struct code_instruction *instruction, const struct code_frame *frame)
{
	const struct code_work after = {at + instruction->head.length,
					code_frame_table_intern(&flow->frames, frame), owner};
	uint32_t target;
	int r;

	if (after.at >= flow->region->length)
		return 0;
	/* A call of the next instruction only pushes rip. */
	if (!flow_find_target(flow, at, instruction, &target) || target == after.at)
		return code_worklist_push(&flow->after_call, after);
	r = flow_add_entry(flow, target, CODE_FRAME_ID_CALLED);
	return r ? r : flow_await(flow, target, after);
}

/* Takes one instruction: pushes where else control goes from it, and changes the frame. Returns 1:
 * the path continues with the next instruction; 0: it ends here; -ENOMEM. */
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

/* Follows a path until it ends, or meets code that was followed before, or another function. */
static int flow_follow(struct code_flow *flow, struct code_work work)
{
	struct code_frame frame = flow->frames.frames[work.frame];
	struct code_instruction instruction;
	uint32_t at = work.at;
	int r = 1;

	if (flow_has(flow, at))
		return flow_await_tail(flow, flow->owners[at], work.owner);
	if (work.frame == CODE_FRAME_ID_CALLED &&
	    code_is_sigreturn(flow->region->bytes + at, flow->region->length - at)) {
		frame.kind = CODE_FRAME_SIGNAL;
		/* Its address is a return address without a call, and rules are looked up one byte
		 * before a return address. */
		if (at && !flow_has(flow, at - 1))
			flow_mark(flow, at - 1, 1, code_frame_table_intern(&flow->frames, &frame),
				  work.owner);
	}
	while (r > 0) {
		if (!flow_decode(flow, at, &instruction))
			return 0;
		flow_mark(flow, at, instruction.head.length,
			  code_frame_table_intern(&flow->frames, &frame), work.owner);
		r = flow_step(flow, at, work.owner, &instruction, &frame);
		at += instruction.head.length;
		if (r <= 0 || at >= flow->region->length)
			break;
		if (flow_has(flow, at) || (flow->map[at] & MAP_ENTRY))
			return flow_continue(flow, at, &frame, work.owner);
	}
	return r < 0 ? r : 0;
}

/* Returns whether `at` is a multiple of the alignment of functions, with padding before it. */
static bool flow_is_aligned(const struct code_flow *flow, uint32_t at)
{
	const struct code_region *region = flow->region;
	struct code_instruction instruction;

	if ((region->vaddr + at) % ALIGNMENT)
		return false;
	for (uint32_t length = 1; length < ALIGNMENT && length <= at; length++) {
		if (flow_decode(flow, at - length, &instruction) &&
		    instruction.head.length == length && code_instruction_is_padding(&instruction))
			return true;
	}
	return false;
}

/* Adds an address that code takes as a function, unless it is a label in the function that takes
 * it. */
static int flow_add_address_taken(struct code_flow *flow, struct code_work work)
{
	const bool label =
	    flow->owners[work.at] == flow->owners[work.owner] && !flow_is_aligned(flow, work.at);

	return flow_has(flow, work.at) || label ? 0 : flow_add_entry(flow, work.at, work.frame);
}

/* Works the lists off, in the order of their priority. */
static int flow_follow_all(struct code_flow *flow)
{
	int r = 0;

	while (!r) {
		if (flow->returning.count) {
			r = flow_wake_waiters(flow, code_worklist_pop(&flow->returning).owner);
		} else if (flow->proven.count) {
			r = flow_follow(flow, code_worklist_pop(&flow->proven));
		} else if (flow->address_taken.count) {
			r = flow_add_address_taken(flow, code_worklist_pop(&flow->address_taken));
		} else if (flow->after_call.count) {
			r = flow_follow(flow, code_worklist_pop(&flow->after_call));
		} else {
			break;
		}
	}
	return r;
}

/* ---- Entries ---- */

/* Handles an instruction of the linear scan: a call adds an entry, a lea adds an address that is
 * taken. */
static int flow_scan_instruction(struct code_flow *flow, uint32_t at,
				 const ZydisDecodedInstruction *head)
{
	const uint64_t next = at + head->length;

	if (head->opcode_map != ZYDIS_OPCODE_MAP_DEFAULT)
		return 0;
	if (head->opcode == OPCODE_CALL) {
		const uint64_t to = next + (uint64_t)head->raw.imm[0].value.s;

		return to < flow->region->length
			   ? flow_add_entry(flow, (uint32_t)to, CODE_FRAME_ID_CALLED)
			   : 0;
	}
	if (head->opcode == OPCODE_LEA && head->raw.modrm.mod == 0 &&
	    head->raw.modrm.rm == MODRM_RM_RIP) {
		const uint64_t to = next + (uint64_t)head->raw.disp.value;
		const struct code_work work = {(uint32_t)to, CODE_FRAME_ID_CALLED, at};

		return to < flow->region->length ? code_worklist_push(&flow->address_taken, work)
						 : 0;
	}
	return 0;
}

/* Decodes the code linearly, reachable or not, to find the functions that are called and those
 * whose address is taken. Then assigns each byte to the nearest entry before it. */
static int flow_scan(struct code_flow *flow)
{
	const struct code_region *region = flow->region;
	ZydisDecodedInstruction head;
	uint32_t entry = 0;
	int r = 0;

	for (uint32_t at = 0; at < region->length && !r; at++) {
		if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(
			&flow->scanner, NULL, region->bytes + at, region->length - at, &head)))
			continue;
		r = flow_scan_instruction(flow, at, &head);
		at += head.length - 1u;
	}
	for (uint32_t at = 0; at < region->length; at++) {
		if (flow->map[at] & MAP_ENTRY)
			entry = at;
		flow->owners[at] = entry;
	}
	return r;
}

/* Adds the entries that the caller knows and those of the scan, and follows all of them. */
static int flow_follow_entries(struct code_flow *flow)
{
	const struct code_frame outermost = code_frame_at_entry(CODE_FRAME_OUTERMOST);
	const struct code_region *region = flow->region;
	int r = 0;

	if (region->outermost - region->vaddr < region->length)
		r = flow_add_entry(flow, (uint32_t)(region->outermost - region->vaddr),
				   code_frame_table_intern(&flow->frames, &outermost));
	for (size_t i = 0; i < region->entry_count && !r; i++) {
		const uint64_t at = region->entries[i] - region->vaddr;

		if (at < region->length)
			r = flow_add_entry(flow, (uint32_t)at, CODE_FRAME_ID_CALLED);
	}
	if (!r)
		r = flow_scan(flow);
	return r ? r : flow_follow_all(flow);
}

/* Follows what no path has reached: after an indirect jump a case of a switch, with the frame of
 * the jump; elsewhere a function that only pointers lead to. */
static int flow_follow_rest(struct code_flow *flow)
{
	const struct code_region *region = flow->region;
	struct code_instruction instruction;
	uint32_t frame = CODE_FRAME_ID_CALLED, owner = 0;

	for (uint32_t at = 0; at < region->length; at++) {
		if (flow->map[at] & MAP_ENTRY)
			frame = CODE_FRAME_ID_CALLED;
		if (!flow_has(flow, at)) {
			/* Zeros are padding: no compiler starts with `add %al, (%rax)`. */
			if (!region->bytes[at] || !flow_decode(flow, at, &instruction))
				continue;
			if (code_instruction_is_padding(&instruction)) {
				at += instruction.head.length - 1u;
				continue;
			}
			int r = frame == CODE_FRAME_ID_CALLED
				    ? flow_add_entry(flow, at, frame)
				    : flow_push_proven(flow, at, frame, owner);
			if (!r)
				r = flow_follow_all(flow);
			if (r < 0)
				return r;
		}
		if (flow->map[at] & MAP_SWITCH) {
			frame = flow_frame_at(flow, at);
			owner = flow->owners[at];
		}
	}
	return 0;
}

/* ---- Rows ---- */

/* Turns the map into rows. */
static int flow_deliver_all(struct code_flow *flow)
{
	const uint32_t length = (uint32_t)flow->region->length;
	const uint64_t vaddr = flow->region->vaddr;
	uint32_t start = 0, end = 0;
	int r = 0;

	for (uint32_t at = 0; at < length && !r; at++) {
		uint32_t rule;

		if (!flow_has(flow, at))
			continue;
		if (flow->rows.count && at - end >= GAP_MIN)
			r = code_rows_deliver(&flow->rows, vaddr + start, vaddr + end);
		end = at + 1;
		if (r || (flow->map[at] & MAP_MASK) == MAP_INSIDE)
			continue;
		if (!flow->rows.count)
			start = at;
		r = code_frame_table_rule(&flow->frames, flow->rows.sink, flow_frame_at(flow, at),
					  &rule);
		if (!r)
			r = code_rows_add(&flow->rows, at - start, rule);
	}
	return r ? r : code_rows_deliver(&flow->rows, vaddr + start, vaddr + end);
}

/* ---- Interface ---- */

int code_flow_new(struct code_flow **out, const struct cfi_sink *sink)
{
	struct code_flow *flow = calloc(1, sizeof(*flow));

	if (!flow)
		return -ENOMEM;
	flow->rows.sink = sink;
	ZydisDecoderInit(&flow->decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	flow->scanner = flow->decoder;
	ZydisDecoderEnableMode(&flow->scanner, ZYDIS_DECODER_MODE_MINIMAL, ZYAN_TRUE);
	code_frame_table_init(&flow->frames);
	*out = flow;
	return 0;
}

void code_flow_free(struct code_flow *flow)
{
	if (!flow)
		return;
	free(flow->waiters);
	code_worklist_fini(&flow->returning);
	code_worklist_fini(&flow->proven);
	code_worklist_fini(&flow->address_taken);
	code_worklist_fini(&flow->after_call);
	code_rows_fini(&flow->rows);
	free(flow);
}

int code_flow_parse(struct code_flow *flow, const struct code_region *region)
{
	_cleanup_free_ uint16_t *map = calloc(region->length, sizeof(*map));
	_cleanup_free_ uint32_t *owners = calloc(region->length, sizeof(*owners));
	_cleanup_free_ uint32_t *waiting = calloc(region->length, sizeof(*waiting));

	if (!map || !owners || !waiting)
		return -ENOMEM;
	flow->region = region;
	flow->map = map;
	flow->owners = owners;
	flow->waiting = waiting;
	flow->waiter_count = flow->rows.count = flow->returning.count = 0;
	flow->proven.count = flow->after_call.count = flow->address_taken.count = 0;
	int r = flow_follow_entries(flow);
	if (!r)
		r = flow_follow_rest(flow);
	return r ? r : flow_deliver_all(flow);
}
