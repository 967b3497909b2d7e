/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names code by DWARF debug information: functions, inlined calls, files and lines.
 *
 * How this works. The index of units (parse/dwarf_units.h) leads from an address to a unit. The
 * unit is opened: its abbreviations, its functions and its lines are read. The function with the
 * address is opened, too: the calls that were inlined into it are read. These lead to
 * the calls at the address, and each call to an entry with a name, often by way of others: an
 * inlined call refers to the function as it was written, and that may refer to its declaration in a
 * class. A name that the linker uses is preferred, since it has the namespace and the class.
 *
 * Names may also be in an alternate file, which several files share (parse/debug_link.h). Its units
 * have an index and are opened like those of the file itself.
 *
 * The functions of a unit may also be in a split file (parse/dwarf_split.h): in the package of the
 * program, or in a file of their own. When such a unit is opened for the first time, its file is
 * wanted (namer.h), the package before all others. Until it comes, and if there is none, only lines
 * are known.
 *
 * All of this is done in parts that take some milliseconds: an account limits each call of
 * dwarf_name(), and what was read until then is kept. Units stay open until others need their
 * memory, and then keep only where their functions and lines are.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "parse/dwarf_units.h"
#include "symbolizer/namer/dwarf_files.h"
#include "symbolizer/namer/dwarf_open_units.h"
#include "symbolizer/namer/dwarf_texts.h"
#include "symbolizer/namer/namer.h"

enum {
	/* What a lookup may cost (struct dwarf_reader), about 5 ms, and what must be left of that
	 * for a lookup in a unit that is open. */
	LOOKUP_COST = 2 << 20,
	FIND_COST = 1 << 20,
	/* Entries from an inlined call to the name: real ones need three. */
	ORIGINS_MAX = 8,
	NAME_STEP = 96, /* bytes of an entry that are read at once; few have more */
	/* Names may be far from each other in a compressed section. Each try finds at least one of
	 * a frame's, or opens a unit with it. */
	TRIES_MAX = 2 * NAMED_FRAMES_MAX,
};
_Static_assert((int)DWARF_CALLS_MAX <= (int)NAMED_FRAMES_MAX, "all calls fit");

struct dwarf_state {
	struct dwarf_files files;
	struct dwarf_units units, alternate_units;
	struct dwarf_texts texts;
	struct dwarf_open_units open;
	bool is_unusable;     /* there is too much of it */
	uint64_t tried_vaddr; /* whose names cost too much at the last try */
	unsigned int tries;
};

/* --- units --- */

/* Opens the other half of a unit whose entries are in a split file, if that is there. */
static void unit_attach(struct dwarf_state *state, struct dwarf_reader *reader,
			struct dwarf_open_unit *unit)
{
	struct dwarf_abbrevs abbrevs = {0};
	struct dwarf_unit entries;
	const struct dwarf_file *file = dwarf_files_find_split(
	    &state->files, reader, &unit->own, &entries, &abbrevs, &unit->lacks_split);

	if (!file)
		return;
	dwarf_abbrevs_free(&unit->abbrevs);
	dwarf_functions_free(&unit->functions);
	unit->abbrevs = abbrevs;
	unit->file = file;
	unit->unit = entries;
}

/* Returns the unit at an offset of the reader's file, with its abbreviations. Returns NULL if it
 * cannot be read. */
static struct dwarf_open_unit *unit_use(struct dwarf_state *state, struct dwarf_reader *reader,
					uint64_t offset)
{
	struct dwarf_open_unit *unit = dwarf_open_units_use(&state->open, reader, offset);

	if (!unit || unit->abbrevs.count)
		return unit;
	struct dwarf_reader entries = dwarf_files_reader(&state->files, reader, unit->file);
	const int r = dwarf_abbrevs_read(&entries, &unit->unit, &unit->abbrevs);
	reader->left = dwarf_left(&entries);
	if (r < 0)
		dwarf_abbrevs_free(&unit->abbrevs);
	dwarf_open_units_account(&state->open, unit);
	return r == 0 ? unit : NULL;
}

