/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * PHP 7.4 to 8.6: what the walker and the symbolizer share. All offsets are in bytes. They are
 * offsets of fields in the structures of zend_types.h, zend_compile.h, zend_generators.h and
 * zend.h. Those below are the same in all of these versions on machines with 64-bit pointers;
 * symbolizer/runtime/php_file.c has the table of the others.
 */
#ifndef BPF_RUNTIME_PHP_H
#define BPF_RUNTIME_PHP_H

#include "bpf/runtime/frame_word.h"
#include "bpf/runtime/text_hash.h"
#include "bpf/runtime/thread_key.h"
#include "bpf/shared.h"

enum {
	/* zend_execute_data: a call that is being executed. */
	PHP_CALL_OPLINE = 0, /* the instruction that has called, or that is executed */
	PHP_CALL_FUNCTION = 24,
	PHP_CALL_THIS = 32,
	PHP_CALL_INFO = 40, /* This.u1.type_info, 4 bytes: the flags of the call */
	PHP_CALL_PREVIOUS = 48,
	PHP_CALL_BYTES = 56,

	/* A flag in PHP_CALL_INFO. */
	PHP_CALL_TOP = 1 << 17, /* ZEND_CALL_TOP: C code has called */

	/* zend_function. Its type is the lowest byte of the first word. */
	PHP_FUNCTION_TYPE = 0,
	PHP_FUNCTION_NAME = 8,	 /* a string; 0: code of a file or an evaluated text */
	PHP_FUNCTION_CLASS = 16, /* zend_class_entry, or 0 */
	PHP_FUNCTION_BYTES = 24, /* of these fields */
	PHP_TYPE_INTERNAL = 1,	 /* ZEND_INTERNAL_FUNCTION: written in C */
	PHP_TYPE_USER = 2,	 /* ZEND_USER_FUNCTION */
	PHP_TYPE_EVAL = 4,	 /* ZEND_EVAL_CODE */
	/* zend_op_array: the name of the file, at php_block.file, and then the first line. */
	PHP_FILE_LINE = 8,
	PHP_FILE_BYTES = 16,

	/* zend_op: an instruction. */
	PHP_OPLINE_OPERAND = 20, /* extended_value, 4 bytes; then the line and the opcode */
	PHP_OPLINE_BYTES = 32,
	PHP_OPCODE_EXCEPTION = 149,	  /* ZEND_HANDLE_EXCEPTION */
	PHP_OPCODE_FRAMELESS_FIRST = 204, /* ZEND_FRAMELESS_ICALL_0 */
	PHP_OPCODE_FRAMELESS_LAST = 207,

	PHP_CLASS_NAME = 8,

	/* tsrm_tls_entry (TSRM.c): the thread that it belongs to, as pthread_self() says. */
	PHP_THREAD_SELF = 16,

	/* zend_fiber, in words from php_block.fiber_caller on, and zend_fiber_context: where the
	 * fiber was resumed. */
	PHP_FIBER_CALLER = 0,	/* the context of the other one, or of the program */
	PHP_FIBER_PREVIOUS = 1, /* the other fiber, or 0 */
	PHP_FIBER_WORDS = 2,
	PHP_CONTEXT_SAVED = 0, /* the stack pointer there, above which registers are saved */
	PHP_SAVED_WORDS = 12,  /* at most; the last ones are rbp and the return address */

	/* zend_string. The hash is 0 if it was not needed yet, as in the names of closures from 8.4
	 * on; then the end of the text distinguishes it. */
	PHP_STRING_HASH = 8,
	PHP_STRING_LENGTH = 16,
	PHP_STRING_TEXT = 24,

	/* bh_runtime_range.data. */
	PHP_RANGE_LOOP = 0,	   /* the interpreter's loop */
	PHP_RANGE_JIT = 1,	   /* compiled code */
	PHP_RANGE_EXPRESSIONS = 2, /* compiled regular expressions, or code that is none of PHP */
};

struct php_block {
	/* Builds for threads (ZTS): under one of these keys each thread has what its globals follow
	 * (tsrm_tls_entry). The three addresses of fields of EG() are distances from that. */
	struct thread_key keys[THREAD_KEY_PLACES];
	uint32_t key_count; /* 0: it is no such build */
	uint64_t current;   /* address of EG(current_execute_data) */
	/* A return address in the loop where its frame is complete: that of compiled code. */
	uint64_t loop_body;
	/* Of the running fiber, 0: the version has none. And the function that leaves a stack. */
	uint64_t active_fiber;
	uint64_t fiber_caller; /* offset in zend_fiber */
	uint64_t switch_start, switch_end;
	/* The end of the loop, where it has restored the registers of its caller. */
	uint64_t leave_start, leave_end;
	uint64_t before_exception; /* address of EG(opline_before_exception) */
	/* Address of the table of functions that are called without a call, 0: there is none. */
	uint64_t frameless;
	uint32_t file, opcodes, last; /* zend_op_array: filename, opcodes, and how many */
	/* zend_generator: its call, the call that stands for it while it delegates to another
	 * generator (`yield from`), and that other one (node.parent). */
	uint32_t generator_call, generator_placeholder, generator_parent;
};
_Static_assert(sizeof(struct php_block) <= BH_RUNTIME_BLOCK_BYTES, "fits");

/*
 * A managed frame of PHP has two words. The payload of the first one is the address of the
 * function, the second one is a frame_word(), whose position is the line.
 */
enum php_frame {
	PHP_FRAME_FUNCTION,
	PHP_FRAME_INTERNAL, /* a function that is written in C */
	PHP_FRAME_INCLUDE,  /* the code of a file that another one includes */
	PHP_FRAME_EVAL,
	PHP_FRAME_MAIN, /* the code of the file that was started */
	PHP_FRAMES
};

static inline int php_frame_has_file(uint32_t kind)
{
	return kind != PHP_FRAME_INTERNAL;
}

/* Returns what distinguishes a function from another one at the same address later: a hash of the
 * texts of its name, its class and its file, by PHP's own hashes of these strings or
 * text_hash() (0: there is no such text), and its first line. */
static inline uint32_t php_identity(uint64_t name, uint64_t class, uint64_t file, uint32_t line)
{
	return frame_word_hash(name, class ^ (uint64_t)line << 32, file);
}

#endif
