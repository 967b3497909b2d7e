/* SPDX-License-Identifier: Apache-2.0 */
/* The files that were recognised as a language runtime, with what was read from each. It is shared
 * by all processes that map the file. */
#ifndef SYMBOLIZER_WORKER_RUNTIME_IMAGES_H
#define SYMBOLIZER_WORKER_RUNTIME_IMAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "ipc/messages.h"
#include "symbolizer/runtime/runtime.h"

struct runtime_image {
	struct runtime_image *next;
	unsigned int users; /* references: of the module, and of attached processes */
	uint32_t module;    /* 0: gone */
	int runtime;	    /* enum bh_runtime */
	const struct runtime_ops *ops;
	void *recognised;
	struct elf_segment segments[ELF_IMAGE_SEGMENTS_MAX];
	unsigned int segment_count;
	char path[MSG_PATH_BYTES];
	bool refused; /* for some process, which was logged */
};

/* The image of a module, or NULL. A module that was removed is not found. */
struct runtime_image *runtime_images_find(struct runtime_image *first, uint32_t module);

/*
 * If the file behind `fd` (borrowed) is one of the runtimes in the set `wanted`, an image in front
 * of the list, with one user. 0; -EEXIST: the module has one; -ENOENT: it is none; -ENOTSUP: it is
 * `*runtime`, but none that is supported, see `refusal`; -ENOMEM, or what reading the file gave.
 */
int runtime_images_add(struct runtime_image **first, uint32_t module, int fd, const char *path,
		       uint32_t wanted, unsigned int *runtime, struct runtime_refusal *refusal);

/* Drop one reference. The last one frees the image. */
void runtime_images_put(struct runtime_image **first, struct runtime_image *image);

/* Where the file's virtual address 0 is in a process that has mapped it from `file_offset` on at
 * `start`; false if no executable segment is what was mapped. */
bool runtime_image_bias(const struct runtime_image *image, uint64_t start, uint64_t file_offset,
			uint64_t *bias);

#endif
