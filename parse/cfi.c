/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three layers: entries (CIEs and FDEs, their pointers and augmentations), the interpreter of their
 * CFA programs, and the rows that it leaves. A CIE is run once and kept in a small cache; its FDEs
 * begin with a copy of the state that it ended in. Nothing is allocated per FDE.
 */
#include "parse/cfi.h"

#include <errno.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/cursor.h"

enum {
	REGISTER_BX = 3,  /* rbx */
	REGISTER_FP = 6,  /* rbp */
	REGISTER_SP = 7,  /* rsp */
	REGISTER_RA = 16, /* the return address */
	REGISTER_COUNT = 16,

	REMEMBERED_MAX = 16, /* compilers nest two or three deep */
	LEB_BYTES_MAX = 16,  /* 64 bits take 10; padding beyond that is only there to waste time */
	AUGMENTATION_MAX = 16,	/* "zPLRSB" is as long as they get */
	SELECTOR_BYTES_MAX = 8, /* segment selectors of .debug_frame version 4 */
	CIE_CACHE_SLOTS =
	    256, /* power of two; a collision only costs another run, which the budget covers */
	ROWS_INITIAL = 64,
	ROWS_MAX = 1 << 28, /* per FDE, so that counts fit in an int whatever the budget says */
};

/* DWARF 5 section 7.24, LSB 5.0 10.6; the upper two bits of a byte select the first three. */
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
	CFA_GNU_WINDOW_SAVE = 0x2d, /* on arm64: the return address is signed from here on */
	CFA_GNU_ARGS_SIZE = 0x2e,
	CFA_GNU_NEGATIVE_OFFSET_EXTENDED = 0x2f,
};

/* DWARF 5 section 7.7.1: the operations that the known expressions are made of. */
enum {
	OP_DEREF = 0x06,
	OP_PLUS_UCONST = 0x23,
	OP_LIT0 = 0x30,
	OP_BREG0 = 0x70,
	OP_BREG31 = 0x8f,
	OP_BREGX = 0x92,
};

/* Pointer encodings (LSB 5.0 10.5.1). */
enum {
	PE_ABSPTR = 0x00,
	PE_ULEB128 = 0x01,
	PE_UDATA2 = 0x02,
	PE_UDATA4 = 0x03,
	PE_UDATA8 = 0x04,
	PE_SIGNED = 0x08, /* like absptr, but signed */
	PE_SLEB128 = 0x09,
	PE_SDATA2 = 0x0a,
	PE_SDATA4 = 0x0b,
	PE_SDATA8 = 0x0c,
	PE_FORMAT_MASK = 0x0f,

	PE_PCREL = 0x10,
	PE_TEXTREL = 0x20,
	PE_DATAREL = 0x30,
	PE_FUNCREL = 0x40,
	PE_ALIGNED = 0x50,
	PE_BASE_MASK = 0x70,
	PE_INDIRECT = 0x80,
};

/*
 * The interpreter holds a struct cfi_rule as four words in registers. It changes one field at a
 * time and compares whole rules at every advance; bytes written one by one and read eight at a time
 * would wait for each store.
 */
_Static_assert(sizeof(struct cfi_rule) == 4 * sizeof(uint64_t), "four words");
_Static_assert(
    offsetof(struct cfi_rule, cfa_kind) == 0 && offsetof(struct cfi_rule, fp_kind) == 2 &&
	offsetof(struct cfi_rule, ra_kind) == 4 && offsetof(struct cfi_rule, signal_frame) == 6 &&
	offsetof(struct cfi_rule, bx_kind) == 7 && offsetof(struct cfi_rule, bx_offset) == 24 &&
	offsetof(struct cfi_rule, cfa_offset) == 8 && offsetof(struct cfi_rule, cfa_add) == 12 &&
	offsetof(struct cfi_rule, fp_offset) == 16 && offsetof(struct cfi_rule, ra_offset) == 20,
    "the shifts below");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the shifts below");

/*
 * The four words of the rule that holds, and what def_cfa and its kin have set, whatever the rule
 * says: def_cfa_register after an expression goes back to the offset from before it (so do libgcc
 * and gdb).
 */
struct state {
	uint64_t kinds; /* kinds, registers, signal_frame */
	uint64_t cfa;	/* cfa_offset, cfa_add */
	uint64_t saves; /* fp_offset, ra_offset */
	uint64_t base;	/* bx_offset */
	uint64_t cfa_register;
	int64_t cfa_offset;
};

struct rows {
	uint64_t *starts;
	struct cfi_rule *rules;
	size_t count, allocated;
	size_t limit; /* no row from here on: the end of the memory, or of the budget */
	uint64_t unknown;
};

enum cie_status {
	CIE_NONE,
	CIE_GOOD,
	CIE_BAD
};

struct cie {
	uint64_t offset; /* in the section: the cache's key */
	uint64_t code_align;
	int64_t data_align;
	struct state initial;
	uint8_t status; /* enum cie_status */
	uint8_t encoding, address_bytes, selector_bytes;
	bool augmented; /* 'z': its FDEs have augmentation data */
	bool signal_frame;
};

