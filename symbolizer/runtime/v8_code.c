/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this works. Compiled code is in an InstructionStream: some words, then instructions, which
 * start at a multiple of 64 bytes. The second word refers to the Code, which describes it: where it
 * starts, its size, the compiler, and tables. There is no index of all code that could be used from
 * outside in all versions. So the start is searched from the pc towards lower addresses, in steps
 * of 64: there is code at an address if the word before says so, and if that Code has this address
 * as its start. It follows that a chance match is impossible.
 *
 * Baseline code has a table from which the bytecode of an instruction follows, and the bytecodes'
 * table of positions. Maglev and TurboFan code has a table of positions of its own. A position
 * there may name a place where a function was inlined. The data for deoptimization has a table of
 * these places: the position of the call, and which function was called.
 *
 * Example: pc is 0x7f59de7c6bbf. At 0x7f59de7c6b80 and 0x7f59de7c6b40 there is no start. At
 * 0x7f59de7c6b00 the Code says: from here on 480 bytes of TurboFan. Offset 0xbf has the position
 * 120 in the inlined place 0. Place 0 is a call of the function 0, in position 64 of the function
 * itself. So there are two frames.
 */
#include "symbolizer/runtime/v8_code.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bpf/runtime/v8.h"
#include "symbolizer/runtime/limits.h"

/* Shown as called by a function whose code was moved or freed before it was read: what was inlined
 * there is unknown. */
#define UNKNOWN_INLINED "[inlined functions no longer in memory]"

enum {
	CODE_ALIGNMENT = 64, /* kCodeAlignment, src/common/globals.h */
	STREAM_CODE = 8,     /* InstructionStream: the Code */
	PIECE_BYTES = 4096,
	CODE_BYTES = 72, /* of a Code, with all fields that are needed */
	KIND_MASK = 15,	 /* v8dbg_CodeKindFieldMask */
	ARRAY_DATA = 16,
	WRAPPED = 8, /* SharedFunctionInfoWrapper::shared_info */
	WEAK = 2,    /* the bit of a tagged address that says that the reference is weak */
	PLACE_BYTES = 16,
	PLACE_FUNCTION = 8, /* InliningPosition: after the position */
	/* Frames that are left out of too many are followed by one that says how many, and by the
	 * function itself. */
	OUTER_SHOWN = 2,
	FRAME_TEXT_BYTES = V8_FILE_BYTES + 1024, /* a name has at most 512 + 256 + 7 */
};

/* The fields of a Code. */
struct code_head {
	uint64_t address; /* tagged */
	uint64_t start, deopt, positions;
	uint32_t flags, size;
};

/* A function, and one of those that are inlined in another. */
struct inlined {
	uint64_t address;  /* of the SharedFunctionInfo, without the tag */
	uint32_t identity; /* 0: it could not be read */
};

struct v8_code {
	struct code_head head;
	struct inlined own; /* the function that was compiled */
	uint8_t *positions;
	size_t positions_length;
	uint8_t *places; /* calls that were inlined: PLACE_BYTES each */
	size_t place_count;
	struct inlined *inlined;
	size_t inlined_count;
	uint8_t *bytecodes; /* of baseline code */
	size_t bytecodes_length;
};

static void code_free(struct v8_code *code)
{
	if (!code)
		return;
	free(code->positions);
	free(code->places);
	free(code->inlined);
	free(code->bytecodes);
	free(code);
}

static size_t code_bytes(const struct v8_code *code)
{
	return sizeof(*code) + code->positions_length + code->place_count * PLACE_BYTES +
	       code->inlined_count * sizeof(*code->inlined) + code->bytecodes_length;
}

void v8_codes_fini(struct v8_codes *codes)
{
	for (int i = 0; codes->table && i < V8_CODES_CACHED; i++)
		code_free(codes->table[i]);
	free(codes->table);
	*codes = (struct v8_codes){0};
}

static uint64_t field(const struct v8_heap *heap, const uint8_t *bytes, enum v8_constant name,
		      size_t length)
{
	const uint32_t offset = v8_constant(heap, name);
	uint64_t value = 0;

	if (offset + length <= CODE_BYTES)
		memcpy(&value, bytes + offset, length);
	return value;
}

static int read_head(struct v8_heap *heap, uint64_t address, struct code_head *head)
{
	uint8_t bytes[CODE_BYTES];

	if ((address & V8_TAG_MASK) != V8_TAG)
		return -ESTALE;
	int r = memory_read(heap->memory, address - V8_TAG, bytes, sizeof(bytes));
	if (r < 0)
		return r;
	*head = (struct code_head){.address = address,
				   .start = field(heap, bytes, V8_CODE_START, 8),
				   .deopt = field(heap, bytes, V8_CODE_DEOPT, 8),
				   .positions = field(heap, bytes, V8_CODE_POSITIONS, 8),
				   .flags = (uint32_t)field(heap, bytes, V8_CODE_FLAGS, 4),
				   .size = (uint32_t)field(heap, bytes, V8_CODE_SIZE, 4)};
	return 0;
}

