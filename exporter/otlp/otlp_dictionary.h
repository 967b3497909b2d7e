/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this works. This builds the dictionary of one OTLP message. Each of its tables has an entry 0
 * that means "none", no entry occurs twice, and every entry is used. An entry of the profile gets
 * an index in the dictionary when it is first used, and so does everything that it refers to. The
 * encoded size is therefore known at any time, and the last entries can be removed again. Work and
 * memory depend on what is used, not on the size of the profile.
 *
 * Example: otlp_use_stack(9) for a stack of one location 4, which has function 2 named "main": the
 * location table gets 4 as index 1, the function table 2 as index 1, the string table "main" as
 * index 1, and the stack table 9 as index 1, which is returned. A second otlp_use_stack(9) returns
 * 1 and adds nothing.
 */
#ifndef EXPORTER_OTLP_OTLP_DICTIONARY_H
#define EXPORTER_OTLP_OTLP_DICTIONARY_H

#include "exporter/model/profile.h"
#include "exporter/otlp/proto_out.h"

enum otlp_table {
	OTLP_MAPPINGS,
	OTLP_LOCATIONS,
	OTLP_FUNCTIONS,
	OTLP_STRINGS,
	OTLP_ATTRIBUTES,
	OTLP_STACKS,
	OTLP_TABLES
};

/* Strings that the encoder itself needs: types, units, and the keys of attributes. */
enum otlp_word {
	OTLP_WORD_NONE,
	OTLP_WORD_SAMPLES,
	OTLP_WORD_COUNT,
	OTLP_WORD_CPU,
	OTLP_WORD_NANOSECONDS,
	OTLP_WORD_FRAME_TYPE,
	OTLP_WORD_GENERATED_NAME,
	OTLP_WORD_GNU_BUILD_ID,
	OTLP_WORD_GO_BUILD_ID,
	OTLP_WORD_HTLHASH,
	OTLP_WORD_THREAD_NAME,
	OTLP_WORD_THREAD_ID,
	OTLP_WORD_LOGICAL_CPU,
	OTLP_WORDS,
	/* Not a string: the key of an attribute whose value is a label of the profile. */
	OTLP_WORD_LABEL = OTLP_WORDS,
};

/* What an entry stands for: an id in the profile. A string entry has either a `word`, or an id. An
 * attribute's `word` is its key, and `value` is a string, a label or the number itself. */
struct otlp_entry {
	uint32_t word, value;
};

struct otlp_entries {
	struct otlp_entry *entries; /* the first one has index 1 */
	uint32_t count, capacity;
	uint32_t *slots; /* a hash from entry to index; 0: free */
	uint32_t slots_count;
	uint64_t multiplier; /* of the hash: see find_slot() */
	uint64_t bytes;	     /* encoded size, with the "none" entry */
};

struct otlp_dictionary {
	const struct profile *profile;
	bool for_backend;
	struct otlp_entries tables[OTLP_TABLES];
	struct otlp_entry words[OTLP_WORDS]; /* words that the profile contains are its strings */
	uint32_t *indices;		     /* of the locations of the stack being encoded */
	size_t indices_capacity;
	int error; /* the first error; all indexes are 0 from then on */
};

/* The size of the dictionary at some moment. */
struct otlp_mark {
	struct {
		uint32_t count;
		uint64_t bytes;
	} tables[OTLP_TABLES];
};

/* Initialises an empty dictionary. With `for_backend`, mappings without htlhash get no other build
 * id either, because some backends refuse those. */
void otlp_dictionary_init(struct otlp_dictionary *dictionary, const struct profile *profile,
			  bool for_backend);
void otlp_dictionary_fini(struct otlp_dictionary *dictionary);

/* These functions return the index of a word, a stack or an attribute. They create it if necessary,
 * with all that it refers to. After an error (see `error`) they return 0. */
uint32_t otlp_use_word(struct otlp_dictionary *dictionary, enum otlp_word word);
uint32_t otlp_use_stack(struct otlp_dictionary *dictionary, uint32_t stack);
/* The key decides whether `value` is a string or a label of the profile, or the value itself. */
uint32_t otlp_use_attribute(struct otlp_dictionary *dictionary, enum otlp_word key, uint32_t value);

/* Returns the present size, for otlp_dictionary_return(). */
struct otlp_mark otlp_dictionary_mark(const struct otlp_dictionary *dictionary);
/* Removes the entries that were created since the mark. */
void otlp_dictionary_return(struct otlp_dictionary *dictionary, const struct otlp_mark *mark);
/* Removes all entries except the "none" ones. */
void otlp_dictionary_clear(struct otlp_dictionary *dictionary);

/* Writes the fields of the ProfilesDictionary. otlp_dictionary_bytes() returns their size. */
void otlp_dictionary_put(struct otlp_dictionary *dictionary, struct proto_out *out);
uint64_t otlp_dictionary_bytes(const struct otlp_dictionary *dictionary);

/* Writes an AnyValue as field 2 of a KeyValue or a KeyValueAndUnit: `text`, or `number` if `text`
 * is NULL. It is written even if it is 0 or "". otlp_value_bytes() returns its size. */
void otlp_put_value(struct proto_out *out, const char *text, size_t length, uint64_t number);
uint64_t otlp_value_bytes(const char *text, size_t length, uint64_t number);

#endif