/* A length field, an id, and what is behind them. */
struct entry {
	struct cursor body;
	uint64_t id, id_offset;
	bool is_cie;
};

struct parser {
	const struct cfi_section *section;
	struct cfi_budget left;
	struct cfi_stats *stats;
	struct cie *cies; /* CIE_CACHE_SLOTS of them */
	struct rows rows;
};

/* One run of a CFA program: what is the same for all of it, and what is seldom touched. */
struct program {
	struct parser *parser;
	const struct cie *cie;
	uint64_t start, end; /* virtual addresses; zero when it is a CIE's own program */
	unsigned int remembered_count;
	struct state remembered[REMEMBERED_MAX];
};

/*
 * What every instruction touches. program_run() has the only one that lives in registers: nothing
 * may take its address, so whatever is not inlined works on a copy.
 */
struct machine {
	struct cursor code;
	uint64_t at; /* virtual address */
	struct state state;
};

/* Field by field: a structure that is once copied as a whole lives in memory from then on. */
static inline void machine_copy(struct machine *to, const struct machine *from)
{
	to->code.base = from->code.base;
	to->code.at = from->code.at;
	to->code.end = from->code.end;
	to->code.failed = from->code.failed;
	to->at = from->at;
	to->state.kinds = from->state.kinds;
	to->state.cfa_register = from->state.cfa_register;
	to->state.cfa = from->state.cfa;
	to->state.cfa_offset = from->state.cfa_offset;
	to->state.saves = from->state.saves;
	to->state.base = from->state.base;
}

/* The program may stop early: what follows is behind the end of its FDE. */
enum {
	PROGRAM_DONE = 1
};

/* ---- Numbers ---- */

struct leb {
	uint64_t value;
	size_t length; /* 0: not a number */
};

static __attribute__((noinline)) struct leb leb_long(const uint8_t *at, const uint8_t *end,
						     bool is_signed)
{
	size_t left = (size_t)(end - at);
	struct cursor c = cursor_init(at, left < LEB_BYTES_MAX ? left : LEB_BYTES_MAX);
	uint64_t value = is_signed ? (uint64_t)cursor_sleb128(&c) : cursor_uleb128(&c);

	return (struct leb){value, c.failed ? 0 : cursor_offset(&c)};
}

/* The rest of a number of which one byte was read. */
static inline uint64_t read_leb_long(struct cursor *c, bool is_signed)
{
	struct leb leb = leb_long(c->at - 1, c->end, is_signed);

	cursor_skip(c, leb.length > 0 ? leb.length - 1 : UINT64_MAX);
	return leb.value;
}

/* Nearly all are one byte long. The cursor itself is not passed on, so it stays in registers. */
static inline uint64_t read_uleb(struct cursor *c)
{
	uint8_t byte = cursor_u8(c);

	return __builtin_expect(byte < 0x80, 1) ? byte : read_leb_long(c, false);
}

static inline int64_t read_sleb(struct cursor *c)
{
	uint8_t byte = cursor_u8(c);

	if (__builtin_expect(byte < 0x80, 1))
		return (int64_t)((byte ^ 0x40) - 0x40);
	return (int64_t)read_leb_long(c, true);
}

/* An unsigned operand as what it is multiplied as; beyond the range no rule could hold the product
 * either. */
static inline int64_t read_factor(struct cursor *c)
{
	uint64_t value = read_uleb(c);

	return value <= INT64_MAX ? (int64_t)value : INT64_MAX;
}

static bool fits_int32(int64_t value)
{
	return value >= INT32_MIN && value <= INT32_MAX;
}

/* A number in one of the formats of a pointer encoding, extended to 64 bits. */
static bool read_format(struct cursor *c, unsigned int format, unsigned int address_bytes,
			uint64_t *value)
{
	switch (format) {
	case PE_ABSPTR:
		*value = address_bytes == sizeof(uint64_t) ? cursor_u64(c) : cursor_u32(c);
		break;
	case PE_SIGNED:
		*value = address_bytes == sizeof(uint64_t) ? cursor_u64(c)
							   : (uint64_t)(int32_t)cursor_u32(c);
		break;
	case PE_ULEB128:
		*value = read_uleb(c);
		break;
	case PE_SLEB128:
		*value = (uint64_t)read_sleb(c);
		break;
	case PE_UDATA2:
		*value = cursor_u16(c);
		break;
	case PE_SDATA2:
		*value = (uint64_t)(int16_t)cursor_u16(c);
		break;
	case PE_UDATA4:
		*value = cursor_u32(c);
		break;
	case PE_SDATA4:
		*value = (uint64_t)(int32_t)cursor_u32(c);
		break;
	case PE_UDATA8:
	case PE_SDATA8:
		*value = cursor_u64(c);
		break;
	default:
		return false;
	}
	return !c->failed;
}

static uint64_t vaddr_of(const struct cfi_section *section, const struct cursor *c)
{
	return section->vaddr + (uint64_t)(c->at - section->data);
}

