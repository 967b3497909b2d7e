/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes into the tables of the kernel side what a manager or worker that was taken over might, for
 * tests/e2e/test_scribbled_tables.py.
 *
 *	scribble SECONDS SEED tables|pages PID...
 *
 * `pages` are the memory of one page each that a role may write: the positions up to which it has
 * read its rings, and what the worker sets for the kernel side.
 *
 * How this works. The roles have mapped their tables, so this program writes them through
 * /proc/PID/mem: exactly what the role itself could write. Random words alone would soon leave
 * nothing that the kernel side still follows. So only some words are wrong at a time, and they are
 * repaired later. A word becomes random, a little larger or smaller, zero, all ones, or another
 * word of the same table, which is the most plausible of all.
 *
 * Example: of a list of mappings, the word with the slot of the module is replaced by one with an
 * address. Until it is repaired, samples that pass through this mapping find no such module.
 *
 * It prints how many words it has written, and into which tables.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/time_units.h"

enum {
	TABLES_MAX = 64,
	/* Words that are wrong at the same time: with 64, most samples of a test were still walked
	 * to their end; with 4,096, hardly any. */
	WRONG_WORDS = 512,
	PAGE_BYTES = 4096,   /* every table is larger */
	ROUND_WORDS = 20000, /* between two searches for words that are used */
	EMPTY_OF = 16	     /* one of this many words may be an empty one */
};

struct table {
	int memory; /* /proc/PID/mem */
	uint64_t start, bytes;
	uint64_t *used; /* addresses of words that were not zero: most of each table is empty */
	size_t used_count;
	unsigned long long written;
};

struct wrong_word {
	struct table *table;
	uint64_t at, value;
};

static struct table tables[TABLES_MAX];
static unsigned int table_count;
static struct wrong_word wrong_words[WRONG_WORDS];
static uint64_t state;

static uint64_t random_next(void)
{
	/* SplitMix64. */
	uint64_t z = state += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

/* Finds the BPF maps that a process has mapped and may write: those of one page, or all others. */
static void find_tables(const char *pid, bool pages)
{
	char path[64], line[512];

	snprintf(path, sizeof(path), "/proc/%s/mem", pid);
	const int memory = open(path, O_RDWR | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/%s/maps", pid);
	FILE *f = fopen(path, "re");
	if (memory < 0 || !f) {
		perror(path);
		exit(EXIT_FAILURE);
	}
	while (table_count < TABLES_MAX && fgets(line, sizeof(line), f)) {
		char *rest;
		const uint64_t start = strtoul(line, &rest, 16), end = strtoul(rest + 1, NULL, 16);

		if (strstr(line, " rw-s ") && strstr(line, "bpf-map") &&
		    (end - start == PAGE_BYTES) == pages)
			tables[table_count++] =
			    (struct table){.memory = memory, .start = start, .bytes = end - start};
	}
	fclose(f);
}

static uint64_t word_at(const struct table *table, uint64_t at)
{
	uint64_t value = 0;

	if (pread(table->memory, &value, sizeof(value), (off_t)at) != sizeof(value))
		return 0;
	return value;
}

/* Finds the words of a table that are used. */
static void find_used(struct table *table)
{
	uint64_t *words = malloc(table->bytes);

	if (!table->used)
		table->used = malloc(table->bytes);
	if (!words || !table->used ||
	    pread(table->memory, words, table->bytes, (off_t)table->start) != (ssize_t)table->bytes)
		exit(EXIT_FAILURE);
	table->used_count = 0;
	for (uint64_t i = 0; i < table->bytes / sizeof(*words); i++) {
		if (words[i])
			table->used[table->used_count++] = table->start + i * sizeof(*words);
	}
	free(words);
}

static uint64_t random_place(const struct table *table)
{
	if (table->used_count && random_next() % EMPTY_OF)
		return table->used[random_next() % table->used_count];
	return table->start + random_next() % (table->bytes / 8) * 8;
}

static uint64_t changed(const struct table *table, uint64_t value)
{
	switch (random_next() % 8) {
	case 0:
		return random_next();
	case 1:
		return value + random_next() % 64;
	case 2:
		return value - random_next() % 64;
	case 3:
		return value ^ 1ull << random_next() % 64;
	case 4:
		return 0;
	case 5:
		return ~0ull;
	default:
		return word_at(table, random_place(table));
	}
}

static bool write_word(struct table *table, uint64_t at, uint64_t value)
{
	return pwrite(table->memory, &value, sizeof(value), (off_t)at) == sizeof(value);
}

static bool is_wrong(const struct table *table, uint64_t at)
{
	for (size_t i = 0; i < WRONG_WORDS; i++) {
		if (wrong_words[i].table == table && wrong_words[i].at == at)
			return true;
	}
	return false;
}

/*
 * Replaces one wrong word by another. Returns false if the process has ended.
 *
 * A word that is wrong already is left alone: what was read there now would not repair it.
 */
static bool scribble(struct wrong_word *wrong)
{
	if (wrong->table && !write_word(wrong->table, wrong->at, wrong->value))
		return false;
	wrong->table = NULL;
	struct table *table = &tables[random_next() % table_count];
	const uint64_t at = random_place(table);
	if (is_wrong(table, at))
		return true;
	wrong->table = table;
	wrong->at = at;
	wrong->value = word_at(wrong->table, wrong->at);
	wrong->table->written++;
	return write_word(wrong->table, wrong->at, changed(wrong->table, wrong->value));
}

int main(int argc, char **argv)
{
	unsigned long long count = 0;

	if (argc < 5)
		return EXIT_FAILURE;
	const uint64_t end_ns = clock_monotonic_ns() + strtoull(argv[1], NULL, 10) * NS_PER_S;
	state = strtoull(argv[2], NULL, 10);
	for (int i = 4; i < argc; i++)
		find_tables(argv[i], !strcmp(argv[3], "pages"));
	if (!table_count)
		return EXIT_FAILURE;
	while (clock_monotonic_ns() < end_ns) {
		for (unsigned int i = 0; i < table_count; i++)
			find_used(&tables[i]);
		for (int i = 0; i < ROUND_WORDS; i++) {
			if (!scribble(&wrong_words[count++ % WRONG_WORDS])) {
				perror("a role has ended");
				return EXIT_FAILURE;
			}
		}
	}
	for (unsigned int i = 0; i < table_count; i++)
		printf("table %llu %llu\n", (unsigned long long)tables[i].bytes, tables[i].written);
	printf("words %llu\n", count);
	return EXIT_SUCCESS;
}
