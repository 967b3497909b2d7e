/* SPDX-License-Identifier: Apache-2.0 */
/* The file in which a process names its code: it grows, becomes shorter, and may contain anything.
 * tests/unit/symbolizer/test_jit_maps.c has what happens to names of maps. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "symbolizer/worker/jit_file.h"
#include "symbolizer/worker/limits.h"

static struct jit_file file;
static struct jit_file_changes changes;
static uint64_t last_id;
static char path[] = "/tmp/unit-jit_file-XXXXXX";
static int writer = -1;
static uint8_t data[1 << 20];
static size_t length;

static void put(const void *from, size_t bytes)
{
	cr_assert_leq(bytes, sizeof(data) - length);
	memcpy(data + length, from, bytes);
	length += bytes;
}

static void put_u32(uint32_t value)
{
	put(&value, sizeof(value));
}

static void put_u64(uint64_t value)
{
	put(&value, sizeof(value));
}

static void flush(void)
{
	cr_assert_eq(write(writer, data, length), (ssize_t)length);
	length = 0;
}

static uint32_t padding; /* of the header */

static void put_header(void)
{
	const uint32_t words[] = {0x4a695444, 1, 40, 62, padding, 42, 0, 0, 0, 0};

	put(words, sizeof(words));
}

static uint64_t put_ns = 1;

static void put_prefix(uint32_t kind, size_t bytes)
{
	put_u32(kind);
	put_u32((uint32_t)(16 + bytes));
	put_u64(put_ns);
}

/* A load of `bytes` zeros. */
static void put_load(uint64_t start, uint64_t bytes, const char *name)
{
	put_prefix(0, 40 + strlen(name) + 1 + bytes);
	put_u64(0);
	put_u64(start);
	put_u64(start);
	put_u64(bytes);
	put_u64(7);
	put(name, strlen(name) + 1);
	memset(data + length, 0, bytes);
	length += bytes;
}

static void put_move(uint64_t from, uint64_t to, uint64_t bytes)
{
	put_prefix(1, 48);
	put_u64(0);
	put_u64(to);
	put_u64(from);
	put_u64(to);
	put_u64(bytes);
	put_u64(7);
}

/* One line of code at `start`, of which the address in the file is `address`. */
static void put_line(uint64_t start, uint64_t address, uint32_t line, const char *source)
{
	put_prefix(2, 32 + strlen(source) + 1);
	put_u64(start);
	put_u64(1);
	put_u64(address);
	put_u32(line);
	put_u32(0);
	put(source, strlen(source) + 1);
}

static void setup(void)
{
	writer = mkstemp(path);
	cr_assert_geq(writer, 0);
	cr_assert_eq(jit_file_open(&file, open(path, O_RDONLY | O_CLOEXEC), true), 0);
	put_header();
}

static void teardown(void)
{
	jit_file_close(&file);
	cr_expect_eq(file.fd, -1);
	close(writer);
	unlink(path);
}

TestSuite(jit_file, .init = setup, .fini = teardown);

/* Writes what was put, and reads to the end of the file. Returns the number of slices. */
static int read_all(void)
{
	int slices = 0;

	flush();
	changes = (struct jit_file_changes){0};
	cr_assert_eq(jit_file_check(&file, &changes), 0);
	for (; file.unread; slices++) {
		cr_assert_lt(slices, 1000);
		jit_file_read(&file, &last_id, &changes);
	}
	return slices;
}

static uint64_t find_ns = UINT64_MAX;

/* Returns "name source:line" of an address. */
static const char *find(uint64_t address)
{
	static char text[128];
	const char *source;
	uint32_t line;
	const char *name = jit_file_find(&file, address, find_ns, &source, &line);

	if (!name)
		return "none";
	snprintf(text, sizeof(text), "%s %s:%u", name, source, line);
	return text;
}

Test(jit_file, a_jitdump_has_names_and_lines)
{
	put_line(0x1000, 0x1000, 5, "a.c");
	put_load(0x1000, 64, "f");
	put_load(0x2000, 64, "g");
	read_all();
	cr_expect_str_eq(find(0x1004), "f a.c:5");
	cr_expect_str_eq(find(0x2000), "g :0");
	cr_expect_str_eq(find(0x2040), "none");
	cr_expect_not(changes.replaced);
}

/* As LLVM and V8 do it. */
Test(jit_file, lines_may_be_after_an_elf_header)
{
	put_line(0x1000, 0x1040, 5, "a.c");
	put_load(0x1000, 64, "f");
	put_line(0x2000, 0x2050, 6, "a.c");
	put_load(0x2000, 64, "g");
	read_all();
	cr_expect_str_eq(find(0x1000), "f a.c:5");
	cr_expect_str_eq(find(0x200f), "g a.c:0");
	cr_expect_str_eq(find(0x2010), "g a.c:6");
	put_line(0x3000, 0x3004, 7, "a.c");
	put_load(0x3000, 128, "h");
	read_all();
	cr_expect_str_eq(find(0x3003), "h a.c:0", "this file has addresses as they are");
	cr_expect_str_eq(find(0x3004), "h a.c:7");
}

