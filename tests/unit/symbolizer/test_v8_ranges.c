/* SPDX-License-Identifier: Apache-2.0 */
/* Where the walker of V8 is called: the interpreter in each mapping of the builtins, and executable
 * memory without a file. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bpf/runtime/v8.h"
#include "symbolizer/runtime/limits.h"
#include "symbolizer/runtime/runtime.h"
#include "symbolizer/runtime/v8_image.h"

#define MIB (1ull << 20)
#define RESERVATION (512 * MIB)
#define CODE 0x7f0000000000ull

enum {
	/* In the file: code from 0x1000 on, the builtins at 0x10000. */
	TEXT = 0x1000,
	BUILTINS = 0x10000,
	ENTRY = 0x11000,
	HANDLERS = 0x18000,
	BUILTINS_END = 0x20000,
	TEXT_END = 0x40000,
};

static const struct v8_image image = {.builtins = {.start = BUILTINS,
						   .end = BUILTINS_END,
						   .entry = ENTRY,
						   .entry_end = ENTRY + 0x100,
						   .handlers = HANDLERS},
				      .entry_start = "the code of the trampoline"};
static struct runtime_code_memory memory;
static struct memory process_memory;
static struct runtime_process process;

static void setup(void)
{
	process_memory.fd = memfd_create("memory", MFD_CLOEXEC);
	memory_allow(&process_memory, 1000, 1 << 20);
	process = (struct runtime_process){
	    .ops = &runtime_v8, .image = &image, .code_memory = &memory, .memory = &process_memory};
}

static void teardown(void)
{
	runtime_v8.detach(&process);
	close(process_memory.fd);
}

TestSuite(v8_ranges, .init = setup, .fini = teardown);

static void map(uint64_t start, uint64_t end, uint64_t bias)
{
	process.mappings[process.mapping_count++] =
	    (struct runtime_mapping){.start = start, .end = end, .bias = bias};
}

/* Maps the file as a program is loaded. */
static void map_file(uint64_t bias)
{
	map(bias + TEXT, bias + TEXT_END, bias);
}

/* Maps the builtins alone, as V8 does. */
static void map_builtins(uint64_t bias)
{
	map(bias + BUILTINS, bias + BUILTINS_END, bias);
}

static void add_area(uint64_t start, uint64_t end)
{
	memory.areas[memory.count++] = (struct runtime_code_area){.start = start, .end = end};
}

/* Copies the builtins to memory without a file. */
static void copy_builtins(uint64_t start)
{
	const off_t at = (off_t)(start + ENTRY - BUILTINS);

	cr_assert_eq(pwrite(process_memory.fd, image.entry_start, sizeof(image.entry_start), at),
		     (ssize_t)sizeof(image.entry_start));
}

static bool is_in_area(uint64_t address)
{
	for (unsigned int i = 0; i < memory.count; i++) {
		if (address >= memory.areas[i].start && address < memory.areas[i].end)
			return true;
	}
	return false;
}

/* Attaches, and checks that no range overlaps another one. */
static void attach(void)
{
	cr_assert_eq(runtime_v8.attach(&process), 0);
	for (unsigned int i = 0; i < process.layout.range_count; i++) {
		const struct runtime_range *a = &process.layout.ranges[i];

		cr_assert_lt(a->start, a->end);
		for (unsigned int k = 0; k < i; k++) {
			const struct runtime_range *b = &process.layout.ranges[k];

			cr_assert(a->end <= b->start || b->end <= a->start);
		}
	}
}

/* Returns what the walker is told at an address, or -1. */
static int data_at(uint64_t address)
{
	for (unsigned int i = 0; i < process.layout.range_count; i++) {
		const struct runtime_range *r = &process.layout.ranges[i];

		if (address >= r->start && address < r->end) {
			cr_assert_eq(r->in_file, r->data != V8_RANGE_CODE && !is_in_area(address));
			return (int)r->data;
		}
	}
	return -1;
}

