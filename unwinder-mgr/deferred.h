/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deferred stacks: samples whose tables did not exist when they were taken. Their copies wait here
 * until they do, are walked by the walker's own source, and go on to the worker as if nothing had
 * been.
 */
#ifndef UNWINDER_MGR_DEFERRED_H
#define UNWINDER_MGR_DEFERRED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/shared.h"
#include "common/bpf_ring.h"

struct manager;

struct deferred_stack {
	struct deferred_stack *next;
	uint64_t since_ns;
	size_t bytes;
	struct bh_deferred record; /* cut after what was copied */
};

struct deferred {
	struct bpf_ring ring;
	struct deferred_stack *first, *last;
	size_t bytes;
	uint64_t tried_generation; /* of modules: nothing new since means nothing to try */
};

/* Take what is in the ring. */
void deferred_consume(struct manager *manager);

/* Walk what can be walked by now; what has waited too long, or all of it with `finish`, goes on as
 * far as it can be walked. */
void deferred_process(struct manager *manager, bool finish);

#endif
