/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_tables [--json] [FILE...]: builds the unwind table of each file as the manager does (read,
 * build, place, free the builder). It measures how long that takes, how large the table is, and how
 * much memory the process needs meanwhile.
 *
 * Each file is measured in two processes of its own: one for the times, one for the memory.
 */
#include <elf.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "common/clock.h"
#include "role/role.h"
#include "tests/support/unwind_memory.h"

enum {
	ROUNDS_MIN = 15,
	ROUNDS_MAX = 200,
	ROUNDS_MS = 500, /* small files get as many rounds as fit in this time */
	SLABS = 31
};

struct bench_speed {
	double best, median; /* MB of .eh_frame per second */
};

struct bench_result {
	int error;
	uint64_t eh_frame_bytes, rows, deltas, rules, slab_bytes, index_bytes, peak_bytes;
	struct bench_speed all, build, place;
};

struct bench_file {
	int fd;
	struct elf_source source;
};

static int read_fd(void *context, uint64_t offset, void *buffer, size_t length)
{
	ssize_t n = pread(*(const int *)context, buffer, length, (off_t)offset);

	if (n < 0)
		return -errno;
	return (size_t)n == length ? 0 : -ENODATA;
}

static int file_open(struct bench_file *file, const char *path)
{
	struct stat st;

	file->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (file->fd < 0 || fstat(file->fd, &st) < 0)
		return -errno;
	file->source = (struct elf_source){
	    .read = read_fd, .context = &file->fd, .size = (uint64_t)st.st_size};
	return 0;
}

static uint64_t eh_frame_bytes(const struct elf_source *source)
{
	struct elf_image image;

	if (elf_image_init(&image, source) < 0)
		return 0;
	const struct elf_section *section = elf_image_find_section(&image, ".eh_frame");
	const uint64_t bytes = section ? section->size : 0;
	elf_image_fini(&image);
	return bytes;
}

/* Creates slabs whose pages exist already, like those of the kernel when the manager maps them. */
static int memory_init(struct unwind_memory *memory)
{
	int r = unwind_memory_init(memory, SLABS);

	for (unsigned int i = 0; i < memory->slabs.count && !r; i++)
		memset(memory->slabs.slabs[i].data, 1, BH_SLAB_BYTES);
	if (!r)
		memset(memory->rules->table + BH_RULE_IDS_FIXED, 1,
		       (RULES_MAX - BH_RULE_IDS_FIXED) * sizeof(struct bh_rule));
	return r;
}

static uint64_t count_deltas(const struct unwind_memory *memory, const struct table *table)
{
	const struct bh_page *pages = slabs_at(&memory->slabs, &table->pages);
	uint64_t count = 0;

	for (uint32_t i = 0; i < table->page_count; i++) {
		/* Pages with the same single delta share it. */
		if (!i || pages[i].offset != pages[i - 1].offset ||
		    pages[i].slab != pages[i - 1].slab)
			count += pages[i].count;
	}
	return count;
}

/* Returns CPU time, because other programs may be running. The files are in the page cache. */
static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

/* Builds one table and frees everything. */
static int build(struct unwind_memory *memory, const struct elf_source *source,
		 struct bench_result *result, uint64_t *draft_ns, uint64_t *place_ns)
{
	struct unwind_table_builder builder;
	struct table table;

	const uint64_t begin = cpu_ns();
	int r = unwind_table_build(&builder, memory->rules, RULES_MAX, source);
	const uint64_t middle = cpu_ns();
	if (r < 0)
		return r;
	result->rows = builder.row_count;
	r = table_place(&table, &builder, &memory->slabs);
	unwind_table_builder_fini(&builder, memory->rules, 0);
	*draft_ns = middle - begin;
	*place_ns = cpu_ns() - middle;
	if (r < 0)
		return r;
	result->deltas = count_deltas(memory, &table);
	result->rules = table.rule_count;
	result->slab_bytes = table.bytes;
	result->index_bytes = table.pages.bytes;
	table_retire(&table, &memory->slabs, memory->rules, 0);
	slabs_reclaim(&memory->slabs, UINT64_MAX);
	return 0;
}

