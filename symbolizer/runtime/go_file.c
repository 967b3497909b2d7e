/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this works. A Go program that never gives labels to a goroutine lacks the function that does
 * it, because the linker leaves out what is not called. Where everything is in the runtime's
 * structures is read from its code, so that it needs no table of versions (x86-64):
 *
 * runtime.systemstack (runtime/asm_amd64.s) begins with
 *	mov %fs:OFFSET,%rax		or: mov $OFFSET,%rcx; mov %fs:(%rcx),%rax
 *	mov M(%rax),%rbx		runtime.g.m
 *	cmp GSIGNAL(%rbx),%rax
 *	...
 *	cmp CURG(%rbx),%rax		runtime.m.curg, the only offset of four bytes
 *
 * runtime.morestack (runtime/asm_amd64.s) saves where the goroutine goes on. The register that has
 * its address is rdi or rsi:
 *
 *	mov (%rsp),%rax
 *	mov %rax,PC(%rdi)		runtime.g.sched.pc
 *	lea 8(%rsp),%rax
 *	mov %rax,SP(%rdi)
 *	mov %rbp,FP(%rdi)
 *
 * runtime/pprof.runtime_setProfLabel (runtime/proflabel.go) reads the old labels for the garbage
 * collector, from the goroutine in r14:
 *	mov LABELS(%r14),%REG
 *
 * runtime.casgstatus (runtime/proc.go) changes the status of a goroutine. In runtime.g the id is
 * eight bytes after the status (runtime/runtime2.go):
 *
 *	lock cmpxchg %REG,STATUS(%REG)
 *
 * runtime.goroutineheader (runtime/traceback.go) prints the id, so it must load it:
 *
 *	mov STATUS+8(%REG),%REG
 *
 * The version, which is in the file for `go version`, tells whether labels are a map: before 1.24.
 */
#include "symbolizer/runtime/go_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/runtimes.h"
#include "parse/go_module.h"
#include "parse/go_names.h"
#include "symbolizer/runtime/recognise.h"

enum {
	CODE_BYTES = 192,     /* that are read of a function */
	ID_CODE_BYTES = 1024, /* the same, to find the id */
	ID_AFTER_STATUS = 8,  /* runtime.g.atomicstatus and stackLock */
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

/* common/runtime_symbols.def has them for the manager. That of labels comes first, those of ids
 * last, and what each program has and needs is between. */
enum {
	NAME_SET,
	NAME_EXIT,
	NAME_SYSTEM_STACK,
	NAME_GROW,
	NAME_CHANGE_STATUS,
	NAME_PRINT_ID,
	NAMES,

