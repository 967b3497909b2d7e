/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/names.h"

const char *const loss_names[LOSS_COUNT] = {
#define LOSS_NAME(name, text) text,
    LOSS_REASONS(LOSS_NAME)
#undef LOSS_NAME
};