/* Returns whether there is code from `start` on, described by the object `address`, with `pc` in
 * it. */
static bool is_start(struct v8_heap *heap, uint64_t start, uint64_t address, uint64_t pc,
		     struct code_head *head)
{
	const uint64_t stream = start - v8_constant(heap, V8_STREAM_START) + V8_TAG;

	return read_head(heap, address, head) == 0 && head->start == start &&
	       pc - start < head->size && v8_heap_check(heap, address, V8_TYPE_CODE) == 0 &&
	       v8_heap_check(heap, stream, V8_TYPE_STREAM) == 0;
}

/* Finds the code at `pc`. -ESTALE if there is none. */
static int find_head(struct v8_heap *heap, uint64_t pc, struct code_head *head)
{
	const uint32_t before = v8_constant(heap, V8_STREAM_START);
	uint8_t bytes[PIECE_BYTES + CODE_ALIGNMENT];
	uint64_t start = pc & ~(CODE_ALIGNMENT - 1ull);

	if (before > CODE_ALIGNMENT || before < STREAM_CODE + sizeof(uint64_t))
		return -ESTALE;
	while (pc - start < V8_CODE_BYTES_MAX && start >= PIECE_BYTES + CODE_ALIGNMENT) {
		/* The piece ends with the words before `start`, and begins in the same page. */
		const uint64_t page = (start - before) & ~(PIECE_BYTES - 1ull);
		const size_t length = (size_t)(start - page);

		int r = memory_read(heap->memory, page, bytes, length);
		if (r < 0)
			return r == -EFAULT ? -ESTALE : r;
		for (; start - page >= before && start - page <= length; start -= CODE_ALIGNMENT) {
			uint64_t words[2];

			memcpy(words, bytes + (start - page - before), sizeof(words));
			if ((words[0] & V8_TAG_MASK) == V8_TAG &&
			    (words[1] & V8_TAG_MASK) == V8_TAG &&
			    is_start(heap, start, words[1], pc, head))
				return 0;
		}
	}
	return -ESTALE;
}

/* Reads an element of a FixedArray or one of its relatives. */
static int element(struct v8_heap *heap, uint64_t array, uint32_t index, uint64_t *value)
{
	return v8_heap_word(heap, array, ARRAY_DATA + index * 8, value);
}

/* Reads which functions are inlined in optimised code. */
static int read_inlined(struct v8_heap *heap, struct v8_code *code, uint64_t literals, size_t count)
{
	uint64_t *words = calloc(count + 1, sizeof(*words));
	int r = words ? 0 : -ENOMEM;

	if (r == 0 && count)
		r = memory_read(heap->memory, literals - V8_TAG + ARRAY_DATA, words,
				count * sizeof(*words));
	code->inlined = r == 0 ? calloc(count + 1, sizeof(*code->inlined)) : NULL;
	if (r == 0 && !code->inlined)
		r = -ENOMEM;
	for (size_t i = 0; r == 0 && i < count; i++) {
		struct inlined *inlined = &code->inlined[code->inlined_count++];

		inlined->address = (words[i] & ~(uint64_t)WEAK) - V8_TAG;
		r = v8_function_identify(heap, inlined->address, &inlined->identity);
		if (r == -ESTALE || r == -EFAULT) {
			inlined->identity = 0;
			r = 0;
		}
	}
	free(words);
	return r;
}

/* Reads the data for deoptimization. */
static int read_deopt(struct v8_heap *heap, struct v8_code *code)
{
	const uint64_t deopt = code->head.deopt;
	uint64_t shared, literals, places;
	int32_t count;
	int r = element(heap, deopt, v8_constant(heap, V8_DEOPT_SHARED), &shared);

	if (r == 0 && v8_heap_check(heap, shared, V8_TYPE_WRAPPER) == 0)
		r = v8_heap_word(heap, shared, WRAPPED, &shared);
	if (r == 0)
		r = v8_function_identify(heap, shared - V8_TAG, &code->own.identity);
	if (r < 0)
		return r;
	code->own.address = shared - V8_TAG;
	r = v8_heap_small(heap, deopt, ARRAY_DATA + v8_constant(heap, V8_DEOPT_INLINED) * 8,
			  &count);
	if (r == 0 && (count < 0 || count > V8_INLINED_MAX))
		r = -ESTALE;
	if (r == 0)
		r = element(heap, deopt, v8_constant(heap, V8_DEOPT_LITERALS), &literals);
	if (r == 0)
		r = element(heap, deopt, v8_constant(heap, V8_DEOPT_INLINING), &places);
	if (r == 0 && count)
		r = v8_heap_array(heap, places, 1, V8_INLINED_MAX * PLACE_BYTES, &code->places,
				  &code->place_count);
	code->place_count /= PLACE_BYTES;
	return r < 0 ? r : read_inlined(heap, code, literals, (size_t)count);
}

