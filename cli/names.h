/* SPDX-License-Identifier: Apache-2.0 */
/* Names of the reasons for lost samples, as they are printed. */
#ifndef CLI_NAMES_H
#define CLI_NAMES_H

#include "ipc/messages.h"

extern const char *const loss_names[LOSS_COUNT];

#endif
