/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who has a share of what can run out, or is left alone: a tenant, which is a user's processes in
 * one container, or those of a user outside of all containers.
 *
 * How this works. In most containers programs run as root, or all as the same user. So the uid
 * alone would give all containers of a machine one share together, and the container alone would
 * give one to all users outside of them.
 *
 * Ids from 100,000 on are not those of people: a user namespace gives its user a block of 65,536 of
 * them (/etc/subuid). One block counts as one user, since its ids cost nothing. So do the ids
 * between 65,536 and 100,000, which nobody is given.
 *
 * The number of a container comes from its id (parse/cgroup.h). It counts only if the id was
 * certainly chosen by the machine's container runtime.
 *
 * Example: 165535 stands for user 100000, and 165536 for itself. Root in the container
 * 0123456789abcdef... is {0x0123456789abcdef, 0}.
 */
#ifndef COMMON_TENANT_H
#define COMMON_TENANT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum {
	/* Where the blocks of ids for user namespaces begin, and how large they are: SUB_UID_MIN
	 * and SUB_UID_COUNT of shadow-utils. */
	USER_BLOCKS_START = 100000,
	USER_BLOCK = 65536,
	TENANT_CONTAINER_BYTES = 13, /* of the text of a container, with the terminating 0 */
};

/* No process has this uid: it stands for that of one which has ended before it was asked for. */
#define TENANT_UID_UNKNOWN UINT32_MAX

/* A part of messages, and of memory that outlives a role. */
struct tenant {
	uint64_t container; /* 0: in none */
	uint32_t uid;	    /* user_of_uid(), or TENANT_UID_UNKNOWN */
	uint32_t reserved;  /* 0 */
};
_Static_assert(sizeof(struct tenant) == 16, "wire");

/* Returns the first id of the block that a uid is in, or the uid if it is in none. */
static inline uint32_t user_of_uid(uint32_t uid)
{
	if (uid < USER_BLOCK || uid == TENANT_UID_UNKNOWN)
		return uid;
	if (uid < USER_BLOCKS_START)
		return USER_BLOCK;
	return uid - (uid - USER_BLOCKS_START) % USER_BLOCK;
}

/* Returns the tenant of a process with this uid in this container, 0 for none. */
static inline struct tenant tenant_of(uint32_t uid, uint64_t container)
{
	return (struct tenant){.container = container, .uid = user_of_uid(uid)};
}

static inline bool tenant_is(struct tenant a, struct tenant b)
{
	return a.uid == b.uid && a.container == b.container;
}

/* Writes the container for the log: the digits that the tools of container runtimes show, or
 * "none". Returns `text`. */
static inline const char *tenant_container(struct tenant tenant, char text[TENANT_CONTAINER_BYTES])
{
	snprintf(text, TENANT_CONTAINER_BYTES, tenant.container ? "%012llx" : "none",
		 (unsigned long long)(tenant.container >> 16));
	return text;
}

#endif
