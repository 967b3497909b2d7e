/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXPORTER_MODEL_TOP_FUNCTIONS_H
#define EXPORTER_MODEL_TOP_FUNCTIONS_H

#include "exporter/model/profile.h"
#include "ipc/messages.h"

/* Finds the functions with the most samples of their own, the largest number first. Returns how
 * many there are, at most `room`; if memory runs out, 0. A recursive function counts once per
 * sample in its total. */
unsigned int top_functions_find(const struct profile *profile, struct msg_top_function *top,
				unsigned int room);

#endif