/* Reads what a lookup of an address in the unit needs. Returns 0; -EAGAIN: there is more to read;
 * -ENOENT: it cannot be read. Lines may be missing, if there are too many. */
static int unit_prepare(struct dwarf_state *state, struct dwarf_open_unit *unit,
			struct dwarf_reader *reader, uint64_t vaddr)
{
	struct dwarf_reader entries = dwarf_files_reader(&state->files, reader, unit->file);

	if (!unit->functions.complete &&
	    dwarf_functions_read(&unit->functions, &entries, &unit->unit, &unit->abbrevs) < 0)
		return -ENOENT;
	reader->left = dwarf_left(&entries);
	if (!unit->functions.complete || reader->left < FIND_COST)
		return -EAGAIN;
	if (!unit->lines.complete && dwarf_lines_read(&unit->lines, reader, &unit->own) < 0) {
		dwarf_lines_free(&unit->lines);
		unit->lines.started = unit->lines.complete = true;
	}
	if (!unit->lines.complete || dwarf_left(reader) < FIND_COST)
		return -EAGAIN;
	entries.left = reader->left;
	const int r = dwarf_functions_read_inlined(&unit->functions, &entries, &unit->unit,
						   &unit->abbrevs, vaddr);
	reader->left = dwarf_left(&entries);
	return r == 0 && reader->left >= FIND_COST ? 0 : -EAGAIN;
}

/* --- names --- */

struct found_name {
	char text[DWARF_TEXT_BYTES];
	bool mangled;
	uint32_t start_line;
};

/* Takes what an entry has, where those before it had nothing. */
static void name_take(struct dwarf_reader *reader, const struct dwarf_unit *unit,
		      const struct dwarf_entry *entry, struct found_name *name)
{
	const uint64_t line = entry->values[DWARF_DECL_LINE].number;
	enum dwarf_section_kind kind;
	uint64_t offset;

	if (!name->start_line && line <= UINT32_MAX)
		name->start_line = (uint32_t)line;
	if (dwarf_value_find_text(reader, &unit->encoding, &entry->values[DWARF_LINKAGE_NAME],
				  DWARF_INFO, &kind, &offset)) {
		char text[DWARF_TEXT_BYTES];

		/* Of Rust and C++. Others have names that are not demangled here. */
		dwarf_read_text(reader, kind, offset, text, sizeof(text));
		name->mangled = text[0] == '_' && (text[1] == 'Z' || text[1] == 'R');
		if (name->mangled || !name->text[0])
			memcpy(name->text, text, sizeof(text));
	}
	if (!name->text[0] &&
	    dwarf_value_find_text(reader, &unit->encoding, &entry->values[DWARF_NAME], DWARF_INFO,
				  &kind, &offset))
		dwarf_read_text(reader, kind, offset, name->text, sizeof(name->text));
}

/* Returns the unit with an offset in the file that is read: the given one, or another one, which is
 * opened. Returns NULL if there is none. */
static struct dwarf_open_unit *unit_with(struct dwarf_state *state, struct dwarf_reader *reader,
					 struct dwarf_open_unit *unit, uint64_t offset)
{
	const struct dwarf_units *units = reader->file == &state->files.main ? &state->units
					  : reader->file == &state->files.alternate
					      ? &state->alternate_units
					      : NULL;
	uint64_t start;

	if (unit->file == reader->file && offset >= unit->unit.offset && offset < unit->unit.end)
		return unit;
	/* Units of split files do not refer to each other. */
	return units && dwarf_units_find_offset(units, offset, &start)
		   ? unit_use(state, reader, start)
		   : NULL;
}

/* Goes from an entry to the one that it refers to, with the reader if that is in the alternate
 * file. The alternate file itself has none. Returns false if there is no such entry. */
static bool origin_follow(struct dwarf_state *state, struct dwarf_reader *reader,
			  const struct dwarf_encoding *encoding, const struct dwarf_value *origin,
			  struct elf_window *info, uint64_t *offset)
{
	if (dwarf_value_reference(encoding, origin, offset))
		return true;
	if (!dwarf_value_alternate_reference(origin, offset) ||
	    reader->file != &state->files.main || !reader->other)
		return false;
	*reader = dwarf_files_reader(&state->files, reader, &state->files.alternate);
	elf_window_fini(info);
	dwarf_window_init(reader, DWARF_INFO, NAME_STEP, info);
	return true;
}

