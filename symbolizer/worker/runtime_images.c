/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/worker/runtime_images.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/runtimes.h"

static const struct runtime_ops *const all_runtimes[RUNTIME_ID_COUNT] = {
#define RUNTIME(id, name, frame_type, title) [RUNTIME_ID_##id] = &runtime_##name,
#define RUNTIME_WITHOUT_WALKER(id, name, title) [RUNTIME_ID_##id] = &runtime_##name,
#include "common/runtimes.def"
#undef RUNTIME
};

bool runtime_images_are_labels(unsigned int runtime)
{
	return runtime > 0 && runtime < RUNTIME_ID_COUNT && all_runtimes[runtime]->is_labels;
}

struct runtime_image *runtime_images_find(struct runtime_image *first, uint32_t module)
{
	while (first && first->module != module)
		first = first->next;
	return first;
}

void runtime_image_free(struct runtime_image *image)
{
	if (!image)
		return;
	image->ops->release(image->recognised);
	free(image);
}

void runtime_images_put(struct runtime_image **first, struct runtime_image *image)
{
	if (--image->users)
		return;
	while (*first && *first != image)
		first = &(*first)->next;
	if (*first)
		*first = image->next;
	runtime_image_free(image);
}

static int image_new(const struct runtime_file *file, int runtime, void *recognised,
		     struct runtime_image **made)
{
	struct runtime_image *image = calloc(1, sizeof(*image));

	if (!image) {
		all_runtimes[runtime]->release(recognised);
		return -ENOMEM;
	}
	image->users = 1;
	image->runtime = runtime;
	image->ops = all_runtimes[runtime];
	image->recognised = recognised;
	image->segment_count = file->image.segment_count;
	memcpy(image->segments, file->image.segments, sizeof(image->segments));
	snprintf(image->path, sizeof(image->path), "%s", file->path);
	*made = image;
	return 0;
}

static int recognise(const struct runtime_file *file, uint32_t wanted, unsigned int *runtime,
		     struct runtime_refusal *refusal, struct runtime_image **made)
{
	for (int i = 1; i < RUNTIME_ID_COUNT; i++) {
		void *recognised = NULL;

		if (!(wanted >> i & 1))
			continue;
		int r = all_runtimes[i]->recognise(file, &recognised, refusal);
		if (r == -ENOENT)
			continue;
		*runtime = (unsigned int)i;
		return r ? r : image_new(file, i, recognised, made);
	}
	return -ENOENT;
}

int runtime_image_recognise(int fd, const char *path, uint32_t wanted, unsigned int *runtime,
			    struct runtime_refusal *refusal, struct runtime_image **image)
{
	struct runtime_file file;
	int r = runtime_file_init(&file, fd, path);

	if (r < 0)
		return r;
	file.wanted = wanted;
	r = recognise(&file, wanted, runtime, refusal, image);
	runtime_file_fini(&file);
	return r;
}

void runtime_images_add(struct runtime_image **first, uint32_t module, struct runtime_image *image)
{
	image->module = module;
	image->next = *first;
	*first = image;
}

bool runtime_image_bias(const struct runtime_image *image, uint64_t start, uint64_t file_offset,
			uint64_t *bias)
{
	for (unsigned int i = 0; i < image->segment_count; i++) {
		const struct elf_segment *s = &image->segments[i];
		/* Mappings start at pages, segments anywhere. */
		const uint64_t skipped = s->offset & 4095;

		if (!s->executable || file_offset + 4095 < s->offset ||
		    file_offset >= s->offset + s->file_size)
			continue;
		*bias = start - (s->vaddr - skipped) - (file_offset - (s->offset - skipped));
		return true;
	}
	return false;
}
