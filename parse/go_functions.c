/* SPDX-License-Identifier: Apache-2.0 */
#include "parse/go_functions.h"

#include <string.h>

#include "common/cursor.h"
#include "common/search.h"
#include "parse/go_function.h"
#include "parse/go_values.h"

enum {
	/* An inlined call (struct inlinedCall). */
	INLINED_BYTES_1_18 = 20,
	INLINED_BYTES_1_20 = 16,
	/* internal/abi/symtab.go: PCDATA_InlTreeIndex and FUNCDATA_InlTree, the same in all
	 * versions, and how many lists there may be. There are up to 4. */
	VALUES_INLINED = 2,
	DATA_INLINED = 3,
	VALUES_MAX = 64,
	/* Pairs that are read for one address. The longest lists of the Go compiler have some
	 * 10,000; it takes about 2 ms to read this many. */
	STEPS_MAX = 1 << 18,
};

#define NO_DATA 0xffffffffu /* there is no list of this kind, or no file */

/* A function, and where its inlined calls are. */
struct function {
	struct go_function head;
	uint32_t inlined; /* list of values; 0: there is none */
	uint32_t calls;	  /* in module->inlined, or NO_DATA */
};

struct lookup {
	const struct go_module *module;
	const struct elf_source *source;
	unsigned int steps; /* that are left */
};

/* Reads bytes at an offset of a part of the file. */
static bool part_read(const struct lookup *lookup, const struct go_part *part, uint64_t offset,
		      void *bytes, size_t length)
{
	return offset <= part->size && length <= part->size - offset &&
	       lookup->source->read(lookup->source->context, part->offset + offset, bytes,
				    length) == 0;
}

static bool part_read_u32(const struct lookup *lookup, const struct go_part *part, uint64_t offset,
			  uint32_t *value)
{
	return part_read(lookup, part, offset, value, sizeof(*value));
}

/* Finds the value of a list at `target` bytes after the start of the function. Returns false if the
 * list is absent, ends before, or cannot be read. */
static bool value_find(struct lookup *lookup, uint32_t list, uint32_t target, int32_t *value)
{
	struct go_values values;

	if (!list)
		return false;
	go_values_init(&values, lookup->module, lookup->source, list);
	while (lookup->steps && go_values_next(&values)) {
		lookup->steps--;
		if (target < values.end) {
			*value = (int32_t)values.value;
			return true;
		}
	}
	return false;
}

/* --- functions --- */

/* Returns where the function with this index starts; UINT32_MAX if that cannot be read. */
static uint32_t function_start(const struct lookup *lookup, size_t index)
{
	uint32_t start;

	return part_read_u32(lookup, &lookup->module->functions, index * GO_ENTRY_BYTES, &start)
		   ? start
		   : UINT32_MAX;
}

/* Reads the description of a function. */
static bool function_read(const struct lookup *lookup, uint64_t offset, struct function *function)
{
	const struct go_module *module = lookup->module;
	const struct go_part *part = &module->functions;
	const size_t length = go_function_bytes(module);
	uint8_t bytes[GO_FUNCTION_BYTES_1_20];
	struct cursor c = cursor_init(bytes, length);

	if (!part_read(lookup, part, offset, bytes, length))
		return false;
	const struct go_function head = go_function_read(module, &c);
	*function = (struct function){.head = head, .calls = NO_DATA};
	if (head.value_count <= VALUES_INLINED || head.value_count > VALUES_MAX ||
	    head.data_count <= DATA_INLINED)
		return true;
	const uint64_t values = offset + length;
	const uint64_t data = values + head.value_count * sizeof(uint32_t);
	return part_read_u32(lookup, part, values + VALUES_INLINED * sizeof(uint32_t),
			     &function->inlined) &&
	       part_read_u32(lookup, part, data + DATA_INLINED * sizeof(uint32_t),
			     &function->calls);
}

/* Finds the function at `target` bytes after the start of the code. The entry after the last
 * function says where the code ends. */
