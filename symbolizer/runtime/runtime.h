/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A language runtime as the worker sees it: symbolizer/runtime/NAME.c defines `runtime_NAME`, one
 * struct runtime_ops. Who calls them, asks for memory and publishes what they found is
 * symbolizer/worker/runtimes.c; see docs/adding-a-runtime.md.
 */
#ifndef SYMBOLIZER_RUNTIME_RUNTIME_H
#define SYMBOLIZER_RUNTIME_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/shared.h"
#include "symbolizer/runtime/file.h"
#include "symbolizer/runtime/memory.h"

enum {
	RUNTIME_RANGES_MAX = 128,
	RUNTIME_INLINED_MAX = 16, /* frames that one managed frame may stand for */
	RUNTIME_TEXT_BYTES = 16384,
	RUNTIME_REFUSAL_BYTES = 320,
};

/* What the kernel side is to know: for the slot of a process. */
struct runtime_layout {
	struct bh_runtime_block block;
	/* `start`, `end`, `data`, and `in_file`: the range is in a mapped file, not anonymous. In
	 * any order, not overlapping. */
	struct runtime_range {
		uint64_t start, end;
		uint32_t data;
		bool in_file;
	} ranges[RUNTIME_RANGES_MAX];
	unsigned int range_count;
};

/* One runtime in one process. */
struct runtime_process {
	const struct runtime_ops *ops;
	uint32_t tgid;
	const void *image;     /* what recognise() made of the file */
	const char *path;      /* of the file, for messages */
	uint64_t bias;	       /* address = virtual address in the file + bias */
	struct memory *memory; /* with a fresh budget at each call */
	/* Of the runtime: */
	void *state;		      /* NULL at first */
	struct runtime_layout layout; /* written by attach */
	unsigned int
	    refresh_ms; /* call attach again after about this, with the tick (1 s); 0: no need */
	size_t cached_bytes;		     /* what forget() would give back, about */
	char refusal[RUNTIME_REFUSAL_BYTES]; /* one line, when attach returns -ENOTSUP */
};

/* A frame as people read it. Strings are in the `text` of struct runtime_frames, or constants. */
struct runtime_frame {
	const char *function; /* as the language's people write it: Class.method, module.function */
	const char *file;     /* "" if not known */
	uint32_t line;	      /* 0 if not known */
	uint32_t start_line;  /* of the function; 0 if not known */
};

/* Innermost inlined function first. */
struct runtime_frames {
	unsigned int count;
	struct runtime_frame frames[RUNTIME_INLINED_MAX];
	size_t used;
	char text[RUNTIME_TEXT_BYTES];
};

/* A copy of a string in frames->text, cut at a NUL or if there is no room; valid as long as that.
 * It need not be UTF-8, or printable: whoever passes it on sees to that. */
const char *runtime_frames_keep(struct runtime_frames *frames, const char *text, size_t length);
const char *runtime_frames_format(struct runtime_frames *frames, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * All of them may be called with any bytes in file and memory. None blocks.
 */
struct runtime_ops {
	/* Is this file this runtime? 0, and `*image` is all that its processes share (to be freed
	 * by release); -ENOENT: it is not; -ENOTSUP: it is one, but none that is supported:
	 * `refusal` says so in one line, with version and file. */
	int (*recognise)(const struct runtime_file *file, void **image,
			 char refusal[RUNTIME_REFUSAL_BYTES]);
	void (*release)(void *image);
	/*
	 * Find the runtime's state in the process, fill process->layout. 0; -EAGAIN: not there yet
	 * (asked again, soon); -ENOTSUP: refused, see process->refusal; another errno: given up.
	 * Called again after refresh_ms, for ranges come and go: then process->layout is what was
	 * last published.
	 */
	int (*attach)(struct runtime_process *process);
	/*
	 * Names for a frame that the walker noted, `words` of them (bh_frame_words). 0, with no
	 * frame at all if it is none that people would want to see; -ESTALE: what the walker saw is
	 * no longer in memory, or is something else by now; or what memory_read returns. Never a
	 * guess.
	 */
	int (*symbolize)(struct runtime_process *process, const uint64_t *words,
			 struct runtime_frames *frames);
	/* Remember nothing of what was read to name frames: others need the memory. */
	void (*forget)(struct runtime_process *process);
	/* Free process->state. */
	void (*detach)(struct runtime_process *process);
};

#define RUNTIME(id, name, frame_type, title) extern const struct runtime_ops runtime_##name;
#include "common/runtimes.def"
#undef RUNTIME

#endif