/*
 * An encoded pointer. `function` is the base of funcrel, NULL where there is none. A null stays
 * null whatever its base: that is how linkers leave the FDEs of functions that they dropped.
 */
static bool read_pointer(const struct cfi_section *section, struct cursor *c, const struct cie *cie,
			 const uint64_t *function, uint64_t *pointer)
{
	uint8_t encoding = cie->encoding;
	uint64_t base = 0, value;

	if (encoding & PE_INDIRECT)
		return false;
	switch (encoding & PE_BASE_MASK) {
	case PE_ABSPTR:
		break;
	case PE_PCREL:
		base = vaddr_of(section, c);
		break;
	case PE_TEXTREL:
		base = section->text_vaddr;
		break;
	case PE_DATAREL:
		base = section->data_vaddr;
		break;
	case PE_FUNCREL:
		if (!function)
			return false;
		base = *function;
		break;
	case PE_ALIGNED:
		cursor_skip(c, -vaddr_of(section, c) & (cie->address_bytes - 1u));
		break;
	default:
		return false;
	}
	if (!read_format(c, encoding & PE_FORMAT_MASK, cie->address_bytes, &value))
		return false;
	*pointer = value ? base + value : 0;
	return true;
}

/* ---- Rows ---- */

static void rows_restart(struct rows *rows, uint64_t budget)
{
	rows->count = 0;
	rows->unknown = 0;
	rows->limit = rows->allocated < budget ? rows->allocated : (size_t)budget;
}

/* Room for one more row: more memory, or the news that the budget is spent. */
static __attribute__((noinline)) int rows_grow(struct rows *rows, uint64_t budget)
{
	if (rows->count >= budget || rows->count >= ROWS_MAX)
		return -E2BIG;
	if (rows->count >= rows->allocated) {
		size_t want = rows->allocated ? rows->allocated * 2 : ROWS_INITIAL;
		uint64_t *starts = realloc(rows->starts, want * sizeof(*starts));

		if (!starts)
			return -ENOMEM;
		rows->starts = starts;
		struct cfi_rule *rules = realloc(rows->rules, want * sizeof(*rules));
		if (!rules)
			return -ENOMEM;
		rows->rules = rules;
		rows->allocated = want;
	}
	rows->limit = rows->allocated < budget ? rows->allocated : (size_t)budget;
	return 0;
}

static inline uint64_t rule_word(const struct cfi_rule *rule, unsigned int i)
{
	uint64_t word;

	memcpy(&word, (const uint8_t *)rule + i * sizeof(word), sizeof(word));
	return word;
}

static inline void rule_word_put(struct cfi_rule *rule, unsigned int i, uint64_t word)
{
	memcpy((uint8_t *)rule + i * sizeof(word), &word, sizeof(word));
}

/* The state holds from `at` on: a row, unless it says what the row before says. false if there is
 * no room. */
static inline bool rows_put(struct rows *rows, uint64_t at, const struct state *state)
{
	size_t i = rows->count;

	if (i > 0 && rule_word(&rows->rules[i - 1], 1) == state->cfa &&
	    rule_word(&rows->rules[i - 1], 0) == state->kinds &&
	    rule_word(&rows->rules[i - 1], 2) == state->saves &&
	    rule_word(&rows->rules[i - 1], 3) == state->base)
		return true;
	if (__builtin_expect(i >= rows->limit, 0))
		return false;
	rows->starts[i] = at;
	rule_word_put(&rows->rules[i], 0, state->kinds);
	rows->unknown += (state->kinds & 0xff) == CFI_CFA_UNKNOWN;
	rule_word_put(&rows->rules[i], 1, state->cfa);
	rows->count = i + 1;
	rule_word_put(&rows->rules[i], 2, state->saves);
	rule_word_put(&rows->rules[i], 3, state->base);
	return true;
}

/* ---- States ---- */

static inline void state_put_cfa(struct state *state, unsigned int kind, unsigned int reg,
				 int32_t offset, int32_t add)
{
	state->kinds = (state->kinds & ~0xffffull) | kind | reg << 8;
	state->cfa = (uint32_t)offset | (uint64_t)(uint32_t)add << 32;
}

/* The CFA as the register and offset set last. */
static inline void state_use_register(struct state *state)
{
	if (__builtin_expect(state->cfa_register < REGISTER_COUNT && fits_int32(state->cfa_offset),
			     1))
		state_put_cfa(state, CFI_CFA_REGISTER, (unsigned int)state->cfa_register,
			      (int32_t)state->cfa_offset, 0);
	else
		state_put_cfa(state, CFI_CFA_UNKNOWN, 0, 0, 0);
}

