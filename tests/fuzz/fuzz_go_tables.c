/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the tables of functions of Go programs. The input is an ELF file: its tables are found,
 * addresses of its code are named, and the unwind rows of all functions are read. Checks that what
 * is found is in the file's parts, and what go_rows.h and cfi_types.h promise of rows. */
#include <stdlib.h>
#include <string.h>

#include "parse/go_functions.h"
#include "parse/go_names.h"
#include "parse/go_rows.h"
#include "tests/support/cfi_rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	LOOKUPS = 64,
	LOOKUP_STEP_BYTES = 5, /* the seeds have 256 bytes of code */
	ROWS_MAX = 2000,
};

static void check(bool condition)
{
	if (!condition)
		abort();
}

/* The rows of a parse. */
struct delivered {
	struct cfi_rules *rules;
	uint64_t rows;
	uint64_t end; /* of the last function */
};

static int deliver_rule(void *context, const struct cfi_rule *rule, uint32_t *id)
{
	struct delivered *delivered = context;

	check(rule->cfa_kind == CFI_CFA_REGISTER || rule->cfa_kind == CFI_CFA_UNKNOWN);
	return cfi_rules_id(delivered->rules, rule, id);
}

static void check_function(struct delivered *delivered, uint64_t start, uint64_t end)
{
	check(start < end && start >= delivered->end);
	delivered->end = end;
}

static int deliver_fde(void *context, const struct cfi_fde *fde)
{
	struct delivered *delivered = context;

	check_function(delivered, fde->start, fde->end);
	check(fde->end - fde->start <= UINT32_MAX);
	check(fde->row_count > 0 && fde->rows[0].at == 0);
	for (unsigned int i = 0; i < fde->row_count; i++) {
		check(fde->rows[i].at < fde->end - fde->start);
		check(fde->rows[i].rule < delivered->rules->count);
		check(i == 0 || (fde->rows[i - 1].at < fde->rows[i].at &&
				 fde->rows[i - 1].rule != fde->rows[i].rule));
	}
	delivered->rows += fde->row_count;
	check(delivered->rows <= ROWS_MAX);
	return 0;
}

static int deliver_visit(void *context, uint64_t start, uint64_t end, bool abandons)
{
	(void)abandons;
	check_function(context, start, end);
	return 0;
}

static void find_all(const struct go_module *module, const struct elf_source *source)
{
	static struct go_position position;
	char text[64];

	for (uint64_t i = 0; i < LOOKUPS; i++) {
		if (!go_functions_find(module, source, module->text_vaddr + i * LOOKUP_STEP_BYTES,
				       &position))
			continue;
		check(position.count > 0 && position.count <= GO_CALLS_MAX);
		for (unsigned int j = 0; j < position.count; j++) {
			const struct go_call *call = &position.calls[j];

			go_functions_text(&module->names, source, call->name, text, sizeof(text));
			check(memchr(text, 0, sizeof(text)) != NULL);
			if (call->has_file)
				go_functions_text(&module->files, source, call->file, text, 8);
		}
	}
}

static void find_names(const struct go_module *module, const struct elf_source *source)
{
	static const char *const names[] = {"runtime.goexit", "main.run"};
	struct go_place places[2];

	if (go_names_find(module, source, names, 2, places) < 0)
		return;
	check(places[0].size > 0 && places[1].size > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct cfi_rules rules;
	struct elf_buffer buffer = {data, size};
	const struct elf_source source = elf_source_from_buffer(&buffer);
	struct go_module module;
	struct elf_image image;

	if (!rules.rules)
		check(cfi_rules_init(&rules) == 0);
	cfi_rules_reset(&rules);
	if (elf_image_init(&image, &source) < 0)
		return 0;
	if (go_module_find(&module, &image) == 0) {
		struct delivered delivered = {.rules = &rules};
		const struct cfi_sink sink = {
		    .context = &delivered, .rule = deliver_rule, .fde = deliver_fde};

		find_all(&module, &source);
		find_names(&module, &source);
		go_rows_parse(&module, &source, ROWS_MAX, &sink, deliver_visit, &delivered);
		/* The file is cut off after its tables were found. */
		buffer.length = size / 3 * 2;
		find_all(&module, &source);
	}
	elf_image_fini(&image);
	return 0;
}
