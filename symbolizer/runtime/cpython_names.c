/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names CPython frames from the code objects in the process's memory.
 *
 * How this works: the walker pushes, for each Python frame, the address of its code object, the
 * object's identity (a hash, cpython_identity(), or co_version) and the position in the bytecode.
 * The name is read later, when the object may be gone and its memory reused. So the identity is
 * computed from memory again, before and after the names are read: if both are equal to the
 * walker's, everything that was read in between belonged to that object. Otherwise the frame is
 * reported as stale (-ESTALE), and is never named by a guess. Then the caller may try again with
 * the copy that the kernel side made when the code object was sampled for the first time
 * (cpython_copy_code() in bpf/runtime/cpython.bpf.c); the same checks apply.
 *
 * What was read is cached by address and identity, so an object that was replaced misses the cache.
 * The cache is a hash table with chains. When it is full it is dropped as a whole, because the code
 * objects that a program runs are few and quickly read again.
 *
 * Example: words are 0x7f20 (address) and 0x5a17c0de << 32 | 12. The object at 0x7f20 has the
 * identity 0x5a17c0de. co_qualname leads to the str "K.method", co_filename to "/a/b.py", the line
 * table is copied. The identity is still 0x5a17c0de: the entry is cached. Position 12 is line 14 by
 * the line table, so the frame is K.method at /a/b.py:14.
 */
#include "symbolizer/runtime/cpython_names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/cursor.h"
#include "common/utf8.h"
#include "symbolizer/runtime/cpython_lines.h"
#include "symbolizer/runtime/limits.h"

enum {
	BUCKETS = 1024, /* 8 entries per chain when the cache is full */
	NAME_BYTES = CPYTHON_NAME_CHARACTERS_MAX * UTF8_BYTES_MAX,

	/* Offsets in objects of release builds on 64-bit machines, the same in 3.6 - 3.14
	 * (Include/object.h, Include/cpython/unicodeobject.h, Include/cpython/bytesobject.h). The
	 * first two are words of PyObject: ob_refcnt, ob_type. */
	OBJECT_REFERENCES = 0,
	OBJECT_TYPE = 1,
	TYPE_NAME = 24,			  /* PyTypeObject.tp_name */
	STR_LENGTH = CPYTHON_OBJECT_SIZE, /* PyASCIIObject.length; hash and state follow */
	BYTES_SIZE = CPYTHON_OBJECT_SIZE, /* PyVarObject.ob_size */

	STR_COMPACT = 1 << 5, /* in PyASCIIObject.state */
	STR_ASCII = 1 << 6,

	CODE_POINT_MASK = (1 << 21) - 1, /* the range of utf8_encode(); memory may hold more */
};

/* A code object as it was read while it had this identity. */
struct code {
	struct code *next;
	uint64_t address;
	uint32_t identity;
	uint32_t first_line;
	size_t line_bytes, function_bytes, file_bytes;
	char bytes[]; /* the line table, then function and file, each with a NUL */
};

struct cpython_names {
	struct code *buckets[BUCKETS];
	size_t count, bytes;
};

struct cpython_names *cpython_names_new(void)
{
	return calloc(1, sizeof(struct cpython_names));
}

void cpython_names_drop(struct cpython_names *names)
{
	for (int i = 0; i < BUCKETS; i++) {
		while (names->buckets[i]) {
			struct code *code = names->buckets[i];

			names->buckets[i] = code->next;
			free(code);
		}
	}
	names->count = names->bytes = 0;
}

void cpython_names_free(struct cpython_names *names)
{
	if (names)
		cpython_names_drop(names);
	free(names);
}

size_t cpython_names_bytes(const struct cpython_names *names)
{
	return names->bytes;
}

static struct code **bucket(struct cpython_names *names, uint64_t address, uint32_t identity)
{
	return &names->buckets[(address >> 4 ^ identity) % BUCKETS];
}

/* These two return a field of 4 or of 8 bytes. `words` are those of a code object from
 * CPYTHON_CODE_FIRST on, `offset` is that in the object. */
static uint32_t half_at(const uint64_t *words, uint16_t offset)
{
	const unsigned int at = (unsigned int)offset - CPYTHON_CODE_FIRST;

	return (uint32_t)(words[at / 8] >> (at & 4) * 8);
}

static uint64_t word_at(const uint64_t *words, uint16_t offset)
{
	return words[(offset - CPYTHON_CODE_FIRST) / 8];
}

/* Returns whether `type` is PyCode_Type. That is where the file has it, unless the program was
 * linked with a copy relocation: then it is wherever its name is "code". */
