/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled methods (nmethods): determines which Java methods, inlined into each other, a pc in
 * their code belongs to. */
#ifndef SYMBOLIZER_RUNTIME_HOTSPOT_NMETHOD_H
#define SYMBOLIZER_RUNTIME_HOTSPOT_NMETHOD_H

#include "symbolizer/runtime/hotspot_method.h"

enum {
	HOTSPOT_NMETHOD_SLOTS = 4096, /* of the cache; a power of two */
	HOTSPOT_BCI_UNKNOWN = -2,     /* in struct hotspot_inlined: no bytecode index is known */
};

struct hotspot_nmethod;

/* The compiled methods of one process that were read, by address and compile id. They are cached
 * because the VM may free a compiled method while its frames still wait for their names. */
struct hotspot_nmethods {
	struct hotspot_nmethod *slots[HOTSPOT_NMETHOD_SLOTS];
	size_t bytes;
	unsigned int hand; /* the slot that is evicted next when the cache is full */
};

/* One of the methods at a pc. */
struct hotspot_inlined {
	const struct hotspot_method *method;
	int32_t bci; /* bytecode index, HOTSPOT_NO_BYTECODE or HOTSPOT_BCI_UNKNOWN */
};

/*
 * Finds the methods at `code_offset` bytes from the start of the code of the nmethod at `address`,
 * the innermost first. They are valid until the next call. Returns their number; -ESTALE: there is
 * no such nmethod, or another one is in its place; or an error of memory_read().
 */
int hotspot_nmethod_find(struct hotspot_nmethods *nmethods, struct hotspot_methods *methods,
			 const struct hotspot_vm *vm, struct memory *memory, uint64_t address,
			 uint32_t compile_id, uint32_t code_offset,
			 struct hotspot_inlined found[HOTSPOT_SCOPES_MAX]);

/* Empties the cache. */
void hotspot_nmethods_fini(struct hotspot_nmethods *nmethods);

#endif