/* The rule of one register, if it is one that matters. */
static inline void state_put_save(struct state *state, uint64_t reg, unsigned int kind,
				  unsigned int base, int32_t offset)
{
	uint64_t how = kind | (uint64_t)base << 8;

	if (reg == REGISTER_FP) {
		state->kinds = (state->kinds & ~(0xffffull << 16)) | how << 16;
		state->saves = (state->saves & ~0xffffffffull) | (uint32_t)offset;
	} else if (reg == REGISTER_RA) {
		state->kinds = (state->kinds & ~(0xffffull << 32)) | how << 32;
		state->saves = (uint32_t)state->saves | (uint64_t)(uint32_t)offset << 32;
	} else if (reg == REGISTER_BX) {
		if (kind != CFI_SAVE_SAME && kind != CFI_SAVE_CFA)
			kind = CFI_SAVE_UNKNOWN;
		state->kinds = (state->kinds & ~(0xffull << 56)) | (uint64_t)kind << 56;
		state->base = kind == CFI_SAVE_CFA ? (uint32_t)offset : 0;
	}
}

/* DW_CFA_register: the value is in another general register. */
static void state_put_register(struct state *state, uint64_t reg, uint64_t in)
{
	if (in < REGISTER_RA)
		state_put_save(state, reg, CFI_SAVE_IN_REGISTER, (unsigned int)in, 0);
	else
		state_put_save(state, reg, CFI_SAVE_UNKNOWN, 0, 0);
}

static inline __attribute__((always_inline)) void
state_put_offset(struct state *state, uint64_t reg, int64_t factor, int64_t align)
{
	int64_t offset;

	if (reg != REGISTER_FP && reg != REGISTER_RA && reg != REGISTER_BX)
		return;
	if (__builtin_mul_overflow(factor, align, &offset) || !fits_int32(offset))
		state_put_save(state, reg, CFI_SAVE_UNKNOWN, 0, 0);
	else
		state_put_save(state, reg, CFI_SAVE_CFA, 0, (int32_t)offset);
}

static inline void state_restore(struct state *state, uint64_t reg, const struct state *initial)
{
	uint64_t kinds = 0xffffull, offsets = 0xffffffffull;

	if (reg == REGISTER_FP) {
		kinds <<= 16;
	} else if (reg == REGISTER_RA) {
		kinds <<= 32;
		offsets <<= 32;
	} else if (reg == REGISTER_BX) {
		state->kinds = (state->kinds & ~(0xffull << 56)) | (initial->kinds & 0xffull << 56);
		state->base = initial->base;
		return;
	} else {
		return;
	}
	state->kinds = (state->kinds & ~kinds) | (initial->kinds & kinds);
	state->saves = (state->saves & ~offsets) | (initial->saves & offsets);
}

/* Before any instruction: no CFA, rbp unchanged (the ABI says so), no return address. */
static struct state state_blank(bool signal_frame)
{
	return (struct state){
	    .kinds = (uint64_t)signal_frame << 48,
	    .cfa_register = UINT64_MAX,
	};
}

/* ---- Expressions ---- */

/* DW_OP_bregN x or DW_OP_bregx N x, of a register and offset that a rule can hold. */
static bool expression_breg(struct cursor *c, unsigned int *reg, int32_t *offset)
{
	uint8_t op = cursor_u8(c);
	uint64_t number;

	if (op >= OP_BREG0 && op <= OP_BREG31)
		number = op - OP_BREG0;
	else if (op == OP_BREGX)
		number = read_uleb(c);
	else
		return false;
	int64_t value = read_sleb(c);
	if (c->failed || number >= REGISTER_COUNT || !fits_int32(value))
		return false;
	*reg = (unsigned int)number;
	*offset = (int32_t)value;
	return true;
}

/*
 * The expression that linkers write for lazy PLT sections, where each 16-byte slot has pushed one
 * more word from its Nth byte on: breg7 (rsp) 8; breg16 (rip) 0; lit15; and; litN; ge; lit3; shl;
 * plus.
 */
static bool expression_plt(const struct cursor *expression, int32_t *threshold)
{
	static const uint8_t before[] = {OP_BREG0 + REGISTER_SP, 8,   OP_BREG0 + REGISTER_RA, 0,
					 OP_LIT0 + 15,		 0x1a};
	static const uint8_t after[] = {0x2a, OP_LIT0 + 3, 0x24, 0x22};
	struct cursor c = *expression;
	const uint8_t *head = cursor_take(&c, sizeof(before));
	uint8_t lit = cursor_u8(&c);
	const uint8_t *tail = cursor_take(&c, sizeof(after));

	if (!head || !tail || cursor_left(&c) > 0 || lit < OP_LIT0 || lit > OP_LIT0 + 15 ||
	    memcmp(head, before, sizeof(before)) != 0 || memcmp(tail, after, sizeof(after)) != 0)
		return false;
	*threshold = lit - OP_LIT0;
	return true;
}

/* DW_CFA_def_cfa_expression. Every form but the known ones makes the CFA unknown, never the FDE
 * bad. */