static bool is_code_type(const struct cpython_image *image, uint64_t bias, struct memory *memory,
			 uint64_t type)
{
	uint64_t name;
	char text[8];

	return type == image->code_type + bias ||
	       (memory_read_u64(memory, type + TYPE_NAME, &name) == 0 &&
		memory_read_string(memory, name, text, sizeof(text)) == 4 && !strcmp(text, "code"));
}

/*
 * Computes the identity of the code object that is at `address` now, as the walker does, and copies
 * its fields to `words`. An object that was freed may keep its fields, and so its identity, while
 * the memory that they point to is reused. Its reference count shows that: it is 0, or CPython's
 * allocator has overwritten it with the address of the next free block, which has bits set between
 * 32 and 47. Returns 0; -ESTALE: it is not a live code object; or an error of memory_read().
 */
static int read_identity(const struct cpython_image *image, uint64_t bias, struct memory *memory,
			 uint64_t address, uint64_t words[CPYTHON_CODE_WORDS], uint32_t *identity)
{
	const struct cpython_offsets *o = &image->offsets;
	uint64_t object[CPYTHON_CODE_FIRST / 8 + CPYTHON_CODE_WORDS], name_hash = 0;
	int r = memory_read(memory, address, object, sizeof(object));

	if (r < 0)
		return r;
	if (!(uint32_t)object[OBJECT_REFERENCES] || object[OBJECT_REFERENCES] << 16 >> 48 ||
	    !is_code_type(image, bias, memory, object[OBJECT_TYPE]))
		return -ESTALE;
	memcpy(words, object + CPYTHON_CODE_FIRST / 8, CPYTHON_CODE_WORDS * sizeof(words[0]));
	if (o->version != CPYTHON_NONE) {
		*identity = half_at(words, o->version);
		if (*identity)
			return 0;
	}
	r = memory_read_u64(memory, word_at(words, o->name) + CPYTHON_STR_HASH, &name_hash);
	if (r < 0)
		return r;
	*identity = cpython_identity(
	    word_at(words, o->file), word_at(words, o->name),
	    word_at(words, o->qualified_name != CPYTHON_NONE ? o->qualified_name : o->name),
	    word_at(words, o->lines), half_at(words, o->first_line), name_hash);
	return 0;
}

/*
 * Reads a str as UTF-8 (PEP 393: one, two or four bytes per character). Only compact strings are
 * read: names of functions and files are compact. `text` has room for NAME_BYTES. Of a longer
 * string the end is kept, which says more about a path than its start. Returns the length in bytes;
 * -ESTALE: it is not a compact str; or an error of memory_read().
 */
static ssize_t read_str(const struct cpython_offsets *o, struct memory *memory, uint64_t address,
			char *text)
{
	uint8_t characters[NAME_BYTES];
	uint64_t header[3]; /* length, hash, state */
	size_t used = 0;

	int r = memory_read(memory, address + STR_LENGTH, header, sizeof(header));
	if (r < 0)
		return r;
	const uint32_t state = (uint32_t)header[2];
	const unsigned int width = state >> CPYTHON_STR_KIND_SHIFT & CPYTHON_STR_KIND_MASK;
	if (!(state & STR_COMPACT) || (width != 1 && width != 2 && width != 4))
		return -ESTALE;
	const uint64_t data = address + (state & STR_ASCII ? o->text : o->wide_text);
	const size_t count = header[0] < CPYTHON_NAME_CHARACTERS_MAX ? (size_t)header[0]
								     : CPYTHON_NAME_CHARACTERS_MAX;
	if (header[0] > INT32_MAX)
		return -ESTALE;
	r = memory_read(memory, data + (header[0] - count) * width, characters, count * width);
	if (r < 0)
		return r;
	struct cursor c = cursor_init(characters, count * width);
	for (size_t i = 0; i < count; i++) {
		const uint32_t character = width == 1	? cursor_u8(&c)
					   : width == 2 ? cursor_u16(&c)
							: cursor_u32(&c);

		used += utf8_encode(character & CODE_POINT_MASK, text + used);
	}
	return (ssize_t)used;
}

/* Reads the line table, a bytes object. The caller frees `*table`, also after an error. */
static int read_lines(struct memory *memory, uint64_t address, uint8_t **table, size_t *length)
{
	uint64_t size = 0;
	int r = memory_read_u64(memory, address + BYTES_SIZE, &size);

	if (r < 0)
		return r;
	/* Without its table, a huge function is shown with its first line. */
	if (size > CPYTHON_LINES_BYTES_MAX)
		size = 0;
	*length = (size_t)size;
	*table = malloc(*length + 1);
	if (!*table)
		return -ENOMEM;
	return size ? memory_read(memory, address + CPYTHON_BYTES_DATA, *table, *length) : 0;
}

