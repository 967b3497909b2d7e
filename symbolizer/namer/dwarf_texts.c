/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see dwarf_texts.h. */
#include "symbolizer/namer/dwarf_texts.h"

#include <stdlib.h>
#include <string.h>

#include "common/hash.h"

enum {
	PLACES_MIN = 256, /* their number is a power of two */
	PLACES_MAX = 32768,
	CHOICE = 4, /* places that a text may have */
	/* What keeping one more text may take, with more places. */
	KEEP_BYTES = sizeof(struct dwarf_text) + DWARF_TEXT_BYTES +
		     PLACES_MAX * sizeof(struct dwarf_text_place),
};

/* Returns whether the text with a key, whose hash is given, is in a place. */
static bool has_key(const struct dwarf_text_place *place, const struct dwarf_text_key *key,
		    uint64_t hash)
{
	const struct dwarf_text *text = place->text;

	return text && place->hash == hash && text->key.at == key->at &&
	       text->key.number == key->number && text->key.file == key->file;
}

static uint64_t key_hash(const struct dwarf_text_key *key)
{
	uint64_t hash = hash_combine(0, (uintptr_t)key->file);

	hash = hash_combine(hash, key->at);
	return hash_combine(hash, key->number);
}

/* Returns the first of the places that a text may have, by the hash of its key. There must be
 * places. */
static struct dwarf_text_place *places_of(const struct dwarf_texts *texts, uint64_t hash)
{
	return &texts->places[hash & (texts->place_count - CHOICE)];
}

/* Returns the place of a text with this key, whose hash is given; if there is none, a free place
 * that it may have, or that of another text. There must be places. Keys that a file chooses to
 * share them only cost time. */
static struct dwarf_text_place *place_of(const struct dwarf_texts *texts,
					 const struct dwarf_text_key *key, uint64_t hash)
{
	struct dwarf_text_place *first = places_of(texts, hash);

	for (unsigned int i = 0; i < CHOICE; i++) {
		if (!first[i].text || has_key(&first[i], key, hash))
			return &first[i];
	}
	return &first[hash % CHOICE];
}

static size_t text_bytes(const struct dwarf_text *text)
{
	return sizeof(*text) + strlen(text->text) + 1;
}

const struct dwarf_text *dwarf_texts_find(const struct dwarf_texts *texts,
					  const struct dwarf_text_key *key)
{
	if (!texts->place_count)
		return NULL;
	const uint64_t hash = key_hash(key);
	const struct dwarf_text_place *place = place_of(texts, key, hash);

	return has_key(place, key, hash) ? place->text : NULL;
}

void dwarf_texts_expect(const struct dwarf_texts *texts, const struct dwarf_text_key *key)
{
	if (texts->place_count)
		__builtin_prefetch(places_of(texts, key_hash(key)));
}

/* Puts a text into its place. */
static void put(struct dwarf_texts *texts, struct dwarf_text *text, uint64_t hash)
{
	struct dwarf_text_place *place = place_of(texts, &text->key, hash);

	if (place->text) {
		texts->count--;
		texts->bytes -= text_bytes(place->text);
		free(place->text);
	}
	*place = (struct dwarf_text_place){hash, text};
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
		if (texts->places[i].text)
			put(&larger, texts->places[i].text, texts->places[i].hash);
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
	put(texts, made, key_hash(key));
	return made;
}

void dwarf_texts_free(struct dwarf_texts *texts)
{
	for (size_t i = 0; i < texts->place_count; i++)
		free(texts->places[i].text);
	free(texts->places);
	*texts = (struct dwarf_texts){0};
}
