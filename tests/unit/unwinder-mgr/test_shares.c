/* SPDX-License-Identifier: Apache-2.0 */
/* The shares of users: the numbers, and what happens to the files and processes of one who wants
 * too much. */
#include <criterion/criterion.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/unit/unwinder-mgr/last_open_file.h"
#include "tests/unit/unwinder-mgr/manager_fixture.h"
#include "unwinder-mgr/process_files.h"
#include "unwinder-mgr/module_table.h"

enum {
	HOARDER = 1000,
	NEIGHBOUR = 1001,
};

static void setup(void)
{
	const struct rlimit files = {2 * LIMIT_MODULES, 2 * LIMIT_MODULES};

	manager_setup();
	manager_start_builds();
	if (setrlimit(RLIMIT_NOFILE, &files) < 0)
		cr_skip_test("the limit on open files is too low");
}

TestSuite(shares, .init = setup, .fini = manager_teardown);

/* Maps a file that nobody has mapped. Returns whether the opener is asked for it. */
static bool map_new_file(uint32_t tgid)
{
	static uint64_t inode;
	const uint64_t start = 0x1000 * ++inode;
	const struct mapping mapping = {.start = start, .end = start + 0x1000};
	const struct module_key key = {.device_major = 8, .device_minor = 1, .inode = inode};
	const unsigned int before = fake_peer.attempts[MESSAGE_OPEN_FILE];

	processes_map(&manager, tgid, &mapping, &key, "/tmp/file");
	return fake_peer.attempts[MESSAGE_OPEN_FILE] != before;
}

/* Answers the last request with a file that is no ELF file. */
static void answer(uint32_t uid)
{
	const struct msg_file message = {.cookie = last.cookie, .same_file = 1, .uid = uid};
	const int fd = memfd_create("file", MFD_CLOEXEC);

	cr_assert_geq(fd, 0, "%m");
	process_files_on_answer(&manager, &message, fd);
	manager_finish_builds();
}

/* Gives the user of a process all the time that there is. Under a sanitizer, and on a slow CPU, the
 * files of a test take more time than one user may use at once. */
static void give_time(uint32_t tgid)
{
	struct process *process = processes_find(&manager.processes, tgid);
	struct share *share = process && process->share ? process->share : &manager.shares.others;

	shares_follow_nobody(&manager.shares);
	share->following.left_ns = (int64_t)share->following.most_ns;
}

/* Lets a process map `count` new files. Returns how many of them get a module. */
static unsigned int map_files(uint32_t tgid, uint32_t uid, unsigned int count)
{
	unsigned int accepted = 0;

	for (unsigned int i = 0; i < count; i++) {
		give_time(tgid);
		if (!map_new_file(tgid))
			continue;
		answer(uid);
		accepted++;
	}
	return accepted;
}

static const struct module *module_of_last_mapping(uint32_t tgid)
{
	const struct mapping_list *list = processes_find(&manager.processes, tgid)->list;

	return list->mappings[list->count - 1].module;
}

Test(shares, a_user_may_hold_as_much_as_is_left_for_all_others)
{
	struct share one = {0};

	cr_expect(share_allows(&one, SHARED_RULES, 50, 100));
	cr_expect_not(share_allows(&one, SHARED_RULES, 51, 100));
	share_take(&one, SHARED_RULES, 50);
	cr_expect_eq(share_left(&one, SHARED_RULES, 50), 0);
	cr_expect_eq(share_left(&one, SHARED_RULES, 70), 10);
	cr_expect_eq(share_left(&one, SHARED_RULES, 10), 0, "others have taken the rest");
	share_give_back(&one, SHARED_RULES, 50);
	cr_expect_eq(share_left(&one, SHARED_RULES, 10), 5);
	cr_expect_eq(share_left(NULL, SHARED_RULES, 10), 10, "the machine itself has no share");
}

static bool are_one_user(uint32_t uid, uint32_t other_uid)
{
	struct share *a = shares_get(&manager.shares, tenant_of(uid, 0));
	struct share *b = shares_get(&manager.shares, tenant_of(other_uid, 0));

	share_unref(a);
	share_unref(b);
	return a == b;
}

