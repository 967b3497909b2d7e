/* SPDX-License-Identifier: Apache-2.0 */
/* The spool with files that a power loss has torn, or that someone has damaged or forged. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "tests/unit/exporter/spool_harness.h"

/* Returns the offset of the record with this index in a segment's bytes. */
static size_t record_at(const uint8_t *bytes, unsigned int index)
{
	size_t at = SEGMENT_HEAD_BYTES;
	struct spool_header header;

	for (unsigned int i = 0; i < index; i++) {
		memcpy(&header, bytes + at, sizeof(header));
		cr_assert_eq(header.magic, (uint32_t)SPOOL_RECORD_MAGIC);
		at += spool_record_bytes(&header);
	}
	return at;
}

/* Replaces the files of the spool by one with these bytes, and opens it again with empty memory. */
static void harness_damage(struct harness *harness, const char *path, const uint8_t *bytes, size_t length)
{
	each_file(harness, remove_file);
	path_write(path, bytes, length);
	harness_new_memory(harness);
	harness_reopen(harness);
}

/* Puts ten records, which are only on disk. */
static size_t ten_on_disk(struct harness *harness, size_t length, char path[128], uint8_t *bytes)
{
	harness_start(harness, true);
	put_all(harness, 1, 10, length);
	cr_assert_eq(spool_keep(harness->spool, harness_now(harness)), 0);
	struct segments found = segments_of(harness);
	cr_assert_eq(found.count, 1);
	memcpy(path, found.paths[0], 128);
	harness_new_memory(harness);
	return path_read(path, bytes);
}

Test(spool, a_torn_record_costs_only_itself)
{
	struct harness harness;
	char path[128];
	static uint8_t bytes[FILE_BYTES_MAX];
	size_t length = ten_on_disk(&harness, 300, path, bytes);
	const size_t last = record_at(bytes, 9);

	for (size_t cut = 1; cut <= length - last + 1; cut++) {
		harness_damage(&harness, path, bytes, length - cut);
		bool whole = length - cut == last;
		uint64_t left = length - cut >= last ? 9 : 8;
		expect_all(&harness, 1, left);
		cr_expect_eq(take(&harness), 0);
		cr_expect_eq(harness_stats(&harness).damaged_records, whole ? 0 : 1);
		/* If the header is complete, the number of lost samples is known. */
		uint64_t samples = left == 8 ? 9 : 10;
		bool known = left == 8 || length - cut >= last + sizeof(struct spool_header);
		cr_expect_eq(harness_stats(&harness).damaged_samples, known ? samples : 0);
	}
	harness_end(&harness);
}

/* A power loss may also leave zeros where data was written. */
Test(spool, a_zeroed_tail_costs_only_the_last_record)
{
	struct harness harness;
	char path[128];
	static uint8_t bytes[FILE_BYTES_MAX];
	size_t length = ten_on_disk(&harness, 300, path, bytes);
	const size_t last = record_at(bytes, 9);

	for (size_t from = last - 10; from < length; from += 7) {
		static uint8_t torn[FILE_BYTES_MAX];
		memcpy(torn, bytes, from);
		memset(torn + from, 0, length - from);
		harness_damage(&harness, path, torn, length);
		expect_all(&harness, 1, from < last ? 8 : 9);
		cr_expect_eq(take(&harness), 0);
		cr_expect_geq(harness_stats(&harness).damaged_records, 1);
	}
	harness_end(&harness);
}

/* Takes all records, and returns the set of their ids as bits. */
static uint32_t take_set(struct harness *harness)
{
	uint32_t set = 0;
	uint64_t last = 0;

	for (uint64_t id; (id = take(harness)); last = id) {
		cr_assert_gt(id, last);
		set |= 1u << id;
	}
	return set;
}

/* Returns whether only this record is lost, and is counted. A few bits of a zstd frame have no meaning: then none is lost. */
static bool lost_one(struct harness *harness, unsigned int index)
{
	const uint32_t set = take_set(harness);
	const struct spool_stats f = harness_stats(harness);

	if (set == 0x7fe) {
		cr_expect_eq(f.damaged_records, 0);
		return false;
	}
	cr_assert_eq(set, 0x7fe & ~(2u << index));
	cr_expect_eq(f.damaged_records, 1);
	cr_expect(f.damaged_samples == 0 || f.damaged_samples == index + 1);
	return true;
}

