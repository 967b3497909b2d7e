/* SPDX-License-Identifier: Apache-2.0 */
#include "common/bpf_ring.h"

#include <errno.h>
#include <linux/bpf.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/map_shared.h"

enum {
	RING_PAGE = 4096,
	RING_HEADER = BPF_RINGBUF_HDR_SZ
};

int bpf_ring_init(struct bpf_ring *ring, int fd, size_t bytes)
{
	if (!bytes || (bytes & (bytes - 1)) || bytes % RING_PAGE)
		return -EINVAL;
	void *consumer = map_shared(fd, RING_PAGE, PROT_READ | PROT_WRITE, 0);
	if (!consumer)
		return -errno;
	void *producer = map_shared(fd, RING_PAGE + 2 * bytes, PROT_READ, RING_PAGE);
	if (!producer) {
		int r = -errno;

		munmap(consumer, RING_PAGE);
		return r;
	}
	*ring = (struct bpf_ring){
	    .fd = fd,
	    .consumer = consumer,
	    .producer = producer,
	    .data = (const uint8_t *)producer + RING_PAGE,
	    .bytes = bytes,
	};
	return 0;
}

void bpf_ring_fini(struct bpf_ring *ring)
{
	if (!ring->data)
		return;
	munmap(ring->consumer, RING_PAGE);
	munmap((void *)(uintptr_t)ring->producer, RING_PAGE + 2 * ring->bytes);
	close(ring->fd);
	*ring = (struct bpf_ring){.fd = -1};
}

static uint32_t bpf_ring_head(const struct bpf_ring *ring, uint64_t position)
{
	const uint32_t *head = (const uint32_t *)(ring->data + (position & (ring->bytes - 1)));

	return __atomic_load_n(head, __ATOMIC_ACQUIRE);
}

static uint64_t bpf_ring_stride(uint32_t head)
{
	uint64_t length = head & ~(BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT);

	return (length + RING_HEADER + 7) & ~7ull;
}

/* Returns whether records follow each other from one position to another. */
static bool is_chain(const struct bpf_ring *ring, uint64_t position, uint64_t end)
{
	if (end - position > ring->bytes || position % RING_HEADER)
		return false;
	while (position < end)
		position += bpf_ring_stride(bpf_ring_head(ring, position));
	return position == end;
}

void bpf_ring_resume(struct bpf_ring *ring)
{
	const uint64_t end = __atomic_load_n(ring->producer, __ATOMIC_ACQUIRE);
	const uint64_t position = *ring->consumer;

	if (!position || !is_chain(ring, position, end))
		__atomic_store_n(ring->consumer, end, __ATOMIC_RELEASE);
}

bool bpf_ring_peek(struct bpf_ring *ring, const void **record, size_t *length)
{
	for (;;) {
		const uint64_t end = __atomic_load_n(ring->producer, __ATOMIC_ACQUIRE);
		const uint64_t position = *ring->consumer;

		if (position == end)
			return false;
		if (end - position > ring->bytes) {
			__atomic_store_n(ring->consumer, end, __ATOMIC_RELEASE);
			return false;
		}
		uint32_t head = bpf_ring_head(ring, position);
		if (head & BPF_RINGBUF_BUSY_BIT)
			return false;
		if (!(head & BPF_RINGBUF_DISCARD_BIT)) {
			*length = head;
			*record = ring->data + (position & (ring->bytes - 1)) + RING_HEADER;
			return *length <= ring->bytes;
		}
		bpf_ring_next(ring);
	}
}

void bpf_ring_next(struct bpf_ring *ring)
{
	uint64_t position = *ring->consumer;
	uint64_t stride = bpf_ring_stride(bpf_ring_head(ring, position));

	ring->consumed_bytes += stride;
	__atomic_store_n(ring->consumer, position + stride, __ATOMIC_RELEASE);
}

uint64_t bpf_ring_waiting_bytes(const struct bpf_ring *ring)
{
	return ring->producer ? __atomic_load_n(ring->producer, __ATOMIC_ACQUIRE) - *ring->consumer
			      : 0;
}

bool bpf_ring_is_half_full(const struct bpf_ring *ring)
{
	return bpf_ring_waiting_bytes(ring) > ring->bytes / 2;
}
