/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
#include "bpf/runtime/cpython.h"
#include "bpf/runtime/walker.h"

static __always_inline int cpython_walk(struct walk_state *s, WALK_ENV env,
					const struct cpython_block *block)
{
	(void)env;
	(void)block;
	s->runtime.passed = WALK_PASSED_UNKNOWN;
	return WALK_GO_ON;
}

RUNTIME_WALKER(cpython)
