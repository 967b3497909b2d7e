/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the line tables of CPython's code objects, the names that are read from a process's memory,
 * the ranges of JIT code, and the memory reader itself. A file stands for the process's memory. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "symbolizer/runtime/cpython_jit.h"
#include "symbolizer/runtime/cpython_lines.h"
#include "symbolizer/runtime/cpython_names.h"

#define LINE(format, first, position, ...)                                                         \
	cpython_line_find(format, (const uint8_t[]){__VA_ARGS__},                                  \
			  sizeof((uint8_t[]){__VA_ARGS__}), first, position)

/* A function that starts in line 10. Its code is in line 11 from offset 0 on, in line 12 from 4 on,
 * in line 20 from 8 on, and in line 11 again from 12 on. */
#define LNOTAB 0, 1, 4, 1, 4, 8, 4, (uint8_t)-9

Test(cpython_lines, lnotab_line_holds_after_its_bytes)
{
	cr_assert_eq(LINE(CPYTHON_LNOTAB, 10, -1, LNOTAB), 10);
	cr_assert_eq(LINE(CPYTHON_LNOTAB, 10, 0, LNOTAB), 11);
	cr_assert_eq(LINE(CPYTHON_LNOTAB, 10, 2, LNOTAB), 11);
	cr_assert_eq(LINE(CPYTHON_LNOTAB, 10, 4, LNOTAB), 12);
	cr_assert_eq(LINE(CPYTHON_LNOTAB, 10, 8, LNOTAB), 20);
	cr_assert_eq(LINE(CPYTHON_LNOTAB, 10, 12, LNOTAB), 11);
	cr_assert_eq(LINE(CPYTHON_LNOTAB, 10, 4000, LNOTAB), 11);
}

/* In 3.10 a pair is a number of bytes and their line, and f_lasti counts instructions of 2
 * bytes. */
Test(cpython_lines, linetable_line_holds_for_its_bytes)
{
#define LINETABLE 4, 1, 4, (uint8_t)-128, 4, 1, 0, 8, 4, 0
	cr_assert_eq(LINE(CPYTHON_LINETABLE, 10, 0, LINETABLE), 11);
	cr_assert_eq(LINE(CPYTHON_LINETABLE, 10, 1, LINETABLE), 11);
	cr_assert_eq(LINE(CPYTHON_LINETABLE, 10, 2, LINETABLE), 0);
	cr_assert_eq(LINE(CPYTHON_LINETABLE, 10, 4, LINETABLE), 12);
	cr_assert_eq(LINE(CPYTHON_LINETABLE, 10, 6, LINETABLE), 20);
}

/* One entry of each kind: 0 - 9 (short), 10 - 12 (one line), 13 (no columns), 14 (long) and 15 (no
 * line). The lowest bits of the first byte are the code units less 1. */
Test(cpython_lines, locations_of_every_kind)
{
#define ENTRY(kind, units) (uint8_t)(0x80 | (kind) << 3 | ((units)-1))
#define LOCATIONS                                                                                  \
	ENTRY(0, 1), 0x11, ENTRY(11, 2), 4, 9, ENTRY(15, 1), ENTRY(13, 1), 3, ENTRY(14, 8), 0x54,  \
	    1, 0, 7, 3
	cr_assert_eq(LINE(CPYTHON_LOCATIONS, 10, -2, LOCATIONS), 10);
	cr_assert_eq(LINE(CPYTHON_LOCATIONS, 10, 0, LOCATIONS), 10);
	cr_assert_eq(LINE(CPYTHON_LOCATIONS, 10, 2, LOCATIONS), 11);
	cr_assert_eq(LINE(CPYTHON_LOCATIONS, 10, 4, LOCATIONS), 11);
	/* This code has no line, but the current line does not change. */
	cr_assert_eq(LINE(CPYTHON_LOCATIONS, 10, 6, LOCATIONS), 0);
	cr_assert_eq(LINE(CPYTHON_LOCATIONS, 10, 8, LOCATIONS), 10);
	/* The varint 0x54, 1 is 20 + 64 = 84, which means +42 with the sign in the lowest bit. */
	cr_assert_eq(LINE(CPYTHON_LOCATIONS, 10, 10, LOCATIONS), 52);
}

