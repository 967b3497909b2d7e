/* SPDX-License-Identifier: Apache-2.0 */
/* The images that a process keeps for debuggers. The process is this one: its list, its code memory, and the test program as the file with the descriptor. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "symbolizer/runtime/limits.h"
#include "symbolizer/runtime/runtime.h"
#include "tests/support/jit_image_object.h"
#include "tests/support/timespec_add.h"

#define CODE 0x7f1200001000ull
#define NEXT_CODE 0x7f1200005000ull

enum {
	READS = 2048,
	BYTES = 4 << 20,
	/* Longer than the list is not read again after a miss. */
	PAUSE_MS = 2000,
	MANY = JIT_DEBUG_ENTRIES_MAX + 100,
};

static struct runtime_process process;
static struct memory memory;
static struct named_frames frames;
static struct jit_code_entry first, second, many[MANY];
static void *image;
static uint64_t skipped_ns;
static bool stopped; /* the clock is */

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	static struct timespec last;
	const int r = stopped ? 0 : __real_clock_gettime(clock, &last);

	*now = last;
	timespec_add(now, skipped_ns);
	return r;
}

static int take_bias(struct dl_phdr_info *info, size_t size, void *bias)
{
	(void)size;
	*(uint64_t *)bias = info->dlpi_addr;
	return 1;
}

static void setup(void)
{
	struct runtime_file file;
	struct runtime_refusal refusal;
	const int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	cr_assert_eq(runtime_file_init(&file, fd, "test"), 0);
	cr_assert_eq(runtime_jit_debug.recognise(&file, &image, &refusal), 0);
	runtime_file_fini(&file);
	close(fd);
	memory = (struct memory){.fd = -1, .pid = getpid()};
	process = (struct runtime_process){.ops = &runtime_jit_debug, .image = image, .path = "test", .memory = &memory};
	dl_iterate_phdr(take_bias, &process.bias);
	__jit_debug_descriptor = (struct jit_descriptor){.version = 1};
}

static void teardown(void)
{
	runtime_jit_debug.detach(&process);
	runtime_jit_debug.release(image);
}

TestSuite(jit_debug, .init = setup, .fini = teardown);

static void list(struct jit_code_entry *entry, const char *object, const char *end, uint64_t code, struct jit_code_entry *next)
{
	*entry = (struct jit_code_entry){.next_entry = next, .symfile_addr = jit_copy(object, end, (void *)(uintptr_t)code), .symfile_size = (uint64_t)(end - object)};
}

static void list_first(void)
{
	list(&first, jit_object, jit_object_end, CODE, NULL);
	__jit_debug_descriptor.first_entry = &first;
}

static void unlist(struct jit_code_entry *entry)
{
	free((void *)(uintptr_t)entry->symfile_addr);
}

static int attach(void)
{
	memory_allow(&memory, READS, BYTES);
	return runtime_jit_debug.attach(&process);
}

/* Names an address after the time in which a miss does not count. */
static int name(uint64_t address)
{
	const uint64_t word = bh_frame_raw(address);

	skipped_ns += PAUSE_MS * 1000000ull;
	memory_allow(&memory, READS, BYTES);
	return runtime_jit_debug.symbolize(&process, &word, &frames);
}

#define expect_name(address, expected)                                                             \
	do {                                                                                       \
		cr_assert_eq(name(address), 0);                                                    \
		cr_expect_str_eq(frames.frames[frames.count - 1].function, expected);              \
	} while (0)

Test(jit_debug, names_lines_and_inlined_functions)
{
	cr_assert_eq(attach(), 0);
	cr_expect_eq(name(CODE), -ENOENT);
	list_first();
	expect_name(CODE + 4, "inner");
	cr_expect_eq(frames.count, 2);
	cr_expect_str_eq(frames.frames[0].function, "spin");
	cr_expect(frames.frames[0].line > 0 && strstr(frames.frames[0].file, "jit_image_code.c"));
	expect_name(CODE + jit_entry_offset(jit_object), "outer");
	cr_expect_eq(name(CODE - 1), -ENOENT);
	cr_expect_eq(name(NEXT_CODE), -ENOENT);
	cr_expect_gt(process.cached_bytes, 1000);
	unlist(&first);
}

/* Without debug information, the symbol has the name. */
Test(jit_debug, names_of_symbols)
{
	list_first();
	Elf64_Ehdr *elf = (Elf64_Ehdr *)(uintptr_t)first.symfile_addr;
	Elf64_Shdr *sections = (Elf64_Shdr *)((char *)elf + elf->e_shoff);
	for (unsigned int i = 0; i < elf->e_shnum; i++) {
		if (sections[i].sh_type == SHT_PROGBITS && !(sections[i].sh_flags & SHF_ALLOC))
			sections[i].sh_type = SHT_NOBITS;
	}
	cr_assert_eq(attach(), 0);
	expect_name(CODE + 4, "inner");
	cr_expect_eq(frames.count, 1);
	cr_expect(frames.frames[0].mangled);
	unlist(&first);
}

