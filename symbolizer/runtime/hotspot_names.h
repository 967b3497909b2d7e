/* SPDX-License-Identifier: Apache-2.0 */
/* Names and lines of Java methods, out of the process's memory. */
#ifndef SYMBOLIZER_RUNTIME_HOTSPOT_NAMES_H
#define SYMBOLIZER_RUNTIME_HOTSPOT_NAMES_H

#include "symbolizer/runtime/hotspot_encoding.h"
#include "symbolizer/runtime/hotspot_vm.h"

enum {
	HOTSPOT_METHOD_SLOTS = 4096, /* a power of two */
	HOTSPOT_LOADERS_KNOWN = 16,
};

/* A method as it was; it does not change. */
struct hotspot_method {
	unsigned int users;
	uint64_t address;
	uint32_t identity;   /* hotspot_identity() */
	uint32_t start_line; /* 0: not known */
	size_t line_count;
	struct hotspot_line *lines;
	const char *file; /* "" if not known */
	char name[];	  /* package.Class.method(parameters); and the file */
};

/*
 * Class loaders (ClassLoaderData) that are known to be alive: a class that was unloaded is still in
 * memory for a while, but its names belong to others by then. They are in a list, the newest first.
 */
struct hotspot_loaders {
	uint64_t boot; /* the list's last, never unloaded; 0: not known */
	unsigned int count;
	uint64_t alive[HOTSPOT_LOADERS_KNOWN]; /* a moment ago: hotspot_methods_begin() */
};

/* Methods that were looked at, by address: those that share a slot forget each other. */
struct hotspot_methods {
	struct hotspot_loaders loaders;
	struct hotspot_method *slots[HOTSPOT_METHOD_SLOTS];
	size_t bytes; /* of those in slots */
};

/* Now something else is looked at, and time has passed. */
void hotspot_methods_begin(struct hotspot_methods *methods);

/*
 * The Method at `address`. 0, and the caller has a reference; -ESTALE: there is none, or not what
 * it should be; or as memory_read. `wanted`: only one of this identity (NULL: any), if need be one
 * that is no longer in memory.
 */
int hotspot_method_get(struct hotspot_methods *methods, const struct hotspot_vm *vm,
		       struct memory *memory, uint64_t address, const uint32_t *wanted,
		       struct hotspot_method **method);
void hotspot_method_put(struct hotspot_method *method);
void hotspot_methods_fini(struct hotspot_methods *methods);

/* Bytes that it takes. */
size_t hotspot_method_bytes(const struct hotspot_method *method);

#endif
