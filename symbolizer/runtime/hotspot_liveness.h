/* SPDX-License-Identifier: Apache-2.0 */
/* Determines whether a Java method that was read from memory still exists in the VM. */
#ifndef SYMBOLIZER_RUNTIME_HOTSPOT_LIVENESS_H
#define SYMBOLIZER_RUNTIME_HOTSPOT_LIVENESS_H

#include <stdint.h>

#include "symbolizer/runtime/hotspot_vm.h"

enum {
	HOTSPOT_LOADERS_CACHED = 16, /* class loaders: a stack rarely has methods of more */
};

/* Class loaders (ClassLoaderData) that were found in the VM's list. */
struct hotspot_loaders {
	uint64_t boot; /* the last one of the list, never unloaded; 0: not found yet */
	unsigned int count;
	uint64_t alive[HOTSPOT_LOADERS_CACHED]; /* since hotspot_loaders_expire() */
};

/* Forces all loaders but the boot loader to be looked up again. To be called when time has
 * passed. */
void hotspot_loaders_expire(struct hotspot_loaders *loaders);

/*
 * Determines whether `method` was alive while it was read. `holder` is its class (InstanceKlass)
 * and `constants` its ConstantPool. Returns 0: it was; -ESTALE: the class was unloaded or the
 * method is no longer part of it. A VM that does not describe the lists passes without a check.
 */
int hotspot_liveness_check(struct hotspot_loaders *loaders, const struct hotspot_vm *vm,
			   struct memory *memory, uint64_t holder, uint64_t method,
			   uint64_t constants);

#endif
