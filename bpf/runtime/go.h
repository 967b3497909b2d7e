/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * Goroutines of Go 1.21 to 1.27: what the walker and the symbolizer share. All offsets are in
 * bytes, and all texts of Go are {address, length}.
 *
 * A program gives labels to a goroutine (runtime/pprof.Do). They are at runtime.g.labels: from Go
 * 1.24 on a pointer to a slice of {key, value}, before that one to a map with such texts
 * (runtime/pprof/label.go). A map with up to eight labels has one bucket (runtime/map.go).
 */
#ifndef BPF_RUNTIME_GO_H
#define BPF_RUNTIME_GO_H

#include "bpf/runtime/frame_word.h"
#include "bpf/shared.h"

enum {
	GO_LABELS_MAX = 10,
	GO_LABEL_BYTES = 48, /* of a key or value; of a longer one the start counts */
	GO_LABEL_WORDS = GO_LABEL_BYTES / 8,

	GO_STACK_LOW = 0, /* runtime.g.stack: both bounds, two words */

	GO_LABEL_SIZE = 32, /* of an element of the slice: key and value */

	GO_MAP_BITS = 9, /* B, one byte: the map has 1 << B buckets */
	GO_MAP_BUCKETS = 16,
	GO_BUCKET_LABELS = 8,
	GO_BUCKET_KEYS = 8,	/* after a byte for each label, which says whether it is there */
	GO_BUCKET_VALUES = 136, /* after the keys */
	GO_BUCKET_BYTES = 264,
	GO_BUCKET_FILLED = 5, /* minTopHash: this or more */

	/* Where all labels are, at most. */
	GO_LIST_BYTES = GO_LABELS_MAX * GO_LABEL_SIZE,
	GO_LIST_WORDS = GO_LIST_BYTES / 8,
};
_Static_assert(GO_BUCKET_BYTES <= GO_LIST_BYTES, "a bucket fits");

/* What a range of code is for: its `data`. */
enum {
	GO_RANGE_START, /* runtime.goexit, from which each goroutine starts */
	GO_RANGE_GROW,	/* runtime.morestack */
};

struct go_block {
	int64_t current; /* from the thread pointer to the address of the runtime.g that runs */
	uint32_t thread; /* runtime.g.m */
	uint32_t user;	 /* runtime.m.curg: the goroutine, also while runtime.m.g0 runs */
	uint32_t labels; /* runtime.g.labels; 0: the program gives none */
	uint32_t id;	 /* runtime.g.goid; 0: it is not wanted */
	uint32_t is_map;
	uint32_t saved_pc, saved_sp, saved_fp; /* runtime.g.sched: where the goroutine goes on */
};
_Static_assert(sizeof(struct go_block) <= BH_RUNTIME_BLOCK_BYTES, "fits");

/*
 * A managed frame of Go stands for the labels of the goroutine. It has two words, whose payload and
 * identity are a hash of all texts (go_frame_*): equal labels are one frame, wherever they are.
 */
static inline uint64_t go_hash(uint64_t hash, uint64_t word)
{
	return (hash ^ hash >> 29 ^ word) * 0x9e3779b97f4a7c15ull;
}

static inline uint64_t go_frame_payload(uint64_t hash)
{
	return go_hash(hash, 1) >> 16;
}

static inline uint64_t go_frame_word(uint64_t hash)
{
	return frame_word((uint32_t)(go_hash(hash, 2) >> 32), 0, 0);
}

/* Returns the index of the word of a list in which the key or value of a label begins. */
static inline uint32_t go_text_word(uint32_t is_map, uint32_t label, uint32_t is_value)
{
	return is_map ? (is_value ? GO_BUCKET_VALUES / 8 : GO_BUCKET_KEYS / 8) + 2 * label
		      : 4 * label + 2 * is_value;
}

/* Returns whether a list has this label. `first` is its first word, `count` how many labels a slice
 * has. */
static inline int go_has_label(uint32_t is_map, uint64_t first, uint32_t count, uint32_t label)
{
	return is_map ? label < GO_BUCKET_LABELS &&
			    (first >> 8 * (label & 7) & 0xff) >= GO_BUCKET_FILLED
		      : label < count;
}

#endif