Test(cpython_lines, random_tables_end)
{
	uint8_t table[512];

	srand(2);
	for (int round = 0; round < 20000; round++) {
		const size_t length = (size_t)rand() % sizeof(table);

		for (size_t i = 0; i < length; i++)
			table[i] = (uint8_t)rand();
		for (int format = CPYTHON_LNOTAB; format <= CPYTHON_LOCATIONS; format++)
			cpython_line_find((enum cpython_line_format)format, table, length, 1,
					  rand() % 4096);
	}
}

/* The process's memory is a file: an address is an offset in it. */
static struct memory memory;
static struct cpython_image image;
static struct cpython_names *names;

enum {
	CODE = 0x1000,
	TYPE = 0x5000,
	NAME = 0x2000,
	FILE_NAME = 0x3000,
	LINES = 0x4000,
	BYTES = 0x10000,
};

static void put(uint64_t at, const void *bytes, size_t length)
{
	cr_assert_eq(pwrite(memory.fd, bytes, length, (off_t)at), (ssize_t)length);
}

static void put_word(uint64_t at, uint64_t value)
{
	put(at, &value, sizeof(value));
}

/* Writes a compact str with `width` bytes per character. */
static void put_str(uint64_t at, const void *text, size_t characters, unsigned int width,
		    bool ascii)
{
	put_word(at + 16, characters);
	put_word(at + 24, 0x1234567 + characters);
	put_word(at + 32, width << 2 | 0x20 | (ascii ? 0x40 : 0));
	put(at + (ascii ? 48 : 72), text, characters * width);
}

static void memory_init(void)
{
	memory = (struct memory){.fd = memfd_create("memory", 0)};
	cr_assert_eq(ftruncate(memory.fd, BYTES), 0);
	image = (struct cpython_image){.line_format = CPYTHON_LOCATIONS,
				       .code_type = TYPE,
				       .offsets = {.first_line = 72,
						   .version = CPYTHON_NONE,
						   .file = 112,
						   .name = 120,
						   .qualified_name = 128,
						   .lines = 136,
						   .text = 48,
						   .wide_text = 72}};
	names = cpython_names_new();
	put_word(CODE, 1);
	put_word(CODE + 8, TYPE);
	put_word(CODE + 72, 10);
	put_word(CODE + 112, FILE_NAME);
	put_word(CODE + 120, NAME);
	put_word(CODE + 128, NAME);
	put_word(CODE + 136, LINES);
	put_str(NAME, "K.method", 8, 1, true);
	put_str(FILE_NAME, "/a/b.py", 7, 1, true);
	put_word(LINES + 16, 3);
	put(LINES + 32, (const uint8_t[]){ENTRY(11, 8), 4, 9}, 3);
	memory_allow(&memory, 1000, 1 << 20);
}

static void memory_fini(void)
{
	cpython_names_free(names);
	close(memory.fd);
}

static uint32_t identity_now(void)
{
	uint64_t hash;

	cr_assert_eq(pread(memory.fd, &hash, 8, NAME + 24), 8);
	return cpython_identity(FILE_NAME, NAME, NAME, LINES, 10, hash);
}

static int find(uint32_t identity, struct named_frames *frames)
{
	const uint64_t words[2] = {bh_frame_managed(BH_RUNTIME_CPYTHON, CODE, 1),
				   cpython_word(identity, 4)};

	frames->count = 0;
	frames->used = 0;
	return cpython_names_find(names, &image, 0, &memory, words, frames);
}

TestSuite(cpython_names, .init = memory_init, .fini = memory_fini);

Test(cpython_names, a_frame_has_function_file_and_line)
{
	struct named_frames frames;

	cr_assert_eq(find(identity_now(), &frames), 0);
	cr_assert_eq(frames.count, 1);
	cr_assert_str_eq(frames.frames[0].function, "K.method");
	cr_assert_str_eq(frames.frames[0].file, "/a/b.py");
	cr_assert_eq(frames.frames[0].line, 11);
	cr_assert_eq(frames.frames[0].start_line, 10);
}

