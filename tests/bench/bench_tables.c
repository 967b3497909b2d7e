/* SPDX-License-Identifier: Apache-2.0 */
/* How fast a module's table is built (draft and placement), and how large it is: bench_tables
 * [FILE...]. */
#include <elf.h>
#include <stdio.h>

#include "common/clock.h"
#include "tests/support/unwind_memory.h"

enum {
	ROUNDS = 10,
	SLABS = 31
};

static uint64_t eh_frame_bytes(const struct elf_source *source)
{
	struct elf_image image;
	uint64_t bytes = 0;

	if (elf_image_init(&image, source) < 0)
		return 0;
	const struct elf_section *section = elf_image_find_section(&image, ".eh_frame");
	if (section)
		bytes = section->size;
	elf_image_fini(&image);
	return bytes;
}

static uint64_t count_deltas(const struct unwind_memory *memory, const struct table *table)
{
	const struct bh_page *pages = slabs_at(&memory->slabs, &table->pages);
	uint64_t count = 0;

	for (uint32_t i = 0; i < table->page_count; i++) {
		/* Pages of one delta share it. */
		if (!i || pages[i].offset != pages[i - 1].offset ||
		    pages[i].slab != pages[i - 1].slab)
			count += pages[i].count;
	}
	return count;
}

/* Built anew with empty rules and slabs each time. */
static int bench_round(const struct elf_source *source, uint64_t *draft_ns, uint64_t *place_ns,
		       char *line, size_t line_bytes)
{
	struct unwind_memory memory;
	struct table_draft draft;
	struct table table;

	if (unwind_memory_init(&memory, SLABS) < 0)
		return -ENOMEM;
	const uint64_t begin = clock_monotonic_ns();
	int r = table_draft(&draft, memory.rules, source);
	const uint64_t middle = clock_monotonic_ns();
	const size_t rows = draft.row_count;
	if (!r)
		r = table_place(&table, &draft, &memory.slabs);
	*draft_ns = middle - begin;
	*place_ns = clock_monotonic_ns() - middle;
	if (!r) {
		const uint64_t deltas = count_deltas(&memory, &table);

		snprintf(line, line_bytes, "%9zu %9lu %6zu %9.1f %8.2f %7.1f", rows, deltas,
			 table.rule_count, (double)table.bytes / 1e3,
			 (double)table.bytes / (double)deltas,
			 100.0 * (double)table.pages.bytes / (double)table.bytes);
		table_retire(&table, &memory.slabs, memory.rules, 0);
	}
	table_draft_fini(&draft, memory.rules, 0);
	unwind_memory_fini(&memory);
	return r;
}

static void bench(const char *path)
{
	struct unwind_file file;
	uint64_t best_draft = UINT64_MAX, best_place = UINT64_MAX;
	char line[160];

	if (unwind_file_read(&file, path) < 0)
		return;
	const struct elf_source *source = unwind_file_source(&file);
	const double bytes = (double)eh_frame_bytes(source);
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t draft_ns, place_ns;
		int r = bench_round(source, &draft_ns, &place_ns, line, sizeof(line));

		if (r < 0) {
			printf("%s: %s\n", path, strerror(-r));
			break;
		}
		best_draft = draft_ns < best_draft ? draft_ns : best_draft;
		best_place = place_ns < best_place ? place_ns : best_place;
		if (i == ROUNDS - 1)
			printf("%-28.28s %6.2f %6.0f %6.0f %6.0f %s\n",
			       strrchr(path, '/') ? strrchr(path, '/') + 1 : path, bytes / 1e6,
			       bytes * 1e3 / (double)best_draft, bytes * 1e3 / (double)best_place,
			       bytes * 1e3 / (double)(best_draft + best_place), line);
	}
	free(file.data);
}

int main(int argc, char **argv)
{
	static const char *const usual[] = {
	    "/usr/lib/x86_64-linux-gnu/libc.so.6",
	    "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
	    "/usr/bin/gdb",
	    "/usr/bin/cmake",
	    "/usr/lib/x86_64-linux-gnu/libLLVM-14.so.1",
	};

	printf("%-28s %6s %20s %9s %9s %6s %9s %8s %7s\n", "", "", "MB of .eh_frame a s", "", "",
	       "", "", "bytes a", "% page");
	printf("%-28s %6s %6s %6s %6s %9s %9s %6s %9s %8s %7s\n", "file", "MB", "draft", "place",
	       "all", "rows", "deltas", "rules", "kB", "delta", "index");
	for (int i = 1; i < argc; i++)
		bench(argv[i]);
	for (size_t i = 0; argc < 2 && i < sizeof(usual) / sizeof(usual[0]); i++)
		bench(usual[i]);
	return 0;
}
