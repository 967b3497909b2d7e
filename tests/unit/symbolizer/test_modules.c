/* SPDX-License-Identifier: Apache-2.0 */
/* Symbols of modules, whose files and order of use the profiled processes choose. */
#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/time_units.h"
#include "symbolizer/namer/named_frames.h"
#include "symbolizer/worker/limits.h"
#include "symbolizer/worker/modules.h"
#include "tests/support/elf_header.h"

enum {
	CODE = 0x1000, /* where the functions begin, in the file and as linked */
	STEP = 16,     /* bytes of a function */
	/* An index takes 12 bytes for each function: one of these fits, two do not. */
	MANY = 2500000,
	TURNS = 200,
};
_Static_assert(12 * MANY < LIMIT_SYMBOLS_FILE_BYTES && 24 * MANY > LIMIT_SYMBOLS_BYTES,
	       "as described");

struct headers {
	Elf64_Ehdr elf;
	Elf64_Phdr load;
	Elf64_Shdr sections[4]; /* none, code, symbols, strings */
	char strings[8];
};

/* Returns the descriptor of a sparse ELF file with `count` functions, all of the name "f". */
static int file_with_functions(size_t count)
{
	const size_t code_bytes = count * STEP, table_bytes = (count + 1) * sizeof(Elf64_Sym);
	struct headers headers = {
	    .elf = ELF_HEADER(.e_type = ET_DYN, .e_machine = EM_X86_64,
			      .e_phoff = offsetof(struct headers, load),
			      .e_shoff = offsetof(struct headers, sections), .e_phnum = 1,
			      .e_shnum = 4),
	    .load = {.p_type = PT_LOAD,
		     .p_flags = PF_R | PF_X,
		     .p_offset = CODE,
		     .p_vaddr = CODE,
		     .p_filesz = code_bytes,
		     .p_memsz = code_bytes,
		     .p_align = 0x1000},
	    .sections = {{0},
			 {.sh_type = SHT_PROGBITS,
			  .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
			  .sh_addr = CODE,
			  .sh_offset = CODE,
			  .sh_size = code_bytes},
			 {.sh_type = SHT_SYMTAB,
			  .sh_offset = CODE + code_bytes,
			  .sh_size = table_bytes,
			  .sh_link = 3,
			  .sh_entsize = sizeof(Elf64_Sym)},
			 {.sh_type = SHT_STRTAB,
			  .sh_offset = offsetof(struct headers, strings),
			  .sh_size = sizeof(headers.strings)}},
	    .strings = "\0f",
	};
	Elf64_Sym *table = calloc(count + 1, sizeof(*table));
	int fd = memfd_create("functions", MFD_CLOEXEC);

	cr_assert_geq(fd, 0);
	cr_assert_not_null(table);
	for (size_t i = 1; i <= count; i++)
		table[i] = (Elf64_Sym){.st_name = 1,
				       .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
				       .st_shndx = 1,
				       .st_value = CODE + (i - 1) * STEP,
				       .st_size = STEP};
	cr_assert_eq(pwrite(fd, &headers, sizeof(headers), 0), (ssize_t)sizeof(headers));
	cr_assert_eq(pwrite(fd, table, table_bytes, (off_t)(CODE + code_bytes)),
		     (ssize_t)table_bytes);
	free(table);
	return fd;
}

static struct module *add(struct modules *modules, uint32_t id, size_t functions)
{
	const struct msg_module message = {.id = id, .path = "/made"};

	cr_assert_eq(modules_add(modules, &message, file_with_functions(functions)), 0);
	return modules_find(modules, id);
}

/* With enough time for all files together, however slow this build is. */
static void init_with_time(struct modules *modules)
{
	modules_init(modules);
	modules->reading.most_ns = 1000 * NS_PER_S;
}

/* Reads in slices until the symbols are there, or an error. */
static int get(struct modules *modules, struct module *module, struct symbols **symbols)
{
	int r;

	while ((r = modules_get_symbols(modules, module, true, symbols)) == -EINPROGRESS)
		modules_read_on(modules);
	return r;
}

/* A stack whose frames alternate between two files must not make both be read for each frame. */
Test(modules, files_that_evict_each_other_are_not_read_each_time)
{
	struct modules modules;
	struct module *large[2];
	struct symbols *symbols;
	unsigned int reads = 0, found = 0;

	init_with_time(&modules);
	large[0] = add(&modules, 1, MANY);
	large[1] = add(&modules, 2, MANY);
	for (unsigned int i = 0; i < TURNS; i++) {
		struct module *module = large[i % 2];
		const bool in_memory = module->symbols != NULL;
		const int r = get(&modules, module, &symbols);

		cr_assert(!r || r == -EAGAIN, "%s", strerror(-r));
		found += !r;
		reads += !r && !in_memory;
	}
	cr_expect_leq(reads, TURNS / 10);
	cr_expect_geq(found, TURNS / 2, "the one in memory is used");
	modules_fini(&modules);
}