/* Finds an entry of an open unit, or what is known of its name. Returns false if there is none. */
static bool name_entry_find(const struct dwarf_open_unit *unit, struct dwarf_reader *reader,
			    struct elf_window *info, uint64_t offset, struct dwarf_entry *entry)
{
	if (dwarf_name_sources_find(&unit->functions.names, &unit->unit, offset, entry))
		return true;
	return dwarf_entry_read(reader, &unit->unit, &unit->abbrevs, info, offset, entry) &&
	       entry->tag;
}

/* Reads the name of a function, starting with an entry of an open unit. Returns whether there is
 * one. */
static bool name_read(struct dwarf_state *state, struct dwarf_reader *reader,
		      struct dwarf_open_unit *unit, uint64_t offset, struct found_name *name)
{
	struct dwarf_reader at = *reader;
	struct dwarf_entry entry;
	struct elf_window info;

	name->text[0] = 0;
	name->mangled = false;
	name->start_line = 0;
	dwarf_window_init(&at, DWARF_INFO, NAME_STEP, &info);
	for (unsigned int i = 0; i < ORIGINS_MAX && !name->mangled; i++) {
		unit = unit_with(state, &at, unit, offset);
		if (!unit || !name_entry_find(unit, &at, &info, offset, &entry))
			break;
		name_take(&at, &unit->unit, &entry, name);
		if (!origin_follow(state, &at, &unit->unit.encoding, &entry.values[DWARF_ORIGIN],
				   &info, &offset))
			break;
	}
	elf_window_fini(&info);
	reader->left = at.left;
	return name->text[0] != 0;
}

static struct dwarf_text_key name_key(const struct dwarf_open_unit *unit, uint64_t entry)
{
	return (struct dwarf_text_key){unit->file, entry, DWARF_TEXT_NAME};
}

static struct dwarf_text_key path_key(const struct dwarf_open_unit *unit, uint64_t file)
{
	return (struct dwarf_text_key){unit->own_file, unit->own.offset, file};
}

/* Finds the name of a function by an entry of an open unit. Returns NULL if it has none. */
static const struct dwarf_text *name_find(struct dwarf_state *state, struct dwarf_reader *reader,
					  struct dwarf_open_unit *unit, uint64_t offset)
{
	const struct dwarf_text_key key = name_key(unit, offset);
	const struct dwarf_text *name = dwarf_texts_find(&state->texts, &key);
	struct found_name found;

	if (name)
		return name;
	struct dwarf_reader entries = dwarf_files_reader(&state->files, reader, unit->file);
	/* If the account is used up, it may lack a part. */
	if (name_read(state, &entries, unit, offset, &found) && entries.left)
		name = dwarf_texts_keep(&state->texts, &key, found.text, found.mangled,
					found.start_line);
	reader->left = dwarf_left(&entries);
	return name;
}

/* Finds the path of a file by its number in an open unit, for a frame. */
static void keep_path(struct dwarf_state *state, struct dwarf_reader *reader,
		      const struct dwarf_open_unit *unit, uint64_t file,
		      struct named_frames *frames, struct named_frame *frame)
{
	const struct dwarf_text_key key = path_key(unit, file);
	const struct dwarf_text *path = dwarf_texts_find(&state->texts, &key);

	if (!path) {
		char text[DWARF_TEXT_BYTES];

		dwarf_line_names_path(&unit->lines.names, reader, &unit->own.encoding,
				      &unit->own.root.values[DWARF_COMP_DIR], file, text,
				      sizeof(text));
		if (reader->left)
			path = dwarf_texts_keep(&state->texts, &key, text, false, 0);
	}
	if (path)
		frame->file = named_frames_keep(frames, path->text, DWARF_TEXT_BYTES);
}

struct place {
	uint64_t file, line; /* 0: unknown */
};

/* Returns where in the source a function is at an address: where the row of the address says, or,
 * outside of the innermost function, where the next inner one was called. */