/* Reads the bytecodes from which baseline code was made. */
static int read_bytecodes(struct v8_heap *heap, struct v8_code *code, uint64_t bytecodes)
{
	const uint32_t data = v8_constant(heap, V8_BYTECODE_DATA);
	int32_t length;
	int r = v8_heap_small(heap, bytecodes, 8, &length);

	if (r == 0 && (length < 0 || length > V8_TABLE_BYTES_MAX))
		r = -ESTALE;
	code->bytecodes = r == 0 ? malloc((size_t)length + 1) : NULL;
	if (r == 0 && !code->bytecodes)
		r = -ENOMEM;
	if (r == 0)
		r = memory_read(heap->memory, bytecodes - V8_TAG + data, code->bytecodes,
				(size_t)length);
	if (r == 0)
		code->bytecodes_length = (size_t)length;
	return r;
}

static bool is_baseline(const struct v8_heap *heap, const struct v8_code *code)
{
	return (code->head.flags & KIND_MASK) == v8_constant(heap, V8_KIND_BASELINE);
}

static bool is_optimised(const struct v8_heap *heap, const struct v8_code *code)
{
	const uint32_t kind = code->head.flags & KIND_MASK;
	const uint32_t baseline = v8_constant(heap, V8_KIND_BASELINE);

	return kind == baseline + 1 || kind == baseline + 2;
}

/* Returns whether it is glue, such as between JavaScript and WebAssembly: CodeKind has the kinds of
 * glue first, then code of the interpreter, then baseline code. */
static bool is_glue(const struct v8_heap *heap, const struct code_head *head)
{
	return (head->flags & KIND_MASK) + 1 < v8_constant(heap, V8_KIND_BASELINE);
}

/* Reads the code that `head` describes. */
static int code_read(struct v8_heap *heap, const struct code_head *head,
		     const struct v8_function *function, struct v8_code **made)
{
	struct v8_code *code = calloc(1, sizeof(*code));
	uint64_t bytecodes;

	if (!code)
		return -ENOMEM;
	code->head = *head;
	int r = v8_heap_array(heap, head->positions, 1, V8_TABLE_BYTES_MAX, &code->positions,
			      &code->positions_length);
	if (r == 0 && is_optimised(heap, code)) {
		r = read_deopt(heap, code);
	} else if (r == 0 && is_baseline(heap, code)) {
		r = v8_function_bytecodes(heap, function, &bytecodes);
		if (r == 0)
			r = read_bytecodes(heap, code, bytecodes);
		code->own.address = function->address;
		code->own.identity = function->identity;
	} else if (r == 0) {
		r = -ESTALE;
	}
	if (r < 0) {
		code_free(code);
		return r;
	}
	*made = code;
	return 0;
}

/* Finds the code at a place, of this function. What is cached is used if the code still describes
 * itself in the same way. -ENOENT: the code belongs to no function of the program. */
static int code_get(struct v8_codes *codes, struct v8_heap *heap, uint64_t pc,
		    const struct v8_function *function, struct v8_code **found)
{
	struct code_head head;
	struct v8_code *code = NULL;
	int r = find_head(heap, pc, &head);

	if (r == 0 && is_glue(heap, &head))
		r = -ENOENT;
	if (r < 0)
		return r;
	if (!codes->table) {
		codes->table = calloc(V8_CODES_CACHED, sizeof(*codes->table));
		if (!codes->table)
			return -ENOMEM;
		codes->bytes = V8_CODES_CACHED * sizeof(*codes->table);
	}
	struct v8_code **entry =
	    &codes->table[(head.start / CODE_ALIGNMENT) & (V8_CODES_CACHED - 1)];
	if (*entry && !memcmp(&(*entry)->head, &head, sizeof(head)) &&
	    (*entry)->own.identity == function->identity) {
		*found = *entry;
		return 0;
	}
	r = code_read(heap, &head, function, &code);
	if (r < 0)
		return r;
	if (code->own.identity != function->identity) {
		code_free(code);
		return -ESTALE;
	}
	if (*entry)
		codes->bytes -= code_bytes(*entry);
	code_free(*entry);
	*entry = code;
	codes->bytes += code_bytes(code);
	*found = code;
	return 0;
}

