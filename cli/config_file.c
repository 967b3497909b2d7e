/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files: inih splits the lines. It would pass over in silence, or only with the number of the first
 * line, a good deal that is an error here (lines without a =, over-long lines, which it cuts in
 * two, continued lines, text behind a ]), and it does not tell a handler the line. So our reader
 * hands it one good line at a time, and knows which.
 */
#include <dirent.h>
#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/config_load.h"
#include "cli/text_input.h"
#include "common/cleanup.h"

enum {
	SHOWN_BYTES = 48, /* of an unknown key */
	LINE_BYTES = CONFIG_LIST_BYTES + 128
};

/* Debian's build has its limit of 200 bytes a line as a variable; where there is no such thing,
 * longer lines are refused by the reader below. */
extern int ini_max_line __attribute__((weak));

struct config_file {
	struct config_load *load;
	struct text_input input;
	struct config_origin origin;	    /* its path, and the line that inih looks at */
	bool skipped;			    /* the section is unknown: so are its keys */
	unsigned int lines[CONFIG_OPTIONS]; /* where each was given in this file, 0: not */
	bool exposed;			    /* said that others may read a secret */
};

static bool is_section(const char *name)
{
	for (size_t i = 0; i < CONFIG_OPTIONS; i++) {
		if (!strcmp(config_options[i].section, name))
			return true;
	}
	return false;
}

/* What does not look like a name is not shown: it may be a secret that lost its way. */
static bool is_presentable(const char *name)
{
	return *name && strlen(name) < SHOWN_BYTES &&
	       !name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_.-")];
}

static bool begin_section(struct config_file *file, const char *line)
{
	char name[SHOWN_BYTES] = "";
	const char *end = strchr(line, ']');
	const size_t length = end ? (size_t)(end - line - 1) : 0;

	file->skipped = true;
	if (!end || end[1]) {
		config_fault(file->load, &file->origin, "a section is [NAME], and nothing else");
		return false;
	}
	if (length < sizeof(name))
		memcpy(name, line + 1, length);
	if (is_section(name)) {
		file->skipped = false;
		return true;
	}
	const char *meant = config_table_nearest_section(name);
	config_fault(file->load, &file->origin, "unknown section%s%s%s%s%s%s",
		     is_presentable(name) ? ": [" : "", is_presentable(name) ? name : "",
		     is_presentable(name) ? "]" : "", meant ? "; did you mean [" : "",
		     meant ? meant : "", meant ? "]?" : "");
	return false;
}

/* A # or ; behind white space is the beginning of a comment to some, and of the value to others. */
static bool has_comment(const char *line)
{
	for (const char *c = strpbrk(line, "#;"); c; c = strpbrk(c + 1, "#;")) {
		if (c > line && (c[-1] == ' ' || c[-1] == '\t'))
			return true;
	}
	return false;
}

/* Whether inih is to see the line. */
static bool accept_line(struct config_file *file, const char *line, size_t max)
{
	if (!*line || *line == '#' || *line == ';')
		return false;
	if (strlen(line) > max) {
		config_fault(file->load, &file->origin, "the line is longer than %zu bytes", max);
		return false;
	}
	if (*line == '[')
		return begin_section(file, line);
	if (*line == '=' || *line == ':') {
		config_fault(file->load, &file->origin, "there is no key in the line");
		return false;
	}
	if (!strchr(line, '=')) {
		config_fault(file->load, &file->origin, "there is no = in the line");
		return false;
	}
	if (has_comment(line)) {
		config_fault(file->load, &file->origin,
			     "a comment must be on a line of its own (in a list, a space may be "
			     "written as %%20)");
		return false;
	}
	return true;
}

/* inih's source of lines, after the manner of fgets. */
static char *read_line(char *buffer, int size, void *stream)
{
	struct config_file *file = stream;
	const char *fault, *line;

	while ((line = text_input_line(&file->input, &fault))) {
		file->origin.line = file->input.line;
		if (fault) {
			config_fault(file->load, &file->origin, "there is %s in the line", fault);
			continue;
		}
		/* A newline and a NUL are added. */
		if (!accept_line(file, line, (size_t)size - 2))
			continue;
		snprintf(buffer, (size_t)size, "%s\n", line);
		return buffer;
	}
	return NULL;
}

