/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses uids for a made host: its users, and a directory that looks like /proc. */
#include <criterion/criterion.h>
#include <errno.h>
#include <ftw.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/role_uids.h"

#define FIRST 61184u /* of the range that systemd keeps for dynamic users */
#define LAST 65519u

/* The users of the made host. */
static struct passwd users[4];
static size_t user_count;

struct passwd *__wrap_getpwnam(const char *name);
struct passwd *__wrap_getpwuid(uid_t uid);

struct passwd *__wrap_getpwnam(const char *name)
{
	for (size_t i = 0; i < user_count; i++) {
		if (!strcmp(users[i].pw_name, name))
			return &users[i];
	}
	return NULL;
}

struct passwd *__wrap_getpwuid(uid_t uid)
{
	for (size_t i = 0; i < user_count; i++) {
		if (users[i].pw_uid == uid)
			return &users[i];
	}
	return NULL;
}

static void add_user(char *name, uid_t uid)
{
	users[user_count++] = (struct passwd){.pw_name = name, .pw_uid = uid};
}

static char proc[] = "/tmp/role-uids-XXXXXX";

static void make_proc(void)
{
	cr_assert(mkdtemp(proc));
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *walk)
{
	(void)st, (void)type, (void)walk;
	return remove(path);
}

static void remove_proc(void)
{
	nftw(proc, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

TestSuite(role_uids, .init = make_proc, .fini = remove_proc);

/* A process with this line of uids. Its name looks like one too. */
static void add_process(const char *pid, const char *uids)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/%s", proc, pid);
	cr_assert_eq(mkdir(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/%s/status", proc, pid);
	FILE *f = fopen(path, "w");
	cr_assert(f);
	fprintf(f,
		"Name:\tUid:\t%u\nUmask:\t0022\nState:\tS (sleeping)\nUid:\t%s\nGid:\t0\t0\t0\t0\n",
		LAST, uids);
	fclose(f);
}

static void expect_uids(const struct peer_uids *uids, const uid_t *expected)
{
	cr_expect_eq(uids->uid[ROLE_CONTROL], geteuid());
	for (int role = ROLE_CONTROL + 1; role < ROLE_COUNT; role++)
		cr_expect_eq(uids->uid[role], expected[role - 1], "%s: %u",
			     role_names[role].process, uids->uid[role]);
}

Test(role_uids, those_of_an_agent_are_the_first_of_the_range)
{
	struct peer_uids uids;

	add_process("1", "0\t0\t0\t0");
	cr_assert_eq(role_uids_choose(proc, true, &uids), 0);
	expect_uids(&uids, (uid_t[]){FIRST, FIRST + 1, FIRST + 2, FIRST + 3, FIRST + 4});
}

Test(role_uids, one_that_a_process_or_a_user_has_is_left_out)
{
	struct peer_uids uids;

	/* Each of the four kinds of uid counts. */
	add_process("1", "0\t0\t0\t0");
	add_process("20", "61185\t0\t0\t0");
	add_process("21", "0\t61186\t0\t0");
	add_process("22", "0\t0\t61187\t0");
	add_process("23", "0\t0\t0\t61188");
	add_process("self", "61184\t61184\t61184\t61184"); /* not a process */
	add_user((char[]){"somebody"}, FIRST + 5);
	cr_assert_eq(role_uids_choose(proc, true, &uids), 0);
	expect_uids(&uids, (uid_t[]){FIRST, FIRST + 6, FIRST + 7, FIRST + 8, FIRST + 9});
}

Test(role_uids, a_role_has_the_user_of_its_name_unless_a_process_runs_as_it)
{
	struct peer_uids uids;

	add_user((char[]){"bulkhead-sym"}, 990);
	add_user((char[]){"bulkhead-symw"}, 991);
	add_process("30", "990\t990\t990\t990");
	cr_assert_eq(role_uids_choose(proc, true, &uids), 0);
	expect_uids(&uids, (uid_t[]){FIRST, FIRST + 1, FIRST + 2, 991, FIRST + 3});
}

Test(role_uids, roles_do_not_share_the_uid_of_two_names)
{
	struct peer_uids uids;

	add_user((char[]){"bulkhead-sym"}, 990);
	add_user((char[]){"bulkhead-symw"}, 990);
	cr_assert_eq(role_uids_choose(proc, true, &uids), 0);
	expect_uids(&uids, (uid_t[]){FIRST, FIRST + 1, 990, FIRST + 2, FIRST + 3});
}

Test(role_uids, those_of_a_recording_depend_on_its_pid)
{
	struct peer_uids uids;

	cr_assert_eq(role_uids_choose(proc, false, &uids), 0);
	const unsigned int place = (unsigned int)getpid() * 8;
	for (int role = ROLE_CONTROL + 1; role < ROLE_COUNT; role++)
		cr_expect_eq(uids.uid[role],
			     FIRST + (place + (unsigned int)role - 1) % (LAST - FIRST + 1));
}

Test(role_uids, without_a_free_one_nothing_is_chosen)
{
	struct peer_uids uids;
	char pid[16], line[64];

	/* All but four. */
	for (unsigned int uid = FIRST; uid <= LAST - 4; uid += 4) {
		snprintf(pid, sizeof(pid), "%u", uid);
		snprintf(line, sizeof(line), "%u\t%u\t%u\t%u", uid, uid + 1, uid + 2, uid + 3);
		add_process(pid, line);
	}
	cr_assert_eq(role_uids_choose(proc, true, &uids), -EUSERS);
	cr_assert_eq(role_uids_choose("/nowhere", true, &uids), -ENOENT);
}
