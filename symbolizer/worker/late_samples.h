/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples of the manager that wait in the worker, because what names their frames is on its way: a
 * debug file, or symbols that are being read. Samples of the kernel side wait in its ring; these
 * ones come as messages, and those that follow must not wait.
 */
#ifndef SYMBOLIZER_WORKER_LATE_SAMPLES_H
#define SYMBOLIZER_WORKER_LATE_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>

/* A queue. All zeros: empty. */
struct late_samples {
	struct late_sample *first, **end;
	size_t count, bytes;
};

/* Adds a copy of a record at the end. Returns false if there is no room or no memory. */
bool late_samples_add(struct late_samples *samples, const void *record, size_t length);

/* Returns the first record, or NULL. It is valid until it is removed. */
const void *late_samples_first(const struct late_samples *samples);
void late_samples_remove_first(struct late_samples *samples);

void late_samples_free(struct late_samples *samples);

#endif
