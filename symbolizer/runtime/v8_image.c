/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recognises a file that contains V8, and finds what is the same for all its processes.
 *
 * How this works. V8's version is in four variables that every build exports. The builtins are one
 * block of code, which is found by its form, because a stripped file has no symbols for it
 * (parse/v8_builtins.h). The walker must know where InterpreterEntryTrampoline makes and removes
 * the frame of a function: its instructions say that.
 *
 * Example (Node 22): Version::major_ and minor_ are 12 and 4. The builtins are at 0x1d52000; the
 * last 494 of them, from 0x1ee20c0 on, are the handlers of bytecodes. The trampoline is at
 * 0x1d5f800, "push rbp; mov rbp, rsp; push rsi" 0x77 bytes later, the first "call rcx" at 0xdc, and
 * "leave; pop rcx; add rsp, rbx; push rcx; ret" at 0x158.
 */
#include "symbolizer/runtime/v8_image.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "symbolizer/runtime/recognise.h"

enum {
	/* Versions that were examined. */
	VERSIONS = 4,
	BYTECODE_BYTES_MAX = 32, /* the longest bytecode has 17 */
	CONSTANT_MAX = 4096,
	RUNTIME_BYTES = 32, /* "V8 13.6" */
	SYMBOL_BYTES = 96,
	/* From this version on, positions say whether they are breakable (seen in 14.6, not in
	 * 13.6; PositionTableEntry::is_breakable in src/codegen/source-position-table.h). */
	FIRST_WITH_BREAKABLE = 14,
	/* include/v8-internal.h: bytes of a tagged value without pointer compression. */
	TAGGED_BYTES = 8,
};

/* What depends on the version alone. Counted in Node 20.20.2, 22.23.3, 24.21.0 and 26.10.0. */
static const struct version {
	uint8_t major, minor;
	struct v8_builtins_form builtins;
	unsigned int bytecodes; /* Bytecodes::kBytecodeCount */
} versions[VERSIONS] = {{11, 3, {.entry_words = 8, .handlers = 483}, 198},
			{12, 4, {.entry_words = 3, .handlers = 494}, 203},
			{13, 6, {.entry_words = 3, .handlers = 511}, 208},
			{14, 6, {.entry_words = 3, .handlers = 521}, 212}};

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
	char runtime[RUNTIME_BYTES];

	snprintf(runtime, sizeof(runtime), "V8 %u.%u", image->major % 1000, image->minor % 1000);
	recognise_refuse(refusal, file->path, runtime, "JavaScript frames", why);
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

static bool examine_entry(struct v8_image *image, const struct runtime_file *file)
{
	uint8_t code[V8_ENTRY_BYTES_MAX];
	const uint64_t length = image->builtins.entry_end - image->builtins.entry;

	if (length > sizeof(code) || length < sizeof(image->entry_start) ||
	    runtime_file_read(file, image->builtins.entry, code, (size_t)length) < 0)
		return false;
	memcpy(image->entry_start, code, sizeof(image->entry_start));
	return v8_entry_examine(&image->entry, code, (size_t)length);
}

/* Reads Bytecodes::kBytecodeSizes (src/interpreter/bytecodes.h). Without it, lines of baseline code
 * are unknown. */
static void find_bytecode_sizes(struct v8_image *image, const struct runtime_file *file,
				unsigned int count)
{
	const size_t bytes = (size_t)count * V8_BYTECODE_SCALES;
	uint64_t vaddr;

	if (bytes > sizeof(image->bytecode_sizes) ||
	    v8_bytecode_sizes_find(&vaddr, &file->image, count) < 0 ||
	    runtime_file_read(file, vaddr, image->bytecode_sizes, bytes) < 0)
		return;
	for (size_t i = 0; i < bytes; i++) {
		if (!image->bytecode_sizes[i] || image->bytecode_sizes[i] > BYTECODE_BYTES_MAX)
			return;
	}
	image->bytecode_count = count;
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
	int r = v8_builtins_find(&image->builtins, &file->image, &versions[version].builtins);
	if (r == -ENOMEM)
		return r;
	if (r < 0 || !examine_entry(image, file))
		return refuse(image, file, refusal,
			      "its builtins were not found, because it differs from known builds");
	image->position_offset_shift = image->major >= FIRST_WITH_BREAKABLE;
	debug_number(file, "frametype_IrregexpFrame", &image->irregexp_marker);
	debug_number(file, "frametype_WasmFrame", &image->wasm_marker);
	find_bytecode_sizes(image, file, versions[version].bytecodes);
	return 0;
}