/* The object that the walker saw was replaced: its frame has no name, although the new object is
 * valid. */
Test(cpython_names, a_replaced_object_does_not_name_old_frames)
{
	struct named_frames frames;
	const uint32_t before = identity_now();

	put_str(NAME, "L.method", 8, 1, true);
	put_word(NAME + 24, 99);
	cr_assert_eq(find(before, &frames), -ESTALE);
	cr_assert_eq(find(identity_now(), &frames), 0);
	cr_assert_str_eq(frames.frames[0].function, "L.method");
}

/* A freed object keeps its fields, but the memory they point to may be reused. */
Test(cpython_names, a_freed_object_has_no_name)
{
	struct named_frames frames;

	put_word(CODE, 0);
	cr_assert_eq(find(identity_now(), &frames), -ESTALE);
	put_word(CODE, 0x7f1234567890);
	cr_assert_eq(find(identity_now(), &frames), -ESTALE);
	put_word(CODE, 1);
	put_word(CODE + 8, NAME);
	cr_assert_eq(find(identity_now(), &frames), -ESTALE);
	/* The program has its own copy of PyCode_Type (a copy relocation). */
	put_word(NAME + 24, NAME + 0x100);
	put(NAME + 0x100, "code", 5);
	cr_assert_eq(find(identity_now(), &frames), 0);
}

Test(cpython_names, internal_frames_are_not_shown)
{
	struct named_frames frames;

	put_str(NAME, "__init__", 8, 1, true);
	put_str(FILE_NAME, "__init__", 8, 1, true);
	cr_assert_eq(find(identity_now(), &frames), 0);
	cr_assert_eq(frames.count, 0);
}

Test(cpython_names, a_cached_object_keeps_its_name_after_it_is_gone)
{
	struct named_frames frames;
	const uint32_t before = identity_now();

	cr_assert_eq(find(before, &frames), 0);
	put_word(NAME + 24, 99);
	cr_assert_eq(find(before, &frames), 0);
	cr_assert_str_eq(frames.frames[0].function, "K.method");
}

Test(cpython_names, strings_of_all_widths_become_utf8)
{
	struct named_frames frames;

	put_str(NAME, (const uint8_t[]){'n', 0xe9}, 2, 1, false);
	cr_assert_eq(find(identity_now(), &frames), 0);
	cr_assert_str_eq(frames.frames[0].function, "n\xc3\xa9");
	put_str(NAME, (const uint16_t[]){'n', 0x4e2d, 'm'}, 3, 2, false);
	cr_assert_eq(find(identity_now(), &frames), 0);
	cr_assert_str_eq(frames.frames[0].function, "n\xe4\xb8\xadm");
	put_str(NAME, (const uint32_t[]){0x1f40d, 'a', 'b', 'c'}, 4, 4, false);
	cr_assert_eq(find(identity_now(), &frames), 0);
	cr_assert_str_eq(frames.frames[0].function, "\xf0\x9f\x90\x8d"
						    "abc");
}

Test(cpython_names, random_memory_is_survived)
{
	struct named_frames frames;
	uint8_t page[4096];

	srand(3);
	for (int round = 0; round < 3000; round++) {
		memory_allow(&memory, 64, 1 << 20);
		for (uint64_t at = CODE; at <= LINES; at += 0x1000) {
			for (int i = 0; i < 160; i++)
				page[i] = (uint8_t)(rand() % 3 ? rand() : 0);
			put(at, page, 160);
		}
		/* Sometimes pointers that lead to valid addresses. */
		for (uint16_t offset = 112; offset <= 136 && rand() % 2; offset += 8)
			put_word(CODE + offset, (uint64_t)(rand() % BYTES));
		find((uint32_t)rand(), &frames);
		uint64_t word[22], unique = 0;
		uint32_t first;
		cr_assert_eq(pread(memory.fd, word, sizeof(word), CODE), sizeof(word));
		cr_assert_eq(pread(memory.fd, &first, 4, CODE + 72), 4);
		put_word(CODE, 1);
		put_word(CODE + 8, TYPE);
		if (pread(memory.fd, &unique, 8, (off_t)(word[15] + 24)) == 8)
			find(
			    cpython_identity(word[14], word[15], word[16], word[17], first, unique),
			    &frames);
	}
}

