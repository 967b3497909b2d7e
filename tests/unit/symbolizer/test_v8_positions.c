/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the decoders of V8's tables, and the walker's decoder of prologues and epilogues of
 * compiled code (bpf/runtime/v8_code.h). */
#include "symbolizer/runtime/v8_positions.h"

#include <criterion/criterion.h>
#include <string.h>

#include "bpf/runtime/v8_code.h"

enum {
	NOT_INLINED = -1,
	UNKNOWN = -1
};

/* Writes numbers as V8 does. */
static size_t write_number(uint8_t *to, uint64_t value)
{
	size_t n = 0;

	for (; value >= 0x80; value >>= 7)
		to[n++] = (uint8_t)(value | 0x80);
	to[n++] = (uint8_t)value;
	return n;
}

static size_t write_signed(uint8_t *to, int64_t value)
{
	return write_number(to, (uint64_t)value << 1 ^ (uint64_t)(value >> 63));
}

static uint64_t packed(int32_t offset, int32_t inlining_id)
{
	return (uint64_t)(uint32_t)(offset + 1) << 1 | (uint64_t)(uint32_t)(inlining_id + 1) << 31;
}

struct entry {
	uint32_t code;
	bool statement;
	int32_t offset, inlining_id;
};

static const struct entry entries[] = {{0, true, 20, NOT_INLINED},
				       {4, false, 1000000, NOT_INLINED},
				       {200, true, 3, 7},
				       {201, false, 19, 65533}};

static size_t write_table(uint8_t *to, unsigned int shift)
{
	int64_t at = -1;
	uint64_t position = 0;
	size_t n = 0;

	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		const uint64_t next = packed(entries[i].offset, entries[i].inlining_id);
		const int64_t step = (entries[i].code - at) << shift | shift;

		n += write_signed(to + n, entries[i].statement ? step : -step - 1);
		n += write_signed(to + n, (int64_t)(next - position));
		at = entries[i].code;
		position = next;
	}
	return n;
}

Test(v8_positions, position_is_that_of_the_last_entry_up_to_the_offset)
{
	for (unsigned int shift = 0; shift < 2; shift++) {
		uint8_t bytes[128];
		const struct v8_position_table table = {
		    .bytes = bytes, .length = write_table(bytes, shift), .offset_shift = shift};
		static const uint32_t offsets[] = {0, 3, 4, 199, 200, 201, 0xffffffff};
		static const int entry_of[] = {0, 0, 1, 1, 2, 3, 3};

		for (size_t i = 0; i < 7; i++) {
			const struct v8_position p = v8_position_find(&table, offsets[i]);

			cr_expect_eq(p.offset, entries[entry_of[i]].offset, "%u", offsets[i]);
			cr_expect_eq(p.inlining_id, entries[entry_of[i]].inlining_id);
		}
	}
}

Test(v8_positions, nothing_is_known_without_an_entry)
{
	static const uint8_t late[] = {0x0c, 0x54}; /* from offset 5 on */
	struct v8_position_table table = {.bytes = late, .length = sizeof(late)};

	cr_expect_eq(v8_position_find(&table, 4).offset, UNKNOWN);
	cr_expect_eq(v8_position_find(&table, 5).offset, 20);
	table.length = 0;
	cr_expect_eq(v8_position_find(&table, 5).offset, UNKNOWN);
	cr_expect_eq(v8_position_unpack(packed(9, 2) | 1).offset, UNKNOWN, "external");
}

Test(v8_positions, cut_and_endless_tables_end)
{
	uint8_t bytes[128], endless[64];
	const size_t length = write_table(bytes, 0);

	for (size_t cut = 0; cut < length; cut++) {
		const struct v8_position_table table = {.bytes = bytes, .length = cut};

		v8_position_find(&table, 0xffffffff);
	}
	memset(endless, 0xff, sizeof(endless));
	const struct v8_position_table table = {.bytes = endless, .length = sizeof(endless)};
	cr_expect_eq(v8_position_find(&table, 1).offset, UNKNOWN);
}

