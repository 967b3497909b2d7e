/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads strings, ids, and the names of classes of a Ruby process.
 *
 * How this works: a string has its length and the address of its text, or its text follows. An id
 * has a serial number, which is its place in a table of names, in parts of 512 ids. The name of a
 * class is in its extension. Up to 3.2 it is among its variables, under the name __classpath__, and
 * the object of a singleton class is there as __attached__. Up to 3.1 they are in a table. In 3.2
 * they are in an array, and a chain of shapes (shape.h) says which variable is in which place: each
 * has added one variable to its parent.
 *
 * Example: Cart is a class with the flags 0x2 and the extension 0x55d0a8. Its table of variables
 * has the id 0x3f1 with a string. In the first part of the table of names, id 0x3f1 >> 4 = 63 has
 * the string "__classpath__". So the string of the variable is the name, "Cart".
 */
#include "symbolizer/runtime/ruby_class.h"

#include <errno.h>
#include <string.h>

enum {
	CLASS_OF_INCLUDED = 8, /* the module that a T_ICLASS stands for: RBasic.klass */
	/* The table of variables in the extension of a class, and struct st_table. */
	EXTENSION_VARIABLES = 8,
	TABLE_WORDS = 7,
	TABLE_FIRST = 4, /* these are words */
	TABLE_BOUND = 5,
	TABLE_ENTRIES = 6,
	ENTRY_WORDS = 3, /* hash, key, value */
	/* The number of an object's shape is in the upper half of its flags. Of rb_shape_t: */
	SHAPE_BYTES = 32,
	SHAPE_NAME = 1,	 /* edge_name; these are words */
	SHAPE_BOUND = 2, /* next_iv_index, 4 bytes: the place of the variable, plus 1 */
	SHAPE_TYPE = 3,	 /* 1 byte; the upper half is the number of the parent */
	SHAPE_IS_ROOT = 0,
	SHAPE_IS_VARIABLE = 1,
};

/* Reads the first words of the object at *address, or of where it was moved to a moment ago. */
static int read_object(const struct ruby_process *process, uint64_t words[RUBY_OBJECT_WORDS],
		       uint64_t *address)
{
	const size_t bytes = RUBY_OBJECT_WORDS * sizeof(*words);
	int r = memory_read(process->memory, *address, words, bytes);

	if (r || (words[0] & RUBY_OBJECT_TYPE) != RUBY_OBJECT_MOVED)
		return r;
	*address = words[RUBY_MOVED_TO];
	return memory_read(process->memory, *address, words, bytes);
}

int ruby_text_read(const struct ruby_process *process, uint64_t address, struct ruby_text *text)
{
	const uint32_t embedded = process->image->offsets->text;
	uint64_t words[RUBY_OBJECT_WORDS], start, end[TEXT_END_BYTES / 8];

	*text = (struct ruby_text){0};
	for (int level = 0;; level++) {
		if (!ruby_may_be_object(address))
			return 0;
		int r = read_object(process, words, &address);
		if (r)
			return r;
		if (level || (words[0] & RUBY_OBJECT_TYPE) != RUBY_OBJECT_ARRAY)
			break;
		uint64_t elements = address + RUBY_ARRAY_ELEMENTS;
		if (!(words[0] & RUBY_OBJECT_FLAG))
			r = memory_read_u64(process->memory, address + RUBY_ARRAY_POINTER,
					    &elements);
		if (!r)
			r = memory_read_u64(process->memory, elements, &address);
		if (r)
			return r;
	}
	if ((words[0] & RUBY_OBJECT_TYPE) != RUBY_OBJECT_STRING)
		return 0;
	uint64_t length = words[RUBY_STRING_LENGTH / 8], at = words[RUBY_STRING_POINTER / 8];
	if (!(words[0] & RUBY_OBJECT_FLAG)) {
		at = address + embedded;
		if (embedded == RUBY_STRING_LENGTH)
			length = words[0] >> RUBY_STRING_SHIFT & RUBY_STRING_MASK;
	}
	const size_t kept = length < RUBY_NAME_BYTES_MAX ? (size_t)length : RUBY_NAME_BYTES_MAX;
	int r = memory_read(process->memory, at, text->text, kept);

	if (!r && kept != length)
		r = memory_read(process->memory, at + text_end_of(length), end, sizeof(end));
	if (r)
		return r;
	if (kept == length)
		memcpy(end, text->text + text_end_of(length), sizeof(end));
	memcpy(&start, text->text, sizeof(start));
	text->hash = (uint32_t)text_hash(length, start, end);
	return 0;
}

/* Reads an element of an array. */
static int read_element(const struct ruby_process *process, uint64_t array, uint64_t index,
			uint64_t *element)
{
	uint64_t flags, elements = array + RUBY_ARRAY_ELEMENTS;
	int r = memory_read_u64(process->memory, array, &flags);

	if (r)
		return r;
	if ((flags & RUBY_OBJECT_TYPE) != RUBY_OBJECT_ARRAY)
		return -ESTALE;
	if (!(flags & RUBY_OBJECT_FLAG))
		r = memory_read_u64(process->memory, array + RUBY_ARRAY_POINTER, &elements);
	return r ? r : memory_read_u64(process->memory, elements + index * 8, element);
}

int ruby_text_of_id(const struct ruby_process *process, uint64_t id, struct ruby_text *text)
{
	const uint64_t serial = ruby_id_serial(id, process->image->offsets->last_operator);
	uint64_t table, part, string;
	int r = memory_read_u64(process->memory, process->image->code.ids + process->bias, &table);

	if (!r)
		r = read_element(process, table, serial / RUBY_IDS_IN_PART, &part);
	if (!r)
		r = read_element(process, part, serial % RUBY_IDS_IN_PART * RUBY_WORDS_OF_ID,
				 &string);
	return r ? r : ruby_text_read(process, string, text);
}

