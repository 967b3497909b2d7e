/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see shares.h. */
#include "unwinder-mgr/shares.h"

#include <stdlib.h>

#include "common/clock.h"
#include "common/log.h"
#include "unwinder-mgr/limits.h"

enum {
	/* The time in which a user's processes are followed is subtracted at least this often. */
	FOLLOWED_MOST_MS = 1,
};

static void share_init(struct share *share, struct tenant tenant)
{
	*share = (struct share){
	    .tenant = tenant,
	    .building = {.percent = LIMIT_BUILD_PERCENT, .most_ns = LIMIT_BUILD_MS * NS_PER_MS},
	    .following = {.percent = LIMIT_FOLLOW_PERCENT, .most_ns = LIMIT_FOLLOW_MS * NS_PER_MS}};
}

/* Returns the share of all tenants for whom there is none. */
static struct share *shares_others(struct shares *shares)
{
	if (!shares->others.building.percent)
		share_init(&shares->others, tenant_of(TENANT_UID_UNKNOWN, 0));
	return &shares->others;
}

static struct share **bucket_of(struct shares *shares, struct tenant tenant)
{
	return &shares->buckets[(tenant.uid ^ tenant.container) % SHARES_BUCKETS];
}

static struct share *share_new(struct shares *shares, struct tenant tenant)
{
	struct share *share = shares->count < LIMIT_SHARES ? malloc(sizeof(*share)) : NULL;

	if (!share)
		return shares_others(shares);
	struct share **bucket = bucket_of(shares, tenant);
	share_init(share, tenant);
	share->next = *bucket;
	*bucket = share;
	shares->count++;
	return share;
}

struct share *shares_get(struct shares *shares, struct tenant tenant)
{
	struct share *share = *bucket_of(shares, tenant);

	while (share && !tenant_is(share->tenant, tenant))
		share = share->next;
	return share_ref(share ? share : share_new(shares, tenant));
}

struct tenant share_tenant(const struct share *share)
{
	return share ? share->tenant : tenant_of(TENANT_UID_UNKNOWN, 0);
}

struct share *share_ref(struct share *share)
{
	if (share)
		share->references++;
	return share;
}

void share_unref(struct share *share)
{
	if (share)
		share->references--;
}

/* Returns whether nothing of the time is used up. */
static bool is_unused(struct time_share *time, uint64_t now_ns)
{
	return time_share_is_left(time, now_ns) && time->left_ns == (int64_t)time->most_ns;
}

/* Returns whether nothing would be lost with the share. */
static bool share_is_idle(struct share *share, uint64_t now_ns)
{
	return !share->references && is_unused(&share->building, now_ns) &&
	       is_unused(&share->following, now_ns);
}

void shares_reclaim(struct shares *shares, uint64_t now_ns)
{
	for (unsigned int i = 0; i < SHARES_BUCKETS; i++) {
		for (struct share **link = &shares->buckets[i]; *link;) {
			struct share *share = *link;

			if (!share_is_idle(share, now_ns)) {
				link = &share->next;
				continue;
			}
			*link = share->next;
			shares->count--;
			free(share);
		}
	}
}

uint64_t share_left(const struct share *share, enum shared_table table, uint64_t room)
{
	if (!share)
		return room;
	return room > share->held[table] ? (room - share->held[table]) / 2 : 0;
}

bool share_allows(const struct share *share, enum shared_table table, uint64_t amount,
		  uint64_t room)
{
	return amount <= share_left(share, table, room);
}

void share_take(struct share *share, enum shared_table table, uint64_t amount)
{
	if (share)
		share->held[table] += amount;
}

void share_give_back(struct share *share, enum shared_table table, uint64_t amount)
{
	if (share)
		share->held[table] -= amount;
}

void shares_follow_nobody(struct shares *shares)
{
	struct time_share *time = shares->following ? &shares->following->following : NULL;

	if (!time)
		return;
	time_share_spend(time, clock_read_ns(CLOCK_THREAD_CPUTIME_ID) - shares->followed_cpu_ns);
	/* What cannot be refused, such as a fork, may take more than the share. It is made up for
	 * within seconds all the same. */
	if (time->left_ns < -(int64_t)time->most_ns)
		time->left_ns = -(int64_t)time->most_ns;
	shares->following = NULL;
}

bool shares_follow(struct shares *shares, struct share *share)
{
	const uint64_t now_ns = clock_monotonic_ns();

	if (!share)
		share = shares_others(shares);
	/* To read the time of the CPU takes a system call, so this is not done for each mapping. */
	if (shares->following != share ||
	    now_ns - shares->followed_since_ns >= FOLLOWED_MOST_MS * NS_PER_MS) {
		shares_follow_nobody(shares);
		shares->following = share;
		shares->followed_since_ns = now_ns;
		shares->followed_cpu_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
	}
	return time_share_is_left(&share->following, now_ns);
}

void shares_log_refusal(struct shares *shares, const struct share *share, const char *of)
{
	const uint64_t now_ns = clock_monotonic_ns();
	const struct tenant tenant = share_tenant(share);
	char container[TENANT_CONTAINER_BYTES];

	if (shares->logged_ns && now_ns - shares->logged_ns < LIMIT_SHARE_LOG_MS * NS_PER_MS)
		return;
	shares->logged_ns = now_ns;
	log_warning("a user has used up the share of the unwind tables that one user may have, so "
		    "stacks end in further files or processes of that user: uid=%u container=%s "
		    "of=%s",
		    tenant.uid, tenant_container(tenant, container), of);
}
