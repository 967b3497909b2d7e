/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recognises PHP's file, and determines the version and its structure offsets.
 *
 * How this works: a file is PHP if it exports execute_ex and executor_globals, whatever its name.
 * The version is in the text of an HTTP header that each PHP has, X-Powered-By (main/SAPI.h). The
 * offsets are in a table in this file. A version that is not in the table is refused, even if its
 * layout should happen to match.
 *
 * In builds for threads (ZTS), each thread has its globals at some distance from what it has under
 * a key of pthread_getspecific(3). A variable has the distance, and tsrm_get_ls_cache() passes the
 * key.
 *
 * Where the loop restores the registers of its caller is found in its code: by the first load of
 * r14 and r15 from the stack that is followed by a return.
 */
#include "symbolizer/runtime/php_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "symbolizer/runtime/limits.h"
#include "symbolizer/runtime/recognise.h"
#include "symbolizer/runtime/thread_keys.h"

/*
 * The offsets on x86-64, from the headers of each version (zend_globals.h, zend_compile.h,
 * zend_generators.h, zend_fibers.h).
 */
/* clang-format off */
static const struct php_offsets known_offsets[] = {
    {.version = 704, .current = 488, .before_exception = 880,
     .file = 136, .opcodes = 64, .last = 60,
     .generator_call = 64, .generator_placeholder = 200, .generator_parent = 160},
    {.version = 800, .current = 488, .before_exception = 880,
     .file = 144, .opcodes = 72, .last = 68,
     .generator_call = 56, .generator_placeholder = 192, .generator_parent = 152},
    {.version = 801, .current = 488, .fiber = 1672, .fiber_caller = 152, .before_exception = 880,
     .file = 144, .opcodes = 72, .last = 68,
     .generator_call = 56, .generator_placeholder = 184, .generator_parent = 152},
    {.version = 802, .current = 488, .fiber = 1680, .fiber_caller = 168, .before_exception = 880,
     .file = 152, .opcodes = 88, .last = 80,
     .generator_call = 56, .generator_placeholder = 184, .generator_parent = 152},
    {.version = 803, .current = 488, .fiber = 1664, .fiber_caller = 168, .before_exception = 880,
     .file = 144, .opcodes = 80, .last = 76,
     .generator_call = 56, .generator_placeholder = 184, .generator_parent = 152},
    {.version = 804, .current = 488, .fiber = 1752, .fiber_caller = 168, .before_exception = 952,
     .file = 168, .opcodes = 104, .last = 96,
     .generator_call = 56, .generator_placeholder = 184, .generator_parent = 152},
    {.version = 805, .current = 512, .fiber = 1776, .fiber_caller = 168, .before_exception = 976,
     .file = 168, .opcodes = 104, .last = 96,
     .generator_call = 56, .generator_placeholder = 184, .generator_parent = 152},
    {.version = 806, .current = 512, .fiber = 1816, .fiber_caller = 168, .before_exception = 1016,
     .file = 168, .opcodes = 104, .last = 96,
     .generator_call = 56, .generator_placeholder = 184, .generator_parent = 152},
};
/* clang-format on */

enum {
	RUNTIME_BYTES = 32, /* "PHP 8.2.36" */
	VERSION_BYTES = 16,
	MAJORS = 100,
	MINORS = 100,
	/* zend_vm_kind() on x86-64: `mov $kind, %eax`, after which it returns. With endbr64, which
	 * has four bytes, it starts with that. */
	VM_KIND_BYTES = 9,
	ENDBR_BYTES = 4,
	VM_KIND_HYBRID = 4, /* ZEND_VM_KIND_HYBRID in zend_vm_opcodes.h */
	LEAVE_BYTES_MAX = 64,
	KEY_CODE_BYTES = 16, /* endbr64, a load, and a jump */
};

static const char header[] = "X-Powered-By: PHP/";

static const struct php_offsets *offsets_of(unsigned int version)
{
	for (size_t i = 0; i < sizeof(known_offsets) / sizeof(known_offsets[0]); i++) {
		if (known_offsets[i].version == version)
			return &known_offsets[i];
	}
	return NULL;
}

/* Finds the version in a part of the file. Returns whether it is there. */
static bool find_version(const struct runtime_file *file, const struct elf_segment *segment,
			 char version[static VERSION_BYTES])
{
	_cleanup_free_ uint8_t *bytes = NULL;
	size_t length = 0;

	if (segment->executable ||
	    elf_image_read_vaddr(&file->image, segment->vaddr, segment->file_size,
				 PHP_CONSTANTS_BYTES_MAX, &bytes, &length) < 0)
		return false;
	const uint8_t *found = memmem(bytes, length, header, sizeof(header) - 1);
	if (!found)
		return false;
	found += sizeof(header) - 1;
	const size_t rest = (size_t)(bytes + length - found);
	const size_t room = rest < VERSION_BYTES - 1 ? rest : VERSION_BYTES - 1;

	memcpy(version, found, room);
	version[room] = 0;
	version[strspn(version, "0123456789.")] = 0;
	return true;
}

/* Returns the version, 802 for 8.2, and its text; 0 if there is none. */
static unsigned int version_of(const struct runtime_file *file, char version[static VERSION_BYTES])
{
	char *rest;

	version[0] = 0;
	for (unsigned int i = 0; i < file->image.segment_count; i++) {
		if (find_version(file, &file->image.segments[i], version))
			break;
	}
	const unsigned long major = strtoul(version, &rest, 10);
	const unsigned long minor = *rest == '.' ? strtoul(rest + 1, NULL, 10) : MINORS;
	return major < MAJORS && minor < MINORS ? (unsigned int)(major * MINORS + minor) : 0;
}

