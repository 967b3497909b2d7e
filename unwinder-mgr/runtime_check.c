/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see runtime_check.h. */
#include "unwinder-mgr/runtime_check.h"

#include <stdbool.h>
#include <stddef.h>

#include "common/runtimes.h"
#include "parse/elf_lookup.h"
#include "parse/go_module.h"
#include "parse/go_names.h"

enum {
	RUNTIME_SYMBOLS_MAX = 4
};
_Static_assert((int)RUNTIME_SYMBOLS_MAX <= (int)GO_NAMES_MAX, "functions are searched at once");

struct runtime_line {
	enum runtime_id runtime;
	bool is_go, may_be_local;
	const char *symbols[RUNTIME_SYMBOLS_MAX]; /* NULL after the last one */
};

/* A line without symbols accepts every file. */
static const struct runtime_line runtime_lines[] = {
#define RUNTIME_SYMBOLS(id, ...) {RUNTIME_ID_##id, false, false, {__VA_ARGS__}},
#define RUNTIME_LOCAL_SYMBOLS(id, ...) {RUNTIME_ID_##id, false, true, {__VA_ARGS__}},
#define RUNTIME_GO_FUNCTIONS(id, ...) {RUNTIME_ID_##id, true, false, {__VA_ARGS__}},
#define RUNTIME_WITHOUT_SYMBOLS(id) {RUNTIME_ID_##id, false, false, {NULL}},
#include "common/runtime_symbols.def"
#undef RUNTIME_SYMBOLS
#undef RUNTIME_LOCAL_SYMBOLS
#undef RUNTIME_GO_FUNCTIONS
#undef RUNTIME_WITHOUT_SYMBOLS
};

enum runtime_set {
	RUNTIMES_WITH_A_LINE = 0
#define RUNTIME_SYMBOLS(id, ...) | 1 << RUNTIME_ID_##id
#define RUNTIME_LOCAL_SYMBOLS(id, ...) | 1 << RUNTIME_ID_##id
#define RUNTIME_GO_FUNCTIONS(id, ...) | 1 << RUNTIME_ID_##id
#define RUNTIME_WITHOUT_SYMBOLS(id) | 1 << RUNTIME_ID_##id
#include "common/runtime_symbols.def"
#undef RUNTIME_SYMBOLS
#undef RUNTIME_LOCAL_SYMBOLS
#undef RUNTIME_GO_FUNCTIONS
#undef RUNTIME_WITHOUT_SYMBOLS
};
_Static_assert(RUNTIMES_WITH_A_LINE == RUNTIME_SET_ALL,
	       "each runtime of runtimes.def needs a line in runtime_symbols.def");

static bool file_defines(const struct elf_lookup *lookup, const char *name, bool may_be_local)
{
	struct elf_symbol symbol;

	return elf_lookup_exported(lookup, name, &symbol) == 0 ||
	       ((may_be_local || !lookup->dynamic_symbols) &&
		elf_lookup_local(lookup, name, &symbol) == 0);
}

static bool file_defines_all(const struct elf_lookup *lookup, const struct runtime_line *line)
{
	for (int i = 0; i < RUNTIME_SYMBOLS_MAX && line->symbols[i]; i++) {
		if (!file_defines(lookup, line->symbols[i], line->may_be_local))
			return false;
	}
	return true;
}

/* That the names are there is enough: where the functions are is for the worker to find. */
static bool file_has_functions(const struct elf_image *image, const struct runtime_line *line)
{
	struct go_module module;
	unsigned int count = 0;

	while (count < RUNTIME_SYMBOLS_MAX && line->symbols[count])
		count++;
	return go_module_find_table(&module, image) == 0 &&
	       go_names_contain(&module, &image->source, line->symbols, count) == 0;
}

/* Returns what a line says of a file. */
static enum runtime_access line_access(const struct runtime_line *line,
				       const struct elf_image *image,
				       const struct elf_lookup *lookup)
{
	if (line->is_go)
		return file_has_functions(image, line) ? RUNTIME_ACCESS_WALK : RUNTIME_ACCESS_NONE;
	return file_defines_all(lookup, line) ? RUNTIME_ACCESS_READ : RUNTIME_ACCESS_NONE;
}

enum runtime_access runtime_check_file(const struct elf_source *source, uint32_t wanted)
{
	const size_t count = sizeof(runtime_lines) / sizeof(runtime_lines[0]);
	enum runtime_access most = RUNTIME_ACCESS_NONE;
	struct elf_image image;
	struct elf_lookup lookup;

	if (elf_image_init(&image, source) < 0)
		return RUNTIME_ACCESS_NONE;
	int r = elf_lookup_init(&lookup, &image);
	for (size_t i = 0; !r && i < count && most != RUNTIME_ACCESS_READ; i++) {
		const struct runtime_line *line = &runtime_lines[i];
		const enum runtime_access access = wanted >> line->runtime & 1
						       ? line_access(line, &image, &lookup)
						       : RUNTIME_ACCESS_NONE;

		most = access > most ? access : most;
	}
	elf_lookup_fini(&lookup);
	elf_image_fini(&image);
	return most;
}