/* ---- cpython_jit.c ---- */

enum {
	HEAD = 0x100, /* the head of the list of interpreters */
	INTERPRETER = 0x200,
	EXECUTORS = 0x80, /* the offset of the list of executors in an interpreter */
	EXECUTOR = 0x6000,
	EXECUTOR_STRIDE = 0x100,
	PAGE = 0x1000,
};

static void put_executor(uint64_t number, uint64_t next, uint64_t previous, uint64_t code,
			 uint64_t bytes)
{
	const uint64_t at = EXECUTOR + number * EXECUTOR_STRIDE;

	put_word(at + 72, next == UINT64_MAX ? 0 : EXECUTOR + next * EXECUTOR_STRIDE);
	put_word(at + 80, previous == UINT64_MAX ? 0 : EXECUTOR + previous * EXECUTOR_STRIDE);
	put_word(at + 104, bytes);
	put_word(at + 112, code);
}

static void jit_ranges(struct runtime_layout *layout)
{
	image.interpreters = HEAD;
	image.executors = EXECUTORS;
	put_word(HEAD, INTERPRETER);
	memory_allow(&memory, 20000, 2 << 20);
	*layout = (struct runtime_layout){
	    .ranges[0] = {.start = 0x400000, .end = 0x500000, .in_file = true}, .range_count = 1};
	cpython_jit_add_ranges(&(struct runtime_process){.image = &image, .memory = &memory},
			       layout);
	cr_assert_eq(layout->ranges[0].start, 0x400000);
	cr_assert_eq(layout->ranges[0].end, 0x500000);
}

TestSuite(cpython_jit, .init = memory_init, .fini = memory_fini);

Test(cpython_jit, without_executors_there_are_no_ranges)
{
	struct runtime_layout layout;

	jit_ranges(&layout);
	cr_assert_eq(layout.range_count, 1);
}

Test(cpython_jit, code_that_is_near_becomes_one_range_in_any_order)
{
	struct runtime_layout layout;

	put_word(INTERPRETER + EXECUTORS, EXECUTOR);
	put_executor(0, 1, UINT64_MAX, 0x700000000000, PAGE);
	put_executor(1, 2, 0, 0x700000000000 + 30 * PAGE, 2 * PAGE);
	put_executor(2, 3, 1, 0, 0); /* not compiled */
	put_executor(3, 4, 2, 0x600000000000, PAGE);
	put_executor(4, UINT64_MAX, 3, 0x700000000000 + 15 * PAGE, PAGE);
	jit_ranges(&layout);
	cr_assert_eq(layout.range_count, 3);
	for (unsigned int i = 1; i < 3; i++) {
		const bool first = layout.ranges[i].start == 0x700000000000;

		cr_assert(first || layout.ranges[i].start == 0x600000000000);
		cr_assert_eq(layout.ranges[i].end - layout.ranges[i].start,
			     (uint64_t)(first ? 32 * PAGE : PAGE));
		cr_assert_eq(layout.ranges[i].data, CPYTHON_RANGE_JIT);
		cr_assert_not(layout.ranges[i].in_file);
	}
	cr_assert_neq(layout.ranges[1].start, layout.ranges[2].start);
}

Test(cpython_jit, executors_that_wait_to_be_freed_count)
{
	struct runtime_layout layout;

	put_executor(0, 1, 7, 0x700000000000, PAGE);
	put_executor(1, UINT64_MAX, UINT64_MAX, 0x600000000000, PAGE);
	put_word(INTERPRETER + EXECUTORS + 8, EXECUTOR);
	jit_ranges(&layout);
	cr_assert_eq(layout.range_count, 1);
	image.removed_executors = EXECUTORS + 8;
	jit_ranges(&layout);
	cr_assert_eq(layout.range_count, 3);
}

