/* SPDX-License-Identifier: Apache-2.0 */
/* The language runtimes of runtimes.def: their ids, and what scripts and people call them. */
#ifndef COMMON_RUNTIMES_H
#define COMMON_RUNTIMES_H

/* The values of those with a walker equal those of enum bh_runtime in bpf/shared.h, which is
 * generated from the same table. */
enum runtime_id {
	RUNTIME_ID_NONE, /* not a language runtime */
#define RUNTIME(id, name, frame_type, title) RUNTIME_ID_##id,
#define RUNTIME_WITHOUT_WALKER(id, name, title) RUNTIME_ID_##id,
#include "common/runtimes.def"
#undef RUNTIME
	RUNTIME_ID_COUNT
};

/* The numbers of extras follow, which are only members of sets. */
enum runtime_extra {
	RUNTIME_EXTRA_FIRST = RUNTIME_ID_COUNT - 1,
#define RUNTIME(id, name, frame_type, title)
#define RUNTIME_EXTRA(id, name, of) RUNTIME_ID_##id,
#include "common/runtimes.def"
#undef RUNTIME
	RUNTIME_EXTRA_END
};

/* A set of runtimes and extras is a word that has the bit 1 << id of each. "All" has no extras. */
#define RUNTIME_SET_ALL ((1u << RUNTIME_ID_COUNT) - 2u)
_Static_assert((int)RUNTIME_EXTRA_END <= 32, "a set of runtimes is one word");

extern const char *const runtime_names[RUNTIME_EXTRA_END]; /* also of extras */
extern const char *const runtime_titles[RUNTIME_ID_COUNT];

#endif
