/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known about V8 in a file: its version, where its builtins are, and the offsets of fields
 * in its objects.
 *
 * How this works. V8 exports numbers for debuggers, "v8dbg_*" (tools/gen-postmortem-metadata.py).
 * Each version lacks some of them. For those, and to refuse versions that nobody has examined,
 * there is a table by version. All offsets are in bytes from the start of the object, whose tagged
 * address is one higher.
 */
#ifndef SYMBOLIZER_RUNTIME_V8_IMAGE_H
#define SYMBOLIZER_RUNTIME_V8_IMAGE_H

#include <stdint.h>

#include "parse/v8_builtins.h"
#include "symbolizer/runtime/runtime.h"

/* X(name, symbol, another symbol or NULL, value in V8 11.3, 12.4, 13.6, 14.6). The values were read
 * from the symbols of Node 20.20.2, 22.23.3, 24.21.0 and 26.10.0; where a version lacks the symbol,
 * from the memory of a process. The comments name the file and class of V8's sources. */
#define V8_CONSTANTS(X)                                                                            \
	/* js-function.tq: JSFunction */                                                           \
	X(FUNCTION_SHARED, "class_JSFunction__shared__SharedFunctionInfo", NULL, 24, 32, 32, 32)   \
	/* shared-function-info.tq: SharedFunctionInfo */                                          \
	X(SHARED_DATA, "class_SharedFunctionInfo__function_data__Object", NULL, 8, 8, 8, 8)        \
	X(SHARED_NAME, "class_SharedFunctionInfo__name_or_scope_info__Object",                     \
	  "class_SharedFunctionInfo__name_or_scope_info__Tagged_NameOrScopeInfoT_", 16, 16, 24,    \
	  24)                                                                                      \
	X(SHARED_SCRIPT, "class_SharedFunctionInfo__script_or_debug_info__HeapObject",             \
	  "class_SharedFunctionInfo__script__Tagged_HeapObject_", 32, 32, 40, 40)                  \
	X(SHARED_FLAGS, "class_SharedFunctionInfo__flags__int", NULL, 48, 48, 56, 56)              \
	/* script.tq: Script */                                                                    \
	X(SCRIPT_SOURCE, "class_Script__source__Object", NULL, 8, 8, 8, 8)                         \
	X(SCRIPT_NAME, "class_Script__name__Object", NULL, 16, 16, 16, 16)                         \
	X(SCRIPT_LINE_OFFSET, "class_Script__line_offset__SMI", NULL, 24, 24, 24, 24)              \
	X(SCRIPT_LINE_ENDS, "class_Script__line_ends__Object", NULL, 56, 56, 56, 56)               \
	X(SCRIPT_ID, "class_Script__id__SMI", NULL, 64, 64, 64, 64)                                \
	/* bytecode-array.tq: BytecodeArray */                                                     \
	X(BYTECODE_POSITIONS, "class_BytecodeArray__source_position_table__Object", NULL, 32, 24,  \
	  24, 24)                                                                                  \
	X(BYTECODE_DATA, "class_BytecodeArray__data__uintptr_t", NULL, 54, 64, 64, 64)             \
	/* code.h: Code. Until 11.3 the relocation table comes first. */                           \
	X(CODE_DEOPT, "class_Code__deoptimization_data__FixedArray", NULL, 16, 8, 8, 8)            \
	X(CODE_POSITIONS, "class_Code__source_position_table__ByteArray", NULL, 24, 16, 16, 16)    \
	X(CODE_START, "class_Code__instruction_start__Address", NULL, 40, 40, 40, 40)              \
	X(CODE_FLAGS, "class_Code__flags__uint32_t", NULL, 48, 48, 52, 52)                         \
	X(CODE_SIZE, "class_Code__instruction_size__int", NULL, 56, 52, 56, 56)                    \
	/* instruction-stream.h: InstructionStream; the Code is its first field. */                \
	X(STREAM_START, "class_InstructionStream__instruction_start__uintptr_t", NULL, 16, 32, 32, \
	  32)                                                                                      \
	/* deoptimization-data.h: indexes in DeoptimizationData */                                 \
	X(DEOPT_INLINED, "DeoptimizationDataInlinedFunctionCountIndex", NULL, 1, 1, 1, 1)          \
	X(DEOPT_LITERALS, "DeoptimizationDataLiteralArrayIndex", NULL, 2, 2, 3, 3)                 \
	X(DEOPT_SHARED, "DeoptimizationDataSharedFunctionInfoIndex",                               \
	  "DeoptimizationDataWrappedSharedFunctionInfoIndex", 6, 6, 7, 7)                          \
	X(DEOPT_INLINING, "DeoptimizationDataInliningPositionsIndex", NULL, 7, 7, 8, 8)            \
	/* code-kind.h: CodeKind; Maglev and TurboFan are the next two. */                         \
	X(KIND_BASELINE, "CodeKindBaseline", NULL, 11, 10, 10, 11)                                 \
	/* instance-type.h: InstanceType */                                                        \
	X(TYPE_SHARED, "type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE", NULL, 262, 274, 282,  \
	  288)                                                                                     \
	X(TYPE_SCRIPT, "type_Script__SCRIPT_TYPE", NULL, 167, 167, 167, 166)                       \
	X(TYPE_SCOPE, "type_ScopeInfo__SCOPE_INFO_TYPE", NULL, 261, 272, 280, 286)                 \
	X(TYPE_BYTECODES, "type_BytecodeArray__BYTECODE_ARRAY_TYPE", NULL, 191, 205, 186, 185)     \
	X(TYPE_CODE, "type_Code__CODE_TYPE", NULL, 245, 206, 187, 186)                             \
	X(TYPE_STREAM, "type_InstructionStream__INSTRUCTION_STREAM_TYPE", NULL, 252, 210, 192,     \
	  192)                                                                                     \
	X(TYPE_INTERPRETER_DATA, "type_InterpreterData__INTERPRETER_DATA_TYPE", NULL, 159, 207,    \
	  188, 187)                                                                                \
	X(TYPE_WRAPPER, "type_SharedFunctionInfoWrapper__SHARED_FUNCTION_INFO_WRAPPER_TYPE", NULL, \
	  0, 0, 195, 195)                                                                          \
	X(TYPE_WASM_EXPORT, "type_WasmExportedFunctionData__WASM_EXPORTED_FUNCTION_DATA_TYPE",     \
	  NULL, 226, 231, 181, 180)                                                                \
	X(TYPE_FIXED_ARRAY, "type_FixedArray__FIXED_ARRAY_TYPE", NULL, 175, 174, 205, 205)