	NEEDED_FIRST = NAME_EXIT,
	NEEDED_END = NAME_GROW + 1,
};
_Static_assert((int)NAMES <= (int)GO_NAMES_MAX, "they are searched at once");

static const char *const names[NAMES] = {
    [NAME_SET] = "runtime/pprof.runtime_setProfLabel", [NAME_EXIT] = "runtime.goexit",
    [NAME_SYSTEM_STACK] = "runtime.systemstack",       [NAME_GROW] = "runtime.morestack",
    [NAME_CHANGE_STATUS] = "runtime.casgstatus",       [NAME_PRINT_ID] = "runtime.goroutineheader",
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

int go_file_decode_user(const uint8_t *stack, size_t stack_length, struct go_block *block)
{
	static const uint8_t load_thread[] = {0x48, 0x8b, 0x58};
	static const uint8_t compare_user[] = {0x48, 0x3b, 0x83};
	const uint8_t *at = decode_current(stack, stack_length, &block->current);

	if (!at || at + sizeof(load_thread) >= stack + stack_length ||
	    memcmp(at, load_thread, sizeof(load_thread)) != 0)
		return -ENOTSUP;
	block->thread = at[sizeof(load_thread)];
	at += sizeof(load_thread) + 1;
	return offset_is_sound((int32_t)block->thread) &&
		       decode_offset(at, (size_t)(stack + stack_length - at), compare_user, false,
				     &block->user)
		   ? 0
		   : -ENOTSUP;
}

int go_file_decode_labels(const uint8_t *set, size_t length, struct go_block *block)
{
	static const uint8_t load_labels[] = {0x49, 0x8b, 0x86};

	return decode_offset(set, length, load_labels, true, &block->labels) ? 0 : -ENOTSUP;
}

int go_file_decode_saved(const uint8_t *code, size_t length, struct go_block *block)
{
	/* By the instructions above; 0xff: the register and the offset may differ. */
	static const uint8_t wanted[] = {0x48, 0x8b, 0x04, 0x24, 0x48, 0x89, 0xff,
					 0xff, 0x48, 0x8d, 0x44, 0x24, 0x08, 0x48,
					 0x89, 0xff, 0xff, 0x48, 0x89, 0xff, 0xff};
	enum {
		PC = 6,
		SP = 15,
		FP = 19 /* the ModRM bytes, before the offsets */
	};

	for (size_t i = 0; i + sizeof(wanted) <= length; i++) {
		const uint8_t *at = code + i;
		const uint8_t base = at[PC] & 7;
		size_t same = 0;

		while (same < sizeof(wanted) && (wanted[same] == 0xff || wanted[same] == at[same]))
			same++;
		if (same < sizeof(wanted) || base == 4 || at[PC] != (0x40 | base) ||
		    at[SP] != (0x40 | base) || at[FP] != (0x68 | base))
			continue;
		block->saved_pc = at[PC + 1];
		block->saved_sp = at[SP + 1];
		block->saved_fp = at[FP + 1];
		return 0;
	}
	return -ENOTSUP;
}

/* Returns whether an instruction with this ModRM byte has an address of a register and an offset of
 * four bytes. */
static bool has_offset(uint8_t modrm)
{
	return modrm >> 6 == 2 && (modrm & 7) != 4;
}

/* Returns whether the code loads eight bytes from this offset. */
static bool loads_word(const uint8_t *code, size_t length, uint32_t offset)
{
	for (size_t i = 0; i + 3 + sizeof(offset) <= length; i++) {
		if ((code[i] & 0xf8) == 0x48 && code[i + 1] == 0x8b && has_offset(code[i + 2]) &&
		    (uint32_t)read_i32(code + i + 3) == offset)
			return true;
	}
	return false;
}

int go_file_decode_id(const uint8_t *change, size_t change_length, const uint8_t *print,
		      size_t print_length, struct go_block *block)
{
	static const uint8_t exchange[] = {0xf0, 0x0f, 0xb1};
	const uint8_t *at = memmem(change, change_length, exchange, sizeof(exchange));
	const size_t size = sizeof(exchange) + 1 + sizeof(int32_t);

	if (!at || (size_t)(change + change_length - at) < size || !has_offset(at[3]))
		return -ENOTSUP;
	const int32_t offset = read_i32(at + 4);

	if (!offset_is_sound(offset) ||
	    !loads_word(print, print_length, (uint32_t)offset + ID_AFTER_STATUS))
		return -ENOTSUP;
	block->id = (uint32_t)offset + ID_AFTER_STATUS;
	return 0;
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

/* Reads up to `size` bytes from the start of a function. Returns the length. */
static size_t read_code(const struct runtime_file *file, const struct go_place *place,
			uint8_t *code, size_t size)
{
	const size_t length = place->size < size ? (size_t)place->size : size;

	return runtime_file_read(file, place->vaddr, code, length) < 0 ? 0 : length;
}

/* Reads the block from the code. */
static int read_block(const struct runtime_file *file, const struct go_place places[static NAMES],
		      struct go_block *block)
{
	uint8_t code[CODE_BYTES], change[ID_CODE_BYTES], print[ID_CODE_BYTES];
	size_t length = read_code(file, &places[NAME_SYSTEM_STACK], code, sizeof(code));
	int r = go_file_decode_user(code, length, block);

	if (!r) {
		length = read_code(file, &places[NAME_GROW], code, sizeof(code));
		r = go_file_decode_saved(code, length, block);
	}
	if (!r && places[NAME_SET].size) {
		length = read_code(file, &places[NAME_SET], code, sizeof(code));
		r = go_file_decode_labels(code, length, block);
	}
	if (!r && places[NAME_PRINT_ID].size) {
		length = read_code(file, &places[NAME_CHANGE_STATUS], change, sizeof(change));
		r = go_file_decode_id(change, length, print,
				      read_code(file, &places[NAME_PRINT_ID], print, sizeof(print)),
				      block);
	}
	return r;
}

/* Finds the functions that are needed for what is wanted and is there. The places of the others
 * stay empty. Returns 0, -ENOENT or -ENOMEM. */
static int find_functions(const struct runtime_file *file, struct go_place places[static NAMES])
{
	const struct elf_source *source = &file->image.source;
	const bool wants_ids = file->wanted >> RUNTIME_ID_GOROUTINE_IDS & 1;
	const unsigned int end = wants_ids ? NAMES : NEEDED_END;
	struct go_module module;

	if (go_module_find(&module, &file->image) < 0)
		return -ENOENT;
	const bool has_labels = go_names_contain(&module, source, names, NEEDED_FIRST) == 0;
	const unsigned int first = has_labels ? 0 : NEEDED_FIRST;

	memset(places, 0, NAMES * sizeof(places[0]));
	const int r = go_names_find(&module, source, names + first, end - first, places + first);

	return r < 0 && r != -ENOMEM ? -ENOENT : r;
}

int go_file_recognise(const struct runtime_file *file, void **image,
		      struct runtime_refusal *refusal)
{
	const unsigned int minor = minor_version(file);
	struct go_place places[NAMES];

	if (minor < MINOR_FIRST)
		return -ENOENT;
	int r = find_functions(file, places);
	if (r < 0)
		return r;
	/* Without labels or ids, nobody misses much: stacks that end while they grow. */
	const bool is_missed = places[NAME_SET].size || places[NAME_PRINT_ID].size;
	if (minor > MINOR_LAST)
		return is_missed
			   ? refuse(refusal, file->path, minor, "this version is not supported")
			   : -ENOENT;
	struct go_image *made = calloc(1, sizeof(*made));
	if (!made)
		return -ENOMEM;
	made->block.is_map = minor < LABELS_SLICE_SINCE;
	made->exit_vaddr = places[NAME_EXIT].vaddr;
	made->exit_size = places[NAME_EXIT].size;
	made->grow_vaddr = places[NAME_GROW].vaddr;
	made->grow_size = places[NAME_GROW].size;
	r = read_block(file, places, &made->block);
	if (r < 0) {
		free(made);
		return is_missed ? refuse(refusal, file->path, minor,
					  "the code of its runtime is not as expected")
				 : -ENOENT;
	}
	*image = made;
	return 0;
}