static void state_put_cfa_expression(struct state *state, struct cursor expression)
{
	int32_t offset, threshold;
	unsigned int reg;

	if (expression_plt(&expression, &threshold)) {
		state_put_cfa(state, CFI_CFA_PLT, 0, 8, threshold);
		return;
	}
	state_put_cfa(state, CFI_CFA_UNKNOWN, 0, 0, 0);
	if (!expression_breg(&expression, &reg, &offset))
		return;
	if (cursor_left(&expression) == 0) {
		state_put_cfa(state, CFI_CFA_REGISTER, reg, offset, 0);
		return;
	}
	if (cursor_u8(&expression) != OP_DEREF)
		return;
	uint64_t add = 0;
	if (cursor_left(&expression) > 0) {
		if (cursor_u8(&expression) != OP_PLUS_UCONST)
			return;
		add = read_uleb(&expression);
		if (expression.failed || cursor_left(&expression) > 0 || add > INT32_MAX)
			return;
	}
	state_put_cfa(state, CFI_CFA_DEREF, reg, offset, (int32_t)add);
}

/* DW_CFA_expression: where a register was saved; the CFA is on the stack when it begins. */
static void state_put_save_expression(struct state *state, uint64_t saved, struct cursor expression)
{
	struct cursor plus = expression;
	int32_t offset;
	unsigned int reg;

	if (expression_breg(&expression, &reg, &offset) && cursor_left(&expression) == 0) {
		state_put_save(state, saved, CFI_SAVE_REGISTER, reg, offset);
		return;
	}
	if (cursor_u8(&plus) == OP_PLUS_UCONST) {
		uint64_t add = read_uleb(&plus);

		if (!plus.failed && cursor_left(&plus) == 0 && add <= INT32_MAX) {
			state_put_save(state, saved, CFI_SAVE_CFA, 0, (int32_t)add);
			return;
		}
	}
	state_put_save(state, saved, CFI_SAVE_UNKNOWN, 0, 0);
}

/* ---- The interpreter ---- */

static __attribute__((noinline)) int program_grow(struct program *p, uint64_t at,
						  struct state state)
{
	int rc = rows_grow(&p->parser->rows, p->parser->left.rows);

	if (rc == 0)
		rows_put(&p->parser->rows, at, &state);
	return rc;
}

/* What holds at the end of what was run so far becomes a row. */
static inline int program_commit(struct program *p, const struct machine *m)
{
	if (__builtin_expect(rows_put(&p->parser->rows, m->at, &m->state), 1))
		return 0;
	return program_grow(p, m->at, m->state);
}

static inline int program_move(struct program *p, struct machine *m, uint64_t step)
{
	if (step == 0)
		return 0;
	if (__builtin_expect(step >= p->end - m->at, 0))
		return PROGRAM_DONE;
	int rc = program_commit(p, m);
	m->at += step;
	return rc;
}

static inline int program_advance(struct program *p, struct machine *m, uint64_t delta)
{
	uint64_t step;

	if (__builtin_mul_overflow(delta, p->cie->code_align, &step))
		return PROGRAM_DONE;
	return program_move(p, m, step);
}

static int program_set_loc(struct program *p, struct machine *m)
{
	uint64_t to;

	if (!read_pointer(p->parser->section, &m->code, p->cie, &p->start, &to) || to < m->at)
		return -EBADMSG;
	return program_move(p, m, to - m->at);
}

/* The instructions that move the location and that compilers seldom write. */
static int program_run_move(struct program *p, uint8_t op, struct machine *m)
{
	switch (op) {
	case CFA_SET_LOC:
		return program_set_loc(p, m);
	case CFA_ADVANCE_LOC4:
		return program_advance(p, m, cursor_u32(&m->code));
	default:
		return program_advance(p, m, cursor_u64(&m->code));
	}
}

/* Those that set the CFA with signed operands: factored by the data alignment. */
static void program_run_cfa_sf(struct program *p, uint8_t op, struct machine *m)
{
	struct state *state = &m->state;

	if (op == CFA_DEF_CFA_SF)
		state->cfa_register = read_uleb(&m->code);
	if (__builtin_mul_overflow(read_sleb(&m->code), p->cie->data_align, &state->cfa_offset))
		state->cfa_offset = INT64_MAX; /* no rule holds that: unknown */
	state_use_register(state);
}

/* Those whose first operand is a register. */
static int program_run_register(struct program *p, uint8_t op, struct machine *m)
{
	struct state *state = &m->state;
	uint64_t reg = read_uleb(&m->code);

	switch (op) {
	case CFA_OFFSET_EXTENDED:
		state_put_offset(state, reg, read_factor(&m->code), p->cie->data_align);
		return 0;
	case CFA_OFFSET_EXTENDED_SF:
		state_put_offset(state, reg, read_sleb(&m->code), p->cie->data_align);
		return 0;
	case CFA_GNU_NEGATIVE_OFFSET_EXTENDED:
		state_put_offset(state, reg, -read_factor(&m->code), p->cie->data_align);
		return 0;
	case CFA_RESTORE_EXTENDED:
		state_restore(state, reg, &p->cie->initial);
		return 0;
	case CFA_UNDEFINED:
		state_put_save(state, reg, CFI_SAVE_UNDEFINED, 0, 0);
		return 0;
	case CFA_SAME_VALUE:
		state_put_save(state, reg, CFI_SAVE_SAME, 0, 0);
		return 0;
	case CFA_REGISTER:
		state_put_register(state, reg, read_uleb(&m->code));
		return 0;
	case CFA_VAL_OFFSET:
		read_uleb(&m->code);
		state_put_save(state, reg, CFI_SAVE_UNKNOWN, 0, 0);
		return 0;
	case CFA_VAL_OFFSET_SF:
		read_sleb(&m->code);
		state_put_save(state, reg, CFI_SAVE_UNKNOWN, 0, 0);
		return 0;
	case CFA_EXPRESSION:
		state_put_save_expression(state, reg, cursor_sub(&m->code, read_uleb(&m->code)));
		return 0;
	case CFA_VAL_EXPRESSION:
		cursor_skip(&m->code, read_uleb(&m->code));
		state_put_save(state, reg, CFI_SAVE_UNKNOWN, 0, 0);
		return 0;
	default:
		return -EBADMSG;
	}
}

