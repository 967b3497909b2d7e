/* SPDX-License-Identifier: Apache-2.0 */
/* The files that were recognised as a language runtime. What was read from such a file (its image)
 * is shared by all processes that map it. */
#ifndef SYMBOLIZER_WORKER_RUNTIME_IMAGES_H
#define SYMBOLIZER_WORKER_RUNTIME_IMAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "ipc/messages.h"
#include "symbolizer/runtime/runtime.h"

struct runtime_image {
	struct runtime_image *next;
	unsigned int users; /* references: of the module, and of attached processes */
	uint32_t module;    /* 0: the module was removed */
	int runtime;	    /* enum runtime_id */
	const struct runtime_ops *ops;
	void *recognised;
	struct elf_segment segments[ELF_IMAGE_SEGMENTS_MAX];
	unsigned int segment_count;
	char path[MSG_PATH_BYTES];
	bool refused; /* a process was refused because of the file, which was logged */
	/* The layout of the process that was attached last, for ops->expect. */
	bool layout_known;
	struct runtime_layout layout;
};

/* Returns whether frames of a runtime (enum runtime_id, or any other number) stand for labels. */
bool runtime_images_are_labels(unsigned int runtime);

/* Returns the image of a module, or NULL. A module that was removed is not found. */
struct runtime_image *runtime_images_find(struct runtime_image *first, uint32_t module);

/* Makes an image if the file of `fd` (borrowed) is one of the runtimes in the set `wanted`. It has
 * one user. Returns 0; -ENOENT if the file is no such runtime; -ENOTSUP if it is `*runtime` in a
 * form that is not supported, for the reason in `refusal`; -ENOMEM; or a negative errno of reading
 * the file. */
int runtime_image_recognise(int fd, const char *path, uint32_t wanted, unsigned int *runtime,
			    struct runtime_refusal *refusal, struct runtime_image **image);

/* Frees an image that is in no list. NULL is allowed. */
void runtime_image_free(struct runtime_image *image);

/* Adds the image of a module at the front of the list. */
void runtime_images_add(struct runtime_image **first, uint32_t module, struct runtime_image *image);

/* Drops one reference. The last one frees the image. */
void runtime_images_put(struct runtime_image **first, struct runtime_image *image);

/* Computes the address of the file's virtual address 0 in a process that maps the file from
 * `file_offset` on at `start`. Returns false if that part is not in an executable segment. */
bool runtime_image_bias(const struct runtime_image *image, uint64_t start, uint64_t file_offset,
			uint64_t *bias);

#endif
