/* SPDX-License-Identifier: Apache-2.0 */
/* bench_cfi FILE: measures how fast cfi_parse() reads and parses the .eh_frame of a real file. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#include "common/cleanup.h"
#include "parse/cfi.h"
#include "parse/elf_image.h"
#include "tests/support/cfi_rules.h"

enum {
	ROUNDS = 30,
	SECTION_BYTES_MAX = 1 << 30
};

static int file_read(void *context, uint64_t offset, void *buffer, size_t length)
{
	ssize_t n = pread(*(int *)context, buffer, length, (off_t)offset);

	if (n < 0)
		return -errno;
	return (size_t)n == length ? 0 : -ENODATA;
}

static double cpu_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void bench_section(const struct cfi_section *section)
{
	const struct cfi_budget budget = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
	struct cfi_stats stats = {0};
	struct cfi_sum sum = {.sum = 0};
	const struct cfi_sink sink = {.context = &sum, .rule = cfi_sum_rule, .fde = cfi_sum_rows};
	double best = 1e9, total = 0;

	if (cfi_rules_init(&sum.rules) < 0)
		return;
	for (int i = 0; i < ROUNDS; i++) {
		double begin = cpu_seconds();
		int rc = cfi_parse(section, &budget, &sink, &stats);
		double took = cpu_seconds() - begin;

		if (rc != 0)
			printf("cfi_parse: %d\n", rc);
		total += took;
		best = took < best ? took : best;
	}
	double megabytes = (double)section->window->length / 1e6;
	printf("%.2f MB, %lu FDEs, %lu rows, %lu bad, %u rules (sum %lx)\n", megabytes, stats.fdes,
	       stats.rows, stats.bad_fdes, sum.rules.count, sum.sum);
	printf("mean %.0f MB/s, best %.0f MB/s, %.1f ns a row\n", megabytes * ROUNDS / total,
	       megabytes / best, best * 1e9 / (double)(stats.rows ? stats.rows : 1));
	cfi_rules_fini(&sum.rules);
}

int main(int argc, char **argv)
{
	_cleanup_close_ int fd = argc == 2 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;
	struct elf_window window = {0};
	struct elf_image image;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0) {
		fprintf(stderr, "usage: bench_cfi FILE\n");
		return 1;
	}
	struct elf_source source = {
	    .read = file_read, .context = &fd, .size = (uint64_t)st.st_size};
	int rc = elf_image_init(&image, &source);
	if (rc < 0) {
		fprintf(stderr, "%s: %s\n", argv[1], strerror(-rc));
		return 1;
	}
	const struct elf_section *s = elf_image_find_section(&image, ".eh_frame");
	rc = s ? elf_window_init_section(&window, &image, s, SECTION_BYTES_MAX) : -ENOENT;
	if (rc == 0)
		bench_section(&(struct cfi_section){.window = &window, .vaddr = s->vaddr});
	else
		fprintf(stderr, ".eh_frame: %s\n", strerror(-rc));
	elf_window_fini(&window);
	elf_image_fini(&image);
	return rc == 0 ? 0 : 1;
}
