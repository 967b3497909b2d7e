/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of functions and paths that were read last from debug information.
 *
 * How this works. A program calls a function, or inlines it, in many places, so most names and
 * paths are wanted again soon, and each is the result of several reads. Every text has a choice of
 * four places, by the hash of its key; if others are in all of them, it replaces one. There are
 * more places when there are more texts, up to 32,768. Texts that take too much memory together are
 * dropped, all at once.
 *
 * Example: std::vector::push_back is inlined in 300 places of a unit. Each of these calls refers to
 * the same entry at 0x41c2, and the key {file, 0x41c2, DWARF_TEXT_NAME} finds the name.
 */
#ifndef SYMBOLIZER_NAMER_DWARF_TEXTS_H
#define SYMBOLIZER_NAMER_DWARF_TEXTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	DWARF_TEXT_BYTES = 1024,	 /* of a text, with its NUL; longer ones are cut */
	DWARF_TEXTS_BYTES_MAX = 4 << 20, /* of memory for all */
};

#define DWARF_TEXT_NAME UINT64_MAX

struct dwarf_file;

struct dwarf_text_key {
	const struct dwarf_file *file;
	uint64_t at;	 /* in .debug_info: an entry, or a unit */
	uint64_t number; /* of the path in the unit, or DWARF_TEXT_NAME: the name of the entry */
};

struct dwarf_text {
	struct dwarf_text_key key;
	uint32_t start_line; /* of a function; 0: unknown */
	bool mangled;
	char text[];
};

struct dwarf_text_place {
	uint64_t hash;		 /* of the key: texts with another one are not looked at */
	struct dwarf_text *text; /* NULL: a free place */
};

/* All zeros: there is none. */
struct dwarf_texts {
	struct dwarf_text_place *places;
	size_t place_count, count;
	size_t bytes; /* of memory that places and texts take */
};

/* Returns the text with this key, or NULL. It is valid until the next one is kept. */
const struct dwarf_text *dwarf_texts_find(const struct dwarf_texts *texts,
					  const struct dwarf_text_key *key);

/* Says that a text will be looked up soon: places that the CPU has to fetch from memory are at hand
 * then. */
void dwarf_texts_expect(const struct dwarf_texts *texts, const struct dwarf_text_key *key);

/* Keeps a copy of a text that ends with NUL. Returns it, or NULL without memory. */
const struct dwarf_text *dwarf_texts_keep(struct dwarf_texts *texts,
					  const struct dwarf_text_key *key, const char *text,
					  bool mangled, uint32_t start_line);
void dwarf_texts_free(struct dwarf_texts *texts);

#endif