Test(modules, symbols_are_read_again_after_a_pause)
{
	struct modules modules;
	struct module *first, *second;
	struct symbols *symbols;

	init_with_time(&modules);
	first = add(&modules, 1, MANY);
	second = add(&modules, 2, MANY);
	cr_assert_eq(get(&modules, first, &symbols), 0);
	cr_assert_eq(get(&modules, second, &symbols), 0);
	cr_assert_null(first->symbols);
	cr_assert_eq(get(&modules, first, &symbols), -EAGAIN);
	first->again_ns = clock_monotonic_ns();
	cr_assert_eq(get(&modules, first, &symbols), 0);
	cr_assert_not_null(symbols);
	modules_fini(&modules);
}

/* Between two slices everything else goes on: others ask, and the module may be removed. */
Test(modules, large_files_are_read_in_slices)
{
	struct modules modules;
	struct symbols *symbols;
	unsigned int slices = 1;

	init_with_time(&modules);
	struct module *large = add(&modules, 1, MANY), *other = add(&modules, 2, 10);
	cr_assert_eq(modules_get_symbols(&modules, large, true, &symbols), -EINPROGRESS);
	cr_expect_eq(modules_get_symbols(&modules, other, true, &symbols), -EINPROGRESS);
	cr_expect_eq(modules_get_symbols(&modules, large, true, &symbols), -EINPROGRESS);
	cr_expect_eq(modules_get_symbols(&modules, large, false, &symbols), -EAGAIN);
	const struct msg_module again = {.id = 1, .path = "/made"};
	int fd = file_with_functions(1);
	cr_expect_eq(modules_add(&modules, &again, fd), -EBUSY);
	close(fd);
	for (; modules_read_on(&modules); slices++)
		;
	cr_expect_geq(slices, 3);
	cr_expect_eq(modules_get_symbols(&modules, large, true, &symbols), 0);
	cr_expect_eq(modules_get_symbols(&modules, other, true, &symbols), 0);
	cr_expect_gt(modules.symbols_bytes, 12 * MANY);

	add(&modules, 3, MANY);
	cr_assert_eq(modules_get_symbols(&modules, modules_find(&modules, 3), true, &symbols),
		     -EINPROGRESS);
	modules_remove(&modules, 3);
	cr_expect_null(modules_find(&modules, 3));
	while (modules_read_on(&modules))
		;
	cr_expect_null(modules.being_read);
	cr_expect_leq(modules.symbols_bytes,
		      symbols_bytes(large->symbols) + symbols_bytes(other->symbols));
	modules_fini(&modules);
}

/* Those whose samples wait for it would lack names otherwise. */
Test(modules, a_file_is_read_to_its_end_whatever_time_is_left)
{
	struct modules modules;
	struct symbols *symbols;

	init_with_time(&modules);
	struct module *large = add(&modules, 1, MANY), *other = add(&modules, 2, 10);
	cr_assert_eq(modules_get_symbols(&modules, large, true, &symbols), -EINPROGRESS);
	time_share_spend(&modules.reading, 2000 * NS_PER_S);
	cr_expect_eq(modules_get_symbols(&modules, large, true, &symbols), -EINPROGRESS);
	while (modules_read_on(&modules))
		;
	cr_expect_eq(modules_get_symbols(&modules, large, true, &symbols), 0);
	cr_expect_eq(modules_get_symbols(&modules, other, true, &symbols), -EAGAIN);
	modules_fini(&modules);
}

Test(modules, reading_may_end_in_the_middle)
{
	struct modules modules;
	struct symbols *symbols;

	init_with_time(&modules);
	struct module *large = add(&modules, 1, MANY);
	cr_assert_eq(modules_get_symbols(&modules, large, true, &symbols), -EINPROGRESS);
	modules_fini(&modules);
}

