/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of a profile that are inlined at one address.
 *
 * How this works. Each function is a location of its own. That of an inlined function refers to the
 * location of its caller, and in a stack it comes directly before it. Formats that have one
 * location for an address write the innermost one, with a line for each of its callers.
 *
 * Example: add() is inlined into run() at 0x1035, which main() calls. The locations are 1 {main}, 2
 * {run, 0x1035}, 3 {add, 0x1035, caller 2}, and the stack is 3, 2, 1. OTLP has the locations
 * {0x1035, lines add, run} and {main}, and a stack of two.
 */
#ifndef EXPORTER_MODEL_INLINED_H
#define EXPORTER_MODEL_INLINED_H

#include "exporter/model/profile.h"

/* Returns how many frames of a stack, from its frame number `at` on, are at one address: those that
 * are inlined there, and the function that contains them. */
static inline uint32_t inlined_count(const struct profile *profile,
				     const struct profile_stack *stack, uint32_t at)
{
	const uint32_t *locations = &profile->stack_locations[stack->first];
	uint32_t end = at;

	while (profile->inlined && profile->locations[locations[end]].caller)
		end++;
	return end + 1 - at;
}

#endif
