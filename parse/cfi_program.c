/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interprets CFA programs.
 *
 * How this works: a program is a sequence of instructions of two sorts. Some change the state: "the
 * CFA is rsp + 16 now", "rbp is saved at CFA - 16". The others advance the location: "this holds
 * for the next 4 bytes of code". Whenever the location advances, the state so far becomes a row,
 * unless it has the same rule as the row before.
 *
 * The state is a handle of one word (cfi_shapes.c), so that a state is remembered, restored and
 * compared by copying a word.
 *
 * Example: a function of 32 bytes with the CIE's initial state CFA = rsp + 8, and the program
 *
 *	41		advance_loc 1		row (0, rsp + 8)
 *	0e 10		def_cfa_offset 16
 *	86 02		offset rbp at CFA - 16
 *	43		advance_loc 3		row (1, rsp + 16, rbp at CFA - 16)
 *	0d 06		def_cfa_register rbp
 *	5b		advance_loc 27		row (4, rbp + 16, rbp at CFA - 16)
 *	0c 07 08	def_cfa rsp + 8
 *	(end)					row (31, rsp + 8, rbp at CFA - 16)
 *
 * This is the hot path when a file is read for the first time: most of its time is spent here, in
 * some millions of instructions. Hence the structure: what each instruction touches is in one
 * structure whose address is never taken (struct machine), so that the compiler keeps it in
 * registers; functions on that path are always inlined; the rest works on a copy.
 */
#include "parse/cfi_program.h"

#include <errno.h>
#include <stdlib.h>

#include "common/array.h"

enum {
	ROWS_INITIAL = 64, /* more than nearly all functions have */
};

/* DW_CFA_* (DWARF 5 section 7.24, LSB 5.0 section 10.6). The upper two bits of the byte select the
 * first three; the lower six are their operand. */
enum {
	CFA_ADVANCE_LOC = 0x40,
	CFA_OFFSET = 0x80,
	CFA_RESTORE = 0xc0,
	CFA_OPERAND_MASK = 0x3f,

	CFA_NOP = 0x00,
	CFA_SET_LOC = 0x01,
	CFA_ADVANCE_LOC1 = 0x02,
	CFA_ADVANCE_LOC2 = 0x03,
	CFA_ADVANCE_LOC4 = 0x04,
	CFA_OFFSET_EXTENDED = 0x05,
	CFA_RESTORE_EXTENDED = 0x06,
	CFA_UNDEFINED = 0x07,
	CFA_SAME_VALUE = 0x08,
	CFA_REGISTER = 0x09,
	CFA_REMEMBER_STATE = 0x0a,
	CFA_RESTORE_STATE = 0x0b,
	CFA_DEF_CFA = 0x0c,
	CFA_DEF_CFA_REGISTER = 0x0d,
	CFA_DEF_CFA_OFFSET = 0x0e,
	CFA_DEF_CFA_EXPRESSION = 0x0f,
	CFA_EXPRESSION = 0x10,
	CFA_OFFSET_EXTENDED_SF = 0x11,
	CFA_DEF_CFA_SF = 0x12,
	CFA_DEF_CFA_OFFSET_SF = 0x13,
	CFA_VAL_OFFSET = 0x14,
	CFA_VAL_OFFSET_SF = 0x15,
	CFA_VAL_EXPRESSION = 0x16,
	CFA_MIPS_ADVANCE_LOC8 = 0x1d,
	CFA_GNU_WINDOW_SAVE = 0x2d, /* on arm64: toggles whether the return address is signed */
	CFA_GNU_ARGS_SIZE = 0x2e,
	CFA_GNU_NEGATIVE_OFFSET_EXTENDED = 0x2f,
};

/* What every instruction touches. That of cfi_program_run() is kept in registers: its address must
 * not be taken, so functions that are not inlined work on a copy. */
struct machine {
	struct cursor code;
	uint64_t at;	     /* the location, in bytes from the start of the function */
	uint64_t state;	     /* a handle */
	struct cfi_row *row; /* where the next row goes */
	uint32_t last;	     /* the rule of the last row; UINT32_MAX: there is no row yet */
};

/* Returned when the location would leave the function: the rest of the program has no effect. */
enum {
	PROGRAM_DONE = 1
};

/* Copies field by field: gcc keeps a structure that is copied as a whole in memory. */
static inline void machine_copy(struct machine *to, const struct machine *from)
{
	to->code.base = from->code.base;
	to->code.at = from->code.at;
	to->code.end = from->code.end;
	to->code.failed = from->code.failed;
	to->at = from->at;
	to->state = from->state;
	to->row = from->row;
	to->last = from->last;
}

