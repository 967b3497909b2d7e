/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/exporter/spool_harness.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct spool_now harness_now(const struct harness *harness)
{
	return (struct spool_now){.unix_ns = harness->now + harness->set_by_ns,
				  .boot_ns = harness->now - start_ns + 3600 * second};
}

void harness_open(struct harness *harness)
{
	struct spool_config config = harness->config;

	config.memory_fd = dup(harness->memory_fd);
	config.clock_ns = &harness->clock_ns;
	config.directory_fd =
	    harness->directory[0] ? open(harness->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	cr_assert_eq(spool_open(&config, harness_now(harness), &harness->spool, &harness->mark), 0);
}

void harness_reopen(struct harness *harness)
{
	spool_close(harness->spool);
	harness_open(harness);
}

void harness_new_memory(struct harness *harness)
{
	close(harness->memory_fd);
	harness->memory_fd = memfd_create("spool", MFD_CLOEXEC);
	cr_assert_geq(harness->memory_fd, 0);
	harness->clock_ns = 0;
}

void harness_start(struct harness *harness, bool disk)
{
	*harness = (struct harness){.memory_fd = memfd_create("spool", MFD_CLOEXEC),
			    .config = {.memory_bytes_max = 4 << 20,
				       .disk_bytes_max = 64 << 20,
				       .age_max_ns = 86400 * second,
				       .record_bytes_max = RECORD_BYTES_MAX,
				       .compression_level = 1},
			    .now = start_ns};
	cr_assert_geq(harness->memory_fd, 0);
	if (disk) {
		snprintf(harness->directory, sizeof(harness->directory), "/tmp/test-spool-XXXXXX");
		cr_assert(mkdtemp(harness->directory));
	}
	harness_open(harness);
}

void each_file(const struct harness *harness, void (*visit)(int directory_fd, const char *name))
{
	DIR *dir = opendir(harness->directory);
	struct dirent *entry;

	cr_assert(dir);
	while ((entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			visit(dirfd(dir), entry->d_name);
	closedir(dir);
}

void remove_file(int directory_fd, const char *name)
{
	if (unlinkat(directory_fd, name, 0))
		unlinkat(directory_fd, name, AT_REMOVEDIR);
}

void harness_end(struct harness *harness)
{
	spool_close(harness->spool);
	close(harness->memory_fd);
	if (harness->directory[0]) {
		each_file(harness, remove_file);
		rmdir(harness->directory);
	}
}

struct spool_stats harness_stats(const struct harness *harness)
{
	struct spool_stats f;

	spool_stats(harness->spool, &f);
	return f;
}

size_t contents(uint64_t id, size_t length, uint8_t *data)
{
	uint64_t state = id * 0x9e3779b97f4a7c15 + 1;

	for (size_t i = 0; i < length; i++) {
		state = state * 6364136223846793005 + 1442695040888963407;
		data[i] = (uint8_t)(state >> 58);
	}
	memcpy(data, &id, sizeof(id));
	return length;
}

uint64_t contents_id(const uint8_t *data, size_t length)
{
	static uint8_t expected[RECORD_BYTES_MAX];
	uint64_t id;

	if (length < sizeof(id))
		return 0;
	memcpy(&id, data, sizeof(id));
	contents(id, length, expected);
	return memcmp(data, expected, length) ? 0 : id;
}

int put(struct harness *harness, uint64_t id, size_t length, bool ends_group)
{
	static uint8_t data[RECORD_BYTES_MAX + 1];

	return spool_put(harness->spool, data, contents(id, length, data), id, id, ends_group,
			 harness_now(harness));
}

uint64_t first(struct harness *harness, struct spool_record *record)
{
	uint8_t *data = NULL;
	int r = spool_first(harness->spool, harness_now(harness), record, &data);

	if (r != 1) {
		cr_assert_eq(r, 0);
		return 0;
	}
	uint64_t id = contents_id(data, record->bytes);
	cr_assert(id, "something else came out");
	cr_assert_eq(record->samples, id);
	free(data);
	return id;
}

uint64_t take(struct harness *harness)
{
	struct spool_record record;
	uint64_t id = first(harness, &record);

	if (id)
		spool_done(harness->spool, record.number);
	return id;
}

void put_all(struct harness *harness, uint64_t from, uint64_t to, size_t length)
{
	for (uint64_t id = from; id <= to; id++)
		cr_assert_eq(put(harness, id, length, true), 0);
}

void expect_all(struct harness *harness, uint64_t from, uint64_t to)
{
	for (uint64_t id = from; id <= to; id++)
		cr_expect_eq(take(harness), id);
}

void expect_empty(struct harness *harness)
{
	cr_expect_eq(take(harness), 0);
	struct spool_stats f = harness_stats(harness);
	cr_expect_eq(f.records, 0);
	cr_expect_eq(f.samples, 0);
	cr_expect_eq(f.memory_bytes, 0);
	cr_expect_eq(f.disk_bytes, 0);
	cr_expect_eq(f.oldest_unix_ns, 0);
}

void expect_nothing_lost(struct harness *harness)
{
	struct spool_stats f = harness_stats(harness);

	cr_expect_eq(f.damaged_records, 0);
	cr_expect_eq(f.damaged_samples, 0);
	cr_expect_eq(f.dropped_age_samples, 0);
	cr_expect_eq(f.dropped_full_samples, 0);
	cr_expect_eq(f.disk_error, 0);
}

static int compare_paths(const void *a, const void *b)
{
	return strcmp(a, b);
}

struct segments segments_of(const struct harness *harness)
{
	struct segments found = {0};
	DIR *dir = opendir(harness->directory);
	struct dirent *entry;

	cr_assert(dir);
	while ((entry = readdir(dir)) && found.count < 64)
		if (strlen(entry->d_name) == 22 && !strcmp(entry->d_name + 16, ".spool"))
			snprintf(found.paths[found.count++], 128, "%s/%.22s", harness->directory,
				 entry->d_name);
	closedir(dir);
	qsort(found.paths, found.count, sizeof(found.paths[0]), compare_paths);
	return found;
}

size_t file_read(int fd, uint8_t *bytes)
{
	ssize_t length = pread(fd, bytes, FILE_BYTES_MAX, 0);

	cr_assert_gt(length, 0);
	return (size_t)length;
}

void file_write(int fd, const uint8_t *bytes, size_t length)
{
	cr_assert_eq(ftruncate(fd, 0), 0);
	cr_assert_eq(pwrite(fd, bytes, length, 0), (ssize_t)length);
}

size_t path_read(const char *path, uint8_t *bytes)
{
	int fd = open(path, O_RDONLY);

	cr_assert_geq(fd, 0);
	size_t length = file_read(fd, bytes);
	close(fd);
	return length;
}

void path_write(const char *path, const uint8_t *bytes, size_t length)
{
	int fd = open(path, O_WRONLY | O_CREAT, 0600);

	cr_assert_geq(fd, 0);
	file_write(fd, bytes, length);
	close(fd);
}
