/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see dwarf_texts.h. */
#include "symbolizer/namer/dwarf_texts.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum {
	PLACES_MIN = 256,
	PLACES_MAX = 32768,
	CHOICE = 4, /* places that a text may have */
	/* What keeping one more text may take, with more places. */
	KEEP_BYTES = sizeof(struct dwarf_text) + DWARF_TEXT_BYTES + PLACES_MAX * sizeof(void *),
};

static bool has_key(const struct dwarf_text *text, const struct dwarf_text_key *key)
{
	return text->key.at == key->at && text->key.number == key->number &&
	       text->key.file == key->file;
}

/* Returns the place of a text with this key; if there is none, a free place that it may have, or
 * that of another text. There must be places. Keys that a file chooses to share them only cost
 * time. */
static struct dwarf_text **place_of(const struct dwarf_texts *texts,
				    const struct dwarf_text_key *key)
{
	const uint64_t hash = XXH3_64bits(key, sizeof(*key));
	struct dwarf_text **first = &texts->places[hash % texts->place_count / CHOICE * CHOICE];

	for (unsigned int i = 0; i < CHOICE; i++) {
		if (!first[i] || has_key(first[i], key))
			return &first[i];
	}
	return &first[hash / texts->place_count % CHOICE];
}

static size_t text_bytes(const struct dwarf_text *text)
{
	return sizeof(*text) + strlen(text->text) + 1;
}

const struct dwarf_text *dwarf_texts_find(const struct dwarf_texts *texts,
					  const struct dwarf_text_key *key)
{
	const struct dwarf_text *text = texts->place_count ? *place_of(texts, key) : NULL;

	return text && has_key(text, key) ? text : NULL;
}

/* Puts a text into its place. */
static void put(struct dwarf_texts *texts, struct dwarf_text *text)
{
	struct dwarf_text **place = place_of(texts, &text->key);

	if (*place) {
		texts->count--;
		texts->bytes -= text_bytes(*place);
		free(*place);
	}
	*place = text;
	texts->count++;
	texts->bytes += text_bytes(text);
}

/* Makes more places when half of them are taken. Without memory, those that there are must do.
 * Returns false if there are none. */
static bool grow_when_due(struct dwarf_texts *texts)
{
	struct dwarf_texts larger = {.place_count =
					 texts->place_count ? 2 * texts->place_count : PLACES_MIN};

	if (texts->count < texts->place_count / 2 || larger.place_count > PLACES_MAX)
		return texts->place_count > 0;
	larger.places = calloc(larger.place_count, sizeof(larger.places[0]));
	if (!larger.places)
		return texts->place_count > 0;
	larger.bytes = larger.place_count * sizeof(larger.places[0]);
	for (size_t i = 0; i < texts->place_count; i++) {
		if (texts->places[i])
			put(&larger, texts->places[i]);
	}
	free(texts->places);
	*texts = larger;
	return true;
}

const struct dwarf_text *dwarf_texts_keep(struct dwarf_texts *texts,
					  const struct dwarf_text_key *key, const char *text,
					  bool mangled, uint32_t start_line)
{
	const size_t length = strnlen(text, DWARF_TEXT_BYTES - 1);
	struct dwarf_text *made = malloc(sizeof(*made) + length + 1);

	if (texts->bytes > DWARF_TEXTS_BYTES_MAX - KEEP_BYTES)
		dwarf_texts_free(texts);
	if (!made || !grow_when_due(texts)) {
		free(made);
		return NULL;
	}
	*made = (struct dwarf_text){.key = *key, .start_line = start_line, .mangled = mangled};
	memcpy(made->text, text, length);
	made->text[length] = 0;
	put(texts, made);
	return made;
}

void dwarf_texts_free(struct dwarf_texts *texts)
{
	for (size_t i = 0; i < texts->place_count; i++)
		free(texts->places[i]);
	free(texts->places);
	*texts = (struct dwarf_texts){0};
}
