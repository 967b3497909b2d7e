/* SPDX-License-Identifier: Apache-2.0 */
#include "parse/go_rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/cursor.h"
#include "parse/elf_window.h"
#include "parse/go_function.h"
#include "parse/go_functions.h"
#include "parse/go_values.h"

enum {
	WORD = 8,
	DWARF_RSP = 7,
	/* The function to which a signal handler returns has 9 bytes, and padding. */
	SIGNAL_RETURN_BYTES_MAX = 64,
	FRAME_BYTES_MAX = INT32_MAX - WORD,
	/* Rows of a function. One of the Go compiler has 4,130: each `return` has three. */
	ROWS_MAX = 1 << 18,
	ROWS_INITIAL = 1024,
	WINDOW_STEP_BYTES = 8 << 10, /* of the table and of descriptions, which are in its order */
	/* Names that are read, each with a system call. Programs have some 2,000 functions in
	 * assembly. */
	NAMES_MAX = 1 << 16,
	RULES_CACHED = 512, /* by the size of the frame in words; a power of two */
};

/* runtime.sigreturn__sigaction; runtime.sigreturn before Go 1.21 */
#define SIGNAL_RETURN "runtime.sigreturn"

struct parse {
	const struct go_module *module;
	const struct elf_source *source;
	const struct cfi_sink *sink;
	struct elf_window entries, descriptions; /* of module->functions */
	uint64_t rows_left; /* functions and pairs of lists that may still be read */
	unsigned int names_read;
	struct {
		uint32_t size, rule;
		bool used;
	} rules[RULES_CACHED];
	struct cfi_row *rows; /* of the present function */
	size_t rows_capacity;
};

static struct cfi_rule make_rule(uint32_t size)
{
	/* runtime.rawVforkSyscall takes its return address from the stack: its size is -8. */
	if (size > FRAME_BYTES_MAX || size % WORD)
		return (struct cfi_rule){.cfa_kind = CFI_CFA_UNKNOWN};

	struct cfi_rule rule = {.cfa_kind = CFI_CFA_REGISTER,
				.cfa_register = DWARF_RSP,
				.cfa_offset = (int32_t)size + WORD,
				.ra_kind = CFI_SAVE_CFA,
				.ra_offset = -WORD};
	if (size) {
		rule.fp_kind = CFI_SAVE_CFA;
		rule.fp_offset = -2 * WORD;
	}
	return rule;
}

static int parse_rule(struct parse *parse, uint32_t size, uint32_t *id)
{
	const uint32_t at = size / WORD % RULES_CACHED;
	const struct cfi_rule rule = make_rule(size);

	if (parse->rules[at].used && parse->rules[at].size == size) {
		*id = parse->rules[at].rule;
		return 0;
	}
	const int r = parse->sink->rule(parse->sink->context, &rule, id);
	if (r < 0)
		return r;
	parse->rules[at].size = size;
	parse->rules[at].rule = *id;
	parse->rules[at].used = true;
	return 0;
}

static int deliver_outermost(struct parse *parse, uint64_t start, uint64_t end)
{
	const struct cfi_rule rule = {.ra_kind = CFI_SAVE_UNDEFINED};
	struct cfi_row row = {.at = 0};
	const struct cfi_fde fde = {start, end, &row, 1};

	const int r = parse->sink->rule(parse->sink->context, &rule, &row.rule);
	return r < 0 ? r : parse->sink->fde(parse->sink->context, &fde);
}

/* Delivers the rows of a function by its list of stack sizes. */
static int deliver_sizes(struct parse *parse, uint64_t start, uint64_t end, uint32_t list)
{
	struct go_values values;
	unsigned int count = 0;
	uint64_t at = 0;

	go_values_init(&values, parse->module, parse->source, list);
	while (count < ROWS_MAX && at < end - start && go_values_next(&values)) {
		uint32_t rule;

		if (!parse->rows_left--)
			return -E2BIG;
		int r = parse_rule(parse, values.value, &rule);
		if (r < 0)
			return r;
		if (!count || parse->rows[count - 1].rule != rule) {
			r = ARRAY_RESERVE(parse->rows, parse->rows_capacity, count + 1,
					  ROWS_INITIAL, ARRAY_UNLIMITED);
			if (r < 0)
				return r;
			parse->rows[count++] = (struct cfi_row){(uint32_t)at, rule};
		}
		at = values.end;
	}
	/* A list that ends too early may be followed by padding, but not by what is malformed. */
	const bool whole = !values.failed && (count < ROWS_MAX || at >= end - start);
	const struct cfi_fde fde = {start, end, parse->rows, count};
	return count && whole ? parse->sink->fde(parse->sink->context, &fde) : 0;
}

