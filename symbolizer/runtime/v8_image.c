/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recognises a file that contains V8, and finds what is the same for all its processes.
 *
 * How this works. V8's version is in four variables that every build exports. The builtins are one
 * block of code; its place is a local symbol, so a file that is stripped is refused. The walker
 * must know where InterpreterEntryTrampoline makes and removes the frame of a function: its
 * instructions say that.
 *
 * Example (Node 22): Version::major_ and minor_ are 12 and 4. The builtins are at 0x1d52000. The
 * trampoline is at 0x1d5f800, "push rbp; mov rbp, rsp; push rsi" 0x77 bytes later, the first "call
 * rcx" at 0xdc, and "leave; pop rcx; add rsp, rbx; push rcx; ret" at 0x158.
 */
#include "symbolizer/runtime/v8_image.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
	/* Versions that were examined. */
	VERSIONS = 4,
	/* InterpreterEntryTrampoline has 876, 876, 524 and 564 bytes in these. */
	ENTRY_BYTES_MAX = 4096,
	/* The builtins have 1.6 to 2.2 MiB. */
	BUILTINS_BYTES_MAX = 64 << 20,
	BYTECODE_BYTES_MAX = 32, /* the longest bytecode has 17 */
	CONSTANT_MAX = 4096,
	SHOWN_PATH_BYTES = 128, /* of the path in a refusal: its end */
	SYMBOL_BYTES = 96,
	/* From this version on, positions say whether they are breakable (seen in 14.6, not in
	 * 13.6; PositionTableEntry::is_breakable in src/codegen/source-position-table.h). */
	FIRST_WITH_BREAKABLE = 14,
	/* include/v8-internal.h: bytes of a tagged value without pointer compression. */
	TAGGED_BYTES = 8,
};

static const struct {
	uint8_t major, minor;
} versions[VERSIONS] = {{11, 3}, {12, 4}, {13, 6}, {14, 6}};

static const struct constant {
	const char *symbol, *other;
	uint16_t values[VERSIONS];
} constants[V8_CONSTANT_COUNT] = {
#define CONSTANT(name, symbol, other, v11, v12, v13, v14) {symbol, other, {v11, v12, v13, v14}},
    V8_CONSTANTS(CONSTANT)
#undef CONSTANT
};

static int refuse(const struct v8_image *image, const struct runtime_file *file,
		  struct runtime_refusal *refusal, const char *why)
{
	const size_t length = strlen(file->path);
	const bool cut = length > SHOWN_PATH_BYTES;

	snprintf(refusal->text, sizeof(refusal->text),
		 "V8 %u.%u in %s%.*s: %s; its JavaScript frames are not shown, its native stacks "
		 "are complete",
		 image->major % 1000, image->minor % 1000, cut ? "..." : "", SHOWN_PATH_BYTES,
		 file->path + (cut ? length - SHOWN_PATH_BYTES : 0), why);
	for (char *c = refusal->text; *c; c++) {
		if ((unsigned char)*c < ' ' || (unsigned char)*c > '~')
			*c = '?';
	}
	return -ENOTSUP;
}

/* Reads an exported variable of four bytes. */
static bool exported_u32(const struct runtime_file *file, const char *name, uint32_t *value)
{
	struct runtime_symbol symbol;

	return runtime_file_exported(file, name, &symbol) == 0 &&
	       runtime_file_read(file, symbol.vaddr, value, sizeof(*value)) == 0;
}

/* Reads a number that V8 exports for debuggers. */
static bool debug_number(const struct runtime_file *file, const char *name, uint32_t *value)
{
	char symbol[SYMBOL_BYTES];

	snprintf(symbol, sizeof(symbol), "v8dbg_%s", name);
	return exported_u32(file, symbol, value);
}

/* Fills in the constants, from the file or from the column of the version. A number that exists
 * and cannot be an offset, an index or a type makes the file unusable. */
static bool find_constants(struct v8_image *image, const struct runtime_file *file, int version)
{
	for (int i = 0; i < V8_CONSTANT_COUNT; i++) {
		const struct constant *c = &constants[i];
		uint32_t *value = &image->constants[i];

		if (!debug_number(file, c->symbol, value) &&
		    !(c->other && debug_number(file, c->other, value)))
			*value = c->values[version];
		if (*value >= CONSTANT_MAX)
			return false;
	}
	return true;
}

/* Returns the offset of `wanted` in the code from `from` on, or -1. */
static int find_code(const uint8_t *code, size_t length, size_t from, const char *wanted,
		     size_t wanted_length)
{
	for (size_t i = from; i + wanted_length <= length; i++) {
		if (!memcmp(code + i, wanted, wanted_length))
			return (int)i;
	}
	return -1;
}

