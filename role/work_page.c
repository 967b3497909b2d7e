/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see work_page.h. */
#include "role/work_page.h"

#include <errno.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/map_shared.h"

static struct quarantine_key key_of(const struct work_subject *subject)
{
	if (subject->inode)
		return (struct quarantine_key){QUARANTINE_FILE, {subject->device, subject->inode}};
	return (struct quarantine_key){QUARANTINE_PROCESS, {subject->tgid}};
}

unsigned int work_quarantine(struct work_page *page, const struct work_subject *subject)
{
	const struct quarantine_key key = key_of(subject);
	const uint64_t now_ns = clock_monotonic_ns();

	if (!page)
		return 0;
	const unsigned int seconds = quarantine_add(&page->quarantine, &key, now_ns);
	quarantine_add_tenant(&page->quarantine, subject->tenant, now_ns);
	return seconds;
}

void work_quarantine_shorten(struct work_page *page, const struct work_subject *subject)
{
	const struct quarantine_key key = key_of(subject),
				    tenant = quarantine_tenant(subject->tenant);
	const uint64_t now_ns = clock_monotonic_ns();

	if (!page)
		return;
	quarantine_shorten(&page->quarantine, &key, now_ns);
	quarantine_shorten(&page->quarantine, &tenant, now_ns);
}

/* Quarantines what the previous process was working on at its end. */
static void quarantine_last_subject(struct work_page *page)
{
	const struct work_subject subject = page->subject;
	char container[TENANT_CONTAINER_BYTES];

	page->working = 0;
	const unsigned int seconds = work_quarantine(page, &subject);
	log_warning("the previous process of this role ended while it worked on something of "
		    "another process, which is left alone for a time: pid=%u uid=%u "
		    "container=%s device=%llu inode=%llu seconds=%u",
		    (unsigned int)subject.tgid, subject.tenant.uid,
		    tenant_container(subject.tenant, container), (unsigned long long)subject.device,
		    (unsigned long long)subject.inode, seconds);
}

int work_page_map(int fd, struct work_page **page)
{
	*page = map_shared(fd, sizeof(struct work_page), PROT_READ | PROT_WRITE, 0);
	return *page ? 0 : -errno;
}

void work_page_take_over(struct work_page *page)
{
	if (!page)
		return;
	quarantine_repair(&page->quarantine, clock_monotonic_ns());
	if (page->working)
		quarantine_last_subject(page);
}

bool work_is_quarantined(const struct work_page *page, const struct work_subject *subject)
{
	const struct quarantine_key key = key_of(subject),
				    tenant = quarantine_tenant(subject->tenant);

	if (!page)
		return false;
	const uint64_t now_ns = clock_monotonic_ns();
	return quarantine_has(&page->quarantine, &key, 1, now_ns) ||
	       quarantine_has(&page->quarantine, &tenant, WORK_TENANT_TIMES, now_ns);
}