/* ---- Operands ---- */

/* If a step has room, which means at least 3 bytes before the end of the program, its opcode and
 * the 2 bytes after it are read without a check for the end. */
enum {
	ROOM_BYTES = 3
};

static inline uint8_t read_byte(struct cursor *c, bool room)
{
	return room ? *c->at++ : cursor_u8(c);
}

static inline uint16_t read_u16(struct cursor *c, bool room)
{
	const uint16_t low = read_byte(c, room);

	return (uint16_t)(low | read_byte(c, room) << 8);
}

/* Reads an unsigned operand. Nearly all have one byte; that for the CFA of a large frame has
 * two. */
static inline uint64_t read_uleb(struct cursor *c, bool room)
{
	const uint8_t byte = read_byte(c, room);

	if (__builtin_expect(byte < 0x80, 1))
		return byte;
	if (room && *c->at < 0x80)
		return (byte & 0x7fu) | (uint64_t)*c->at++ << 7;
	return cfi_read_leb_rest(c, false);
}

/* Reads an unsigned operand that is to be multiplied. If it exceeds the range, no rule could hold
 * the product, so it is replaced by the maximum. */
static inline int64_t read_factor(struct cursor *c, bool room)
{
	uint64_t value = read_uleb(c, room);

	return value <= INT64_MAX ? (int64_t)value : INT64_MAX;
}

/* Multiplies an operand by its alignment factor. Returns INT64_MAX, which no rule can hold, on
 * overflow. */
static inline int64_t factored(int64_t factor, int64_t align)
{
	int64_t offset;

	return __builtin_mul_overflow(factor, align, &offset) ? INT64_MAX : offset;
}

/* ---- Rows ---- */

int cfi_rows_init(struct cfi_rows *rows)
{
	*rows = (struct cfi_rows){.rows = malloc(ROWS_INITIAL * sizeof(*rows->rows)),
				  .allocated = ROWS_INITIAL};
	return rows->rows ? 0 : -ENOMEM;
}

void cfi_rows_fini(struct cfi_rows *rows)
{
	free(rows->rows);
}

static inline void rows_limit(struct cfi_rows *rows, uint64_t budget)
{
	rows->end = rows->rows + (rows->allocated < budget ? rows->allocated : (size_t)budget);
}

/* Makes room for one more row. Returns -E2BIG: the budget is used up; -ENOMEM. */
static __attribute__((noinline)) int rows_grow(struct cfi_rows *rows, uint64_t budget,
					       struct cfi_row **row)
{
	const size_t count = (size_t)(*row - rows->rows);

	if (count >= budget)
		return -E2BIG;
	const int r =
	    ARRAY_RESERVE(rows->rows, rows->allocated, count + 1, ROWS_INITIAL, ARRAY_UNLIMITED);
	if (r < 0)
		return r;
	rows_limit(rows, budget);
	*row = rows->rows + count;
	return 0;
}

/* Adds a row for the current state, unless the last row has the same rule. */
static inline __attribute__((always_inline)) int program_commit(struct cfi_program *p,
								struct machine *m)
{
	uint32_t rule;

	int rc = cfi_shapes_rule_id(p->shapes, m->state, &rule);
	if (__builtin_expect(rc < 0, 0))
		return rc;
	if (rule == m->last)
		return 0;
	if (__builtin_expect(m->row >= p->rows->end, 0)) {
		struct cfi_row *row = m->row;

		rc = rows_grow(p->rows, p->left->rows, &row);
		if (rc < 0)
			return rc;
		m->row = row;
	}
	*m->row++ = (struct cfi_row){(uint32_t)m->at, rule};
	m->last = rule;
	return 0;
}

/* ---- Instructions that advance the location ---- */

static inline __attribute__((always_inline)) int
program_advance_bytes(struct cfi_program *p, struct machine *m, uint64_t step)
{
	if (step == 0)
		return 0;
	if (__builtin_expect(step >= p->size - m->at, 0))
		return PROGRAM_DONE;
	int rc = program_commit(p, m);
	m->at += step;
	return rc;
}

static inline __attribute__((always_inline)) int program_advance(struct cfi_program *p,
								 struct machine *m, uint32_t delta)
{
	return program_advance_bytes(p, m, (uint64_t)delta * p->cie->code_align);
}