/* Instructions that are rare enough not to be in program_run(). */
static __attribute__((noinline)) int program_run_rare(struct program *p, uint8_t op,
						      struct machine *m)
{
	switch (op) {
	case CFA_SET_LOC:
	case CFA_ADVANCE_LOC4:
	case CFA_MIPS_ADVANCE_LOC8:
		return program_run_move(p, op, m);
	case CFA_DEF_CFA_SF:
	case CFA_DEF_CFA_OFFSET_SF:
		program_run_cfa_sf(p, op, m);
		return 0;
	case CFA_DEF_CFA_EXPRESSION:
		state_put_cfa_expression(&m->state, cursor_sub(&m->code, read_uleb(&m->code)));
		return 0;
	case CFA_GNU_ARGS_SIZE:
		read_uleb(&m->code);
		return 0;
	case CFA_GNU_WINDOW_SAVE:
		return 0;
	default:
		return program_run_register(p, op, m);
	}
}

static inline int program_remember(struct program *p, const struct state *state)
{
	if (p->remembered_count == REMEMBERED_MAX)
		return -EBADMSG;
	p->remembered[p->remembered_count++] = *state;
	return 0;
}

static inline int program_recall(struct program *p, struct state *state)
{
	if (p->remembered_count == 0)
		return -EBADMSG;
	*state = p->remembered[--p->remembered_count];
	return 0;
}

/* One instruction. What compilers emit most is here, the rest in program_run_rare(). */
static inline __attribute__((always_inline)) int program_step(struct program *p, struct machine *m)
{
	struct cursor *code = &m->code;
	struct state *state = &m->state;
	uint8_t op = cursor_u8(code);

	/* A third of all instructions: ahead of the jump table, where the branch predictor knows it
	 * best. */
	if (op == CFA_DEF_CFA_OFFSET) {
		state->cfa_offset = read_factor(code);
		state_use_register(state);
		return 0;
	}
	switch (op & ~CFA_OPERAND_MASK) {
	case CFA_ADVANCE_LOC:
		return program_advance(p, m, op & CFA_OPERAND_MASK);
	case CFA_OFFSET:
		state_put_offset(state, op & CFA_OPERAND_MASK, read_factor(code),
				 p->cie->data_align);
		return 0;
	case CFA_RESTORE:
		state_restore(state, op & CFA_OPERAND_MASK, &p->cie->initial);
		return 0;
	}
	switch (op) {
	case CFA_NOP:
		return 0;
	case CFA_ADVANCE_LOC1:
		return program_advance(p, m, cursor_u8(code));
	case CFA_ADVANCE_LOC2:
		return program_advance(p, m, cursor_u16(code));
	case CFA_REMEMBER_STATE:
		return program_remember(p, state);
	case CFA_RESTORE_STATE:
		return program_recall(p, state);
	case CFA_DEF_CFA:
		state->cfa_register = read_uleb(code);
		state->cfa_offset = read_factor(code);
		state_use_register(state);
		return 0;
	case CFA_DEF_CFA_REGISTER:
		state->cfa_register = read_uleb(code);
		state_use_register(state);
		return 0;
	}
	struct machine copy;
	machine_copy(&copy, m);
	int rc = program_run_rare(p, op, &copy);
	machine_copy(m, &copy);
	return rc;
}

/* Until the end of the program or of its FDE: 0, or -EBADMSG, -E2BIG (budget), -ENOMEM;
 * PROGRAM_DONE. */
static int program_run(struct program *p, struct machine *machine)
{
	struct machine m;
	uint64_t left = p->parser->left.instructions;
	int rc = 0;

	machine_copy(&m, machine);
	while (rc == 0 && cursor_left(&m.code) > 0) {
		if (left == 0) {
			rc = -E2BIG;
			break;
		}
		left--;
		rc = program_step(p, &m);
	}
	p->parser->left.instructions = left;
	machine_copy(machine, &m);
	return rc == 0 && m.code.failed ? -EBADMSG : rc;
}

/* ---- Entries ---- */

/* The entry at the cursor. 1 and an entry; 0 at the end; -EBADMSG: too short to be one, the cursor
 * is behind it; -ENODATA: its length goes past the section. */