Test(spool, flipped_bits_on_disk_cost_one_record)
{
	struct harness harness;
	char path[128];
	static uint8_t bytes[FILE_BYTES_MAX];
	size_t length = ten_on_disk(&harness, 200, path, bytes);
	unsigned int index = 0, harmless = 0;

	for (size_t at = 0; at < length; at += at < 400 ? 1 : 3) {
		while (index < 9 && at >= record_at(bytes, index + 1))
			index++;
		bytes[at] ^= (uint8_t)(1 << at % 8);
		harness_damage(&harness, path, bytes, length);
		bytes[at] ^= (uint8_t)(1 << at % 8);
		if (!lost_one(&harness, index))
			harmless++;
	}
	cr_expect_leq(harmless, SEGMENT_HEAD_BYTES + 30);
	harness_end(&harness);
}

Test(spool, flipped_bits_in_memory_cost_one_record)
{
	struct harness harness;
	static uint8_t bytes[FILE_BYTES_MAX];
	const uint8_t *segment = bytes + 4096 - SEGMENT_HEAD_BYTES;
	unsigned int index = 0, harmless = 0;

	harness_start(&harness, false);
	put_all(&harness, 1, 10, 200);
	size_t length = file_read(harness.memory_fd, bytes);
	for (size_t at = 4096; at < length; at += at < 4500 ? 1 : 3) {
		while (index < 9 && bytes + at >= segment + record_at(segment, index + 1))
			index++;
		bytes[at] ^= (uint8_t)(1 << at % 8);
		file_write(harness.memory_fd, bytes, length);
		bytes[at] ^= (uint8_t)(1 << at % 8);
		harness_reopen(&harness);
		cr_expect_eq(harness.mark, 10);
		if (!lost_one(&harness, index))
			harmless++;
	}
	cr_expect_leq(harmless, 30);
	/* The state is stored twice, so at worst the last step is lost. */
	for (size_t at = 0; at < 4096; at += at < 400 ? 1 : 97) {
		bytes[at] ^= (uint8_t)(1 << at % 8);
		file_write(harness.memory_fd, bytes, length);
		bytes[at] ^= (uint8_t)(1 << at % 8);
		harness_reopen(&harness);
		uint32_t set = take_set(&harness);
		cr_assert(set == 0x7fe || set == 0x3fe, "byte %zu", at);
	}
	harness_end(&harness);
}

/* A memory with invalid contents is emptied. */
Test(spool, garbage_in_the_memory_is_discarded)
{
	struct harness harness;
	static uint8_t bytes[20000];

	harness_start(&harness, false);
	for (unsigned int round = 0; round < 50; round++) {
		contents(round, sizeof(bytes), bytes);
		file_write(harness.memory_fd, bytes, round * 400 + 1);
		harness_reopen(&harness);
		cr_expect_eq(harness.mark, 0);
		expect_empty(&harness);
		put_all(&harness, 1, 3, 1000);
		harness_reopen(&harness);
		expect_all(&harness, 1, 3);
	}
	harness_end(&harness);
}

/* Writes a state of the memory, as it would be published. */
static void state_forge(const struct harness *harness, uint64_t tail, uint64_t number, uint64_t mark)
{
	struct {
		uint32_t magic, version;
		uint64_t sequence, head, tail, number, mark;
		uint32_t check, reserved;
	} state = {0x4d707342, 1, 1000000, 4096, tail, number, mark, 0, 0};

	state.check = XXH32(&state, 48, 0);
	cr_assert_eq(pwrite(harness->memory_fd, &state, sizeof(state), 0), (ssize_t)sizeof(state));
}

/* A file of the maximum size that contains nothing: its sparse parts are not read. */
Test(spool, sparse_parts_are_skipped_without_reading_them, .timeout = 30)
{
	const uint64_t far = 1ULL << 50;
	char path[128];
	struct harness harness;

	harness_start(&harness, true);
	cr_assert_eq(ftruncate(harness.memory_fd, (off_t)far), 0);
	state_forge(&harness, far, 5, 9);
	snprintf(path, sizeof(path), "%s/0000000000000100.spool", harness.directory);
	path_write(path, (const uint8_t *)"x", 1);
	cr_assert_eq(truncate(path, 1LL << 40), 0);
	harness_reopen(&harness);
	cr_expect_eq(harness.mark, 9);
	cr_expect_eq(harness_stats(&harness).records, 0);
	cr_expect_eq(harness_stats(&harness).damaged_records, 2);
	put_all(&harness, 1, 3, 1000);
	harness_reopen(&harness);
	expect_all(&harness, 1, 3);
	expect_empty(&harness);
	cr_expect_eq(segments_of(&harness).count, 0);
	harness_end(&harness);
}