/* Bytecodes 4, 5 and 6 have 1, 3 and 2 bytes, with wide operands 1, 5 and 3. */
static const uint8_t sizes[] = {1, 1, 1, 1, 1, 3, 2, 1, 1, 1, 1, 1, 5, 3, 1, 1, 1, 1, 1, 9, 5};

Test(v8_positions, baseline_code_leads_to_its_bytecode)
{
	/* 4; 5 a b; wide 6 a a b; 4 */
	static const uint8_t code[] = {4, 5, 1, 2, 0, 6, 1, 1, 4};
	static const uint8_t table[] = {10, 4, 0x90, 1, 8, 2};
	const struct v8_bytecodes bytecodes = {
	    .bytes = code, .length = sizeof(code), .sizes = sizes, .count = 7};
	static const uint32_t offsets[] = {0, 9, 10, 13, 14, 157, 158, 165, 166, 167};
	static const int32_t wanted[] = {0, 0, 0, 0, 1, 1, 4, 4, 8, 8};

	for (size_t i = 0; i < 10; i++)
		cr_expect_eq(v8_position_baseline(table, sizeof(table), offsets[i], &bytecodes),
			     wanted[i], "%u", offsets[i]);
	cr_expect_eq(v8_position_baseline(table, sizeof(table), 168, &bytecodes), UNKNOWN);
	cr_expect_eq(v8_position_baseline(table, 2, 14, &bytecodes), UNKNOWN, "cut");
	cr_expect_eq(v8_position_baseline(table, 0, 0, &bytecodes), UNKNOWN, "empty");
}

Test(v8_positions, unknown_bytecodes_lead_nowhere)
{
	static const uint8_t table[] = {0, 4, 4, 4};
	uint8_t code[] = {7, 4, 4};
	const struct v8_bytecodes bytecodes = {
	    .bytes = code, .length = sizeof(code), .sizes = sizes, .count = 7};

	cr_expect_eq(v8_position_baseline(table, sizeof(table), 5, &bytecodes), UNKNOWN);
	code[0] = 5;
	cr_expect_eq(v8_position_baseline(table, sizeof(table), 5, &bytecodes), UNKNOWN, "beyond");
}

Test(v8_positions, line_is_the_first_that_ends_at_or_after_the_character)
{
	static const uint32_t ends[] = {4, 4, 10, 30};
	static const uint32_t offsets[] = {0, 4, 5, 10, 11, 30, 31};
	static const uint32_t wanted[] = {0, 0, 2, 2, 3, 3, 4};

	for (size_t i = 0; i < 7; i++)
		cr_expect_eq(v8_position_line(ends, 4, offsets[i]), wanted[i], "%u", offsets[i]);
	cr_expect_eq(v8_position_line(ends, 0, 5), 0);
}

/* A function of Node 20 (V8 11.3), and its instructions one after the other. */
static const uint8_t function[] = {
    0x48, 0x8b, 0x59, 0xf8,		/*  0 mov rbx, [rcx - 8] */
    0xf6, 0x43, 0x35, 0x01,		/*  4 testb [rbx + 0x35], 1 */
    0x0f, 0x85, 0xb2, 0x66, 0xe4, 0x1f, /*  8 jne */
    0x55,				/* 14 push rbp */
    0x48, 0x89, 0xe5,			/* 15 mov rbp, rsp */
    0x56, 0x57, 0x50,			/* 18 push rsi; push rdi; push rax */
    0x48, 0x83, 0xec, 0x20,		/* 21 sub rsp, 32 */
    0x33, 0xc0,				/* 25 xor eax, eax */
    0x48, 0x8b, 0x4d, 0xe8,		/* 27 mov rcx, [rbp - 24] */
    0x48, 0x8b, 0xe5,			/* 31 mov rsp, rbp */
    0x5d,				/* 34 pop rbp */
    0x48, 0x83, 0xf9, 0x02,		/* 35 cmp rcx, 2 */
    0x7f, 0x03,				/* 39 jg */
    0xc2, 0x10, 0x00,			/* 41 ret 16 */
    0x41, 0x5a,				/* 44 pop r10 */
    0x48, 0x8d, 0x24, 0xcc,		/* 46 lea rsp, [rsp + rcx * 8] */
    0x41, 0x52,				/* 50 push r10 */
    0xc3,				/* 52 ret */
};

