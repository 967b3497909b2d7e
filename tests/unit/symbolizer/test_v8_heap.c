/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the reading of V8's strings and scopes. A part of this process's memory looks like V8's
 * heap. */
#include "symbolizer/runtime/v8_heap.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bpf/runtime/v8.h"
#include "symbolizer/runtime/v8_scope.h"

enum {
	OBJECT_WORDS = 64,
	OBJECTS = 16,
	READS = 200,
	/* Types of strings: src/objects/instance-type.h. */
	SEQUENTIAL = 0x28,
	SEQUENTIAL_WIDE = 0x20,
	CONS = 0x29,
	EXTERNAL = 0x2a,
	EXTERNAL_UNCACHED = 0x3a,
	SLICED = 0x2b,
	THIN = 0x2d,
	NOT_A_STRING = 131,
	SCOPE = 272,
};

static uint64_t objects[OBJECTS][OBJECT_WORDS];
static uint64_t maps[512][2];
static struct v8_image image;
static struct memory memory;
static struct v8_heap heap;

static uint64_t tagged(const void *object)
{
	return (uint64_t)(uintptr_t)object + V8_TAG;
}

static uint64_t small(int32_t value)
{
	return (uint64_t)(uint32_t)value << V8_SMI_SHIFT;
}

/* Makes the n-th object one of a type. */
static uint64_t make(unsigned int n, uint16_t type)
{
	maps[type][1] = (uint64_t)type << 32; /* at offset 12 */
	memset(objects[n], 0, sizeof(objects[n]));
	objects[n][0] = tagged(maps[type]);
	return tagged(objects[n]);
}

static uint64_t make_string(unsigned int n, uint16_t type, uint32_t length)
{
	const uint64_t string = make(n, type);

	objects[n][1] = (uint64_t)length << 32;
	return string;
}

static uint64_t make_text(unsigned int n, const char *text)
{
	const uint64_t string = make_string(n, SEQUENTIAL, (uint32_t)strlen(text));

	memcpy(&objects[n][2], text, strlen(text));
	return string;
}

static void begin(void)
{
	image.major = 12;
	image.constants[V8_TYPE_SCOPE] = SCOPE;
	memory = (struct memory){.fd = -1, .pid = getpid()};
	heap = (struct v8_heap){.image = &image, .memory = &memory};
	memory_allow(&memory, READS, 1 << 20);
}

TestSuite(v8_heap, .init = begin);

static void expect_text(uint64_t string, const char *wanted)
{
	char text[64];

	cr_assert_eq(v8_heap_text(&heap, string, text, sizeof(text)), 0);
	cr_expect_str_eq(text, wanted);
}

Test(v8_heap, strings_of_all_representations)
{
	const uint16_t wide[] = {0x41, 0x3b1, 0x4e2d, 0xd83d, 0xde00, 0xd800};
	const uint64_t text = make_text(0, "Module._load");
	const uint64_t empty = make_text(1, "");

	expect_text(text, "Module._load");
	expect_text(empty, "");
	const uint64_t latin = make_text(2, "caf\xe9");
	expect_text(latin, "caf\xc3\xa9");
	const uint64_t two = make_string(3, SEQUENTIAL_WIDE, 6);
	memcpy(&objects[3][2], wide, sizeof(wide));
	expect_text(two, "A\xce\xb1\xe4\xb8\xad\xf0\x9f\x98\x80");
	const uint64_t cons = make_string(4, CONS, 16);
	objects[4][2] = text;
	objects[4][3] = latin;
	expect_text(cons, "Module._loadcaf\xc3\xa9");
	const uint64_t flattened = make_string(5, CONS, 12);
	objects[5][2] = text;
	objects[5][3] = empty;
	expect_text(flattened, "Module._load");
	const uint64_t thin = make_string(6, THIN, 12);
	objects[6][2] = text;
	expect_text(thin, "Module._load");
	const uint64_t sliced = make_string(7, SLICED, 5);
	objects[7][2] = thin;
	objects[7][3] = small(7);
	expect_text(sliced, "_load");
	const uint64_t external = make_string(8, EXTERNAL, 4);
	objects[8][3] = (uint64_t)(uintptr_t) "node:fs";
	expect_text(external, "node");
}

Test(v8_heap, what_is_no_string_is_refused)
{
	char text[64];
	const uint64_t other = make(0, NOT_A_STRING);
	const uint64_t uncached = make_string(1, EXTERNAL_UNCACHED, 4);
	const uint64_t beyond = make_string(2, SLICED, 5);

	cr_expect_eq(v8_heap_text(&heap, other, text, sizeof(text)), -ESTALE);
	cr_expect_lt(v8_heap_text(&heap, uncached, text, sizeof(text)), 0);
	objects[2][2] = make_text(3, "short");
	objects[2][3] = small(3);
	cr_expect_eq(v8_heap_text(&heap, beyond, text, sizeof(text)), -ESTALE);
	cr_expect_eq(v8_heap_text(&heap, small(5), text, sizeof(text)), -EFAULT);
	cr_expect_eq(v8_heap_text(&heap, V8_TAG, text, sizeof(text)), -EFAULT);
}

