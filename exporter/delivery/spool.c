/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/delivery/spool.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/time_units.h"
#include "exporter/delivery/delivery_limits.h"
#include "exporter/delivery/spool_disk.h"
#include "exporter/delivery/spool_memory.h"

/*
 * How record numbers work. Numbers ascend over all processes that use the spool, so that a copy
 * that was moved to the disk can be recognised in memory. A new memory continues from the clock,
 * which gives one number for each 1024 ns, or from the largest number on disk. So it assigns no
 * number again that the directory already contains, even if the directory cannot be read now. A
 * number that is further ahead of the clock than NUMBER_AHEAD_MAX is forged and is ignored: it
 * would soon leave no numbers to assign.
 *
 * Example: at 2026-01-01 the clock is at 1.77e18 ns and gives the number 1.77e18 / 1024 = 1.73e15.
 * The spool then assigns 1.73e15 + 1, + 2, ... for a few requests per minute, so the clock stays
 * ahead.
 */
#define NUMBER_AHEAD_MAX (1ULL << 52) /* 146 years of 1024 ns */

struct spool {
	pthread_mutex_t mutex;
	struct spool_config config;
	struct spool_memory memory; /* its records are newer than those of the disk */
	struct spool_disk disk;
	struct spool_losses losses;
	uint64_t failed_ns; /* when the directory failed last, in CLOCK_BOOTTIME; 0: it works */
};

static void cleanup_unlock(pthread_mutex_t **mutex)
{
	pthread_mutex_unlock(*mutex);
}

#define LOCKED(spool)                                                                              \
	_cleanup_(cleanup_unlock) pthread_mutex_t *_locked = &(spool)->mutex;                      \
	pthread_mutex_lock(_locked)

/* Returns the present by the spool's clock. */
static uint64_t clock_now_ns(const struct spool *s, struct spool_now now)
{
	return now.boot_ns + *s->config.clock_ns;
}

/* Sets the spool's clock to the real time. It must not have records by the clock as it was. */
static void clock_set(struct spool *s, struct spool_now now)
{
	*s->config.clock_ns = now.unix_ns - now.boot_ns;
}

static uint64_t number_of_clock(uint64_t now_unix_ns)
{
	return now_unix_ns >> 10;
}

static bool too_old(const struct spool *s, uint64_t time_unix_ns, uint64_t now_unix_ns)
{
	return now_unix_ns > time_unix_ns && now_unix_ns - time_unix_ns > s->config.age_max_ns;
}

/* The oldest record of the spool: the first on disk, or the first in memory if the disk has
 * none. */
struct front {
	struct spool_scan scan;
	bool on_disk; /* the scan's descriptor has to be closed */
};

static void cleanup_front(struct front *front)
{
	if (front->on_disk)
		close(front->scan.fd);
}

static bool front_find(struct spool *s, struct front *front)
{
	front->on_disk = spool_disk_front(&s->disk, &front->scan, &s->losses);
	return front->on_disk || spool_memory_front(&s->memory, &front->scan, &s->losses);
}

static void front_pop(struct spool *s, const struct front *front)
{
	if (front->on_disk)
		spool_disk_pop(&s->disk, &front->scan);
	else
		spool_memory_remove(&s->memory, front->scan.offset, 1, front->scan.header.samples);
}

static void expire(struct spool *s, struct spool_now now)
{
	const uint64_t now_unix_ns = clock_now_ns(s, now);

	while (s->disk.count && too_old(s, s->disk.segments[0].newest_unix_ns, now_unix_ns))
		spool_disk_drop(&s->disk, &s->losses.age_samples);
	for (;;) {
		_cleanup_(cleanup_front) struct front front = {0};
		if (!front_find(s, &front) ||
		    !too_old(s, front.scan.header.time_unix_ns, now_unix_ns))
			return;
		s->losses.age_samples += front.scan.header.samples;
		front_pop(s, &front);
	}
}

/* Moves as many records from memory to disk as one segment takes. Returns 0 or a negative errno. */
static int keep_segment(struct spool *s)
{
	struct spool_scan scan;
	struct spool_writer writer;
	uint64_t offset = 0, records = 0, samples = 0;

	if (!spool_memory_front(&s->memory, &scan, &s->losses))
		return 0;
	int r = spool_disk_begin(&s->disk, &scan.header, &writer, &s->losses);
	if (r)
		return r;
	do {
		r = spool_disk_append(&s->disk, &writer, scan.fd, scan.at, &scan.header,
				      &s->losses);
		if (r)
			break;
		offset = scan.offset;
		records++;
		samples += scan.header.samples;
	} while (spool_scan_next(&scan) == 1);
	int committed = spool_disk_commit(&s->disk, &writer);
	if (committed)
		return committed;
	/* A process that is killed here leaves these records in both tiers. spool_open() then
	 * removes them from memory. */
	if (records)
		spool_memory_remove(&s->memory, offset, records, samples);
	return r < 0 ? r : 0;
}

