/* SPDX-License-Identifier: Apache-2.0 */
/* Files that the opener could not open are requested again, for a process that is still there; and
 * modules are announced again that the worker could not take. */
#include <criterion/criterion.h>
#include <errno.h>

#include "common/time_units.h"
#include "tests/support/fake_peer.h"
#include "tests/unit/unwinder-mgr/manager_fixture.h"
#include "unwinder-mgr/process_files.h"

static struct msg_open_file last; /* the last request to the opener */
static bool worker_is_full;

static int on_send(enum message_type type, const void *payload, size_t length)
{
	if (type == MESSAGE_OPEN_FILE && length == sizeof(last))
		memcpy(&last, payload, length);
	return worker_is_full && type == MESSAGE_MODULE ? -ENOBUFS : 0;
}

FAKE_PEER(on_send);

static void fail(void)
{
	const struct msg_file answer = {.cookie = last.cookie, .error = ENOENT};

	modules_on_file(&manager, &answer, tenant_of(answer.uid, 0), -1);
}

/* The same for all other processes that may be tried at once. */
static void give_up(void)
{
	manager.modules.all->tries_left = 0;
	fail();
}

static void teardown(void)
{
	if (manager.modules.all && manager.modules.all->state == MODULE_OPENING)
		give_up(); /* a module that waits for its file is not freed */
	manager_teardown();
}

TestSuite(missing_files, .init = manager_setup, .fini = teardown);

static void map(uint32_t tgid)
{
	const struct mapping mapping = {.start = 0x1000 * tgid, .end = 0x1000 * tgid + 0x1000};
	const struct module_key key = {.device_major = 8, .device_minor = 1, .inode = 77};

	processes_map(&manager, tgid, &mapping, &key, "/usr/lib/libanswer.so");
}

static uint64_t requested_ns(void)
{
	return manager.modules.all->requested_ns;
}

static unsigned int requests(void)
{
	return fake_peer.attempts[MESSAGE_OPEN_FILE];
}

Test(missing_files, a_file_is_requested_again_for_the_process_that_maps_it)
{
	processes_set_tenant(&manager, 100, tenant_of(0, 9));
	map(100);
	cr_assert_eq(requests(), 1);
	cr_expect_eq(last.container, 9);
	/* There is no second request while the first one is not answered. */
	process_files_request_missing(&manager, UINT64_MAX);
	cr_expect_eq(requests(), 1);
	give_up();
	process_files_request_missing(&manager,
				      requested_ns() + LIMIT_MODULE_RETRY_MS * NS_PER_MS - 1);
	cr_expect_eq(requests(), 1);
	process_files_request_missing(&manager, requested_ns() + LIMIT_MODULE_RETRY_MS * NS_PER_MS);
	cr_expect_eq(requests(), 2);
	cr_expect_eq(last.tgid, 100);
	cr_expect_eq(last.address_start, 0x1000 * 100);
	cr_expect_eq(last.inode, 77);
}

Test(missing_files, another_process_is_preferred_to_the_one_that_failed)
{
	map(100);
	map(200);
	cr_assert_eq(last.tgid, 100);
	give_up();
	process_files_request_missing(&manager, requested_ns() + NS_PER_S);
	cr_expect_eq(last.tgid, 200);
	give_up();
	process_files_request_missing(&manager, requested_ns() + NS_PER_S);
	cr_expect_eq(last.tgid, 100);
}

/* The oldest one is probably still there. */
Test(missing_files, a_process_that_maps_the_file_for_long_is_asked_at_once)
{
	map(200);
	cr_expect_eq(last.tgid, 200);
	fail();
	/* There is no other process yet. */
	process_files_request_elsewhere(&manager);
	cr_expect_eq(requests(), 1);
	map(300);
	map(400);
	manager.modules.all->requested_ns = 0;
	map(100);
	cr_expect_eq(last.tgid, 100);
	fail();
	process_files_request_elsewhere(&manager);
	cr_expect_eq(last.tgid, 200);
	cr_expect_eq(requests(), 3);
}

/* Until then stacks wait, instead of being walked without the table. */
Test(missing_files, some_processes_are_tried_at_once_and_then_there_are_pauses)
{
	const unsigned int announced = fake_peer.attempts[MESSAGE_MODULE];

	for (uint32_t tgid = 100; tgid < 100 + LIMIT_MODULE_TRIES + 2; tgid++)
		map(tgid);
	const struct module *module = manager.modules.all;
	for (uint32_t i = 0; i <= LIMIT_MODULE_TRIES; i++) {
		cr_expect_eq(last.tgid, 100 + i);
		cr_expect_eq(module->state, MODULE_OPENING);
		cr_expect_eq(fake_peer.attempts[MESSAGE_MODULE], announced);
		fail();
		process_files_request_elsewhere(&manager);
	}
	cr_expect_eq(requests(), 1 + LIMIT_MODULE_TRIES);
	cr_expect_eq(module->state, MODULE_UNKNOWN);
	cr_expect_eq(fake_peer.attempts[MESSAGE_MODULE], announced + 1);
	process_files_request_elsewhere(&manager);
	cr_expect_eq(requests(), 1 + LIMIT_MODULE_TRIES);
}

