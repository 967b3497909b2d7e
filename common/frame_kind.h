/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of frames, and the names that OTLP has for them. */
#ifndef COMMON_FRAME_KIND_H
#define COMMON_FRAME_KIND_H

enum frame_kind {
#define FRAME_KIND(id, name) FRAME_KIND_##id,
#include "common/frame_kinds.def"
#undef FRAME_KIND
	FRAME_KIND_COUNT
};

extern const char *const frame_kind_names[FRAME_KIND_COUNT];

#endif
