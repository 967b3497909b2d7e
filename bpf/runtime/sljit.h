/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * Unwinds code that was compiled by sljit, the compiler that PCRE2 has for regular expressions.
 *
 * How this works. Such code has no unwind rules and no frame pointer. But its function has one
 * frame for as long as it runs, and makes it with its first instructions: it pushes registers, and
 * subtracts a constant from rsp (sljit_emit_enter() in sljitNativeX86_64.c). Its return address is
 * above all of that. So the start of the function must be found. Memory for code comes in chunks of
 * 64 KiB or a multiple. A chunk is a list of blocks, of which each has a header with its size and
 * that of the previous one (sljitExecAllocatorCore.c; PCRE2 10.42 to 10.49 have the same). A block
 * in use contains one function. The list is followed from the start of the chunk to the block with
 * the pc; sizes that contradict each other are not those of a chunk.
 *
 * Example: the pc is 0x7f80e9c0, in memory that begins at 0x7f800000. The headers are at +0, free,
 * 0xdab8 bytes, and at +0xdab8, 0x1540 bytes. So the function begins at 0x7f80dac8: push rbx, push
 * r15, push r14, push r13, push rbp, mov rbx, rdi, sub rsp, 0x50. Its return address is at rsp +
 * 0x50 + 5 * 8.
 */
#ifndef BPF_RUNTIME_SLJIT_H
#define BPF_RUNTIME_SLJIT_H

#include "bpf/unwind/push.h"
#include "bpf/unwind/state.h"

enum {
	SLJIT_CHUNK_BYTES = 1 << 16,
	SLJIT_CHUNKS_MAX = 4, /* of this size in front of the pc in its chunk */
	SLJIT_HEADERS_MAX = 128,
	SLJIT_BLOCK_LEAST = 64,
	SLJIT_BLOCK_MOST = 1 << 24,

	/* A header, as indexes of words. */
	SLJIT_SIZE = 0, /* 0: the block is free, and its size is in SLJIT_FREE_SIZE */
	SLJIT_PREVIOUS_SIZE = 1,
	SLJIT_FREE_SIZE = 4,
	SLJIT_HEADER_WORDS = 5,
	SLJIT_CODE = 16, /* bytes from a header to the code */

	SLJIT_ENTRY_BYTES = 64, /* of the instructions that make a frame, at most */
	SLJIT_ENTRY_INSTRUCTIONS = 14,
	SLJIT_FRAME_MOST = 1 << 16,
};

/* The state of a search. The walker makes its steps by functions that the verifier checks once. */
struct sljit_frame {
	uint64_t base;	 /* the start of the chunk; then that of the function */
	uint64_t at;	 /* a header; then an instruction */
	uint64_t bytes;	 /* of the previous block; then what was subtracted from rsp */
	uint32_t pushes; /* of registers that were executed */
	uint32_t fp, bx; /* the numbers of those of rbp and rbx, 0: none */
};

/* What a step says. */
enum sljit_step {
	SLJIT_GOES_ON,
	SLJIT_FOUND,
	SLJIT_UNKNOWN, /* it is no code of sljit */
};

static __always_inline void sljit_go_to_chunk(struct sljit_frame *f, uint64_t chunk)
{
	f->at = f->base = chunk;
	f->bytes = 0;
}

/* Begins to search for the block with `pc`, in memory that begins at `start`. */
static __always_inline void sljit_begin(struct sljit_frame *f, uint64_t pc, uint64_t start)
{
	sljit_go_to_chunk(f, start + ((pc - start) & -(uint64_t)SLJIT_CHUNK_BYTES));
}

/* Goes to the next header, or sets `at` to the code of the block with `pc`. */
static __always_inline int sljit_next_block(struct sljit_frame *f, UNWIND_ENV env, uint64_t pc,
					    uint64_t start)
{
	uint64_t words[SLJIT_HEADER_WORDS];

	if (env_read(env, words, sizeof(words), f->at))
		return SLJIT_UNKNOWN;
	const uint64_t size = words[SLJIT_SIZE] ? words[SLJIT_SIZE] : words[SLJIT_FREE_SIZE];

	if (words[SLJIT_PREVIOUS_SIZE] != f->bytes || size < SLJIT_BLOCK_LEAST ||
	    size > SLJIT_BLOCK_MOST || size & 7) {
		/* It is in the middle of a chunk that is larger. */
		if (f->base == start || pc - f->base > SLJIT_CHUNKS_MAX * SLJIT_CHUNK_BYTES)
			return SLJIT_UNKNOWN;
		sljit_go_to_chunk(f, f->base - SLJIT_CHUNK_BYTES);
		return SLJIT_GOES_ON;
	}
	if (pc - f->at < size) {
		f->at += SLJIT_CODE;
		return words[SLJIT_SIZE] && pc >= f->at ? SLJIT_FOUND : SLJIT_UNKNOWN;
	}
	f->bytes = size;
	f->at += size;
	return SLJIT_GOES_ON;
}

