/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_names FILE: names addresses of a file by its namer (symbolizer/namer/namer.h). Further
 * files that the namer wants are looked for in the directory of FILE.
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
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/file_read.h"
#include "common/time_units.h"
#include "parse/elf_cache.h"
#include "symbolizer/namer/namer.h"

struct measured {
	uint64_t all_ns, longest_ns, parts, found;
	size_t bytes;
};

/* A file and its further files, which stay open until the end. */
struct files {
	const char *path;
	struct namer namer;
	int fd, further_fds[NAMER_FILES_MAX];
	struct elf_source source, further[NAMER_FILES_MAX];
	unsigned int further_count;
};

/* Opens a file, which stays open until the end. */
static bool open_file(const char *path, int *fd, struct elf_source *source)
{
	struct stat stat;

	*fd = open(path, O_RDONLY | O_CLOEXEC);
	if (*fd < 0 || file_read_status(*fd, &stat) < 0)
		return false;
	*source = (struct elf_source){
	    .read = file_read_from, .context = fd, .size = (uint64_t)stat.st_size};
	return true;
}

/* Adds a further file with this path. Returns whether the namer takes it. */
static bool add_further(struct files *files, const char *path)
{
	const unsigned int i = files->further_count;
	struct elf_image image;

	if (i == NAMER_FILES_MAX || !open_file(path, &files->further_fds[i], &files->further[i]) ||
	    elf_image_init_sections(&image, &files->further[i]) < 0)
		return false;
	const bool added = namer_add(&files->namer, &image) == 0;
	elf_image_fini(&image);
	files->further_count += added;
	return added;
}

/* Adds the further files that are wanted now, or says that they are not there. */
static void add_wanted(struct files *files)
{
	const struct namer_wanted *wanted;

	while ((wanted = namer_wanted(&files->namer))) {
		const char *slash = strrchr(files->path, '/');
		const int directory = slash ? (int)(slash + 1 - files->path) : 0;
		const char *name =
		    wanted->kind == NAMER_WANTS_ALTERNATE ? wanted->alternate.name : wanted->split;
		const char *base = strrchr(name, '/');
		char path[PATH_MAX];

		if (wanted->kind == NAMER_WANTS_PACKAGE)
			snprintf(path, sizeof(path), "%s.dwp", files->path);
		else
			snprintf(path, sizeof(path), "%.*s%s", directory, files->path,
				 base ? base + 1 : name);
		if (!add_further(files, path))
			namer_do_without(&files->namer);
	}
}

static int name_address(struct files *files, const struct elf_source *file, uint64_t vaddr,
			struct named_frames *frames, struct measured *measured)
{
	const struct namer_sources sources = {file, files->further};
	int r;

	do {
		const uint64_t began_ns = clock_monotonic_ns();

		r = namer_name(&files->namer, &sources, vaddr, frames);
		const uint64_t ns = clock_monotonic_ns() - began_ns;
		const size_t bytes = namer_bytes(&files->namer);

		measured->all_ns += ns;
		measured->longest_ns = ns > measured->longest_ns ? ns : measured->longest_ns;
		measured->bytes = bytes > measured->bytes ? bytes : measured->bytes;
		measured->parts++;
		if (r == -EINPROGRESS)
			add_wanted(files);
	} while (r == -EAGAIN || r == -EINPROGRESS);
	return r;
}

/* printf() would take a tenth of the time of the whole program. */
static void print_line(uint32_t line)
{
	char digits[10];
	unsigned int count = 0;

	do
		digits[count++] = (char)('0' + line % 10);
	while (line /= 10);
	putchar_unlocked(':');
	while (count)
		putchar_unlocked(digits[--count]);
	putchar_unlocked('\n');
}

static void print_frames(const struct named_frames *frames)
{
	for (unsigned int i = 0; i < frames->count; i++) {
		const struct named_frame *frame = &frames->frames[i];

		fputs(frame->function[0] ? frame->function : "??", stdout);
		putchar_unlocked('\n');
		fputs(frame->file[0] ? frame->file : "??", stdout);
		print_line(frame->line);
	}
}

static void name_all(struct files *files, const struct elf_source *file)
{
	static struct named_frames frames;
	static char output[1 << 16];
	struct measured measured = {0};
	char line[64];

	setvbuf(stdout, output, _IOFBF, sizeof(output));
	while (fgets(line, sizeof(line), stdin)) {
		if (name_address(files, file, strtoull(line, NULL, 16), &frames, &measured) < 0) {
			puts("??\n??:0");
		} else {
			measured.found++;
			print_frames(&frames);
		}
		putchar_unlocked('\n');
	}
	fprintf(stderr,
		"found=%" PRIu64 " lookups_ms=%.1f longest_ms=%.1f parts=%" PRIu64 " bytes=%zu\n",
		measured.found, (double)measured.all_ns / NS_PER_MS,
		(double)measured.longest_ns / NS_PER_MS, measured.parts, measured.bytes);
}

int main(int argc, char **argv)
{
	static struct elf_cache cache;
	static struct files files;
	struct elf_image image;
	uint64_t number = 0;

	if (argc != 2) {
		fprintf(stderr, "usage: bench_names FILE\n");
		return 2;
	}
	files.path = argv[1];
	if (!open_file(argv[1], &files.fd, &files.source)) {
		perror(argv[1]);
		return 1;
	}
	if (elf_image_init(&image, &files.source) < 0 || namer_open(&files.namer, &image) < 0 ||
	    !files.namer.ops) {
		fprintf(stderr, "%s: no namer\n", argv[1]);
		return 1;
	}
	elf_image_fini(&image);
	add_wanted(&files);
	const struct elf_source cached = elf_cache_source(&cache, &files.source, &number);
	name_all(&files, &cached);
	namer_close(&files.namer);
	return 0;
}
