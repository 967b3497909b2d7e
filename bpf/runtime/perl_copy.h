/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * Copies of what the names of Perl's code need. The code of evaluated texts, and of `use`,
 * is freed as soon as it has run. What is copied is what symbolizer/runtime/perl_names.c reads:
 * the statement at the start of a sub, its glob, its name, its package, and the name of its file.
 */
#ifndef BPF_RUNTIME_PERL_COPY_H
#define BPF_RUNTIME_PERL_COPY_H

#include "bpf/runtime/perl.h"
#include "bpf/runtime/walker.h"

/* What the name of new code needs (struct bh_memory_copy). */
enum {
	PERL_COPY_NAME = 136,
	PERL_COPY_FILE = 304,
};

struct perl_copied_glob {
	struct bh_memory_part head_part;
	uint64_t head[2];
	struct bh_memory_part body_part;
	uint64_t body[6];
};

struct perl_copy {
	struct bh_memory_copy start;
	struct bh_memory_part cop_part;
	uint64_t cop[PERL_COP_BYTES / 8];
	struct perl_copied_glob glob;
	struct bh_memory_part name_part;
	uint8_t name[PERL_COPY_NAME];
	struct bh_memory_part stash_part;
	uint64_t stash[3];
	struct bh_memory_part stash_body_part;
	uint64_t stash_body[4];
	struct bh_memory_part aux_part;
	uint64_t aux[PERL_AUX_BYTES / 8];
	struct bh_memory_part first_name_part;
	uint64_t first_name[1];
	struct bh_memory_part package_part;
	uint8_t package[PERL_COPY_NAME];
	struct perl_copied_glob file_glob;
	struct bh_memory_part file_part;
	uint8_t file[PERL_COPY_FILE];
};
_Static_assert(sizeof(struct perl_copy) <= BH_MEMORY_COPY_MAX, "fits");

static __always_inline void perl_copy_glob(UNWIND_ENV env, struct perl_copied_glob *to,
					   uint64_t glob)
{
	walker_copy_part(env, &to->head_part, to->head, sizeof(to->head), glob, sizeof(to->head));
	walker_copy_part(env, &to->body_part, to->body, sizeof(to->body), to->head[0],
			 to->head_part.bytes ? sizeof(to->body) : 0);
}

/* Copies the name of the package `stash`. */
static __always_inline void perl_copy_package(UNWIND_ENV env, const struct perl_block *b,
					      struct perl_copy *copy, uint64_t stash)
{
	walker_copy_part(env, &copy->stash_part, copy->stash, sizeof(copy->stash), stash,
			 sizeof(copy->stash));
	walker_copy_part(env, &copy->stash_body_part, copy->stash_body, sizeof(copy->stash_body),
			 copy->stash[0], copy->stash_part.bytes ? sizeof(copy->stash_body) : 0);
	const uint64_t aux = b->aux_in_array
				 ? copy->stash[2] + (copy->stash_body[PERL_STASH_MOST / 8] + 1) * 8
				 : copy->stash[0] + PERL_STASH_AUX;

	walker_copy_part(env, &copy->aux_part, copy->aux, sizeof(copy->aux), aux,
			 copy->stash_body_part.bytes ? sizeof(copy->aux) : 0);
	uint64_t name = copy->aux_part.bytes ? copy->aux[PERL_AUX_NAME / 8] : 0;

	walker_copy_part(env, &copy->first_name_part, copy->first_name, sizeof(copy->first_name),
			 name, sizeof(copy->first_name));
	if (copy->aux[PERL_AUX_NAME_COUNT / 8] >> 32)
		name = copy->first_name[0];
	walker_copy_text(env, &copy->package_part, copy->package, sizeof(copy->package), name);
}

#endif
