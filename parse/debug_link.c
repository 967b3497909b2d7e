/* SPDX-License-Identifier: Apache-2.0 */
#include "parse/debug_link.h"

#include <errno.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/cursor.h"

enum {
	ALIGNMENT = 4,
	SECTION_BYTES_MAX = DEBUG_LINK_NAME_BYTES + sizeof(uint32_t),
};

int debug_link_read(const struct elf_image *image, struct debug_link *link)
{
	const struct elf_section *section = elf_image_find_section(image, ".gnu_debuglink");
	_cleanup_free_ uint8_t *contents = NULL;
	size_t length;

	if (!section)
		return -ENOENT;
	const int r = elf_image_read_section(image, section, SECTION_BYTES_MAX, &contents, &length);
	if (r < 0)
		return r == -EFBIG || r == -EBADMSG || r == -ENODATA ? -ENOENT : r;
	struct cursor c = cursor_init(contents, length);
	const char *name = cursor_string(&c);
	const uint64_t end = cursor_offset(&c);
	cursor_skip(&c, (ALIGNMENT - end % ALIGNMENT) % ALIGNMENT);
	const uint32_t crc = cursor_u32(&c);
	if (c.failed || !name[0])
		return -ENOENT;
	/* It fits: the rest of the section is the checksum. */
	*link = (struct debug_link){.crc = crc};
	memcpy(link->name, name, strlen(name));
	return 0;
}