/* The next record must not complete a record that was cut off. */
Test(spool, a_cut_record_is_not_completed_by_the_next)
{
	static uint8_t bytes[FILE_BYTES_MAX];
	struct spool_record record;
	struct harness harness;

	harness_start(&harness, false);
	put_all(&harness, 1, 3, 300);
	cr_assert_eq(first(&harness, &record), 1);
	size_t length = file_read(harness.memory_fd, bytes);
	for (size_t cut = 1; cut < 250; cut += 3) {
		file_write(harness.memory_fd, bytes, length);
		state_forge(&harness, length - cut, record.number + 2, 3);
		harness_reopen(&harness);
		cr_expect_eq(harness_stats(&harness).damaged_records, 1);
		put_all(&harness, 4, 5, 300);
		harness_reopen(&harness);
		expect_all(&harness, 1, 2);
		expect_all(&harness, 4, 5);
		expect_empty(&harness);
		expect_nothing_lost(&harness);
	}
	harness_end(&harness);
}

/* A record above the limit is treated as forged. It may come from an earlier configuration. */
Test(spool, records_above_a_lowered_limit_are_dropped)
{
	struct harness harness;

	harness_start(&harness, true);
	put_all(&harness, 1, 1, 1000);
	put_all(&harness, 2, 2, 1001);
	cr_assert_eq(spool_keep(harness.spool, harness_now(&harness)), 0);
	put_all(&harness, 3, 3, 1001);
	put_all(&harness, 4, 4, 1000);
	harness.config.record_bytes_max = 1000;
	harness_reopen(&harness);
	cr_expect_eq(take(&harness), 1);
	cr_expect_eq(take(&harness), 4);
	cr_expect_eq(harness_stats(&harness).damaged_records, 2);
	expect_empty(&harness);
	harness_end(&harness);
}

/* Writes a forged header with a valid checksum. */
static void forge(uint8_t *bytes, size_t at, const struct spool_header *header)
{
	struct spool_header sealed = *header;

	spool_record_seal(&sealed, at);
	memcpy(bytes + at, &sealed, sizeof(sealed));
}

Test(spool, forged_lengths_are_refused)
{
	static const struct {
		uint32_t raw, z; /* 0: as it is */
		uint32_t expected;
	} cases[] = {
	    {1, 0, 0x7de},
	    {299, 0, 0x7de},
	    {301, 0, 0x7de},
	    {RECORD_BYTES_MAX, 0, 0x7de},
	    {RECORD_BYTES_MAX + 1, 0, 0x7de},
	    {UINT32_MAX, 0, 0x7de},
	    {UINT32_MAX, UINT32_MAX, 0x7de},
	    {0, 1, 0x7de},
	    {0, 8, 0x7de},
	    {0, UINT32_MAX, 0x7de},
	    {RECORD_BYTES_MAX, RECORD_BYTES_MAX, 0x7de}, /* past the end */
	};
	static uint8_t bytes[FILE_BYTES_MAX], forged[FILE_BYTES_MAX];
	struct harness harness;
	char path[128];
	size_t length = ten_on_disk(&harness, 300, path, bytes);
	const size_t at = record_at(bytes, 4);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct spool_header header;
		memcpy(forged, bytes, length);
		memcpy(&header, bytes + at, sizeof(header));
		header.raw_bytes = cases[i].raw ? cases[i].raw : header.raw_bytes;
		header.z_bytes = cases[i].z ? cases[i].z : header.z_bytes;
		forge(forged, at, &header);
		harness_damage(&harness, path, forged, length);
		cr_expect_eq(take_set(&harness), cases[i].expected, "case %zu", i);
		cr_expect_geq(harness_stats(&harness).damaged_records, 1);
	}
	harness_end(&harness);
}

