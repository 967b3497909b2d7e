/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXPORTER_MODEL_TOP_FUNCTIONS_H
#define EXPORTER_MODEL_TOP_FUNCTIONS_H

#include "exporter/model/profile.h"
#include "ipc/messages.h"

/* The `room` functions with the most samples of their own, most first; how many were found. A
 * function that recurses counts once a sample in its total. */
unsigned int top_functions_find(const struct profile *profile, struct msg_hot_function *hot,
				unsigned int room);

#endif
