/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the tables in which HotSpot describes its structures for debuggers: the offsets of fields
 * and the sizes of types (gHotSpotVMStructs and gHotSpotVMTypes, exported by libjvm.so;
 * src/hotspot/share/runtime/vmStructs.hpp). Builds of one version differ, so whatever a table
 * states is taken from it and not from the version number.
 */
#ifndef SYMBOLIZER_RUNTIME_HOTSPOT_VM_H
#define SYMBOLIZER_RUNTIME_HOTSPOT_VM_H

#include <stdbool.h>
#include <stdint.h>

#include "symbolizer/runtime/file.h"
#include "symbolizer/runtime/memory.h"

/* X(identifier, type, field, needed): the fields that we use. A VM that lacks a needed one is
 * refused. */
#define HOTSPOT_FIELDS(X)                                                                          \
	X(VERSION, "JDK_Version", "_current", false)                                               \
	X(VERSION_NEWER, "Abstract_VM_Version", "_vm_major_version", false)                        \
	X(CACHE_HEAP, "CodeCache", "_heap", false)                                                 \
	X(CACHE_HEAPS, "CodeCache", "_heaps", false)                                               \
	X(ARRAY_LENGTH, "GrowableArrayBase", "_len", true)                                         \
	X(ARRAY_DATA, "GrowableArray<int>", "_data", true)                                         \
	X(HEAP_MEMORY, "CodeHeap", "_memory", true)                                                \
	X(HEAP_SEGMENTS, "CodeHeap", "_segmap", true)                                              \
	X(HEAP_SHIFT, "CodeHeap", "_log2_segment_size", true)                                      \
	X(SPACE_START, "VirtualSpace", "_low_boundary", true)                                      \
	X(SPACE_END, "VirtualSpace", "_high_boundary", true)                                       \
	X(SPACE_LOW, "VirtualSpace", "_low", true)                                                 \
	X(BLOCK_LENGTH, "HeapBlock::Header", "_length", true)                                      \
	X(BLOCK_USED, "HeapBlock::Header", "_used", true)                                          \
	X(INTERPRETER, "AbstractInterpreter", "_code", true)                                       \
	X(QUEUE_BUFFER, "StubQueue", "_stub_buffer", true)                                         \
	X(QUEUE_LIMIT, "StubQueue", "_buffer_limit", true)                                         \
	X(QUEUE_END, "StubQueue", "_queue_end", true)                                              \
	X(CODELET_SIZE, "InterpreterCodelet", "_size", false)                                      \
	X(CODELET_NAME, "InterpreterCodelet", "_description", false)                               \
	X(CALL_STUB_RETURN, "StubRoutines", "_call_stub_return_address", true)                     \
	X(BLOB_NAME, "CodeBlob", "_name", true)                                                    \
	X(BLOB_SIZE, "CodeBlob", "_size", true)                                                    \
	X(BLOB_KIND, "CodeBlob", "_kind", false)                                                   \
	X(BLOB_FRAME_SIZE, "CodeBlob", "_frame_size", true)                                        \
	X(BLOB_FRAME_COMPLETE, "CodeBlob", "_frame_complete_offset", true)                         \
	X(BLOB_CODE_BEGIN, "CodeBlob", "_code_begin", false)                                       \
	X(BLOB_CODE_END, "CodeBlob", "_code_end", false)                                           \
	X(BLOB_CODE_OFFSET, "CodeBlob", "_code_offset", false)                                     \
	X(BLOB_DATA_OFFSET, "CodeBlob", "_data_offset", true)                                      \
	X(BLOB_MUTABLE_DATA, "CodeBlob", "_mutable_data", false)                                   \
	X(BLOB_MUTABLE_SIZE, "CodeBlob", "_mutable_data_size", false)                              \
	X(BLOB_RELOCATION_SIZE, "CodeBlob", "_relocation_size", false)                             \
	X(METHOD, "nmethod", "_method", true)                                                      \
	X(COMPILE_ID, "nmethod", "_compile_id", true)                                              \
	X(ORIGINAL_PC, "nmethod", "_orig_pc_offset", false)                                        \
	X(ENTRY, "nmethod", "_verified_entry_point", true)                                         \
	X(DEOPT, "CompiledMethod", "_deopt_handler_begin", false)                                  \
	X(DEOPT_METHOD_HANDLE, "CompiledMethod", "_deopt_mh_handler_begin", false)                 \
	X(IMMUTABLE_DATA, "nmethod", "_immutable_data", false)                                     \
	X(IMMUTABLE_SIZE, "nmethod", "_immutable_data_size", false)                                \
	X(SCOPES_BEGIN, "CompiledMethod", "_scopes_data_begin", false)                             \
	X(SCOPES_OFFSET, "nmethod", "_scopes_data_offset", false)                                  \
	X(PCS_OFFSET, "nmethod", "_scopes_pcs_offset", true)                                       \
	X(DEPENDENCIES_OFFSET, "nmethod", "_dependencies_offset", false)                           \
	X(METADATA_OFFSET, "nmethod", "_metadata_offset", false)                                   \
	X(PC_OFFSET, "PcDesc", "_pc_offset", true)                                                 \
	X(PC_SCOPE, "PcDesc", "_scope_decode_offset", true)                                        \
	X(CONST_METHOD, "Method", "_constMethod", true)                                            \
	X(CM_CONSTANTS, "ConstMethod", "_constants", true)                                         \
	X(CM_SIZE, "ConstMethod", "_constMethod_size", true)                                       \
	X(CM_FLAGS, "ConstMethod", "_flags", true)                                                 \
	X(CM_CODE_SIZE, "ConstMethod", "_code_size", true)                                         \
	X(CM_NAME, "ConstMethod", "_name_index", true)                                             \
	X(CM_SIGNATURE, "ConstMethod", "_signature_index", true)                                   \
	X(POOL_HOLDER, "ConstantPool", "_pool_holder", true)                                       \
	X(POOL_LENGTH, "ConstantPool", "_length", true)                                            \
	X(SOURCE_FILE, "ConstantPool", "_source_file_name_index", false)                           \
	X(CLASS_LOADER, "Klass", "_class_loader_data", false)                                      \
	X(LOADERS, "ClassLoaderDataGraph", "_head", false)                                         \
	X(LOADER_NEXT, "ClassLoaderData", "_next", false)                                          \
	X(LOADER_CLASSES, "ClassLoaderData", "_klasses", false)                                    \
	X(CLASS_NEXT, "Klass", "_next_link", false)                                                \
	X(CLASS_CONSTANTS, "InstanceKlass", "_constants", false)                                   \
	X(CLASS_METHODS, "InstanceKlass", "_methods", false)                                       \
	X(METHODS_DATA, "Array<Method*>", "_data", false)                                          \
	X(CLASS_NAME, "Klass", "_name", true)                                                      \
	X(SYMBOL_REFERENCES, "Symbol", "_hash_and_refcount", false)                                \
	X(SYMBOL_LENGTH, "Symbol", "_length", true)                                                \
	X(SYMBOL_BODY, "Symbol", "_body", true)

