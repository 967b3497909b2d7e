/* SPDX-License-Identifier: Apache-2.0 */
/* What is shown in place of a managed frame that cannot be named. */
#ifndef SYMBOLIZER_WORKER_UNNAMED_FRAME_H
#define SYMBOLIZER_WORKER_UNNAMED_FRAME_H

#include "symbolizer/namer/named_frames.h"

/* Sets `frames` to one whose name is the reason, such as "[Python: process ended]". `runtime` may
 * be any number; `error` is a negative errno of runtimes.c. */
void unnamed_frame_set(struct named_frames *frames, unsigned int runtime, int error);

#endif
