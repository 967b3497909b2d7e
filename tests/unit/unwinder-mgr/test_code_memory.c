/* SPDX-License-Identifier: Apache-2.0 */
/* What the worker learns about executable memory that is in no program or library. */
#include "unwinder-mgr/code_memory.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "unwinder-mgr/process_reports.h"
#include "tests/support/fake_peer.h"
#include "tests/unit/unwinder-mgr/manager_fixture.h"

enum {
	PROCESS = 100,
	TEXT = 0x400000,
	CODE = 0x7f0000000000,
	PAGE = 4096,
};

static struct msg_code_memory last;
static bool worker_is_full;

static int on_send(enum message_type type, const void *payload, size_t length)
{
	if (type != MESSAGE_CODE_MEMORY)
		return 0;
	if (worker_is_full)
		return -ENOBUFS;
	memcpy(&last, payload, length);
	return 0;
}

FAKE_PEER(on_send);

static unsigned int sent(void)
{
	return fake_peer.attempts[MESSAGE_CODE_MEMORY];
}

static void map(uint64_t start, uint64_t end, uint64_t inode, const char *path)
{
	const struct mapping mapping = {.start = start, .end = end};
	const struct module_key key = {.device_minor = 1, .inode = inode};

	processes_map(&manager, PROCESS, &mapping, &key, path);
	for (struct module *m = manager.modules.all; m; m = m->next) {
		if (m->state == MODULE_OPENING)
			m->state = MODULE_UNKNOWN;
	}
}

static void map_code(uint64_t start, uint64_t end)
{
	map(start, end, 0, "//anon");
}

/* One slab, so that lists of mappings can be published, and a process with a watched module. */
static void setup(void)
{
	static struct peer loader;

	manager_setup();
	manager.slabs.loader = &loader;
	manager_add_slab();
	map(TEXT, TEXT + PAGE, 5, "/usr/bin/node");
	processes_publish(&manager);
}

static void watch(void)
{
	processes_watch(&manager, manager.modules.all, RUNTIME_ACCESS_READ);
}

TestSuite(code_memory, .init = setup, .fini = manager_teardown);

Test(code_memory, is_reported_for_watched_processes_only)
{
	map_code(CODE, CODE + PAGE);
	processes_publish(&manager);
	cr_expect_eq(sent(), 0);
	watch();
	cr_assert_eq(sent(), 1);
	cr_expect_eq(last.tgid, PROCESS);
	cr_expect_eq(last.exec_generation,
		     processes_find(&manager.processes, PROCESS)->exec_generation);
	cr_assert_eq(last.count, 1);
	cr_expect_eq(last.areas[0].start, CODE);
	cr_expect_eq(last.areas[0].end, CODE + PAGE);
	cr_expect_str_eq(last.areas[0].label, "");
}

Test(code_memory, is_reported_at_once_when_it_changes_and_only_then)
{
	watch();
	cr_assert_eq(sent(), 1);
	cr_expect_eq(last.count, 0);
	map_code(CODE, CODE + PAGE);
	processes_publish(&manager);
	cr_assert_eq(sent(), 2);
	cr_expect_eq(last.count, 1);
	/* A library, and the same memory once more. */
	map(TEXT + 16 * PAGE, TEXT + 17 * PAGE, 6, "/lib/libc.so.6");
	processes_publish(&manager);
	map_code(CODE, CODE + PAGE);
	processes_publish(&manager);
	cr_expect_eq(sent(), 2);
	map_code(CODE, CODE + 2 * PAGE);
	processes_publish(&manager);
	cr_assert_eq(sent(), 3);
	cr_expect_eq(last.areas[0].end, CODE + 2 * PAGE);
}

/* The worker may know the process only from now on. */
Test(code_memory, is_reported_again_with_a_further_mapping_of_the_runtime)
{
	map_code(CODE, CODE + PAGE);
	processes_publish(&manager);
	watch();
	cr_assert_eq(sent(), 1);
	map(TEXT + 4 * PAGE, TEXT + 5 * PAGE, 5, "/usr/bin/node");
	processes_publish(&manager);
	cr_expect_eq(sent(), 2);
}

