/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what is shown of a Script: its name, its lines, and the classes of its methods. Scripts
 * that were read are cached. */
#ifndef SYMBOLIZER_RUNTIME_V8_SCRIPT_H
#define SYMBOLIZER_RUNTIME_V8_SCRIPT_H

#include "symbolizer/runtime/v8_classes.h"
#include "symbolizer/runtime/v8_heap.h"

struct v8_script {
	uint64_t address; /* tagged */
	int32_t id;
	int32_t first_line; /* of the script in its file, from 0 on */
	char *name;
	uint32_t *line_ends; /* the offset of the last character of each line; NULL: unknown */
	size_t line_count, line_capacity;
	struct v8_methods methods; /* empty if they could not be found */
};

struct v8_scripts {
	struct v8_script **table; /* V8_SCRIPTS_CACHED; NULL: none was read yet */
	size_t bytes;		  /* allocated */
};

/* Finds a script that has the id. 0; -ESTALE: there is another object; -ENOMEM; or an error of
 * memory_read(). `*script` is valid until the next call. */
int v8_script_get(struct v8_scripts *scripts, struct v8_heap *heap, uint64_t address, int32_t id,
		  const struct v8_script **script);

/* Returns the line in the file, from 1 on, of a character of the script; 0: unknown. */
uint32_t v8_script_line(const struct v8_script *script, int32_t offset);

/* Writes the name of the class of a method whose parameters begin at this offset. -ENOENT: it is
 * not known; or an error of reading the source. */
int v8_script_class(struct v8_heap *heap, const struct v8_script *script, int32_t offset,
		    char *text, size_t size);

void v8_scripts_fini(struct v8_scripts *scripts);

#endif