static int compare_ns(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static struct bench_speed speed_of(uint64_t *ns, size_t rounds, uint64_t bytes)
{
	qsort(ns, rounds, sizeof(*ns), compare_ns);
	return (struct bench_speed){.best = (double)bytes * 1e3 / (double)ns[0],
				    .median = (double)bytes * 1e3 / (double)ns[rounds / 2]};
}

static int measure_time(const struct bench_file *file, struct bench_result *result)
{
	static uint64_t all[ROUNDS_MAX], build_times[ROUNDS_MAX], place[ROUNDS_MAX];
	struct unwind_memory memory;
	size_t rounds = 0;
	int r = memory_init(&memory);

	result->eh_frame_bytes = eh_frame_bytes(&file->source);
	const uint64_t begin = clock_monotonic_ns();
	while (!r && rounds < ROUNDS_MAX &&
	       (rounds < ROUNDS_MIN || clock_monotonic_ns() - begin < ROUNDS_MS * 1000000ull)) {
		r = build(&memory, &file->source, result, &build_times[rounds], &place[rounds]);
		all[rounds] = build_times[rounds] + place[rounds];
		rounds++;
	}
	result->all = speed_of(all, rounds, result->eh_frame_bytes);
	result->build = speed_of(build_times, rounds, result->eh_frame_bytes);
	result->place = speed_of(place, rounds, result->eh_frame_bytes);
	return r;
}

static uint64_t resident_peak(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (uint64_t)usage.ru_maxrss << 10;
}

/* Measures the peak memory beyond that of a process that has built some other table. */
static int measure_memory(const struct bench_file *file, struct bench_result *result)
{
	struct unwind_memory memory;
	struct bench_file other;
	uint64_t ns[2];
	int r = memory_init(&memory);

	if (!r)
		r = file_open(&other, "/proc/self/exe");
	if (!r)
		r = build(&memory, &other.source, result, &ns[0], &ns[1]);
	if (r < 0)
		return r;
	const uint64_t before = resident_peak();
	r = build(&memory, &file->source, result, &ns[0], &ns[1]);
	result->peak_bytes = resident_peak() - before;
	return r;
}

/* Runs in a process of its own, with the allocator settings of a role. */
static int in_child(int (*measure)(const struct bench_file *, struct bench_result *),
		    const char *path, struct bench_result *result)
{
	int ends[2];

	if (pipe(ends) < 0)
		return -errno;
	const pid_t child = fork();
	if (!child) {
		struct bench_file file;

		role_tune_memory();
		result->error = file_open(&file, path);
		if (!result->error)
			result->error = measure(&file, result);
		_exit(write(ends[1], result, sizeof(*result)) != sizeof(*result));
	}
	close(ends[1]);
	const ssize_t n = child < 0 ? -1 : read(ends[0], result, sizeof(*result));
	close(ends[0]);
	if (child > 0)
		waitpid(child, NULL, 0);
	return n == sizeof(*result) ? result->error : -EPIPE;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static void print_line(const char *path, const struct bench_result *r)
{
	printf("%-24.24s %6.2f %6.0f %6.0f %6.0f %6.0f %9lu %9lu %6lu %9.1f %8.2f %7.1f %7.2f\n",
	       base_name(path), (double)r->eh_frame_bytes / 1e6, r->build.best, r->place.best,
	       r->all.best, r->all.median, r->rows, r->deltas, r->rules,
	       (double)r->slab_bytes / 1e3, (double)r->slab_bytes / (double)r->deltas,
	       100.0 * (double)r->index_bytes / (double)r->slab_bytes, (double)r->peak_bytes / 1e6);
}

static void print_json(const char *path, const struct bench_result *r, bool first)
{
	printf("%s{\"file\":\"%s\",\"eh_frame_bytes\":%lu,"
	       "\"mb_per_s\":{\"best\":%.1f,\"median\":%.1f},"
	       "\"draft_mb_per_s\":{\"best\":%.1f,\"median\":%.1f},"
	       "\"place_mb_per_s\":{\"best\":%.1f,\"median\":%.1f},"
	       "\"rows\":%lu,\"deltas\":%lu,\"rules\":%lu,\"slab_bytes\":%lu,"
	       "\"bytes_per_delta\":%.3f,\"peak_bytes\":%lu}",
	       first ? "" : ",\n ", path, r->eh_frame_bytes, r->all.best, r->all.median,
	       r->build.best, r->build.median, r->place.best, r->place.median, r->rows, r->deltas,
	       r->rules, r->slab_bytes, (double)r->slab_bytes / (double)r->deltas, r->peak_bytes);
}

static bool bench(const char *path, bool json, bool first)
{
	struct bench_result times = {0}, memory = {0};
	int r = in_child(measure_time, path, &times);

	if (!r)
		r = in_child(measure_memory, path, &memory);
	if (r < 0) {
		fprintf(stderr, "%s: %s\n", path, strerror(-r));
		return false;
	}
	times.peak_bytes = memory.peak_bytes;
	if (json)
		print_json(path, &times, first);
	else
		print_line(path, &times);
	fflush(stdout);
	return true;
}

int main(int argc, char **argv)
{
	static const char *const usual[] = {
	    "/usr/lib/x86_64-linux-gnu/libc.so.6",
	    "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
	    "/usr/bin/gdb",
	    "/usr/bin/node",
	    "/usr/lib/jvm/java-17-openjdk-amd64/lib/server/libjvm.so",
	    "/usr/lib/jvm/temurin-25-jdk-amd64/lib/server/libjvm.so",
	    "/usr/lib/x86_64-linux-gnu/libLLVM-14.so.1",
	};
	const bool json = argc > 1 && !strcmp(argv[1], "--json");
	const char *const *paths = (const char *const *)argv + 1 + json;
	size_t count = (size_t)(argc - 1 - json), done = 0;

	if (!count) {
		paths = usual;
		count = sizeof(usual) / sizeof(usual[0]);
	}
	if (json) {
		printf("[");
	} else {
		printf("%-24s %6s %27s %9s %9s %6s %9s %8s %7s %7s\n", "", "",
		       "MB of .eh_frame a s (best)", "", "", "", "", "bytes a", "% page", "peak");
		printf("%-24s %6s %6s %6s %6s %6s %9s %9s %6s %9s %8s %7s %7s\n", "file", "MB",
		       "build", "place", "all", "median", "rows", "deltas", "rules", "kB", "delta",
		       "index", "MB");
	}
	for (size_t i = 0; i < count; i++)
		done += bench(paths[i], json, !done);
	if (json)
		printf("]\n");
	return done == count || paths == usual ? 0 : 1;
}
