/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * Which piece of generated code of HotSpot an address is in. Included by hotspot.bpf.c.
 *
 * How this works. HotSpot keeps all generated code in up to three code heaps. A heap is divided
 * into segments. A byte for each segment says how many segments to go back towards the start of its
 * block: 0 at the start itself, and HOTSPOT_FREE_SEGMENT in a block that was never used
 * (src/hotspot/share/memory/heap.cpp). At the start of a block is a HeapBlock, and after it the
 * CodeBlob, which describes the code (src/hotspot/share/code/codeBlob.hpp). A CodeBlob is an
 * nmethod (a compiled Java method) or a stub.
 *
 * Example, with segments of 128 bytes: pc is 0x7f0000012345 in a heap that starts at
 * 0x7f0000000000. It is in the segment 0x246. The byte of that segment is 6, so the block may start
 * at 0x240. Its byte is 0, so it does, and the HeapBlock is at 0x7f0000012000.
 *
 * Such a search takes several reads. So the result is kept in the method cache: for a caller by its
 * return address, and for an interrupted method by the segment that it was interrupted in.
 */
#ifndef BPF_RUNTIME_HOTSPOT_BLOB_H
#define BPF_RUNTIME_HOTSPOT_BLOB_H

#include "bpf/runtime/walker.h"
#include "bpf/runtime/hotspot.h"

enum {
	/* The byte of a segment can count 254 segments at most, so a block of n segments takes one
	 * hop for each 254 of them. Free blocks that were joined may take more. */
	SEGMENT_HOPS_MAX = 16,
	SEGMENTS_READ =
	    256, /* bytes of the segment map in one read, which costs as much as one byte */
};

/* What the walker needs of a CodeBlob. */
struct hotspot_blob {
	uint64_t address;
	uint64_t code, bytes; /* its code */
	uint64_t is_nmethod;
	uint64_t frame_bytes; /* 0: unknown */
	uint64_t identity; /* compile id of an nmethod, low half of the name's address of others */
	/* Only of an nmethod: */
	uint64_t complete;		     /* bytes of code until the frame is complete */
	uint64_t entry;			     /* the verified entry point */
	uint64_t deopt, deopt_method_handle; /* return addresses of frames to be deoptimized */
	uint64_t original_pc; /* where in a frame the original one of these is kept */
};

/* What the walker keeps from one frame to the next (RUNTIME_STATE). */
struct hotspot_state {
	/* These are zero at the start of a stack. */
	uint64_t has_blob;   /* `blob` has all fields of the blob that was searched last */
	uint64_t checked_pc; /* the return address whose cached frame was found unchanged last */
	uint64_t method;     /* the Method that was read last; 0: none */
	uint64_t bytecodes, bytecode_bytes, method_identity; /* of that Method */
	uint64_t reserved[2];
	/* These are not. */
	struct hotspot_blob blob;
	uint64_t wanted_pc, found_block; /* argument and result of find_block */
};

RUNTIME_STATE(hotspot, BH_RUNTIME_HOTSPOT)

/*
 * Facts in the method cache about the frame of a compiled method, by its return address. The code
 * at that address is the same as long as the nmethod has the same compile id: an nmethod that is on
 * a stack is not freed, and no compile id is used twice.
 */
enum hotspot_frame_fact {
	FRAME_IDENTITY,
	FRAME_POSITION, /* of the return address in the code */
	FRAME_DISTANCE, /* from the blob to the return address */
	FRAME_BYTES,
};

/* Facts about the nmethod in a segment of the code cache, for methods that were interrupted in it.
 * The key is the complement of the address of the segment, which is no address of a method. */
enum hotspot_segment_fact {
	SEGMENT_IDENTITY,
	SEGMENT_DISTANCE, /* from the blob to the segment */
	SEGMENT_CODE,	  /* distance from the blob to the code | from there to the entry << 16 */
	SEGMENT_FRAME,	  /* words of a frame | bytes of code until it is complete << 16 */
};

/* Facts about a Method, by its address. */
enum hotspot_method_fact {
	METHOD_IDENTITY,
	METHOD_BYTES,	  /* length of the bytecodes */
	METHOD_CODES_LOW, /* address of the bytecodes */
	METHOD_CODES_HIGH,
};

