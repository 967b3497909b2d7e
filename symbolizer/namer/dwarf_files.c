/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/namer/dwarf_files.h"

#include <errno.h>
#include <stdlib.h>

enum {
	/* Memory for the compressed sections of all files that are kept decompressed. */
	CONTENTS_BYTES_MAX = 16 << 20,
	/* Units whose files are known to be missing. More: no further files are wanted. */
	MISSING_MAX = 1024,
};

/* Returns how much of that is left. */
static size_t contents_left(const struct dwarf_files *files)
{
	size_t bytes = files->main.reserved + files->alternate.reserved;

	for (unsigned int i = 0; i < files->split_count; i++)
		bytes += files->splits[i]->file.reserved;
	return CONTENTS_BYTES_MAX - bytes;
}

int dwarf_files_open(struct dwarf_files *files, const struct elf_image *image)
{
	*files = (struct dwarf_files){0};
	int r = dwarf_file_open(&files->main, image, CONTENTS_BYTES_MAX);
	if (r < 0)
		return r;
	r = debug_alternate_read(image, &files->wanted.alternate);
	if (r == -ENOMEM) {
		dwarf_files_close(files);
		return r;
	}
	if (r == 0)
		files->wanted.kind = NAMER_WANTS_ALTERNATE;
	return 0;
}

void dwarf_files_close(struct dwarf_files *files)
{
	for (unsigned int i = 0; i < files->split_count; i++) {
		dwarf_file_close(&files->splits[i]->file);
		free(files->splits[i]);
	}
	dwarf_file_close(&files->main);
	dwarf_file_close(&files->alternate);
	free(files->missing);
	*files = (struct dwarf_files){0};
}

size_t dwarf_files_bytes(const struct dwarf_files *files)
{
	size_t bytes = dwarf_file_bytes(&files->main) + dwarf_file_bytes(&files->alternate) +
		       (files->missing ? MISSING_MAX * sizeof(*files->missing) : 0);

	for (unsigned int i = 0; i < files->split_count; i++)
		bytes += sizeof(*files->splits[i]) + dwarf_file_bytes(&files->splits[i]->file);
	return bytes;
}

/* --- what is wanted --- */

static bool is_missing(const struct dwarf_files *files, uint64_t dwo_id)
{
	for (unsigned int i = 0; i < files->missing_count; i++) {
		if (files->missing[i] == dwo_id)
			return true;
	}
	return files->missing_count == MISSING_MAX;
}

static void missing_add(struct dwarf_files *files, uint64_t dwo_id)
{
	if (is_missing(files, dwo_id))
		return;
	if (!files->missing)
		files->missing = calloc(MISSING_MAX, sizeof(*files->missing));
	if (files->missing)
		files->missing[files->missing_count++] = dwo_id;
}

/* Wants the file of a unit whose entries are in none of those that are there. Returns whether it
 * may come: if so, but another file is wanted, it will be wanted after that. */
static bool split_want(struct dwarf_files *files, struct dwarf_reader *reader,
		       const struct dwarf_unit *skeleton)
{
	const bool has_package = files->split_count && !files->splits[0]->dwo_id;
	enum dwarf_section_kind kind;
	uint64_t offset;

	if (is_missing(files, skeleton->dwo_id))
		return false;
	if (files->wanted.kind)
		return true;
	files->wanted_is_said = false;
	if (!files->no_package && !has_package) {
		files->wanted = (struct namer_wanted){.kind = NAMER_WANTS_PACKAGE};
		return true;
	}
	if (has_package || files->further_count == NAMER_FILES_MAX ||
	    !dwarf_value_find_text(reader, &skeleton->encoding,
				   &skeleton->root.values[DWARF_DWO_NAME], DWARF_INFO, &kind,
				   &offset)) {
		missing_add(files, skeleton->dwo_id);
		return false;
	}
	files->wanted = (struct namer_wanted){.kind = NAMER_WANTS_SPLIT};
	files->wanted_dwo_id = skeleton->dwo_id;
	dwarf_read_text(reader, kind, offset, files->wanted.split, sizeof(files->wanted.split));
	return true;
}

bool dwarf_files_say_wanted(struct dwarf_files *files)
{
	const bool was_said = files->wanted_is_said || files->wanted.kind < NAMER_WANTS_PACKAGE;

	files->wanted_is_said = true;
	return !was_said;
}

static int alternate_add(struct dwarf_files *files, const struct elf_image *image)
{
	struct dwarf_file file;

	if (!debug_alternate_is(&files->wanted.alternate, image))
		return -ESTALE;
	const int r = dwarf_file_open_alternate(&file, image, contents_left(files));
	if (r < 0)
		return r;
	files->alternate = file;
	files->alternate_source = files->further_count;
	dwarf_file_set_alternate(&files->main, &files->alternate);
	return 0;
}

