/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the ELF images of generated code. The input is one, which is once at the addresses of its
 * headers and once mapped with its code. In addition to memory errors, it checks that names end,
 * and that an image is the same as itself. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "parse/jit_image.h"
#include "symbolizer/namer/namer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	CAP = 1 << 20,
	LOOKUPS = 8,
	PARTS_MAX = 64, /* of a lookup: an input is far smaller than the cost of one part */
};

static void check(bool condition)
{
	if (!condition)
		abort();
}

static void name_by_debug(const struct jit_image *image, struct namer *namer, uint64_t address)
{
	const struct namer_sources sources = {.file = &image->elf.source};
	static struct named_frames frames;
	int r = -EAGAIN;

	for (unsigned int part = 0; r == -EAGAIN || r == -EINPROGRESS; part++) {
		check(part < PARTS_MAX);
		r = namer_name(namer, &sources, address, &frames);
		if (namer_wanted(namer))
			namer_do_without(namer);
	}
	check(r == 0 || r == -ENOENT);
	check(r < 0 || (frames.count > 0 && frames.count <= NAMED_FRAMES_MAX));
}

static void name_all(const struct jit_image *image, const struct jit_image_code *code)
{
	const uint64_t step = (code->end - code->start) / LOOKUPS + 1;
	struct namer namer = {0};

	check(namer_open(&namer, &image->elf) == 0);
	for (uint64_t i = 0; i < LOOKUPS; i++) {
		const char *name = jit_image_find_name(image, code->start + i * step);

		check(!name || (name[0] && strlen(name) < image->buffer.length));
		name_by_debug(image, &namer, code->start + i * step);
	}
	namer_close(&namer);
}

static void read_image(const uint8_t *data, size_t size, uint64_t base)
{
	struct elf_buffer buffer = {data, size};
	const struct elf_source source = elf_source_from_buffer(&buffer);
	struct jit_image_code code;
	struct jit_image image;

	const int r = jit_image_find_code(&source, base, &code);
	check(r <= 0 && (r < 0 || code.start < code.end));
	if (r < 0 || jit_image_init(&image, &source, base, CAP) < 0)
		return;
	check(jit_image_is_same(&image, &source));
	name_all(&image, &code);
	jit_image_fini(&image);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	read_image(data, size, 0);
	read_image(data, size, 0x7f1200000000);
	if (size >= JIT_IMAGE_HEADER_BYTES)
		jit_image_size(data);
	return 0;
}
