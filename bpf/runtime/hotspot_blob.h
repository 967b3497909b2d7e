/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * Which code of HotSpot's an address is in: heaps are looked up by segment, and the CodeBlob says
 * what it is (src/hotspot/share/memory/heap.cpp, code/codeBlob.hpp). Included by hotspot.bpf.c.
 */
#ifndef BPF_RUNTIME_HOTSPOT_BLOB_H
#define BPF_RUNTIME_HOTSPOT_BLOB_H

#include "bpf/runtime/walker.h"
#include "bpf/runtime/hotspot.h"

enum {
	/* A blob of n segments takes one hop for each 254 of them, and free ones that were joined
	 * some more. */
	HOPS_MAX = 16,
	SEGMENTS_READ = 256, /* as fast as one, and mostly all that is needed */
};

/* The blob that was looked up last, in s->runtime.scratch; it is ours if scratch_address is
 * memory[MEMORY_BLOB]. */
enum {
	BLOB_CODE,
	BLOB_BYTES,
	BLOB_IS_NMETHOD,
	BLOB_FRAME_BYTES, /* 0: not known */
	BLOB_IDENTITY,
	BLOB_COMPLETE, /* bytes of code until the frame is complete */
	BLOB_ENTRY,
	BLOB_DEOPT,
	BLOB_DEOPT_METHOD_HANDLE,
	BLOB_ORIGINAL_PC,
};

/* In memory[HOTSPOT]: the blob; the Method that was noted last, where its bytecodes are, and
 * identity << 32 | their length. */
enum {
	MEMORY_BLOB,
	MEMORY_METHOD,
	MEMORY_CODES,
	MEMORY_IDENTITY,
};

/*
 * What is known (known.h) of a compiled method's frame, by its return address: the code there is
 * the same as long as the compile id is. An nmethod that is on a stack is not freed, and no id is
 * used twice.
 */
enum hotspot_frame_fact {
	FRAME_IDENTITY,
	FRAME_POSITION, /* in the code */
	FRAME_DISTANCE, /* from the blob */
	FRAME_BYTES,
};

/* Of the segment of the code cache in which a compiled method was interrupted, by the complement of
 * its address. */
enum hotspot_segment_fact {
	SEGMENT_IDENTITY,
	SEGMENT_DISTANCE, /* from the blob */
	SEGMENT_CODE,	  /* from the blob to the code; from there to the entry << 16 */
	SEGMENT_FRAME,	  /* words of a frame; bytes of code until it is complete << 16 */
};

/* And of a Method, by its address. */
enum hotspot_method_fact {
	METHOD_IDENTITY,
	METHOD_BYTES,	  /* of code */
	METHOD_CODES_LOW, /* where it is */
	METHOD_CODES_HIGH,
};

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

/* How many segments to go back from `segment`; out of a copy of the SEGMENTS_READ bytes of the map
 * from *start on, which is moved if need be so that it ends there. HOTSPOT_FREE_SEGMENT if it
 * cannot be read. */
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

/* The block that argument[0] is in: its address into argument[1]. 0 if there is none. */
static __always_inline int hotspot_find_block(struct unwind_state *s, UNWIND_ENV env,
					      const struct hotspot_block *b)
{
	const uint64_t pc = s->runtime.argument[0];
	const uint32_t shift = b->segment_shift & 31;
	uint64_t start = 0, segments = 0;

	for (int i = 0; i < HOTSPOT_HEAPS_MAX; i++) {
		if (pc - b->heaps[i].start < b->heaps[i].end - b->heaps[i].start) {
			start = b->heaps[i].start;
			segments = b->heaps[i].segments;
		}
	}
	if (!segments)
		return 0;
	uint64_t segment = (pc - start) >> shift, copied = segment + 1;

	s->runtime.heap_bytes = 0;
	UNWIND_NO_UNROLL
	for (int i = 0; i < HOPS_MAX; i++) {
		const uint32_t back = hotspot_back(s, env, segments, segment, &copied);

		if (!back) {
			s->runtime.argument[1] = start + (segment << shift);
			return 1;
		}
		if (back == HOTSPOT_FREE_SEGMENT || back > segment)
			return 0;
		segment -= back;
	}
	return 0;
}

RUNTIME_PART(hotspot, find_block)

