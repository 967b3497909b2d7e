/* SPDX-License-Identifier: Apache-2.0 */
/* Finds places in Ruby's file by the machine code of its exported functions. */
#ifndef SYMBOLIZER_RUNTIME_RUBY_CODE_H
#define SYMBOLIZER_RUNTIME_RUBY_CODE_H

#include "bpf/runtime/ruby.h"
#include "parse/function_ranges.h"
#include "symbolizer/runtime/file.h"
#include "symbolizer/runtime/split_part.h"

/* Where a thread keeps the address of its execution context (ruby_current_ec). */
struct ruby_thread_local {
	/* Address of the module and the offset in it, which the dynamic linker fills in
	 * (tls_index); 0: the offset is relative to the thread pointer. */
	uint64_t index;
	int64_t offset;
};

/* Up to 2.7, a thread keeps its rb_thread_t under a key of pthread_getspecific(3). */
struct ruby_thread_key {
	uint64_t number;  /* address of its number (ruby_native_thread_key); 0: there is no key */
	uint64_t current; /* address of a word that is 0 until the key was created */
};

/* The flags of the garbage collector: a bit of the byte at `flags` in what is at `space` in what
 * the variable refers to. */
struct ruby_collector {
	uint64_t variable; /* 0: not found */
	bool is_indirect;  /* it is the address of the variable's address (GOT) */
	uint32_t space, flags, mask;
};

/* Addresses are virtual addresses of the file. */
struct ruby_code {
	struct ruby_thread_local context;
	struct ruby_thread_key key;
	struct ruby_collector collector;
	uint64_t ids;		    /* of the table of names (global_symbols.ids) */
	struct function_range loop; /* vm_exec_core */
	struct function_range exec; /* rb_vm_exec */
	struct split_part loop_unlikely, exec_unlikely; /* empty: there is none */
	/* The end of `exec`, in one or two parts; empty: not found, or there is none. */
	struct function_range leave[RUBY_LEAVE_PARTS];
};

/* Finds all of it. Returns 0, -ENOENT or -ENOMEM. */
int ruby_code_find(const struct runtime_file *file, struct ruby_code *code);

/* The parts of that which only look at bytes, for tests. `code` are `length` bytes at `vaddr`. Each
 * returns whether it was found. */
bool ruby_code_context(const uint8_t *code, size_t length, uint64_t vaddr,
		       struct ruby_thread_local *context);
bool ruby_code_collector(const uint8_t *code, size_t length, uint64_t vaddr,
			 struct ruby_collector *collector);
/* Finds the table of names in code that compares with the last id. */
bool ruby_code_ids(const uint8_t *code, size_t length, uint64_t vaddr, uint64_t *ids);
/* Finds the end of a function that starts after the call at `call`, an offset in `code`. */
bool ruby_code_leave(const uint8_t *code, size_t length, uint64_t vaddr, size_t call,
		     struct function_range leave[static RUBY_LEAVE_PARTS]);

#endif