/* In most containers, programs run as root. The second and the third are in one bucket. */
Test(shares, containers_of_one_user_have_shares_of_their_own)
{
	struct share *shares[] = {
	    shares_get(&manager.shares, tenant_of(0, 0)),
	    shares_get(&manager.shares, tenant_of(0, 7)),
	    shares_get(&manager.shares, tenant_of(0, 7 + SHARES_BUCKETS)),
	    shares_get(&manager.shares, tenant_of(1000, 7 + SHARES_BUCKETS)),
	    shares_get(&manager.shares, tenant_of(0, 7)),
	};

	for (int i = 0; i < 4; i++) {
		for (int k = 0; k < i; k++)
			cr_expect_neq(shares[i], shares[k], "%d %d", i, k);
	}
	cr_expect_eq(shares[4], shares[1]);
	for (int i = 0; i < 5; i++)
		share_unref(shares[i]);
}

/* The opener says the uid with each file, and the container with the maps alone. */
Test(shares, a_process_stays_in_its_container)
{
	processes_exec(&manager, 100, "program", 1);
	processes_set_tenant(&manager, 100, tenant_of(0, 7));
	map_new_file(100);
	answer(1000);
	cr_expect(tenant_is(share_tenant(processes_find(&manager.processes, 100)->share),
			    tenant_of(1000, 7)));
	cr_expect(tenant_is(share_tenant(modules_find(&manager.modules, last.cookie)->share),
			    tenant_of(1000, 7)));
	processes_fork(&manager, 100, 101, 1);
	cr_expect(tenant_is(share_tenant(processes_find(&manager.processes, 101)->share),
			    tenant_of(1000, 7)));
}

Test(shares, uids_of_one_user_namespace_are_one_user)
{
	cr_expect(are_one_user(100000, 165535));
	cr_expect(are_one_user(165536, 165537));
	cr_expect(are_one_user(70000, 99999));
	cr_expect(are_one_user(1000, 1000));
	cr_expect_not(are_one_user(0, 1000));
	cr_expect_not(are_one_user(65534, 65535));
	cr_expect_not(are_one_user(165535, 165536));
	shares_reclaim(&manager.shares, clock_monotonic_ns());
	cr_expect_eq(manager.shares.count, 0);
}

Test(shares, further_users_share_one_and_used_up_time_is_kept)
{
	struct share *users[LIMIT_SHARES + 2];
	const uint64_t now_ns = clock_monotonic_ns();

	for (uint32_t i = 0; i < LIMIT_SHARES + 2; i++)
		users[i] = shares_get(&manager.shares, tenant_of(i, 0));
	cr_expect_eq(users[LIMIT_SHARES], users[LIMIT_SHARES + 1]);
	cr_expect_neq(users[LIMIT_SHARES], users[LIMIT_SHARES - 1]);
	time_share_is_left(&users[5]->building, now_ns);
	time_share_spend(&users[5]->building, NS_PER_S);
	time_share_is_left(&users[6]->following, now_ns);
	time_share_spend(&users[6]->following, NS_PER_MS);
	for (uint32_t i = 0; i < LIMIT_SHARES + 2; i++)
		share_unref(users[i]);
	shares_reclaim(&manager.shares, now_ns);
	cr_expect_eq(manager.shares.count, 2);
	shares_reclaim(&manager.shares, now_ns + 100 * NS_PER_S / LIMIT_BUILD_PERCENT);
	cr_expect_eq(manager.shares.count, 0);
}

Test(shares, files_of_one_user_leave_room_for_the_files_of_others)
{
	const unsigned int most = LIMIT_MODULES / 2;
	const unsigned int accepted = map_files(100, HOARDER, LIMIT_MODULES);

	cr_expect_leq(accepted, most);
	cr_expect_geq(accepted, most - 2, "%u", accepted);
	/* The stacks in the others end there, and are not taken for memory without a file. */
	cr_expect_eq(module_of_last_mapping(100), manager.modules.no_room);
	cr_expect_eq(manager.modules.published[manager.modules.no_room->slot].state,
		     BH_MODULE_REFUSED);
	/* A child belongs to the same user, whatever it executes. */
	processes_fork(&manager, 100, 101, 1);
	processes_exec(&manager, 101, "child", 1);
	cr_expect_not(map_new_file(101));
	cr_expect_eq(map_files(200, NEIGHBOUR, 500), 500);
	cr_expect_eq(manager.modules.published[module_of_last_mapping(200)->slot].state,
		     BH_MODULE_FRAME_POINTERS);
}

