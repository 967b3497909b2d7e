/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this works. The exporter aggregates samples into a profile in memory, and the sinks write it.
 * A profile consists of tables whose entries refer to each other by index, as in the OTLP
 * dictionary. Entry 0 of most tables means "none". Equal entries are stored once (interning), so
 * ids can be compared instead of contents. Only samples are ever removed.
 *
 * Example: two samples of main -> read in thread 7 of process 5.
 *
 *   strings    1 "main"  2 "read"  3 "/bin/app"  4 "native"  5 "app"
 *   mappings   1 {filename 3}
 *   functions  1 {name 1}   2 {name 2}
 *   locations  1 {mapping 1, function 1, kind 4, address 0x10}   2 {mapping 1, function 2, ...}
 *   stacks     1 {locations 2, 1: the leaf comes first}
 *   (with labels, another stack follows, which has the same locations)
 *   processes  1 {tgid 5, name 5}
 *   threads    1 {process 1, tid 7}
 *   samples    0 {thread 1, stack 1, count 2}
 */
#ifndef EXPORTER_MODEL_PROFILE_H
#define EXPORTER_MODEL_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "exporter/model/profile_types.h"

/* Initialises a profile that contains only the "none" entries. Returns 0 or -ENOMEM. */
int profile_init(struct profile *profile, size_t bytes_max);
void profile_fini(struct profile *profile);

/*
 * Interning: these functions find the entry with these contents or create it, and set its id. They
 * return 0; -ENOMEM or -ENOSPC, and the profile is unchanged; or -EINVAL if a reference inside
 * (string, mapping, ...) does not exist, a location has no kind, or an inlined function is not with
 * its caller.
 *
 * Strings of a profile are printable UTF-8 (UTF8_PRINTABLE), of at most 4,096 bytes. Every other
 * byte becomes \xNN (escape_text()), and a longer text is cut. So no output can have a name that
 * drives a terminal, ends a line or changes the direction of a text.
 */
int profile_string(struct profile *profile, const char *text, size_t length, uint32_t *id);
int profile_mapping(struct profile *profile, const struct profile_mapping *mapping, uint32_t *id);
int profile_function(struct profile *profile, const struct profile_function *function,
		     uint32_t *id);
int profile_location(struct profile *profile, const struct profile_location *location,
		     uint32_t *id);
int profile_stack(struct profile *profile, const uint32_t *locations, uint32_t count, uint32_t *id);
int profile_label(struct profile *profile, const char *key, size_t key_length, uint32_t value,
		  uint32_t *id);
/* The labels may be in any order. Of those with one key only the first counts, and those beyond
 * PROFILE_LABELS_MAX do not. */
int profile_label_set(struct profile *profile, const uint32_t *labels, uint32_t count,
		      uint32_t *id);
/* Finds the stack with the frames of `stack` and these labels (0: none). */
int profile_labelled_stack(struct profile *profile, uint32_t stack, uint32_t labels, uint32_t *id);
int profile_process(struct profile *profile, const struct profile_process *process, uint32_t *id);
int profile_thread(struct profile *profile, const struct profile_thread *thread, uint32_t *id);

/* Adds `count` samples of a stack in a thread, on an unknown CPU and at unknown times. Returns the
 * errors of interning, or -EOVERFLOW if sample_count would exceed INT64_MAX. */
int profile_add(struct profile *profile, uint32_t thread, uint32_t stack, uint64_t count);

/* Adds `count` samples like profile_add(), but on this CPU. */
int profile_add_on(struct profile *profile, uint32_t thread, uint32_t stack, uint32_t cpu,
		   uint64_t count);

/* Adds one sample with its CPU and time. Returns the errors of profile_add(). */
int profile_add_at(struct profile *profile, uint32_t thread, uint32_t stack, uint32_t cpu,
		   uint64_t time_ns);

/* Removes all samples but keeps their memory. The other tables stay, because the next interval
 * refers to most of their entries. */
void profile_clear_samples(struct profile *profile);

/* Returns the id of a string, or 0 if the profile does not have it. `text` must be UTF-8 as the
 * profile stores it. */
uint32_t profile_find_string(const struct profile *profile, const char *text);

/* Returns the length of a string in bytes. A NUL follows it. */
size_t profile_string_length(const struct profile *profile, uint32_t string);

/* Writes the name under which a location is printed: that of its function, else "module+0xaddress"
 * with the module's base name, else "0xaddress". */
void profile_location_name(const struct profile *profile, uint32_t location, char *buffer,
			   size_t size);

enum {
	PROFILE_LINE_BYTES = 280 /* " (", a name of at most 255 bytes, ":2147483647)" and a NUL */
};

/* Writes where a location is in the source code, as it follows the name: " (malloc.c:3301)",
 * " (line 3301)" if the file is unknown, or nothing if the line is unknown. */
void profile_location_line(const struct profile *profile, uint32_t location,
			   char buffer[static PROFILE_LINE_BYTES]);

#endif