/* X(identifier, type, field): the names that these fields have in other versions. */
#define HOTSPOT_OTHER_NAMES(X)                                                                     \
	X(ARRAY_LENGTH, "GenericGrowableArray", "_len")                                            \
	X(METHOD, "CompiledMethod", "_method")                                                     \
	X(ENTRY, "nmethod", "_verified_entry_offset")                                              \
	X(DEOPT, "nmethod", "_deoptimize_offset")                                                  \
	X(DEOPT, "nmethod", "_deopt_handler_offset")                                               \
	X(DEOPT, "nmethod", "_deopt_handler_entry_offset")                                         \
	X(DEOPT_METHOD_HANDLE, "nmethod", "_deoptimize_mh_offset")                                 \
	X(DEOPT_METHOD_HANDLE, "nmethod", "_deopt_mh_handler_offset")                              \
	X(CM_FLAGS, "ConstMethod", "_flags._flags")                                                \
	X(SOURCE_FILE, "InstanceKlass", "_source_file_name_index")                                 \
	X(CLASS_LOADER, "InstanceKlass", "_class_loader_data")                                     \
	X(SYMBOL_REFERENCES, "Symbol", "_refcount")                                                \
	X(SYMBOL_REFERENCES, "Symbol", "_length_and_refcount")                                     \
	X(SYMBOL_LENGTH, "Symbol", "_length_and_refcount")