Test(v8_positions, instructions_say_how_much_of_the_frame_there_is)
{
	static const struct {
		size_t at;
		int state;
	} wanted[] = {{0, V8_CODE_NOT_BEGUN},	 {4, V8_CODE_NOT_BEGUN},   {8, V8_CODE_NOT_BEGUN},
		      {14, V8_CODE_NOT_BEGUN},	 {15, V8_CODE_PUSHED},	   {18, V8_CODE_LINKED},
		      {19, V8_CODE_LINKED},	 {20, V8_CODE_COMPLETE},   {21, V8_CODE_COMPLETE},
		      {25, V8_CODE_COMPLETE},	 {27, V8_CODE_COMPLETE},   {31, V8_CODE_COMPLETE},
		      {34, V8_CODE_COMPLETE},	 {35, V8_CODE_POPPED},	   {39, V8_CODE_POPPED},
		      {41, V8_CODE_POPPED},	 {44, V8_CODE_POPPED},	   {46, V8_CODE_RA_POPPED},
		      {50, V8_CODE_ARGS_POPPED}, {52, V8_CODE_ARGS_PUSHED}};

	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		uint64_t code[V8_CODE_BYTES / 8 + 1];

		memset(code, 0xcc, sizeof(code));
		const size_t left = sizeof(function) - wanted[i].at;
		memcpy(code, function + wanted[i].at, left < V8_CODE_BYTES ? left : V8_CODE_BYTES);
		cr_expect_eq(v8_code_state(code), wanted[i].state, "at %zu: %d", wanted[i].at,
			     v8_code_state(code));
	}
}

/* The end of a function that Maglev has compiled (V8 14.6). */
Test(v8_positions, ends_of_maglev_functions)
{
	static const uint8_t end[] = {
	    0x5d,			  /*  0 pop rbp */
	    0x49, 0x83, 0xf8, 0x02,	  /*  1 cmp r8, 2 */
	    0x0f, 0x8f, 3,    0,    0, 0, /*  5 jg */
	    0xc2, 0x10, 0x00,		  /* 11 ret 16 */
	    0x41, 0x59,			  /* 14 pop r9 */
	    0x4a, 0x8d, 0x24, 0xc4,	  /* 16 lea rsp, [rsp + r8 * 8] */
	    0x41, 0x51,			  /* 20 push r9 */
	    0xc3,			  /* 22 ret */
	};
	static const struct {
		size_t at;
		int state;
	} wanted[] = {{0, V8_CODE_COMPLETE},	 {1, V8_CODE_POPPED},	   {5, V8_CODE_POPPED},
		      {11, V8_CODE_POPPED},	 {14, V8_CODE_POPPED},	   {16, V8_CODE_RA_POPPED},
		      {20, V8_CODE_ARGS_POPPED}, {22, V8_CODE_ARGS_PUSHED}};

	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		uint64_t code[V8_CODE_BYTES / 8 + 1];

		memset(code, 0xcc, sizeof(code));
		memcpy(code, end + wanted[i].at, sizeof(end) - wanted[i].at);
		cr_expect_eq(v8_code_state(code), wanted[i].state, "at %zu", wanted[i].at);
		if (wanted[i].state == V8_CODE_RA_POPPED || wanted[i].state == V8_CODE_ARGS_POPPED)
			cr_expect(v8_code_uses_r9(code, wanted[i].state));
	}
}
