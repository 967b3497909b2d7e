/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * The interface of the walkers of language runtimes. A walker is compiled for the kernel, and for
 * tests in user space. docs/adding-a-runtime.md explains how to write one.
 *
 * A walker is one function, NAME_walk(s, env, block). It is called when s->pc lies in a range of
 * the runtime; s->runtime has that range. `block` is the data that NAME.c of the symbolizer has
 * published for the process. The walker pushes the managed frames that it finds (push_managed()),
 * and says by its verdict how to continue. The table in bpf/unwind/state.h has all transitions.
 *
 * - WALKER_REPLACED: an interpreter, whose frames replace the native frame at s->pc. The walker may
 *   push frames for the next native frames as well (pending_push()).
 * - WALKER_RESUME_IN_CALLER: the same, if the walker needs the bounds of the native frame. It is
 *   called again with s->runtime.resume set, pushes its frames, and returns s->runtime.result.
 * - WALKER_MOVED: compiled code without unwind rules. The walker itself has set s->pc, s->sp and
 *   s->fp to those of the caller, and s->registers_known to 0.
 * - WALKER_NOT_MINE: the walker knows nothing about the frame.
 * - WALKER_CALL_AGAIN: there are more frames than one call may push.
 *
 * It returns UNWIND_CONTINUE, or an enum bh_reason that ends the stack. It may be called many times
 * for one stack.
 *
 * In the kernel a walker is a global function, which the verifier checks once. Its stack has 256
 * bytes at most, and its loops have constant bounds.
 */
#ifndef BPF_RUNTIME_WALKER_H
#define BPF_RUNTIME_WALKER_H

#ifdef __bpf__
#include "bpf/env.h"
#endif
#include "bpf/runtime/thread_key.h"

/* Returns the word of the process's memory at `address`, or 0 if it cannot be read. */
static __always_inline uint64_t walker_read(UNWIND_ENV env, uint64_t address)
{
	uint64_t value = 0;

	return env_read(env, &value, sizeof(value), address) ? 0 : value;
}

/* Returns the value of a key of pthread_getspecific(3) in the thread of the sample, or 0. */
static __always_inline uint64_t walker_read_key(UNWIND_ENV env, const struct thread_key *key)
{
	const uint64_t value = walker_read(env, env_thread_pointer(env) + key->first);

	return value && key->indirect ? walker_read(env, value + key->second) : value;
}

/* Copies memory into a part of a struct bh_memory_copy, unless it is more than the part has room
 * for. */
static __always_inline void walker_copy_part(UNWIND_ENV env, struct bh_memory_part *part, void *to,
					     uint32_t room, uint64_t address, uint64_t bytes)
{
	part->address = address;
	part->bytes = 0;
	part->room = room;
	/* The check and the use must be in one register for the verifier. */
	asm volatile("" : "+r"(bytes));
	if (bytes <= room && !env_read(env, to, bytes, address))
		part->bytes = bytes;
}

/* Copies a text with the bytes before it, of which only the start is known: as much as there is
 * room for, or up to the end of its page. Nothing if the address is 0. */
static __always_inline void walker_copy_text(UNWIND_ENV env, struct bh_memory_part *part, void *to,
					     uint32_t room, uint64_t address)
{
	const uint64_t bytes = 4096 - (address & 4095);

	walker_copy_part(env, part, to, room, address, address ? room : 0);
	if (!part->bytes)
		walker_copy_part(env, part, to, room, address, address ? bytes : 0);
}

/* Zeroes the first words of a walker's state before its first call for a stack. */
static __always_inline void walker_start(struct unwind_state *s, const uint32_t runtime)
{
	if (s->runtime.started & 1u << runtime)
		return;
	s->runtime.started |= 1u << runtime;
	for (int i = 0; i < WALKER_STATE_ZEROED_WORDS; i++)
		s->runtime.walker_state[runtime][i] = 0;
}

/*
 * RUNTIME_WALKER(NAME, ID) defines the function by which the unwinder calls NAME_walk().
 *
 * RUNTIME_PART(NAME, PART) makes `static __always_inline int NAME_PART(s, env, block)` a function
 * that the verifier checks once. RUNTIME_CALL(NAME, PART, s, env, block) calls it. Without that,
 * the verifier would check it again at each place and in each iteration of a loop. Such a function
 * gets arguments and returns results through the state of its walker.
 *
 * Both compile to plain calls in user space.
 */
#ifdef __bpf__

#define RUNTIME_GLOBAL(function, prepare, body)                                                    \
	__noinline int function(__u32 unused)                                                      \
	{                                                                                          \
		__u32 zero = 0;                                                                    \
                                                                                                   \
		GLOBAL_ARGUMENT(unused);                                                           \
		struct cpu_state *cpu = bpf_map_lookup_elem(&cpu_states, &zero);                   \
		const struct bh_runtime_table *table = env_runtimes(0);                            \
                                                                                                   \
		if (!cpu || !table)                                                                \
			return BH_REASON_BAD_TABLE;                                                \
		prepare;                                                                           \
		const __u64 block =                                                                \
		    bits_mask(cpu->unwind.runtime.block, (1 << BH_RUNTIME_BLOCKS_BITS) - 1);       \
		return body(&cpu->unwind, 0, (const void *)&table->blocks[block]);                 \
	}
#define RUNTIME_WALKER(name, id)                                                                   \
	RUNTIME_GLOBAL(walker_##name, walker_start(&cpu->unwind, id), name##_walk)
#define RUNTIME_PART(name, part) RUNTIME_GLOBAL(walker_##name##_##part, (void)0, name##_##part)
#define RUNTIME_CALL(name, part, s, env, block) walker_##name##_##part(0)

#else

#define RUNTIME_WALKER(name, id)                                                                   \
	static int walker_##name(struct unwind_state *s, UNWIND_ENV env,                           \
				 const struct bh_runtime_block *block)                             \
	{                                                                                          \
		walker_start(s, id);                                                               \
		return name##_walk(s, env, (const void *)block);                                   \
	}
#define RUNTIME_PART(name, part)
#define RUNTIME_CALL(name, part, s, env, block) name##_##part(s, env, block)

#endif

/*
 * RUNTIME_STATE(NAME, ID) defines NAME_state(s), which returns the struct NAME_state of the walk.
 * That struct has been defined before, with members of type uint64_t, uint32_t or arrays of them.
 * Its first WALKER_STATE_ZEROED_WORDS words are zero at the first call for a stack, the others are
 * not.
 * All of it is kept from one call to the next.
 */
#define RUNTIME_STATE(name, id)                                                                    \
	_Static_assert(sizeof(struct name##_state) <= WALKER_STATE_WORDS * sizeof(uint64_t),       \
		       "the state of the walker fits");                                            \
	static __always_inline struct name##_state *name##_state(const struct unwind_state *s)     \
	{                                                                                          \
		return (void *)s->runtime.walker_state[id];                                        \
	}

#endif