/* Many files cannot take more than the share of all of them. What is in memory stays useful. */
Test(modules, further_files_wait_when_reading_took_its_share_of_the_time)
{
	struct modules modules;
	struct module *known, *new;
	struct symbols *symbols;

	modules_init(&modules);
	known = add(&modules, 1, 10);
	new = add(&modules, 2, 10);
	cr_assert_eq(get(&modules, known, &symbols), 0);
	time_share_spend(&modules.reading, 1000 * NS_PER_S);
	cr_expect_eq(get(&modules, new, &symbols), -EAGAIN);
	cr_expect_eq(get(&modules, known, &symbols), 0);
	modules.reading.left_ns = 1;
	cr_expect_eq(get(&modules, new, &symbols), 0);
	modules_fini(&modules);
}

Test(modules, further_files_wait_when_the_disk_took_its_share_of_the_time)
{
	struct modules modules;
	struct symbols *symbols;

	modules_init(&modules);
	struct module *known = add(&modules, 1, 10), *new = add(&modules, 2, 10);
	cr_assert_eq(get(&modules, known, &symbols), 0);
	time_share_spend(&modules.waiting, 1000 * NS_PER_S);
	cr_expect_eq(get(&modules, new, &symbols), -EAGAIN);
	cr_expect(time_share_is_left(&modules.reading, clock_monotonic_ns()));
	modules.waiting.left_ns = 1;
	cr_expect_eq(get(&modules, new, &symbols), 0);
	modules_fini(&modules);
}

/* --- lookups by a namer --- */

static uint64_t lookup_ns;	/* 0: the files have no namer */
static unsigned int parts_left; /* that a lookup takes, but for the last one */

bool __wrap_symbols_have_namer(const struct symbols *symbols);
bool __wrap_symbols_have_namer(const struct symbols *symbols)
{
	(void)symbols;
	return lookup_ns > 0;
}

int __wrap_symbols_find_frames(struct symbols *symbols, struct elf_cache *cache,
			       uint64_t file_offset, struct named_frames *frames);
int __wrap_symbols_find_frames(struct symbols *symbols, struct elf_cache *cache,
			       uint64_t file_offset, struct named_frames *frames)
{
	const uint64_t end_ns = clock_monotonic_ns() + lookup_ns;

	(void)symbols;
	(void)cache;
	(void)frames;
	while (clock_monotonic_ns() < end_ns)
		;
	if (parts_left > 0) {
		parts_left--;
		return -EAGAIN;
	}
	return file_offset == CODE ? 0 : -ENOENT;
}

/* A forged file may make each lookup take long. */
Test(modules, a_namer_that_is_slow_leaves_time_to_others)
{
	struct modules modules;
	struct symbols *symbols;
	struct named_frames frames;

	init_with_time(&modules);
	struct module *slow = add(&modules, 1, 10), *other = add(&modules, 2, 10);
	cr_assert_eq(get(&modules, slow, &symbols), 0);
	cr_assert_eq(get(&modules, other, &symbols), 0);
	cr_expect_eq(modules_find_frames(&modules, slow, CODE, &frames), -ENOENT, "no namer");

	/* One file alone may have half of the time. */
	lookup_ns = 5 * NS_PER_MS;
	unsigned int lookups = 0;
	while (lookups <= LIMIT_NAMERS_TIME_MS / 5 &&
	       modules_find_frames(&modules, slow, CODE, &frames) == 0)
		lookups++;
	cr_expect_geq(lookups, 10, "%u lookups", lookups);
	cr_expect_leq(lookups, LIMIT_NAMERS_TIME_MS / 5, "%u lookups", lookups);
	cr_expect_eq(modules_find_frames(&modules, slow, CODE, &frames), -EAGAIN);
	cr_expect_eq(modules_find_frames(&modules, other, CODE + 1, &frames), -ENOENT,
		     "another file does not wait");
	slow->naming.used_ns = 0;
	cr_expect_eq(modules_find_frames(&modules, slow, CODE, &frames), 0);

	/* All files together have a share of the time. */
	slow->naming.used_ns = 0;
	time_share_spend(&modules.naming, 2000 * NS_PER_S);
	cr_expect_eq(modules_find_frames(&modules, slow, CODE, &frames), -EAGAIN);
	/* It is not that of symbols. */
	cr_expect(time_share_is_left(&modules.reading, clock_monotonic_ns()));
	modules_fini(&modules);
}

