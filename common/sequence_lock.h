/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writer's side of a sequence lock over memory that BPF programs read.
 *
 * How this works: an entry in a shared map has a 32-bit sequence number, which is odd while its one
 * writer changes the entry. A reader never waits. It reads the number, then the entry, then the
 * number again, and trusts the entry only if both numbers are equal and even. A walker on another
 * CPU that started before the change sees a different number afterwards; one that starts during
 * the change sees an odd number.
 *
 * Example: the number is 4. sequence_lock_begin makes it 5, the writer changes the entry, and
 * sequence_lock_end makes it 6. A writer that died at 5 leaves an entry that nobody trusts; the
 * next change goes 5, 6.
 */
#ifndef COMMON_SEQUENCE_LOCK_H
#define COMMON_SEQUENCE_LOCK_H

#include <stdint.h>

/* Marks the entry as being changed. The fence keeps the writer's later stores after the mark. */
static inline void sequence_lock_begin(uint32_t *sequence)
{
	__atomic_store_n(sequence, *sequence | 1, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* Marks the entry as complete, with a number that no reader has seen on it. */
static inline void sequence_lock_end(uint32_t *sequence)
{
	__atomic_store_n(sequence, *sequence + 1, __ATOMIC_RELEASE);
}

#endif
