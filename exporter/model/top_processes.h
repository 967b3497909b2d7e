/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXPORTER_MODEL_TOP_PROCESSES_H
#define EXPORTER_MODEL_TOP_PROCESSES_H

#include "common/group_by.h"
#include "exporter/model/profile.h"
#include "ipc/messages.h"

/*
 * Finds the processes with the most samples, the largest number first, and returns how many entries
 * there are, at most `room`. If memory runs out, there are none. Entries with equally many samples
 * are in the order of their names, then of their ids.
 *
 * `group_by` is the grouping of the folded output. An entry stands for all processes of one name,
 * for one process, or for all threads of one name. The members of an entry are its processes or
 * threads that have samples. Two processes with the same name and pid count as one: a pid that the
 * kernel used twice, or a program that executed itself.
 */
unsigned int top_processes_find(const struct profile *profile, enum group_by group_by,
				struct msg_top_process *top, unsigned int room);

#endif