Test(jit_debug, names_that_come_change_those_of_before)
{
	cr_assert_eq(attach(), 0);
	list(&second, jit_next, jit_next_end, NEXT_CODE, NULL);
	__jit_debug_descriptor.first_entry = &second;
	expect_name(NEXT_CODE, "next_inner");
	cr_expect_eq(name(CODE), -ENOENT);
	cr_assert_eq(attach(), 0);
	cr_expect_eq(process.names_changed, 0);
	list(&first, jit_object, jit_object_end, CODE, &second);
	__jit_debug_descriptor.first_entry = &first;
	cr_assert_eq(attach(), 0);
	cr_expect_eq(process.names_changed, 1);
	expect_name(CODE, "inner");
	cr_assert_eq(attach(), 0);
	cr_expect_eq(process.names_changed, 1);
	unlist(&first);
	unlist(&second);
}

Test(jit_debug, a_removed_image_has_no_names)
{
	list_first();
	cr_assert_eq(attach(), 0);
	expect_name(CODE, "inner");
	__jit_debug_descriptor.first_entry = NULL;
	cr_assert_eq(attach(), 0);
	cr_expect_eq(process.names_changed, 1);
	cr_expect_eq(name(CODE), -ENOENT);
	unlist(&first);
}

/* It has the same entry, address and size. */
Test(jit_debug, an_image_that_was_replaced_at_its_place)
{
	list(&first, jit_next, jit_next_end, CODE, NULL);
	__jit_debug_descriptor.first_entry = &first;
	cr_assert_eq(attach(), 0);
	expect_name(CODE, "next_inner");
	char *found = memmem(first.symfile_addr, first.symfile_size, "next_inner", sizeof("next_inner"));
	while (found) {
		memcpy(found, "last", 4);
		found = memmem(first.symfile_addr, first.symfile_size, "next_inner", sizeof("next_inner"));
	}
	cr_assert_eq(attach(), 0);
	cr_expect_eq(process.names_changed, 1);
	expect_name(CODE, "last_inner");
	unlist(&first);
}

/* Entry and image were freed, and allocated again for other code. */
Test(jit_debug, the_same_entry_for_other_code)
{
	list_first();
	cr_assert_eq(attach(), 0);
	expect_name(CODE, "inner");
	jit_text((char *)(uintptr_t)first.symfile_addr)->sh_addr = NEXT_CODE;
	expect_name(NEXT_CODE, "inner");
	cr_expect_eq(process.names_changed, 1);
	cr_expect_eq(name(CODE), -ENOENT);
	unlist(&first);
}

Test(jit_debug, the_list_is_not_read_for_each_miss)
{
	const uint64_t word = bh_frame_raw(NEXT_CODE);

	list_first();
	cr_assert_eq(attach(), 0);
	stopped = true;
	cr_expect_eq(name(NEXT_CODE), -ENOENT);
	const unsigned int left = memory.reads_left;
	cr_expect_lt(left, READS);
	cr_expect_eq(runtime_jit_debug.symbolize(&process, &word, &frames), -ENOENT);
	cr_expect_eq(memory.reads_left, left);
	skipped_ns += 10 * 1000000ull;
	cr_expect_eq(runtime_jit_debug.symbolize(&process, &word, &frames), -ENOENT);
	cr_expect_lt(memory.reads_left, left);
	unlist(&first);
}

/* The list may be read while the process still writes the image. */
Test(jit_debug, an_image_that_is_written_later)
{
	const size_t size = (size_t)(jit_object_end - jit_object);
	char *object = calloc(1, size);

	first = (struct jit_code_entry){.symfile_addr = object, .symfile_size = size};
	__jit_debug_descriptor.first_entry = &first;
	cr_expect_eq(attach(), 0);
	cr_expect_eq(name(CODE), -ENOENT);
	cr_expect_eq(attach(), 0);
	cr_expect_eq(process.names_changed, 0);
	memcpy(object, jit_object, size);
	jit_text(object)->sh_addr = CODE;
	cr_expect_eq(attach(), 0);
	cr_expect_eq(process.names_changed, 1);
	expect_name(CODE, "inner");
	unlist(&first);
}

/* Nobody asks for names. */
Test(jit_debug, the_list_of_an_idle_process_is_not_read)
{
	list_first();
	cr_assert_eq(attach(), 0);
	cr_expect_eq(memory.reads_left, READS);
	expect_name(CODE, "inner");
	cr_assert_eq(attach(), 0);
	cr_expect_lt(memory.reads_left, READS);
	skipped_ns += 60 * 1000000000ull;
	cr_assert_eq(attach(), 0);
	cr_expect_eq(memory.reads_left, READS);
	unlist(&first);
}