/* Adds an entry to the cache. */
static struct code *code_new(struct cpython_names *names, uint64_t address, uint32_t identity,
			     const uint8_t *lines, size_t line_bytes, const char *function,
			     size_t function_bytes, const char *file, size_t file_bytes)
{
	const size_t bytes = sizeof(struct code) + line_bytes + function_bytes + file_bytes + 2;

	if (names->count >= CPYTHON_CODES_MAX || names->bytes + bytes > CPYTHON_CODES_BYTES_MAX)
		cpython_names_drop(names);
	struct code *code = calloc(1, bytes);
	if (!code)
		return NULL;
	code->address = address;
	code->identity = identity;
	code->line_bytes = line_bytes;
	code->function_bytes = function_bytes;
	code->file_bytes = file_bytes;
	memcpy(code->bytes, lines, line_bytes);
	memcpy(code->bytes + line_bytes, function, function_bytes);
	memcpy(code->bytes + line_bytes + function_bytes + 1, file, file_bytes);
	struct code **to = bucket(names, address, identity);
	code->next = *to;
	*to = code;
	names->count++;
	names->bytes += bytes;
	return code;
}

/* Reads a code object into the cache. The identity is checked before and after the names are read.
 * A code object keeps its names and its line table alive, so what is read in between is its own. */
static int code_read(struct cpython_names *names, const struct cpython_image *image, uint64_t bias,
		     struct memory *memory, uint64_t address, uint32_t identity, struct code **code)
{
	const struct cpython_offsets *o = &image->offsets;
	uint64_t words[CPYTHON_CODE_WORDS], again[CPYTHON_CODE_WORDS];
	char function[NAME_BYTES], file[NAME_BYTES];
	_cleanup_free_ uint8_t *lines = NULL;
	size_t line_bytes = 0;
	uint32_t now = 0;

	int r = read_identity(image, bias, memory, address, words, &now);
	if (r < 0)
		return r;
	if (now != identity)
		return -ESTALE;
	const uint16_t name = o->qualified_name != CPYTHON_NONE ? o->qualified_name : o->name;
	const ssize_t function_bytes = read_str(o, memory, word_at(words, name), function);
	const ssize_t file_bytes = read_str(o, memory, word_at(words, o->file), file);
	if (function_bytes < 0 || file_bytes < 0)
		return (int)(function_bytes < 0 ? function_bytes : file_bytes);
	r = read_lines(memory, word_at(words, o->lines), &lines, &line_bytes);
	if (!r)
		r = read_identity(image, bias, memory, address, again, &now);
	if (r < 0)
		return r;
	if (now != identity)
		return -ESTALE;
	*code = code_new(names, address, identity, lines, line_bytes, function,
			 (size_t)function_bytes, file, (size_t)file_bytes);
	if (!*code)
		return -ENOMEM;
	(*code)->first_line = half_at(words, o->first_line);
	return 0;
}

int cpython_names_find(struct cpython_names *names, const struct cpython_image *image,
		       uint64_t bias, struct memory *memory, const uint64_t *words,
		       struct named_frames *frames)
{
	const uint64_t address = words[0] & BH_ADDRESS_MASK;
	const uint32_t identity = (uint32_t)(words[1] >> 32);
	struct code *code = *bucket(names, address, identity);

	while (code && (code->address != address || code->identity != identity))
		code = code->next;
	if (!code) {
		int r = code_read(names, image, bias, memory, address, identity, &code);

		if (r < 0)
			return r;
	}
	const char *function = code->bytes + code->line_bytes;
	const char *file = function + code->function_bytes + 1;
	/* From 3.13 on the interpreter runs a code object of its own as the caller of a class's
	 * __init__ (_Py_InitCleanup, Python/specialize.c). Nobody has written it. */
	if (!strcmp(file, "__init__") && !strcmp(function, file))
		return 0;
	const uint32_t line =
	    cpython_line_find(image->line_format, (const uint8_t *)code->bytes, code->line_bytes,
			      code->first_line, (int32_t)words[1]);

	frames->count = 1;
	frames->frames[0] = (struct named_frame){
	    .function = named_frames_keep(frames, function, code->function_bytes),
	    .file = named_frames_keep(frames, file, code->file_bytes),
	    .line = line ? line : code->first_line,
	    .start_line = code->first_line};
	return 0;
}
