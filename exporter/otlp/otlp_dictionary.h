/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dictionary of one OTLP message: entry 0 in every table, nothing twice, and nothing that was
 * not asked for. Entries of a profile get their numbers in the order of their first use, so that
 * the encoded size is known at any moment and the last uses can be taken back. Work and memory go
 * by what is used, not by what the profile holds.
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

/* Strings of the dictionary that are ours: types, units, and the keys of attributes. */
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
	OTLP_WORDS
};

/* What an entry is made of: a number in the profile. Of strings, `word` and 0 for one of ours; of
 * attributes, `word` is the key and the value a string or the number itself. */
struct otlp_entry {
	uint32_t word, value;
};

struct otlp_entries {
	struct otlp_entry *entries; /* the first has number 1 */
	uint32_t count, capacity;
	uint32_t *slots; /* a hash from entry to number; 0: free */
	uint32_t slots_count;
	uint64_t multiplier; /* of the hash */
	uint64_t bytes;	     /* encoded, the "none" entry included */
};

struct otlp_dictionary {
	const struct profile *profile;
	bool for_backend;
	struct otlp_entries tables[OTLP_TABLES];
	struct otlp_entry words[OTLP_WORDS]; /* those that the profile has are its strings */
	uint32_t *indices;		     /* of the stack that is being encoded */
	uint32_t indices_capacity;
	int error; /* the first one; all numbers are 0 from then on */
};

/* What there was at some moment. */
struct otlp_mark {
	struct {
		uint32_t count;
		uint64_t bytes;
	} tables[OTLP_TABLES];
};

/* `for_backend`: mappings without htlhash have no other build ids either, which some backends would
 * refuse. */
void otlp_dictionary_init(struct otlp_dictionary *dictionary, const struct profile *profile,
			  bool for_backend);
void otlp_dictionary_fini(struct otlp_dictionary *dictionary);

/* The number of a word, a stack, or an attribute: found or made, with all that it refers to. */
uint32_t otlp_use_word(struct otlp_dictionary *dictionary, enum otlp_word word);
uint32_t otlp_use_stack(struct otlp_dictionary *dictionary, uint32_t stack);
/* The key says whether `value` is a string of the profile or the value itself. */
uint32_t otlp_use_attribute(struct otlp_dictionary *dictionary, enum otlp_word key, uint32_t value);

struct otlp_mark otlp_dictionary_mark(const struct otlp_dictionary *dictionary);
/* Forget what was made since. */
void otlp_dictionary_return(struct otlp_dictionary *dictionary, const struct otlp_mark *mark);
void otlp_dictionary_clear(struct otlp_dictionary *dictionary);

/* The fields of the ProfilesDictionary, and their bytes. */
void otlp_dictionary_put(struct otlp_dictionary *dictionary, struct proto_out *out);
uint64_t otlp_dictionary_bytes(const struct otlp_dictionary *dictionary);

/* An AnyValue as field 2 of a KeyValue or a KeyValueAndUnit: `text`, or `number` if that is NULL. A
 * value is written even if it is 0 or "". */
void otlp_put_value(struct proto_out *out, const char *text, size_t length, uint64_t number);
uint64_t otlp_value_bytes(const char *text, size_t length, uint64_t number);

#endif