Test(shares, a_process_of_which_nothing_is_known_cannot_ask_for_everything)
{
	unsigned int requested = 0;

	for (unsigned int i = 0; i < 2 * LIMIT_PROCESS_REQUESTS; i++)
		requested += map_new_file(100);
	cr_expect_eq(requested, LIMIT_PROCESS_REQUESTS);
	cr_expect_eq(map_files(200, NEIGHBOUR, 500), 500);
	for (struct module *m = manager.modules.all; m; m = m->next) {
		const struct msg_file message = {.cookie = m->id, .uid = HOARDER};

		if (m->state == MODULE_OPENING)
			process_files_on_answer(&manager, &message, -1);
	}
	cr_expect_eq(processes_find(&manager.processes, 100)->requests, 0);
}

Test(shares, refused_files_are_requested_when_there_is_room_again)
{
	map_files(100, HOARDER, LIMIT_MODULES);
	processes_exec(&manager, 101, "other", 1);
	processes_set_tenant(&manager, 101, tenant_of(HOARDER, 0));
	processes_find(&manager.processes, 101)->ask_when_old = false; /* whose it is */
	cr_expect_not(map_new_file(101));
	const uint64_t later_ns = clock_monotonic_ns() + LIMIT_REFUSED_RETRY_MS * NS_PER_MS;
	const unsigned int before = fake_peer.attempts[MESSAGE_OPEN_MAPS];
	processes_retry(&manager, later_ns);
	cr_expect_eq(fake_peer.attempts[MESSAGE_OPEN_MAPS], before, "there is no room yet");
	processes_exit(&manager, 100, 1);
	processes_publish(&manager);
	processes_reclaim(&manager, later_ns);
	modules_reclaim(&manager, later_ns);
	processes_retry(&manager, later_ns);
	cr_expect_eq(fake_peer.attempts[MESSAGE_OPEN_MAPS], before + 1);
}

Test(shares, a_user_whose_files_take_too_much_time_waits)
{
	map_files(100, HOARDER, 1);
	const struct module *module = module_of_last_mapping(100);
	struct share *share = module->share;

	cr_assert_eq(module->state, MODULE_UNKNOWN, "the file is no ELF file");
	time_share_spend(&share->building, 1000 * NS_PER_S);
	map_files(100, HOARDER, 1);
	module = module_of_last_mapping(100);
	cr_expect_eq(module->state, MODULE_REFUSED);
	const uint64_t later_ns = clock_monotonic_ns() + LIMIT_REFUSED_RETRY_MS * NS_PER_MS;
	table_builds_again(&manager, later_ns);
	manager_finish_builds();
	cr_expect_eq(module->state, MODULE_REFUSED);
	cr_expect_eq(map_files(200, NEIGHBOUR, 1), 1);
	cr_expect_eq(module_of_last_mapping(200)->state, MODULE_UNKNOWN);
	share->building.left_ns = 1;
	table_builds_again(&manager, later_ns + LIMIT_REFUSED_RETRY_MS * NS_PER_MS);
	manager_finish_builds();
	cr_expect_eq(module->state, MODULE_UNKNOWN);
}

/* Ids are never used twice, so a user who makes files for long enough uses up those of an agent. */
Test(shares, an_agent_begins_again_when_all_ids_of_modules_have_been_used)
{
	manager.modules.last_id = BH_MODULE_ID_MAX - 1;
	cr_expect_eq(map_files(10, HOARDER, 2), 1);
	cr_expect_not(manager.role.loop.stopped, "a recording goes on");
	manager.role.agent = true;
	cr_expect_eq(map_files(10, HOARDER, 1), 0);
	cr_expect(manager.role.loop.stopped);
	cr_expect_neq(manager.role.loop.status, 0);
}