/* Returns whether the directory failed less than SPOOL_DISK_RETRY_MS ago, so that it is not tried
 * yet. */
static bool disk_rests(const struct spool *s, struct spool_now now)
{
	return s->disk.error && s->failed_ns &&
	       now.boot_ns - s->failed_ns < SPOOL_DISK_RETRY_MS * NS_PER_MS;
}

/* Removes records from memory whose numbers are on disk. Returns how many, and adds their
 * samples. */
static uint64_t remove_doubles(struct spool *s, uint64_t *samples)
{
	struct spool_scan scan;
	uint64_t records = 0;

	while (spool_memory_front(&s->memory, &scan, &s->losses) &&
	       spool_disk_has(&s->disk, scan.number)) {
		records++;
		*samples += scan.header.samples;
		spool_memory_remove(&s->memory, scan.offset, 1, scan.header.samples);
	}
	return records;
}

static int keep(struct spool *s, struct spool_now now)
{
	int r = 0;

	if (s->disk.fd < 0 || !s->memory.records)
		return 0;
	if (disk_rests(s, now))
		return -s->disk.error;
	s->disk.error = 0;
	while (s->memory.records && !r) {
		/* No segment could have their name. Those that were moved are not in memory any
		 * more, so these numbers are forged. */
		s->losses.damaged_records += remove_doubles(s, &s->losses.damaged_samples);
		r = keep_segment(s);
	}
	s->failed_ns = r ? now.boot_ns : 0;
	if (r)
		s->disk.error = -r;
	return r;
}

static bool drop_oldest(struct spool *s)
{
	struct spool_scan scan;

	if (!spool_memory_front(&s->memory, &scan, &s->losses))
		return false;
	s->losses.full_samples += scan.header.samples;
	spool_memory_remove(&s->memory, scan.offset, 1, scan.header.samples);
	return true;
}

/* Makes room for one more record in memory, by moving records to disk or else by dropping the
 * oldest. */
static int make_room(struct spool *s, uint64_t bytes, struct spool_now now)
{
	const uint64_t most = s->config.memory_bytes_max;

	if (bytes > most || s->memory.end - s->memory.tail > most - bytes)
		return -ENOSPC;
	if (spool_memory_bytes(&s->memory) > most - bytes) {
		expire(s, now);
		keep(s, now);
	}
	while (spool_memory_bytes(&s->memory) > most - bytes && drop_oldest(s))
		;
	return 0;
}

static int open_tiers(struct spool *s, struct spool_now now)
{
	const uint64_t number_max = number_of_clock(now.unix_ns) + NUMBER_AHEAD_MAX;
	struct spool_range in_memory = {0};
	uint64_t moved_samples = 0;
	struct spool_scan scan;

	int r = spool_memory_open(&s->memory, s->config.memory_fd, s->config.record_bytes_max,
				  number_max, &s->losses);
	if (r)
		return r;
	if (spool_memory_front(&s->memory, &scan, &s->losses))
		in_memory = (struct spool_range){scan.number, s->memory.published};
	s->disk.number_max = number_max;
	r = spool_disk_open(&s->disk, in_memory, &s->losses);
	if (r)
		return r;
	s->failed_ns = s->disk.error ? now.boot_ns : 0;
	/* A process moved them and was killed before it could remove them. */
	remove_doubles(s, &moved_samples);
	if (!s->memory.number)
		s->memory.number = number_of_clock(now.unix_ns);
	if (s->memory.number < s->disk.number)
		s->memory.number = s->disk.number;
	return 0;
}

int spool_open(const struct spool_config *config, struct spool_now now, struct spool **spool,
	       uint64_t *mark)
{
	struct spool *s = calloc(1, sizeof(*s));

	if (!s) {
		close(config->memory_fd);
		if (config->directory_fd >= 0)
			close(config->directory_fd);
		return -ENOMEM;
	}
	s->config = *config;
	/* Lengths are stored in 32 bits. */
	if (s->config.record_bytes_max > INT32_MAX)
		s->config.record_bytes_max = INT32_MAX;
	s->memory.fd = config->memory_fd;
	if (!*config->clock_ns)
		clock_set(s, now);
	s->disk = (struct spool_disk){.fd = config->directory_fd,
				      .bytes_max = config->disk_bytes_max,
				      .record_bytes_max = s->config.record_bytes_max};
	pthread_mutex_init(&s->mutex, NULL);
	int r = open_tiers(s, now);
	if (r) {
		spool_close(s);
		return r;
	}
	*mark = s->memory.mark;
	*spool = s;
	return 0;
}

