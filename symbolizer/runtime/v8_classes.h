/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the classes in the source of a script, and the methods in them. Pure: it reads characters
 * that were copied before, which may be anything.
 */
#ifndef SYMBOLIZER_RUNTIME_V8_CLASSES_H
#define SYMBOLIZER_RUNTIME_V8_CLASSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A piece of the source, as offsets in characters. */
struct v8_span {
	uint32_t start, length;
};

/* A "(" directly in the body of a class. If a method has its parameters there, it is a method of
 * that class. */
struct v8_method {
	uint32_t at;
	struct v8_span class_name;
};

struct v8_methods {
	struct v8_method *methods; /* in ascending order */
	size_t count, capacity;
};

struct v8_classes;

/* NULL: no memory. */
struct v8_classes *v8_classes_new(void);

/* Reads the next character of the source, a unit of UTF-16. */
void v8_classes_read(struct v8_classes *classes, uint32_t character);

/* Ends the source. Returns 0, and the methods, which the caller frees. -EINVAL: the source cannot
 * be read without a doubt. -ENOMEM. */
int v8_classes_end(struct v8_classes *classes, struct v8_methods *methods);

void v8_classes_free(struct v8_classes *classes);

/* Finds the class of the method whose parameters begin at `at`. Returns false if it is not in a
 * class that has a name. */
bool v8_methods_find(const struct v8_methods *methods, uint32_t at, struct v8_span *class_name);

#endif