/* For any number in a record, at most its own segment is damaged, and later records are delivered. */
Test(spool, forged_numbers_cost_at_most_their_segment)
{
	static uint8_t bytes[FILE_BYTES_MAX], forged[FILE_BYTES_MAX];
	struct harness harness;
	char path[128], name[160];
	struct spool_header header;
	size_t length = ten_on_disk(&harness, 300, path, bytes);
	const size_t at = record_at(bytes, 4);

	memcpy(&header, bytes + at, sizeof(header));
	const uint64_t own = header.number;
	const uint64_t numbers[] = {0, 1, own - 1, own + 1, own + 1000000, 1ULL << 51, UINT64_MAX};
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		memcpy(forged, bytes, length);
		header.number = numbers[i];
		forge(forged, at, &header);
		harness_damage(&harness, path, forged, length);
		put_all(&harness, 11, 12, 100);
		cr_assert_eq(spool_keep(harness.spool, harness_now(&harness)), 0);
		put_all(&harness, 13, 13, 100);
		harness_reopen(&harness);
		/* The next number is valid. The record then replaces the one that has this number. */
		uint32_t expected = numbers[i] == own + 1 ? 0x3fbe : 0x3fde;
		cr_expect_eq(take_set(&harness), expected, "case %zu", i);
	}
	/* A whole segment with a name from far ahead. */
	const uint64_t names[] = {1, 1ULL << 51, 1ULL << 52, 1ULL << 62, UINT64_MAX};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(name, sizeof(name), "%s/%016llx.spool", harness.directory,
			 (unsigned long long)names[i]);
		memcpy(forged, bytes, length);
		for (unsigned int k = 0; k < 10; k++) {
			memcpy(&header, bytes + record_at(bytes, k), sizeof(header));
			header.number = names[i] + k;
			forge(forged, record_at(bytes, k), &header);
		}
		path_write(name, forged, length);
		harness_new_memory(&harness);
		harness_reopen(&harness);
		put_all(&harness, 11, 12, 100);
		cr_assert_eq(spool_keep(harness.spool, harness_now(&harness)), 0);
		put_all(&harness, 13, 14, 100);
		harness.now += second;
		harness_reopen(&harness);
		cr_expect_eq(take_set(&harness), names[i] < 1ULL << 62 ? 0x7ffe : 0x7800, "name %zu",
			     i);
		unlink(name);
	}
	harness_end(&harness);
}

/* A record in memory claims a number that a segment has in its name. */
Test(spool, a_number_that_is_on_disk_costs_one_record)
{
	static uint8_t memory[FILE_BYTES_MAX], segment[FILE_BYTES_MAX];
	struct spool_header header;
	struct harness harness;
	char path[160];

	harness_start(&harness, true);
	put_all(&harness, 1, 3, 100);
	const size_t memory_length = file_read(harness.memory_fd, memory);
	cr_assert_eq(spool_keep(harness.spool, harness_now(&harness)), 0);
	struct segments found = segments_of(&harness);
	const size_t length = path_read(found.paths[0], segment);
	each_file(&harness, remove_file);

	/* On disk there is only the third record, and in memory the second one is damaged, so that these are not one segment. */
	memcpy(&header, segment + record_at(segment, 2), sizeof(header));
	snprintf(path, sizeof(path), "%s/%016llx.spool", harness.directory, (unsigned long long)header.number);
	path_write(path, segment, length);
	memory[4096 + record_at(segment, 1) - SEGMENT_HEAD_BYTES] ^= 1;
	file_write(harness.memory_fd, memory, memory_length);
	harness_reopen(&harness);
	cr_expect_eq(spool_keep(harness.spool, harness_now(&harness)), 0);
	const struct spool_stats stats = harness_stats(&harness);
	cr_expect_eq(stats.disk_error, 0);
	cr_expect_eq(stats.records, 2);
	cr_expect_geq(stats.damaged_records, 1);
	/* They leave in the order of their numbers then. */
	harness_reopen(&harness);
	cr_expect_eq(take_set(&harness), 1u << 1 | 1u << 3);
	harness_end(&harness);
}

/* Makes a cursor file with a valid checksum. Its format is private to spool_disk.c. */
static void cursor_forge(const struct harness *harness, uint64_t segment, uint64_t done)
{
	struct {
		uint32_t magic, version;
		uint64_t segment, done;
		uint32_t check, reserved;
	} cursor = {0x43707342, 1, segment, done, 0, 0};
	char path[128];

	cursor.check = XXH32(&cursor, 24, 0);
	snprintf(path, sizeof(path), "%s/cursor", harness->directory);
	path_write(path, (const uint8_t *)&cursor, sizeof(cursor));
}