/* Another version has another structure at that offset, or the list changes while it is read. */
Test(cpython_jit, a_list_ends_at_the_first_inconsistent_executor)
{
	struct runtime_layout layout;

	put_word(INTERPRETER + EXECUTORS, EXECUTOR);
	put_executor(0, 1, UINT64_MAX, 0x700000000000, PAGE);
	put_executor(1, UINT64_MAX, 2, 0x600000000000, PAGE);
	jit_ranges(&layout);
	cr_assert_eq(layout.range_count, 2);
	put_executor(1, UINT64_MAX, 0, 0x600000000010, PAGE);
	jit_ranges(&layout);
	cr_assert_eq(layout.range_count, 2);
	put_executor(1, UINT64_MAX, 0, 0x600000000000, 1ull << 40);
	jit_ranges(&layout);
	cr_assert_eq(layout.range_count, 2);
	put_executor(1, UINT64_MAX, 0, 0x8000000000000000, PAGE);
	jit_ranges(&layout);
	cr_assert_eq(layout.range_count, 2);
	/* A list that is a circle ends. */
	put_executor(0, 1, 1, 0x700000000000, PAGE);
	put_executor(1, 0, 0, 0x600000000000, PAGE);
	jit_ranges(&layout);
	cr_assert_leq(layout.range_count, 3);
}

Test(cpython_jit, ranges_beyond_the_maximum_are_left_out)
{
	struct runtime_layout layout;

	put_word(INTERPRETER + EXECUTORS, EXECUTOR);
	for (uint64_t i = 0; i < 0x90; i++)
		put_executor(i, i == 0x8f ? UINT64_MAX : i + 1, i ? i - 1 : UINT64_MAX,
			     0x700000000000 + (i << 30), PAGE);
	jit_ranges(&layout);
	cr_assert_eq(layout.range_count, RUNTIME_RANGES_MAX);
}

/* ---- memory.c ---- */

TestSuite(memory, .init = memory_init, .fini = memory_fini);

Test(memory, reads_fail_when_the_budget_is_used_up)
{
	uint64_t value;

	memory_allow(&memory, 2, 12);
	cr_assert_eq(memory_read_u64(&memory, CODE, &value), 0);
	cr_assert_eq(memory_read_u64(&memory, CODE, &value), -EDQUOT);
	memory_allow(&memory, 1, 100);
	cr_assert_eq(memory_read_u64(&memory, CODE, &value), 0);
	cr_assert_eq(memory_read_u64(&memory, CODE, &value), -EDQUOT);
}

Test(memory, strings_are_cut_and_terminated)
{
	char text[8];

	put(NAME, "a string\0", 9);
	cr_assert_eq(memory_read_string(&memory, NAME, text, sizeof(text)), 7);
	cr_assert_str_eq(text, "a strin");
	cr_assert_eq(memory_read_string(&memory, NAME + 6, text, sizeof(text)), 2);
	cr_assert_str_eq(text, "ng");
	/* At the end of the file the process is gone, as with /proc/PID/mem. */
	cr_assert_eq(memory_read_string(&memory, BYTES + 8, text, sizeof(text)), -ESRCH);
}

Test(memory, impossible_addresses_are_refused)
{
	uint64_t value;

	cr_assert_eq(memory_read_u64(&memory, UINT64_MAX - 3, &value), -EFAULT);
	cr_assert_eq(memory_read_u64(&memory, INT64_MAX, &value), -EFAULT);
}

/* In strict mode process_vm_readv() is used. */
Test(memory, reads_by_pid_have_the_same_errors)
{
	uint64_t mine = 0x1122334455667788, value = 0;
	struct memory other = {.fd = -1, .pid = getpid()};

	memory_allow(&other, 10, 100);
	cr_assert_eq(memory_read_u64(&other, (uint64_t)(uintptr_t)&mine, &value), 0);
	cr_assert_eq(value, mine);
	cr_assert_eq(memory_read_u64(&other, 64, &value), -EFAULT);
	other.pid = 0x3ffffff;
	cr_assert_eq(memory_read_u64(&other, (uint64_t)(uintptr_t)&mine, &value), -ESRCH);
}