/* What a lookup has begun is not left to further lookups, of which there may be few. */
Test(modules, a_namer_reads_on_between_lookups)
{
	struct modules modules;
	struct symbols *symbols;
	struct named_frames frames;

	init_with_time(&modules);
	modules.naming.most_ns = 1000 * NS_PER_S;
	struct module *module = add(&modules, 1, 10);
	cr_assert_eq(get(&modules, module, &symbols), 0);
	cr_expect_eq(modules_name_on(&modules, true), -1, "there is nothing to be done");

	lookup_ns = 5 * NS_PER_MS;
	parts_left = 3;
	cr_expect_eq(modules_find_frames(&modules, module, CODE, &frames), -EAGAIN);
	cr_expect_gt(modules_name_on(&modules, false), 0, "samples have to be taken first");
	cr_expect_eq(modules_find_frames(&modules, module, CODE, &frames), -EAGAIN);
	cr_expect_eq(parts_left, 2, "lookups leave the index to ticks");
	cr_expect_eq(modules_name_on(&modules, true), 0);
	const uint64_t used_ns = module->naming.used_ns;
	module->naming.used_ns = 2000 * NS_PER_S;
	cr_expect_gt(modules_name_on(&modules, true), 0, "there is no time");
	cr_expect_eq(parts_left, 1);
	module->naming.used_ns = used_ns;
	cr_expect_eq(modules_name_on(&modules, true), 0);
	cr_expect_eq(modules_name_on(&modules, true), -1);
	cr_expect_eq(parts_left, 0);
	cr_expect_eq(modules_find_frames(&modules, module, CODE, &frames), 0);
	cr_expect_eq(modules_name_on(&modules, true), -1, "nothing is left of it");

	/* When the index is complete, a lookup that takes longer does not concern others. */
	parts_left = 1;
	cr_expect_eq(modules_find_frames(&modules, module, CODE, &frames), -EAGAIN);
	cr_expect_eq(modules_find_frames(&modules, module, CODE + 1, &frames), -ENOENT);
	cr_expect_eq(modules_name_on(&modules, true), -1);

	/* The file, or what was read of it, may be gone. */
	parts_left = 2;
	cr_expect_eq(modules_find_frames(&modules, module, CODE, &frames), -EAGAIN);
	modules_remove(&modules, 1);
	cr_expect_eq(modules_name_on(&modules, true), -1);
	cr_expect_eq(parts_left, 1);
	module = add(&modules, 2, 10);
	cr_assert_eq(get(&modules, module, &symbols), 0);
	cr_expect_eq(modules_find_frames(&modules, module, CODE, &frames), -EAGAIN);
	lookup_ns = 0;
	cr_expect_eq(modules_name_on(&modules, true), -1);
	cr_expect_null(modules.being_named);
	modules_fini(&modules);
}

/* An earlier worker hung or died while it read this file. */
Test(modules, symbols_of_a_file_that_is_left_alone_are_read_later)
{
	static struct work_page page;
	struct modules modules;
	struct symbols *symbols;

	init_with_time(&modules);
	modules.work_page = &page;
	struct module *module = add(&modules, 1, 10), *other = add(&modules, 2, 10);
	const struct quarantine_key file = {QUARANTINE_FILE,
					    {module->subject.device, module->subject.inode}};
	quarantine_add(&page.quarantine, &file, clock_monotonic_ns());
	cr_expect_eq(get(&modules, module, &symbols), -ECANCELED);
	cr_expect_eq(page.subject.inode, 0, "it was not worked on");
	cr_expect_eq(get(&modules, other, &symbols), 0);
	cr_expect_eq(page.subject.inode, other->subject.inode);
	cr_expect_eq(page.working, 0);
	page.quarantine = (struct quarantine){0};
	cr_expect_eq(get(&modules, module, &symbols), 0);
	modules_fini(&modules);
}

/* Files that only pretend to be of a language runtime may take long to look at. */
Test(modules, recognition_of_runtimes_has_a_share_of_the_time)
{
	struct modules modules;
	struct module *module;

	modules_init(&modules);
	module = add(&modules, 1, 1);
	cr_expect(modules_may_recognise(&modules, module));
	time_share_spend(&modules.recognising, 1000 * NS_PER_S);
	cr_expect_not(modules_may_recognise(&modules, module));
	modules_fini(&modules);
}

Test(modules, all_are_visited_once)
{
	struct modules modules;
	uint32_t sum = 0;

	modules_init(&modules);
	cr_expect_null(modules_next(&modules, NULL));
	add(&modules, 1, 1);
	add(&modules, MODULES_BUCKETS + 1, 1);
	add(&modules, MODULES_BUCKETS - 1, 1);
	for (struct module *m = NULL; (m = modules_next(&modules, m));)
		sum += m->id;
	cr_expect_eq(sum, 1 + MODULES_BUCKETS + 1 + MODULES_BUCKETS - 1);
	modules_fini(&modules);
}
