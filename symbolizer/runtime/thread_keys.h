/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds where the threads of a process keep the value of a key of pthread_getspecific(3).
 *
 * How this works: a runtime stores something of each thread under a key, which it has created when
 * it started. glibc and musl keep the values at fixed distances from the thread pointer. Either the
 * number of the key is known, because the runtime has it in a variable, or the value of one thread
 * is known. The place relative to the thread pointer is the same in all threads.
 *
 * Example: CPython's state S = 0x55d0c0 belongs to the thread with the thread pointer 0x7f3a10.
 * Slot 2 of its first block of keys, at 0x7f3a10 + 0x310 + 2 * 16, holds S in its second word. So
 * every thread has its state at thread pointer + 0x338.
 */
#ifndef SYMBOLIZER_RUNTIME_THREAD_KEYS_H
#define SYMBOLIZER_RUNTIME_THREAD_KEYS_H

#include <stdbool.h>
#include <stddef.h>

#include "bpf/runtime/thread_key.h"
#include "symbolizer/runtime/memory.h"

/* The C libraries whose places are known. */
enum thread_key_library {
	THREAD_KEYS_GLIBC,
	THREAD_KEYS_MUSL,
	THREAD_KEYS_LIBRARIES
};
_Static_assert((int)THREAD_KEYS_LIBRARIES == THREAD_KEY_PLACES,
	       "there is a place for each C library");

/* Finds the key whose value is `value` in the thread with the thread pointer `thread`. Returns 0,
 * or -EAGAIN if the thread does not have that value under any key. */
int thread_key_find(struct memory *memory, uint64_t thread, uint64_t value, struct thread_key *key);

/* Finds the place of the key with this number, if the process uses that C library. Returns 0, or
 * -ERANGE if the library has no such key. */
int thread_key_of_number(enum thread_key_library library, uint32_t number, struct thread_key *key);

/* Finds the places in which the key with this number may be. Returns how many there are. */
uint32_t thread_keys_of_number(uint32_t number, struct thread_key keys[static THREAD_KEY_PLACES]);

/* Finds the variable with the number of the key that a function passes to pthread_getspecific(3).
 * `code` are its first `length` bytes, at `vaddr`. Returns whether it was found. */
bool thread_key_in_code(const uint8_t *code, size_t length, uint64_t vaddr, uint64_t *number);

#endif