static inline int entry_read(const struct cfi_section *section, struct cursor *c,
			     struct entry *entry)
{
	if (cursor_left(c) == 0)
		return 0;
	uint64_t length = cursor_u32(c);
	bool wide = length == UINT32_MAX;
	if (wide)
		length = cursor_u64(c);
	if (c->failed)
		return -ENODATA;
	/* A terminator; in .debug_frame only padding. */
	if (length == 0)
		return section->debug_frame ? -EAGAIN : 0;

	entry->id_offset = cursor_offset(c);
	entry->body = cursor_sub(c, length);
	if (entry->body.failed)
		return -ENODATA;
	if (section->debug_frame && wide) {
		entry->id = cursor_u64(&entry->body);
		entry->is_cie = entry->id == UINT64_MAX;
	} else {
		entry->id = cursor_u32(&entry->body);
		entry->is_cie = entry->id == (section->debug_frame ? UINT32_MAX : 0);
	}
	return entry->body.failed ? -EBADMSG : 1;
}

/* The data that an augmentation string announces. What is not known is skipped, which needs the
 * 'z'. */
static bool cie_parse_augmentation(const struct parser *parser, struct cie *cie, const char *string,
				   struct cursor *c)
{
	struct cursor data;

	if (string[0] == '\0' || strcmp(string, "eh") == 0)
		return true;
	if (string[0] != 'z')
		return false;
	cie->augmented = true;
	data = cursor_sub(c, read_uleb(c));
	for (string++; *string && !data.failed; string++) {
		struct cie personality = *cie;
		uint64_t ignored;

		switch (*string) {
		case 'R':
			cie->encoding = cursor_u8(&data);
			break;
		case 'L':
			cursor_u8(&data);
			break;
		case 'P':
			/* Only its length matters, so that being indirect is no obstacle. */
			personality.encoding = cursor_u8(&data) & (uint8_t)~PE_INDIRECT;
			if (!read_pointer(parser->section, &data, &personality, &(uint64_t){0},
					  &ignored))
				return false;
			break;
		case 'S':
			cie->signal_frame = true;
			break;
		case 'B': /* arm64: pointers are signed with key B */
		case 'G': /* arm64: frames are tagged */
			break;
		default:
			return !data.failed;
		}
	}
	return !data.failed;
}

/* The fields of a CIE before its initial instructions. */
static bool cie_parse_header(const struct parser *parser, struct cie *cie, struct cursor *c)
{
	cie->address_bytes = sizeof(uint64_t);
	cie->encoding = PE_ABSPTR;
	uint8_t version = cursor_u8(c);
	if (version != 1 && version != 3 && version != 4)
		return false;

	size_t left = cursor_left(c);
	struct cursor bounded =
	    cursor_init(c->at, left < AUGMENTATION_MAX ? left : AUGMENTATION_MAX);
	const char *augmentation = cursor_string(&bounded);
	if (!augmentation)
		return false;
	cursor_skip(c, cursor_offset(&bounded));
	if (version == 4) {
		cie->address_bytes = cursor_u8(c);
		cie->selector_bytes = cursor_u8(c);
	}
	if (strcmp(augmentation, "eh") == 0)
		cursor_skip(c, cie->address_bytes); /* an exception table of old */
	cie->code_align = read_uleb(c);
	cie->data_align = read_sleb(c);
	uint64_t ra = version == 1 ? cursor_u8(c) : read_uleb(c);
	return !c->failed && ra == REGISTER_RA &&
	       (cie->address_bytes == sizeof(uint64_t) || cie->address_bytes == sizeof(uint32_t)) &&
	       cie->selector_bytes <= SELECTOR_BYTES_MAX &&
	       cie_parse_augmentation(parser, cie, augmentation, c);
}

/* Parse and run a CIE. -EBADMSG if it is none that can be used; other errors are not the CIE's. */
static int cie_parse(struct parser *parser, struct cie *cie)
{
	struct cursor c = cursor_init(parser->section->data, parser->section->length);
	struct entry entry;

	cursor_seek(&c, cie->offset);
	if (entry_read(parser->section, &c, &entry) != 1 || !entry.is_cie ||
	    !cie_parse_header(parser, cie, &entry.body))
		return -EBADMSG;

	cie->initial = state_blank(cie->signal_frame);
	struct program program = {.parser = parser, .cie = cie};
	struct machine machine = {.code = entry.body, .state = cie->initial};
	int rc = program_run(&program, &machine);
	if (rc != 0)
		return rc == PROGRAM_DONE ? -EBADMSG : rc; /* there is nowhere to advance to */
	cie->initial = machine.state;
	return 0;
}

/* The CIE at an offset, from the cache or parsed now. One that is bad is remembered as such. */
static int cie_get(struct parser *parser, uint64_t offset, const struct cie **found)
{
	uint64_t hash = (offset * 0x9e3779b97f4a7c15ull) >> 32;
	struct cie *cie = &parser->cies[hash % CIE_CACHE_SLOTS];

	if (cie->status == CIE_NONE || cie->offset != offset) {
		*cie = (struct cie){.offset = offset};
		int rc = cie_parse(parser, cie);
		if (rc < 0 && rc != -EBADMSG) {
			cie->status = CIE_NONE;
			return rc;
		}
		cie->status = rc == 0 ? CIE_GOOD : CIE_BAD;
	}
	if (cie->status == CIE_BAD)
		return -EBADMSG;
	*found = cie;
	return 0;
}