static struct share *share_of(uint32_t tgid)
{
	return processes_find(&manager.processes, tgid)->share;
}

static void use_up_time(uint32_t tgid)
{
	time_share_is_left(&share_of(tgid)->following, clock_monotonic_ns());
	time_share_spend(&share_of(tgid)->following, 1000 * NS_PER_S);
}

static void start_process(uint32_t tgid, uint32_t uid)
{
	processes_exec(&manager, tgid, "program", 1);
	processes_set_tenant(&manager, tgid, tenant_of(uid, 0));
	map_files(tgid, uid, 2);
}

/* Returns whether the stacks of a process end at once, according to its published entry. */
static bool is_refused(uint32_t tgid)
{
	const struct bh_process *slot = processes_find(&manager.processes, tgid)->slot;

	cr_assert_not_null(slot);
	const struct bh_mapping *mappings =
	    slabs_at(&manager.slabs, &(struct slab_block){.slab = slot->mapping_slab,
							  .offset = slot->mapping_offset});
	return manager.modules.published[mappings[0].slot].state == BH_MODULE_REFUSED;
}

Test(shares, processes_of_a_user_who_does_too_much_are_not_followed)
{
	manager_add_slab();
	start_process(100, HOARDER);
	start_process(101, HOARDER);
	start_process(200, NEIGHBOUR);
	processes_publish(&manager);
	use_up_time(100);
	map_new_file(100);
	map_new_file(200);
	processes_publish(&manager);
	cr_expect(processes_find(&manager.processes, 100)->outdated);
	cr_expect(is_refused(100));
	/* One that did nothing meanwhile has the right mappings, and so has somebody else's. */
	cr_expect_not(processes_find(&manager.processes, 101)->outdated);
	cr_expect_not(is_refused(101));
	cr_expect_not(processes_find(&manager.processes, 200)->outdated);
	cr_expect_eq(processes_find(&manager.processes, 200)->list->count, 3);
	answer(NEIGHBOUR);
	/* A child has its parent's mappings, which nobody knows. */
	processes_fork(&manager, 100, 102, 1);
	processes_publish(&manager);
	cr_expect(is_refused(102));
	cr_expect_not(processes_may_read_maps(&manager, 101, tenant_of(HOARDER, 0)));
	cr_expect(processes_find(&manager.processes, 101)->outdated, "its maps may have changed");
	cr_expect_not(processes_may_read_maps(&manager, 103, tenant_of(HOARDER, 0)));
	cr_expect(processes_may_read_maps(&manager, 200, tenant_of(NEIGHBOUR, 0)));
	shares_follow_nobody(&manager.shares);
}

Test(shares, processes_are_followed_again_when_there_is_time)
{
	static const char maps[] = "00400000-00401000 r-xp 00000000 00:00 0 \n";
	const uint64_t now_ns = clock_monotonic_ns();

	manager_add_slab();
	start_process(100, HOARDER);
	start_process(101, HOARDER);
	use_up_time(100);
	map_new_file(100);
	map_new_file(101);
	processes_retry(&manager, now_ns);
	cr_expect_eq(fake_peer.attempts[MESSAGE_OPEN_MAPS], 0, "there is no time yet");
	share_of(100)->following.left_ns = LIMIT_FOLLOW_MS * NS_PER_MS;
	processes_retry(&manager, now_ns);
	cr_expect_eq(fake_peer.attempts[MESSAGE_OPEN_MAPS], 2);
	cr_expect(processes_may_read_maps(&manager, 100, tenant_of(HOARDER, 0)));
	/* What was read with the last of the time is published. */
	use_up_time(100);
	processes_set_maps(&manager, 100, maps, strlen(maps), "program", 1);
	processes_publish(&manager);
	cr_expect_not(is_refused(100));
	share_of(100)->following.left_ns = LIMIT_FOLLOW_MS * NS_PER_MS;
	/* A program that is executed has no other mappings than those that are reported now. */
	processes_exec(&manager, 101, "other", 2);
	map_files(101, HOARDER, 1);
	processes_publish(&manager);
	for (uint32_t tgid = 100; tgid <= 101; tgid++) {
		cr_expect_not(processes_find(&manager.processes, tgid)->outdated);
		cr_expect_not(is_refused(tgid));
	}
}