/* Fields at `offset` of the blob that has been copied to the heap copy, from its HeapBlock on. */
static __always_inline uint64_t hotspot_u64(const struct unwind_state *s, uint32_t offset)
{
	return s->runtime.heap[bits_mask(offset >> 3, HOTSPOT_BLOB_BYTES / 8 - 1)];
}

static __always_inline uint32_t hotspot_u32(const struct unwind_state *s, uint32_t offset)
{
	return (uint32_t)(hotspot_u64(s, offset) >> (offset & 4) * 8);
}

static __always_inline uint32_t hotspot_u16(const struct unwind_state *s, uint32_t offset)
{
	return (uint16_t)(hotspot_u64(s, offset) >> (offset & 6) * 8);
}

static __always_inline uint32_t hotspot_u8(const struct unwind_state *s, uint32_t offset)
{
	return (uint8_t)(hotspot_u64(s, offset) >> (offset & 7) * 8);
}

/* Returns how many segments to go back from `segment`. Reads from a copy of SEGMENTS_READ bytes of
 * the segment map, which begins at *start. If the segment is not in it, the copy is moved so that
 * it ends with the segment. Returns HOTSPOT_FREE_SEGMENT if the map cannot be read. */
static __always_inline uint32_t hotspot_back(struct unwind_state *s, UNWIND_ENV env,
					     uint64_t segments, uint64_t segment, uint64_t *start)
{
	uint64_t *copy = s->runtime.heap;

	if (segment - *start >= SEGMENTS_READ) {
		*start = segment < SEGMENTS_READ ? 0 : segment - (SEGMENTS_READ - 1);
		if (env_read(env, copy, SEGMENTS_READ, segments + *start))
			return HOTSPOT_FREE_SEGMENT;
	}
	const uint64_t at = bits_mask(segment - *start, SEGMENTS_READ - 1);

	return (uint8_t)(copy[at >> 3] >> (at & 7) * 8);
}

/* Sets found_block to the address of the block that contains wanted_pc.
 * Returns 0 if there is none. */
static __always_inline int hotspot_find_block(struct unwind_state *s, UNWIND_ENV env,
					      const struct hotspot_block *b)
{
	const uint64_t pc = hotspot_state(s)->wanted_pc;
	const uint32_t shift = b->segment_shift & 31;
	uint64_t at = 0;

	/* The heap of pc, or the first one. An index costs the verifier less than two variables. */
	for (uint64_t i = 1; i < HOTSPOT_HEAPS_MAX; i++)
		at = pc - b->heaps[i].start < b->heaps[i].end - b->heaps[i].start ? i : at;
	const struct hotspot_heap *heap = &b->heaps[bits_mask(at, HOTSPOT_HEAPS_MAX - 1)];
	const uint64_t start = heap->start, segments = heap->segments;

	/* A heap that is not there has no addresses. */
	if (pc - start >= heap->end - start)
		return 0;
	uint64_t segment = (pc - start) >> shift, copied = segment + 1;

	s->runtime.heap_bytes = 0;
	UNWIND_NO_UNROLL
	for (int i = 0; i < SEGMENT_HOPS_MAX; i++) {
		const uint32_t back = hotspot_back(s, env, segments, segment, &copied);

		if (!back) {
			hotspot_state(s)->found_block = start + (segment << shift);
			return 1;
		}
		if (back == HOTSPOT_FREE_SEGMENT || back > segment)
			return 0;
		segment -= back;
	}
	return 0;
}

RUNTIME_PART(hotspot, find_block)

/* Sets the fields of `blob` that only an nmethod has. The heap copy has its bytes. */
static __always_inline void hotspot_read_nmethod(const struct unwind_state *s,
						 const struct hotspot_block *b,
						 struct hotspot_blob *blob)
{
	const int relative = b->flags & HOTSPOT_DEOPT_RELATIVE;

