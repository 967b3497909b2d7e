/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files that the debug information of a program is in: the file itself, an alternate file
 * (parse/debug_link.h), and split files (parse/dwarf_split.h).
 *
 * How this works. The caller of the namer brings files one after the other, each when it is wanted
 * (struct namer_wanted), and says if there is none. An alternate file is wanted from the start. A
 * split file is wanted when the entries of a unit are looked for that no file has: first the
 * package of the program, and if there is no package, the file of this unit. A unit that is nowhere
 * is remembered, so that its file is not wanted again.
 */
#ifndef SYMBOLIZER_NAMER_DWARF_FILES_H
#define SYMBOLIZER_NAMER_DWARF_FILES_H

#include "parse/dwarf_split.h"
#include "symbolizer/namer/namer.h"

struct dwarf_split_file {
	struct dwarf_file file;
	uint64_t dwo_id;     /* of its unit; 0: it is the package */
	unsigned int source; /* which of the further files it is */
};

struct dwarf_files {
	struct dwarf_file main;
	struct dwarf_file alternate; /* all zeros: there is none */
	unsigned int alternate_source;
	struct dwarf_split_file *splits[NAMER_FILES_MAX];
	unsigned int split_count, further_count;
	struct namer_wanted wanted;
	uint64_t wanted_dwo_id; /* of a wanted split file */
	bool wanted_is_said;	/* the caller was told that it is wanted */
	bool no_package;
	bool is_indexed;   /* dwarf_files_index() is complete */
	uint64_t *missing; /* units whose split files are not there; NULL: none yet */
	unsigned int missing_count;
	const struct namer_sources *sources; /* of the present lookup */
};

/* Finds the sections of the file itself, and whether it has an alternate file. Returns as the
 * `open` of a namer, and frees what was found if that is not 0. */
int dwarf_files_open(struct dwarf_files *files, const struct elf_image *image);
void dwarf_files_close(struct dwarf_files *files);

/* Returns the memory that they take, in bytes. */
size_t dwarf_files_bytes(const struct dwarf_files *files);

/* Adds the file that is wanted, or gives it up; as the `add` and `do_without` of a namer. */
int dwarf_files_add(struct dwarf_files *files, const struct elf_image *image);
void dwarf_files_do_without(struct dwarf_files *files);

/* Starts a lookup that may cost `cost`: returns a reader of the file itself. */
struct dwarf_reader dwarf_files_begin(struct dwarf_files *files,
				      const struct namer_sources *sources, uint64_t cost);

/* Goes on with what reads of all files need (dwarf_file_index()). The lists of units do the rest.
 * Returns false if there is more to be done, or anything was paid from the reader's account. */
bool dwarf_files_index(struct dwarf_files *files, struct dwarf_reader *reader);

/* Returns a reader of one of the files, with the account of `reader`, which is one of another. */
struct dwarf_reader dwarf_files_reader(struct dwarf_files *files, const struct dwarf_reader *reader,
				       const struct dwarf_file *file);

/* Reads the unit with the entries of a skeleton from a split file. Returns that file, with `unit`
 * and `abbrevs`, which the caller frees; or NULL. Then `may_come` tells whether it is, or will be,
 * wanted. `reader` is that of the file itself. */
const struct dwarf_file *dwarf_files_find_split(struct dwarf_files *files,
						struct dwarf_reader *reader,
						const struct dwarf_unit *skeleton,
						struct dwarf_unit *unit,
						struct dwarf_abbrevs *abbrevs, bool *may_come);

/* Returns whether a split file is wanted and the caller was not told that yet. */
bool dwarf_files_say_wanted(struct dwarf_files *files);

#endif
