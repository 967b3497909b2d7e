/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a role is working on, in a page of memory that outlives the role.
 *
 * How this works. A role records in its page whose file or process it is about to read, and removes
 * the record afterwards. If the role hangs it is killed, and if it dies the record stays. The CLI
 * then starts the role again and gives it a copy of the page. The new process finds the record, and
 * quarantines its subject (common/quarantine.h), which is in the same page:
 *
 * - the file, or the process if it was not a file that was read;
 * - the tenant, of whom everything is left alone from the second time on.
 *
 * What is left alone is not read: stacks then end with a reason or lack names, but only those that
 * need this file or process. It is tried again when its time is over.
 *
 * The page is a copy, because a role that was killed may still be there, waiting for a file system,
 * and write into its own. The CLI reads nothing of it. A role that was taken over by an attacker
 * can write what it likes, and so have its successors leave alone what it likes, for an hour.
 *
 * Example: the worker reads the name of a function in process 42, whose memory is in a file of a
 * FUSE server that does not answer. After agent.watchdog the worker is killed, and another one is
 * started. It finds {process 42, uid 1000} in its page, writes that to the log, and shows the
 * functions of 42 without names for ten seconds. If it then hangs again, user 1000 is left alone.
 */
#ifndef ROLE_WORK_PAGE_H
#define ROLE_WORK_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/quarantine.h"
#include "common/tenant.h"

/* From this time on a tenant is left alone. */
#define WORK_TENANT_TIMES 2

/* The size of the page as the CLI makes it. */
#define WORK_PAGE_BYTES 8192

/* What is worked on. */
struct work_subject {
	uint64_t device, inode; /* of the file; inode 0: it is the process */
	struct tenant tenant;
	uint64_t tgid; /* the process, or one that maps the file */
};

struct work_page {
	struct quarantine quarantine;
	struct work_subject subject;
	uint64_t working; /* 1: on `subject`; 0: on nothing of others */
};
_Static_assert(sizeof(struct work_page) <= WORK_PAGE_BYTES, "it has a page, or two");

/* In the following functions `page` may be NULL: then nothing is recorded and nothing is left
 * alone. That is so in tests of a part of a role. */

/* Maps the page that the CLI has sent, and reads nothing of it. Returns 0 or a negative errno. */
int work_page_map(int fd, struct work_page **page);

/* Quarantines what the previous process of this role was working on, and logs that. The page is the
 * first untrusted memory that a role reads: that process may have been taken over. */
void work_page_take_over(struct work_page *page);

/* Records that work begins. There is one subject at a time. */
static inline void work_begin(struct work_page *page, const struct work_subject *subject)
{
	if (!page)
		return;
	page->subject = *subject;
	__atomic_store_n(&page->working, 1, __ATOMIC_RELEASE);
}

static inline void work_end(struct work_page *page)
{
	if (page)
		__atomic_store_n(&page->working, 0, __ATOMIC_RELEASE);
}

/* Quarantines a subject on which a helper of the role hung or died, and its tenant. Returns for how
 * many seconds the former is left alone. */
unsigned int work_quarantine(struct work_page *page, const struct work_subject *subject);

/* Shortens the time for both, because the subject was only slow. */
void work_quarantine_shorten(struct work_page *page, const struct work_subject *subject);

/* Returns whether this is to be left alone now. */
bool work_is_quarantined(const struct work_page *page, const struct work_subject *subject);

#endif
