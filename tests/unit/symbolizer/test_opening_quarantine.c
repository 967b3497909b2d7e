/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "common/time_units.h"
#include "symbolizer/opener/opening_quarantine.h"

#define AT(seconds) ((seconds)*NS_PER_S)

static struct quarantine quarantine;

/* A file that a process of a user maps. */
static struct opening file(uint32_t tgid, uint32_t uid, uint32_t device_major,
			   uint32_t device_minor)
{
	return (struct opening){
	    .kind = OPENING_FILE,
	    .tgid = tgid,
	    .uid = uid,
	    .file = {.device_major = device_major, .device_minor = device_minor}};
}

static struct opening maps(uint32_t tgid, uint32_t uid)
{
	return (struct opening){.kind = OPENING_MAPS, .tgid = tgid, .uid = uid};
}

/* A request for a debug file. Its user is unknown, unless a mistake is to show. */
static struct opening debug_file(uint32_t module, uint32_t uid)
{
	return (struct opening){.kind = OPENING_DEBUG, .uid = uid, .debug = {.module = module}};
}

#define ADD(opening, seconds) opening_quarantine(&quarantine, &(opening), AT(seconds))
#define HAS(opening, seconds) opening_is_quarantined(&quarantine, &(opening), AT(seconds))

Test(opening_quarantine, keeps_the_process_and_its_device_for_ten_seconds)
{
	const struct opening hung = file(42, 1000, 0, 61), same_device = file(43, 1001, 0, 61),
			     maps_of_it = maps(42, 1000), other = file(43, 1001, 0, 62);

	cr_expect_not(HAS(hung, 100));
	cr_expect_eq(ADD(hung, 100), 10);
	cr_expect(HAS(hung, 109));
	cr_expect(HAS(same_device, 109));
	cr_expect(HAS(maps_of_it, 109));
	cr_expect_not(HAS(other, 109));
	cr_expect_not(HAS(hung, 110));
	cr_expect_not(HAS(same_device, 110));
	cr_expect_not(HAS(maps_of_it, 110));
}

Test(opening_quarantine, a_disk_is_not_left_alone)
{
	const struct opening hung = file(42, 1000, 8, 1), other = file(43, 1001, 8, 1);

	ADD(hung, 100);
	cr_expect(HAS(hung, 101));
	cr_expect_not(HAS(other, 101));
}

Test(opening_quarantine, of_a_user_grows_with_the_times)
{
	const struct opening without_disk = file(900, 1000, 0, 99), on_disk = file(900, 1000, 8, 1),
			     process = maps(900, 1000), other_user = file(901, 1001, 0, 99);

	for (uint32_t times = 1; times <= 4; times++) {
		const struct opening hung = file(times, 1000, 0, times);

		ADD(hung, 100);
		cr_expect_eq(HAS(without_disk, 101), times >= 2, "%u", times);
		cr_expect_eq(HAS(on_disk, 101), times >= 4, "%u", times);
		cr_expect_eq(HAS(process, 101), times >= 4, "%u", times);
		cr_expect_not(HAS(other_user, 101));
	}
}

Test(opening_quarantine, root_and_unknown_users_are_not_users)
{
	for (uint32_t i = 0; i < 10; i++) {
		const struct opening of_root = maps(i, 0),
				     unknown = maps(50 + i, TENANT_UID_UNKNOWN);

		ADD(of_root, 100);
		ADD(unknown, 100);
	}
	const struct opening of_root = maps(900, 0), unknown = maps(901, TENANT_UID_UNKNOWN);
	cr_expect_not(HAS(of_root, 101));
	cr_expect_not(HAS(unknown, 101));
}

/* Root in a container is a user like others, and nobody in another container is concerned. */
Test(opening_quarantine, of_a_user_is_of_one_container)
{
	for (uint32_t i = 1; i <= 4; i++) {
		struct opening hung = maps(i, i % 2 ? 0 : 1000);

		hung.container = 7;
		ADD(hung, 100);
		ADD(hung, 100);
	}
	for (uint64_t container = 0; container < 9; container++) {
		struct opening of_root = maps(900, 0), of_user = maps(900, 1000);

		of_root.container = of_user.container = container;
		cr_expect_eq(HAS(of_root, 101), container == 7, "%d", (int)container);
		cr_expect_eq(HAS(of_user, 101), container == 7, "%d", (int)container);
	}
}

Test(opening_quarantine, of_debug_files_is_one_for_all_of_them)
{
	const struct opening hung = debug_file(7, TENANT_UID_UNKNOWN),
			     other = debug_file(42, TENANT_UID_UNKNOWN);

	cr_expect_not(HAS(hung, 100));
	cr_expect_eq(ADD(hung, 100), 10);
	cr_expect(HAS(hung, 109));
	cr_expect(HAS(other, 109));
	cr_expect_not(HAS(hung, 110));
	cr_expect_eq(ADD(other, 200), 40);
	cr_expect(HAS(hung, 239));
}

/* Who makes a root that hangs has no debug files of his own any more. */
Test(opening_quarantine, of_debug_files_in_roots_is_of_process_and_user)
{
	const struct opening all = debug_file(7, TENANT_UID_UNKNOWN);
	const struct opening others = {.kind = OPENING_DEBUG_OF_PROCESS, .tgid = 900, .uid = 1000};
	const struct opening of_other_user = {
	    .kind = OPENING_DEBUG_OF_PROCESS, .tgid = 901, .uid = 1001};

	for (uint32_t times = 1; times <= 4; times++) {
		const struct opening hung = {
		    .kind = OPENING_DEBUG_OF_PROCESS, .tgid = times, .uid = 1000};

		cr_expect_not(times < 2 && HAS(hung, 100));
		ADD(hung, 100);
		cr_expect(HAS(hung, 101));
		cr_expect_eq(HAS(others, 101), times >= 2, "%u", times);
		cr_expect_not(HAS(of_other_user, 101));
		cr_expect_not(HAS(all, 101));
	}
}

Test(opening_quarantine, of_debug_files_concerns_nothing_else)
{
	const struct opening others[] = {maps(42, 1000),
					 file(42, 1000, 0, 61),
					 file(42, 1000, 0, 0),
					 file(42, 1000, 8, 1),
					 file(7, 1000, 0, 7),
					 maps(1, 0),
					 maps(43, TENANT_UID_UNKNOWN)};

	for (unsigned int times = 0; times < 5; times++) {
		const struct opening unknown = debug_file(7, TENANT_UID_UNKNOWN),
				     of_user = debug_file(42, 1000);

		ADD(unknown, 100);
		ADD(of_user, 100);
	}
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		cr_expect_not(HAS(others[i], 101), "%zu", i);
}

Test(opening_quarantine, of_processes_devices_and_users_does_not_concern_debug_files)
{
	const struct opening unknown = debug_file(42, TENANT_UID_UNKNOWN),
			     of_user = debug_file(42, 1000);

	for (uint32_t times = 1; times <= 10; times++) {
		const struct opening hung[] = {file(times, 1000, 0, times), file(42, 1000, 0, 0),
					       maps(42, 1000), maps(times, TENANT_UID_UNKNOWN)};

		for (size_t i = 0; i < sizeof(hung) / sizeof(hung[0]); i++)
			ADD(hung[i], 100);
	}
	cr_expect_not(HAS(unknown, 101));
	cr_expect_not(HAS(of_user, 101));
}
