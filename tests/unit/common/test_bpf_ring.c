/* SPDX-License-Identifier: Apache-2.0 */
/* The consumer of a ring, over a memfd that is laid out as the kernel lays out a BPF ring
 * buffer. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/bpf_ring.h"

enum {
	PAGE = 4096,
	RING_BYTES = 4096,
	HEADER = BPF_RINGBUF_HDR_SZ
};

/* The side of the ring that the kernel writes. */
struct producer {
	uint8_t *map; /* consumer's page, producer's page, data twice */
	int fd;
};

static struct producer producer_new(void)
{
	struct producer p = {.fd = memfd_create("ring", MFD_CLOEXEC)};

	cr_assert(p.fd >= 0 && ftruncate(p.fd, 2 * PAGE + 2 * RING_BYTES) == 0);
	p.map = mmap(NULL, 2 * PAGE + 2 * RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, p.fd, 0);
	cr_assert(p.map != MAP_FAILED);
	return p;
}

static uint64_t *consumer_position(const struct producer *p)
{
	return (uint64_t *)p->map;
}

static uint64_t *producer_position(const struct producer *p)
{
	return (uint64_t *)(p->map + PAGE);
}

/* Writes bytes at a position, to both copies of the data. In the kernel, the second copy is the first
 * one, mapped again. */
static void put_bytes(const struct producer *p, uint64_t position, const void *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		const size_t at = (position + i) % RING_BYTES;

		p->map[2 * PAGE + at] = p->map[2 * PAGE + RING_BYTES + at] =
		    ((const uint8_t *)bytes)[i];
	}
}

/* Adds a record of `length` bytes with the value `fill`. Returns the position of its header. */
static uint64_t put(const struct producer *p, uint32_t length, uint8_t fill, uint32_t flags)
{
	const uint64_t position = *producer_position(p);
	const uint32_t head[2] = {length | flags, 0};
	uint8_t bytes[RING_BYTES];

	memset(bytes, fill, sizeof(bytes));
	put_bytes(p, position, head, sizeof(head));
	put_bytes(p, position + HEADER, bytes, length);
	*producer_position(p) = position + ((length + HEADER + 7) & ~7u);
	return position;
}

static void set_head(const struct producer *p, uint64_t position, uint32_t head)
{
	put_bytes(p, position, &head, sizeof(head));
}

static struct bpf_ring ring_of(const struct producer *p)
{
	struct bpf_ring ring;

	cr_assert_eq(bpf_ring_init(&ring, fcntl(p->fd, F_DUPFD_CLOEXEC, 3), RING_BYTES), 0);
	return ring;
}

static void expect_record(struct bpf_ring *ring, size_t length, uint8_t fill)
{
	const void *record = NULL;
	size_t got = 0;

	cr_assert(bpf_ring_peek(ring, &record, &got));
	cr_assert_eq(got, length);
	for (size_t i = 0; i < length; i++)
		cr_assert_eq(((const uint8_t *)record)[i], fill, "byte %zu", i);
	bpf_ring_next(ring);
}

static bool is_empty(struct bpf_ring *ring)
{
	const void *record;
	size_t length;

	return !bpf_ring_peek(ring, &record, &length);
}

Test(bpf_ring, records_in_order)
{
	struct producer p = producer_new();
	struct bpf_ring ring = ring_of(&p);

	cr_assert(is_empty(&ring));
	put(&p, 1, 0x11, 0);
	put(&p, 8, 0x22, 0);
	put(&p, 0, 0, 0);
	put(&p, 1000, 0x33, 0);
	expect_record(&ring, 1, 0x11);
	expect_record(&ring, 8, 0x22);
	expect_record(&ring, 0, 0);
	expect_record(&ring, 1000, 0x33);
	cr_assert(is_empty(&ring));
	cr_assert_eq(*consumer_position(&p), *producer_position(&p), "all given back");
	cr_assert_eq(ring.consumed_bytes, *producer_position(&p));
	bpf_ring_fini(&ring);
}

Test(bpf_ring, peek_takes_nothing)
{
	struct producer p = producer_new();
	struct bpf_ring ring = ring_of(&p);

	put(&p, 24, 0x44, 0);
	cr_assert_not(is_empty(&ring));
	cr_assert_not(is_empty(&ring));
	cr_assert_eq(*consumer_position(&p), 0);
	expect_record(&ring, 24, 0x44);
	bpf_ring_fini(&ring);
}

Test(bpf_ring, discarded_records_are_skipped)
{
	struct producer p = producer_new();
	struct bpf_ring ring = ring_of(&p);

	put(&p, 100, 1, BPF_RINGBUF_DISCARD_BIT);
	put(&p, 50, 2, BPF_RINGBUF_DISCARD_BIT);
	put(&p, 9, 3, 0);
	put(&p, 16, 4, BPF_RINGBUF_DISCARD_BIT);
	expect_record(&ring, 9, 3);
	cr_assert(is_empty(&ring));
	cr_assert_eq(*consumer_position(&p), *producer_position(&p), "the last one as well");
	bpf_ring_fini(&ring);
}

