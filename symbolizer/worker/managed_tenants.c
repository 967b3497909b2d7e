/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/worker/managed_tenants.h"

#include <stdlib.h>

#include "common/clock.h"
#include "common/time_units.h"

/* After this time, nothing counts any more of what was spent on a tenant (time_share.h). */
#define KEEP_NS (10 * NS_PER_S)

static struct managed_tenant **bucket_of(struct managed_tenants *tenants, struct tenant tenant)
{
	return &tenants->buckets[(tenant.uid ^ tenant.container) % MANAGED_TENANT_BUCKETS];
}

/* Frees those of a bucket whose last process ended some time ago. */
static void forget(struct managed_tenant **link, uint64_t now_ns)
{
	while (*link) {
		struct managed_tenant *t = *link;

		if (t->processes || now_ns - t->left_ns < KEEP_NS) {
			link = &t->next;
			continue;
		}
		*link = t->next;
		free(t);
	}
}

struct managed_tenant *managed_tenants_join(struct managed_tenants *tenants, struct tenant tenant)
{
	struct managed_tenant **bucket = bucket_of(tenants, tenant), *found = *bucket;

	while (found && !tenant_is(found->tenant, tenant))
		found = found->next;
	if (!found) {
		forget(bucket, clock_monotonic_ns());
		found = calloc(1, sizeof(*found));
		if (!found)
			return NULL;
		found->tenant = tenant;
		found->next = *bucket;
		*bucket = found;
	}
	found->processes++;
	return found;
}

void managed_tenant_leave(struct managed_tenant *tenant)
{
	if (!--tenant->processes)
		tenant->left_ns = clock_monotonic_ns();
}

const struct managed_tenant *managed_tenants_largest(const struct managed_tenants *tenants)
{
	const struct managed_tenant *largest = NULL;

	for (int i = 0; i < MANAGED_TENANT_BUCKETS; i++) {
		for (const struct managed_tenant *t = tenants->buckets[i]; t; t = t->next) {
			if (!largest || t->processes > largest->processes)
				largest = t;
		}
	}
	return largest;
}

void managed_tenants_fini(struct managed_tenants *tenants)
{
	for (int i = 0; i < MANAGED_TENANT_BUCKETS; i++) {
		while (tenants->buckets[i]) {
			struct managed_tenant *t = tenants->buckets[i];

			tenants->buckets[i] = t->next;
			free(t);
		}
	}
}
