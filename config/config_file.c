/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this works: the library inih splits lines into keys and values. It does not report the line
 * number to a handler, and it accepts much that should be an error: lines without '=', text after
 * ']', continued lines, and long lines, which it splits. Therefore read_line(), which inih calls
 * for each line, checks the line first, hands inih only correct ones, and records the line number
 * for take_value().
 */
#include <dirent.h>
#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config_file.h"
#include "config/text_input.h"
#include "common/cleanup.h"

enum {
	SHOWN_BYTES = 48, /* of an unknown key in a message */
	LINE_BYTES = CONFIG_LIST_BYTES + 128
};

/* Debian builds inih with its limit of 200 bytes per line as a variable. Where the variable is
 * missing, read_line() refuses longer lines. */
extern int ini_max_line __attribute__((weak));

struct config_file {
	struct config_state *state;
	struct text_input input;
	struct config_origin origin; /* path, and the line that inih parses */
	bool skipped;		     /* the section is unknown, so its keys are not looked at */
	unsigned int lines[CONFIG_OPTIONS]; /* of each option in this file; 0: not given */
	bool exposed; /* the warning that others may read a secret was printed */
};

static bool is_section(const char *name)
{
	for (size_t i = 0; i < CONFIG_OPTIONS; i++) {
		if (!strcmp(config_options[i].section, name))
			return true;
	}
	return false;
}

/* Returns whether a text looks like a name. Any other is not shown, since it may be a misplaced
 * secret. */
static bool is_presentable(const char *name)
{
	return *name && strlen(name) < SHOWN_BYTES &&
	       !name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_.-")];
}

static bool start_section(struct config_file *file, const char *line)
{
	char name[SHOWN_BYTES] = "";
	const char *end = strchr(line, ']');
	const size_t length = end ? (size_t)(end - line - 1) : 0;

	file->skipped = true;
	if (!end || end[1]) {
		config_fault(file->state, &file->origin,
			     "a section must be [NAME] with nothing after it");
		return false;
	}
	if (length < sizeof(name))
		memcpy(name, line + 1, length);
	if (is_section(name)) {
		file->skipped = false;
		return true;
	}
	const char *meant = config_table_nearest_section(name);
	char hint[SHOWN_BYTES * 2] = "";

	if (meant)
		snprintf(hint, sizeof(hint), "; did you mean [%s]?", meant);
	if (is_presentable(name))
		config_fault(file->state, &file->origin, "unknown section: [%s]%s", name, hint);
	else
		config_fault(file->state, &file->origin, "unknown section%s", hint);
	return false;
}

/* Returns whether # or ; follows white space. For some programs it starts a comment, for others it
 * belongs to the value. Such lines are refused, so that nobody has to guess. */
static bool has_comment(const char *line)
{
	for (const char *c = strpbrk(line, "#;"); c; c = strpbrk(c + 1, "#;")) {
		if (c > line && (c[-1] == ' ' || c[-1] == '\t'))
			return true;
	}
	return false;
}

/* Returns whether inih should parse the line. */
static bool accept_line(struct config_file *file, const char *line, size_t max)
{
	if (!*line || *line == '#' || *line == ';')
		return false;
	if (strlen(line) > max) {
		config_fault(file->state, &file->origin, "the line is longer than %zu bytes", max);
		return false;
	}
	if (*line == '[')
		return start_section(file, line);
	if (*line == '=' || *line == ':') {
		config_fault(file->state, &file->origin, "the line has no key before the =");
		return false;
	}
	if (!strchr(line, '=')) {
		config_fault(file->state, &file->origin, "the line has no =");
		return false;
	}
	if (has_comment(line)) {
		config_fault(file->state, &file->origin,
			     "a comment must be on a line of its own (in a list, a space may be "
			     "written as %%20)");
		return false;
	}
	return true;
}

