/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names PHP frames from what is in the process's memory.
 *
 * How this works: a frame has the address of its function, and an identity, which the walker has
 * computed of the hashes of three strings (php_identity()): the names of the function, its class
 * and its file. They are read later, when the function may have been freed, and another one may be
 * in its place. So the identity is computed again, of the texts that were read. If it is another
 * one, the frame is reported as stale (-ESTALE). Then the caller may try again with the copy that
 * the kernel side made when the function was sampled for the first time (php_copy_code() in
 * bpf/runtime/php.bpf.c).
 *
 * Names are those of debug_backtrace(): Class::name. Up to 8.3, all closures have the name
 * "{closure}"; they are shown as 8.4 does it, with the place of their definition. Code of files has
 * no name, and is shown as "{main}" or "include FILE".
 *
 * Example: words are the function 0x7fe78cc0a938, identity << 32 | 4. The function has the name
 * "run", the class "Cart", the file "/srv/Cart.php" and the first line 3. The frame is Cart::run at
 * /srv/Cart.php:4, which starts at line 3.
 */
#include "symbolizer/runtime/php_names.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "symbolizer/runtime/limits.h"

enum {
	TEXT_BYTES = PHP_NAME_BYTES_MAX + 1,
	FUNCTION_BYTES = 3 * TEXT_BYTES + 32, /* class, name, and the place of a closure */
};

#define HASH_START 5381ull

static const char closure[] = "{closure}";

/* A string, or what is shown of it. */
struct string {
	uint64_t hash; /* PHP's or text_hash(); 0: there is no string */
	char text[TEXT_BYTES];
};

/* Continues PHP's hash of a text, which starts with HASH_START (zend_inline_hash_func() in
 * zend_string.h). */
static uint64_t hash_more(uint64_t hash, const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++)
		hash = hash * 33 + (uint8_t)text[i];
	return hash;
}

/* Checks that a text of which `kept` bytes were read has the hash that its string has. Returns 0,
 * -ESTALE, or an error of memory_read(). */
static int check_hash(struct memory *memory, uint64_t address, uint64_t length, size_t kept,
		      const struct string *string)
{
	uint64_t hash = hash_more(HASH_START, string->text, kept);
	char part[PHP_NAME_BYTES_MAX];

	for (uint64_t at = kept; at < length; at += sizeof(part)) {
		const size_t bytes = length - at < sizeof(part) ? length - at : sizeof(part);
		const int r = memory_read(memory, address + at, part, bytes);

		if (r)
			return r;
		hash = hash_more(hash, part, bytes);
	}
	return (hash | 1ull << 63) == string->hash ? 0 : -ESTALE;
}

/* Finds out what distinguishes a text without a hash, of which `kept` bytes were read. Returns 0 or
 * an error of memory_read(). */
static int make_hash(struct memory *memory, uint64_t address, uint64_t length, size_t kept,
		     struct string *string)
{
	uint64_t start, end[TEXT_END_BYTES / 8];
	int r = 0;

	memcpy(&start, string->text, sizeof(start));
	memcpy(end, string->text, sizeof(end));
	if (length > sizeof(end))
		r = kept < sizeof(start)
			? -ESTALE
			: memory_read(memory, address + text_end_of(length), end, sizeof(end));
	string->hash = text_hash(length, start, end);
	return r;
}

/* Reads a string; address 0 is that of an empty one. The start of a long one is kept: up to
 * PHP_NAME_BYTES_MAX bytes, or what a copy has of it. A copy was made while the function was
 * running, so its text is that of the hash. Returns 0; -ESTALE: the text is not that of the hash,
 * or too long; or an error of memory_read(). */
static int read_string(struct memory *memory, uint64_t address, struct string *string)
{
	uint64_t header[PHP_STRING_TEXT / 8];

	*string = (struct string){0};
	if (!address)
		return 0;
	int r = memory_read(memory, address, header, sizeof(header));
	if (r)
		return r;
	const uint64_t length = header[PHP_STRING_LENGTH / 8], text = address + PHP_STRING_TEXT;
	const size_t most = length < PHP_NAME_BYTES_MAX ? (size_t)length : PHP_NAME_BYTES_MAX;
	const size_t kept = memory_has(memory, text, most);

	string->hash = header[PHP_STRING_HASH / 8];
	if (length > PHP_TEXT_BYTES_MAX || (most && !kept))
		return -ESTALE;
	r = memory_read(memory, text, string->text, kept);
	if (r)
		return r;
	if (!string->hash)
		return make_hash(memory, text, length, kept, string);
	return kept < most ? 0 : check_hash(memory, text, length, kept, string);
}

