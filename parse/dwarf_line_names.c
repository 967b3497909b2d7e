/* SPDX-License-Identifier: Apache-2.0 */
#include "parse/dwarf_line_names.h"

#include <dwarf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"

enum {
	NAMES_MAX = 1 << 16,
	TABLES_BYTES_MAX = 4 << 20,
	FORMATS_MAX = 16,
	PART_BYTES = 1024, /* of a path */
};

static int name_add(struct dwarf_line_list *list, struct dwarf_line_name name)
{
	const int r = ARRAY_RESERVE(list->items, list->capacity, list->count + 1, 8, NAMES_MAX);

	if (r == 0)
		list->items[list->count++] = name;
	return r;
}

/* --- versions 2 to 4: strings, up to an empty one --- */

static int names_read_old(struct dwarf_line_list *list, struct cursor *c, uint64_t from,
			  bool are_files)
{
	/* They are counted from one on. The directory 0 is that of the unit. */
	int r = name_add(list, (struct dwarf_line_name){.section = DWARF_SECTION_COUNT});

	while (r == 0) {
		struct dwarf_line_name name = {.text = from + cursor_offset(c),
					       .section = DWARF_LINE};
		const char *text = cursor_string(c);

		if (!text || !*text)
			break;
		if (are_files) {
			const uint64_t directory = cursor_uleb128(c);

			cursor_uleb128(c); /* time */
			cursor_uleb128(c); /* length */
			name.directory = directory < NAMES_MAX ? (uint32_t)directory : NAMES_MAX;
		}
		r = name_add(list, name);
	}
	return r;
}

/* --- version 5: entries with forms --- */

struct name_format {
	uint64_t content[FORMATS_MAX], form[FORMATS_MAX]; /* DW_LNCT_*, DW_FORM_* */
	unsigned int count;
};

static bool format_read(struct cursor *c, struct name_format *format)
{
	format->count = cursor_u8(c);
	if (format->count > FORMATS_MAX)
		return false;
	for (unsigned int i = 0; i < format->count; i++) {
		format->content[i] = cursor_uleb128(c);
		format->form[i] = cursor_uleb128(c);
		if (format->form[i] > UINT16_MAX || format->form[i] == DW_FORM_implicit_const)
			return false;
	}
	return !c->failed && format->count > 0;
}

static void name_read(struct dwarf_reader *reader, const struct dwarf_encoding *encoding,
		      struct cursor *c, uint64_t from, const struct name_format *format,
		      struct dwarf_line_name *name)
{
	for (unsigned int i = 0; i < format->count && !c->failed; i++) {
		struct dwarf_value value = {.form = (uint16_t)format->form[i]};
		enum dwarf_section_kind kind;

		dwarf_value_read(c, encoding, from, &value);
		if (format->content[i] == DW_LNCT_directory_index)
			name->directory =
			    value.number < NAMES_MAX ? (uint32_t)value.number : NAMES_MAX;
		if (format->content[i] == DW_LNCT_path &&
		    dwarf_value_find_text(reader, encoding, &value, DWARF_LINE, &kind, &name->text))
			name->section = (uint8_t)kind;
	}
}

static int names_read_new(struct dwarf_line_list *list, struct dwarf_reader *reader,
			  const struct dwarf_encoding *encoding, struct cursor *c, uint64_t from)
{
	struct name_format format;
	int r = 0;

	if (!format_read(c, &format))
		return 0;
	const uint64_t count = cursor_uleb128(c);
	for (uint64_t i = 0; i < count && r == 0 && cursor_left(c); i++) {
		struct dwarf_line_name name = {.section = DWARF_SECTION_COUNT};

		name_read(reader, encoding, c, from, &format, &name);
		if (!c->failed)
			r = name_add(list, name);
	}
	return r;
}

int dwarf_line_names_read(struct dwarf_line_names *names, struct dwarf_reader *reader,
			  const struct dwarf_encoding *encoding, uint64_t from, uint64_t to)
{
	struct dwarf_line_list *lists[] = {&names->directories, &names->files};
	struct elf_window window;
	struct cursor c;
	int r = 0;

	if (to - from > TABLES_BYTES_MAX || !dwarf_pay(reader, to - from))
		return -E2BIG;
	dwarf_window_init(reader, DWARF_LINE, (size_t)(to - from), &window);
	if (to > from && elf_window_get(&window, from, to - from, &c) == 0) {
		for (unsigned int i = 0; i < 2 && r == 0; i++)
			r = encoding->version >= 5
				? names_read_new(lists[i], reader, encoding, &c, from)
				: names_read_old(lists[i], &c, from, i == 1);
	}
	elf_window_fini(&window);
	return r;
}

void dwarf_line_names_free(struct dwarf_line_names *names)
{
	free(names->directories.items);
	free(names->files.items);
	*names = (struct dwarf_line_names){0};
}

size_t dwarf_line_names_bytes(const struct dwarf_line_names *names)
{
	return (names->directories.capacity + names->files.capacity) *
	       sizeof(names->files.items[0]);
}

/* --- paths --- */

static void name_text(const struct dwarf_line_list *list, struct dwarf_reader *reader,
		      uint64_t index, char *text, size_t room)
{
	text[0] = 0;
	if (index < list->count && list->items[index].section < DWARF_SECTION_COUNT)
		dwarf_read_text(reader, list->items[index].section, list->items[index].text, text,
				room);
}

void dwarf_line_names_path(const struct dwarf_line_names *names, struct dwarf_reader *reader,
			   const struct dwarf_encoding *encoding,
			   const struct dwarf_value *comp_dir, uint64_t file, char *path,
			   size_t room)
{
	char directory[PART_BYTES] = "", name[PART_BYTES], base[PART_BYTES] = "";
	enum dwarf_section_kind kind;
	uint64_t text;

	name_text(&names->files, reader, file, name, sizeof(name));
	if (name[0] && name[0] != '/')
		name_text(&names->directories, reader, names->files.items[file].directory,
			  directory, sizeof(directory));
	if (name[0] && name[0] != '/' && directory[0] != '/' &&
	    dwarf_value_find_text(reader, encoding, comp_dir, DWARF_INFO, &kind, &text))
		dwarf_read_text(reader, kind, text, base, sizeof(base));
	snprintf(path, room, "%s%s%s%s%s", base, base[0] ? "/" : "", directory,
		 directory[0] ? "/" : "", name);
}
