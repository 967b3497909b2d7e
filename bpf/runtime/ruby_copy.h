/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * Copies of what the names of Ruby's code need. Code that `eval` has made is freed by the next
 * garbage collection after it has run, and objects may be moved. What is copied is what
 * symbolizer/runtime/ruby_names.c reads: the body of the code, its strings, its lines, and the
 * class of its method. The name of the class is copied if it is in it.
 */
#ifndef BPF_RUNTIME_RUBY_COPY_H
#define BPF_RUNTIME_RUBY_COPY_H

#include "bpf/runtime/ruby.h"
#include "bpf/runtime/walker.h"

/* Bytes: of an object with a short text, of texts elsewhere, and of lines. */
enum {
	RUBY_COPY_OBJECT = 64,
	RUBY_COPY_LABEL = 96,
	RUBY_COPY_PATH = 192,
	RUBY_COPY_BODY = 160,
	RUBY_COPY_CLASS = 160,
	RUBY_COPY_ENTRIES = 192,
	RUBY_COPY_RANKS = 128,
};

/* A string: the object, and its text if that is elsewhere. */
struct ruby_copy_text {
	struct bh_memory_part object_part;
	uint64_t object[RUBY_COPY_OBJECT / 8];
	struct bh_memory_part text_part;
	uint8_t text[RUBY_COPY_LABEL];
};

/* A class, and its name. */
struct ruby_copy_class {
	struct bh_memory_part fields_part;
	uint64_t fields[RUBY_COPY_CLASS / 8];
	struct ruby_copy_text path;
};

/* An array, and one of its elements. */
struct ruby_copy_element {
	struct bh_memory_part array_part;
	uint64_t array[RUBY_ARRAY_WORDS];
	struct bh_memory_part element_part;
	uint64_t element[1];
};

/* Of a method that is written in C: its name is in the table of names. */
struct ruby_copy_c {
	struct bh_memory_copy start;
	struct ruby_copy_class class;
	struct bh_memory_part definition_part;
	uint64_t definition[RUBY_DEFINITION_WORDS];
	struct bh_memory_part ids_part;
	uint64_t ids[1];
	struct ruby_copy_element table, part;
	struct ruby_copy_text name;
};
_Static_assert(sizeof(struct ruby_copy_c) <= BH_MEMORY_COPY_MAX, "fits");

struct ruby_copy {
	struct bh_memory_copy start;
	struct ruby_copy_class class;
	struct bh_memory_part body_part;
	uint64_t body[RUBY_COPY_BODY / 8];
	struct ruby_copy_text label, base;
	/* An array with the path, and the path itself. */
	struct bh_memory_part paths_part;
	uint64_t paths[RUBY_COPY_OBJECT / 8];
	struct bh_memory_part path_part;
	uint64_t path[RUBY_COPY_OBJECT / 8];
	struct bh_memory_part path_text_part;
	uint8_t path_text[RUBY_COPY_PATH];
	struct bh_memory_part entries_part;
	uint8_t entries[RUBY_COPY_ENTRIES];
	struct bh_memory_part ranks_part;
	uint8_t ranks[RUBY_COPY_RANKS];
};
_Static_assert(sizeof(struct ruby_copy) <= BH_MEMORY_COPY_MAX, "fits");

/* Returns where the text of a string starts if it is not in the object, or 0. */
static __always_inline uint64_t ruby_copy_elsewhere(const struct bh_memory_part *part,
						    const uint64_t *object)
{
	return part->bytes && (object[0] & RUBY_OBJECT_FLAG) &&
		       (object[0] & RUBY_OBJECT_TYPE) == RUBY_OBJECT_STRING
		   ? object[RUBY_STRING_POINTER / 8]
		   : 0;
}

static __always_inline void ruby_copy_string(UNWIND_ENV env, struct ruby_copy_text *copy,
					     uint64_t address)
{
	walker_copy_text(env, &copy->object_part, copy->object, sizeof(copy->object), address);
	walker_copy_text(env, &copy->text_part, copy->text, sizeof(copy->text),
			 ruby_copy_elsewhere(&copy->object_part, copy->object));
}

/* Copies the class at an address, which may be 0. */
static __always_inline void ruby_copy_class(UNWIND_ENV env, const struct ruby_block *b,
					    struct ruby_copy_class *copy, uint64_t address)
{
	walker_copy_text(env, &copy->fields_part, copy->fields, sizeof(copy->fields), address);
	ruby_copy_string(env, &copy->path,
			 copy->fields_part.bytes && b->class_path
			     ? copy->fields[bits_mask(b->class_path >> 3, 15)]
			     : 0);
}

/* Copies an array and one of its elements. Returns that, or 0. */
static __always_inline uint64_t ruby_copy_element(UNWIND_ENV env, struct ruby_copy_element *copy,
						  uint64_t array, uint64_t index)
{
	walker_copy_part(env, &copy->array_part, copy->array, sizeof(copy->array), array,
			 array ? sizeof(copy->array) : 0);
	const uint64_t elements = !copy->array_part.bytes ? 0
				  : copy->array[0] & RUBY_OBJECT_FLAG
				      ? array + RUBY_ARRAY_ELEMENTS
				      : copy->array[RUBY_ARRAY_POINTER / 8];

	walker_copy_part(env, &copy->element_part, copy->element, sizeof(copy->element),
			 elements + index * 8, elements ? sizeof(copy->element) : 0);
	return copy->element_part.bytes ? copy->element[0] : 0;
}

/* Copies what the name of a method that is written in C needs. */
static __always_inline void ruby_copy_c(UNWIND_ENV env, const struct ruby_block *b,
					struct ruby_copy_c *copy, uint64_t definition,
					uint64_t class)
{
	ruby_copy_class(env, b, &copy->class, class);
	walker_copy_part(env, &copy->definition_part, copy->definition, sizeof(copy->definition),
			 definition, sizeof(copy->definition));
	const uint64_t id =
	    copy->definition_part.bytes ? copy->definition[RUBY_DEFINITION_ID / 8] : 0;
	const uint32_t serial = ruby_id_serial(id, b->last_operator);

	walker_copy_part(env, &copy->ids_part, copy->ids, sizeof(copy->ids), b->ids,
			 sizeof(copy->ids));
	const uint64_t part = ruby_copy_element(
	    env, &copy->table, copy->ids_part.bytes ? copy->ids[0] : 0, serial / RUBY_IDS_IN_PART);

	ruby_copy_string(env, &copy->name,
			 ruby_copy_element(env, &copy->part, part,
					   serial % RUBY_IDS_IN_PART * RUBY_WORDS_OF_ID));
}

/* Copies what says in which file the code is. */
static __always_inline void ruby_copy_path(UNWIND_ENV env, struct ruby_copy *copy, uint64_t address)
{
	uint64_t path = address;

	walker_copy_text(env, &copy->paths_part, copy->paths, sizeof(copy->paths), address);
	if (copy->paths_part.bytes && (copy->paths[0] & RUBY_OBJECT_TYPE) == RUBY_OBJECT_ARRAY)
		path = copy->paths[0] & RUBY_OBJECT_FLAG ? copy->paths[RUBY_ARRAY_ELEMENTS / 8] : 0;
	walker_copy_text(env, &copy->path_part, copy->path, sizeof(copy->path), path);
	walker_copy_text(env, &copy->path_text_part, copy->path_text, sizeof(copy->path_text),
			 ruby_copy_elsewhere(&copy->path_part, copy->path));
}

#endif