static void refuse_key(struct config_file *file, const char *section, const char *key)
{
	const struct config_option *meant = config_table_nearest(section, key);
	char hint[SHOWN_BYTES * 2] = "";

	if (meant)
		snprintf(hint, sizeof(hint), "; did you mean %s?", meant->flag);
	if (!*section)
		config_fault(file->load, &file->origin, "a key without a [section] above it%s",
			     hint);
	else if (is_presentable(key))
		config_fault(file->load, &file->origin, "unknown key: %s.%s%s", section, key, hint);
	else
		config_fault(file->load, &file->origin, "unknown key in [%s]%s", section, hint);
}

/* inih's handler: returns nonzero for success. */
static int take_value(void *user, const char *section, const char *key, const char *value)
{
	struct config_file *file = user;
	const struct config_option *o = config_table_find(section, key);

	if (file->skipped)
		return 1;
	if (!o) {
		refuse_key(file, section, key);
		return 1;
	}
	unsigned int *first = &file->lines[o - config_options];
	if (*first) {
		config_fault(file->load, &file->origin, "%s was given in line %u already", o->flag,
			     *first);
		return 1;
	}
	*first = file->origin.line;
	if (o->traits & CONFIG_SECRET && *value && file->input.others_may_read && !file->exposed) {
		file->exposed = true;
		config_warn(&file->origin, "%s is secret, and everyone may read this file",
			    o->flag);
	}
	config_set(file->load, o, value, &file->origin);
	return 1;
}

static int apply_file(struct config_load *load, const char *path, bool regular)
{
	struct config_file file = {.load = load, .origin = {CONFIG_FILE, path, 0}};

	if (load->path_count == CONFIG_FILES_MAX) {
		config_fault(load, &file.origin, "there are too many files");
		return 0;
	}
	const int r = text_input_read(path, CONFIG_FILE_BYTES, regular, &file.input);
	if (r)
		return r;
	load->paths[load->path_count] = strdup(path);
	if (!load->paths[load->path_count]) {
		text_input_fini(&file.input);
		return -ENOMEM;
	}
	file.origin.name = load->paths[load->path_count++];
	if (&ini_max_line)
		ini_max_line = LINE_BYTES;
	/* Its result is about what the reader has reported already. */
	ini_parse_stream(read_line, &file, take_value, &file);
	text_input_fini(&file.input);
	return 0;
}

static void report(struct config_load *load, const char *path, int error)
{
	const struct config_origin origin = {CONFIG_FILE, path, 0};

	if (error == -EFBIG)
		config_fault(load, &origin, "the file is longer than %d bytes", CONFIG_FILE_BYTES);
	else
		config_fault(load, &origin, "it cannot be read: %s", strerror(-error));
}

static int is_fragment(const struct dirent *entry)
{
	static const char suffix[] = ".conf";
	const size_t length = strlen(entry->d_name);

	return *entry->d_name != '.' && length >= sizeof(suffix) &&
	       !strcmp(entry->d_name + length - (sizeof(suffix) - 1), suffix);
}

/* By bytes, whatever the locale. */
static int compare(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static void apply_directory(struct config_load *load, const char *directory)
{
	struct dirent **entries = NULL;
	const int count = scandir(directory, &entries, is_fragment, compare);

	if (count < 0 && errno != ENOENT && errno != ENOTDIR)
		report(load, directory, -errno);
	for (int i = 0; i < count; i++) {
		_cleanup_free_ char *path = NULL;
		int r = -ENOMEM;

		if (asprintf(&path, "%s/%s", directory, entries[i]->d_name) < 0)
			path = NULL;
		else
			r = apply_file(load, path, true);
		/* Directories, FIFOs and the like are not for us. */
		if (r && r != -ENOTSUP && r != -EISDIR)
			report(load, path ? path : directory, r);
		free(entries[i]);
	}
	free(entries);
}

void config_files_apply(struct config_load *load, const char *path, bool required)
{
	_cleanup_free_ char *directory = NULL;
	const char *slash = strrchr(path, '/');
	const int length = slash ? (int)(slash - path) + 1 : 0;
	const int r = apply_file(load, path, false);

	if (r && (required || r != -ENOENT))
		report(load, path, r);
	if (asprintf(&directory, "%.*sconf.d", length, path) < 0) {
		directory = NULL;
		report(load, path, -ENOMEM);
		return;
	}
	apply_directory(load, directory);
}
