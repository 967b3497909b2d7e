/* SPDX-License-Identifier: Apache-2.0 */
/* Where the C library keeps the values of keys; here it is that of this process. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>

#include "symbolizer/runtime/thread_keys.h"

enum {
	KEYS = 100, /* in four of glibc's blocks */
	READS = 100,
	BYTES = 1 << 20
};

static struct memory memory;

static void setup(void)
{
	memory = (struct memory){.fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC)};
	cr_assert_geq(memory.fd, 0);
	memory_allow(&memory, READS, BYTES);
}

TestSuite(thread_keys, .init = setup);

static uint64_t thread(void)
{
	return (uint64_t)pthread_self();
}

static uint64_t value_of(const struct thread_key *key)
{
	uint64_t value = 0;

	cr_assert_eq(memory_read_u64(&memory, thread() + key->first, &value), 0);
	if (key->indirect)
		cr_assert_eq(memory_read_u64(&memory, value + key->second, &value), 0);
	return value;
}

Test(thread_keys, are_found_by_their_numbers_and_by_their_values)
{
	static char values[KEYS];
	struct thread_key by_number, by_value;

	for (int i = 0; i < KEYS; i++) {
		pthread_key_t key;

		cr_assert_eq(pthread_key_create(&key, NULL), 0);
		cr_assert_eq(pthread_setspecific(key, &values[i]), 0);
		memory_allow(&memory, READS, BYTES);
		const uint64_t value = (uint64_t)(uintptr_t)&values[i];
		cr_assert_eq(thread_key_of_number(THREAD_KEYS_GLIBC, key, &by_number), 0);
		cr_expect_eq(value_of(&by_number), value, "key %u", key);
		cr_assert_eq(thread_key_find(&memory, thread(), value, &by_value), 0);
		cr_expect_eq(value_of(&by_value), value, "key %u", key);
	}
}

Test(thread_keys, a_value_that_no_key_has_is_not_found)
{
	struct thread_key key;

	cr_expect_eq(thread_key_find(&memory, thread(), 0x1234567812345678, &key), -EAGAIN);
	cr_expect_eq(thread_key_find(&memory, 16, 1, &key), -EAGAIN, "no thread is there");
}

/* musl, src/thread/pthread_getspecific.c: an array of values. */
Test(thread_keys, of_musl_are_in_an_array)
{
	struct thread_key key;

	cr_assert_eq(thread_key_of_number(THREAD_KEYS_MUSL, 3, &key), 0);
	cr_expect_eq(key.indirect, 1);
	cr_expect_eq(key.first, 0x80);
	cr_expect_eq(key.second, 24);
}

Test(thread_keys, there_is_a_highest_number)
{
	struct thread_key key;

	cr_expect_eq(thread_key_of_number(THREAD_KEYS_MUSL, 128, &key), -ERANGE);
	cr_expect_eq(thread_key_of_number(THREAD_KEYS_GLIBC, 1024, &key), -ERANGE);
	cr_expect_eq(thread_key_of_number(THREAD_KEYS_GLIBC, 1023, &key), 0);
	cr_expect_eq(thread_key_of_number(THREAD_KEYS_GLIBC, UINT32_MAX, &key), -ERANGE);
}

Test(thread_keys, the_variable_with_a_number_is_found_in_code)
{
	enum {
		VADDR = 0x10000
	};
	uint64_t number = 0;
	/* Ruby 2.7: sub $8, %rsp; mov 0x16913e(%rip), %edi; call */
	uint8_t call[] = {0x48, 0x83, 0xec, 0x08, 0x8b, 0x3d, 0x3e, 0x91,
			  0x16, 0x00, 0xe8, 0,	  0,	0,    0};
	/* PHP: mov 0x3a1c2a(%rip), %edi; jmp */
	const uint8_t jump[] = {0x8b, 0x3d, 0x2a, 0x1c, 0x3a, 0x00, 0xe9, 0, 0, 0, 0};

	cr_assert(thread_key_in_code(call, sizeof(call), VADDR, &number));
	cr_assert_eq(number, VADDR + 10 + 0x16913e);
	cr_assert(thread_key_in_code(jump, sizeof(jump), VADDR, &number));
	cr_assert_eq(number, VADDR + 6 + 0x3a1c2a);
	cr_assert_not(thread_key_in_code(call, 10, VADDR, &number));
	call[10] = 0x90;
	cr_assert_not(thread_key_in_code(call, sizeof(call), VADDR, &number));
}
