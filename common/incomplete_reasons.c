/* SPDX-License-Identifier: Apache-2.0 */
#include "common/incomplete_reasons.h"

const char *const incomplete_reason_names[INCOMPLETE_COUNT] = {
    "complete",
#define INCOMPLETE_REASON(id, name) name,
#include "common/incomplete_reasons.def"
#undef INCOMPLETE_REASON
};