/* What is read of a function. */
struct function {
	struct string name, class, file;
	uint32_t first_line;
};

/* Returns whether a function of this type can have such a frame. */
static bool kind_fits(uint32_t kind, uint8_t type)
{
	if (kind == PHP_FRAME_INTERNAL)
		return type == PHP_TYPE_INTERNAL;
	return type == (kind == PHP_FRAME_EVAL ? PHP_TYPE_EVAL : PHP_TYPE_USER);
}

/* Reads the function of a frame. Returns 0; -ESTALE: it is another one; or an error of
 * memory_read(). */
static int read_function(const struct php_offsets *offsets, struct memory *memory,
			 const uint64_t *words, struct function *function)
{
	const uint64_t address = words[0] & BH_ADDRESS_MASK;
	const uint32_t kind = frame_word_kind(words[1]);
	uint64_t head[PHP_FUNCTION_BYTES / 8], file[PHP_FILE_BYTES / 8] = {0}, class = 0;
	int r = memory_read(memory, address, head, sizeof(head));

	if (!r && !kind_fits(kind, (uint8_t)head[PHP_FUNCTION_TYPE / 8]))
		r = -ESTALE;
	if (!r && php_frame_has_file(kind))
		r = memory_read(memory, address + offsets->file, file, sizeof(file));
	if (!r && head[PHP_FUNCTION_CLASS / 8])
		r = memory_read_u64(memory, head[PHP_FUNCTION_CLASS / 8] + PHP_CLASS_NAME, &class);
	if (!r)
		r = read_string(memory, head[PHP_FUNCTION_NAME / 8], &function->name);
	if (!r)
		r = read_string(memory, class, &function->class);
	if (!r)
		r = read_string(memory, file[0], &function->file);
	if (r)
		return r;
	function->first_line = (uint32_t)file[PHP_FILE_LINE / 8];
	return php_identity(function->name.hash, function->class.hash, function->file.hash,
			    function->first_line) == frame_word_identity(words[1])
		   ? 0
		   : -ESTALE;
}

/* Writes the name as it is shown. */
static void format_name(const struct function *function, uint32_t kind,
			char name[static FUNCTION_BYTES])
{
	const char *text = function->name.text, *class = function->class.text;
	const size_t length = strlen(text), suffix = sizeof(closure) - 1;

	if (kind == PHP_FRAME_MAIN)
		snprintf(name, FUNCTION_BYTES, "{main}");
	else if (kind == PHP_FRAME_EVAL)
		snprintf(name, FUNCTION_BYTES, "eval");
	else if (kind == PHP_FRAME_INCLUDE)
		snprintf(name, FUNCTION_BYTES, "include %s", function->file.text);
	else if (length >= suffix && !strcmp(text + length - suffix, closure))
		snprintf(name, FUNCTION_BYTES, "%s%s%.*s:%s:%u}", class, *class ? "::" : "",
			 (int)length - 1, text, function->file.text, function->first_line);
	else
		snprintf(name, FUNCTION_BYTES, "%s%s%s", class, *class ? "::" : "", text);
}

int php_names_find(struct name_cache *names, const struct php_offsets *offsets,
		   struct memory *memory, const uint64_t *words, struct named_frames *frames)
{
	const uint64_t address = words[0] & BH_ADDRESS_MASK;
	const uint32_t kind = frame_word_kind(words[1]);
	/* The same code may be started, and be included by another file. */
	const uint32_t identity = frame_word_identity(words[1]) ^ kind;

	if (kind >= PHP_FRAMES || bh_frame_words(words[0]) != 2 || !address)
		return -ESTALE;
	const struct name_cache_entry *entry = name_cache_find(names, address, identity);
	if (!entry) {
		struct function function;
		char name[FUNCTION_BYTES];
		const int r = read_function(offsets, memory, words, &function);

		if (r)
			return r;
		format_name(&function, kind, name);
		entry = name_cache_keep(names, address, identity, name, function.file.text,
					function.first_line);
		if (!entry)
			return -ENOMEM;
	}
	const uint32_t line = frame_word_position(words[1]);
	frames->count = 1;
	frames->frames[0] = (struct named_frame){
	    .function = named_frames_keep(frames, entry->function, strlen(entry->function)),
	    .file = named_frames_keep(frames, entry->file, strlen(entry->file)),
	    .line = line ? line : entry->first_line,
	    .start_line = entry->first_line};
	return 0;
}
