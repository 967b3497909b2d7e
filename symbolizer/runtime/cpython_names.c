/* SPDX-License-Identifier: Apache-2.0 */
/* Code objects: function, file, and line table. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "symbolizer/runtime/cpython.h"

enum {
	CODES_MAX = 8192, /* of one process */
	CODES_BYTES_MAX = 4 << 20,
	BUCKETS = 1024,
	CHARACTERS_MAX = 1024,
	LINES_BYTES_MAX = 256 << 10,
	OBJECT_REFERENCES = 0, /* words of a PyObject */
	OBJECT_TYPE,
	TYPE_NAME = 24,
	STR_LENGTH = 16,
	STR_STATE = 32,
	STR_HASH = 24,
	BYTES_SIZE = 16,
	BYTES_DATA = 32,
};

/* A code object, as it was when its identity was this. */
struct code {
	struct code *next;
	uint64_t address;
	uint32_t identity;
	uint32_t first_line;
	size_t line_bytes, function_bytes, file_bytes;
	char bytes[]; /* line table, function, file; each text with a NUL */
};

struct cpython_names {
	struct code *buckets[BUCKETS];
	size_t count, bytes;
};

struct cpython_names *cpython_names_new(void)
{
	return calloc(1, sizeof(struct cpython_names));
}

void cpython_names_forget(struct cpython_names *names)
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
		cpython_names_forget(names);
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

static uint32_t half_at(const uint64_t *words, uint16_t offset)
{
	const unsigned int at = (unsigned int)offset - CPYTHON_CODE_FIRST;

	return (uint32_t)(words[at / 8] >> (at & 4) * 8);
}

static uint64_t word_at(const uint64_t *words, uint16_t offset)
{
	return words[(offset - CPYTHON_CODE_FIRST) / 8];
}

/* PyCode_Type, where the file has it or, if the program has a copy of its own, wherever that is. */
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
 * The identity as the walker makes it, of what is there now: of an object that was freed, what is
 * left of it has the same, while what it referred to is others' already. Its count of references is
 * then zero, or the allocator's link to another free block, an address.
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
	r = memory_read_u64(memory, word_at(words, o->name) + STR_HASH, &name_hash);
	if (r < 0)
		return r;
	*identity = cpython_identity(
	    word_at(words, o->file), word_at(words, o->name),
	    word_at(words, o->qualified_name != CPYTHON_NONE ? o->qualified_name : o->name),
	    word_at(words, o->lines), half_at(words, o->first_line), name_hash);
	return 0;
}

static size_t utf8_put(char *to, uint32_t c)
{
	if (c < 0x80) {
		to[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		to[0] = (char)(0xc0 | c >> 6);
		to[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		to[0] = (char)(0xe0 | c >> 12);
		to[1] = (char)(0x80 | (c >> 6 & 0x3f));
		to[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	to[0] = (char)(0xf0 | (c >> 18 & 7));
	to[1] = (char)(0x80 | (c >> 12 & 0x3f));
	to[2] = (char)(0x80 | (c >> 6 & 0x3f));
	to[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

/*
 * A str as UTF-8 (PEP 393; Include/cpython/unicodeobject.h): length at 16; state at 32, of it bits
 * 2 - 4 bytes a character, bit 5 compact, bit 6 ASCII. `text` has room for 4 * CHARACTERS_MAX; what
 * is longer loses its begin, which for a path says less than the end.
 */
static ssize_t read_str(const struct cpython_offsets *o, struct memory *memory, uint64_t address,
			char *text)
{
	uint8_t characters[CHARACTERS_MAX * 4];
	uint64_t header[3]; /* length, hash, state */
	size_t used = 0;

	int r = memory_read(memory, address + STR_LENGTH, header, sizeof(header));
	if (r < 0)
		return r;
	const uint32_t state = (uint32_t)header[2];
	const unsigned int width = state >> 2 & 7;
	if (!(state & 0x20) || (width != 1 && width != 2 && width != 4))
		return -ESTALE;
	const uint64_t data = address + (state & 0x40 ? o->text : o->wide_text);
	const size_t count = header[0] < CHARACTERS_MAX ? (size_t)header[0] : CHARACTERS_MAX;
	if (header[0] > INT32_MAX)
		return -ESTALE;
	r = memory_read(memory, data + (header[0] - count) * width, characters, count * width);
	if (r < 0)
		return r;
	for (size_t i = 0; i < count; i++) {
		uint32_t c = 0;

		memcpy(&c, characters + i * width, width);
		used += utf8_put(text + used, c);
	}
	return (ssize_t)used;
}

static int read_lines(struct memory *memory, uint64_t address, uint8_t **table, size_t *length)
{
	uint64_t size = 0;
	int r = memory_read_u64(memory, address + BYTES_SIZE, &size);

	if (r < 0)
		return r;
	/* A function of ten thousands of lines; without its table it is known by its first. */
	if (size > LINES_BYTES_MAX)
		size = 0;
	*length = (size_t)size;
	*table = malloc(*length + 1);
	if (!*table)
		return -ENOMEM;
	return size ? memory_read(memory, address + BYTES_DATA, *table, *length) : 0;
}

static struct code *code_new(struct cpython_names *names, uint64_t address, uint32_t identity,
			     const uint8_t *lines, size_t line_bytes, const char *function,
			     size_t function_bytes, const char *file, size_t file_bytes)
{
	const size_t bytes = sizeof(struct code) + line_bytes + function_bytes + file_bytes + 2;

	if (names->count >= CODES_MAX || names->bytes + bytes > CODES_BYTES_MAX)
		cpython_names_forget(names);
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

/* Between two looks at its identity all that the object refers to was its own. */
static int code_read(struct cpython_names *names, const struct cpython_image *image, uint64_t bias,
		     struct memory *memory, uint64_t address, uint32_t identity, struct code **code)
{
	const struct cpython_offsets *o = &image->offsets;
	uint64_t words[CPYTHON_CODE_WORDS], again[CPYTHON_CODE_WORDS];
	char function[CHARACTERS_MAX * 4], file[CHARACTERS_MAX * 4];
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
		       struct runtime_frames *frames)
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
	/* 3.13 on: what the interpreter itself runs behind a class's __init__ (_Py_InitCleanup). */
	if (!strcmp(file, "__init__") && !strcmp(function, file))
		return 0;
	const uint32_t line = cpython_line(image->line_format, (const uint8_t *)code->bytes,
					   code->line_bytes, code->first_line, (int32_t)words[1]);

	frames->count = 1;
	frames->frames[0] = (struct runtime_frame){
	    .function = runtime_frames_keep(frames, function, code->function_bytes),
	    .file = runtime_frames_keep(frames, file, code->file_bytes),
	    .line = line ? line : code->first_line,
	    .start_line = code->first_line};
	return 0;
}
