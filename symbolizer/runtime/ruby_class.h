/* SPDX-License-Identifier: Apache-2.0 */
/* Reads strings, ids, and the names of classes of a Ruby process. */
#ifndef SYMBOLIZER_RUNTIME_RUBY_CLASS_H
#define SYMBOLIZER_RUNTIME_RUBY_CLASS_H

#include <stdbool.h>

#include "symbolizer/runtime/limits.h"
#include "symbolizer/runtime/ruby_file.h"

enum {
	RUBY_TEXT_BYTES = RUBY_NAME_BYTES_MAX + 1
};

/* What is remembered of a process: the ids of the variables of classes, 0 if they are not known
 * yet. */
struct ruby_names {
	uint64_t class_path, class_object;
};

/* A process of which something is read. */
struct ruby_process {
	struct ruby_names *names;
	const struct ruby_image *image;
	uint64_t bias;
	struct memory *memory;
};

/* A string, or the start of a longer one. */
struct ruby_text {
	uint32_t hash; /* as the walker computes it; 0: it is no string */
	char text[RUBY_TEXT_BYTES];
};

/* Reads a string, or one that is the first element of an array. It is empty if there is something
 * else. Returns 0 or an error of memory_read(). */
int ruby_text_read(const struct ruby_process *process, uint64_t address, struct ruby_text *text);

/* Reads the name that an id stands for. Returns the same. */
int ruby_text_of_id(const struct ruby_process *process, uint64_t id, struct ruby_text *text);

/* Reads the complete name of a class or a module. It is empty if there is none, as of an anonymous
 * class. If it is the singleton class of a class or module, that is named, and *is_singleton is
 * set. Returns the same. */
int ruby_class_name(const struct ruby_process *process, uint64_t class, struct ruby_text *name,
		    bool *is_singleton);

#endif