Test(code_memory, of_a_new_program_is_reported_even_if_it_is_the_same)
{
	map_code(CODE, CODE + PAGE);
	watch();
	cr_assert_eq(sent(), 1);
	processes_exec(&manager, PROCESS, "node", 10);
	map(TEXT, TEXT + PAGE, 5, "/usr/bin/node");
	map_code(CODE, CODE + PAGE);
	processes_publish(&manager);
	cr_assert_eq(sent(), 2);
	cr_expect_eq(last.exec_generation,
		     processes_find(&manager.processes, PROCESS)->exec_generation);
}

Test(code_memory, that_the_worker_cannot_take_is_reported_later)
{
	watch();
	worker_is_full = true;
	map_code(CODE, CODE + PAGE);
	processes_publish(&manager);
	cr_expect_eq(sent(), 2);
	cr_expect_eq(last.count, 0);
	worker_is_full = false;
	processes_publish(&manager);
	cr_expect_eq(sent(), 3);
	cr_expect_eq(last.count, 1);
}

Test(code_memory, in_files_that_exist_in_memory_only_has_a_label)
{
	static const char *const paths[] = {"/memfd:doublemapper (deleted)", "/dev/zero (deleted)",
					    "/SYSV00000000 (deleted)", "/dev/shm/php-jit",
					    "/anon_hugepage (deleted)"};
	static const char *const others[] = {"/usr/lib/libv8.so", "/dev/zeros/../lib.so",
					     "/home/memfd:x", "/dev/mem", "/anon_hugepages"};

	for (uint64_t i = 0; i < 5; i++) {
		map(CODE + 4 * i * PAGE, CODE + (4 * i + 1) * PAGE, 10 + i, paths[i]);
		map(CODE + (4 * i + 1) * PAGE, CODE + (4 * i + 2) * PAGE, 20 + i, others[i]);
	}
	watch();
	cr_assert_eq(last.count, 5);
	cr_expect_str_eq(last.areas[4].label, "/anon_hugepage");
	cr_expect_str_eq(last.areas[0].label, "/memfd:doublemapper");
	cr_expect_str_eq(last.areas[1].label, "/dev/zero");
	cr_expect_str_eq(last.areas[2].label, "/SYSV00000000");
	cr_expect_str_eq(last.areas[3].label, "/dev/shm/php-jit");
}

Test(code_memory, neighbours_become_one_area)
{
	map_code(CODE, CODE + PAGE);
	map_code(CODE + PAGE, CODE + 3 * PAGE);
	map(CODE + 3 * PAGE, CODE + 4 * PAGE, 7, "/memfd:jit");
	map_code(CODE + 5 * PAGE, CODE + 6 * PAGE);
	watch();
	cr_assert_eq(last.count, 3);
	cr_expect_eq(last.areas[0].end, CODE + 3 * PAGE);
	cr_expect_str_eq(last.areas[1].label, "/memfd:jit");
	cr_expect_eq(last.areas[2].start, CODE + 5 * PAGE);
}

Test(code_memory, small_gaps_are_closed_if_there_are_too_many_areas)
{
	const uint64_t far = CODE + (1ull << 40);

	for (uint64_t i = 0; i < 2 * MSG_CODE_AREAS_MAX; i++)
		map_code(CODE + 2 * i * PAGE, CODE + (2 * i + 1) * PAGE);
	map_code(far, far + PAGE);
	watch();
	cr_assert_leq(last.count, MSG_CODE_AREAS_MAX);
	cr_assert_geq(last.count, 2);
	/* Everything is in one of them, and what is far from others is not joined with them. */
	cr_expect_eq(last.areas[0].start, CODE);
	cr_expect_eq(last.areas[last.count - 1].start, far);
	for (uint32_t i = 0; i + 2 < last.count; i++)
		cr_expect_lt(last.areas[i].end, last.areas[i + 1].start);
	cr_expect_eq(last.areas[last.count - 2].end, CODE + (4 * MSG_CODE_AREAS_MAX - 1) * PAGE);
}

Test(code_memory, unused_areas_of_the_message_are_zero)
{
	static const struct msg_code_area zero;

	map_code(CODE, CODE + PAGE);
	watch();
	for (uint32_t i = 1; i < MSG_CODE_AREAS_MAX; i++)
		cr_assert_eq(memcmp(&last.areas[i], &zero, sizeof(zero)), 0);
}