Test(bpf_ring, unfinished_record_stops)
{
	struct producer p = producer_new();
	struct bpf_ring ring = ring_of(&p);

	const uint64_t busy = put(&p, 40, 5, BPF_RINGBUF_BUSY_BIT);
	put(&p, 8, 6, 0);
	cr_assert(is_empty(&ring));
	cr_assert_eq(*consumer_position(&p), 0);
	set_head(&p, busy, 40);
	expect_record(&ring, 40, 5);
	expect_record(&ring, 8, 6);
	bpf_ring_fini(&ring);
}

/* Records cross the end of the ring at every alignment. Each must be read completely. */
Test(bpf_ring, records_across_the_end)
{
	struct producer p = producer_new();
	struct bpf_ring ring = ring_of(&p);

	for (unsigned int i = 0; i < 2000; i++) {
		const uint32_t length = i * 37 % 900;

		put(&p, length, (uint8_t)i, 0);
		expect_record(&ring, length, (uint8_t)i);
	}
	cr_assert_gt(*consumer_position(&p), 100 * RING_BYTES);
	cr_assert(is_empty(&ring));
	bpf_ring_fini(&ring);
}

Test(bpf_ring, record_as_large_as_the_ring)
{
	struct producer p = producer_new();
	struct bpf_ring ring = ring_of(&p);

	put(&p, 4000, 1, 0);
	expect_record(&ring, 4000, 1);
	put(&p, RING_BYTES - HEADER, 2, 0);
	expect_record(&ring, RING_BYTES - HEADER, 2);
	bpf_ring_fini(&ring);
}

Test(bpf_ring, record_longer_than_the_ring_is_refused)
{
	struct producer p = producer_new();
	struct bpf_ring ring = ring_of(&p);

	set_head(&p, put(&p, 8, 1, 0), RING_BYTES + 1);
	cr_assert(is_empty(&ring));
	set_head(&p, 0, 0x3fffffff);
	cr_assert(is_empty(&ring));
	bpf_ring_fini(&ring);
}

Test(bpf_ring, what_waits_at_an_impossible_position_is_given_up)
{
	struct producer p = producer_new();
	struct bpf_ring ring = ring_of(&p);
	const int64_t wrong[] = {-RING_BYTES - 8, 8, INT64_MIN, INT64_MAX};

	*producer_position(&p) = 10 * RING_BYTES;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		put(&p, 8, 1, 0);
		*consumer_position(&p) = *producer_position(&p) + (uint64_t)wrong[i];
		cr_assert(is_empty(&ring), "%ld", (long)wrong[i]);
		cr_assert_eq(*consumer_position(&p), *producer_position(&p));
		put(&p, 8, 2, 0);
		expect_record(&ring, 8, 2);
	}
	bpf_ring_fini(&ring);
}

Test(bpf_ring, another_reader_goes_on_where_the_last_one_was)
{
	struct producer p = producer_new();
	struct bpf_ring ring = ring_of(&p);

	put(&p, 16, 1, 0);
	put(&p, 100, 2, 0);
	set_head(&p, put(&p, 8, 3, 0), 8 | BPF_RINGBUF_BUSY_BIT);
	expect_record(&ring, 16, 1);
	bpf_ring_resume(&ring);
	expect_record(&ring, 100, 2);
	bpf_ring_fini(&ring);
}

Test(bpf_ring, another_reader_does_not_believe_a_wrong_position)
{
	struct producer p = producer_new();
	struct bpf_ring ring = ring_of(&p);
	const uint64_t wrong[] = {0, 1, 8, 24 + 8, 1000, UINT64_MAX};

	put(&p, 16, 1, 0);
	put(&p, 100, 2, 0);
	put(&p, 100, 3, 0);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		*consumer_position(&p) = wrong[i];
		bpf_ring_resume(&ring);
		cr_assert_eq(*consumer_position(&p), *producer_position(&p), "%zu", i);
	}
	put(&p, 8, 4, 0);
	expect_record(&ring, 8, 4);
	bpf_ring_fini(&ring);
}

Test(bpf_ring, bad_sizes_and_descriptors)
{
	struct producer p = producer_new();
	struct bpf_ring ring = {.fd = 77};

	cr_assert_eq(bpf_ring_init(&ring, p.fd, 0), -EINVAL);
	cr_assert_eq(bpf_ring_init(&ring, p.fd, 2048), -EINVAL);
	cr_assert_eq(bpf_ring_init(&ring, p.fd, 3 * 4096), -EINVAL);
	cr_assert_eq(bpf_ring_init(&ring, -1, 4096), -EBADF);
	cr_assert_eq(ring.fd, 77, "outputs are untouched on failure");
	cr_assert_geq(fcntl(p.fd, F_GETFD), 0, "the descriptor is taken on success only");
}

Test(bpf_ring, fini_closes_and_can_be_repeated)
{
	struct producer p = producer_new();
	struct bpf_ring ring = ring_of(&p);
	const int fd = ring.fd;

	bpf_ring_fini(&ring);
	cr_assert_eq(fcntl(fd, F_GETFD), -1);
	bpf_ring_fini(&ring);
}
