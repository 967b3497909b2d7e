/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see debug_hint.h. */
#include "cli/debug_hint.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file_read.h"
#include "common/log.h"

enum {
	LEAST_PERCENT = 1,
	LIST_FIRST_BYTES = 64 << 10,
	LIST_BYTES_MAX = 16 << 20, /* the longest list of Debian has 2 MiB */
	PACKAGE_BYTES = 128,
};

#define LIST_SUFFIX ".list"
#define LIST_SUFFIX_BYTES (sizeof(LIST_SUFFIX) - 1)

struct search {
	char path[MSG_PATH_BYTES];
	char package[PACKAGE_BYTES]; /* "" until it is found */
};

/* Returns whether a list has the path as one of its lines. Packages that were built before /lib
 * became a link to /usr/lib have files there without "/usr". */
static bool list_has(const char *list, const char *path)
{
	const char *const forms[] = {path, strncmp(path, "/usr/", 5) ? path : path + 4};

	for (unsigned int i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		const size_t length = strlen(forms[i]);

		for (const char *at = list; (at = strstr(at, forms[i])); at++) {
			if ((at == list || at[-1] == '\n') && (at[length] == '\n' || !at[length]))
				return true;
		}
	}
	return false;
}

/* Searches the list of one package: NAME.list, or NAME:ARCHITECTURE.list. */
static void search_list(int directory, const char *name, struct search *searches,
			unsigned int count)
{
	_cleanup_close_ int fd = openat(directory, name, O_RDONLY | O_CLOEXEC);
	_cleanup_free_ uint8_t *list = NULL;
	const size_t package_length = strlen(name) - LIST_SUFFIX_BYTES;
	size_t length;

	if (fd < 0 || file_read_all(fd, LIST_FIRST_BYTES, LIST_BYTES_MAX, &list, &length) < 0)
		return;
	for (unsigned int i = 0; i < count; i++) {
		if (!searches[i].package[0] && list_has((const char *)list, searches[i].path))
			snprintf(searches[i].package, sizeof(searches[i].package), "%.*s",
				 (int)package_length, name);
	}
}

static void find_packages(const char *lists, struct search *searches, unsigned int count)
{
	_cleanup_closedir_ DIR *directory = opendir(lists);
	struct dirent *entry;

	while (directory && (entry = readdir(directory))) {
		const size_t length = strlen(entry->d_name);

		if (length > LIST_SUFFIX_BYTES &&
		    !strcmp(entry->d_name + length - LIST_SUFFIX_BYTES, LIST_SUFFIX))
			search_list(dirfd(directory), entry->d_name, searches, count);
	}
}

static void print_hint(const struct search *search, const char *build_id, double percent, FILE *out)
{
	char path[4 * sizeof(search->path) + 1], id[4 * MSG_BUILD_ID_TEXT_BYTES + 1];
	const int length = (int)strcspn(search->package, ":");

	log_escape(search->path, path, sizeof(path));
	log_escape(build_id, id, sizeof(id));
	if (!build_id[0])
		fprintf(out,
			"%.1f %% of the samples have functions without names in %s, which has no "
			"build id or could not be read\n",
			percent, path);
	else if (search->package[0])
		fprintf(out,
			"%.1f %% of the samples have functions without names in %s; to name them, "
			"install %.*s-dbgsym or %.*s-dbg (build id %s)\n",
			percent, path, length, search->package, length, search->package, id);
	else
		fprintf(out,
			"%.1f %% of the samples have functions without names in %s; to name them, "
			"put the debug file of build id %s into a --debug-dir\n",
			percent, path, id);
}

void debug_hint_add(struct msg_unnamed_module *modules, unsigned int *count,
		    const struct msg_unnamed_module *module)
{
	if (*count >= DEBUG_HINTS_MAX)
		return;
	struct msg_unnamed_module *added = &modules[(*count)++];

	*added = *module;
	added->path[sizeof(added->path) - 1] = 0;
	added->build_id[sizeof(added->build_id) - 1] = 0;
}

void debug_hint_print(const struct msg_unnamed_module *modules, unsigned int count,
		      uint64_t samples, const char *lists, FILE *out)
{
	struct search searches[DEBUG_HINTS_MAX] = {0};
	unsigned int shown = 0;

	while (samples && shown < count && shown < DEBUG_HINTS_MAX &&
	       modules[shown].path[0] == '/' &&
	       100.0 * (double)modules[shown].samples >= LEAST_PERCENT * (double)samples) {
		snprintf(searches[shown].path, sizeof(searches[shown].path), "%s",
			 modules[shown].path);
		shown++;
	}
	if (shown)
		find_packages(lists, searches, shown);
	for (unsigned int i = 0; i < shown; i++)
		print_hint(&searches[i], modules[i].build_id,
			   100.0 * (double)modules[i].samples / (double)samples, out);
}