static struct place call_place(const struct dwarf_calls *calls, unsigned int index,
			       const struct dwarf_line_row *row)
{
	if (index > 0)
		return (struct place){calls->items[index - 1].call_file,
				      calls->items[index - 1].call_line};
	return (struct place){row->file, row->line};
}

/* Has the CPU fetch what the texts of all calls are found by, while the first ones are found. */
static void calls_expect(const struct dwarf_state *state, const struct dwarf_open_unit *unit,
			 const struct dwarf_calls *calls, const struct dwarf_line_row *row)
{
	for (unsigned int i = 0; i < calls->count; i++) {
		const struct dwarf_text_key name = name_key(unit, calls->items[i].entry);
		const struct dwarf_text_key path = path_key(unit, call_place(calls, i, row).file);

		dwarf_texts_expect(&state->texts, &name);
		dwarf_texts_expect(&state->texts, &path);
	}
}

/* Names all calls. */
static bool calls_name(struct dwarf_state *state, struct dwarf_reader *reader,
		       struct dwarf_open_unit *unit, uint64_t vaddr,
		       const struct dwarf_calls *calls, struct named_frames *frames)
{
	struct dwarf_line_row row = {0};
	const bool has_row = dwarf_lines_find(&unit->lines, reader, vaddr, &row);

	calls_expect(state, unit, calls, &row);
	for (unsigned int i = 0; i < calls->count; i++) {
		const struct place place = call_place(calls, i, &row);
		struct named_frame *frame = &frames->frames[frames->count];
		if (i > 0 && !dwarf_left(reader))
			return false;
		const struct dwarf_text *name =
		    name_find(state, reader, unit, calls->items[i].entry);

		/* The function itself may have a symbol. */
		if (!name && i + 1 < calls->count)
			return false;
		*frame = (struct named_frame){
		    .function = "",
		    .file = "",
		    .line = place.line <= UINT32_MAX ? (uint32_t)place.line : 0};
		if (name) {
			frame->function = named_frames_keep(frames, name->text, DWARF_TEXT_BYTES);
			frame->mangled = name->mangled;
			frame->start_line = name->start_line;
		}
		if (i > 0 || has_row)
			keep_path(state, reader, unit, place.file, frames, frame);
		frames->count++;
	}
	return true;
}

/* Tells the line of code whose function is not described: assembly, or a function that the compiler
 * found to be equal to another one. */
static bool line_only(struct dwarf_state *state, struct dwarf_reader *reader,
		      struct dwarf_open_unit *unit, uint64_t vaddr, struct named_frames *frames)
{
	struct dwarf_line_row row;

	if (!dwarf_lines_find(&unit->lines, reader, vaddr, &row))
		return false;
	frames->frames[0] = (struct named_frame){.function = "", .file = "", .line = row.line};
	keep_path(state, reader, unit, row.file, frames, &frames->frames[0]);
	frames->count = 1;
	return true;
}

/* Returns whether names of an address that costs too much may be read once more. */
static bool unit_may_try_again(struct dwarf_state *state, uint64_t vaddr)
{
	state->tries = vaddr == state->tried_vaddr ? state->tries + 1 : 1;
	state->tried_vaddr = vaddr;
	return state->tries < TRIES_MAX;
}

/* Names an address in a unit that is prepared. */
static int unit_name(struct dwarf_state *state, struct dwarf_reader *reader,
		     struct dwarf_open_unit *unit, uint64_t vaddr, struct named_frames *frames)
{
	struct dwarf_calls calls;
	const bool is_known =
	    dwarf_functions_find(&unit->functions, unit->file, &unit->unit, vaddr, &calls)
		? calls_name(state, reader, unit, vaddr, &calls, frames)
		: line_only(state, reader, unit, vaddr, frames);

	/* What it has read until the account was used up is in memory, and costs less next time. */
	if (!dwarf_left(reader) && unit_may_try_again(state, vaddr))
		return -EAGAIN;
	return is_known ? 0 : -ENOENT;
}

/* --- the namer --- */

