/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes a spool that is opened on damaged or forged files: a memfd, two segments and a cursor.
 * They are built from the pieces of the input. A piece has a kind and a file, a length in two
 * bytes, and its bytes. It is garbage, a record with these contents, or a forged header, state or
 * cursor with a valid checksum. For any input, records that are put later are delivered. If nothing
 * was forged, the valid records among the garbage are delivered, too.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include "common/cursor.h"
#include "exporter/delivery/spool.h"
#include "exporter/delivery/spool_record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	FILES = 4,
	FILE_MEMORY = 0,
	FILE_CURSOR = 3,
	KIND_GARBAGE = 0,
	KIND_RECORD = 1,
	KIND_FORGED = 2,
	MEMORY_START = 4096,
	SEGMENT_START = 16,
	RECORD_BYTES_MAX = 1 << 16,
	LATER = 3
};

static const uint64_t now_ns = 1800000000ULL * 1000000000ULL;

static struct spool_now now_of(uint64_t unix_ns)
{
	return (struct spool_now){.unix_ns = unix_ns, .boot_ns = unix_ns / 2};
}

/* A memory state or a cursor: `words` 64-bit words, then the checksum. */
struct sealed {
	uint32_t magic, version;
	uint64_t words[5];
};

struct file {
	int fd;
	uint64_t size, number;
};

struct world {
	struct file files[FILES];
	bool forged;
	uint64_t count[FILES]; /* valid records */
	uint64_t token;	       /* identifies the records that are put later: a count of samples that the input cannot contain */
};

static void file_append(struct file *file, const void *bytes, size_t length)
{
	if (pwrite(file->fd, bytes, length, (off_t)file->size) != (ssize_t)length)
		abort();
	file->size += length;
}

static void piece_record(struct world *w, unsigned int target, const uint8_t *bytes, size_t length)
{
	struct file *file = &w->files[target];
	struct spool_header header = {
	    .number = file->number++, .time_unix_ns = now_ns, .samples = 1};
	uint8_t *record;

	if (spool_record_pack(bytes, length, 1, &header, &record))
		abort();
	spool_record_seal(&header, file->size);
	memcpy(record, &header, sizeof(header));
	file_append(file, record, spool_record_bytes(&header));
	free(record);
}

static void piece_header(struct file *file, const uint8_t *bytes, size_t length)
{
	struct spool_header header = {0};
	const size_t own = length < sizeof(header) ? length : sizeof(header);

	memcpy(&header, bytes, own);
	header.number += file->number;
	spool_record_seal(&header, file->size);
	file_append(file, &header, sizeof(header));
	file_append(file, bytes + own, length - own);
}

/* Writes a memory state into the slot that the first byte selects, or a cursor. */
static void piece_sealed(struct file *file, unsigned int target, const uint8_t *bytes,
			 size_t length)
{
	const size_t words = target == FILE_MEMORY ? 5 : 2;
	struct sealed sealed = {target == FILE_MEMORY ? 0x4d707342 : 0x43707342, 1, {0}};
	uint32_t tail[2] = {0};
	uint8_t image[56];

	if (!length)
		return;
	memcpy(sealed.words, bytes + 1, length - 1 < 8 * words ? length - 1 : 8 * words);
	memcpy(image, &sealed, 8 + 8 * words);
	tail[0] = XXH32(image, 8 + 8 * words, 0);
	memcpy(image + 8 + 8 * words, tail, sizeof(tail));
	off_t at = target == FILE_MEMORY && bytes[0] & 1 ? 256 : 0;
	if (pwrite(file->fd, image, 16 + 8 * words, at) < 0)
		abort();
}

static bool has_magic(const uint8_t *bytes, size_t length)
{
	const uint32_t magic = SPOOL_RECORD_MAGIC;

	return memmem(bytes, length, &magic, sizeof(magic));
}

static void world_fill(struct world *w, struct cursor *input)
{
	while (cursor_left(input) >= 3) {
		const uint8_t op = cursor_u8(input);
		const unsigned int target = op & 3, kind = op >> 2 & 3;
		size_t length = cursor_u16(input);
		if (length > cursor_left(input))
			length = cursor_left(input);
		const uint8_t *bytes = cursor_take(input, length);
		struct file *file = &w->files[target];
		if (kind == KIND_RECORD && target != FILE_CURSOR) {
			piece_record(w, target, bytes, length);
			w->count[target]++;
		} else if (kind == KIND_FORGED && target != FILE_CURSOR && target != FILE_MEMORY) {
			piece_header(file, bytes, length);
			w->forged = true;
		} else if (kind == KIND_FORGED || (kind > KIND_FORGED && target == FILE_MEMORY)) {
			if (kind == KIND_FORGED)
				piece_sealed(file, target, bytes, length);
			else
				piece_header(file, bytes, length);
			w->forged = true;
		} else {
			file_append(file, bytes, length);
			w->forged = w->forged || target == FILE_CURSOR || has_magic(bytes, length);
		}
	}
}