	blob->identity = hotspot_u32(s, b->compile_id);
	blob->complete = b->flags & HOTSPOT_FRAME_COMPLETE_SHORT
			     ? hotspot_u16(s, b->frame_complete)
			     : hotspot_u32(s, b->frame_complete);
	blob->entry = b->flags & HOTSPOT_ENTRY_RELATIVE
			  ? blob->code + hotspot_u16(s, b->verified_entry)
			  : hotspot_u64(s, b->verified_entry);
	blob->original_pc = hotspot_u32(s, b->original_pc);
	blob->deopt = blob->deopt_method_handle = 0;
	if (b->deopt != HOTSPOT_NO_FIELD)
		blob->deopt =
		    relative ? blob->address + hotspot_u32(s, b->deopt) : hotspot_u64(s, b->deopt);
	if (b->deopt_method_handle != HOTSPOT_NO_FIELD)
		blob->deopt_method_handle =
		    relative ? blob->address + hotspot_u32(s, b->deopt_method_handle)
			     : hotspot_u64(s, b->deopt_method_handle);
}

/* Sets `blob` to the blob that contains `pc`. Returns 0 if there is none. */
static __always_inline int hotspot_find_blob(struct unwind_state *s, UNWIND_ENV env,
					     const struct hotspot_block *b, uint64_t pc)
{
	struct unwind_runtime *r = &s->runtime;
	struct hotspot_state *h = hotspot_state(s);
	struct hotspot_blob *blob = &h->blob;

	if (h->has_blob && pc - blob->code < blob->bytes)
		return 1;
	h->wanted_pc = pc;
	const uint64_t block = RUNTIME_CALL(hotspot, find_block, s, env, b) ? h->found_block : 0;
	const uint64_t bytes = bits_mask(b->blob_bytes, 2 * HOTSPOT_BLOB_BYTES - 1);

	h->has_blob = 0;
	r->heap_bytes = 0;
	if (!block || bytes > HOTSPOT_BLOB_BYTES || env_read(env, r->heap, bytes, block) ||
	    hotspot_u8(s, b->heap_block_used) != 1)
		return 0;
	const uint64_t address = block + b->heap_block_bytes;
	const uint64_t name = hotspot_u64(s, b->name);
	uint64_t begin = hotspot_u64(s, b->code_begin), end = hotspot_u64(s, b->code_end);

	if (b->flags & HOTSPOT_CODE_RELATIVE) {
		begin = address + hotspot_u32(s, b->code_begin);
		end = address + hotspot_u32(s, b->code_end);
	}
	if (pc - begin >= end - begin)
		return 0;
	if (b->kind != HOTSPOT_NO_FIELD)
		blob->is_nmethod = hotspot_u8(s, b->kind) == HOTSPOT_KIND_NMETHOD;
	else
		blob->is_nmethod = name == b->nmethod_name || name == b->native_name;
	const int32_t frame_words = (int32_t)hotspot_u32(s, b->frame_size);
	blob->frame_bytes = frame_words > 0 ? (uint64_t)frame_words * 8 : 0;
	blob->identity = (uint32_t)name;
	blob->code = begin;
	blob->bytes = end - begin;
	blob->address = address;
	h->has_blob = 1;
	if (blob->is_nmethod)
		hotspot_read_nmethod(s, b, blob);
	return 1;
}

/* Returns the address of the word that contains the compile id of the nmethod at `blob`. */
static __always_inline uint64_t hotspot_compile_id_word(const struct hotspot_block *b,
							uint64_t blob)
{
	return blob - b->heap_block_bytes + (b->compile_id & ~7u);
}

/* Returns whether the nmethod at `blob` still has that compile id. */
static __always_inline int hotspot_has_compile_id(UNWIND_ENV env, const struct hotspot_block *b,
						  uint64_t blob, uint32_t id)
{
	uint64_t word = 0;

	return !env_read(env, &word, sizeof(word), hotspot_compile_id_word(b, blob)) &&
	       (uint32_t)(word >> (b->compile_id & 4) * 8) == id;
}

/* Returns whether the frame with the return address `pc` is the one that is cached. In a recursion
 * it has just been checked. */
static __always_inline int hotspot_is_unchanged(struct unwind_state *s, UNWIND_ENV env,
						const struct hotspot_block *b, uint64_t pc,
						struct method_cache_entry *entry)
{
	struct hotspot_state *h = hotspot_state(s);