static int program_set_loc(struct cfi_program *p, struct machine *m)
{
	uint64_t to;

	if (!cfi_read_pointer(&m->code, p->code_vaddr, &p->cie->pointers, &p->start, &to) ||
	    to < p->start + m->at)
		return -EBADMSG;
	return program_advance_bytes(p, m, to - p->start - m->at);
}

/* ---- Instructions that change the state ---- */

/* An instruction that changes the state, with its operands. */
struct change {
	uint8_t op; /* CFA_OFFSET, CFA_RESTORE, CFA_DEF_CFA_REGISTER or CFA_DEF_CFA_OFFSET */
	uint64_t reg;
	int64_t offset; /* multiplied already */
};

/* Applies a change without the caches. */
static __attribute__((noinline)) int program_compute(struct cfi_program *p, struct machine *m,
						     struct change change)
{
	struct cfi_state state = cfi_shapes_lookup(p->shapes, m->state), initial;
	struct cfi_cfa cfa = cfi_state_get_cfa(&state);

	switch (change.op) {
	case CFA_OFFSET:
		cfi_state_put_save(&state, change.reg, CFI_SAVE_CFA, 0, change.offset);
		break;
	case CFA_RESTORE:
		initial = cfi_shapes_lookup(p->shapes, p->cie->initial);
		cfi_state_restore(&state, change.reg, &initial);
		break;
	case CFA_DEF_CFA_REGISTER:
		cfa.reg = change.reg;
		cfi_state_put_cfa(&state, cfa);
		break;
	case CFA_DEF_CFA_OFFSET:
		cfa.offset = change.offset;
		cfi_state_put_cfa(&state, cfa);
	}
	return cfi_shapes_intern(p->shapes, &state, &m->state);
}

static inline __attribute__((always_inline)) int
program_change_uncached(struct cfi_program *p, struct machine *m, struct change change)
{
	struct machine copy;

	machine_copy(&copy, m);
	int rc = program_compute(p, &copy, change);
	machine_copy(m, &copy);
	return rc;
}

/* Applies a change that depends only on the shape, as long as the CFA is plain before and
 * after it: then the resulting shape is cached. `what` (the opcode and register) and
 * `operand` identify the change. */
static inline __attribute__((always_inline)) int
program_change_shape(struct cfi_program *p, struct machine *m, struct change change, uint8_t what,
		     uint32_t operand)
{
	const uint64_t before = m->state;
	const uint64_t key =
	    (uint64_t)operand << 32 | (uint64_t)what << 24 | cfi_handle_shape(before);
	struct cfi_slot *slot = cfi_slot_of(p->shapes->changes, CFI_CHANGES_BITS, key);

	if (__builtin_expect(slot->key == key, 1)) {
		m->state = cfi_handle(slot->value, cfi_handle_cfa_offset(before));
		return 0;
	}
	int rc = program_change_uncached(p, m, change);
	if (rc == 0 && !cfi_handle_offset_in_table(before) && !cfi_handle_offset_in_table(m->state))
		*slot = (struct cfi_slot){key, cfi_handle_shape(m->state)};
	return rc;
}

static inline __attribute__((always_inline)) int
program_put_offset(struct cfi_program *p, struct machine *m, uint64_t reg, int64_t offset)
{
	const struct change change = {CFA_OFFSET, reg, offset};

	if (!register_matters(reg))
		return 0;
	if (!fits_int32(offset))
		return program_change_uncached(p, m, change);
	return program_change_shape(p, m, change, CFA_OFFSET | (uint8_t)reg, (uint32_t)offset);
}

static inline __attribute__((always_inline)) int program_restore(struct cfi_program *p,
								 struct machine *m, uint64_t reg)
{
	if (!register_matters(reg))
		return 0;
	return program_change_shape(p, m, (struct change){CFA_RESTORE, reg, 0},
				    CFA_RESTORE | (uint8_t)reg, cfi_handle_shape(p->cie->initial));
}

/* Runs def_cfa_offset, which a third of all instructions are. */
static inline __attribute__((always_inline)) int
program_def_cfa_offset(struct cfi_program *p, struct machine *m, int64_t offset)
{
	if (__builtin_expect(cfi_handle_offset_in_table(m->state) || !fits_int32(offset), 0))
		return program_change_uncached(p, m,
					       (struct change){CFA_DEF_CFA_OFFSET, 0, offset});
	m->state = cfi_handle(cfi_handle_shape(m->state), (int32_t)offset);
	return 0;
}

