/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * V8 (Node.js): what the walker and the symbolizer share.
 *
 * How this works. All code that V8 generates, and its builtins, link their frames by rbp. At fixed
 * distances from rbp (src/execution/frame-constants.h) are
 *
 *	rbp -  8	the context of the function, or the type of the frame as a small integer
 *	rbp - 16	the JSFunction
 *	rbp - 32	the BytecodeArray, in a frame of the interpreter
 *	rbp - 40	the position in the bytecodes, in a frame of the interpreter
 *
 * A JSFunction is a closure, and moves at each collection of young objects. It refers to a
 * SharedFunctionInfo, which describes the function in the source and rarely moves. That refers to
 * its Script. A function is identified by the number of its script, which an isolate assigns once,
 * and the number of the function in the script.
 *
 * Example: a frame of the interpreter has the JSFunction 0x9f5c5adef91 (the lowest bit is a tag).
 * The word at 0x9f5c5adef91 - 1 + 32 is the SharedFunctionInfo 0x77f0ffe2881. In it are the Script
 * and the function literal 2; the Script has the number 81. The frame becomes two words: the
 * address 0x77f0ffe2881, and the identity of (81, 2) with the position in the bytecodes.
 */
#ifndef BPF_RUNTIME_V8_H
#define BPF_RUNTIME_V8_H

#include "bpf/runtime/frame_word.h"
#include "bpf/shared.h"

/* The data of a range. */
enum v8_range {
	V8_RANGE_CODE,	   /* compiled code and regular expressions, in anonymous memory */
	V8_RANGE_ENTRY,	   /* the builtin InterpreterEntryTrampoline; the range starts with it */
	V8_RANGE_HANDLERS, /* the handlers of bytecodes */
};

enum {
	V8_TAG = 1, /* of a pointer to an object; kHeapObjectTag in include/v8-internal.h */
	V8_TAG_MASK = 3,
	V8_SMI_SHIFT = 32, /* of a small integer, without pointer compression */
	/* The type of a frame is stored as a small integer of one bit less:
	 * StackFrame::TypeToMarker in src/execution/frames.h. */
	V8_MARKER_SHIFT = 1,
	V8_MARKER_MAX = 127, /* V8 14.6 has 34 types of frames */
};

struct v8_block {
	uint16_t function_shared; /* JSFunction: its SharedFunctionInfo */
	uint16_t shared_script;	  /* SharedFunctionInfo: its Script; 20 bytes later is the number
				   * of the function literal */
	uint16_t script_id;
	/* Offsets in the code of InterpreterEntryTrampoline: the instruction that pushes rbp, the
	 * call of the first handler, and the instruction "leave". */
	uint16_t entry_push, entry_call, entry_leave;
	/* The same of the instruction "push rcx" after it. Before that the arguments are removed:
	 * rbx << entry_shift bytes. */
	uint16_t entry_removed, entry_shift;
};
_Static_assert(sizeof(struct v8_block) <= BH_RUNTIME_BLOCK_BYTES, "fits");

enum {
	/* From the field for the Script to the number of the function literal, in V8 11.3 to 14.6
	 * (src/objects/shared-function-info.tq): the Script, four numbers of 16 bits, flags. */
	V8_SHARED_LITERAL_DISTANCE = 20,
};

/*
 * A managed frame has three words. The payload of the first is the address of the
 * SharedFunctionInfo (interpreted) or the pc. The second is a frame_word(). The third is the
 * BytecodeArray (interpreted) or the SharedFunctionInfo (compiled). A marked frame has the first
 * two words only.
 */
enum v8_frame {
	V8_FRAME_INTERPRETED,  /* position: as in the frame, or V8_NO_POSITION */
	V8_FRAME_COMPILED,     /* payload: the return address */
	V8_FRAME_COMPILED_TOP, /* payload: where the code was interrupted */
	V8_FRAME_MARKED,       /* payload: pc; position: the type of the frame */
};

enum {
	V8_NO_POSITION = FRAME_WORD_POSITION_MASK,
};

/* Returns what distinguishes a function from others that are placed at the same address later: a
 * hash of the number of its script, the number of the function in it, and of two of the numbers
 * that follow the field for the Script (`numbers`): the count of parameters and the distance from
 * the word "function" to them. The others, length, expected properties and flags, may change. */
static inline uint32_t v8_identity(uint64_t script_id, uint32_t literal, uint64_t numbers)
{
	return frame_word_hash(script_id, literal, (uint32_t)(numbers >> 16));
}

#endif
