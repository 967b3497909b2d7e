/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * CRuby 2.7, 3.1 to 3.4, and 4.0, with and without YJIT and ZJIT: what the walker and the
 * symbolizer share. All offsets are in bytes. They are offsets of fields in the structures of
 * vm_core.h, method.h and internal/imemo.h. Those below are the same in these versions on machines
 * with 64-bit pointers; symbolizer/runtime/ruby_file.c has the table of the others.
 */
#ifndef BPF_RUNTIME_RUBY_H
#define BPF_RUNTIME_RUBY_H

#include "bpf/runtime/frame_word.h"
#include "bpf/runtime/text_hash.h"
#include "bpf/runtime/thread_key.h"
#include "bpf/shared.h"

enum {
	/* rb_execution_context_t, in words: the VM stack, its size in words, and the innermost
	 * frame. */
	RUBY_CONTEXT_STACK = 0,
	RUBY_CONTEXT_SIZE = 1,
	RUBY_CONTEXT_FRAME = 2,
	RUBY_CONTEXT_WORDS = 3,

	/* rb_control_frame_t: a frame. The next one outwards follows it in memory. */
	RUBY_FRAME_PC = 0,
	RUBY_FRAME_CODE = 16, /* rb_iseq_t */
	RUBY_FRAME_ENVIRONMENT = 32,
	RUBY_FRAME_BYTES = 56, /* of these fields */

	/* The environment of a frame: the words from `ep` - 16 on. */
	RUBY_ENVIRONMENT_METHOD = 0, /* ep[-2]: an rb_method_entry_t or something else */
	RUBY_ENVIRONMENT_OUTER = 1,  /* ep[-1]: of a block, the environment around it */
	RUBY_ENVIRONMENT_FLAGS = 2,  /* ep[0] */
	RUBY_ENVIRONMENT_WORDS = 3,

	/* The flags (vm_core.h, VM_FRAME_*, VM_ENV_FLAG_*). */
	RUBY_FLAG_LOCAL = 0x2,	       /* it is in no other environment */
	RUBY_FLAG_FINISH = 0x20,       /* C code has called */
	RUBY_FLAG_METHOD_BLOCK = 0x40, /* the block is the code of a method (define_method) */
	RUBY_FLAG_C = 0x80,	       /* the frame executes no instructions */
	RUBY_FLAG_TYPE = 0x7fff0001,
	RUBY_TYPE_METHOD = 0x11110001,
	RUBY_TYPE_C = 0x55550001, /* a method that is written in C */

	/* Objects begin with flags, whose lowest bits are the type (ruby_value_type). */
	RUBY_OBJECT_TYPE = 0x1f,
	RUBY_OBJECT_CLASS = 0x02,
	RUBY_OBJECT_MODULE = 0x03,
	RUBY_OBJECT_STRING = 0x05,
	RUBY_OBJECT_ARRAY = 0x07,
	RUBY_OBJECT_INTERNAL = 0x1a, /* T_IMEMO, which has a type of its own */
	RUBY_OBJECT_INCLUDED = 0x1c, /* T_ICLASS */
	RUBY_OBJECT_MOVED = 0x1e,    /* the collector has moved it, and will change references */
	RUBY_MOVED_TO = 2,	     /* the word with its new address (struct RMoved) */
	RUBY_OBJECT_WORDS = 4,	     /* that are read of an object */
	RUBY_INTERNAL_SHIFT = 12,
	RUBY_INTERNAL_MASK = 0xf,
	RUBY_INTERNAL_VARIABLES = 2, /* imemo_svar: it has the method in its second word */
	RUBY_INTERNAL_METHOD = 6,    /* imemo_ment: rb_method_entry_t */
	/* RSTRING_NOEMBED of a string, RARRAY_EMBED_FLAG of an array. */
	RUBY_OBJECT_FLAG = 1 << 13,
	RUBY_STRING_LENGTH = 16, /* unless it is in the flags */
	RUBY_STRING_POINTER = 24,
	RUBY_STRING_SHIFT = 14, /* of the length in the flags, if the text starts at 16 */
	RUBY_STRING_MASK = 0x1f,
	RUBY_ARRAY_ELEMENTS = 16, /* in the object itself */
	RUBY_ARRAY_POINTER = 32,
	RUBY_ARRAY_WORDS = 5, /* of these fields */

	/* The table of names (symbol.c): an array of arrays with two words for each id. */
	RUBY_ID_SHIFT = 4, /* ID_SCOPE_SHIFT */
	RUBY_IDS_IN_PART = 512,
	RUBY_WORDS_OF_ID = 2, /* the string and the symbol */

	/* rb_method_entry_t, in words, and rb_method_definition_t. */
	RUBY_METHOD_DEFINITION = 2,
	RUBY_METHOD_OWNER = 4, /* the class */
	RUBY_METHOD_WORDS = 5,
	RUBY_DEFINITION_ID = 32,     /* of the name */
	RUBY_DEFINITION_SERIAL = 40, /* no other definition of the process has this number */
	RUBY_DEFINITION_WORDS = 6,