/* Finds where InterpreterEntryTrampoline makes and removes the frame. */
static bool examine_entry(struct v8_image *image, const struct runtime_file *file)
{
	/* push rbp; mov rbp, rsp; push rsi; push rdi; push rax */
	static const char push[] = "\x55\x48\x89\xe5\x56\x57\x50";
	static const char call[] = "\xff\xd1"; /* call rcx */
	/* leave; pop rcx; add rsp, rbx; push rcx; ret (until 12.4) */
	static const char leave[] = "\xc9\x59\x48\x03\xe3\x51\xc3";
	/* leave; pop rcx; lea rsp, [rsp + rbx * 8]; push rcx; ret */
	static const char leave_slots[] = "\xc9\x59\x48\x8d\x24\xdc\x51\xc3";
	uint8_t code[ENTRY_BYTES_MAX];
	const size_t length = (size_t)(image->entry_end - image->entry);

	if (length > sizeof(code) || runtime_file_read(file, image->entry, code, length) < 0)
		return false;
	const int pushed = find_code(code, length, 0, push, sizeof(push) - 1);
	if (pushed < 0)
		return false;
	const int called = find_code(code, length, (size_t)pushed, call, sizeof(call) - 1);
	if (called < 0)
		return false;
	int left = find_code(code, length, (size_t)called, leave, sizeof(leave) - 1);
	size_t left_bytes = sizeof(leave) - 1;
	if (left < 0) {
		left_bytes = sizeof(leave_slots) - 1;
		left = find_code(code, length, (size_t)called, leave_slots, left_bytes);
		image->entry_shift = 3;
	}
	if (left < 0)
		return false;
	image->entry_push = (uint16_t)pushed;
	image->entry_call = (uint16_t)called;
	image->entry_leave = (uint16_t)left;
	image->entry_removed = (uint16_t)((size_t)left + left_bytes - 2);
	return true;
}

/* Finds the builtins. */
static bool find_builtins(struct v8_image *image, const struct runtime_file *file)
{
	struct runtime_symbol blob, size, entry, handlers;
	uint32_t bytes = 0;

	if (runtime_file_local(file, "v8_Default_embedded_blob_code_", &blob) < 0 ||
	    runtime_file_local(file, "v8_Default_embedded_blob_code_size_", &size) < 0 ||
	    runtime_file_local(file, "Builtins_InterpreterEntryTrampoline", &entry) < 0 ||
	    runtime_file_local(file, "Builtins_WideHandler", &handlers) < 0 ||
	    runtime_file_read(file, size.vaddr, &bytes, sizeof(bytes)) < 0 ||
	    bytes > BUILTINS_BYTES_MAX || entry.vaddr - blob.vaddr >= bytes ||
	    handlers.vaddr - blob.vaddr >= bytes || entry.size > ENTRY_BYTES_MAX ||
	    entry.vaddr + entry.size > handlers.vaddr)
		return false;
	image->builtins = blob.vaddr;
	image->builtins_end = blob.vaddr + bytes;
	image->entry = entry.vaddr;
	image->entry_end = entry.vaddr + entry.size;
	image->handlers = handlers.vaddr;
	return examine_entry(image, file);
}

/* Reads Bytecodes::kBytecodeSizes (src/interpreter/bytecodes.h). Without it, lines of baseline code
 * are unknown. */
static void find_bytecode_sizes(struct v8_image *image, const struct runtime_file *file)
{
	static const char name[] = "_ZN2v88internal11interpreter9Bytecodes14kBytecodeSizesE";
	struct runtime_symbol symbol;

	if ((runtime_file_exported(file, name, &symbol) < 0 &&
	     runtime_file_local(file, name, &symbol) < 0) ||
	    !symbol.size || symbol.size % 3 || symbol.size > sizeof(image->bytecode_sizes) ||
	    runtime_file_read(file, symbol.vaddr, image->bytecode_sizes, (size_t)symbol.size) < 0)
		return;
	for (size_t i = 0; i < symbol.size; i++) {
		if (!image->bytecode_sizes[i] || image->bytecode_sizes[i] > BYTECODE_BYTES_MAX)
			return;
	}
	image->bytecode_count = (unsigned int)symbol.size / 3;
}

int v8_image_init(struct v8_image *image, const struct runtime_file *file,
		  struct runtime_refusal *refusal)
{
	uint32_t tagged = 0;
	int version = 0;

	memset(image, 0, sizeof(*image));
	if (!exported_u32(file, "_ZN2v88internal7Version6major_E", &image->major) ||
	    !exported_u32(file, "_ZN2v88internal7Version6minor_E", &image->minor))
		return -ENOENT;
	while (version < VERSIONS &&
	       (versions[version].major != image->major || versions[version].minor != image->minor))
		version++;
	if (version == VERSIONS)
		return refuse(image, file, refusal, "this version is not supported");
	if (debug_number(file, "TaggedSize", &tagged) && tagged != TAGGED_BYTES)
		return refuse(image, file, refusal, "pointer compression is not supported");
	if (!find_constants(image, file, version))
		return refuse(image, file, refusal, "its offsets for debuggers are not plausible");
	if (!find_builtins(image, file))
		return refuse(image, file, refusal,
			      "its builtins were not found, because the file is stripped or "
			      "differs from known builds");
	image->position_offset_shift = image->major >= FIRST_WITH_BREAKABLE;
	debug_number(file, "frametype_IrregexpFrame", &image->irregexp_marker);
	debug_number(file, "frametype_WasmFrame", &image->wasm_marker);
	find_bytecode_sizes(image, file);
	return 0;
}
