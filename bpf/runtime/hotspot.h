/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * HotSpot 8 to 25: what the walker and the symbolizer share. All offsets are in bytes. They come
 * from the tables that the VM has for debuggers (src/hotspot/share/runtime/vmStructs.cpp). An
 * offset is HOTSPOT_NO_FIELD if this VM does not have the field.
 */
#ifndef BPF_RUNTIME_HOTSPOT_H
#define BPF_RUNTIME_HOTSPOT_H

#include "bpf/runtime/frame_word.h"
#include "bpf/shared.h"

enum {
	HOTSPOT_HEAPS_MAX = 4, /* JDK 9 to 25 have three at most; a power of two */
	HOTSPOT_NO_FIELD = 0xffff,
	/* How much is read of a blob, from its HeapBlock on, and of a ConstMethod. */
	HOTSPOT_BLOB_BYTES = 512,
	HOTSPOT_CONST_METHOD_BYTES = 64,
	/* The byte of a segment that was never used. Other bytes say how many segments to go back;
	 * 0 is the start of a block. */
	HOTSPOT_FREE_SEGMENT = 0xff,
	HOTSPOT_KIND_NMETHOD = 1, /* CodeBlobKind::Nmethod */
};

/* A CodeHeap. Its reserved memory never changes. The bytes of its segments begin at `segments`. */
struct hotspot_heap {
	uint64_t start, end;
	uint64_t segments;
};

enum hotspot_flags {
	/* CodeBlob has _code_offset and _data_offset, not _code_begin and _code_end. */
	HOTSPOT_CODE_RELATIVE = 1,
	/* The addresses of the deoptimization handlers are offsets as well. */
	HOTSPOT_DEOPT_RELATIVE = 2,
	HOTSPOT_ENTRY_RELATIVE = 4,	  /* the entry is an offset of 2 bytes from the code */
	HOTSPOT_FRAME_COMPLETE_SHORT = 8, /* _frame_complete_offset has 2 bytes, not 4 */
};

struct hotspot_block {
	struct hotspot_heap heaps[HOTSPOT_HEAPS_MAX];
	uint64_t cache_start, cache_end; /* all heaps */
	uint64_t interpreter_start, interpreter_end;
	uint64_t entries_start, entries_end; /* in it: the code by which methods are entered */
	uint64_t call_stub_return;
	uint64_t nmethod_name, native_name; /* CodeBlob::_name of nmethods, if there is no kind */
	uint64_t continuation_start, continuation_end; /* the stubs of virtual threads; 0: none */
	uint8_t segment_shift;
	uint8_t heap_block_bytes, heap_block_used;
	uint8_t flags;	  /* enum hotspot_flags */
	uint8_t bcp_slot; /* words below rbp: 7 or 8 */
	uint8_t reserved;
	uint16_t blob_bytes; /* at most HOTSPOT_BLOB_BYTES */
	/* CodeBlob, nmethod */
	uint16_t name, kind, frame_size, frame_complete, code_begin, code_end;
	uint16_t verified_entry, compile_id, original_pc, deopt, deopt_method_handle;
	/* Method, ConstMethod */
	uint16_t const_method, const_method_bytes, code_size;
	uint32_t reserved2;
};
_Static_assert(sizeof(struct hotspot_block) <= BH_RUNTIME_BLOCK_BYTES, "fits");

/*
 * A managed frame of HotSpot has two words. The payload of the first is the address of the Method
 * (interpreted), that of the CodeBlob, or pc. The second is a frame_word(). For each kind, the
 * identity and the position are:
 */
enum hotspot_frame {
	HOTSPOT_FRAME_INTERPRETED,  /* hotspot_identity(); bytecode index or HOTSPOT_NO_BCI */
	HOTSPOT_FRAME_COMPILED,	    /* nmethod::_compile_id; return address - start of the code */
	HOTSPOT_FRAME_COMPILED_TOP, /* the same; the place where it was interrupted */
	HOTSPOT_FRAME_STUB,	    /* low half of CodeBlob::_name; pc - start of the code */
	HOTSPOT_FRAME_CALL_STUB,    /* payload: pc */
	HOTSPOT_FRAME_INTERPRETER,  /* payload: pc; its own code without a frame */
	HOTSPOT_FRAME_FROZEN, /* stands for frames of a virtual thread that are not on the stack */
};

enum {
	HOTSPOT_NO_BCI = FRAME_WORD_POSITION_MASK,
};

/* Returns what distinguishes a Method from another one that is later placed at the same address. It
 * hashes the addresses of its ConstMethod and ConstantPool, and 8 bytes of the ConstMethod: code
 * size, indexes of name and signature, method id number. */
static inline uint32_t hotspot_identity(uint64_t const_method, uint64_t constants, uint64_t sizes)
{
	return frame_word_hash(const_method, constants, sizes);
}

/* Returns 8 bytes at `offset` of the words of a ConstMethod. offset + 8 must not be greater than
 * HOTSPOT_CONST_METHOD_BYTES. */
static inline uint64_t hotspot_sizes(const uint64_t *words, uint32_t offset)
{
	const uint32_t shift = (offset & 7) * 8;
	const uint64_t low = words[(offset >> 3) & 7], high = words[((offset >> 3) + 1) & 7];

	return shift ? low >> shift | high << (64 - shift) : low;
}

#endif