Test(jit_debug, code_that_follows_its_image)
{
	static struct runtime_code_memory code = {.count = 2};
	const size_t size = (size_t)(jit_object_end - jit_object);
	char *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const uint64_t start = (uint64_t)(uintptr_t)mapped + jit_text((char *)(uintptr_t)jit_object)->sh_offset;

	memcpy(mapped, jit_object, size);
	/* Before the first area is nothing. */
	code.areas[0] = (struct runtime_code_area){.start = 0x10000, .end = 0x11000};
	code.areas[1] = (struct runtime_code_area){.start = start, .end = start + 4096};
	process.code_memory = &code;
	cr_assert_eq(attach(), 0);
	expect_name(start + 4, "inner");
	cr_expect_eq(frames.count, 2);
	code.count = 0;
	cr_assert_eq(attach(), 0);
	cr_expect_eq(process.names_changed, 1);
	cr_expect_eq(name(start + 4), -ENOENT);
	munmap(mapped, size);
}

Test(jit_debug, forged_lists_end)
{
	list_first();
	cr_assert_eq(attach(), 0);
	/* A circle of the first entry and one whose image is nowhere. */
	second = (struct jit_code_entry){.next_entry = &first, .symfile_addr = (const char *)16, .symfile_size = 4096};
	first.next_entry = &second;
	expect_name(CODE, "inner");
	/* To where no memory is. */
	first.next_entry = (struct jit_code_entry *)8;
	cr_assert_eq(attach(), 0);
	expect_name(CODE, "inner");
	cr_expect_eq(process.names_changed, 0);
	unlist(&first);
}

/* The reads of one attempt are not enough for all of them. Those that were read are kept, and the next attempt goes on. */
Test(jit_debug, a_long_list)
{
	for (unsigned int i = 0; i < MANY; i++) {
		list(&many[i], jit_object, jit_object_end, CODE + (uint64_t)i * 4096, i + 1 < MANY ? &many[i + 1] : NULL);
		many[i].prev_entry = i ? &many[i - 1] : NULL;
	}
	__jit_debug_descriptor.first_entry = &many[0];
	cr_assert_eq(attach(), 0);
	expect_name(CODE, "inner");
	int r = -EDQUOT;
	unsigned int attempts = 0;
	for (; r == -EDQUOT && attempts < 100; attempts++) {
		memory_allow(&memory, 5 * READS, 16 * BYTES);
		r = runtime_jit_debug.attach(&process);
	}
	cr_expect_eq(r, 0);
	cr_expect_gt(attempts, 1);
	memory_allow(&memory, 16 * READS, 16 * BYTES);
	const uint64_t last = bh_frame_raw(CODE + (uint64_t)(JIT_DEBUG_ENTRIES_MAX - 1) * 4096);
	cr_assert_eq(runtime_jit_debug.symbolize(&process, &last, &frames), 0);
	cr_expect_str_eq(frames.frames[frames.count - 1].function, "inner");
	/* As long as what was named is there, the list is not read again. */
	const uint64_t before = process.names_changed;
	memory_allow(&memory, 16 * READS, 16 * BYTES);
	cr_expect_eq(runtime_jit_debug.attach(&process), 0);
	cr_expect_gt(memory.reads_left, 16 * READS - 100);
	many[JIT_DEBUG_ENTRIES_MAX - 2].next_entry = NULL;
	memory_allow(&memory, 16 * READS, 16 * BYTES);
	cr_expect_eq(runtime_jit_debug.attach(&process), 0);
	cr_expect_lt(memory.reads_left, 13 * READS);
	cr_expect_eq(process.names_changed, before + 1);
	/* No more copies than that are kept. */
	for (uint64_t i = 0; i < 2 * JIT_DEBUG_IMAGES_MAX; i++) {
		const uint64_t word = bh_frame_raw(CODE + i * 4096);

		memory_allow(&memory, READS, BYTES);
		cr_expect_eq(runtime_jit_debug.symbolize(&process, &word, &frames), 0);
	}
	cr_expect_lt(process.cached_bytes, JIT_DEBUG_ENTRIES_MAX * 64 + JIT_DEBUG_IMAGES_MAX * (128 << 10));
	runtime_jit_debug.drop_cache(&process);
	cr_expect_eq(process.cached_bytes, 0);
	for (unsigned int i = 0; i < MANY; i++)
		unlist(&many[i]);
}

Test(jit_debug, versions)
{
	list_first();
	__jit_debug_descriptor.version = 0;
	cr_assert_eq(attach(), 0);
	cr_expect_eq(name(CODE), -ENOENT);
	cr_expect_eq(attach(), -EAGAIN);
	__jit_debug_descriptor.version = 2;
	cr_expect_eq(attach(), -ENOTSUP);
	cr_expect(strstr(process.refusal.text, "version"));
	__jit_debug_descriptor.version = 1;
	expect_name(CODE, "inner");
	unlist(&first);
}

Test(jit_debug, files_without_the_symbols_are_not_recognised)
{
	struct runtime_file file;
	struct runtime_refusal refusal;
	void *none = NULL;
	const int fd = open("/bin/sh", O_RDONLY | O_CLOEXEC);

	cr_assert_eq(runtime_file_init(&file, fd, "sh"), 0);
	cr_expect_eq(runtime_jit_debug.recognise(&file, &none, &refusal), -ENOENT);
	runtime_file_fini(&file);
	close(fd);
}