/* Returns the offset of a position in its function. Instructions before the first position belong
 * to the start of the function. */
static int32_t offset_in(const struct v8_function *function, struct v8_position position)
{
	return position.offset < 0 ? function->start : position.offset;
}

/* Finds the function that was inlined at a place, and the position where it was called. Returns
 * false if there is no such place. */
static bool place_find(const struct v8_code *code, size_t at, const struct inlined **inlined,
		       uint64_t *position)
{
	int32_t index;

	if (at >= code->place_count)
		return false;
	memcpy(position, code->places + at * PLACE_BYTES, sizeof(*position));
	memcpy(&index, code->places + at * PLACE_BYTES + PLACE_FUNCTION, sizeof(index));
	/* Of a recursion, -1 stands for the function that was compiled. */
	*inlined = index < 0 ? &code->own : &code->inlined[index];
	return index == -1 || (index >= 0 && (size_t)index < code->inlined_count);
}

/* Adds the functions that are inlined at a position, up to the one that was compiled. */
static int show_inlined(struct v8_functions *functions, struct v8_heap *heap,
			const struct v8_code *code, struct v8_position *position,
			struct named_frames *frames)
{
	unsigned int left_out = 0;

	while (position->inlining_id >= 0) {
		const size_t at = (size_t)position->inlining_id;
		const struct inlined *inlined;
		struct v8_function *function;
		uint64_t packed;

		if (!place_find(code, at, &inlined, &packed))
			return -ESTALE;
		if (frames->count + OUTER_SHOWN < NAMED_FRAMES_MAX &&
		    sizeof(frames->text) - frames->used > OUTER_SHOWN * FRAME_TEXT_BYTES) {
			int r = v8_function_get(functions, heap, inlined->address,
						inlined->identity, &function);
			if (r == 0)
				r = v8_function_show(functions, heap, function,
						     offset_in(function, *position), frames);
			if (r < 0)
				return r;
		} else {
			left_out++;
		}
		*position = v8_position_unpack(packed);
		/* A call is always in a place that was inlined before. */
		if (position->inlining_id >= (int32_t)at)
			return -ESTALE;
	}
	if (left_out)
		frames->frames[frames->count++] = (struct named_frame){
		    .function = named_frames_format(frames, "[%u inlined frames]", left_out),
		    .file = ""};
	return 0;
}

/* Finds the position at a place of code. */
static struct v8_position find_position(const struct v8_heap *heap, const struct v8_code *code,
					const struct v8_function *function, uint64_t pc)
{
	const struct v8_image *image = heap->image;
	const uint32_t offset = (uint32_t)(pc - code->head.start);
	const struct v8_bytecodes bytecodes = {.bytes = code->bytecodes,
					       .length = code->bytecodes_length,
					       .sizes = image->bytecode_sizes,
					       .count = image->bytecode_count};

	const struct v8_position_table table = {.bytes = code->positions,
						.length = code->positions_length,
						.offset_shift = image->position_offset_shift};

	if (!is_baseline(heap, code))
		return v8_position_find(&table, offset);
	const int32_t at =
	    v8_position_baseline(code->positions, code->positions_length, offset, &bytecodes);
	if (at < 0)
		return (struct v8_position){.offset = -1, .inlining_id = -1};
	return v8_function_position(heap, function, (uint32_t)at);
}

int v8_code_show(struct v8_codes *codes, struct v8_functions *functions, struct v8_heap *heap,
		 const struct v8_place *place, struct named_frames *frames)
{
	struct v8_position position = {.offset = -1, .inlining_id = -1};
	struct v8_function *function;
	struct v8_code *code;
	bool found = false;
	int r = v8_function_get(functions, heap, place->shared, place->identity, &function);

	if (r < 0)
		return r;
	r = code_get(codes, heap, place->pc, function, &code);
	if (r == 0) {
		position = find_position(heap, code, function, place->pc);
		r = show_inlined(functions, heap, code, &position, frames);
		found = r == 0;
	}
	if (r == -ESRCH || r == -ENOENT)
		return r == -ENOENT ? 0 : r;
	if (!found) {
		frames->used = frames->count = 0;
		/* The code of such a function is glue. */
		if (v8_function_is_wasm(heap, place->shared))
			return 0;
		frames->frames[0] = (struct named_frame){.function = UNKNOWN_INLINED, .file = ""};
		frames->count = 1;
	}
	/* The function may have been evicted from the cache by an inlined one. */
	r = v8_function_get(functions, heap, place->shared, place->identity, &function);
	if (r < 0)
		return r;
	return v8_function_show(functions, heap, function,
				found ? offset_in(function, position) : -1, frames);
}
