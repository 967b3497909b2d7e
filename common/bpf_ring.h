/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Consumer of a BPF ring buffer. It only needs mmap, and no bpf(2), which sandboxed roles may not
 * call.
 *
 * How this works (kernel/bpf/ringbuf.c). The mapping has one writable page with the consumer's
 * position, one page with the producer's position, and then the data twice in a row, so that a
 * record at the end of the ring is contiguous in memory. Positions count bytes and never wrap. A
 * record has a header of 8 bytes, whose top bits say that it is still being written, or that it was
 * discarded, and takes a multiple of 8 bytes.
 *
 * The reader before this one may have been taken over, and have written a wrong position. Where
 * more would wait than fits into the ring, records have been overwritten, and others would be read
 * twice. So all of it is given up.
 *
 * Example: the ring has 4096 bytes and the consumer's position is 4088. The header of the next
 * record is at byte 4088 of the data, and its contents are at byte 4096, in the second copy. After
 * a record of 16 bytes the position is 4112.
 */
#ifndef COMMON_BPF_RING_H
#define COMMON_BPF_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bpf_ring {
	int fd; /* owned; for epoll */
	uint64_t *consumer;
	const uint64_t *producer;
	const uint8_t *data;
	size_t bytes;
	uint64_t consumed_bytes;
};

/* Maps the ring of the descriptor `fd`, which is taken over on success. `bytes` is its size, a
 * power of two. Returns 0 or a negative errno. */
int bpf_ring_init(struct bpf_ring *ring, int fd, size_t bytes);
void bpf_ring_fini(struct bpf_ring *ring);

/* Goes on after another reader, which may have been taken over. What waits is given up if its
 * position cannot be right: at no record, or at the first one of all, which it has read. */
void bpf_ring_resume(struct bpf_ring *ring);

/* Finds the next record, which stays in the ring until bpf_ring_next(). Returns false if there is
 * none, or if the record claims to be longer than the ring. */
bool bpf_ring_peek(struct bpf_ring *ring, const void **record, size_t *length);

/* Returns how many bytes of records, with their headers, wait in the ring. 0 before it is
 * initialised. */
uint64_t bpf_ring_waiting_bytes(const struct bpf_ring *ring);

/* Returns whether more than half of the ring waits. Records may get lost soon: until that is over,
 * its reader waits for nothing, and does later what takes long. */
bool bpf_ring_is_half_full(const struct bpf_ring *ring);

/* Gives the room of the record that bpf_ring_peek() has found back to the producer. */
void bpf_ring_next(struct bpf_ring *ring);

#endif
