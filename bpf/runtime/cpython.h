/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/* CPython: what walker and symbolizer share. */
#ifndef BPF_RUNTIME_CPYTHON_H
#define BPF_RUNTIME_CPYTHON_H

#include "bpf/shared.h"

struct cpython_block {
	uint64_t reserved;
};

#endif