static inline __attribute__((always_inline)) int
program_def_cfa_register(struct cfi_program *p, struct machine *m, uint64_t reg)
{
	const struct change change = {CFA_DEF_CFA_REGISTER, reg, 0};

	if (reg >= REGISTER_COUNT)
		return program_change_uncached(p, m, change);
	return program_change_shape(p, m, change, CFA_DEF_CFA_REGISTER, (uint32_t)reg);
}

static inline __attribute__((always_inline)) int
program_def_cfa(struct cfi_program *p, struct machine *m, uint64_t reg, int64_t offset)
{
	int rc = program_def_cfa_offset(p, m, offset);

	return rc == 0 ? program_def_cfa_register(p, m, reg) : rc;
}

/* ---- Instructions that compilers rarely write ---- */

/* Runs the rare instructions that say where a register is saved. */
static int program_run_save(struct cfi_program *p, uint8_t op, struct machine *m)
{
	struct cfi_state state = cfi_shapes_lookup(p->shapes, m->state);
	uint64_t reg = cfi_read_uleb(&m->code);

	switch (op) {
	case CFA_UNDEFINED:
		cfi_state_put_save(&state, reg, CFI_SAVE_UNDEFINED, 0, 0);
		break;
	case CFA_SAME_VALUE:
		cfi_state_put_save(&state, reg, CFI_SAVE_SAME, 0, 0);
		break;
	case CFA_REGISTER:
		cfi_state_put_register(&state, reg, cfi_read_uleb(&m->code));
		break;
	case CFA_VAL_OFFSET:
		cfi_read_uleb(&m->code);
		cfi_state_put_save(&state, reg, CFI_SAVE_UNKNOWN, 0, 0);
		break;
	case CFA_VAL_OFFSET_SF:
		cfi_read_sleb(&m->code);
		cfi_state_put_save(&state, reg, CFI_SAVE_UNKNOWN, 0, 0);
		break;
	case CFA_EXPRESSION:
		cfi_state_put_save_expression(&state, reg,
					      cursor_sub(&m->code, cfi_read_uleb(&m->code)));
		break;
	case CFA_VAL_EXPRESSION:
		cursor_skip(&m->code, cfi_read_uleb(&m->code));
		cfi_state_put_save(&state, reg, CFI_SAVE_UNKNOWN, 0, 0);
		break;
	default:
		return -EBADMSG;
	}
	return cfi_shapes_intern(p->shapes, &state, &m->state);
}

static int program_run_cfa_expression(struct cfi_program *p, struct machine *m)
{
	struct cfi_state state = cfi_shapes_lookup(p->shapes, m->state);

	cfi_state_put_cfa_expression(&state, cursor_sub(&m->code, cfi_read_uleb(&m->code)));
	return cfi_shapes_intern(p->shapes, &state, &m->state);
}

static __attribute__((noinline)) int program_run_rare(struct cfi_program *p, uint8_t op,
						      struct machine *m)
{
	const int64_t align = p->cie->data_align;
	struct cursor *code = &m->code;
	uint64_t reg, delta;

	switch (op) {
	case CFA_SET_LOC:
		return program_set_loc(p, m);
	case CFA_ADVANCE_LOC4:
		return program_advance(p, m, cursor_u32(code));
	case CFA_MIPS_ADVANCE_LOC8:
		delta = cursor_u64(code);
		return program_advance(p, m, delta < UINT32_MAX ? (uint32_t)delta : UINT32_MAX);
	case CFA_DEF_CFA_SF:
		reg = cfi_read_uleb(code);
		return program_def_cfa(p, m, reg, factored(cfi_read_sleb(code), align));
	case CFA_DEF_CFA_OFFSET_SF:
		return program_def_cfa_offset(p, m, factored(cfi_read_sleb(code), align));
	case CFA_DEF_CFA_EXPRESSION:
		return program_run_cfa_expression(p, m);
	case CFA_OFFSET_EXTENDED:
		reg = cfi_read_uleb(code);
		return program_put_offset(p, m, reg, factored(read_factor(code, false), align));
	case CFA_OFFSET_EXTENDED_SF:
		reg = cfi_read_uleb(code);
		return program_put_offset(p, m, reg, factored(cfi_read_sleb(code), align));
	case CFA_GNU_NEGATIVE_OFFSET_EXTENDED:
		reg = cfi_read_uleb(code);
		return program_put_offset(p, m, reg, factored(-read_factor(code, false), align));
	case CFA_RESTORE_EXTENDED:
		return program_restore(p, m, cfi_read_uleb(code));
	case CFA_GNU_ARGS_SIZE:
		cfi_read_uleb(code);
		return 0;
	case CFA_GNU_WINDOW_SAVE:
		return 0;
	default:
		return program_run_save(p, op, m);
	}
}