static int file_create(int directory, const char *name)
{
	int fd = openat(directory, name, O_RDWR | O_CREAT | O_EXCL, 0600);

	if (fd < 0)
		abort();
	return fd;
}

static struct spool *spool_start(int memory, int directory, uint64_t *clock_ns, uint64_t now)
{
	const struct spool_config config = {.memory_fd = fcntl(memory, F_DUPFD_CLOEXEC, 0),
					    .clock_ns = clock_ns,
					    .directory_fd = fcntl(directory, F_DUPFD_CLOEXEC, 0),
					    .memory_bytes_max = 1 << 20,
					    .disk_bytes_max = 16 << 20,
					    .age_max_ns = UINT64_MAX,
					    .record_bytes_max = RECORD_BYTES_MAX,
					    .compression_level = 1};
	struct spool *spool;
	uint64_t mark;

	if (spool_open(&config, now_of(now), &spool, &mark))
		abort();
	return spool;
}

/* Takes all records, and counts the valid ones of the segments and the later ones. */
static void drain(struct spool *spool, uint64_t now, uint64_t token, uint64_t *good,
		  unsigned int *later)
{
	struct spool_record record;
	uint8_t *data;
	int r;

	while ((r = spool_first(spool, now_of(now), &record, &data)) == 1) {
		if (record.bytes > RECORD_BYTES_MAX)
			abort();
		if (record.bytes == 1 && data[0] == *later && record.samples == token)
			++*later;
		else
			++*good;
		free(data);
		spool_done(spool, record.number);
	}
	if (r)
		abort();
}

static void check(const struct world *w, int directory)
{
	struct spool_stats f;
	uint64_t good = 0, clock_ns = 0;
	unsigned int later = 0;
	int memory = w->files[FILE_MEMORY].fd;
	struct spool *spool = spool_start(memory, directory, &clock_ns, now_ns);

	for (uint8_t i = 0; i < LATER; i++) {
		if (spool_put(spool, &i, 1, w->token, i, true, now_of(now_ns)))
			abort();
		if (i == 1 && spool_keep(spool, now_of(now_ns)))
			abort();
	}
	spool_stats(spool, &f);
	if (f.dropped_full_samples || f.dropped_age_samples || f.disk_error)
		abort();
	spool_close(spool);
	spool = spool_start(memory, directory, &clock_ns, now_ns + 1000000000);
	drain(spool, now_ns + 1000000000, w->token, &good, &later);
	spool_stats(spool, &f);
	if (later != LATER || f.records || f.samples || f.memory_bytes || f.disk_bytes)
		abort();
	if (!w->forged && good < w->count[1] + w->count[2])
		abort();
	spool_close(spool);
}

static void world_start(struct world *w, int directory, uint64_t second_name)
{
	char name[32];

	w->files[FILE_MEMORY].fd = memfd_create("fuzz", MFD_CLOEXEC);
	w->files[FILE_MEMORY].size = MEMORY_START;
	w->files[FILE_MEMORY].number = 1;
	for (unsigned int i = 1; i <= 2; i++) {
		const uint64_t number = i == 1 ? 256 : second_name;
		snprintf(name, sizeof(name), "%016llx.spool", (unsigned long long)number);
		w->files[i] = (struct file){
		    .fd = file_create(directory, name), .size = SEGMENT_START, .number = number};
	}
	w->files[FILE_CURSOR].fd = file_create(directory, "cursor");
	/* Segment names with numbers too far ahead are ignored, and near ones share the numbers of the first. */
	w->forged = second_name <= 256 + 65536 || second_name > 1ULL << 50;
}

static void remove_all(int directory, uint64_t second_name)
{
	char name[32];

	unlinkat(directory, "cursor", 0);
	unlinkat(directory, "0000000000000100.spool", 0);
	snprintf(name, sizeof(name), "%016llx.spool", (unsigned long long)second_name);
	unlinkat(directory, name, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cursor input = cursor_init(data, size);
	char path[] = "/dev/shm/fuzz-spool-XXXXXX";
	struct world *w = calloc(1, sizeof(*w));
	uint64_t second_name = cursor_u64(&input);

	if (!w || !mkdtemp(path))
		abort();
	if (second_name == 256)
		second_name++;
	w->token = XXH64(data, size, 0);
	int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	world_start(w, directory, second_name);
	if (!input.failed)
		world_fill(w, &input);
	check(w, directory);
	for (unsigned int i = 0; i < FILES; i++)
		close(w->files[i].fd);
	remove_all(directory, second_name);
	close(directory);
	if (rmdir(path) && errno != ENOTEMPTY)
		abort();
	free(w);
	return 0;
}
