/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/runtime/thread_keys.h"

#include <errno.h>

#include "common/cursor.h"

enum {
	/* Where the values of pthread_getspecific(3) are on x86-64. In glibc, struct pthread has
	 * the first 32 keys, 16 bytes each with the value second (specific_1stblock), and then
	 * pointers to blocks of 32 keys (specific; nptl/descr.h). The two offsets were observed,
	 * there is no interface for them; where they differ, no value is found. */
	GLIBC_FIRST_BLOCK = 0x310,
	GLIBC_BLOCKS = 0x510,
	GLIBC_BLOCK_COUNT = 32,
	GLIBC_KEYS_PER_BLOCK = 32,
	GLIBC_KEY_BYTES = 16,
	GLIBC_VALUE = 8, /* in a key */
	/* In musl, struct pthread has a pointer to an array of values (tsd;
	 * src/internal/pthread_impl.h). PTHREAD_KEYS_MAX is 128. */
	MUSL_VALUES = 0x80,
	MUSL_KEYS = 128,
};

int thread_key_of_number(enum thread_key_library library, uint32_t number, struct thread_key *key)
{
	*key = (struct thread_key){0};
	if (library == THREAD_KEYS_MUSL) {
		*key =
		    (struct thread_key){.indirect = 1, .first = MUSL_VALUES, .second = number * 8};
		return number < MUSL_KEYS ? 0 : -ERANGE;
	}
	const uint32_t block = number / GLIBC_KEYS_PER_BLOCK;
	const uint32_t offset = number % GLIBC_KEYS_PER_BLOCK * GLIBC_KEY_BYTES + GLIBC_VALUE;

	if (block == 0)
		*key = (struct thread_key){.first = GLIBC_FIRST_BLOCK + offset};
	else
		*key = (struct thread_key){
		    .indirect = 1, .first = GLIBC_BLOCKS + block * 8, .second = offset};
	return block < GLIBC_BLOCK_COUNT ? 0 : -ERANGE;
}

uint32_t thread_keys_of_number(uint32_t number, struct thread_key keys[static THREAD_KEY_PLACES])
{
	uint32_t count = 0;

	for (int i = 0; i < THREAD_KEYS_LIBRARIES; i++) {
		if (thread_key_of_number(i, number, &keys[count]) == 0)
			count++;
	}
	return count;
}

bool thread_key_in_code(const uint8_t *code, size_t length, uint64_t vaddr, uint64_t *number)
{
	/* mov number(%rip), %edi; call or jmp */
	for (size_t i = 0; i + 6 < length; i++) {
		if (code[i] == 0x8b && code[i + 1] == 0x3d && (code[i + 6] & 0xfe) == 0xe8) {
			*number = vaddr + i + 6 + cursor_displacement(code + i + 2);
			return true;
		}
	}
	return false;
}

/* Searches one of glibc's blocks of keys for a value, and sets *index to the key's index in it. */
static bool find_in_block(struct memory *memory, uint64_t block, uint64_t value, uint32_t *index)
{
	uint64_t words[GLIBC_KEYS_PER_BLOCK * 2];

	if (memory_read(memory, block, words, sizeof(words)) < 0)
		return false;
	for (*index = 0; *index < GLIBC_KEYS_PER_BLOCK; ++*index) {
		if (words[2 * *index + 1] == value)
			return true;
	}
	return false;
}

static bool find_in_musl(struct memory *memory, uint64_t thread, uint64_t value, uint32_t *number)
{
	uint64_t array[MUSL_KEYS], values;

	if (memory_read_u64(memory, thread + MUSL_VALUES, &values) < 0 || !values ||
	    memory_read(memory, values, array, sizeof(array)) < 0)
		return false;
	for (*number = 0; *number < MUSL_KEYS; ++*number) {
		if (array[*number] == value)
			return true;
	}
	return false;
}

int thread_key_find(struct memory *memory, uint64_t thread, uint64_t value, struct thread_key *key)
{
	uint64_t blocks[GLIBC_BLOCK_COUNT];
	uint32_t index;

	if (find_in_block(memory, thread + GLIBC_FIRST_BLOCK, value, &index))
		return thread_key_of_number(THREAD_KEYS_GLIBC, index, key);
	if (find_in_musl(memory, thread, value, &index))
		return thread_key_of_number(THREAD_KEYS_MUSL, index, key);
	if (memory_read(memory, thread + GLIBC_BLOCKS, blocks, sizeof(blocks)) < 0)
		return -EAGAIN;
	for (uint32_t i = 1; i < GLIBC_BLOCK_COUNT; i++) {
		if (blocks[i] && find_in_block(memory, blocks[i], value, &index))
			return thread_key_of_number(THREAD_KEYS_GLIBC,
						    i * GLIBC_KEYS_PER_BLOCK + index, key);
	}
	return -EAGAIN;
}
