/* SPDX-License-Identifier: Apache-2.0 */
/* The files in which functions without names were sampled most, for the summary: a debug file would
 * name them. */
#ifndef EXPORTER_MODEL_UNNAMED_MODULES_H
#define EXPORTER_MODEL_UNNAMED_MODULES_H

#include "exporter/model/profile.h"
#include "ipc/messages.h"

/* Finds the files that are in the most samples with a function without a name, the largest number
 * first. A sample counts once for each file. Returns how many there are, at most `room`; if memory
 * runs out, 0. */
unsigned int unnamed_modules_find(const struct profile *profile, struct msg_unnamed_module *top,
				  unsigned int room);

#endif