/* The blob that `pc` is in, into scratch. 0 if there is none. */
static __always_inline int hotspot_find_blob(struct unwind_state *s, UNWIND_ENV env,
					     const struct hotspot_block *b, uint64_t pc)
{
	struct unwind_runtime *r = &s->runtime;
	uint64_t *memory = r->memory[BH_RUNTIME_HOTSPOT], *blob = r->scratch;

	if (memory[MEMORY_BLOB] && r->scratch_address == memory[MEMORY_BLOB] &&
	    pc - blob[BLOB_CODE] < blob[BLOB_BYTES])
		return 1;
	r->argument[0] = pc;
	const uint64_t block = RUNTIME_CALL(hotspot, find_block, s, env, b) ? r->argument[1] : 0;
	const uint64_t bytes = bits_mask(b->blob_bytes, 2 * HOTSPOT_BLOB_BYTES - 1);

	memory[MEMORY_BLOB] = 0;
	r->scratch_address = 0;
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
		blob[BLOB_IS_NMETHOD] = hotspot_u8(s, b->kind) == HOTSPOT_KIND_NMETHOD;
	else
		blob[BLOB_IS_NMETHOD] = name == b->nmethod_name || name == b->native_name;
	const int32_t frame_words = (int32_t)hotspot_u32(s, b->frame_size);
	blob[BLOB_FRAME_BYTES] = frame_words > 0 ? (uint64_t)frame_words * 8 : 0;
	blob[BLOB_IDENTITY] = (uint32_t)name;
	blob[BLOB_CODE] = begin;
	blob[BLOB_BYTES] = end - begin;
	r->scratch_address = address;
	memory[MEMORY_BLOB] = address;
	if (!blob[BLOB_IS_NMETHOD])
		return 1;
	blob[BLOB_IDENTITY] = hotspot_u32(s, b->compile_id);
	blob[BLOB_COMPLETE] = b->flags & HOTSPOT_FRAME_COMPLETE_SHORT
				  ? hotspot_u16(s, b->frame_complete)
				  : hotspot_u32(s, b->frame_complete);
	blob[BLOB_ENTRY] = b->flags & HOTSPOT_ENTRY_RELATIVE
			       ? begin + hotspot_u16(s, b->verified_entry)
			       : hotspot_u64(s, b->verified_entry);
	blob[BLOB_ORIGINAL_PC] = hotspot_u32(s, b->original_pc);
	blob[BLOB_DEOPT] = blob[BLOB_DEOPT_METHOD_HANDLE] = 0;
	if (b->deopt != HOTSPOT_NO_FIELD)
		blob[BLOB_DEOPT] = b->flags & HOTSPOT_DEOPT_RELATIVE
				       ? address + hotspot_u32(s, b->deopt)
				       : hotspot_u64(s, b->deopt);
	if (b->deopt_method_handle != HOTSPOT_NO_FIELD)
		blob[BLOB_DEOPT_METHOD_HANDLE] =
		    b->flags & HOTSPOT_DEOPT_RELATIVE
			? address + hotspot_u32(s, b->deopt_method_handle)
			: hotspot_u64(s, b->deopt_method_handle);
	return 1;
}

/* Where in memory is the compile id of the nmethod at `blob`, as part of a word? */
static __always_inline uint64_t hotspot_number(const struct hotspot_block *b, uint64_t blob)
{
	return blob - b->heap_block_bytes + (b->compile_id & ~7u);
}

/* Is it still the nmethod of that compile id? */
static __always_inline int hotspot_has_number(UNWIND_ENV env, const struct hotspot_block *b,
					      uint64_t blob, uint32_t id)
{
	uint64_t word = 0;

	return !env_read(env, &word, sizeof(word), hotspot_number(b, blob)) &&
	       (uint32_t)(word >> (b->compile_id & 4) * 8) == id;
}

/* Is the frame at return address `pc` what is known of it? Recursion: it was a moment ago. */
static __always_inline int hotspot_is_still(struct unwind_state *s, UNWIND_ENV env,
					    const struct hotspot_block *b, uint64_t pc,
					    struct method_cache_entry *known)
{
	uint64_t *last = &s->runtime.memory[BH_RUNTIME_HOTSPOT][MEMORY_BLOB];

