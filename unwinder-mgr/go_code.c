/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see go_code.h. */
#include "unwinder-mgr/go_code.h"

#include <errno.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "parse/code_flow.h"
#include "parse/go_rows.h"
#include "unwinder-mgr/limits.h"

enum {
	/* What a function counts for at least, of LIMIT_CODE_REGION_BYTES. So at most 128 functions
	 * are followed. A program has some 20 that switch stacks. */
	FUNCTION_BYTES_LEAST = 4 << 10,
};

struct go_code {
	const struct elf_image *image;
	const struct cfi_sink *sink;
	uint64_t followed_bytes;
};

static int on_rule(void *context, const struct cfi_rule *rule, uint32_t *id)
{
	const struct go_code *code = context;

	return code->sink->rule(code->sink->context, rule, id);
}

/* After the switch of a function that abandons its stack there is no caller. */
static int on_abandoning_rule(void *context, const struct cfi_rule *rule, uint32_t *id)
{
	const struct cfi_rule outermost = {.ra_kind = CFI_SAVE_UNDEFINED};
	const bool switched =
	    rule->cfa_kind == CFI_CFA_OTHER_STACK || rule->cfa_kind == CFI_CFA_FRAME_POINTER;

	return on_rule(context, switched ? &outermost : rule, id);
}

static int on_fde(void *context, const struct cfi_fde *fde)
{
	const struct go_code *code = context;

	return code->sink->fde(code->sink->context, fde);
}

static void cleanup_flow(struct code_flow **flow)
{
	code_flow_free(*flow);
}

/* Follows the instructions of a function. Bytes that cannot be read are not described. */
static int on_switch(void *context, uint64_t start, uint64_t end, bool abandons)
{
	struct go_code *code = context;
	const struct elf_source *source = &code->image->source;
	const struct cfi_sink sink = {
	    .context = code, .rule = abandons ? on_abandoning_rule : on_rule, .fde = on_fde};
	_cleanup_(cleanup_flow) struct code_flow *flow = NULL;
	uint64_t offset;

	const uint64_t counted =
	    end - start > FUNCTION_BYTES_LEAST ? end - start : FUNCTION_BYTES_LEAST;

	if (counted > LIMIT_CODE_REGION_BYTES - code->followed_bytes ||
	    !elf_image_vaddr_to_offset(code->image, start, &offset))
		return 0;
	code->followed_bytes += counted;
	_cleanup_free_ uint8_t *bytes = malloc(end - start);
	if (!bytes)
		return -ENOMEM;
	if (source->read(source->context, offset, bytes, end - start))
		return 0;
	const struct code_region region = {
	    .bytes = bytes,
	    .length = end - start,
	    .vaddr = start,
	    .entries = &start,
	    .entry_count = 1,
	    .outermost = code->image->entry,
	};
	const int r = code_flow_new(&flow, &sink);
	return r < 0 ? r : code_flow_parse(flow, &region);
}

int go_code_read(const struct elf_image *image, const struct cfi_sink *sink)
{
	struct go_code code = {.image = image, .sink = sink};
	struct go_module module;
	const int r = go_module_find(&module, image);

	return r ? r
		 : go_rows_parse(&module, &image->source, LIMIT_CFI_ROWS, sink, on_switch, &code);
}
