/* SPDX-License-Identifier: Apache-2.0 */
#include "control/backoff.h"

enum {
	DOUBLINGS_MAX = 8 /* more would pass BACKOFF_MAX_MS in any case */
};

void backoff_start(struct backoff *backoff, uint64_t now_ns)
{
	backoff->started_ns = now_ns;
	backoff->due_ns = 0;
}

void backoff_end(struct backoff *backoff, uint64_t now_ns, bool was_ready)
{
	const uint64_t max_ms = was_ready ? BACKOFF_MAX_READY_MS : BACKOFF_MAX_MS;
	uint64_t wait_ms = 0;

	if (was_ready && now_ns - backoff->started_ns > BACKOFF_STEADY_MS * 1000000ull)
		backoff->failures = 0;
	if (backoff->failures) {
		const unsigned int doublings = backoff->failures - 1;

		wait_ms = (uint64_t)BACKOFF_FIRST_MS
			  << (doublings < DOUBLINGS_MAX ? doublings : DOUBLINGS_MAX);
	}
	if (wait_ms > max_ms)
		wait_ms = max_ms;
	backoff->failures++;
	backoff->due_ns = now_ns + wait_ms * 1000000u;
}