/* Copies the first instructions of the function to s->runtime.heap. Returns 0 if it cannot. */
static __always_inline int sljit_begin_entry(struct unwind_state *s, UNWIND_ENV env,
					     struct sljit_frame *f)
{
	f->base = f->at;
	f->bytes = 0;
	f->pushes = f->fp = f->bx = 0;
	s->runtime.heap_bytes = 0;
	return !env_read(env, s->runtime.heap, SLJIT_ENTRY_BYTES + 8, f->at);
}

/* Returns whether the instruction at the start of `bytes` copies a register, with 64 bits. */
static __always_inline int sljit_is_move(uint64_t bytes)
{
	return (bytes & 0xf8) == 0x48 && (bytes >> 8 & 0xfd) == 0x89 && (bytes >> 22 & 3) == 3;
}

/* Follows the next instruction that makes the frame, unless the function was at `pc` before it. */
static __always_inline int sljit_next_instruction(struct unwind_state *s, struct sljit_frame *f,
						  uint64_t pc)
{
	const uint8_t *code = (const uint8_t *)s->runtime.heap;
	const uint64_t at = f->at - f->base;
	uint64_t bytes;

	if (f->at >= pc)
		return SLJIT_FOUND;
	if (at >= SLJIT_ENTRY_BYTES)
		return SLJIT_UNKNOWN;
	__builtin_memcpy(&bytes, code + bits_mask(at, SLJIT_ENTRY_BYTES - 1), 8);
	const uint32_t has_prefix = (bytes & 0xff) == 0x41;
	const uint32_t opcode = bytes >> has_prefix * 8 & 0xff;

	if ((opcode & 0xf8) == 0x50) { /* push */
		f->pushes++;
		f->at += 1 + has_prefix;
		if ((bytes & 0xff) == 0x55) /* rbp */
			f->fp = f->pushes;
		if ((bytes & 0xff) == 0x53) /* rbx */
			f->bx = f->pushes;
	} else if ((uint32_t)bytes == 0xfa1e0ff3) { /* endbr64 */
		f->at += 4;
	} else if (sljit_is_move(bytes)) {
		f->at += 3;
	} else if ((bytes & 0xffffff) == 0xec8348) { /* sub rsp, 1 byte */
		f->bytes = bytes >> 24 & 0xff;
		return SLJIT_FOUND;
	} else if ((bytes & 0xffffff) == 0xec8148) { /* sub rsp, 4 bytes */
		f->bytes = (uint32_t)(bytes >> 24);
		return SLJIT_FOUND;
	} else {
		return SLJIT_UNKNOWN;
	}
	return SLJIT_GOES_ON;
}

/* Unwinds and pushes the frame at s->pc, whose function was followed as far as it was executed. Its
 * caller is not in the memory from `start` to `end`. Returns 0, and changes nothing, if that is not
 * so. */
static __always_inline int sljit_unwind(struct unwind_state *s, UNWIND_ENV env,
					const struct sljit_frame *f, uint64_t start, uint64_t end)
{
	const uint64_t at = s->sp + f->bytes + f->pushes * 8ull;
	uint64_t ra = 0, fp = s->fp, bx = s->gpr[BH_REG_RBX];

	if (f->bytes >= SLJIT_FRAME_MOST || env_read(env, &ra, sizeof(ra), at) || !ra ||
	    ra - start < end - start ||
	    (f->fp && env_read(env, &fp, sizeof(fp), at - f->fp * 8ull)) ||
	    (f->bx && env_read(env, &bx, sizeof(bx), at - f->bx * 8ull)))
		return 0;
	push_native(s, bh_frame_raw(s->pc - !s->registers_known));
	s->pc = ra;
	s->sp = at + 8;
	s->fp = fp;
	s->gpr[BH_REG_RBX] = bx;
	s->registers_known = 0;
	return 1;
}

#endif
