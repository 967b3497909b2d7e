/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Go 1.21 - 1.27: attaches to a process, and reads labels. Functions need no runtime: they are
 * unwound and named as native code (symbolizer/namer/go.c).
 *
 * How this works: all that the walker (bpf/runtime/go.bpf.c) needs is in the file. A frame
 * consists of a hash of the labels, and does not say where they are: they may have been freed. So
 * they are read from the copy that was made with the first sample, and must have the hash of the
 * frame.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/runtime/go_file.h"
#include "symbolizer/runtime/runtime.h"

_Static_assert((int)GO_LABELS_MAX <= (int)NAMED_LABELS_MAX, "all labels have room");

static void go_release(void *image)
{
	free(image);
}

static int go_attach(struct runtime_process *process)
{
	const struct go_image *image = process->image;
	struct runtime_layout *layout = &process->layout;
	const uint64_t start = image->exit_vaddr + process->bias;
	const uint64_t grow = image->grow_vaddr + process->bias;

	memset(layout, 0, sizeof(*layout));
	memcpy(&layout->block, &image->block, sizeof(image->block));
	layout->ranges[layout->range_count++] = (struct runtime_range){
	    .start = grow, .end = grow + image->grow_size, .data = GO_RANGE_GROW, .in_file = true};
	if (image->block.labels || image->block.id)
		layout->ranges[layout->range_count++] =
		    (struct runtime_range){.start = start,
					   .end = start + image->exit_size,
					   .data = GO_RANGE_START,
					   .in_file = true};
	return 0;
}

/* Reads a text, and adds it to the hash as the walker did. */
static int read_text(struct memory *memory, const uint64_t *text, uint64_t *hash,
		     struct named_frames *frames, const char **kept)
{
	const size_t length = text[1] < GO_LABEL_BYTES ? (size_t)text[1] : GO_LABEL_BYTES;
	uint64_t words[GO_LABEL_WORDS] = {0};

	const int r = length ? memory_read(memory, text[0], words, length) : 0;
	if (r < 0)
		return r;
	*hash = go_hash(*hash, length);
	for (int i = 0; i < GO_LABEL_WORDS; i++)
		*hash = go_hash(*hash, words[i]);
	*kept = named_frames_keep(frames, (const char *)words, length);
	return 0;
}

/* Reads the list of labels in the copy. Returns its length in bytes, or an error of
 * memory_read(). */
static int read_list(struct memory *memory, uint64_t list[static GO_LIST_WORDS])
{
	struct bh_memory_part part;

	if (!memory->copy || memory->copy_bytes < sizeof(part))
		return -ESTALE;
	memcpy(&part, memory->copy, sizeof(part));
	if (!part.bytes || part.bytes > GO_LIST_BYTES)
		return -ESTALE;
	const int r = memory_read(memory, part.address, list, part.bytes);
	return r < 0 ? r : (int)part.bytes;
}

static int read_labels(const struct runtime_process *process, struct named_frames *frames,
		       uint64_t *hash)
{
	const struct go_image *image = process->image;
	const uint32_t is_map = image->block.is_map;
	uint64_t list[GO_LIST_WORDS] = {0};
	const int length = read_list(process->memory, list);

	if (length < 0)
		return length;
	const uint32_t count = (uint32_t)length / GO_LABEL_SIZE;

	for (uint32_t i = 0; i < GO_LABELS_MAX; i++) {
		struct named_label *label = &frames->labels[frames->label_count];

		if (!go_has_label(is_map, list[0], count, i))
			continue;
		int r = read_text(process->memory, &list[go_text_word(is_map, i, 0)], hash, frames,
				  &label->key);
		if (!r)
			r = read_text(process->memory, &list[go_text_word(is_map, i, 1)], hash,
				      frames, &label->value);
		if (r < 0)
			return r;
		frames->label_count++;
	}
	return 0;
}

static int go_symbolize(struct runtime_process *process, const uint64_t *words,
			struct named_frames *frames)
{
	uint64_t hash = 0;

	frames->label_count = 0;
	int r = read_labels(process, frames, &hash);
	if (!r && ((words[0] & BH_ADDRESS_MASK) != go_frame_payload(hash) ||
		   words[1] != go_frame_word(hash)))
		r = -ESTALE;
	if (r < 0)
		frames->label_count = 0;
	return r;
}

static void go_drop_cache(struct runtime_process *process)
{
	process->cached_bytes = 0;
}

static void go_detach(struct runtime_process *process)
{
	(void)process;
}

const struct runtime_ops runtime_go = {
    .is_labels = true,
    .without_memory = true,
    .recognise = go_file_recognise,
    .release = go_release,
    .attach = go_attach,
    .symbolize = go_symbolize,
    .drop_cache = go_drop_cache,
    .detach = go_detach,
};
