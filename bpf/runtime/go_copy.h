/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/* Copies of labels of Go, which the garbage collector frees when a goroutine gets others: the list,
 * and the texts in it. */
#ifndef BPF_RUNTIME_GO_COPY_H
#define BPF_RUNTIME_GO_COPY_H

#include "bpf/runtime/go.h"
#include "bpf/runtime/walker.h"

struct go_copied_text {
	struct bh_memory_part part;
	uint64_t text[GO_LABEL_WORDS];
};

struct go_copy {
	struct bh_memory_copy start;
	/* Its address is where the list is. */
	struct bh_memory_part list_part;
	uint64_t list[GO_LIST_WORDS];
	struct go_copied_text texts[GO_LABELS_MAX][2];
};
_Static_assert(sizeof(struct go_copy) <= BH_MEMORY_COPY_MAX, "fits");

#endif
