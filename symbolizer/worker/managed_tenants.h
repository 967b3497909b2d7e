/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tenants (common/tenant.h) of processes with a language runtime: how many processes each has,
 * and how much time for reading their memory was spent on each.
 *
 * A tenant is kept for some seconds after its last process has ended, so that the time which was
 * spent on it still counts.
 */
#ifndef SYMBOLIZER_WORKER_MANAGED_TENANTS_H
#define SYMBOLIZER_WORKER_MANAGED_TENANTS_H

#include <stdint.h>

#include "common/tenant.h"
#include "common/time_share.h"

enum {
	MANAGED_TENANT_BUCKETS = 64,
};

struct managed_tenant {
	struct managed_tenant *next;
	struct tenant tenant;
	struct time_part time;
	unsigned int processes; /* how many refer to it */
	uint64_t left_ns;	/* when the last one ended */
};

struct managed_tenants {
	struct managed_tenant *buckets[MANAGED_TENANT_BUCKETS];
};

/* Returns a tenant, with one process more, or NULL if there is no memory. */
struct managed_tenant *managed_tenants_join(struct managed_tenants *tenants, struct tenant tenant);

/* Counts one process less. */
void managed_tenant_leave(struct managed_tenant *tenant);

/* Returns the tenant with most processes, or NULL if there is none. */
const struct managed_tenant *managed_tenants_largest(const struct managed_tenants *tenants);

/* Frees all of them. No process refers to one. */
void managed_tenants_fini(struct managed_tenants *tenants);

#endif
