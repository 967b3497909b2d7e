/* SPDX-License-Identifier: Apache-2.0 */
/* Recognises a Go program that gives labels to its goroutines, and finds out where they are. */
#ifndef SYMBOLIZER_RUNTIME_GO_LABELS_FILE_H
#define SYMBOLIZER_RUNTIME_GO_LABELS_FILE_H

#include "bpf/runtime/go_labels.h"
#include "symbolizer/runtime/runtime.h"

/* What the processes of a file share. */
struct go_labels_image {
	struct go_labels_block block;
	uint64_t exit_vaddr, exit_size; /* runtime.goexit */
};

/* Implements the `recognise` operation of struct runtime_ops. `*image` is a struct go_labels_image,
 * freed with free(). */
int go_labels_file_recognise(const struct runtime_file *file, void **image,
			     struct runtime_refusal *refusal);

/* Reads the block from the code of runtime.systemstack and of runtime/pprof.runtime_setProfLabel,
 * but for `is_map`. Returns 0, or -ENOTSUP if the code is not as expected. */
int go_labels_file_decode(const uint8_t *stack, size_t stack_length, const uint8_t *set,
			  size_t set_length, struct go_labels_block *block);

#endif