static void expect_interpreter(uint64_t bias)
{
	cr_expect_eq(data_at(bias + BUILTINS), -1);
	cr_expect_eq(data_at(bias + ENTRY), V8_RANGE_ENTRY);
	cr_expect_eq(data_at(bias + ENTRY + 0x100), -1);
	cr_expect_eq(data_at(bias + HANDLERS), V8_RANGE_HANDLERS);
	cr_expect_eq(data_at(bias + BUILTINS_END - 1), V8_RANGE_HANDLERS);
}

Test(v8_ranges, without_the_builtins_it_is_too_early)
{
	map(TEXT, BUILTINS + 1, 0);
	add_area(CODE, CODE + MIB);
	cr_expect_eq(runtime_v8.attach(&process), -EAGAIN);
}

Test(v8_ranges, the_interpreter_is_known_before_there_is_code)
{
	process.code_memory = NULL;
	map_file(0x400000);
	attach();
	expect_interpreter(0x400000);
	cr_expect_eq(process.layout.range_count, 2);
	cr_expect(process.follows_code_memory);
}

Test(v8_ranges, the_first_code_stands_for_a_reservation)
{
	map_file(0x400000);
	add_area(CODE + 0x3000, CODE + 0x40000);
	add_area(CODE + 400 * MIB, CODE + 401 * MIB);
	attach();
	expect_interpreter(0x400000);
	cr_expect_eq(data_at(CODE), -1);
	cr_expect_eq(data_at(CODE + 0x3000), V8_RANGE_CODE);
	cr_expect_eq(data_at(CODE + 300 * MIB), V8_RANGE_CODE, "where further code will be");
	cr_expect_eq(data_at(CODE + 0x3000 + RESERVATION - 1), V8_RANGE_CODE);
	cr_expect_eq(data_at(CODE + 0x3000 + RESERVATION), -1);
}

Test(v8_ranges, code_that_ends_after_the_reservation_belongs_to_it)
{
	map_file(0x400000);
	add_area(CODE, CODE + 0x1000);
	add_area(CODE + RESERVATION - MIB, CODE + RESERVATION + MIB);
	add_area(CODE + 3 * RESERVATION, CODE + 3 * RESERVATION + 1);
	attach();
	cr_expect_eq(data_at(CODE + RESERVATION + MIB - 1), V8_RANGE_CODE);
	cr_expect_eq(data_at(CODE + RESERVATION + MIB), -1);
	cr_expect_eq(data_at(CODE + 4 * RESERVATION - 1), V8_RANGE_CODE);
}

Test(v8_ranges, builtins_in_a_reservation_are_not_compiled_code)
{
	const uint64_t bias = CODE + 500 * MIB;

	map_builtins(bias);
	map_file(0x400000);
	add_area(CODE, CODE + MIB);
	attach();
	expect_interpreter(0x400000);
	expect_interpreter(bias);
	cr_expect_eq(data_at(bias + BUILTINS - 1), V8_RANGE_CODE);
	cr_expect_eq(data_at(bias + BUILTINS_END), V8_RANGE_CODE);
	cr_expect_eq(data_at(CODE + RESERVATION - 1), V8_RANGE_CODE);
}

Test(v8_ranges, each_isolate_has_its_own)
{
	map_file(0x400000);
	for (uint64_t i = 0; i < 4; i++) {
		map_builtins(CODE + 2 * i * RESERVATION + 500 * MIB);
		add_area(CODE + 2 * i * RESERVATION, CODE + 2 * i * RESERVATION + MIB);
	}
	attach();
	for (uint64_t i = 0; i < 4; i++) {
		expect_interpreter(CODE + 2 * i * RESERVATION + 500 * MIB);
		cr_expect_eq(data_at(CODE + 2 * i * RESERVATION), V8_RANGE_CODE);
		cr_expect_eq(data_at(CODE + (2 * i + 1) * RESERVATION), -1);
	}
}

/* Node 20 and 22. */
Test(v8_ranges, a_copy_of_the_builtins_is_memory_of_its_own)
{
	const uint64_t start = CODE + 511 * MIB;

	map_file(0x400000);
	add_area(CODE, CODE + MIB);
	add_area(start, start + BUILTINS_END - BUILTINS);
	copy_builtins(start);
	attach();
	expect_interpreter(0x400000);
	expect_interpreter(start - BUILTINS);
	cr_expect_eq(data_at(start - 1), V8_RANGE_CODE);
	cr_expect_eq(data_at(start + BUILTINS_END - BUILTINS), V8_RANGE_CODE);
}