	/* rb_iseq_t and its body, in words. */
	RUBY_CODE_BODY = 16,
	RUBY_BODY_EVALUATED = 6, /* ISEQ_TYPE_EVAL; the lower half of the first word is the type */
	RUBY_BODY_SIZE = 0,	 /* the upper half: the number of words of its instructions */
	RUBY_BODY_START = 1,	 /* the first instruction */
	RUBY_BODY_PATH = 8,	 /* a string, or an array with it */
	RUBY_BODY_BASE = 9,	 /* the name of the method */
	RUBY_BODY_LABEL = 10,	 /* the name as backtraces show it */
	RUBY_BODY_LINE = 11,	 /* the first line */
	RUBY_BODY_WORDS = 12,

	/* bh_runtime_range.data. */
	RUBY_RANGE_LOOP = 0, /* the loop over instructions (vm_exec_core) */
	RUBY_RANGE_EXEC = 1, /* the only function that calls it (rb_vm_exec) */
	RUBY_RANGE_JIT = 2,  /* what the JIT compiler has made, which both of them call */

	/* Of struct ruby_block. */
	RUBY_PARTS = 4,
	RUBY_LEAVE_PARTS = 2,
};

struct ruby_block {
	/* Where a thread keeps the address of its execution context: in the thread-local storage of
	 * this module, or, if that is 0, at this distance from the thread pointer. */
	uint64_t module, offset;
	/* If there are keys, one of them has the rb_thread_t of the thread (2.7), and that has the
	 * context here. */
	struct thread_key keys[THREAD_KEY_PLACES];
	uint32_t key_count;
	uint32_t thread_context;
	uint32_t context_thread; /* of the context: the rb_thread_t */
	/* The end of rb_vm_exec, where the frames of its loop have been removed. */
	struct {
		uint64_t start, end;
	} leave[RUBY_LEAVE_PARTS];
	uint64_t ids;	     /* address of that of the table of names */
	uint64_t collecting; /* address of the flags that say whether objects are collected */
	uint32_t collecting_mask;
	uint32_t frame_bytes;	 /* sizeof(rb_control_frame_t) */
	uint32_t text;		 /* where the text of a short string starts in it */
	uint32_t line_is_object; /* the first line of code is a Ruby number */
	uint32_t thread_status;	 /* rb_thread_t, the bits of its status are the lowest ones */
	uint32_t class_word; /* of RClass: what another class at the same address does not have */
	uint32_t class_path; /* of RClass: its name; 0: it is elsewhere */
	uint32_t lines;	     /* rb_iseq_constant_body.insns_info */
	uint32_t last_operator; /* the last id that has no type */
	/* Of a frame: where compiled code goes on when it is left, 0 if the interpreter has pushed
	 * it. 0: there is no compiler. */
	uint32_t jit_return;
	/* The code of the loop and of rb_vm_exec, with the parts that the compiler has split off.
	 * Empty parts have zeros. */
	struct ruby_part {
		uint64_t start, end;
		uint64_t is_exec;
	} parts[RUBY_PARTS];
};
_Static_assert(sizeof(struct ruby_block) <= BH_RUNTIME_BLOCK_BYTES, "fits");

/*
 * A managed frame of Ruby has two words, or three. The payload of the first one is the address of
 * the body of the code, or of a method's definition; neither is ever moved. The second one is a
 * frame_word(), whose position has the lower bits of the index of the word at the pc
 * (ruby_position()). The third one is the address of the method's class, if there is a method. The
 * method entry itself may be gone when its name is read: one is made for each call of a method that
 * was bound to an object (UnboundMethod#bind).
 */
enum ruby_frame {
	RUBY_FRAME_BODY,    /* methods, blocks, classes, files, evaluated texts */
	RUBY_FRAME_C,	    /* a method that is written in C */
	RUBY_FRAME_COLLECT, /* the garbage collector; the payload has no meaning */
	RUBY_FRAMES
};

/* Returns what a frame says about its pc. From this and the start of the instructions follows its
 * position in them, because they have less than FRAME_WORD_POSITION_MASK words. */
static inline uint64_t ruby_position(uint64_t pc)
{
	return pc >> 3 & FRAME_WORD_POSITION_MASK;
}

/* Returns the place of an id in the table of names. Ids above that of the last operator have a type
 * in their lower bits. */
static inline uint32_t ruby_id_serial(uint64_t id, uint32_t last_operator)
{
	return (uint32_t)(id > last_operator ? id >> RUBY_ID_SHIFT : id);
}

/* Returns whether what is at an address may be an object: neither a number, nil, true or false, nor
 * a symbol. */
static inline int ruby_may_be_object(uint64_t value)
{
	return value && !(value & 7);
}

/* Returns what distinguishes code from other code at the same address later. `owner` distinguishes
 * the class of the method that the code belongs to (0: there is no method). `body` are the first
 * words of its body. `label` and `path` are text_hash() of what they refer to, because strings
 * are freed before the code. */
static inline uint32_t ruby_identity(uint64_t owner, const uint64_t body[RUBY_BODY_WORDS],
				     uint32_t label, uint32_t path)
{
	return frame_word_hash(owner << 16, body[RUBY_BODY_START] ^ body[RUBY_BODY_SIZE],
			       (uint64_t)label << 32 ^ path ^ body[RUBY_BODY_LINE] << 16);
}

/* Does the same for a method that is written in C. `serial` is that of its definition. */
static inline uint32_t ruby_c_identity(uint64_t serial, uint64_t owner)
{
	return frame_word_hash(serial, owner, 0);
}

#endif
