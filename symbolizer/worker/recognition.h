/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of the files that processes map are language runtimes.
 *
 * How this works. Each module that is announced is checked: is its file an interpreter or virtual
 * machine that a runtime recognises? What is found is passed on (runtimes_on_recognised()). That
 * takes 0.1 ms for most files, but 60 ms for that of Node, whose symbol table is large. So it is
 * done in slices (slices.h), for one module at a time, and it has a share of the time
 * (common/time_share.h). Modules that have to wait for one of both, or are left alone because the
 * worker has died on them, are tried again later.
 *
 * Example: node and ruby run when a recording begins. The first slice of node's file ends after
 * 5 ms, so libruby waits. The worker's ticks go on with node's file. When it has been recognised,
 * libruby is, and then sampling begins.
 */
#ifndef SYMBOLIZER_WORKER_RECOGNITION_H
#define SYMBOLIZER_WORKER_RECOGNITION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/slices.h"
#include "symbolizer/runtime/runtime.h"

struct module;
struct runtime_image;
struct worker;

/* What was found out about a file. */
struct recognised {
	int error; /* as runtime_image_recognise() */
	unsigned int runtime;
	struct runtime_image *image;
	struct runtime_refusal refusal;
};

struct recognition {
	struct module *module; /* whose file is being read; NULL: none */
	uint32_t wanted;       /* set of enum bh_runtime */
	struct recognised found;
	struct slices slices;
	unsigned int unrecognised; /* modules that have to wait, or are left alone */
	bool others_wait;	   /* some of them for `module` */
	uint64_t tried_ns;	   /* when it was last tried to recognise them */
	uint64_t ended_ns;	   /* when the last one was recognised; 0: none was */
};

/* Begins, when runtimes_init() has been called. Modules may have been announced before. */
void recognition_begin(struct worker *worker, uint32_t wanted);
void recognition_free(struct worker *worker);

void recognition_on_module(struct worker *worker, struct module *module);
void recognition_on_module_gone(struct worker *worker, const struct module *module);

/* Goes on for a slice: a file is read to its end, even if that takes more than its share of the
 * time. Returns whether more is to be done. */
bool recognition_go_on(struct worker *worker);

/* Returns whether it is not known yet which files are runtimes, but soon will be. */
bool recognition_is_under_way(struct worker *worker);

#endif
