/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of samples lost by reason. */
#ifndef IPC_LOSSES_H
#define IPC_LOSSES_H

#include "ipc/messages.h"

/* Adds each number of `more` to that of `losses`. */
static inline void losses_add(struct msg_losses *losses, const struct msg_losses *more)
{
	for (int i = 0; i < LOSS_COUNT; i++)
		losses->lost[i] += more->lost[i];
}

/* Returns the samples lost for any reason. */
static inline uint64_t losses_total(const struct msg_losses *losses)
{
	uint64_t total = 0;

	for (int i = 0; i < LOSS_COUNT; i++)
		total += losses->lost[i];
	return total;
}

#endif
