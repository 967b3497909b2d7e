/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * HotSpot 8 - 25: what walker and symbolizer share. All offsets come from the tables that the VM
 * has for debuggers (src/hotspot/share/runtime/vmStructs.cpp) and are in bytes; HOTSPOT_NO_FIELD
 * where this VM does not have the field.
 */
#ifndef BPF_RUNTIME_HOTSPOT_H
#define BPF_RUNTIME_HOTSPOT_H

#include "bpf/shared.h"

enum {
	HOTSPOT_HEAPS_MAX = 4, /* JDK 9 - 25 have three at most */
	HOTSPOT_NO_FIELD = 0xffff,
	/* What is read of a blob, from its HeapBlock on, and of a ConstMethod. */
	HOTSPOT_BLOB_BYTES = 512,
	HOTSPOT_CONST_METHOD_BYTES = 64,
	/* Of a segment that was never used; others hold how many to go back, 0 at a block's first.
	 */
	HOTSPOT_FREE_SEGMENT = 0xff,
	HOTSPOT_KIND_NMETHOD = 1, /* CodeBlobKind::Nmethod */
};

/* CodeHeap: `reserved` never changes, and segments are bytes from `segments` on. */
struct hotspot_heap {
	uint64_t start, end;
	uint64_t segments;
};

enum hotspot_flags {
	/* CodeBlob::_code_offset and _data_offset from the blob on, not _code_begin and _code_end
	 */
	HOTSPOT_CODE_RELATIVE = 1,
	/* The deoptimization handlers and the entry as well */
	HOTSPOT_DEOPT_RELATIVE = 2,
	HOTSPOT_ENTRY_RELATIVE = 4,	  /* from the code's begin on, of 2 bytes */
	HOTSPOT_FRAME_COMPLETE_SHORT = 8, /* of 2 bytes, not 4 */
};

struct hotspot_block {
	struct hotspot_heap heaps[HOTSPOT_HEAPS_MAX];
	uint64_t cache_start, cache_end; /* all of them */
	uint64_t interpreter_start, interpreter_end;
	uint64_t entries_start, entries_end; /* in it, the codelets that methods are entered by */
	uint64_t call_stub_return;
	uint64_t nmethod_name,
	    native_name; /* CodeBlob::_name of nmethods, where there is no kind */
	uint64_t continuation_start, continuation_end; /* the stubs of virtual threads; 0: none */
	uint8_t segment_shift;
	uint8_t heap_block_bytes, heap_block_used;
	uint8_t flags;	  /* enum hotspot_flags */
	uint8_t bcp_slot; /* words below rbp: 7 or 8 */
	uint8_t reserved;
	uint16_t blob_bytes; /* of HOTSPOT_BLOB_BYTES */
	/* CodeBlob, nmethod */
	uint16_t name, kind, frame_size, frame_complete, code_begin, code_end;
	uint16_t verified_entry, compile_id, original_pc, deopt, deopt_method_handle;
	/* Method, ConstMethod */
	uint16_t const_method, const_method_bytes, code_size;
	uint32_t reserved2;
};
_Static_assert(sizeof(struct hotspot_block) <= BH_RUNTIME_BLOCK_BYTES, "fits");

/*
 * A frame is two words. In the first one's payload the address of the Method (interpreted), of the
 * CodeBlob, or the pc. The second is identity << 32 | kind << 28 | position, 28 bits:
 */
enum hotspot_frame {
	HOTSPOT_FRAME_INTERPRETED, /* hotspot_identity(); bytecode index, HOTSPOT_NO_BCI if not
				      known */
	HOTSPOT_FRAME_COMPILED, /* nmethod::_compile_id; return address, from the code's begin on */
	HOTSPOT_FRAME_COMPILED_TOP, /* the same, interrupted there */
	HOTSPOT_FRAME_STUB,	    /* low half of CodeBlob::_name; pc from the code's begin on */
	HOTSPOT_FRAME_CALL_STUB,    /* payload: pc */
	HOTSPOT_FRAME_INTERPRETER,  /* payload: pc; its own code, without a frame */
	HOTSPOT_FRAME_FROZEN,	    /* of a virtual thread, frames that are not on the stack */
	HOTSPOT_FRAME_KINDS
};

enum {
	HOTSPOT_KIND_SHIFT = 28,
	HOTSPOT_POSITION_MASK = (1 << HOTSPOT_KIND_SHIFT) - 1,
	HOTSPOT_NO_BCI = HOTSPOT_POSITION_MASK,
};

static inline uint64_t hotspot_word(uint32_t identity, uint32_t kind, uint64_t position)
{
	return (uint64_t)identity << 32 | (uint64_t)(kind << HOTSPOT_KIND_SHIFT) |
	       (position & HOTSPOT_POSITION_MASK);
}

/* What tells a Method from another that comes to lie at its address: where its ConstMethod and
 * ConstantPool are, and 8 bytes of the former: code size, indexes of name and signature, number. */
static inline uint32_t hotspot_identity(uint64_t const_method, uint64_t constants, uint64_t sizes)
{
	uint64_t h = const_method * 0x9e3779b97f4a7c15ull;

	h = (h ^ h >> 29 ^ constants) * 0xbf58476d1ce4e5b9ull;
	h = (h ^ h >> 31 ^ sizes) * 0x94d049bb133111ebull;
	return (uint32_t)(h >> 32);
}

/* 8 bytes at `offset`, of words read from a ConstMethod; offset + 8 <= HOTSPOT_CONST_METHOD_BYTES.
 */
static inline uint64_t hotspot_sizes(const uint64_t *words, uint32_t offset)
{
	const uint32_t shift = (offset & 7) * 8;
	const uint64_t low = words[(offset >> 3) & 7], high = words[((offset >> 3) + 1) & 7];

	return shift ? low >> shift | high << (64 - shift) : low;
}

#endif
