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

/* Removes the inlined functions from a stack that is about to be added, if the profile does without
 * them: what they did is then shown in the functions that contain them. Returns the new count. */
static inline uint32_t inlined_remove(const struct profile *profile, uint32_t *locations,
				      uint32_t count)
{
	uint32_t kept = 0;

	if (!profile->inlined || !profile->without_inlined)
		return count;
	for (uint32_t i = 0; i < count; i++) {
		if (!profile->locations[locations[i]].caller)
			locations[kept++] = locations[i];
	}
	return kept;
}

#endif