/* Returns whether the code was built with the usual kind of loop (zend_vm_gen.php). */
static bool is_hybrid(const struct runtime_file *file)
{
	static const uint8_t endbr[ENDBR_BYTES] = {0xf3, 0x0f, 0x1e, 0xfa};
	static const uint8_t move[] = {0xb8, VM_KIND_HYBRID, 0, 0, 0};
	uint8_t code[VM_KIND_BYTES];
	uint64_t vaddr;

	if (!recognise_find(file, "zend_vm_kind", &vaddr) ||
	    runtime_file_read(file, vaddr, code, sizeof(code)) < 0)
		return false;
	const size_t at = memcmp(code, endbr, sizeof(endbr)) ? 0 : sizeof(endbr);
	return !memcmp(code + at, move, sizeof(move));
}

/* Returns the bytes of a load of the register from the stack, with an offset of one byte, such as
 * `mov 72(%rsp), %r14` or `mov -72(%rbp), %r14`; 0 if there is something else. */
static size_t load_bytes(const uint8_t *code, uint8_t reg)
{
	const int by_rsp = 0x44 | (reg & 7) << 3, by_rbp = 0x45 | (reg & 7) << 3;

	if (code[0] != 0x4c || code[1] != 0x8b)
		return 0;
	return code[2] == by_rsp && code[3] == 0x24 ? 5 : code[2] == by_rbp ? 4 : 0;
}

/* Returns the bytes of the two loads, in either order; 0 if there is something else. */
static size_t restore_bytes(const uint8_t *code)
{
	for (uint8_t reg = 14; reg <= 15; reg++) {
		const size_t first = load_bytes(code, reg);
		const size_t second = first ? load_bytes(code + first, reg ^ 1) : 0;

		if (second)
			return first + second;
	}
	return 0;
}

/* Finds the code that restores r14 and r15. It is taken for all of that up to the return. */
static void find_leave(struct php_image *image, const uint8_t *code, size_t length)
{
	for (size_t i = 0; i + LEAVE_BYTES_MAX <= length; i++) {
		const size_t bytes = restore_bytes(code + i);

		if (!bytes)
			continue;
		const uint8_t *end = memchr(code + i + bytes, 0xc3, LEAVE_BYTES_MAX - bytes);
		if (!end)
			return;
		/* After the first load r14 may be that of the caller. */
		image->leave_start = image->loop.vaddr + i + 1;
		image->leave_end = image->loop.vaddr + (size_t)(end - code) + 1;
		return;
	}
}

/* Finds what has to be known of the loop's code. */
static void examine_loop(const struct runtime_file *file, struct php_image *image)
{
	_cleanup_free_ uint8_t *code = NULL;
	size_t length = 0;

	if (elf_image_read_vaddr(&file->image, image->loop.vaddr, image->loop.size,
				 PHP_LOOP_BYTES_MAX, &code, &length) < 0)
		return;
	if (!split_part_find(file, image->loop.vaddr, code, length, &image->unlikely))
		image->unlikely = (struct split_part){0};
	find_leave(image, code, length);
}

/* Finds where the globals are. Returns whether they were found. */
static bool find_globals(const struct runtime_file *file, struct php_image *image)
{
	struct runtime_symbol symbol;
	uint8_t code[KEY_CODE_BYTES];

	if (!recognise_variable(file, "executor_globals_offset", &image->globals))
		return recognise_variable(file, "executor_globals", &image->globals);
	return runtime_file_exported(file, "tsrm_get_ls_cache", &symbol) == 0 &&
	       runtime_file_read(file, symbol.vaddr, code, sizeof(code)) == 0 &&
	       thread_key_in_code(code, sizeof(code), symbol.vaddr, &image->key);
}

/* Writes the message. Returns -ENOTSUP. */
static int refuse(struct runtime_refusal *refusal, const struct runtime_file *file,
		  const char *version, const char *why)
{
	char runtime[RUNTIME_BYTES];

	snprintf(runtime, sizeof(runtime), "PHP %s", *version ? version : "(unknown version)");
	return recognise_refuse(refusal, file->path, runtime, "PHP frames", why);
}

int php_file_recognise(const struct runtime_file *file, void **image,
		       struct runtime_refusal *refusal)
{
	char version[VERSION_BYTES];

	if (!recognise_has(file, "php", "execute_ex") ||
	    (!recognise_has(file, "php", "executor_globals") &&
	     !recognise_has(file, "php", "executor_globals_offset")))
		return -ENOENT;
	const struct php_offsets *offsets = offsets_of(version_of(file, version));
	if (!offsets)
		return refuse(refusal, file, version, "this version is not supported");
	struct php_image *found = calloc(1, sizeof(*found));
	if (!found)
		return -ENOMEM;
	found->offsets = offsets;
	if (!find_globals(file, found) ||
	    (runtime_file_exported(file, "execute_ex", &found->loop) < 0 &&
	     runtime_file_local(file, "execute_ex", &found->loop) < 0) ||
	    !found->loop.size) {
		free(found);
		return refuse(refusal, file, version, "its interpreter was not found");
	}
	recognise_find(file, "zend_flf_functions", &found->frameless);
	if (runtime_file_exported(file, "zend_fiber_switch_context", &found->fiber_switch) < 0)
		found->fiber_switch.size = 0;
	found->is_hybrid = is_hybrid(file);
	examine_loop(file, found);
	*image = found;
	return 0;
}