/* The opener would have to open the maps of all of them at once. */
Test(shares, many_processes_are_not_followed_again_at_once)
{
	for (uint32_t tgid = 100; tgid < 100 + 2 * LIMIT_FOLLOW_AGAIN; tgid++) {
		processes_exec(&manager, tgid, "program", 1);
		processes_set_tenant(&manager, tgid, tenant_of(HOARDER, 0));
	}
	use_up_time(100);
	for (uint32_t tgid = 100; tgid < 100 + 2 * LIMIT_FOLLOW_AGAIN; tgid++)
		map_new_file(tgid);
	share_of(100)->following.left_ns = LIMIT_FOLLOW_MS * NS_PER_MS;
	const uint64_t now_ns = clock_monotonic_ns();
	processes_retry(&manager, now_ns);
	cr_expect_eq(fake_peer.attempts[MESSAGE_OPEN_MAPS], LIMIT_FOLLOW_AGAIN);
	processes_retry(&manager, now_ns + 1);
	cr_expect_eq(fake_peer.attempts[MESSAGE_OPEN_MAPS], 2 * LIMIT_FOLLOW_AGAIN, "the others");
}

/* Retired copies of lists cannot be used by anybody, so they count. Otherwise a process that
 * changes its mappings all the time would leave no room for others. */
Test(shares, lists_that_change_all_the_time_leave_room_for_those_of_others)
{
	enum {
		MAPPINGS = 4000,
	};

	manager_add_slab();
	manager.slabs.exhausted = true;
	processes_exec(&manager, 100, "program", 1);
	processes_set_tenant(&manager, 100, tenant_of(HOARDER, 0));
	for (uint64_t i = 0; i < 2 * BH_SLAB_BYTES / (MAPPINGS * sizeof(struct bh_mapping)); i++) {
		for (uint64_t j = i ? MAPPINGS - 1 : 0; j < MAPPINGS; j++)
			processes_map(
			    &manager, 100,
			    &(struct mapping){.start = j << 13, .end = (j << 13) + 0x1000},
			    &(struct module_key){0}, "//anon");
		processes_publish(&manager);
	}
	cr_expect_geq(slabs_room(&manager.slabs), BH_SLAB_BYTES / 4);
	cr_expect(is_refused(100));
	start_process(200, NEIGHBOUR);
	processes_publish(&manager);
	cr_expect_not(is_refused(200));
	slabs_reclaim(&manager.slabs, UINT64_MAX);
	processes_retry(&manager, clock_monotonic_ns());
	processes_publish(&manager);
	cr_expect_not(is_refused(100));
}

Test(shares, the_time_that_processes_take_is_that_of_their_user)
{
	const int64_t most_ns = LIMIT_FOLLOW_MS * NS_PER_MS;

	manager_add_slab();
	start_process(100, HOARDER);
	start_process(200, NEIGHBOUR);
	processes_publish(&manager);
	time_share_is_left(&share_of(100)->following, clock_monotonic_ns() + NS_PER_S);
	time_share_is_left(&share_of(200)->following, clock_monotonic_ns() + NS_PER_S);
	share_of(100)->following.left_ns = share_of(200)->following.left_ns = most_ns;
	share_of(100)->following.percent = share_of(200)->following.percent = 0;
	const uint64_t began_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
	for (unsigned int i = 0; i < 10000; i++)
		processes_map(&manager, 100,
			      &(struct mapping){.start = 0x1000 * i, .end = 0x1000 * (i + 1)},
			      &(struct module_key){0}, "//anon");
	processes_publish(&manager);
	const int64_t took_ns = (int64_t)(clock_read_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns);
	const int64_t spent_ns = most_ns - share_of(100)->following.left_ns;
	cr_expect(spent_ns > took_ns / 2 && spent_ns <= took_ns, "%ld of %ld ns", spent_ns,
		  took_ns);
	cr_expect_eq(share_of(200)->following.left_ns, most_ns);
}
