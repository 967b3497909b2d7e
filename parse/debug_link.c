/* SPDX-License-Identifier: Apache-2.0 */
#include "parse/debug_link.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/cursor.h"

enum {
	ALIGNMENT = 4,
	SECTION_BYTES_MAX = DEBUG_LINK_NAME_BYTES + sizeof(uint32_t),
	/* A path of Linux, and all that may be before and after it. */
	ALTERNATE_BYTES_MAX = 4096 + 64,
	SUPPLEMENTARY_VERSION = 5,
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

/* Reads a path and a build id, which takes up the rest. */
static bool alternate_decode(struct cursor *c, uint64_t id_length, const char *path,
			     struct debug_alternate *alternate)
{
	const uint8_t *build_id = cursor_take(c, id_length);
	struct debug_alternate found = {.name = ""};

	if (c->failed || !build_id || id_length == 0 || id_length > sizeof(found.build_id))
		return false;
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	if (strlen(name) < sizeof(found.name))
		memcpy(found.name, name, strlen(name));
	memcpy(found.build_id, build_id, (size_t)id_length);
	found.build_id_length = (unsigned int)id_length;
	*alternate = found;
	return true;
}

static bool link_decode(struct cursor *c, struct debug_alternate *alternate)
{
	const char *path = cursor_string(c);

	return alternate_decode(c, cursor_left(c), path, alternate);
}

/* Reads a .debug_sup, that of a file with debug information or that of the alternate file. */
static bool supplementary_decode(struct cursor *c, bool of_alternate,
				 struct debug_alternate *alternate)
{
	const uint16_t version = cursor_u16(c);
	const bool is_alternate = cursor_u8(c) != 0;
	const char *path = cursor_string(c);
	const uint64_t length = cursor_uleb128(c);

	return version == SUPPLEMENTARY_VERSION && is_alternate == of_alternate &&
	       alternate_decode(c, length, path, alternate);
}

/* Reads a section. Returns 0; -ENOENT: it is not there, malformed or too long; or an error. */
static int section_read(const struct elf_image *image, const char *name, uint8_t **contents,
			struct cursor *c)
{
	const struct elf_section *section = elf_image_find_section(image, name);
	size_t length;

	if (!section)
		return -ENOENT;
	const int r =
	    elf_image_read_section(image, section, ALTERNATE_BYTES_MAX, contents, &length);
	if (r < 0)
		return r == -EFBIG || r == -EBADMSG || r == -ENODATA ? -ENOENT : r;
	*c = cursor_init(*contents, length);
	return 0;
}

int debug_alternate_read(const struct elf_image *image, struct debug_alternate *alternate)
{
	_cleanup_free_ uint8_t *link = NULL, *supplementary = NULL;
	struct cursor c;
	int r = section_read(image, ".gnu_debugaltlink", &link, &c);

	if (r == 0)
		return link_decode(&c, alternate) ? 0 : -ENOENT;
	if (r == -ENOENT)
		r = section_read(image, ".debug_sup", &supplementary, &c);
	if (r == 0)
		r = supplementary_decode(&c, false, alternate) ? 0 : -ENOENT;
	return r;
}

bool debug_alternate_is(const struct debug_alternate *alternate, const struct elf_image *image)
{
	_cleanup_free_ uint8_t *contents = NULL;
	struct debug_alternate own = {.build_id_length = image->build_id_length};
	struct cursor c;

	memcpy(own.build_id, image->build_id, sizeof(own.build_id));
	if (!own.build_id_length && section_read(image, ".debug_sup", &contents, &c) == 0)
		supplementary_decode(&c, true, &own);
	return own.build_id_length && own.build_id_length == alternate->build_id_length &&
	       !memcmp(own.build_id, alternate->build_id, own.build_id_length);
}
