/* SPDX-License-Identifier: Apache-2.0 */
/* Names code of Go by the table of functions that the Go linker puts into each program. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "parse/go_functions.h"
#include "symbolizer/namer/namer.h"

enum {
	TEXT_BYTES = 1024 /* of a name or a path; longer ones are cut */
};
_Static_assert((int)GO_CALLS_MAX <= (int)NAMED_FRAMES_MAX, "all calls fit");

static int go_open(const struct elf_image *image, void **state)
{
	struct go_module module;
	const int r = go_module_find(&module, image);

	if (r)
		return r;
	*state = malloc(sizeof(module));
	if (!*state)
		return -ENOMEM;
	memcpy(*state, &module, sizeof(module));
	return 0;
}

static size_t go_bytes(const void *state)
{
	(void)state;
	return sizeof(struct go_module);
}

static const char *keep_text(struct named_frames *frames, const struct go_part *part,
			     const struct elf_source *source, uint32_t offset)
{
	char text[TEXT_BYTES];

	go_functions_text(part, source, offset, text, sizeof(text));
	return named_frames_keep(frames, text, sizeof(text));
}

static int go_name(void *state, const struct namer_sources *sources, uint64_t vaddr,
		   struct named_frames *frames)
{
	const struct go_module *module = state;
	const struct elf_source *source = sources->file;
	struct go_position position;

	if (!go_functions_find(module, source, vaddr, &position))
		return -ENOENT;
	for (unsigned int i = 0; i < position.count; i++) {
		const struct go_call *call = &position.calls[i];
		const char *name = keep_text(frames, &module->names, source, call->name);

		if (!*name)
			return -ENOENT;
		frames->frames[frames->count++] = (struct named_frame){
		    .function = name,
		    .file =
			call->has_file ? keep_text(frames, &module->files, source, call->file) : "",
		    .line = call->line,
		    .start_line = call->start_line,
		};
	}
	return 0;
}

const struct namer_ops namer_go = {
    .kind = FRAME_KIND_GO, .open = go_open, .close = free, .bytes = go_bytes, .name = go_name};
