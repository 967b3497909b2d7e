/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IPC_RUNTIME_NAMES_H
#define IPC_RUNTIME_NAMES_H

#include "bpf/shared.h"

/* Language runtimes by enum bh_runtime, from 1 on: as scripts and as people call them. */
static const char *const runtime_names[BH_RUNTIME_COUNT] __attribute__((unused)) = {
#define RUNTIME(id, name, frame_type, title) [BH_RUNTIME_##id] = #name,
#include "common/runtimes.def"
#undef RUNTIME
};

static const char *const runtime_titles[BH_RUNTIME_COUNT] __attribute__((unused)) = {
#define RUNTIME(id, name, frame_type, title) [BH_RUNTIME_##id] = title,
#include "common/runtimes.def"
#undef RUNTIME
};

#endif
