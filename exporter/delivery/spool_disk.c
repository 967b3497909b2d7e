/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/delivery/spool_disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#include "common/array.h"
#include "common/cleanup.h"

/* The head of a segment, which distinguishes later formats from this one. Reading the records does
 * not need it. */
struct segment_head {
	uint32_t magic, version;
	uint32_t check; /* XXH32 of the bytes before it */
	uint32_t reserved;
};
_Static_assert(sizeof(struct segment_head) == 16, "a format");

struct cursor_file {
	uint32_t magic, version;
	uint64_t segment; /* number of the segment's first record; 0: there was none */
	uint64_t done;
	uint32_t check; /* XXH32 of the bytes before it */
	uint32_t reserved;
};
_Static_assert(sizeof(struct cursor_file) == 32, "a format");

enum {
	SEGMENT_MAGIC = 0x53707342, /* "BspS" */
	CURSOR_MAGIC = 0x43707342,  /* "BspC" */
	DISK_VERSION = 1,
	SEGMENT_BYTES_MIN = 1 << 20,
	SEGMENT_BYTES_MAX = 16 << 20,
	/* Bounds the memory: each segment takes 72 bytes of it, so this many take 1.1 MiB. More
	 * than that are left in the directory for the next start. */
	SEGMENTS_MAX = 16384,
	NAME_DIGITS = 16,
	NAME_BYTES = 32,
	COPY_BYTES = 65536,
	OPEN_FLAGS = O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY
};

static const char name_suffix[] = ".spool";
static const char cursor_name[] = "cursor";

static uint32_t head_check(const struct segment_head *head)
{
	return XXH32(head, offsetof(struct segment_head, check), 0);
}

static uint32_t cursor_check(const struct cursor_file *file)
{
	return XXH32(file, offsetof(struct cursor_file, check), 0);
}

static void segment_name(uint64_t first, char name[NAME_BYTES])
{
	snprintf(name, NAME_BYTES, "%016llx%s", (unsigned long long)first, name_suffix);
}

