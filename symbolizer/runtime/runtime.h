/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface between the worker and a language runtime. For each RUNTIME of the table
 * common/runtimes.def, symbolizer/runtime/NAME.c defines `runtime_NAME`, a struct runtime_ops.
 * symbolizer/worker/runtimes.c calls the operations, provides access to the process's memory and
 * publishes the results to the kernel. docs/adding-a-runtime.md explains how to add a runtime.
 */
#ifndef SYMBOLIZER_RUNTIME_RUNTIME_H
#define SYMBOLIZER_RUNTIME_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/shared.h"
#include "symbolizer/namer/named_frames.h"
#include "symbolizer/runtime/file.h"
#include "symbolizer/runtime/memory.h"

enum {
	/* Ranges of code of one runtime in one process. */
	RUNTIME_RANGES_MAX = 128,
	/* Executable mappings of a runtime's file in one process; further ones are ignored. V8 has
	 * up to 4, and one for each isolate. */
	RUNTIME_MAPPINGS_MAX = 40,
	/* A refusal in bytes, with its NUL: the sentence and 128 bytes of path. */
	RUNTIME_REFUSAL_BYTES = 320,
	/* Of struct runtime_code_memory. */
	RUNTIME_CODE_AREAS_MAX = 64,
	RUNTIME_CODE_LABEL_BYTES = 32,
};

/*
 * Why a runtime is not supported, as one line for the log. It is a structure, not an array, because
 * an array parameter decays to a pointer and the compiler would not check its size.
 */
struct runtime_refusal {
	char text[RUNTIME_REFUSAL_BYTES];
};

/* What the walker needs to know about one process. */
struct runtime_layout {
	struct bh_runtime_block block;
	/* The code of the runtime, in any order, without overlaps. */
	struct runtime_range {
		uint64_t start, end;
		uint32_t data; /* for the walker, of the runtime's own meaning */
		bool in_file;  /* the range is in a mapped file; otherwise in anonymous memory */
	} ranges[RUNTIME_RANGES_MAX];
	unsigned int range_count;
};

/* A mapping of the runtime's file in the process. */
struct runtime_mapping {
	uint64_t start, end;
	uint64_t bias; /* address in the process = virtual address in the file + bias */
};

/* Executable memory of a process that is in no program or library, sorted by address, without
 * overlaps. */
struct runtime_code_memory {
	unsigned int count;
	struct runtime_code_area {
		uint64_t start, end; /* an area may contain gaps if there are many */
		/* "", or the start of the name of a file that exists in memory only; the process
		 * chooses it. Code in such a file is published with `in_file`. */
		char label[RUNTIME_CODE_LABEL_BYTES];
	} areas[RUNTIME_CODE_AREAS_MAX];
};

/* One runtime in one process. */
struct runtime_process {
	const struct runtime_ops *ops;
	uint32_t tgid;
	const void *image; /* what `recognise` returned for the file */
	const char *path;  /* of the file, for messages */
	uint64_t bias;	   /* address in the process = virtual address in the file + bias */
	/* All executable mappings of the file. A runtime may map its code several times. When there
	 * is a new one, `attach` is called again. */
	struct runtime_mapping mappings[RUNTIME_MAPPINGS_MAX];
	unsigned int mapping_count;
	/* NULL: none is known. */
	const struct runtime_code_memory *code_memory;
	struct memory *memory; /* the worker renews its budget before each call */
	/* The runtime sets the fields below. */
	void *state;		      /* NULL until the runtime sets it */
	struct runtime_layout layout; /* set by `attach` */
	/* After how many milliseconds `attach` is to be called again; 0: never. The worker calls it
	 * at its first tick after that time, which may come up to a second later. */
	unsigned int refresh_ms;
	/* `attach` is to be called again within some milliseconds when `code_memory` changes. */
	bool follows_code_memory;
	/* How often names became wrong, or came for code that had none. Only of a runtime that has
	 * only names: those of others have their identity in the frame. */
	uint64_t names_changed;
	size_t cached_bytes;		/* roughly what `drop_cache` would free */
	struct runtime_refusal refusal; /* set when attach returns -ENOTSUP */
};

/*
 * The operations of a runtime. File and memory may hold any bytes. No operation may block, except
 * for memory_read(): if that does not come back, `attach` or `symbolize` is given up at that place
 * (role/process_work.h). So these two only change what belongs to the process.
 */
struct runtime_ops {
	/* Its frames stand for labels and not for functions. One whose labels cannot be read is
	 * left out. */
	bool is_labels;
	/* It has no walker, and publishes no ranges: its code is unwound like native code.
	 * `symbolize` gets a word for an address in memory without a file (bh_frame_raw()), and
	 * returns -ENOENT if it knows nothing of it, or -EBUSY if it has to be called again. */
	bool only_names;
	/* Neither `attach` nor `symbolize` reads the memory of the process: all they need is in the
	 * file and in the copies that come with the samples. The opener does not hand it out
	 * (RUNTIME_GO_FUNCTIONS in common/runtime_symbols.def). */
	bool without_memory;
	/*
	 * Determines whether the file is this runtime. Returns 0: it is, and `*image` holds what
	 * all its processes share, which the caller frees with `release`; -ENOENT: it is not;
	 * -ENOTSUP: it is, but it is not supported, and `refusal` says why in one line, with
	 * version and file; -ENOMEM.
	 */
	int (*recognise)(const struct runtime_file *file, void **image,
			 struct runtime_refusal *refusal);
	void (*release)(void *image);
	/*
	 * Finds the runtime's state in the process and fills in process->layout. Returns 0; -EAGAIN
	 * or -EFAULT: the runtime is still starting, and the worker calls again soon; -ESRCH: the
	 * memory is of a program that has ended; -ENOTSUP: the process is not supported, and
	 * process->refusal says why; any other error: the worker gives up. If refresh_ms is set, it
	 * is called again, because ranges come and go. Then process->layout holds what was
	 * published last.
	 */
	int (*attach)(struct runtime_process *process);
	/*
	 * Fills in process->layout before the process's memory can be read, as it will most likely
	 * be: `known` is that of another process of the same file. The worker publishes it at
	 * once, and lets `attach` replace it. So the walker must find out by itself if the process
	 * is not ready yet, or differs. Returns 0, or a negative
	 * errno. NULL: nothing can be expected, or `attach` reads no memory.
	 */
	int (*expect)(struct runtime_process *process, const struct runtime_layout *known);
	/*
	 * Names a frame that the walker pushed, of bh_frame_words(words[0]) words. Returns 0: the
	 * frames are in `frames`, none if the frame is internal to the runtime and not to be shown,
	 * or stands for labels, which are there then;
	 * -ESTALE: what the walker saw is no longer in memory, or another object is in its place;
	 * or an error of memory_read(). A name is never guessed.
	 */
	int (*symbolize)(struct runtime_process *process, const uint64_t *words,
			 struct named_frames *frames);
	/* Drops everything that is cached to name frames, and sets cached_bytes to 0. The worker
	 * calls it when its caches exceed their limit. */
	void (*drop_cache)(struct runtime_process *process);
	/* Frees process->state. */
	void (*detach)(struct runtime_process *process);
};

#define RUNTIME(id, name, frame_type, title) extern const struct runtime_ops runtime_##name;
#define RUNTIME_WITHOUT_WALKER(id, name, title) extern const struct runtime_ops runtime_##name;
#include "common/runtimes.def"
#undef RUNTIME

#endif
