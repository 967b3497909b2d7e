/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this works. A Go program that never gives labels to a goroutine lacks the function that does
 * it, because the linker leaves out what is not called. Where the labels are is read from the code
 * of the runtime, so that it needs no table of versions (x86-64):
 *
 * runtime.systemstack (runtime/asm_amd64.s) begins with
 *	mov %fs:OFFSET,%rax		or: mov $OFFSET,%rcx; mov %fs:(%rcx),%rax
 *	mov M(%rax),%rbx		runtime.g.m
 *	cmp GSIGNAL(%rbx),%rax
 *	...
 *	cmp CURG(%rbx),%rax		runtime.m.curg, the only offset of four bytes
 *
 * runtime/pprof.runtime_setProfLabel (runtime/proflabel.go) reads the old labels for the garbage
 * collector, from the goroutine in r14:
 *	mov LABELS(%r14),%REG
 *
 * The version, which is in the file for `go version`, tells whether labels are a map: before 1.24.
 */
#include "symbolizer/runtime/go_labels_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parse/go_module.h"
#include "parse/go_names.h"
#include "symbolizer/runtime/recognise.h"

enum {
	CODE_BYTES = 96, /* that are read of a function */
	OFFSET_MAX = 4096,
	LABELS_SLICE_SINCE = 24, /* Go 1.24 */
	MINOR_FIRST = 21,	 /* before, stacks end in runtime.systemstack */
	MINOR_LAST = 27,	 /* that was examined: another format would have wrong labels */
	BUILD_INFO_BYTES = 64,
	BUILD_INFO_FLAGS = 15,
	BUILD_INFO_TEXT = 33, /* after a length of one byte */
	BUILD_INFO_INLINE = 2,
	RUNTIME_BYTES = 32, /* of its name with the version */
};

/* common/runtime_symbols.def has them for the manager. */
enum {
	NAME_EXIT,
	NAME_SYSTEM_STACK,
	NAME_SET,
	NAMES
};

static const char *const names[NAMES] = {
    [NAME_EXIT] = "runtime.goexit",
    [NAME_SYSTEM_STACK] = "runtime.systemstack",
    [NAME_SET] = "runtime/pprof.runtime_setProfLabel",
};

static int32_t read_i32(const uint8_t *bytes)
{
	int32_t value;

	memcpy(&value, bytes, sizeof(value));
	return value;
}

/* Reads the offset of the thread's runtime.g from the code. Returns the end of the instruction, or
 * NULL. */
static const uint8_t *decode_current(const uint8_t *code, size_t length, int64_t *offset)
{
	static const uint8_t direct[] = {0x64, 0x48, 0x8b, 0x04, 0x25};
	static const uint8_t immediate[] = {0x48, 0xc7, 0xc1};
	static const uint8_t indirect[] = {0x64, 0x48, 0x8b, 0x01};
	const size_t size = sizeof(int32_t);
	const uint8_t *at = memmem(code, length, direct, sizeof(direct)), *end = code + length;

	if (at && (size_t)(end - at) >= sizeof(direct) + size) {
		*offset = read_i32(at + sizeof(direct));
		return at + sizeof(direct) + size;
	}
	at = memmem(code, length, immediate, sizeof(immediate));
	if (!at || (size_t)(end - at) < sizeof(immediate) + size + sizeof(indirect) ||
	    memcmp(at + sizeof(immediate) + size, indirect, sizeof(indirect)) != 0)
		return NULL;
	*offset = read_i32(at + sizeof(immediate));
	return at + sizeof(immediate) + size + sizeof(indirect);
}

static bool offset_is_sound(int32_t offset)
{
	return offset > 0 && offset < OFFSET_MAX && offset % 8 == 0;
}

/* Finds an instruction of three bytes with an offset of four, whose second register is any if
 * `any_register`. */
static bool decode_offset(const uint8_t *code, size_t length, const uint8_t opcode[static 3],
			  bool any_register, uint32_t *offset)
{
	const uint8_t mask = any_register ? 0xc7 : 0xff;

	for (size_t i = 0; i + 3 + sizeof(int32_t) <= length; i++) {
		if (code[i] != opcode[0] || code[i + 1] != opcode[1] ||
		    (code[i + 2] & mask) != opcode[2])
			continue;
		const int32_t found = read_i32(code + i + 3);

		*offset = (uint32_t)found;
		return offset_is_sound(found);
	}
	return false;
}

