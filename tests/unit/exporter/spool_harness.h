/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the tests of the spool: the environment of a spool in an agent, and records whose contents identify them. */
#ifndef TESTS_SPOOL_HARNESS_H
#define TESTS_SPOOL_HARNESS_H

#include "exporter/delivery/spool.h"
#include "exporter/delivery/spool_record.h"

enum {
	RECORD_BYTES_MAX = 1 << 20,
	SEGMENT_HEAD_BYTES = 16,
	FILE_BYTES_MAX = 1 << 22
};

static const uint64_t second = 1000000000;
static const uint64_t start_ns = 1800000000ULL * 1000000000ULL;

/* The memory and the directory of an agent, and the spool of its current exporter. */
struct harness {
	int memory_fd;
	char directory[64];
	struct spool_config config;
	struct spool *spool;
	uint64_t clock_ns; /* of the spool */
	/* The real time if nobody set the clock, and by how much it is set forward since. */
	uint64_t now, set_by_ns;
	uint64_t mark;
};

/* Starts with 4 MiB of memory, 64 MiB of disk (or none), an age of one day, and compression level 1. */
void harness_start(struct harness *harness, bool disk);
void harness_open(struct harness *harness);
struct spool_now harness_now(const struct harness *harness);
/* Opens the spool again. Closing a spool writes nothing, so this is the same as a kill. */
void harness_reopen(struct harness *harness);
void harness_new_memory(struct harness *harness);
void harness_end(struct harness *harness);

/* Writes contents that contain the id, are not empty and do not compress well. */
size_t contents(uint64_t id, size_t length, uint8_t *data);
/* Returns the id, or 0 if the contents are not what was put. */
uint64_t contents_id(const uint8_t *data, size_t length);

/* Puts a record of `id` samples with mark `id`. */
int put(struct harness *harness, uint64_t id, size_t length, bool ends_group);
void put_all(struct harness *harness, uint64_t from, uint64_t to, size_t length);
/* Returns the id of the oldest record; 0 if there is none. */
uint64_t first(struct harness *harness, struct spool_record *record);
/* Returns the same, and marks the record as done. */
uint64_t take(struct harness *harness);

struct spool_stats harness_stats(const struct harness *harness);
void expect_all(struct harness *harness, uint64_t from, uint64_t to);
void expect_empty(struct harness *harness);
void expect_nothing_lost(struct harness *harness);

void each_file(const struct harness *harness, void (*visit)(int directory_fd, const char *name));
void remove_file(int directory_fd, const char *name);
size_t file_read(int fd, uint8_t *bytes);
void file_write(int fd, const uint8_t *bytes, size_t length);
size_t path_read(const char *path, uint8_t *bytes);
void path_write(const char *path, const uint8_t *bytes, size_t length);

/* The segments, sorted, as paths. */
struct segments {
	size_t count;
	char paths[64][128];
};

struct segments segments_of(const struct harness *harness);

#endif