static void dwarf_close(void *context)
{
	struct dwarf_state *state = context;

	dwarf_open_units_free(&state->open);
	dwarf_units_free(&state->units);
	dwarf_units_free(&state->alternate_units);
	dwarf_texts_free(&state->texts);
	dwarf_files_close(&state->files);
	free(state);
}

static int dwarf_open(const struct elf_image *image, void **state)
{
	struct dwarf_state *made = calloc(1, sizeof(*made));

	if (!made)
		return -ENOMEM;
	const int r = dwarf_files_open(&made->files, image);
	if (r < 0) {
		free(made);
		return r;
	}
	*state = made;
	return 0;
}

static const struct namer_wanted *dwarf_wanted(const void *context)
{
	const struct dwarf_state *state = context;

	return state->files.wanted.kind ? &state->files.wanted : NULL;
}

static int dwarf_add(void *context, const struct elf_image *image)
{
	struct dwarf_state *state = context;

	/* Names may lack what the file has. */
	dwarf_texts_free(&state->texts);
	return dwarf_files_add(&state->files, image);
}

static void dwarf_do_without(void *context)
{
	struct dwarf_state *state = context;

	dwarf_files_do_without(&state->files);
}

static size_t dwarf_bytes(const void *context)
{
	const struct dwarf_state *state = context;

	return sizeof(*state) + dwarf_files_bytes(&state->files) +
	       dwarf_units_bytes(&state->units) + dwarf_units_bytes(&state->alternate_units) +
	       state->texts.bytes + state->open.bytes;
}

/* Prepares compressed sections, and reads the indexes of units. If that of the alternate file is
 * too large, it is used no further. Returns 0; -EAGAIN: there is more to read; -ENOENT: there is
 * too much. */
static int indexes_prepare(struct dwarf_state *state, struct dwarf_reader *reader)
{
	if (!dwarf_files_index(&state->files, reader))
		return -EAGAIN;
	if (!state->is_unusable && !state->units.complete &&
	    dwarf_units_read(&state->units, reader) < 0) {
		dwarf_units_free(&state->units);
		state->is_unusable = true;
	}
	if (state->is_unusable)
		return -ENOENT;
	if (state->units.complete && reader->other && !state->alternate_units.complete) {
		struct dwarf_reader alternate =
		    dwarf_files_reader(&state->files, reader, &state->files.alternate);

		if (dwarf_units_read(&state->alternate_units, &alternate) < 0) {
			dwarf_units_free(&state->alternate_units);
			state->alternate_units.complete = true;
		}
		reader->left = dwarf_left(&alternate);
	}
	return !state->units.complete || dwarf_left(reader) < FIND_COST ||
		       (reader->other && !state->alternate_units.complete)
		   ? -EAGAIN
		   : 0;
}

static int dwarf_name(void *context, const struct namer_sources *sources, uint64_t vaddr,
		      struct named_frames *frames)
{
	struct dwarf_state *state = context;
	struct dwarf_reader reader = dwarf_files_begin(&state->files, sources, LOOKUP_COST);
	uint64_t offset;
	int r;

	state->open.present = NULL;
	r = indexes_prepare(state, &reader);
	if (r < 0)
		return r;
	if (!dwarf_units_find_code(&state->units, &state->files.main, vaddr, &offset))
		return -ENOENT;
	struct dwarf_open_unit *unit = unit_use(state, &reader, offset);
	if (!unit)
		return -ENOENT;
	state->open.present = unit;
	if (unit->lacks_split)
		unit_attach(state, &reader, unit);
	if (unit->lacks_split && dwarf_files_say_wanted(&state->files))
		return -EINPROGRESS;
	r = unit_prepare(state, unit, &reader, vaddr);
	dwarf_open_units_account(&state->open, unit);
	return r < 0 ? r : unit_name(state, &reader, unit, vaddr, frames);
}

const struct namer_ops namer_dwarf = {.kind = FRAME_KIND_NATIVE,
				      .open = dwarf_open,
				      .close = dwarf_close,
				      .bytes = dwarf_bytes,
				      .wanted = dwarf_wanted,
				      .add = dwarf_add,
				      .do_without = dwarf_do_without,
				      .name = dwarf_name};