	if (h->checked_pc == pc || method_cache_is_trusted(s, entry))
		return 1;
	if (!hotspot_has_compile_id(env, b, pc - entry->facts[FRAME_DISTANCE],
				    entry->facts[FRAME_IDENTITY]))
		return 0;
	method_cache_revalidate(s, entry, 1);
	h->checked_pc = pc;
	return 1;
}

/* Caches the frame of the method in `blob`, which called from `pc`. `entry` is the entry for that
 * address, or NULL if there is none. */
static __always_inline void hotspot_cache_frame(struct unwind_state *s, struct method_cache *cache,
						struct method_cache_entry *entry, uint64_t pc)
{
	const struct hotspot_blob *blob = &hotspot_state(s)->blob;

	if (pc == blob->deopt || pc == blob->deopt_method_handle)
		return;
	entry = method_cache_record(s, cache, entry, pc, 0);
	if (!entry)
		return;
	entry->facts[FRAME_IDENTITY] = (uint32_t)blob->identity;
	entry->facts[FRAME_POSITION] = (uint32_t)(pc - blob->code);
	entry->facts[FRAME_DISTANCE] = (uint32_t)(pc - blob->address);
	entry->facts[FRAME_BYTES] = (uint32_t)blob->frame_bytes;
}

/* Sets those fields of `blob` that hotspot_leave_top() needs from the cache, if the method that was
 * interrupted at `pc` is cached. Otherwise returns 0. */
static __always_inline int hotspot_recall_top(struct unwind_state *s, UNWIND_ENV env,
					      const struct hotspot_block *b, uint64_t pc)
{
	const uint32_t shift = b->segment_shift & 31;
	const uint64_t segment = pc >> shift << shift;
	const struct method_cache_entry *entry =
	    method_cache_find(s, env_method_cache(env), ~segment);
	struct hotspot_blob *blob = &hotspot_state(s)->blob;

	if (!entry)
		return 0;
	const uint64_t address = segment - entry->facts[SEGMENT_DISTANCE];
	if (!hotspot_has_compile_id(env, b, address, entry->facts[SEGMENT_IDENTITY]))
		return 0;
	/* Fields are missing, so it must not be taken for a complete one. */
	hotspot_state(s)->has_blob = 0;
	blob->address = address;
	blob->identity = entry->facts[SEGMENT_IDENTITY];
	blob->code = address + (entry->facts[SEGMENT_CODE] & 0xffff);
	blob->entry = blob->code + (entry->facts[SEGMENT_CODE] >> 16);
	blob->frame_bytes = (uint64_t)(entry->facts[SEGMENT_FRAME] & 0xffff) * 8;
	blob->complete = entry->facts[SEGMENT_FRAME] >> 16;
	return 1;
}

/* Caches the method in `blob`, which was interrupted at `pc`, if the segment belongs to that method
 * alone, and the values fit their 16 bits. Both mostly hold. */
static __always_inline void hotspot_cache_top(struct unwind_state *s, UNWIND_ENV env,
					      const struct hotspot_block *b, uint64_t pc)
{
	const struct hotspot_blob *blob = &hotspot_state(s)->blob;
	const uint64_t address = blob->address;
	const uint32_t shift = b->segment_shift & 31;
	const uint64_t segment = pc >> shift << shift, code = blob->code - address,
		       entry_offset = blob->entry - blob->code, words = blob->frame_bytes >> 3,
		       complete = blob->complete;
	struct method_cache *cache = env_method_cache(env);

	if (segment < address || segment + (1ull << shift) > blob->code + blob->bytes ||
	    (code | entry_offset | words | complete) > 0xffff)
		return;
	struct method_cache_entry *entry = method_cache_find(s, cache, ~segment);
	if (!entry)
		entry = method_cache_insert(s, cache, ~segment);
	if (!entry)
		return;
	entry->facts[SEGMENT_IDENTITY] = (uint32_t)blob->identity;
	entry->facts[SEGMENT_DISTANCE] = (uint32_t)(segment - address);
	entry->facts[SEGMENT_CODE] = (uint32_t)(code | entry_offset << 16);
	entry->facts[SEGMENT_FRAME] = (uint32_t)(words | complete << 16);
}

#endif