/* Returns whether an id has this name. It is remembered in *known. */
static bool id_is(const struct ruby_process *process, uint64_t id, const char *name,
		  uint64_t *known)
{
	struct ruby_text text;

	if (!*known && !ruby_text_of_id(process, id, &text) && !strcmp(text.text, name))
		*known = id;
	return *known == id;
}

/* Finds a variable of a class by its shape, and sets *value. What refers to the virtual machine
 * also leads to the collector. */
static int find_shaped_variable(const struct ruby_process *process, uint64_t class,
				const char *name, uint64_t *known, uint64_t *value)
{
	const struct ruby_collector *collector = &process->image->code.collector;
	struct memory *memory = process->memory;
	uint64_t flags, at, shape[SHAPE_BYTES / 8];

	if (!collector->variable)
		return 0;
	int r = memory_read_u64(memory, class, &flags);
	if (!r)
		r = memory_read_u64(memory, collector->variable + process->bias, &at);
	if (!r && collector->is_indirect)
		r = memory_read_u64(memory, at, &at);
	if (!r)
		r = memory_read_u64(memory, at + process->image->offsets->shapes, &at);
	uint64_t number = flags >> 32;
	for (int i = 0; !r && i < RUBY_VARIABLES_MAX; i++) {
		r = memory_read(memory, at + number * SHAPE_BYTES, shape, sizeof(shape));
		const uint8_t type = (uint8_t)shape[SHAPE_TYPE];

		if (r || type == SHAPE_IS_ROOT)
			return r;
		if (type == SHAPE_IS_VARIABLE && id_is(process, shape[SHAPE_NAME], name, known)) {
			const uint32_t bound = (uint32_t)shape[SHAPE_BOUND];

			r = memory_read_u64(memory, class + process->image->offsets->class_values,
					    &at);
			return r ? r : memory_read_u64(memory, at + (bound - 1ull) * 8, value);
		}
		number = shape[SHAPE_TYPE] >> 32;
	}
	return r;
}

/* Finds a variable of a class: sets *value, 0 if it has none. */
static int find_variable(const struct ruby_process *process, uint64_t class, const char *name,
			 uint64_t *known, uint64_t *value)
{
	uint64_t table[TABLE_WORDS], entries[RUBY_VARIABLES_MAX * ENTRY_WORDS], at;

	*value = 0;
	if (process->image->offsets->class_values)
		return find_shaped_variable(process, class, name, known, value);
	int r =
	    memory_read_u64(process->memory, class + process->image->offsets->class_variables, &at);
	if (!r)
		r = memory_read_u64(process->memory, at + EXTENSION_VARIABLES, &at);
	if (r || !at)
		return r;
	r = memory_read(process->memory, at, table, sizeof(table));
	if (r)
		return r;
	const uint64_t first = table[TABLE_FIRST], bound = table[TABLE_BOUND];
	if (first >= bound)
		return 0;
	const size_t count =
	    bound - first < RUBY_VARIABLES_MAX ? (size_t)(bound - first) : RUBY_VARIABLES_MAX;
	r = memory_read(process->memory, table[TABLE_ENTRIES] + first * ENTRY_WORDS * 8, entries,
			count * ENTRY_WORDS * 8);
	for (size_t i = 0; !r && i < count; i++) {
		/* A deleted entry has this hash. */
		if (entries[i * ENTRY_WORDS] != UINT64_MAX &&
		    id_is(process, entries[i * ENTRY_WORDS + 1], name, known)) {
			*value = entries[i * ENTRY_WORDS + 2];
			return 0;
		}
	}
	return r;
}

/* Finds the object of which `class` is the singleton class. */
static int find_object(const struct ruby_process *process, uint64_t class, uint64_t *object)
{
	const struct ruby_offsets *o = process->image->offsets;

	if (!o->class_path)
		return find_variable(process, class, "__attached__", &process->names->class_object,
				     object);
	return memory_read_u64(process->memory, class + o->class_object, object);
}

/* Finds the string with the name of a class or module. */
static int find_path(const struct ruby_process *process, uint64_t class, uint64_t *path)
{
	const struct ruby_offsets *o = process->image->offsets;
	uint8_t is_complete;

	if (!o->class_path)
		return find_variable(process, class, "__classpath__", &process->names->class_path,
				     path);
	*path = 0;
	int r = memory_read_u8(process->memory, class + o->class_has_path, &is_complete);
	return r || !(is_complete & 1)
		   ? r
		   : memory_read_u64(process->memory, class + o->class_path, path);
}

int ruby_class_name(const struct ruby_process *process, uint64_t class, struct ruby_text *name,
		    bool *is_singleton)
{
	uint64_t words[RUBY_OBJECT_WORDS], path;

	*name = (struct ruby_text){0};
	*is_singleton = false;
	for (int level = 0; level < 3; level++) {
		if (!ruby_may_be_object(class))
			return 0;
		int r = read_object(process, words, &class);
		if (r)
			return r;
		const uint64_t type = words[0] & RUBY_OBJECT_TYPE;
		if (type == RUBY_OBJECT_INCLUDED) {
			r = memory_read_u64(process->memory, class + CLASS_OF_INCLUDED, &class);
		} else if (type == RUBY_OBJECT_CLASS &&
			   (words[0] & process->image->offsets->singleton)) {
			if (*is_singleton)
				return 0;
			*is_singleton = true;
			r = find_object(process, class, &class);
		} else if (type == RUBY_OBJECT_CLASS || type == RUBY_OBJECT_MODULE) {
			r = find_path(process, class, &path);
			return r ? r : ruby_text_read(process, path, name);
		} else {
			return 0;
		}
		if (r)
			return r;
	}
	return 0;
}