/* Node 24 and 26: the code of two isolates is one area. */
Test(v8_ranges, copies_of_the_builtins_are_at_the_end_of_reservations)
{
	const uint64_t unit = 256 << 10;

	map_file(0x400000);
	add_area(CODE, CODE + 2 * RESERVATION);
	copy_builtins(CODE + RESERVATION - unit);
	copy_builtins(CODE + 2 * RESERVATION - unit);
	attach();
	expect_interpreter(CODE + RESERVATION - unit - BUILTINS);
	expect_interpreter(CODE + 2 * RESERVATION - unit - BUILTINS);
	cr_expect_eq(data_at(CODE + RESERVATION - unit - 1), V8_RANGE_CODE);
	cr_expect_eq(data_at(CODE + RESERVATION - 1), V8_RANGE_CODE);
}

Test(v8_ranges, other_code_is_no_copy_of_the_builtins)
{
	map_file(0x400000);
	add_area(CODE, CODE + BUILTINS_END - BUILTINS);
	copy_builtins(CODE + 1);
	add_area(CODE + MIB, CODE + MIB + BUILTINS_END - BUILTINS - 1);
	copy_builtins(CODE + MIB);
	attach();
	cr_expect_eq(data_at(CODE + ENTRY - BUILTINS), V8_RANGE_CODE);
	cr_expect_eq(data_at(CODE + MIB + ENTRY - BUILTINS), V8_RANGE_CODE, "it has less room");
	cr_expect_eq(process.layout.range_count, 3);
}

Test(v8_ranges, copies_of_the_builtins_do_not_overlap)
{
	const uint64_t bytes = BUILTINS_END - BUILTINS;

	map_file(0x400000);
	add_area(CODE, CODE + (256 << 10) + bytes / 2);
	copy_builtins(CODE);
	copy_builtins(CODE + bytes / 2);
	attach();
	expect_interpreter(CODE - BUILTINS);
}

Test(v8_ranges, nothing_is_read_where_the_builtins_are_mapped)
{
	const uint64_t bias = CODE + RESERVATION - MIB;

	map_file(0x400000);
	map_builtins(bias);
	add_area(CODE, CODE + MIB);
	/* The next reservation has a copy. */
	add_area(CODE + RESERVATION, CODE + RESERVATION + BUILTINS_END - BUILTINS);
	copy_builtins(CODE);
	copy_builtins(CODE + RESERVATION);
	attach();
	expect_interpreter(bias);
	expect_interpreter(CODE + RESERVATION - BUILTINS);
	cr_expect_eq(data_at(CODE + ENTRY - BUILTINS), V8_RANGE_CODE);
	cr_expect_eq(process_memory.reads_left, 1000 - 1);
}

Test(v8_ranges, memory_that_cannot_be_read_is_no_copy_of_the_builtins)
{
	map_file(0x400000);
	add_area(CODE, CODE + RESERVATION);
	copy_builtins(CODE);
	memory_allow(&process_memory, 0, 0);
	attach();
	cr_expect_eq(data_at(CODE + ENTRY - BUILTINS), V8_RANGE_CODE);
}

Test(v8_ranges, code_in_files_that_exist_in_memory_is_not_v8s)
{
	map_file(0x400000);
	add_area(CODE, CODE + MIB);
	memcpy(memory.areas[0].label, "/memfd:other", sizeof("/memfd:other"));
	attach();
	cr_expect_eq(data_at(CODE), -1);
}

Test(v8_ranges, more_than_there_is_room_for_is_left_out)
{
	for (uint64_t i = 0; i < RUNTIME_MAPPINGS_MAX; i++)
		map_builtins(CODE + 2 * i * RESERVATION + 500 * MIB);
	for (uint64_t i = 0; i < RUNTIME_CODE_AREAS_MAX; i++)
		add_area(CODE + 2 * i * RESERVATION, CODE + 2 * i * RESERVATION + MIB);
	attach();
	cr_expect_leq(process.layout.range_count, RUNTIME_RANGES_MAX);
	expect_interpreter(CODE + 500 * MIB);
}
