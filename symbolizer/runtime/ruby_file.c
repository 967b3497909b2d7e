/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recognises Ruby's file, and determines the version and its structure offsets.
 *
 * How this works: a file is Ruby if it exports rb_profile_frames and ruby_version, whatever its
 * name. The second one is the text of the version (version.c). The offsets are in a table in this
 * file. A version that is not in the table is refused, even if its layout should happen to match.
 */
#include "symbolizer/runtime/ruby_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/runtime/recognise.h"

/*
 * The offsets on x86-64, from the debug information of builds of Debian's sources, 3.1.2 and 3.3.8,
 * and of Ruby's own, 3.2.2 and 4.0.0; those of 2.7 from a program with the headers of Debian's
 * sources, 2.7.4; those of 3.4 from its sources and machine code (the status of a thread:
 * rb_thread_wakeup_alive()) (vm_core.h, internal/class.h, rstring.h), and the machine code of
 * rb_id2str().
 */
/* clang-format off */
static const struct ruby_offsets known_offsets[] = {
    {.version = 207, .frame_bytes = 56, .text = 16, .line_is_object = 1, .thread_status = 80, .context_thread = 56, .thread_context = 32,
     .lines = 120, .line_bytes = 8, .last_operator = 168, .singleton = 1 << 12, .class_word = 32, .class_variables = 24},
    {.version = 301, .frame_bytes = 64, .jit_return = 56, .text = 16, .line_is_object = 1, .thread_status = 92, .context_thread = 48,
     .lines = 120, .line_bytes = 12, .last_operator = 169, .singleton = 1 << 12, .class_word = 32, .class_variables = 24},
    {.version = 302, .frame_bytes = 64, .jit_return = 56, .text = 24, .thread_status = 112, .context_thread = 48,
     .lines = 112, .line_bytes = 12, .last_operator = 169, .singleton = 1 << 12,
     .class_word = 24, .class_values = 32, .shapes = 376},
    {.version = 303, .frame_bytes = 56, .jit_return = 48, .text = 24, .thread_status = 240, .context_thread = 48,
     .lines = 112, .line_bytes = 12, .last_operator = 169, .singleton = 1 << 12,
     .class_word = 24, .class_path = 152, .class_has_path = 149, .class_object = 128},
    {.version = 304, .frame_bytes = 56, .jit_return = 48, .text = 24, .thread_status = 240, .context_thread = 48,
     .lines = 112, .line_bytes = 12, .last_operator = 170, .parent = 160, .singleton = 1 << 13,
     .class_word = 24, .class_path = 152, .class_has_path = 149, .class_object = 128},
    {.version = 400, .frame_bytes = 56, .jit_return = 48, .text = 24, .thread_status = 248, .context_thread = 48,
     .lines = 112, .line_bytes = 12, .last_operator = 171, .parent = 168, .singleton = 1 << 13,
     .class_word = 48, .class_path = 152, .class_has_path = 149, .class_object = 136},
};
/* clang-format on */

enum {
	RUNTIME_BYTES = 32, /* "Ruby 3.3.8" */
	VERSION_BYTES = 16,
	MAJORS = 100,
	MINORS = 100,
};

static const struct ruby_offsets *offsets_of(unsigned int version)
{
	for (size_t i = 0; i < sizeof(known_offsets) / sizeof(known_offsets[0]); i++) {
		if (known_offsets[i].version == version)
			return &known_offsets[i];
	}
	return NULL;
}

/* Returns the version, 303 for 3.3, and its text; 0 if there is none. */
static unsigned int version_of(const struct runtime_file *file, char version[static VERSION_BYTES])
{
	uint64_t vaddr;
	char *rest;

	memset(version, 0, VERSION_BYTES);
	if (!recognise_find(file, "ruby_version", &vaddr) ||
	    runtime_file_read(file, vaddr, version, VERSION_BYTES - 1) < 0)
		version[0] = 0;
	version[strspn(version, "0123456789.")] = 0;
	const unsigned long major = strtoul(version, &rest, 10);
	const unsigned long minor = *rest == '.' ? strtoul(rest + 1, NULL, 10) : MINORS;
	return major < MAJORS && minor < MINORS ? (unsigned int)(major * MINORS + minor) : 0;
}

/* Writes the message. Returns -ENOTSUP. */
static int refuse(struct runtime_refusal *refusal, const struct runtime_file *file,
		  const char *version, const char *why)
{
	char runtime[RUNTIME_BYTES];

	snprintf(runtime, sizeof(runtime), "Ruby %s", *version ? version : "(unknown version)");
	return recognise_refuse(refusal, file->path, runtime, "Ruby frames", why);
}

int ruby_file_recognise(const struct runtime_file *file, void **image,
			struct runtime_refusal *refusal)
{
	char version[VERSION_BYTES];

	if (!recognise_has(file, "ruby", "rb_profile_frames") ||
	    !recognise_has(file, "ruby", "ruby_version"))
		return -ENOENT;
	const struct ruby_offsets *offsets = offsets_of(version_of(file, version));
	if (!offsets)
		return refuse(refusal, file, version, "this version is not supported");
	struct ruby_image *found = calloc(1, sizeof(*found));
	if (!found)
		return -ENOMEM;
	found->offsets = offsets;
	int r = ruby_code_find(file, &found->code);
	if (r < 0) {
		free(found);
		return r == -ENOENT
			   ? refuse(refusal, file, version, "its interpreter was not found")
			   : r;
	}
	*image = found;
	return 0;
}
