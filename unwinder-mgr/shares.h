/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much of the tables that all processes of the machine share each tenant holds, and how much of
 * the manager's time each tenant takes. A tenant is a user, or a user in a container
 * (common/tenant.h).
 *
 * How this works. Tenants decide how many files their processes map, and how many rules those files
 * have. So that one tenant's files cannot keep out those of others, a tenant may hold at
 * most as much of a table as is still free. One alone gets half of a table. A second one gets
 * half of what is left, and so on: there is always room for one more. Nothing is set aside for
 * tenants who need nothing, and nothing has to be taken away again.
 *
 * What is refused is missing for that tenant's files and processes only, and their stacks end with
 * the reason "table_refused". Memory for stacks that wait for tables is shared in the same way: one
 * that may not wait is sent on as far as it can be walked.
 *
 * Time is shared in the same way: the manager builds the tables of a tenant's files, and follows
 * what the tenant's processes do, each in a part of the time (common/time_share.h). The time that
 * counts is that of the CPU: where others keep it busy, work takes longer, and that is not the
 * tenant's fault.
 *
 * Example: 4,096 modules are possible and nobody has any. User 1000 maps 5,000 files: the first
 * 2,048 are accepted. User 1001 may have up to 1,024 then. User 1000 ends 1,024 of his modules, and
 * user 1001 may have up to 1,536.
 */
#ifndef UNWINDER_MGR_SHARES_H
#define UNWINDER_MGR_SHARES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/tenant.h"
#include "common/time_share.h"

enum shared_table {
	SHARED_MODULES,
	SHARED_RULES,
	SHARED_SLABS,	 /* in bytes */
	SHARED_DEFERRED, /* in bytes: stacks that wait for tables */
	SHARED_TABLES
};

enum {
	SHARES_BUCKETS = 64
};

/* What one tenant holds. */
struct share {
	struct share *next;
	struct tenant tenant;
	unsigned int references; /* by processes, modules, lists of mappings, stacks */
	uint64_t held[SHARED_TABLES];
	struct time_share building;  /* time in which tables of the tenant's files are built */
	struct time_share following; /* time in which the tenant's processes are followed */
};

struct shares {
	struct share *buckets[SHARES_BUCKETS];
	unsigned int count;
	struct share others;	 /* of all tenants for whom there is no room here */
	struct share *following; /* the one whose processes are followed right now, or NULL */
	uint64_t followed_since_ns;
	uint64_t followed_cpu_ns; /* the same moment in the time of this thread's CPU */
	uint64_t logged_ns;	  /* when a refusal was last written to the log; 0: never */
};

/* Returns the tenant of a share. `share` may be NULL: then it is one whose uid is not known. */
struct tenant share_tenant(const struct share *share);

/* Returns the share of a tenant, with one reference more. */
struct share *shares_get(struct shares *shares, struct tenant tenant);

/* Adds one reference. `share` may be NULL. Returns it. */
struct share *share_ref(struct share *share);

/* Takes one reference back. `share` may be NULL. */
void share_unref(struct share *share);

/* Frees the shares without references: their tenants hold nothing. One whose time is used up is
 * kept until that is made up for. */
void shares_reclaim(struct shares *shares, uint64_t now_ns);

/* Returns whether the tenant may hold `amount` more of a table of which `room` is free. NULL stands
 * for the machine itself, which is not limited. */
bool share_allows(const struct share *share, enum shared_table table, uint64_t amount,
		  uint64_t room);

/* Returns how much more of a table the tenant may hold, if `room` of it is free. */
uint64_t share_left(const struct share *share, enum shared_table table, uint64_t room);

/* Counts `amount` as held. `share` may be NULL. */
void share_take(struct share *share, enum shared_table table, uint64_t amount);

/* Counts `amount` as no longer held. `share` may be NULL. */
void share_give_back(struct share *share, enum shared_table table, uint64_t amount);

/* Lets the CPU time of this thread count as spent on the processes of this tenant, until the
 * next call or shares_follow_nobody(). Returns whether there is time left for that. NULL stands for
 * all tenants that are not known, who count as one. */
bool shares_follow(struct shares *shares, struct share *share);

/* Ends the time that counts as spent on somebody's processes. Called before the caller returns to
 * the loop, since the share may be freed there. */
void shares_follow_nobody(struct shares *shares);

/* Logs that the tenant is refused more of something, such as "files"; at most once per minute for
 * all tenants. */
void shares_log_refusal(struct shares *shares, const struct share *share, const char *of);

#endif