/* X(identifier, type): the types whose size we use, all of them needed. */
#define HOTSPOT_SIZES(X)                                                                           \
	X(HEAP_BLOCK, "HeapBlock")                                                                 \
	X(NMETHOD, "nmethod")                                                                      \
	X(PC_DESC, "PcDesc")                                                                       \
	X(CONST_METHOD, "ConstMethod")                                                             \
	X(CONSTANT_POOL, "ConstantPool")

enum hotspot_field_name {
#define FIELD(name, type, field, needed) HOTSPOT_##name,
	HOTSPOT_FIELDS(FIELD)
#undef FIELD
	HOTSPOT_FIELD_COUNT
};

enum hotspot_size_name {
#define SIZE(name, type) HOTSPOT_SIZEOF_##name,
	HOTSPOT_SIZES(SIZE)
#undef SIZE
	HOTSPOT_SIZE_COUNT
};

struct hotspot_field {
	bool known;
	bool other_name;  /* it was found under a name of HOTSPOT_OTHER_NAMES */
	uint8_t bytes;	  /* the size of its type: 1, 2, 4 or 8; 0: another one or unknown */
	uint32_t offset;  /* in its structure; below HOTSPOT_OFFSET_MAX */
	uint64_t address; /* of a static field */
};

enum {
	HOTSPOT_OFFSET_MAX = 4096 /* bytes; an offset of this or more is forged */
};

struct hotspot_vm {
	unsigned int version; /* 8, 11, 17 ... */
	struct hotspot_field fields[HOTSPOT_FIELD_COUNT];
	uint32_t sizes[HOTSPOT_SIZE_COUNT];
	char missing[64]; /* set with -ENOTSUP: what the VM does not describe, as Type._field */
};

/* What is found out from the file libjvm.so: the virtual addresses of the variables that point to
 * the tables. */
struct hotspot_image {
	uint64_t structs, types;
};

/* Looks the variables up in the file. Returns 0, or -ENOENT if it is not a libjvm.so. */
int hotspot_image_init(struct hotspot_image *image, const struct runtime_file *file);

/* Reads the tables of a process. Returns 0; -EAGAIN: ld.so has not relocated them yet; -ENOTSUP:
 * something that is needed is not described, see vm->missing; -E2BIG: a table does not end; or an
 * error of memory_read(). */
int hotspot_vm_read(struct hotspot_vm *vm, const struct hotspot_image *image, uint64_t bias,
		    struct memory *memory);

/* Reads a field, of any of the four sizes, of the structure at `address`; of a static field if that
 * is 0. Returns 0; -ENOTSUP if the VM does not describe the field; or an error of memory_read(). */
int hotspot_vm_get(const struct hotspot_vm *vm, struct memory *memory, enum hotspot_field_name name,
		   uint64_t address, uint64_t *value);

/* Takes a field from the first `length` bytes of the structure, which were read before. Returns 0
 * if the field is not described or not in them. The value is not sign-extended. */
uint64_t hotspot_vm_pick(const struct hotspot_vm *vm, enum hotspot_field_name name,
			 const void *bytes, size_t length);

#endif
