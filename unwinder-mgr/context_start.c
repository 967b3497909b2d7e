/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see context_start.h. */
#include "unwinder-mgr/context_start.h"

#include <elf.h>
#include <errno.h>

#include "common/cleanup.h"
#include "common/cursor.h"
#include "parse/elf_lookup.h"

enum {
	FUNCTION_BYTES_MAX = 4096, /* of makecontext(); glibc 2.36 has 656 */
	LEA_BYTES = 7,
};

/* Returns the address that the instruction at `code` loads, if it is lea ADDRESS(%rip), REGISTER;
 * otherwise 0. */
static uint64_t loaded_address(const uint8_t code[static LEA_BYTES], uint64_t vaddr)
{
	if ((code[0] & 0xfb) != 0x48 || code[1] != 0x8d || (code[2] & 0xc7) != 0x05)
		return 0;
	return vaddr + LEA_BYTES + cursor_displacement(code + 3);
}

int context_start_find(const struct elf_image *image, uint64_t starts[static CONTEXT_STARTS_MAX],
		       size_t *count)
{
	_cleanup_(elf_lookup_fini) struct elf_lookup lookup = {0};
	_cleanup_free_ uint8_t *code = NULL;
	struct elf_symbol function;
	size_t length;

	*count = 0;
	if (image->machine != EM_X86_64)
		return 0;
	int r = elf_lookup_init(&lookup, image);
	if (r < 0 || elf_lookup_exported(&lookup, "makecontext", &function) < 0)
		return r < 0 ? r : 0;
	if (function.size > FUNCTION_BYTES_MAX)
		return 0;
	r = elf_image_read_vaddr(image, function.value, function.size, FUNCTION_BYTES_MAX, &code,
				 &length);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	for (size_t i = 0; i + LEA_BYTES <= length && *count < CONTEXT_STARTS_MAX; i++) {
		const uint64_t address = loaded_address(code + i, function.value + i);

		if (address)
			starts[(*count)++] = address;
	}
	return 0;
}
