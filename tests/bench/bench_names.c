/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_names FILE [ALTERNATE]: names addresses of a file by its namer (symbolizer/namer/namer.h),
 * with the alternate file to which it refers (parse/debug_link.h).
 *
 * Reads addresses from standard input, a hexadecimal number in each line. Writes for each address
 * the functions, the innermost inlined one first: the name in one line, FILE:LINE in the next one.
 * An empty line follows. This is the format of `llvm-symbolizer --no-demangle`, without columns. At
 * the end it writes to standard error how long the lookups took, how long the longest part of one
 * took, and how much memory the namer had at most.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/file_read.h"
#include "common/time_units.h"
#include "parse/elf_cache.h"
#include "symbolizer/namer/namer.h"

struct measured {
	uint64_t all_ns, longest_ns, parts, found;
	size_t bytes;
};

static int name_address(struct namer *namer, const struct namer_sources *sources, uint64_t vaddr,
			struct named_frames *frames, struct measured *measured)
{
	int r;

	do {
		const uint64_t began_ns = clock_monotonic_ns();

		r = namer_name(namer, sources, vaddr, frames);
		const uint64_t ns = clock_monotonic_ns() - began_ns;
		const size_t bytes = namer_bytes(namer);

		measured->all_ns += ns;
		measured->longest_ns = ns > measured->longest_ns ? ns : measured->longest_ns;
		measured->bytes = bytes > measured->bytes ? bytes : measured->bytes;
		measured->parts++;
	} while (r == -EAGAIN);
	return r;
}

static void print_frames(const struct named_frames *frames)
{
	for (unsigned int i = 0; i < frames->count; i++) {
		const struct named_frame *frame = &frames->frames[i];

		/* One format for all of it would take a tenth of the time of the whole program. */
		fputs(frame->function, stdout);
		putchar('\n');
		fputs(frame->file[0] ? frame->file : "??", stdout);
		printf(":%" PRIu32 "\n", frame->line);
	}
}

static void name_all(struct namer *namer, const struct namer_sources *sources)
{
	static struct named_frames frames;
	struct measured measured = {0};
	char line[64];

	while (fgets(line, sizeof(line), stdin)) {
		if (name_address(namer, sources, strtoull(line, NULL, 16), &frames, &measured) <
		    0) {
			puts("??\n??:0");
		} else {
			measured.found++;
			print_frames(&frames);
		}
		putchar('\n');
	}
	fprintf(stderr,
		"found=%" PRIu64 " lookups_ms=%.1f longest_ms=%.1f parts=%" PRIu64 " bytes=%zu\n",
		measured.found, (double)measured.all_ns / NS_PER_MS,
		(double)measured.longest_ns / NS_PER_MS, measured.parts, measured.bytes);
}

/* Opens a file, which stays open until the end. */
static bool open_file(const char *path, int *fd, struct elf_source *source)
{
	struct stat stat;

	*fd = open(path, O_RDONLY | O_CLOEXEC);
	if (*fd < 0 || file_read_status(*fd, &stat) < 0) {
		perror(path);
		return false;
	}
	*source = (struct elf_source){
	    .read = file_read_from, .context = fd, .size = (uint64_t)stat.st_size};
	return true;
}

static bool add_further(const struct namer *namer, const struct elf_source *source)
{
	struct elf_image image;
	const bool added =
	    elf_image_init_sections(&image, source) == 0 && namer_add(namer, &image) == 0;

	elf_image_fini(&image);
	return added;
}

int main(int argc, char **argv)
{
	struct elf_source source, further;
	static struct elf_cache cache;
	struct namer namer = {0};
	int fd, further_fd;
	uint64_t number = 0;
	struct elf_image image;

	if (argc != 2 && argc != 3) {
		fprintf(stderr, "usage: bench_names FILE [ALTERNATE]\n");
		return 2;
	}
	if (!open_file(argv[1], &fd, &source) ||
	    (argc == 3 && !open_file(argv[2], &further_fd, &further)))
		return 1;
	if (elf_image_init(&image, &source) < 0 || namer_open(&namer, &image) < 0 || !namer.ops) {
		fprintf(stderr, "%s: no namer\n", argv[1]);
		return 1;
	}
	elf_image_fini(&image);
	if (argc == 3 && !add_further(&namer, &further)) {
		fprintf(stderr, "%s: no alternate file\n", argv[2]);
		return 1;
	}
	const struct elf_source cached = elf_cache_source(&cache, &source, &number);
	name_all(&namer, &(struct namer_sources){&cached, &further});
	namer_close(&namer);
	return 0;
}