Test(v8_heap, circles_and_forged_lengths_cost_a_bounded_number_of_reads)
{
	char text[64];
	struct v8_flat flat;
	const uint64_t thin = make_string(0, THIN, 1), cons = make_string(1, CONS, 9);

	objects[0][2] = thin;
	cr_expect_eq(v8_heap_text(&heap, thin, text, sizeof(text)), -ESTALE);
	objects[1][2] = objects[1][3] = cons;
	cr_expect_lt(v8_heap_text(&heap, cons, text, sizeof(text)), 0);
	cr_expect_gt(memory.reads_left, 0);
	/* A length beyond the memory: what fits is read. */
	const uint64_t longest = make_string(2, SEQUENTIAL, 0xffffffff);
	memset(&objects[2][2], 'a', 400);
	cr_expect_eq(v8_heap_text(&heap, longest, text, sizeof(text)), 0);
	cr_expect_eq(strlen(text), sizeof(text) - 1);
	cr_expect_eq(v8_heap_flat(&heap, longest, &flat), 0);
	cr_expect_eq(flat.length, 0xffffffff);
}

Test(v8_heap, arrays_have_at_most_the_allowed_length)
{
	uint8_t *bytes = NULL;
	size_t length = 0;
	const uint64_t array = make(0, 174);

	objects[0][1] = small(3);
	objects[0][2] = 0x030201;
	cr_assert_eq(v8_heap_array(&heap, array, 1, 3, &bytes, &length), 0);
	cr_expect_eq(length, 3);
	cr_expect_arr_eq(bytes, ((uint8_t[]){1, 2, 3}), 3);
	free(bytes);
	cr_expect_eq(v8_heap_array(&heap, array, 1, 2, &bytes, &length), -E2BIG);
	objects[0][1] = small(-1);
	cr_expect_eq(v8_heap_array(&heap, array, 1, 2, &bytes, &length), -E2BIG);
	objects[0][1] = 5;
	cr_expect_eq(v8_heap_array(&heap, array, 1, 2, &bytes, &length), -ESTALE);
}

/* The scopes that were seen in Node 22: a function without local variables, and one with five. */
Test(v8_heap, scope_has_name_and_start)
{
	struct v8_scope scope;
	const uint64_t object = make(0, SCOPE);

	objects[0][1] = small(0x4171e2);
	objects[0][4] = make_text(1, "leaf");
	objects[0][5] = small(-1);
	objects[0][6] = make(2, NOT_A_STRING);
	objects[0][7] = small(27);
	cr_assert_eq(v8_scope_read(&heap, object, &scope), 0);
	cr_expect_str_eq(scope.name, "leaf");
	cr_expect_eq(scope.start, 27);
	cr_expect(!v8_scope_is_async(&scope));
	/* No name of its own, but an inferred one; and an async function. */
	objects[0][1] = small(0x4171e2 | 13 << 17);
	objects[0][4] = make_text(1, "");
	objects[0][6] = make_text(3, "Module.load");
	cr_assert_eq(v8_scope_read(&heap, object, &scope), 0);
	cr_expect_str_eq(scope.name, "Module.load");
	cr_expect(v8_scope_is_async(&scope));
	/* Two local variables: a name and a number each. */
	objects[0][3] = small(2);
	objects[0][8] = make_text(4, "outer");
	objects[0][11] = small(99);
	cr_assert_eq(v8_scope_read(&heap, object, &scope), 0);
	cr_expect_str_eq(scope.name, "outer");
	cr_expect_eq(scope.start, 99);
	/* From V8 13 on, the start is at a fixed place, and the flags are no small integer. */
	image.major = 13;
	objects[0][1] = 0x4171e4;
	objects[0][3] = small(0);
	objects[0][4] = small(27);
	objects[0][6] = make_text(4, "leaf");
	cr_assert_eq(v8_scope_read(&heap, object, &scope), 0);
	cr_expect_str_eq(scope.name, "leaf");
	cr_expect_eq(scope.start, 27);
}

Test(v8_heap, forged_scopes_are_refused)
{
	struct v8_scope scope;
	const uint64_t object = make(0, SCOPE);

	objects[0][1] = small(0x4171e2);
	objects[0][3] = small(1 << 30);
	cr_expect_eq(v8_scope_read(&heap, object, &scope), -ESTALE);
	objects[0][3] = small(-1);
	cr_expect_eq(v8_scope_read(&heap, object, &scope), -ESTALE);
	cr_expect_eq(v8_scope_read(&heap, make_text(1, "x"), &scope), -ESTALE);
}