/* Returns the number in a segment's name, or 0 if the name is not that of a segment. */
static uint64_t segment_number(const char *name)
{
	uint64_t number = 0;

	for (int i = 0; i < NAME_DIGITS; i++) {
		char c = name[i];
		if (c >= '0' && c <= '9')
			number = number << 4 | (uint64_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			number = number << 4 | (uint64_t)(c - 'a' + 10);
		else
			return 0;
	}
	return strcmp(name + NAME_DIGITS, name_suffix) ? 0 : number;
}

/* Opens a regular file of the directory. Returns its descriptor or a negative errno. */
static int file_open(int directory_fd, const char *name, int flags, uint64_t *size)
{
	struct stat st;
	_cleanup_close_ int fd = openat(directory_fd, name, flags | OPEN_FLAGS, 0600);

	if (fd < 0 || fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -ENOTSUP;
	*size = (uint64_t)st.st_size;
	return TAKE_FD(fd);
}

static int segment_open(const struct spool_disk *disk, uint64_t first, int flags, uint64_t *size)
{
	char name[NAME_BYTES];

	segment_name(first, name);
	return file_open(disk->fd, name, flags, size);
}

static void segment_unlink(struct spool_disk *disk, uint64_t first)
{
	char name[NAME_BYTES];

	segment_name(first, name);
	if (unlinkat(disk->fd, name, 0) && errno != ENOENT)
		disk->error = errno;
}

static void cursor_write(struct spool_disk *disk, uint64_t segment, uint64_t done)
{
	struct cursor_file file = {
	    .magic = CURSOR_MAGIC, .version = DISK_VERSION, .segment = segment, .done = done};
	uint64_t size;

	file.check = cursor_check(&file);
	_cleanup_close_ int fd = file_open(disk->fd, cursor_name, O_WRONLY | O_CREAT, &size);
	int r = fd < 0 ? fd : spool_write(fd, &file, sizeof(file), 0);
	if (r)
		disk->error = -r;
}

/* Reads the cursor file. `cursor` is unchanged if the file does not exist or is not valid. */
static void cursor_read(struct spool_disk *disk, struct cursor_file *cursor)
{
	struct cursor_file file;
	uint64_t size;
	_cleanup_close_ int fd = file_open(disk->fd, cursor_name, O_RDONLY, &size);

	if (fd >= 0 && spool_read(fd, &file, sizeof(file), 0) == sizeof(file) &&
	    file.magic == CURSOR_MAGIC && file.version == DISK_VERSION &&
	    file.check == cursor_check(&file) && file.done <= disk->number_max)
		*cursor = file;
}

/* Appends a zeroed segment to the list. Returns NULL if there is no memory. */
static struct spool_segment *segment_add(struct spool_disk *disk)
{
	if (ARRAY_RESERVE(disk->segments, disk->capacity, disk->count + 1, 16, ARRAY_UNLIMITED) < 0)
		return NULL;
	struct spool_segment *segment = &disk->segments[disk->count++];
	*segment = (struct spool_segment){0};
	return segment;
}

void spool_disk_drop(struct spool_disk *disk, uint64_t *samples)
{
	const struct spool_segment *oldest = &disk->segments[0];

	*samples += oldest->samples;
	disk->bytes -= oldest->size;
	segment_unlink(disk, oldest->first);
	disk->count--;
	memmove(disk->segments, disk->segments + 1, disk->count * sizeof(*disk->segments));
}

/* Returns a scan over the records of a segment that are not done. */
static struct spool_scan segment_scan(const struct spool_disk *disk,
				      const struct spool_segment *segment, int fd)
{
	return (struct spool_scan){.fd = fd,
				   .offset = segment->read,
				   .end = segment->size,
				   .number = segment->done,
				   .number_max = segment->last,
				   .record_bytes_max = disk->record_bytes_max};
}

/* Sets the range of numbers that a segment's records may have. It follows from the segment's name
 * and size. */
static void segment_bounds(const struct spool_disk *disk, struct spool_segment *segment,
			   uint64_t size)
{
	const uint64_t most = sizeof(struct segment_head) + SEGMENT_BYTES_MAX +
			      sizeof(struct spool_header) +
			      ZSTD_compressBound(disk->record_bytes_max);

	segment->size = size < most ? size : most;
	segment->read = sizeof(struct segment_head);
	segment->done = segment->first - 1;
	segment->last = segment->first + segment->size / SPOOL_RECORD_BYTES_MIN;
}

/* Counts the records that wait in a segment. Returns 0, or a negative errno if the file must be
 * left alone. */
static int segment_count(struct spool_disk *disk, struct spool_segment *segment,
			 const struct cursor_file *cursor, struct spool_range in_memory,
			 struct spool_losses *losses)
{
	struct segment_head head;
	uint64_t size, sound = sizeof(head);
	int r;
	_cleanup_close_ int fd = segment_open(disk, segment->first, O_RDWR, &size);

	if (fd < 0)
		return fd;
	if (spool_read(fd, &head, sizeof(head), 0) == sizeof(head) && head.magic == SEGMENT_MAGIC &&
	    head.version > DISK_VERSION && head.check == head_check(&head))
		return -ENOTSUP;
	segment_bounds(disk, segment, size);
	struct spool_scan scan = segment_scan(disk, segment, fd);
	if (cursor->segment == segment->first && cursor->done <= segment->last &&
	    cursor->done >= segment->first)
		segment->done = cursor->done;
	segment->last = segment->first - 1;
	while ((r = spool_scan_next(&scan)) == 1) {
		segment->last = scan.number;
		sound = scan.offset;
		losses->damaged_records += scan.skipped;
		losses->damaged_samples += scan.torn_samples;
		if (scan.number <= segment->done) {
			segment->read = scan.offset;
			continue;
		}
		segment->records++;
		segment->samples += scan.header.samples;
		if (scan.header.time_unix_ns > segment->newest_unix_ns)
			segment->newest_unix_ns = scan.header.time_unix_ns;
	}
	/* A process that was killed while it moved records has left the last one torn. */
	const bool kept =
	    segment->last + 1 >= in_memory.first && segment->last + 1 <= in_memory.last;
	if (!kept && (r < 0 || scan.skipped)) {
		losses->damaged_records++;
		losses->damaged_samples += scan.torn_samples;
	}
	/* The torn end is cut off, so that it is found only once. */
	if (r == 0 && scan.skipped && ftruncate(fd, (off_t)sound) == 0)
		segment->size = sound;
	return 0;
}

static int segment_compare(const void *a, const void *b)
{
	const struct spool_segment *x = a, *y = b;

	return (x->first > y->first) - (x->first < y->first);
}

/* Lists the segments of the directory, sorted by number. Returns 0 or -ENOMEM. */
static int disk_list(struct spool_disk *disk)
{
	_cleanup_close_ int fd = fcntl(disk->fd, F_DUPFD_CLOEXEC, 0);
	_cleanup_closedir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (!dir) {
		disk->error = errno;
		return errno == ENOMEM ? -ENOMEM : 0;
	}
	TAKE_FD(fd);
	rewinddir(dir);
	errno = 0;
	while (disk->count < SEGMENTS_MAX && (entry = readdir(dir))) {
		uint64_t number = segment_number(entry->d_name);
		if (!number || number > disk->number_max)
			continue;
		struct spool_segment *segment = segment_add(disk);
		if (!segment)
			return -ENOMEM;
		segment->first = number;
		errno = 0;
	}
	if (errno)
		disk->error = errno;
	if (disk->count)
		qsort(disk->segments, disk->count, sizeof(*disk->segments), segment_compare);
	return 0;
}

int spool_disk_open(struct spool_disk *disk, struct spool_range in_memory,
		    struct spool_losses *losses)
{
	struct cursor_file cursor = {0};
	size_t kept = 0;

	disk->segment_bytes_max = disk->bytes_max / 16;
	if (disk->segment_bytes_max < SEGMENT_BYTES_MIN)
		disk->segment_bytes_max = SEGMENT_BYTES_MIN;
	if (disk->segment_bytes_max > SEGMENT_BYTES_MAX)
		disk->segment_bytes_max = SEGMENT_BYTES_MAX;
	if (disk->segment_bytes_max > disk->bytes_max / 4)
		disk->segment_bytes_max = disk->bytes_max / 4;
	if (disk->fd < 0)
		return 0;
	int r = disk_list(disk);
	if (r)
		return r;
	cursor_read(disk, &cursor);
	disk->number = cursor.done;
	for (size_t i = 0; i < disk->count; i++) {
		struct spool_segment segment = disk->segments[i];
		r = segment_count(disk, &segment, &cursor, in_memory, losses);
		if (r == -EACCES || r == -EIO || r == -EPERM)
			disk->error = -r;
		if (r)
			continue;
		if (segment.last > disk->number)
			disk->number = segment.last;
		if (segment.records) {
			disk->bytes += segment.size;
			disk->segments[kept++] = segment;
		} else {
			segment_unlink(disk, segment.first);
		}
	}
	disk->count = kept;
	while (disk->bytes > disk->bytes_max)
		spool_disk_drop(disk, &losses->full_samples);
	/* Tests the directory now, while its failure can still be reported in time. */
	if (!disk->error)
		spool_disk_probe(disk);
	return 0;
}

void spool_disk_probe(struct spool_disk *disk)
{
	const struct spool_segment *segment = disk->count ? &disk->segments[0] : NULL;

	disk->error = 0;
	cursor_write(disk, segment ? segment->first : 0, segment ? segment->done : disk->number);
}

void spool_disk_close(struct spool_disk *disk)
{
	free(disk->segments);
	if (disk->fd >= 0)
		close(disk->fd);
}

bool spool_disk_has(const struct spool_disk *disk, uint64_t number)
{
	/* They are in the order in which they leave. Records that another agent has left in the
	 * directory may have higher numbers than those that come after them. */
	for (size_t i = 0; i < disk->count; i++) {
		if (disk->segments[i].first <= number && number <= disk->segments[i].last)
			return true;
	}
	return false;
}

bool spool_disk_front(struct spool_disk *disk, struct spool_scan *scan, struct spool_losses *losses)
{
	uint64_t size;

	while (disk->count) {
		struct spool_segment *segment = &disk->segments[0];
		int fd = segment_open(disk, segment->first, O_RDONLY, &size);
		if (fd < 0 && fd != -ENOENT && fd != -ELOOP && fd != -ENOTSUP) {
			disk->error = -fd;
			return false;
		}
		if (fd >= 0) {
			*scan = segment_scan(disk, segment, fd);
			if (spool_scan_next(scan) == 1) {
				segment->read = scan->at;
				return true;
			}
			close(fd);
		}
		/* These records existed when they were counted, so they are damaged now. */
		losses->damaged_records += segment->records;
		spool_disk_drop(disk, &losses->damaged_samples);
	}
	return false;
}

void spool_disk_pop(struct spool_disk *disk, const struct spool_scan *scan)
{
	struct spool_segment *segment = &disk->segments[0];
	uint64_t samples = scan->header.samples, left = 0;

	segment->read = scan->offset;
	segment->done = scan->number;
	segment->samples -= samples < segment->samples ? samples : segment->samples;
	if (--segment->records)
		cursor_write(disk, segment->first, segment->done);
	else
		spool_disk_drop(disk, &left);
}

/* Reserves memory for one more segment, so that the commit cannot fail for lack of it. */
static int segment_reserve(struct spool_disk *disk)
{
	if (!segment_add(disk))
		return -ENOMEM;
	disk->count--;
	return 0;
}

/* Opens the segment that was written last if it can take the record. */
static bool reopen_last(struct spool_disk *disk, const struct spool_header *header,
			struct spool_writer *writer)
{
	uint64_t size;

	if (!disk->count)
		return false;
	struct spool_segment *last = &disk->segments[disk->count - 1];
	if (!last->grows || header->number != last->last + 1 ||
	    last->size + spool_record_bytes(header) > disk->segment_bytes_max)
		return false;
	int fd = segment_open(disk, last->first, O_WRONLY, &size);
	if (fd < 0)
		return false;
	if (size < last->size || (size > last->size && ftruncate(fd, (off_t)last->size))) {
		close(fd);
		return false;
	}
	*writer = (struct spool_writer){.fd = fd, .segment = *last, .size = last->size};
	return true;
}

int spool_disk_begin(struct spool_disk *disk, const struct spool_header *header,
		     struct spool_writer *writer, struct spool_losses *losses)
{
	struct segment_head head = {.magic = SEGMENT_MAGIC, .version = DISK_VERSION};
	uint64_t size;

	if (reopen_last(disk, header, writer))
		return 0;
	int r = segment_reserve(disk);
	if (r)
		return r;
	while (disk->count >= SEGMENTS_MAX)
		spool_disk_drop(disk, &losses->full_samples);
	int fd = segment_open(disk, header->number, O_WRONLY | O_CREAT | O_EXCL, &size);
	if (fd < 0)
		return fd;
	*writer = (struct spool_writer){.fd = fd,
					.segment = {.first = header->number,
						    .done = header->number - 1,
						    .last = header->number - 1,
						    .size = sizeof(head),
						    .read = sizeof(head),
						    .grows = true},
					.fresh = true};
	head.check = head_check(&head);
	r = spool_write(fd, &head, sizeof(head), 0);
	if (r) {
		close(fd);
		segment_unlink(disk, header->number);
	}
	return r;
}

/* Copies the record at `offset` of `from` and seals it for its new place `at`. */
static int record_copy(int to, uint64_t at, int from, uint64_t offset,
		       const struct spool_header *header)
{
	const uint64_t bytes = spool_record_bytes(header);
	_cleanup_free_ uint8_t *buffer = malloc(COPY_BYTES);
	struct spool_header sealed = *header;
	int r = 0;

	if (!buffer)
		return -ENOMEM;
	spool_record_seal(&sealed, at);
	for (uint64_t done = 0; done < bytes && !r; done += COPY_BYTES) {
		size_t length = bytes - done < COPY_BYTES ? (size_t)(bytes - done) : COPY_BYTES;
		if (spool_read(from, buffer, length, offset + done) != (int64_t)length)
			return -EIO;
		if (done == 0)
			memcpy(buffer, &sealed, sizeof(sealed));
		r = spool_write(to, buffer, length, at + done);
	}
	return r;
}

int spool_disk_append(struct spool_disk *disk, struct spool_writer *writer, int fd, uint64_t offset,
		      const struct spool_header *header, struct spool_losses *losses)
{
	struct spool_segment *segment = &writer->segment;
	const uint64_t size = segment->size + spool_record_bytes(header);
	const size_t others = writer->fresh ? 0 : 1;

	if (header->number != segment->last + 1 ||
	    (segment->records && size > disk->segment_bytes_max))
		return 1;
	while (disk->bytes - writer->size + size > disk->bytes_max && disk->count > others)
		spool_disk_drop(disk, &losses->full_samples);
	if (disk->bytes - writer->size + size > disk->bytes_max)
		return -ENOSPC;
	int r = record_copy(writer->fd, segment->size, fd, offset, header);
	if (r) {
		/* A torn record would be skipped, but it would occupy room on a full disk. */
		if (ftruncate(writer->fd, (off_t)segment->size))
			segment->grows = false;
		return r;
	}
	segment->size = size;
	segment->last = header->number;
	segment->records++;
	segment->samples += header->samples;
	if (header->time_unix_ns > segment->newest_unix_ns)
		segment->newest_unix_ns = header->time_unix_ns;
	return 0;
}

int spool_disk_commit(struct spool_disk *disk, struct spool_writer *writer)
{
	const uint64_t size = writer->fresh ? 0 : writer->size;
	int r = 0;

	if (writer->segment.size > writer->size && fdatasync(writer->fd))
		r = -errno;
	const bool empty = writer->fresh && !writer->segment.records;
	if (r && ftruncate(writer->fd, (off_t)size) && !writer->fresh)
		disk->segments[disk->count - 1].grows = false;
	close(writer->fd);
	if (r || empty) {
		if (writer->fresh)
			segment_unlink(disk, writer->segment.first);
		return r;
	}
	if (writer->fresh) {
		disk->segments[disk->count++] = writer->segment;
		/* Syncs the file's name. A failure is ignored, since not every file system supports
		 * this. */
		fdatasync(disk->fd);
		if (disk->count == 1)
			cursor_write(disk, writer->segment.first, writer->segment.done);
	} else {
		disk->segments[disk->count - 1] = writer->segment;
	}
	disk->number = writer->segment.last;
	disk->bytes += writer->segment.size - writer->size;
	return 0;
}
