/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled methods: which methods, inlined into each other, a place in their code is in. */
#ifndef SYMBOLIZER_RUNTIME_HOTSPOT_NMETHOD_H
#define SYMBOLIZER_RUNTIME_HOTSPOT_NMETHOD_H

#include "symbolizer/runtime/hotspot_names.h"

enum {
	HOTSPOT_NMETHOD_SLOTS = 4096, /* a power of two */
};

struct hotspot_nmethod;

/* Compiled methods that were looked at, by address and number: the VM throws them away while their
 * frames still wait for names. */
struct hotspot_nmethods {
	struct hotspot_nmethod *slots[HOTSPOT_NMETHOD_SLOTS];
	size_t bytes;
	unsigned int hand; /* the slot that is emptied next if there are too many */
};

/* The methods at a place. */
struct hotspot_inlined {
	const struct hotspot_method *method;
	int32_t bci; /* or HOTSPOT_NO_BYTECODE; HOTSPOT_BCI_UNKNOWN */
};

enum {
	HOTSPOT_BCI_UNKNOWN = -2
};

/*
 * Those at `code_offset` of the nmethod at `address`, innermost first, valid until the next call;
 * how many. -ESTALE: it is not, or no longer there; or as memory_read.
 */
int hotspot_nmethod_find(struct hotspot_nmethods *nmethods, struct hotspot_methods *methods,
			 const struct hotspot_vm *vm, struct memory *memory, uint64_t address,
			 uint32_t compile_id, uint32_t code_offset,
			 struct hotspot_inlined found[HOTSPOT_SCOPES_MAX]);
void hotspot_nmethods_fini(struct hotspot_nmethods *nmethods);

#endif
