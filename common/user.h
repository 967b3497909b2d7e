/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which user a uid stands for, where users have shares or are left alone.
 *
 * How this works. Ids from 100,000 on are not those of people: a user namespace gives its user a
 * block of 65,536 of them (/etc/subuid). One block counts as one user, since its ids cost nothing.
 * So do the ids between 65,536 and 100,000, which nobody is given.
 *
 * Example: 165535 stands for 100000, and 165536 for itself.
 */
#ifndef COMMON_USER_H
#define COMMON_USER_H

#include <stdint.h>

enum {
	/* Where the blocks of ids for user namespaces begin, and how large they are: SUB_UID_MIN
	 * and SUB_UID_COUNT of shadow-utils. */
	USER_BLOCKS_START = 100000,
	USER_BLOCK = 65536,
};

/* Returns the first id of the block that a uid is in, or the uid if it is in none. */
static inline uint32_t user_of_uid(uint32_t uid)
{
	if (uid < USER_BLOCK || uid == UINT32_MAX)
		return uid;
	if (uid < USER_BLOCKS_START)
		return USER_BLOCK;
	return uid - (uid - USER_BLOCKS_START) % USER_BLOCK;
}

#endif