static bool function_find(const struct lookup *lookup, uint32_t target, struct function *function)
{
	const struct go_module *module = lookup->module;
	const size_t after = SEARCH_LOWER_BOUND(i, (size_t)module->function_count + 1,
						function_start(lookup, i) <= target);
	uint32_t offset;

	return after > 0 && after <= module->function_count &&
	       part_read_u32(lookup, &module->functions,
			     (after - 1) * GO_ENTRY_BYTES + sizeof(uint32_t), &offset) &&
	       function_read(lookup, offset, function) && function->head.start <= target;
}

/* --- positions --- */

/* Finds file and line of the code at `target` bytes after the start of the function. */
static void position_find_line(struct lookup *lookup, const struct function *function,
			       uint32_t target, struct go_call *call)
{
	int32_t line, file;

	if (value_find(lookup, function->head.lines, target, &line) && line > 0)
		call->line = (uint32_t)line;
	if (!value_find(lookup, function->head.files, target, &file) || file < 0)
		return;
	const uint64_t index = (uint64_t)function->head.unit + (uint32_t)file;
	call->has_file =
	    part_read_u32(lookup, &lookup->module->units, index * sizeof(uint32_t), &call->file) &&
	    call->file != NO_DATA;
}

/* Reads the inlined call with this index: the name and the start line of the function, and an
 * address in the line of the call, relative to the function that contains it. */
static bool inlined_read(const struct lookup *lookup, const struct function *function,
			 uint32_t index, struct go_call *call, uint32_t *parent)
{
	const bool start_lines = lookup->module->has_start_lines;
	const size_t length = start_lines ? INLINED_BYTES_1_20 : INLINED_BYTES_1_18;
	uint8_t bytes[INLINED_BYTES_1_18] = {0};
	struct cursor c = cursor_init(bytes, length);

	if (function->calls == NO_DATA ||
	    !part_read(lookup, &lookup->module->inlined, function->calls + (uint64_t)index * length,
		       bytes, length))
		return false;
	/* Before 1.20: parent, funcID, padding, file, line; then: funcID, padding. */
	cursor_skip(&c, start_lines ? 4 : 12);
	call->name = cursor_u32(&c);
	*parent = cursor_u32(&c);
	call->start_line = start_lines ? cursor_u32(&c) : 0;
	return true;
}

bool go_functions_find(const struct go_module *module, const struct elf_source *source,
		       uint64_t vaddr, struct go_position *position)
{
	struct lookup lookup = {.module = module, .source = source, .steps = STEPS_MAX};
	struct function function;
	bool line_is_known = true;
	int32_t index;

	if (vaddr < module->text_vaddr || vaddr - module->text_vaddr > UINT32_MAX ||
	    !function_find(&lookup, (uint32_t)(vaddr - module->text_vaddr), &function))
		return false;
	uint32_t target = (uint32_t)(vaddr - module->text_vaddr) - function.head.start;
	position->count = 0;
	while (position->count < GO_CALLS_MAX - 1 &&
	       value_find(&lookup, function.inlined, target, &index) && index >= 0) {
		struct go_call *call = &position->calls[position->count];
		uint32_t parent;

		*call = (struct go_call){0};
		line_is_known = inlined_read(&lookup, &function, (uint32_t)index, call, &parent);
		if (!line_is_known)
			break;
		position_find_line(&lookup, &function, target, call);
		target = parent;
		position->count++;
	}
	struct go_call *outermost = &position->calls[position->count++];
	*outermost =
	    (struct go_call){.name = function.head.name, .start_line = function.head.start_line};
	/* Otherwise it is the line in an inlined function that is not known. */
	if (line_is_known)
		position_find_line(&lookup, &function, target, outermost);
	return true;
}

void go_functions_text(const struct go_part *part, const struct elf_source *source, uint32_t offset,
		       char *text, size_t room)
{
	const struct lookup lookup = {.source = source};
	const uint64_t left = offset < part->size ? part->size - offset : 0;
	const size_t length = left < room - 1 ? (size_t)left : room - 1;

	text[part_read(&lookup, part, offset, text, length) ? length : 0] = 0;
}
