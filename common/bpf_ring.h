/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Consumer of a BPF ring buffer by mmap alone: no bpf(2). Layout (kernel/bpf/ringbuf.c): one page
 * with the consumer's position, writable; one with the producer's; then the data, mapped twice in a
 * row so that records never wrap.
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
 * power of two. 0 or a negative errno. */
int bpf_ring_init(struct bpf_ring *ring, int fd, size_t bytes);
void bpf_ring_fini(struct bpf_ring *ring);

/* The next record, which stays in the ring until bpf_ring_next: false if there is none. A record
 * that is longer than the ring is none. */
bool bpf_ring_peek(struct bpf_ring *ring, const void **record, size_t *length);

/* Give back the record that was peeked at. */
void bpf_ring_next(struct bpf_ring *ring);

#endif
