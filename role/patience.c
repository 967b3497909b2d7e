/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see patience.h. */
#include "role/patience.h"

#include <poll.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/time_units.h"

enum {
	LATE_MS = 3,
	LONGEST_MS = 1000, /* of all parts */
	LOG_EVERY_S = 60,
};

struct patience patience_begin(void)
{
	const uint64_t now_ns = clock_monotonic_ns();

	return (struct patience){.began_ns = now_ns, .now_ns = now_ns};
}

void patience_count(struct patience *patience)
{
	const uint64_t before_ns = patience->now_ns;

	patience->now_ns = clock_monotonic_ns();
	if (patience->now_ns - before_ns < (PATIENCE_PART_MS + LATE_MS) * NS_PER_MS)
		patience->counted_ns += patience->now_ns - before_ns;
}

bool patience_wait(struct patience *patience, int fd)
{
	struct pollfd wait = {.fd = fd, .events = POLLIN};

	if (poll(&wait, 1, PATIENCE_PART_MS) > 0)
		return true;
	patience_count(patience);
	return false;
}

bool patience_is_over(const struct patience *patience)
{
	return patience->counted_ns >= PATIENCE_MS * NS_PER_MS ||
	       patience->now_ns - patience->began_ns >= LONGEST_MS * NS_PER_MS;
}

void patience_leave_alone(struct work_page *page, uint64_t *logged_ns)
{
	const uint64_t now_ns = clock_monotonic_ns();

	if (!page)
		return;
	const struct work_subject subject = page->subject;
	char container[TENANT_CONTAINER_BYTES];
	const unsigned int seconds = work_quarantine(page, &subject);
	if (*logged_ns && now_ns - *logged_ns < LOG_EVERY_S * NS_PER_S)
		return;
	*logged_ns = now_ns;
	log_warning("memory or mappings of a process could not be read in time; the process is "
		    "left alone for a time: pid=%u uid=%u container=%s seconds=%u",
		    (unsigned int)subject.tgid, subject.tenant.uid,
		    tenant_container(subject.tenant, container), seconds);
}
