/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/*
 * What a runtime's walker is written against; it is compiled for the kernel, and for tests in user
 * space, where whoever includes it has defined what bpf/unwind/step.h and
 * bpf/runtime/method_cache.h ask for, and env_thread_pointer(env).
 *
 * A walker is one function, NAME_walk(s, env, block), called when s->pc lies in one of the
 * runtime's ranges (s->runtime tells which). `block` is this runtime's in this process. It notes
 * the frames that it knows (push_managed) and
 *
 * - sets s->runtime.verdict to WALKER_REPLACED: they stand for the native frame at s->pc, over
 *   which unwind tables lead (an interpreter's loop); what stands for its ranges' next native
 * frames may be noted with it (pending_push);
 * - or goes to the caller itself: sets s->pc, s->sp, s->fp and s->registers_known = 0 (compiled
 *   code);
 * - or sets it to WALKER_NOT_MINE: the native frame is noted as it is;
 * - or to WALKER_RESUME_IN_CALLER: the native frame is gone over, not noted, and the walker called
 * again, with s->runtime.resume set and the frame's bounds known. It then notes its frames and
 * returns s->runtime.result.
 *
 * With WALKER_CALL_AGAIN it is called again before anything else is done. It returns
 * UNWIND_CONTINUE, or an enum bh_reason that ends the stack. It may be called many times in one
 * stack; s->runtime.memory[its number] is its own, zero before the first call.
 *
 * In the kernel it is a global function, verified once; its stack is 256 bytes at most, its loops
 * have constant bounds.
 */
#ifndef BPF_RUNTIME_WALKER_H
#define BPF_RUNTIME_WALKER_H

/*
 * RUNTIME_PART(NAME, PART) makes a part of a walker, `static __always_inline int NAME_PART(s, env,
 * block)`, a function that the verifier looks at once, however often RUNTIME_CALL(NAME, PART, s,
 * env, block) stands for it, in loops above all. What it is to work on goes through
 * s->runtime.argument.
 */
#ifdef __bpf__

#include "bpf/env.h"

#define RUNTIME_GLOBAL(function, body)                                                             \
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
		const __u64 block =                                                                \
		    bits_mask(cpu->unwind.runtime.block, (1 << BH_RUNTIME_BLOCKS_BITS) - 1);       \
		return body(&cpu->unwind, 0, (const void *)&table->blocks[block]);                 \
	}
#define RUNTIME_WALKER(name) RUNTIME_GLOBAL(walker_##name, name##_walk)
#define RUNTIME_PART(name, part) RUNTIME_GLOBAL(walker_##name##_##part, name##_##part)
#define RUNTIME_CALL(name, part, s, env, block) walker_##name##_##part(0)

#else

#define RUNTIME_WALKER(name)                                                                       \
	static int walker_##name(struct unwind_state *s, UNWIND_ENV env,                           \
				 const struct bh_runtime_block *block)                             \
	{                                                                                          \
		return name##_walk(s, env, (const void *)block);                                   \
	}
#define RUNTIME_PART(name, part)
#define RUNTIME_CALL(name, part, s, env, block) name##_##part(s, env, block)

#endif

#endif
