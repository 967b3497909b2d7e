/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recognises Perl's file, and determines the version and its structure offsets.
 *
 * How this works: a file is Perl if it exports Perl_runops_standard and PL_version, whatever
 * its name. Three bytes that it exports are its version. The offsets are in a table in this file.
 * Builds differ in where the interpreter is: with threads each thread has one under the key
 * PL_thr_key; with -Dusemultiplicity there is one, at PL_curinterp; otherwise its fields are
 * variables, of which each is exported.
 *
 * A version that is not in the table is refused, even if its layout should happen to match.
 */
#include "symbolizer/runtime/perl_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "symbolizer/runtime/recognise.h"

/*
 * The offsets on x86-64, from the headers of each version (intrpvar.h, cop.h, opnames.h), compiled
 * with and without threads and -DDEBUGGING, and checked against live processes. Fields of the
 * interpreter after PL_top_env depend on how it was built.
 */
/* clang-format off */
static const struct perl_offsets known_offsets[] = {
    {.version = 26, .cop = 224, .values = 232, .stack = 240, .jump = 896, .stack_type = 40,
     .context_bytes = 96, .context_sub = 64,
     .op_sort = 166, .op_entersub = 184, .op_nextstate = 195, .op_dbstate = 196},
    {.version = 28, .cop = 224, .values = 232, .stack = 240, .jump = 776, .stack_type = 40,
     .context_bytes = 96, .context_sub = 64,
     .op_sort = 167, .op_entersub = 184, .op_nextstate = 195, .op_dbstate = 196},
    {.version = 30, .cop = 224, .values = 232, .stack = 240, .jump = 776, .stack_type = 40,
     .context_bytes = 96, .context_sub = 64,
     .op_sort = 167, .op_entersub = 184, .op_nextstate = 195, .op_dbstate = 196},
    {.version = 32, .cop = 224, .values = 232, .stack = 240, .jump = 776, .stack_type = 44,
     .context_bytes = 104, .context_sub = 72,
     .op_sort = 167, .op_entersub = 184, .op_nextstate = 195, .op_dbstate = 196},
    {.version = 34, .cop = 208, .values = 216, .stack = 224, .jump = 760, .stack_type = 44,
     .context_bytes = 104, .context_sub = 72,
     .op_sort = 167, .op_entersub = 184, .op_nextstate = 195, .op_dbstate = 196},
    {.version = 36, .cop = 208, .values = 216, .stack = 224, .jump = 760, .stack_type = 44,
     .context_bytes = 104, .context_sub = 72,
     .op_sort = 167, .op_entersub = 184, .op_nextstate = 195, .op_dbstate = 196},
    {.version = 38, .cop = 208, .values = 216, .stack = 224, .jump = 776, .stack_type = 44,
     .context_bytes = 104, .context_sub = 72,
     .op_sort = 170, .op_entersub = 187, .op_nextstate = 198, .op_dbstate = 199},
    {.version = 40, .cop = 208, .values = 216, .stack = 224, .jump = 776, .stack_type = 44,
     .context_bytes = 104, .context_sub = 72,
     .op_sort = 170, .op_entersub = 187, .op_nextstate = 198, .op_dbstate = 199},
    {.version = 42, .cop = 208, .values = 216, .stack = 224, .jump = 776, .stack_type = 44,
     .context_bytes = 104, .context_sub = 72,
     .op_sort = 171, .op_entersub = 191, .op_nextstate = 202, .op_dbstate = 203},
    {.version = 44, .cop = 208, .values = 216, .stack = 224, .jump = 776, .stack_type = 44,
     .context_bytes = 104, .context_sub = 72,
     .op_sort = 171, .op_entersub = 191, .op_nextstate = 202, .op_dbstate = 203},
};
/* clang-format on */

enum {
	RUNTIME_BYTES = 32, /* "Perl 5.36.0" */
	REVISION = 5	    /* Perl 5 */
};

static const struct perl_offsets *offsets_of(unsigned int version)
{
	for (size_t i = 0; i < sizeof(known_offsets) / sizeof(known_offsets[0]); i++) {
		if (known_offsets[i].version == version)
			return &known_offsets[i];
	}
	return NULL;
}

/* Reads one of the bytes PL_revision, PL_version and PL_subversion (globals.c). Returns 0 if it is
 * not there. */
static unsigned int version_byte(const struct runtime_file *file, const char *name)
{
	uint64_t vaddr;
	uint8_t byte;

	return recognise_find(file, name, &vaddr) && runtime_file_read(file, vaddr, &byte, 1) == 0
		   ? byte
		   : 0;
}

/* Writes the message. Returns -ENOTSUP. */
static int refuse(struct runtime_refusal *refusal, const struct runtime_file *file, const char *why)
{
	char runtime[RUNTIME_BYTES];

	snprintf(runtime, sizeof(runtime), "Perl %u.%u.%u", version_byte(file, "PL_revision"),
		 version_byte(file, "PL_version"), version_byte(file, "PL_subversion"));
	return recognise_refuse(refusal, file->path, runtime, "Perl frames", why);
}

/* Finds the interpreter, or its fields. Returns whether all that is needed is there. */
static bool find_interpreter(const struct runtime_file *file, struct perl_image *image)
{
	const struct perl_offsets *o = image->offsets;

	recognise_variable(file, "PL_thr_key", &image->key);
	if (recognise_find(file, "PL_curcop", &image->cop))
		return recognise_find(file, "PL_op", &image->op) &&
		       recognise_find(file, "PL_curstack", &image->values) &&
		       recognise_find(file, "PL_curstackinfo", &image->stack) &&
		       recognise_find(file, "PL_top_env", &image->jump);
	image->op = PERL_INTERPRETER_OP;
	image->cop = o->cop;
	image->values = o->values;
	image->stack = o->stack;
	image->jump = o->jump;
	return recognise_variable(file, "PL_curinterp", &image->current);
}

int perl_file_recognise(const struct runtime_file *file, void **image,
			struct runtime_refusal *refusal)
{
	static const char *const loops[] = {"Perl_runops_standard", "Perl_runops_debug"};

	if (!recognise_has(file, "perl", "Perl_runops_standard") ||
	    !recognise_has(file, "perl", "PL_version"))
		return -ENOENT;
	const struct perl_offsets *offsets = offsets_of(version_byte(file, "PL_version"));
	if (!offsets || version_byte(file, "PL_revision") != REVISION)
		return refuse(refusal, file, "this version is not supported");
	struct perl_image *found = calloc(1, sizeof(*found));
	if (!found)
		return -ENOMEM;
	found->offsets = offsets;
	for (int i = 0; i < PERL_RUN_LOOPS; i++) {
		struct runtime_symbol *loop = &found->run_loops[i];

		if (runtime_file_exported(file, loops[i], loop) < 0 &&
		    runtime_file_local(file, loops[i], loop) < 0)
			loop->size = 0;
	}
	if (!found->run_loops[0].size || !find_interpreter(file, found)) {
		free(found);
		return refuse(refusal, file, "its interpreter was not found");
	}
	*image = found;
	return 0;
}
