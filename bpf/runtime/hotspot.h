/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR Apache-2.0 */
/* HotSpot: what walker and symbolizer share. */
#ifndef BPF_RUNTIME_HOTSPOT_H
#define BPF_RUNTIME_HOTSPOT_H

#include "bpf/shared.h"

struct hotspot_block {
	uint64_t reserved;
};

#endif