/* Returns whether the instructions of a function have to be followed, and whether it abandons the
 * stack on which it was called. */
static bool must_be_followed(struct parse *parse, const struct go_function *function,
			     uint64_t bytes, bool *abandons)
{
	char text[32];

	*abandons = false;
	if (!(function->flags & GO_FLAG_SWITCHES) &&
	    !(function->flags & GO_FLAG_ASSEMBLY && bytes <= SIGNAL_RETURN_BYTES_MAX))
		return false;
	if (parse->names_read++ >= NAMES_MAX)
		return false;
	go_functions_text(&parse->module->names, parse->source, function->name, text, sizeof(text));
	*abandons = !strcmp(text, "runtime.mcall") || !strcmp(text, "runtime.morestack");
	/* The function to which a signal handler returns is recognised by its instructions. */
	return function->flags & GO_FLAG_SWITCHES ||
	       !strncmp(text, SIGNAL_RETURN, strlen(SIGNAL_RETURN));
}

/* Handles the function with the description at `offset`. Returns 0 also if it is malformed. */
static int parse_function(struct parse *parse, uint64_t start, uint64_t end, uint32_t offset,
			  go_visit_switch *visit, void *context)
{
	const struct cfi_sink *sink = parse->sink;
	bool abandons;
	struct cursor c;

	if (sink->want && !sink->want(sink->context, start, end))
		return 0;
	const int r =
	    elf_window_get(&parse->descriptions, offset, go_function_bytes(parse->module), &c);
	if (r)
		return r == -ENOMEM ? r : 0;
	const struct go_function function = go_function_read(parse->module, &c);

	if (function.flags & GO_FLAG_OUTERMOST)
		return deliver_outermost(parse, start, end);
	if (must_be_followed(parse, &function, end - start, &abandons))
		return visit(context, start, end, abandons);
	return function.stack_sizes ? deliver_sizes(parse, start, end, function.stack_sizes) : 0;
}

static void parse_free(struct parse **parse)
{
	if (*parse) {
		elf_window_fini(&(*parse)->entries);
		elf_window_fini(&(*parse)->descriptions);
		free((*parse)->rows);
	}
	free(*parse);
}

int go_rows_parse(const struct go_module *module, const struct elf_source *source,
		  uint64_t rows_max, const struct cfi_sink *sink, go_visit_switch *visit,
		  void *context)
{
	_cleanup_(parse_free) struct parse *parse = calloc(1, sizeof(*parse));
	const struct go_part *part = &module->functions;

	if (!parse)
		return -ENOMEM;
	parse->module = module;
	parse->source = source;
	parse->sink = sink;
	parse->rows_left = rows_max;
	elf_window_init(&parse->entries, source, part->offset, part->size);
	elf_window_init(&parse->descriptions, source, part->offset, part->size);
	parse->entries.step = parse->descriptions.step = WINDOW_STEP_BYTES;
	for (uint32_t i = 0, at = 0, described = 0; i < module->function_count; i++) {
		struct cursor c;
		/* The start of the next function comes after it; of the last one, the end. */
		int r = elf_window_get(&parse->entries, (uint64_t)i * GO_ENTRY_BYTES,
				       GO_ENTRY_BYTES + sizeof(uint32_t), &c);

		if (r)
			return r == -ENOMEM ? r : 0;
		const uint32_t start = cursor_u32(&c);
		const uint32_t description = cursor_u32(&c);
		const uint32_t end = cursor_u32(&c);
		/* Functions that overlap would cost more than the code that there is, and
		 * descriptions in any order more than the table that there is. */
		if (start < at || start >= end || description < described)
			return 0;
		if (!parse->rows_left--)
			return -E2BIG;
		r = parse_function(parse, module->text_vaddr + start, module->text_vaddr + end,
				   description, visit, context);
		if (r)
			return r;
		at = end;
		described = description;
	}
	return 0;
}
