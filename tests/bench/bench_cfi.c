/* SPDX-License-Identifier: Apache-2.0 */
/* How fast cfi_parse() is on the .eh_frame of a real file: bench_cfi FILE. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#include "common/cleanup.h"
#include "parse/cfi.h"
#include "parse/elf_image.h"

enum {
	ROUNDS = 10,
	SECTION_BYTES_MAX = 1 << 30
};

static int file_read(void *context, uint64_t offset, void *buffer, size_t length)
{
	ssize_t n = pread(*(int *)context, buffer, length, (off_t)offset);

	if (n < 0)
		return -errno;
	return (size_t)n == length ? 0 : -ENODATA;
}

/* Touches every row, as any user would, and no more. */
static int rows_sum(void *context, const struct cfi_fde *fde)
{
	uint64_t *sum = context;

	for (unsigned int i = 0; i < fde->row_count; i++)
		*sum += fde->starts[i] ^ (uint64_t)fde->rules[i].cfa_offset;
	return 0;
}

static double now_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void bench(const struct cfi_section *section)
{
	const struct cfi_budget budget = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
	struct cfi_stats stats = {0};
	double best = 1e9, total = 0;
	uint64_t sum = 0;

	for (int i = 0; i < ROUNDS; i++) {
		double begin = now_seconds();
		int rc = cfi_parse(section, &budget, rows_sum, &sum, &stats);
		double took = now_seconds() - begin;

		if (rc != 0)
			printf("cfi_parse: %d\n", rc);
		total += took;
		best = took < best ? took : best;
	}
	double megabytes = (double)section->length / 1e6;
	printf("%.2f MB, %llu FDEs, %llu rows, %llu bad, %llu unknown rows (sum %llx)\n", megabytes,
	       (unsigned long long)stats.fdes, (unsigned long long)stats.rows,
	       (unsigned long long)stats.bad_fdes, (unsigned long long)stats.unknown_rows,
	       (unsigned long long)sum);
	printf("mean %.0f MB/s, best %.0f MB/s, %.1f ns a row\n", megabytes * ROUNDS / total,
	       megabytes / best, best * 1e9 / (double)(stats.rows ? stats.rows : 1));
}

int main(int argc, char **argv)
{
	_cleanup_close_ int fd = argc == 2 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;
	_cleanup_free_ uint8_t *data = NULL;
	struct elf_image image;
	struct stat st;
	size_t length;

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
	rc = s ? elf_image_read_section(&image, s, SECTION_BYTES_MAX, &data, &length) : -ENOENT;
	if (rc == 0)
		bench(&(struct cfi_section){.data = data, .length = length, .vaddr = s->vaddr});
	else
		fprintf(stderr, ".eh_frame: %s\n", strerror(-rc));
	elf_image_fini(&image);
	return rc == 0 ? 0 : 1;
}