/* ---- The interpreter ---- */

static inline int program_remember(struct cfi_program *p, const struct machine *m)
{
	if (p->remembered_count == CFI_REMEMBERED_MAX)
		return -EBADMSG;
	p->remembered[p->remembered_count++] = m->state;
	return 0;
}

static inline int program_recall(struct cfi_program *p, struct machine *m)
{
	if (p->remembered_count == 0)
		return -EBADMSG;
	m->state = p->remembered[--p->remembered_count];
	return 0;
}

/* Skips nops, with which entries are padded. Consecutive ones count as one instruction of the
 * budget. */
static inline void program_skip_nops(struct cursor *code)
{
	while (code->at < code->end && *code->at == CFA_NOP)
		code->at++;
}

/* Runs one instruction. `room` says that ROOM_BYTES are there. The frequent instructions are
 * here, the others in program_run_rare(). A cursor that fails is at its end. */
static inline __attribute__((always_inline)) int program_step(struct cfi_program *p,
							      struct machine *m, const bool room)
{
	struct cursor *code = &m->code;
	const uint8_t op = read_byte(code, room);
	uint64_t reg;

	/* Two thirds of all instructions are these two. They are tested before the jump table,
	 * because a branch is predicted better than an indirect jump. */
	if (op == CFA_DEF_CFA_OFFSET)
		return program_def_cfa_offset(p, m, read_factor(code, room));
	if ((op & ~CFA_OPERAND_MASK) == CFA_ADVANCE_LOC)
		return program_advance(p, m, op & CFA_OPERAND_MASK);
	switch (op) {
	case CFA_OFFSET ... CFA_OFFSET | CFA_OPERAND_MASK:
		return program_put_offset(p, m, op & CFA_OPERAND_MASK,
					  factored(read_factor(code, room), p->cie->data_align));
	case CFA_RESTORE ... CFA_RESTORE | CFA_OPERAND_MASK:
		return program_restore(p, m, op & CFA_OPERAND_MASK);
	case CFA_NOP:
		program_skip_nops(code);
		return 0;
	case CFA_ADVANCE_LOC1:
		return program_advance(p, m, read_byte(code, room));
	case CFA_ADVANCE_LOC2:
		return program_advance(p, m, read_u16(code, room));
	case CFA_DEF_CFA:
		reg = read_uleb(code, room);
		return program_def_cfa(p, m, reg, read_factor(code, false));
	case CFA_DEF_CFA_REGISTER:
		return program_def_cfa_register(p, m, read_uleb(code, room));
	case CFA_REMEMBER_STATE:
		return program_remember(p, m);
	case CFA_RESTORE_STATE:
		return program_recall(p, m);
	}
	struct machine copy;
	machine_copy(&copy, m);
	int rc = program_run_rare(p, op, &copy);
	machine_copy(m, &copy);
	if (code->failed)
		code->at = code->end;
	return rc;
}

int cfi_program_run(struct cfi_program *p, const struct cursor *code)
{
	struct machine m = {.code.base = code->base,
			    .code.at = code->at,
			    .code.end = code->end,
			    .state = p->cie->initial,
			    .row = p->rows->rows,
			    .last = UINT32_MAX};
	const size_t bytes = cursor_left(code);
	uint64_t left = p->left->instructions;
	int rc = 0;

	p->remembered_count = 0;
	rows_limit(p->rows, p->left->rows);
	/* An instruction has at least one byte. So if the budget has as many instructions left as
	 * the program has bytes, it need not be checked. */
	if (bytes >= ROOM_BYTES && left >= bytes) {
		const uint8_t *const last = code->end - ROOM_BYTES;

		while (rc == 0 && m.code.at <= last) {
			left--;
			rc = program_step(p, &m, true);
		}
	}
	while (rc == 0 && cursor_left(&m.code) > 0) {
		if (left == 0) {
			rc = -E2BIG;
			break;
		}
		left--;
		rc = program_step(p, &m, false);
	}
	p->left->instructions = left;
	p->end_state = m.state;
	if (rc >= 0 && m.code.failed)
		return -EBADMSG;
	if (!p->size)
		return rc == PROGRAM_DONE ? -EBADMSG : rc; /* a CIE's program must not advance */
	if (rc >= 0)
		rc = program_commit(p, &m);
	p->rows->count = (size_t)(m.row - p->rows->rows);
	return rc;
}
