/* SPDX-License-Identifier: Apache-2.0 */
/* As whom roles run that are services, on a made host with users and a made own uid. */
#include <criterion/criterion.h>
#include <pwd.h>
#include <string.h>
#include <unistd.h>

#include "common/exit_status.h"
#include "role/uids.h"

struct passwd *__wrap_getpwnam(const char *name);
uid_t __wrap_geteuid(void);

static struct passwd users[ROLE_COUNT];
static uid_t own;

struct passwd *__wrap_getpwnam(const char *name)
{
	for (int i = 0; i < ROLE_COUNT; i++) {
		if (users[i].pw_name && !strcmp(users[i].pw_name, name))
			return &users[i];
	}
	return NULL;
}

uid_t __wrap_geteuid(void)
{
	return own;
}

static void make_users(void)
{
	for (int i = 0; i < ROLE_COUNT; i++)
		users[i] = (struct passwd){.pw_name = (char *)role_names[i].user,
					   .pw_uid = (uid_t)(900 + i)};
	own = 900 + ROLE_OPENER;
}

TestSuite(uids, .init = make_users);

Test(uids, are_those_of_the_users)
{
	struct peer_uids uids = {0};

	cr_assert_eq(role_uids_of_service(&uids, ROLE_OPENER), STATUS_DONE);
	for (int i = 0; i < ROLE_COUNT; i++)
		cr_expect_eq(uids.uid[i], (uid_t)(900 + i));
}

Test(uids, may_be_given)
{
	struct peer_uids uids = {.uid = {1, 2, 3, own, 5, 6}};

	users[ROLE_WORKER].pw_name = NULL;
	cr_expect_eq(role_uids_of_service(&uids, ROLE_OPENER), STATUS_DONE);
	cr_expect_eq(uids.uid[ROLE_WORKER], 5);
}

Test(uids, root_becomes_the_user_later)
{
	struct peer_uids uids = {0};

	own = 0;
	cr_expect_eq(role_uids_of_service(&uids, ROLE_OPENER), STATUS_DONE);
}

Test(uids, a_role_without_a_user_is_refused)
{
	struct peer_uids uids = {0};

	users[ROLE_EXPORTER].pw_name = NULL;
	cr_expect_eq(role_uids_of_service(&uids, ROLE_OPENER), STATUS_USAGE);
}

Test(uids, two_roles_with_one_uid_are_refused)
{
	struct peer_uids uids = {0};

	users[ROLE_EXPORTER].pw_uid = users[ROLE_LOADER].pw_uid;
	cr_expect_eq(role_uids_of_service(&uids, ROLE_OPENER), STATUS_USAGE);
}

Test(uids, a_role_that_is_root_is_refused)
{
	struct peer_uids uids = {0};

	users[ROLE_CONTROL].pw_uid = 0;
	cr_expect_eq(role_uids_of_service(&uids, ROLE_OPENER), STATUS_USAGE);
}

Test(uids, the_user_of_another_role_is_refused)
{
	struct peer_uids uids = {0};

	own = 900 + ROLE_WORKER;
	cr_expect_eq(role_uids_of_service(&uids, ROLE_OPENER), STATUS_USAGE);
}
