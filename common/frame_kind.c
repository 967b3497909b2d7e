/* SPDX-License-Identifier: Apache-2.0 */
#include "common/frame_kind.h"

const char *const frame_kind_names[FRAME_KIND_COUNT] = {
#define FRAME_KIND(id, name) name,
#include "common/frame_kinds.def"
#undef FRAME_KIND
};
