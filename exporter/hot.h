/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXPORTER_HOT_H
#define EXPORTER_HOT_H

#include "exporter/profile.h"
#include "ipc/messages.h"

/* The `room` functions with the most samples of their own, most first; how many were found. A
 * function that recurses counts once a sample in its total. */
unsigned int hot_functions(const struct profile *profile, struct msg_hot_function *hot,
			   unsigned int room);

#endif