/* Gives inih the next correct line, as fgets() would. */
static char *read_line(char *buffer, int size, void *stream)
{
	struct config_file *file = stream;
	const char *fault, *line;

	while ((line = text_input_line(&file->input, &fault))) {
		file->origin.line = file->input.line;
		if (fault) {
			config_fault(file->state, &file->origin, "the line has %s", fault);
			continue;
		}
		/* The buffer needs room for a newline and a NUL. */
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
		config_fault(file->state, &file->origin, "the key has no [section] above it%s",
			     hint);
	else if (is_presentable(key))
		config_fault(file->state, &file->origin, "unknown key: %s.%s%s", section, key,
			     hint);
	else
		config_fault(file->state, &file->origin, "unknown key in [%s]%s", section, hint);
}

/* Sets the option of a key. inih calls it; nonzero means success. */
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
		config_fault(file->state, &file->origin, "%s was already given in line %u", o->flag,
			     *first);
		return 1;
	}
	*first = file->origin.line;
	if (o->traits & CONFIG_SECRET && *value && file->input.others_may_read && !file->exposed) {
		file->exposed = true;
		config_warn(
		    &file->origin,
		    "%s is secret, and everyone may read this file; change its mode to 0600",
		    o->flag);
	}
	config_set(file->state, o, value, &file->origin);
	return 1;
}

static int apply_file(struct config_state *state, const char *path, bool regular)
{
	struct config_file file = {.state = state, .origin = {CONFIG_FILE, path, 0}};

	if (state->path_count == CONFIG_FILES_MAX) {
		config_fault(state, &file.origin, "not read: more than 256 configuration files");
		return 0;
	}
	const int r = text_input_read(path, CONFIG_FILE_BYTES, regular, &file.input);
	if (r)
		return r;
	state->paths[state->path_count] = strdup(path);
	if (!state->paths[state->path_count]) {
		text_input_fini(&file.input);
		return -ENOMEM;
	}
	file.origin.name = state->paths[state->path_count++];
	if (&ini_max_line)
		ini_max_line = LINE_BYTES;
	/* read_line() and take_value() have reported all faults, so the result is not needed. */
	ini_parse_stream(read_line, &file, take_value, &file);
	text_input_fini(&file.input);
	return 0;
}

static void report_unreadable(struct config_state *state, const char *path, int error)
{
	const struct config_origin origin = {CONFIG_FILE, path, 0};

	if (error == -EFBIG)
		config_fault(state, &origin, "the file is longer than %d bytes", CONFIG_FILE_BYTES);
	else
		config_fault(state, &origin, "cannot be read: %s", strerror(-error));
}

static int is_fragment(const struct dirent *entry)
{
	static const char suffix[] = ".conf";
	const size_t length = strlen(entry->d_name);

	return *entry->d_name != '.' && length >= sizeof(suffix) &&
	       !strcmp(entry->d_name + length - (sizeof(suffix) - 1), suffix);
}

/* Compares names by their bytes, independently of the locale. */
static int compare_names(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static void apply_directory(struct config_state *state, const char *directory)
{
	struct dirent **entries = NULL;
	const int count = scandir(directory, &entries, is_fragment, compare_names);

	if (count < 0 && errno != ENOENT && errno != ENOTDIR)
		report_unreadable(state, directory, -errno);
	for (int i = 0; i < count; i++) {
		_cleanup_free_ char *path = NULL;
		int r = -ENOMEM;

		if (asprintf(&path, "%s/%s", directory, entries[i]->d_name) < 0)
			path = NULL;
		else
			r = apply_file(state, path, true);
		/* Entries that are not regular files are skipped. */
		if (r && r != -ENOTSUP && r != -EISDIR)
			report_unreadable(state, path ? path : directory, r);
		free(entries[i]);
	}
	free(entries);
}

void config_files_apply(struct config_state *state, const char *path, bool required)
{
	_cleanup_free_ char *directory = NULL;
	const char *slash = strrchr(path, '/');
	const int length = slash ? (int)(slash - path) + 1 : 0;
	const int r = apply_file(state, path, false);

	if (r && (required || r != -ENOENT))
		report_unreadable(state, path, r);
	if (asprintf(&directory, "%.*sconf.d", length, path) < 0) {
		directory = NULL;
		report_unreadable(state, path, -ENOMEM);
		return;
	}
	apply_directory(state, directory);
}
