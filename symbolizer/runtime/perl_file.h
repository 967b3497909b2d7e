/* SPDX-License-Identifier: Apache-2.0 */
/* Recognises a perl executable or libperl and determines its version and structure offsets. */
#ifndef SYMBOLIZER_RUNTIME_PERL_FILE_H
#define SYMBOLIZER_RUNTIME_PERL_FILE_H

#include "bpf/runtime/perl.h"
#include "symbolizer/runtime/runtime.h"

enum {
	PERL_RUN_LOOPS = 2 /* the usual one, and that of builds with -DDEBUGGING */
};

/* Offsets that differ between versions, in bytes (struct perl_block). */
struct perl_offsets {
	uint8_t version;		   /* 36 in Perl 5.36 */
	uint16_t cop, values, stack, jump; /* in the interpreter */
	uint8_t stack_type, context_bytes, context_sub;
	uint16_t op_sort, op_entersub, op_nextstate, op_dbstate; /* the types of ops */
};

/* Returns whether ops of this type begin a statement. */
static inline bool perl_is_statement(const struct perl_offsets *offsets, uint32_t type)
{
	return type == offsets->op_nextstate || type == offsets->op_dbstate;
}

/* What the processes of a file share. Addresses are virtual addresses of the file. */
struct perl_image {
	const struct perl_offsets *offsets;
	struct runtime_symbol run_loops[PERL_RUN_LOOPS]; /* size 0: there is no such one */
	struct runtime_variable key; /* PL_thr_key; zeros: built without threads */
	/* PL_curinterp; zeros: the fields of the interpreter are variables, without a struct. */
	struct runtime_variable current;
	uint64_t op, cop, values, stack, jump;
};

/* Implements the `recognise` operation of struct runtime_ops. `*image` is a struct perl_image,
 * freed with free(). */
int perl_file_recognise(const struct runtime_file *file, void **image,
			struct runtime_refusal *refusal);

#endif