Test(spool, a_lost_or_forged_cursor_loses_no_record)
{
	static uint8_t bytes[FILE_BYTES_MAX];
	struct harness harness;
	char path[128], cursor[128];
	struct spool_header header;
	size_t length = ten_on_disk(&harness, 300, path, bytes);

	snprintf(cursor, sizeof(cursor), "%s/cursor", harness.directory);
	memcpy(&header, bytes + SEGMENT_HEAD_BYTES, sizeof(header));
	const uint64_t own = header.number;
	harness_reopen(&harness);
	expect_all(&harness, 1, 4);
	harness_reopen(&harness);
	cr_expect_eq(first(&harness, &(struct spool_record){0}), 5);
	cr_assert_eq(unlink(cursor), 0);
	harness_reopen(&harness);
	cr_expect_eq(first(&harness, &(struct spool_record){0}), 1, "all of the segment comes again");

	const struct {
		uint64_t segment, done;
		uint32_t expected;
	} cases[] = {
	    {own, own + 3, 0x7e0},    {own, own - 1, 0x7fe},	  {own, 0, 0x7fe},
	    {own, UINT64_MAX, 0x7fe}, {own, own + 100000, 0x7fe}, {own, 1ULL << 51, 0x7fe},
	    {0, UINT64_MAX, 0x7fe},   {0, 1ULL << 51, 0x7fe},	  {own + 1, own + 5, 0x7fe},
	    {UINT64_MAX, own, 0x7fe},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		path_write(path, bytes, length);
		cursor_forge(&harness, cases[i].segment, cases[i].done);
		harness_new_memory(&harness);
		harness_reopen(&harness);
		put_all(&harness, 11, 12, 100);
		cr_assert_eq(spool_keep(harness.spool, harness_now(&harness)), 0);
		harness.now += second;
		harness_reopen(&harness);
		cr_expect_eq(take_set(&harness), cases[i].expected | 0x1800, "case %zu", i);
	}
	harness_end(&harness);
}

/* Files that are not the spool's are neither read nor deleted. */
Test(spool, other_files_in_the_directory_are_left_alone)
{
	static const char *const files[] = {"README",
					    "00000000000000ff.spool.bak",
					    "00000000000000FF.spool",
					    "0000000000000000.spool",
					    "00000000000000ff",
					    "ff.spool"};
	struct harness harness;
	char path[128], target[128];

	harness_start(&harness, true);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", harness.directory, files[i]);
		path_write(path, (const uint8_t *)"x", 1);
	}
	snprintf(path, sizeof(path), "%s/00000000000000a1.spool", harness.directory);
	cr_assert_eq(mkdir(path, 0700), 0);
	snprintf(target, sizeof(target), "%s/README", harness.directory);
	snprintf(path, sizeof(path), "%s/00000000000000a2.spool", harness.directory);
	cr_assert_eq(symlink(target, path), 0);
	snprintf(path, sizeof(path), "%s/00000000000000a3.spool", harness.directory);
	cr_assert_eq(mkfifo(path, 0600), 0);

	harness_reopen(&harness);
	put_all(&harness, 1, 2, 1000);
	cr_assert_eq(spool_keep(harness.spool, harness_now(&harness)), 0);
	harness_reopen(&harness);
	expect_all(&harness, 1, 2);
	expect_empty(&harness);
	expect_nothing_lost(&harness);
	cr_expect_eq(segments_of(&harness).count, 5, "two files and three others");
	cr_expect_eq(access(target, F_OK), 0);
	harness_end(&harness);
}

Test(spool, a_deleted_segment_costs_only_itself)
{
	struct harness harness;

	harness_start(&harness, true);
	put_all(&harness, 1, 5, 1000);
	cr_assert_eq(spool_keep(harness.spool, harness_now(&harness)), 0);
	put_all(&harness, 6, 6, 1000);
	cr_assert_eq(unlink(segments_of(&harness).paths[0]), 0);
	cr_expect_eq(take(&harness), 6);
	cr_expect_eq(harness_stats(&harness).damaged_records, 5);
	cr_expect_eq(harness_stats(&harness).damaged_samples, 15);
	put_all(&harness, 7, 7, 1000);
	cr_assert_eq(spool_keep(harness.spool, harness_now(&harness)), 0);
	/* Or is cut while it grows. */
	cr_assert_eq(truncate(segments_of(&harness).paths[0], 20), 0);
	put_all(&harness, 8, 8, 1000);
	cr_assert_eq(spool_keep(harness.spool, harness_now(&harness)), 0);
	cr_expect_eq(take(&harness), 8);
	expect_empty(&harness);
	harness_end(&harness);
}