Test(missing_files, a_scan_may_find_another_process)
{
	const struct module *module;

	manager.scanning = true;
	map(200);
	module = manager.modules.all;
	fail();
	process_files_request_elsewhere(&manager);
	cr_expect_eq(module->state, MODULE_OPENING);
	map(100);
	process_files_request_elsewhere(&manager);
	cr_expect_eq(last.tgid, 100);
	fail();
	manager.scanning = false;
	process_files_request_elsewhere(&manager);
	cr_expect_eq(module->state, MODULE_UNKNOWN);
}

Test(missing_files, a_file_that_only_ended_processes_had_mapped_is_requested_at_once)
{
	map(100);
	processes_exit(&manager, 100, 1);
	processes_publish(&manager);
	processes_reclaim(&manager, UINT64_MAX);
	cr_assert_eq(manager.modules.all->users, 0);
	fail();
	process_files_request_elsewhere(&manager);
	cr_expect_eq(manager.modules.all->state, MODULE_UNKNOWN);
	map(200);
	cr_expect_eq(last.tgid, 200);
}

Test(missing_files, few_files_are_searched_for_at_once)
{
	enum {
		FILES = 20
	};
	struct msg_file answer = {.error = ENOENT};

	for (uint64_t i = 0; i < FILES; i++) {
		const struct mapping mapping = {.start = 0x1000 * i, .end = 0x1000 * (i + 1)};
		const struct module_key key = {.inode = i + 1};

		processes_map(&manager, 100, &mapping, &key, "/tmp/file");
		processes_map(&manager, 200, &mapping, &key, "/tmp/file");
	}
	for (struct module *m = manager.modules.all; m; m = m->next) {
		answer.cookie = m->id;
		modules_on_file(&manager, &answer, tenant_of(answer.uid, 0), -1);
	}
	const unsigned int before = requests();
	process_files_request_elsewhere(&manager);
	cr_expect_eq(requests() - before, 8);
	process_files_request_elsewhere(&manager);
	process_files_request_elsewhere(&manager);
	cr_expect_eq(requests() - before, FILES);
	for (struct module *m = manager.modules.all; m; m = m->next) {
		answer.cookie = m->id;
		m->tries_left = 0;
		modules_on_file(&manager, &answer, tenant_of(answer.uid, 0), -1);
	}
}

Test(missing_files, processes_that_have_ended_are_not_asked)
{
	map(100);
	map(200);
	processes_exit(&manager, 200, 1);
	give_up();
	process_files_request_missing(&manager, requested_ns() + NS_PER_S);
	cr_expect_eq(requests(), 2);
	cr_expect_eq(last.tgid, 100);
}

Test(missing_files, the_pause_grows_with_each_failure_up_to_a_limit)
{
	uint64_t pause_ns = LIMIT_MODULE_RETRY_MS * NS_PER_MS;

	map(100);
	for (unsigned int i = 1; i <= LIMIT_MODULE_RETRY_DOUBLINGS + 3; i++) {
		cr_assert_eq(requests(), i);
		give_up();
		process_files_request_missing(&manager, requested_ns() + pause_ns - 1);
		cr_assert_eq(requests(), i);
		process_files_request_missing(&manager, requested_ns() + pause_ns);
		if (i <= LIMIT_MODULE_RETRY_DOUBLINGS)
			pause_ns *= 2;
	}
}

Test(missing_files, a_file_that_no_process_maps_is_not_searched_for_each_time)
{
	map(100);
	give_up();
	processes_exit(&manager, 100, 1);
	const uint64_t now_ns = requested_ns() + NS_PER_S;
	process_files_request_missing(&manager, now_ns);
	cr_expect_eq(requests(), 1);
	cr_expect_not(modules_any_due(&manager.modules, now_ns));
}

Test(missing_files, a_module_is_announced_again_if_the_worker_could_not_take_it)
{
	const unsigned int before = fake_peer.attempts[MESSAGE_MODULE];

	map(100);
	worker_is_full = true;
	give_up();
	cr_expect_eq(fake_peer.attempts[MESSAGE_MODULE], before + 1);
	modules_announce_waiting(&manager);
	cr_expect_eq(fake_peer.attempts[MESSAGE_MODULE], before + 2);
	worker_is_full = false;
	modules_announce_waiting(&manager);
	cr_expect_eq(fake_peer.attempts[MESSAGE_MODULE], before + 3);
	modules_announce_waiting(&manager);
	cr_expect_eq(fake_peer.attempts[MESSAGE_MODULE], before + 3);
}
