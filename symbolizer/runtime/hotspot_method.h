/* SPDX-License-Identifier: Apache-2.0 */
/* Names and line tables of Java methods, read from the process's memory and cached. */
#ifndef SYMBOLIZER_RUNTIME_HOTSPOT_METHOD_H
#define SYMBOLIZER_RUNTIME_HOTSPOT_METHOD_H

#include "symbolizer/runtime/hotspot_encoding.h"
#include "symbolizer/runtime/hotspot_liveness.h"
#include "symbolizer/runtime/hotspot_vm.h"

enum {
	HOTSPOT_METHOD_SLOTS = 4096, /* of the cache; a power of two */
};

/* A method as it was when it was read. It is immutable and reference-counted. */
struct hotspot_method {
	unsigned int users;
	uint64_t address;    /* of the Method */
	uint32_t identity;   /* hotspot_identity() */
	uint32_t start_line; /* 0: unknown */
	size_t line_count;
	struct hotspot_line *lines;
	const char *file; /* "" if unknown */
	char name[];	  /* package.Class.method(parameters), a NUL, then the file */
};

/* The methods of one process that were read, by address. Methods that fall into the same slot
 * evict each other. */
struct hotspot_methods {
	struct hotspot_loaders loaders;
	struct hotspot_method *slots[HOTSPOT_METHOD_SLOTS];
	size_t bytes; /* of the methods in slots */
};

/* Starts the naming of a frame: time has passed since the last one, and class loaders may be
 * gone. */
void hotspot_methods_begin(struct hotspot_methods *methods);

/*
 * Reads the Method at `address`. If `wanted` is not NULL, it must have that identity; then a cached
 * method is returned even if it is no longer in memory. Returns 0: the caller owns a reference to
 * `*method`; -ESTALE: there is no such method; or an error of memory_read().
 */
int hotspot_method_get(struct hotspot_methods *methods, const struct hotspot_vm *vm,
		       struct memory *memory, uint64_t address, const uint32_t *wanted,
		       struct hotspot_method **method);

/* Gives up a reference, unless `method` is NULL. The last one frees the method. */
void hotspot_method_put(struct hotspot_method *method);

/* Empties the cache. */
void hotspot_methods_fini(struct hotspot_methods *methods);

/* Returns the memory that a method takes, in bytes. */
size_t hotspot_method_bytes(const struct hotspot_method *method);

#endif
