/* SPDX-License-Identifier: Apache-2.0 */
/* Recognises a Go program, and finds out where its goroutines have their labels, their ids, and
 * where they go on. */
#ifndef SYMBOLIZER_RUNTIME_GO_FILE_H
#define SYMBOLIZER_RUNTIME_GO_FILE_H

#include "bpf/runtime/go.h"
#include "symbolizer/runtime/runtime.h"

/* What the processes of a file share. */
struct go_image {
	struct go_block block;
	uint64_t exit_vaddr, exit_size; /* runtime.goexit */
	uint64_t grow_vaddr, grow_size; /* runtime.morestack */
};

/* Implements the `recognise` operation of struct runtime_ops. `*image` is a struct go_image,
 * freed with free(). */
int go_file_recognise(const struct runtime_file *file, void **image,
		      struct runtime_refusal *refusal);

/* The functions below read parts of the block from code. They return 0, or -ENOTSUP if it is not as
 * expected. */

/* Reads where the goroutine is from the code of runtime.systemstack. */
int go_file_decode_user(const uint8_t *stack, size_t stack_length, struct go_block *block);

/* Reads where it says how it goes on from that of runtime.morestack. */
int go_file_decode_saved(const uint8_t *code, size_t length, struct go_block *block);

/* Reads where its labels are from that of runtime/pprof.runtime_setProfLabel. */
int go_file_decode_labels(const uint8_t *set, size_t length, struct go_block *block);

/* Reads where its id is from those of runtime.casgstatus and runtime.goroutineheader. */
int go_file_decode_id(const uint8_t *change, size_t change_length, const uint8_t *print,
		      size_t print_length, struct go_block *block);

#endif