enum v8_constant {
#define CONSTANT(name, symbol, other, v11, v12, v13, v14) V8_##name,
	V8_CONSTANTS(CONSTANT)
#undef CONSTANT
	V8_CONSTANT_COUNT
};

enum {
	/* Bytes of Bytecodes::kBytecodeSizes: a size for each scale of at most 256 bytecodes. */
	V8_BYTECODE_SIZES_MAX = V8_BYTECODE_SCALES * 256,
	V8_FRAME_TYPES_MAX = 64,
	/* Of InterpreterEntryTrampoline, by which a copy of the builtins is recognised. */
	V8_ENTRY_START_BYTES = 128,
};

struct v8_image {
	unsigned int major, minor;	    /* of V8 */
	unsigned int position_offset_shift; /* as in struct v8_position_table */
	uint32_t constants[V8_CONSTANT_COUNT];
	struct v8_builtins builtins;
	struct v8_entry entry;
	uint8_t entry_start[V8_ENTRY_START_BYTES];
	uint32_t irregexp_marker; /* the type of frames of regular expressions */
	uint32_t wasm_marker;
	/* Sizes of bytecodes: `bytecode_count` for operands of one byte, then for those of two and
	 * of four. 0 if unknown; then baseline code has no lines. */
	unsigned int bytecode_count;
	uint8_t bytecode_sizes[V8_BYTECODE_SIZES_MAX];
};

/* Recognises V8 in a file. 0; -ENOENT if it is not V8; -ENOTSUP with the reason. */
int v8_image_init(struct v8_image *image, const struct runtime_file *file,
		  struct runtime_refusal *refusal);

#endif
