/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions that one frame of a stack stands for: the function itself, and before it those that
 * the compiler inlined there. Language runtimes (symbolizer/runtime) and namers fill them in, and
 * the worker defines a frame for each.
 */
#ifndef SYMBOLIZER_NAMER_NAMED_FRAMES_H
#define SYMBOLIZER_NAMER_NAMED_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	/* Functions at one address: one and those inlined into it. V8 and Go inline chains of small
	 * functions without a limit of their depth; 31 were seen. */
	NAMED_FRAMES_MAX = 48,
	/* Text of these functions, in bytes: 341 each for name and file. */
	NAMED_FRAMES_TEXT_BYTES = 16384,
	/* Labels of one sample. */
	NAMED_LABELS_MAX = 10,
};

/* A function as it is shown. The strings are in `text` of struct named_frames, or are constants. */
struct named_frame {
	const char *function; /* as the language writes it: Class.method, module.function */
	const char *file;     /* "" if unknown */
	uint32_t line;	      /* 0 if unknown */
	uint32_t start_line;  /* of the function; 0 if unknown */
	bool mangled;	      /* the name is as the linker knows it, and has to be demangled */
	/* The name that the linker knows, if that is another one; NULL if unknown or `mangled`. */
	const char *system_name;
};

/* What a program says of its work at the moment of the sample: request=checkout. The strings are in
 * `text`, as those of functions. */
struct named_label {
	const char *key, *value;
};

/* The functions, the innermost inlined one first. A frame of a runtime that stands for no function
 * may have labels instead, which are those of the sample. */
struct named_frames {
	unsigned int count;
	uint8_t kind; /* enum frame_kind, if a namer has named them */
	struct named_frame frames[NAMED_FRAMES_MAX];
	unsigned int label_count;
	struct named_label labels[NAMED_LABELS_MAX];
	size_t used;
	char text[NAMED_FRAMES_TEXT_BYTES];
};

/* Copies a string into frames->text, where it lives as long as `frames`. It ends at the first NUL
 * and is cut if there is no room for it. It may hold any bytes: the worker escapes it before it is
 * passed on. */
const char *named_frames_keep(struct named_frames *frames, const char *text, size_t length);

/* Does the same with a text of up to 2,047 bytes that it formats. */
const char *named_frames_format(struct named_frames *frames, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
