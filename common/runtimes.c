/* SPDX-License-Identifier: Apache-2.0 */
#include "common/runtimes.h"

const char *const runtime_names[RUNTIME_EXTRA_END] = {
#define RUNTIME(id, name, frame_type, title) [RUNTIME_ID_##id] = #name,
#define RUNTIME_WITHOUT_WALKER(id, name, title) [RUNTIME_ID_##id] = #name,
#define RUNTIME_EXTRA(id, name, of) [RUNTIME_ID_##id] = #name,
#include "common/runtimes.def"
#undef RUNTIME
};

const char *const runtime_titles[RUNTIME_ID_COUNT] = {
#define RUNTIME(id, name, frame_type, title) [RUNTIME_ID_##id] = title,
#define RUNTIME_WITHOUT_WALKER(id, name, title) [RUNTIME_ID_##id] = title,
#include "common/runtimes.def"
#undef RUNTIME
};