	if (*last == ~pc || method_cache_is_trusted(s, known))
		return 1;
	if (!hotspot_has_number(env, b, pc - known->facts[FRAME_DISTANCE],
				known->facts[FRAME_IDENTITY]))
		return 0;
	method_cache_revalidate(s, known, 1);
	*last = ~pc;
	return 1;
}

/* The frame that was looked up, of a method that was called from `pc`. */
static __always_inline void hotspot_remember(struct unwind_state *s, struct method_cache *cache,
					     struct method_cache_entry *known, uint64_t pc)
{
	const uint64_t *blob = s->runtime.scratch;

	if (pc == blob[BLOB_DEOPT] || pc == blob[BLOB_DEOPT_METHOD_HANDLE])
		return;
	if (known)
		method_cache_revalidate(s, known, 0);
	else
		known = method_cache_insert(s, cache, pc);
	if (!known)
		return;
	known->facts[FRAME_IDENTITY] = (uint32_t)blob[BLOB_IDENTITY];
	known->facts[FRAME_POSITION] = (uint32_t)(pc - blob[BLOB_CODE]);
	known->facts[FRAME_DISTANCE] = (uint32_t)(pc - s->runtime.scratch_address);
	known->facts[FRAME_BYTES] = (uint32_t)blob[BLOB_FRAME_BYTES];
}

/* What hotspot_leave_top() asks of the blob that was interrupted at `pc`, into scratch, if it is
 * known. Else 0. */
static __always_inline int hotspot_recall_top(struct unwind_state *s, UNWIND_ENV env,
					      const struct hotspot_block *b, uint64_t pc)
{
	const uint32_t shift = b->segment_shift & 31;
	const uint64_t segment = pc >> shift << shift;
	const struct method_cache_entry *known =
	    method_cache_find(s, env_method_cache(env), ~segment);
	uint64_t *blob = s->runtime.scratch;

	if (!known)
		return 0;
	const uint64_t address = segment - known->facts[SEGMENT_DISTANCE];
	if (!hotspot_has_number(env, b, address, known->facts[SEGMENT_IDENTITY]))
		return 0;
	/* Not all of it: not to be found again. */
	s->runtime.memory[BH_RUNTIME_HOTSPOT][MEMORY_BLOB] = 0;
	s->runtime.scratch_address = address;
	blob[BLOB_IDENTITY] = known->facts[SEGMENT_IDENTITY];
	blob[BLOB_CODE] = address + (known->facts[SEGMENT_CODE] & 0xffff);
	blob[BLOB_ENTRY] = blob[BLOB_CODE] + (known->facts[SEGMENT_CODE] >> 16);
	blob[BLOB_FRAME_BYTES] = (uint64_t)(known->facts[SEGMENT_FRAME] & 0xffff) * 8;
	blob[BLOB_COMPLETE] = known->facts[SEGMENT_FRAME] >> 16;
	return 1;
}

/* The blob that was looked up and interrupted at `pc`, if the segment is nobody else's and its
 * numbers are small, as they mostly are. */
static __always_inline void hotspot_remember_top(struct unwind_state *s, UNWIND_ENV env,
						 const struct hotspot_block *b, uint64_t pc)
{
	const uint64_t *blob = s->runtime.scratch, address = s->runtime.scratch_address;
	const uint32_t shift = b->segment_shift & 31;
	const uint64_t segment = pc >> shift << shift, code = blob[BLOB_CODE] - address,
		       entry = blob[BLOB_ENTRY] - blob[BLOB_CODE],
		       words = blob[BLOB_FRAME_BYTES] >> 3, complete = blob[BLOB_COMPLETE];
	struct method_cache *cache = env_method_cache(env);

	if (segment < address || segment + (1ull << shift) > blob[BLOB_CODE] + blob[BLOB_BYTES] ||
	    (code | entry | words | complete) > 0xffff)
		return;
	struct method_cache_entry *known = method_cache_find(s, cache, ~segment);
	if (!known)
		known = method_cache_insert(s, cache, ~segment);
	if (!known)
		return;
	known->facts[SEGMENT_IDENTITY] = (uint32_t)blob[BLOB_IDENTITY];
	known->facts[SEGMENT_DISTANCE] = (uint32_t)(segment - address);
	known->facts[SEGMENT_CODE] = (uint32_t)(code | entry << 16);
	known->facts[SEGMENT_FRAME] = (uint32_t)(words | complete << 16);
}

#endif