Test(jit_file, lines_of_other_code_do_not_count)
{
	put_line(0x1000, 0x1000, 5, "a.c");
	put_load(0x2000, 64, "g");
	put_load(0x1000, 64, "f");
	read_all();
	cr_expect_str_eq(find(0x1000), "f :0");
	cr_expect_str_eq(find(0x2000), "g :0");
}

Test(jit_file, lines_of_baseline_code_of_v8_do_not_count)
{
	length = 0;
	padding = 0xdeadbeef;
	put_header();
	put_line(0x1000, 0x103f, 5, "a.js");
	put_load(0x1000, 64, "JS:^f a.js:4:1");
	put_line(0x2000, 0x2040, 5, "a.js");
	put_load(0x2000, 64, "JS:*f a.js:4:1");
	read_all();
	cr_expect_str_eq(find(0x1000), "JS:^f a.js:4:1 :0");
	cr_expect_str_eq(find(0x2000), "JS:*f a.js:4:1 a.js:5");
}

Test(jit_file, code_is_moved_and_replaced)
{
	put_load(0x1000, 64, "f");
	read_all();
	put_move(0x1000, 0x2000, 64);
	put_load(0x1000, 64, "g");
	put_move(0x9000, 0x3000, 64);
	read_all();
	cr_expect(changes.replaced);
	cr_expect_str_eq(find(0x1000), "g :0");
	cr_expect_str_eq(find(0x2000), "f :0");
	cr_expect_str_eq(find(0x3000), "none", "where nothing was, nothing is moved from");
}

Test(jit_file, code_has_its_name_at_the_time_of_the_sample)
{
	put_ns = 100;
	put_load(0x1000, 64, "f");
	put_ns = 200;
	put_load(0x1000, 64, "g");
	put_ns = 100;
	put_load(0x2000, 64, "f");
	put_ns = UINT64_MAX;
	put_load(0x2000, 64, "g");
	read_all();
	find_ns = 150;
	cr_expect_str_eq(find(0x1000), "f :0");
	cr_expect_str_eq(find(0x2000), "g :0", "that is another clock");
	find_ns = 200;
	cr_expect_str_eq(find(0x1000), "g :0");
}

Test(jit_file, is_read_on_where_it_ended)
{
	put_load(0x1000, 64, "f");
	put_load(0x2000, 5000, "g");
	const size_t whole = length;
	length -= 4000; /* in the code of g */
	read_all();
	cr_expect_str_eq(find(0x2000), "g :0", "its name is there");
	cr_expect_not(file.unread);
	cr_assert_eq(jit_file_check(&file, &changes), 0);
	cr_expect_not(file.unread, "there is no more");
	length = 4000;
	put_load(0x3000, 64, "h");
	read_all();
	cr_expect_str_eq(find(0x3000), "h :0");
	cr_expect_eq(file.offset, whole + 56 + 2 + 64);
}

/* The bytes of the code are most of such a file. */
Test(jit_file, the_bytes_of_large_code_are_not_read)
{
	for (int i = 0; i < 4; i++)
		put_load(0x100000 + (uint64_t)i * 0x100000, 200 << 10, "f");
	cr_expect_leq(read_all(), 5);
	cr_expect_str_eq(find(0x400000), "f :0");
}

Test(jit_file, is_read_again_when_it_is_shorter)
{
	put_load(0x1000, 64, "f");
	put_load(0x2000, 64, "g");
	read_all();
	cr_assert_eq(ftruncate(writer, 0), 0);
	cr_assert_eq(lseek(writer, 0, SEEK_SET), 0);
	put_header();
	put_load(0x1000, 64, "h");
	read_all();
	cr_expect(changes.replaced);
	cr_expect_str_eq(find(0x1000), "h :0");
	cr_expect_str_eq(find(0x2000), "none");
}

Test(jit_file, keeps_its_names_when_what_follows_is_broken)
{
	put_load(0x1000, 64, "f");
	put_u32(0);
	put_u32(3);
	put_u64(1);
	put_load(0x2000, 64, "g");
	read_all();
	cr_expect_str_eq(find(0x1000), "f :0");
	cr_expect_str_eq(find(0x2000), "none");
	put_load(0x3000, 64, "h");
	read_all();
	cr_expect_str_eq(find(0x3000), "none");
}

Test(jit_file, space_that_is_not_written_yet_is_read_once)
{
	put_load(0x1000, 64, "f");
	flush();
	cr_assert_eq(ftruncate(writer, 1 << 20), 0);
	cr_expect_leq(read_all(), 2);
	cr_expect_str_eq(find(0x1000), "f :0");
}

Test(jit_file, with_too_many_names_has_the_last_ones)
{
	bool dropped = false;

	for (uint32_t i = 0; i <= LIMIT_JIT_ENTRIES; i++) {
		put_load(0x100000 + 16ull * i, 1, "f");
		if (length > sizeof(data) / 2) {
			read_all();
			dropped |= changes.dropped;
		}
	}
	put_load(0x10, 1, "last");
	read_all();
	cr_expect(dropped | changes.dropped);
	cr_expect_str_eq(find(0x10), "last :0");
	cr_expect_str_eq(find(0x100000), "none");
}
