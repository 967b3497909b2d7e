/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One language runtime in one process: when the worker attaches to it, and what came of it.
 *
 * How this works:
 * - A new attachment is WANTED and due at once. If another process of the same file is attached
 *   already, some runtimes say without reading memory what will most likely be found
 *   (runtime_attachment_expect()). Then it is EXPECTED, and published at once.
 * - Each attempt lets the runtime read what it needs from the process's memory. The reads of one
 *   attempt are bounded. If they are not enough, the next attempt may make more, up to a limit. How
 *   long it may take is known before it is made, so that the caller can wait until there is time.
 * - If an attempt succeeds, the attachment is PUBLISHED: the caller puts the process into the
 * kernel side's table. Some runtimes are then due again after `refresh_ms`, to find code that was
 * added meanwhile.
 * - If the process is not ready yet, the attempt is repeated later.
 * - If the runtime cannot be used, the attachment is REFUSED: it is never due again.
 * - What reads memory is watched (role/process_work.h). If it is given up, what the runtime knew of
 * the process is LOST. Its ranges stay published, its frames have no names, and it is due again.
 *
 * Example: python3.11 was executed 3 ms ago. The first attempt finds no interpreter state
 * (-EAGAIN), so the attachment stays WANTED and is due 5 ms later. The second attempt succeeds: the
 * result is RUNTIME_ATTACHMENT_CHANGED, and the caller publishes the ranges of the process. For the
 * next process that executes python3.11, the same ranges are published as soon as the file is
 * mapped, and the first function that it calls is sampled with its name.
 */
#ifndef SYMBOLIZER_WORKER_RUNTIME_ATTACHMENT_H
#define SYMBOLIZER_WORKER_RUNTIME_ATTACHMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "role/process_work.h"
#include "symbolizer/runtime/runtime.h"
#include "symbolizer/worker/memory_copies.h"
#include "symbolizer/worker/runtime_images.h"
#include "symbolizer/worker/runtime_slots.h"
#include "symbolizer/worker/runtime_stats.h"

enum runtime_attachment_state {
	RUNTIME_ATTACHMENT_WANTED,
	RUNTIME_ATTACHMENT_EXPECTED,
	RUNTIME_ATTACHMENT_PUBLISHED,
	RUNTIME_ATTACHMENT_LOST, /* it was published, and has to be attached to again */
	RUNTIME_ATTACHMENT_REFUSED
};

enum runtime_attachment_result {
	RUNTIME_ATTACHMENT_UNCHANGED,  /* there is nothing to publish */
	RUNTIME_ATTACHMENT_CHANGED,    /* the ranges of the process have to be published */
	RUNTIME_ATTACHMENT_MEMORY_GONE /* the memory that was read no longer exists */
};

struct runtime_attachment {
	enum runtime_attachment_state state;
	struct runtime_image *image;
	int block;	    /* in the kernel side's table; RUNTIME_NO_BLOCK while it is not there */
	bool tried;	    /* at least one attempt was made */
	unsigned int reads; /* that the next attempt may make */
	uint64_t due_ns;    /* time of the next attempt or refresh; 0: never */
	uint64_t used;	    /* time of the last symbolized frame, by runtimes->clock */
	size_t counted;	    /* the part of process.cached_bytes in runtimes->cached_bytes */
	struct runtime_process process;
};

/* Returns a new attachment to the runtime of `image` in a process, where it is loaded at `bias`, or
 * NULL if there is no memory. `memory` must outlive the attachment. */
struct runtime_attachment *runtime_attachment_new(struct runtime_image *image, uint64_t bias,
						  uint32_t tgid, struct memory *memory);

/* Adds a mapping of the file. If it is new, the attachment is due at once. */
void runtime_attachment_add_mapping(struct runtime_attachment *attachment,
				    const struct runtime_mapping *mapping);

/* The process's executable memory outside of files has changed. Returns whether the attachment is
 * due at once because of that. */
bool runtime_attachment_code_changed(struct runtime_attachment *attachment);

/* Takes a block of the table, unless it has one. Returns false if there is none. */
bool runtime_attachment_take_block(struct runtime_attachment *attachment,
				   struct runtime_slots *slots);
/* Gives the block back, which no slot of the table may refer to. */
void runtime_attachment_give_block(struct runtime_attachment *attachment,
				   struct runtime_slots *slots);

/* Detaches, and gives the reference to the image back. It has no block any more. */
void runtime_attachment_free(struct runtime_attachment *attachment, struct runtime_image **images);

/* Fills in the layout as it is expected, before the memory can be read. Returns whether that is
 * possible; the caller then publishes the ranges of the process. */
bool runtime_attachment_expect(struct runtime_attachment *attachment);

/* Returns whether the ranges of the attachment are published, or to be published. A runtime that
 * has only names has none. */
static inline bool runtime_attachment_has_ranges(const struct runtime_attachment *attachment)
{
	return !attachment->image->ops->only_names &&
	       (attachment->state == RUNTIME_ATTACHMENT_EXPECTED ||
		attachment->state == RUNTIME_ATTACHMENT_PUBLISHED ||
		attachment->state == RUNTIME_ATTACHMENT_LOST);
}

/* Returns how long the next attempt may take. */
uint64_t runtime_attachment_needed_ns(const struct runtime_attachment *attachment);

/* Attaches, or refreshes what was attached. `since_ns` is the time when the process was first
 * seen with its current program, and `now_ns` the present (both CLOCK_MONOTONIC).
 * Refusals are counted in `stats`. `work` does what reads memory. */
enum runtime_attachment_result runtime_attachment_try(struct runtime_attachment *attachment,
						      struct process_work *work,
						      struct runtime_stats *stats,
						      uint64_t since_ns, uint64_t now_ns);

/* Names a frame from the memory of the process, unless that is not `readable`, or from the copy
 * that was made of what was sampled, if it is no longer there. Returns 0; an error of
 * runtime_ops.symbolize(); or -ECANCELED if that took too long, now
 * or before, and the process is left alone. */
int runtime_attachment_symbolize(struct runtime_attachment *attachment, struct process_work *work,
				 bool readable, const struct memory_copies *copies,
				 const uint64_t *words, struct named_frames *frames);

#endif
