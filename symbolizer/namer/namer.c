/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/namer/namer.h"

#include <errno.h>

static const struct namer_ops *const namers[] = {&namer_go, &namer_dwarf};

int namer_open(struct namer *namer, const struct elf_image *image)
{
	for (unsigned int i = 0; i < sizeof(namers) / sizeof(namers[0]); i++) {
		const int r = namers[i]->open(image, &namer->state);

		if (r == -ENOMEM)
			return r;
		if (r == 0) {
			namer->ops = namers[i];
			return 0;
		}
	}
	return 0;
}

void namer_close(struct namer *namer)
{
	if (namer->ops)
		namer->ops->close(namer->state);
	*namer = (struct namer){0};
}

size_t namer_bytes(const struct namer *namer)
{
	return namer->ops ? namer->ops->bytes(namer->state) : 0;
}

const struct namer_wanted *namer_wanted(const struct namer *namer)
{
	return namer->ops && namer->ops->wanted ? namer->ops->wanted(namer->state) : NULL;
}

int namer_add(const struct namer *namer, const struct elf_image *image)
{
	return namer->ops && namer->ops->add ? namer->ops->add(namer->state, image) : -ESTALE;
}

void namer_do_without(const struct namer *namer)
{
	if (namer->ops && namer->ops->do_without)
		namer->ops->do_without(namer->state);
}

int namer_name(const struct namer *namer, const struct namer_sources *sources, uint64_t vaddr,
	       struct named_frames *frames)
{
	if (!namer->ops)
		return -ENOENT;
	frames->count = 0;
	frames->used = 0;
	frames->kind = (uint8_t)namer->ops->kind;
	return namer->ops->name(namer->state, sources, vaddr, frames);
}