void spool_close(struct spool *spool)
{
	if (!spool)
		return;
	spool_disk_close(&spool->disk);
	close(spool->memory.fd);
	pthread_mutex_destroy(&spool->mutex);
	free(spool);
}

int spool_put(struct spool *spool, const uint8_t *data, size_t length, uint64_t samples,
	      uint64_t mark, bool ends_group, struct spool_now now)
{
	struct spool_header header = {.samples = samples, .mark = mark};
	_cleanup_free_ uint8_t *record = NULL;

	if (length > spool->config.record_bytes_max)
		return -EFBIG;
	int r =
	    spool_record_pack(data, length, (int)spool->config.compression_level, &header, &record);
	if (r)
		return r;
	LOCKED(spool);
	if (!spool->memory.records && !spool->memory.group_records && !spool->disk.count)
		clock_set(spool, now);
	header.time_unix_ns = clock_now_ns(spool, now);
	r = make_room(spool, spool_record_bytes(&header), now);
	if (r)
		return r;
	/* The machine may have less memory than the spool is allowed to use. */
	do {
		r = spool_memory_append(&spool->memory, &header, record, ends_group);
	} while (r == -ENOSPC && drop_oldest(spool));
	return r ? -ENOSPC : 0;
}

int spool_end_group(struct spool *spool, uint64_t mark)
{
	LOCKED(spool);
	return spool_memory_end_group(&spool->memory, mark);
}

int spool_first(struct spool *spool, struct spool_now now, struct spool_record *record,
		uint8_t **data)
{
	LOCKED(spool);
	for (;;) {
		_cleanup_(cleanup_front) struct front front = {0};

		expire(spool, now);
		if (!front_find(spool, &front))
			return 0;
		const struct spool_header *header = &front.scan.header;
		int r = spool_record_unpack(front.scan.fd, front.scan.at, header, data);
		if (r == 0) {
			*record = (struct spool_record){.number = header->number,
							.time_unix_ns = header->time_unix_ns,
							.samples = header->samples,
							.bytes = header->raw_bytes};
			return 1;
		}
		if (r == -ENOMEM)
			return r;
		spool->losses.damaged_records++;
		spool->losses.damaged_samples += header->samples;
		front_pop(spool, &front);
	}
}

void spool_done(struct spool *spool, uint64_t number)
{
	LOCKED(spool);
	_cleanup_(cleanup_front) struct front front = {0};

	if (front_find(spool, &front) && front.scan.number == number)
		front_pop(spool, &front);
}

int spool_keep(struct spool *spool, struct spool_now now)
{
	LOCKED(spool);
	expire(spool, now);
	return keep(spool, now);
}

void spool_expire(struct spool *spool, struct spool_now now)
{
	LOCKED(spool);
	expire(spool, now);
	if (spool->disk.error && !disk_rests(spool, now)) {
		spool_disk_probe(&spool->disk);
		spool->failed_ns = spool->disk.error ? now.boot_ns : 0;
	}
}

void spool_stats(struct spool *spool, struct spool_stats *stats)
{
	LOCKED(spool);
	_cleanup_(cleanup_front) struct front front = {0};
	const bool any = front_find(spool, &front);

	*stats = (struct spool_stats){
	    .records = spool->memory.records,
	    .samples = spool->memory.samples,
	    .memory_samples = spool->memory.samples,
	    .memory_bytes = spool_memory_bytes(&spool->memory),
	    .disk_bytes = spool->disk.bytes,
	    .oldest_unix_ns = any ? front.scan.header.time_unix_ns : 0,
	    .dropped_full_samples = spool->losses.full_samples,
	    .dropped_age_samples = spool->losses.age_samples,
	    .damaged_samples = spool->losses.damaged_samples,
	    .damaged_records = spool->losses.damaged_records,
	    .disk_error = spool->disk.error,
	};
	for (size_t i = 0; i < spool->disk.count; i++) {
		stats->records += spool->disk.segments[i].records;
		stats->samples += spool->disk.segments[i].samples;
	}
}
