/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names that one process gives to the code that it generates.
 *
 * How this works. Entries are added in the order of the file. A later one replaces earlier ones at
 * the same addresses, wholly or in part. jit_symbols_sort() makes ranges of them that do not
 * overlap: it goes through the addresses in ascending order, and at each of them the entry that was
 * added last counts. The result is sorted, so that an address is found by a binary search, and the
 * next call merges what was added since then.
 *
 * Each range has the id of the entry that it came from, which no other entry has, also of other
 * processes. So the id says whether a name that was used is still that of the same code.
 *
 * An entry may have source lines, which are added before it. The code of an entry may be moved:
 * that is a new entry with the same name and lines.
 *
 * If it is known when code was made, the last ranges that were replaced are kept for a while. A
 * sample that is older than the code at its address has the name of the code that was there before.
 *
 * Example: "1000 100 f", "1100 100 g" and later "1080 100 h" become 1000-1080 f, 1080-1180 h and
 * 1180-1200 g.
 */
#ifndef SYMBOLIZER_WORKER_JIT_SYMBOLS_H
#define SYMBOLIZER_WORKER_JIT_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	/* Ranges that were replaced. Samples are some seconds old at most, so this is enough for a
	 * JIT compiler that replaces some fifty functions per second. */
	JIT_REPLACED_COUNT = 128,
};

/* The addresses of an entry. Its id is larger than those of all entries before. */
struct jit_range {
	uint64_t start, end;
	uint64_t id;
	uint64_t time_ns; /* when the code was made; 0: unknown */
};

struct jit_entry {
	uint64_t start, end;
	uint64_t id;
	uint64_t time_ns;
	uint64_t origin; /* where the code starts, also if its first part was replaced */
	size_t name;	 /* offset in `text` */
	uint32_t first_line, line_count; /* in `lines` */
};

/* From an offset in the code of an entry on, it is of this line. */
struct jit_line {
	uint32_t offset;
	uint32_t line;
	uint32_t file; /* offset in `text` */
};

/* All zeros: empty. */
struct jit_symbols {
	struct jit_entry *entries;
	size_t count, capacity;
	size_t sorted; /* the first entries that are sorted and do not overlap */
	char *text;    /* the names and the files, each with a NUL */
	size_t text_used, text_capacity;
	size_t text_kept; /* when it was last searched for what is not used any more */
	struct jit_line *lines;
	size_t line_count, line_capacity;
	size_t lines_kept;  /* as text_kept */
	size_t first_added; /* the lines from here on are those of the next entry */
	size_t last_file;   /* of the line that was added last: offset in `text` */
	bool has_file;	    /* there is one */
	struct jit_entry
	    *replaced;	       /* JIT_REPLACED_COUNT of them, as a ring; NULL: there are none */
	size_t replaced_count; /* that there were in all */
	uint64_t replaced_ns;  /* no range was replaced by one that is younger */
};

/* Adds an entry. Returns 0; -E2BIG: the process has as many entries, or as long names, as it may
 * have (limits.h); or -ENOMEM. */
int jit_symbols_add(struct jit_symbols *symbols, const struct jit_range *range, const char *name,
		    size_t name_length);

/* Adds a line of the entry that is added next: `offset` is that in its code. Without a file (NULL),
 * it is that of the line before. Returns 0; -ENOENT: there was none; -E2BIG: there is no room for
 * more lines of this entry, or at all; or -ENOMEM. */
int jit_symbols_add_line(struct jit_symbols *symbols, uint64_t offset, uint32_t line,
			 const char *file, size_t file_length);

/* Drops the lines that were added for the next entry. */
void jit_symbols_drop_lines(struct jit_symbols *symbols);

/* Adds an entry for the code that was at `from`, of which the entry was added last that has this
 * address. Returns as jit_symbols_add(), or -ENOENT if there is none. Takes a time that is
 * proportional to the number of entries since the last jit_symbols_sort(). */
int jit_symbols_move(struct jit_symbols *symbols, uint64_t from, const struct jit_range *range);

/* Makes ranges of what was added since the last call; before that it is not found. Sets `*replaced`
 * if ranges that could be found before have changed. Returns 0 or -ENOMEM: then what was added is
 * dropped. */
int jit_symbols_sort(struct jit_symbols *symbols, bool *replaced);

/* Returns the range with this address, or NULL. Valid until entries are added. */
const struct jit_entry *jit_symbols_find(const struct jit_symbols *symbols, uint64_t address);

/* Returns the range that had this address at a time, as far as that is known. Valid as above. */
const struct jit_entry *jit_symbols_find_at(const struct jit_symbols *symbols, uint64_t address,
					    uint64_t time_ns);

static inline const char *jit_symbols_name(const struct jit_symbols *symbols,
					   const struct jit_entry *entry)
{
	return symbols->text + entry->name;
}

/* Finds the source line of an address of an entry. `shift` is what the writer has added to the
 * offsets of lines. Returns it, or 0 if it is unknown, or is in another file than the start of the
 * code; and the file of that, "" if it is unknown. */
uint32_t jit_symbols_line(const struct jit_symbols *symbols, const struct jit_entry *entry,
			  uint64_t address, uint64_t shift, const char **file);

/* Returns the memory that they take, in bytes. */
size_t jit_symbols_bytes(const struct jit_symbols *symbols);

void jit_symbols_free(struct jit_symbols *symbols);

#endif