/* Adds a split file. Whether it has the unit that is wanted is found out when that is read. */
static int split_add(struct dwarf_files *files, const struct elf_image *image)
{
	const bool wants_package = files->wanted.kind == NAMER_WANTS_PACKAGE;
	struct dwarf_split_file *split = calloc(1, sizeof(*split));

	if (!split)
		return -ENOMEM;
	int r = dwarf_file_open_split(&split->file, image, &files->main, contents_left(files));
	if (r == 0 && wants_package != (split->file.sections[DWARF_CU_INDEX].size > 0)) {
		dwarf_file_close(&split->file);
		r = -ESTALE;
	}
	if (r < 0) {
		free(split);
		return r;
	}
	split->dwo_id = wants_package ? 0 : files->wanted_dwo_id;
	split->source = files->further_count;
	files->splits[files->split_count++] = split;
	return 0;
}

int dwarf_files_add(struct dwarf_files *files, const struct elf_image *image)
{
	if (!files->wanted.kind || files->further_count == NAMER_FILES_MAX)
		return files->wanted.kind ? -EFBIG : -ESTALE;
	const int r = files->wanted.kind == NAMER_WANTS_ALTERNATE ? alternate_add(files, image)
								  : split_add(files, image);
	if (r == 0) {
		files->is_indexed = false;
		files->further_count++;
		files->wanted.kind = NAMER_WANTS_NOTHING;
	}
	return r;
}

void dwarf_files_do_without(struct dwarf_files *files)
{
	if (files->wanted.kind == NAMER_WANTS_PACKAGE)
		files->no_package = true;
	else if (files->wanted.kind == NAMER_WANTS_SPLIT)
		missing_add(files, files->wanted_dwo_id);
	files->wanted.kind = NAMER_WANTS_NOTHING;
}

/* --- reading --- */

struct dwarf_reader dwarf_files_begin(struct dwarf_files *files,
				      const struct namer_sources *sources, uint64_t cost)
{
	const bool has_alternate = files->alternate.sections[DWARF_INFO].size > 0;

	files->sources = sources;
	return (struct dwarf_reader){
	    &files->main, sources->file,
	    has_alternate ? &sources->further[files->alternate_source] : NULL, cost};
}

/* Goes on with the index of another file than the main one, and of the first `info_bytes` bytes of
 * its .debug_info. */
static bool index_further(struct dwarf_files *files, struct dwarf_reader *reader,
			  const struct dwarf_file *file, uint64_t info_bytes)
{
	struct dwarf_reader further = dwarf_files_reader(files, reader, file);
	const bool is_complete =
	    dwarf_file_index(&further) && dwarf_file_index_info(&further, info_bytes);

	reader->left = further.left;
	return is_complete;
}

bool dwarf_files_index(struct dwarf_files *files, struct dwarf_reader *reader)
{
	const uint64_t left = reader->left;

	if (files->is_indexed)
		return true;
	bool is_complete = dwarf_file_index(reader);
	if (is_complete && files->alternate.sections[DWARF_INFO].size)
		is_complete = index_further(files, reader, &files->alternate, 0);
	/* Their units are found without a list of them. */
	for (unsigned int i = 0; i < files->split_count && is_complete; i++)
		is_complete = index_further(files, reader, &files->splits[i]->file, UINT64_MAX);
	files->is_indexed = is_complete;
	return is_complete && reader->left == left;
}

struct dwarf_reader dwarf_files_reader(struct dwarf_files *files, const struct dwarf_reader *reader,
				       const struct dwarf_file *file)
{
	const struct namer_sources *sources = files->sources;

	for (unsigned int i = 0; i < files->split_count; i++) {
		struct dwarf_split_file *split = files->splits[i];

		if (file == &split->file)
			return (struct dwarf_reader){&split->file, &sources->further[split->source],
						     sources->file, reader->left};
	}
	if (file == &files->alternate)
		return (struct dwarf_reader){&files->alternate,
					     &sources->further[files->alternate_source], NULL,
					     reader->left};
	return dwarf_files_begin(files, sources, reader->left);
}

const struct dwarf_file *dwarf_files_find_split(struct dwarf_files *files,
						struct dwarf_reader *reader,
						const struct dwarf_unit *skeleton,
						struct dwarf_unit *unit,
						struct dwarf_abbrevs *abbrevs, bool *may_come)
{
	const struct dwarf_file *found = NULL;

	*may_come = false;
	for (unsigned int i = 0; i < files->split_count && !found; i++) {
		const struct dwarf_split_file *split = files->splits[i];

		if (split->dwo_id && split->dwo_id != skeleton->dwo_id)
			continue;
		struct dwarf_reader at = dwarf_files_reader(files, reader, &split->file);
		if (dwarf_split_find(&at, skeleton, unit) &&
		    dwarf_abbrevs_read(&at, unit, abbrevs) == 0 &&
		    dwarf_unit_read_root(&at, unit, abbrevs) && unit->dwo_id == skeleton->dwo_id)
			found = &split->file;
		reader->left = dwarf_left(&at);
		/* It is another one, or the account is used up. */
		if (!found && at.left)
			missing_add(files, skeleton->dwo_id);
	}
	if (!found) {
		dwarf_abbrevs_free(abbrevs);
		*may_come = split_want(files, reader, skeleton);
	}
	return found;
}