int go_labels_file_decode(const uint8_t *stack, size_t stack_length, const uint8_t *set,
			  size_t set_length, struct go_labels_block *block)
{
	static const uint8_t load_thread[] = {0x48, 0x8b, 0x58};
	static const uint8_t compare_user[] = {0x48, 0x3b, 0x83};
	static const uint8_t load_labels[] = {0x49, 0x8b, 0x86};
	const uint8_t *at = decode_current(stack, stack_length, &block->current);

	if (!at || at + sizeof(load_thread) >= stack + stack_length ||
	    memcmp(at, load_thread, sizeof(load_thread)) != 0)
		return -ENOTSUP;
	block->thread = at[sizeof(load_thread)];
	at += sizeof(load_thread) + 1;
	return offset_is_sound((int32_t)block->thread) &&
		       decode_offset(at, (size_t)(stack + stack_length - at), compare_user, false,
				     &block->user) &&
		       decode_offset(set, set_length, load_labels, true, &block->labels)
		   ? 0
		   : -ENOTSUP;
}

/* Returns the minor version of Go, 26 for 1.26; 0 if it is unknown. The format is that of
 * debug/buildinfo: a magic text, flags, and from Go 1.18 on the version with its length. */
static unsigned int minor_version(const struct runtime_file *file)
{
	static const char magic[] = "\xff Go buildinf:";
	const uint64_t vaddr = elf_image_section_vaddr(&file->image, ".go.buildinfo");
	char info[BUILD_INFO_BYTES + 1] = {0};

	if (!vaddr || runtime_file_read(file, vaddr, info, BUILD_INFO_BYTES) < 0 ||
	    memcmp(info, magic, sizeof(magic) - 1) != 0 ||
	    !(info[BUILD_INFO_FLAGS] & BUILD_INFO_INLINE))
		return 0;
	const char *version = strstr(info + BUILD_INFO_TEXT, "go1.");

	return version ? (unsigned int)strtoul(version + strlen("go1."), NULL, 10) : 0;
}

static int refuse(struct runtime_refusal *refusal, const char *path, unsigned int minor,
		  const char *why)
{
	char runtime[RUNTIME_BYTES];

	snprintf(runtime, sizeof(runtime), "Go 1.%u", minor);
	return recognise_refuse(refusal, path, runtime, "goroutine labels", why);
}

/* Reads the start of a function. Returns the length. */
static size_t read_code(const struct runtime_file *file, const struct go_place *place,
			uint8_t code[static CODE_BYTES])
{
	const size_t length = place->size < CODE_BYTES ? (size_t)place->size : CODE_BYTES;

	return runtime_file_read(file, place->vaddr, code, length) < 0 ? 0 : length;
}

int go_labels_file_recognise(const struct runtime_file *file, void **image,
			     struct runtime_refusal *refusal)
{
	const unsigned int minor = minor_version(file);
	uint8_t stack[CODE_BYTES], set[CODE_BYTES];
	struct go_place places[NAMES];
	struct go_module module;

	/* Most programs lack the names, and moduledata is far to seek. */
	if (minor < MINOR_FIRST || go_module_find_table(&module, &file->image) < 0 ||
	    go_names_contain(&module, &file->image.source, names, NAMES) < 0 ||
	    go_module_find(&module, &file->image) < 0)
		return -ENOENT;
	int r = go_names_find(&module, &file->image.source, names, NAMES, places);
	if (r < 0)
		return r == -ENOMEM ? r : -ENOENT;
	if (minor > MINOR_LAST)
		return refuse(refusal, file->path, minor, "this version is not supported");
	struct go_labels_image *made = calloc(1, sizeof(*made));
	if (!made)
		return -ENOMEM;
	made->block.is_map = minor < LABELS_SLICE_SINCE;
	made->exit_vaddr = places[NAME_EXIT].vaddr;
	made->exit_size = places[NAME_EXIT].size;
	r = go_labels_file_decode(stack, read_code(file, &places[NAME_SYSTEM_STACK], stack), set,
				  read_code(file, &places[NAME_SET], set), &made->block);
	if (r < 0) {
		free(made);
		return refuse(refusal, file->path, minor,
			      "the code of its runtime is not as expected");
	}
	*image = made;
	return 0;
}