/* An FDE's address range and the way to its instructions. 1: nothing is wrong, but there is no
 * code. */
static int fde_read_range(const struct parser *parser, const struct cie *cie, struct cursor *c,
			  struct cfi_fde *fde)
{
	uint64_t range;

	cursor_skip(c, cie->selector_bytes);
	if (cie->encoding == (PE_PCREL | PE_SDATA4)) {
		/* What all but a few linkers write, spelled out: read_pointer() would say the same.
		 */
		uint64_t base = vaddr_of(parser->section, c);
		uint64_t value = (uint64_t)(int32_t)cursor_u32(c);

		fde->start = value ? base + value : 0;
		range = (uint64_t)(int32_t)cursor_u32(c);
	} else if (!read_pointer(parser->section, c, cie, NULL, &fde->start) ||
		   !read_format(c, cie->encoding & PE_FORMAT_MASK, cie->address_bytes, &range)) {
		return -EBADMSG;
	}
	if (cie->augmented)
		cursor_skip(c, read_uleb(c));
	if (c->failed)
		return -EBADMSG;
	if (fde->start == 0 || range == 0)
		return 1;
	return __builtin_add_overflow(fde->start, range, &fde->end) ? -EBADMSG : 0;
}

/* Run an FDE's program into rows. 0, 1 if it covers nothing, or an error as program_run()'s. */
static int fde_parse(struct parser *parser, struct entry *entry, struct cfi_fde *fde)
{
	uint64_t offset = entry->id;
	const struct cie *cie = NULL;
	struct program program;

	if (!parser->section->debug_frame) {
		if (entry->id > entry->id_offset)
			return -EBADMSG;
		offset = entry->id_offset - entry->id;
	}
	int rc = cie_get(parser, offset, &cie);
	if (rc == 0)
		rc = fde_read_range(parser, cie, &entry->body, fde);
	if (rc != 0)
		return rc;

	/* Not initialized as a whole: the remembered states are most of it and seldom used. */
	program.parser = parser;
	program.cie = cie;
	program.start = fde->start;
	program.end = fde->end;
	program.remembered_count = 0;
	struct machine machine = {.code = entry->body, .at = fde->start, .state = cie->initial};
	rows_restart(&parser->rows, parser->left.rows);
	rc = program_run(&program, &machine);
	return rc < 0 ? rc : program_commit(&program, &machine);
}

/* Count and hand over what fde_parse() made. */
static int fde_deliver(struct parser *parser, struct cfi_fde *fde, cfi_fde_fn fn, void *context)
{
	struct rows *rows = &parser->rows;

	parser->left.rows -= rows->count;
	parser->stats->fdes++;
	parser->stats->rows += rows->count;
	parser->stats->unknown_rows += rows->unknown;
	fde->starts = rows->starts;
	fde->rules = rows->rules;
	fde->row_count = (unsigned int)rows->count;
	return fn(context, fde);
}

/* All entries in turn; returns as cfi_parse() does. */
static int section_parse(struct parser *parser, cfi_fde_fn fn, void *context)
{
	const struct cfi_section *section = parser->section;
	struct cursor c = cursor_init(section->data, section->length);
	struct entry entry;
	struct cfi_fde fde;

	for (;;) {
		int rc = entry_read(section, &c, &entry);
		if (rc == -EAGAIN || (rc == 1 && entry.is_cie))
			continue;
		if (rc == 0)
			return 0;
		if (rc == -ENODATA) {
			parser->stats->truncated = true;
			return 0;
		}
		if (parser->left.fdes == 0)
			return -E2BIG;
		parser->left.fdes--;
		if (rc == 1)
			rc = fde_parse(parser, &entry, &fde);
		if (rc == -EBADMSG)
			parser->stats->bad_fdes++;
		else if (rc < 0)
			return rc;
		else if (rc == 0)
			rc = fde_deliver(parser, &fde, fn, context);
		else
			rc = 0;
		if (rc != 0 && rc != -EBADMSG)
			return rc;
	}
}

int cfi_parse(const struct cfi_section *section, const struct cfi_budget *budget, cfi_fde_fn fn,
	      void *context, struct cfi_stats *stats)
{
	struct parser parser = {.section = section, .left = *budget, .stats = stats};

	*stats = (struct cfi_stats){0};
	parser.cies = calloc(CIE_CACHE_SLOTS, sizeof(*parser.cies));
	if (!parser.cies)
		return -ENOMEM;
	int rc = section_parse(&parser, fn, context);
	if (rc == -E2BIG)
		stats->truncated = true;
	free(parser.cies);
	free(parser.rows.starts);
	free(parser.rows.rules);
	return rc;
}
