/* SPDX-License-Identifier: Apache-2.0 */
/* Whose memory the opener may hand out: processes that map a watched module, as long as they do. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "unwinder-mgr/process_reports.h"
#include "tests/support/fake_peer.h"
#include "tests/unit/unwinder-mgr/manager_fixture.h"

enum {
	PROCESS = 100,
	CHILD = 101,
	TEXT = 0x400000,
	OTHER_TEXT = 0x800000,
	INODE = 77, /* as stat(2) reports it; the kernel reports another one for the mapping */
};

static struct msg_allow_memory allowed;
static struct msg_open_memory forbidden;
static struct msg_process announced;
static unsigned int allowed_before_mapped; /* of the MAPPED messages, how many came after an
					      ALLOW_MEMORY of the same program */
static bool opener_is_full;

static int on_send(enum message_type type, const void *payload, size_t length)
{
	struct msg_mapped mapped;

	if (type == MESSAGE_ALLOW_MEMORY && opener_is_full)
		return -ENOBUFS;
	if (type == MESSAGE_ALLOW_MEMORY)
		memcpy(&allowed, payload, length);
	if (type == MESSAGE_PROCESS)
		memcpy(&announced, payload, length);
	if (type == MESSAGE_FORBID_MEMORY)
		memcpy(&forbidden, payload, length);
	if (type == MESSAGE_MAPPED) {
		memcpy(&mapped, payload, length);
		allowed_before_mapped += allowed.tgid == mapped.tgid &&
					 allowed.exec_generation == mapped.exec_generation;
	}
	return 0;
}

FAKE_PEER(on_send);

static unsigned int sent(enum message_type type)
{
	return fake_peer.attempts[type];
}

/* Maps a file that is on an overlay, say: with other numbers than those of stat(2). */
static struct module *map(uint32_t tgid, uint64_t start, uint64_t inode)
{
	const struct mapping mapping = {.start = start, .end = start + 0x1000};
	const struct module_key key = {.device_major = 8, .device_minor = 1, .inode = inode};

	processes_map(&manager, tgid, &mapping, &key, "/usr/bin/python3.11");
	struct module *module = manager.modules.all;
	module->state = MODULE_UNKNOWN;
	module->file = (struct stat){.st_dev = makedev(0, 42), .st_ino = INODE};
	processes_publish(&manager);
	return module;
}

static uint32_t generation_of(uint32_t tgid)
{
	return processes_find(&manager.processes, tgid)->exec_generation;
}

/* One slab, so that lists of mappings can be published. */
static void setup(void)
{
	static struct peer loader;

	manager_setup();
	manager.slabs.loader = &loader;
	manager_add_slab();
}

TestSuite(memory_permits, .init = setup, .fini = manager_teardown);

static struct module *map_watched(uint32_t tgid)
{
	struct module *module = map(tgid, TEXT, 5);

	processes_watch(&manager, module, RUNTIME_ACCESS_READ);
	return module;
}

Test(memory_permits, nobody_is_allowed_before_the_worker_watches_a_module)
{
	map(PROCESS, TEXT, 5);
	cr_expect_eq(sent(MESSAGE_ALLOW_MEMORY), 0);
	cr_expect_eq(sent(MESSAGE_MAPPED), 0);
}

/* So that opener and worker know whom to leave alone. */
Test(memory_permits, opener_and_worker_learn_the_container)
{
	processes_set_tenant(&manager, PROCESS, tenant_of(0, 9));
	map_watched(PROCESS);
	cr_expect_eq(allowed.container, 9);
	cr_expect_eq(announced.container, 9);
	processes_set_tenant(&manager, PROCESS, tenant_of(1000, 9));
	processes_publish(&manager);
	cr_expect_eq(sent(MESSAGE_PROCESS), 1);
	cr_expect_eq(sent(MESSAGE_ALLOW_MEMORY), 1);
	processes_set_tenant(&manager, PROCESS, tenant_of(1000, 8));
	processes_publish(&manager);
	cr_expect_eq(sent(MESSAGE_PROCESS), 2);
	cr_expect_eq(announced.container, 8);
	cr_expect_eq(allowed.container, 8);
}

Test(memory_permits, a_process_is_allowed_before_it_is_reported)
{
	map_watched(PROCESS);
	cr_expect_eq(sent(MESSAGE_ALLOW_MEMORY), 1);
	cr_expect_eq(sent(MESSAGE_MAPPED), 1);
	cr_expect_eq(allowed_before_mapped, 1);
	cr_expect_eq(allowed.tgid, PROCESS);
	cr_expect_eq(allowed.exec_generation, generation_of(PROCESS));
	cr_expect_eq(allowed.address_start, TEXT);
	cr_expect_eq(allowed.address_end, TEXT + 0x1000);
	cr_expect_eq(allowed.device_major, 0);
	cr_expect_eq(allowed.device_minor, 42);
	cr_expect_eq(allowed.inode, INODE);
	/* A later process. */
	processes_fork(&manager, PROCESS, CHILD, 1);
	processes_publish(&manager);
	cr_expect_eq(sent(MESSAGE_ALLOW_MEMORY), 2);
	cr_expect_eq(allowed.tgid, CHILD);
	cr_expect_eq(allowed_before_mapped, 2);
}

Test(memory_permits, a_process_without_the_module_is_not_allowed)
{
	struct module *module = map(PROCESS, TEXT, 5);

	map(CHILD, TEXT, 6);
	processes_watch(&manager, module, RUNTIME_ACCESS_READ);
	processes_publish(&manager);
	cr_expect_eq(sent(MESSAGE_ALLOW_MEMORY), 1);
	cr_expect_eq(allowed.tgid, PROCESS);
}

Test(memory_permits, what_is_allowed_is_not_repeated)
{
	map_watched(PROCESS);
	map(PROCESS, OTHER_TEXT, 6);
	cr_expect_eq(sent(MESSAGE_ALLOW_MEMORY), 1);
	cr_expect_gt(sent(MESSAGE_MAPPED), 1);
}

Test(memory_permits, another_program_is_not_allowed)
{
	map_watched(PROCESS);
	const uint32_t generation = generation_of(PROCESS);
	processes_exec(&manager, PROCESS, "other", 1);
	cr_expect_eq(sent(MESSAGE_FORBID_MEMORY), 1);
	cr_expect_eq(forbidden.tgid, PROCESS);
	cr_expect_eq(forbidden.exec_generation, generation);
	map(PROCESS, OTHER_TEXT, 6);
	cr_expect_eq(sent(MESSAGE_ALLOW_MEMORY), 1);
	cr_expect_eq(sent(MESSAGE_FORBID_MEMORY), 1);
}

Test(memory_permits, a_process_that_has_ended_is_not_allowed)
{
	map_watched(PROCESS);
	processes_exit(&manager, PROCESS, 1);
	cr_expect_eq(sent(MESSAGE_FORBID_MEMORY), 1);
	processes_exit(&manager, PROCESS, 1);
	processes_publish(&manager);
	cr_expect_eq(sent(MESSAGE_FORBID_MEMORY), 1);
	cr_expect_eq(sent(MESSAGE_ALLOW_MEMORY), 1);
}

Test(memory_permits, the_next_process_with_the_pid_is_not_allowed)
{
	map_watched(CHILD);
	map(PROCESS, OTHER_TEXT, 6);
	const uint32_t generation = generation_of(CHILD);
	/* The end of the first one was not reported, since records were lost. */
	processes_fork(&manager, PROCESS, CHILD, 1);
	cr_expect_eq(sent(MESSAGE_FORBID_MEMORY), 1);
	cr_expect_eq(forbidden.exec_generation, generation);
	processes_publish(&manager);
	cr_expect_eq(sent(MESSAGE_FORBID_MEMORY), 1);
	cr_expect_eq(sent(MESSAGE_ALLOW_MEMORY), 1);
}

Test(memory_permits, a_process_that_maps_another_file_there_is_not_allowed)
{
	map_watched(PROCESS);
	map(PROCESS, TEXT, 6);
	cr_expect_eq(sent(MESSAGE_FORBID_MEMORY), 1);
	cr_expect_eq(sent(MESSAGE_ALLOW_MEMORY), 1);
}

Test(memory_permits, a_process_that_still_has_another_mapping_stays_allowed)
{
	struct module *module = map_watched(PROCESS);

	map(PROCESS, OTHER_TEXT, 5);
	cr_assert_eq(manager.modules.all, module);
	map(PROCESS, TEXT, 6);
	cr_expect_eq(sent(MESSAGE_FORBID_MEMORY), 0);
	cr_expect_eq(sent(MESSAGE_ALLOW_MEMORY), 2);
	cr_expect_eq(allowed.address_start, OTHER_TEXT);
}

Test(memory_permits, a_process_is_reported_later_if_the_opener_is_full)
{
	struct module *module = map(PROCESS, TEXT, 5);

	opener_is_full = true;
	processes_watch(&manager, module, RUNTIME_ACCESS_READ);
	cr_expect_eq(sent(MESSAGE_MAPPED), 0);
	processes_publish(&manager);
	cr_expect_eq(sent(MESSAGE_MAPPED), 0);
	opener_is_full = false;
	processes_publish(&manager);
	cr_expect_eq(sent(MESSAGE_MAPPED), 1);
	cr_expect_eq(allowed_before_mapped, 1);
	processes_publish(&manager);
	cr_expect_eq(sent(MESSAGE_MAPPED), 1);
}

/* What the kernel side reads: whether a slot that the worker has published counts. */
static bool runtime_allowed(uint32_t tgid)
{
	return processes_find(&manager.processes, tgid)->slot->runtime_allowed;
}

Test(memory_permits, the_kernel_side_knows_who_is_allowed)
{
	map(CHILD, TEXT, 6);
	map_watched(PROCESS);
	cr_expect(runtime_allowed(PROCESS));
	cr_expect_not(runtime_allowed(CHILD));
	/* It stays so when the entry is written again. */
	map(PROCESS, OTHER_TEXT, 6);
	cr_expect(runtime_allowed(PROCESS));
	/* A child is allowed for itself. */
	processes_fork(&manager, PROCESS, CHILD, 1);
	cr_expect_not(runtime_allowed(CHILD));
	processes_publish(&manager);
	cr_expect(runtime_allowed(CHILD));
	/* The next program is not. */
	processes_exec(&manager, PROCESS, "other", 1);
	cr_expect_not(runtime_allowed(PROCESS));
	map(PROCESS, TEXT, 6);
	cr_expect_not(runtime_allowed(PROCESS));
	processes_exit(&manager, CHILD, 2);
	cr_expect_not(runtime_allowed(CHILD));
}

/* A runtime whose names come with the samples. */
Test(memory_permits, the_kernel_side_may_walk_without_memory_for_the_worker)
{
	struct module *module = map(PROCESS, TEXT, 5);

	processes_watch(&manager, module, RUNTIME_ACCESS_WALK);
	cr_expect(runtime_allowed(PROCESS));
	cr_expect_eq(sent(MESSAGE_MAPPED), 1);
	cr_expect_eq(sent(MESSAGE_ALLOW_MEMORY), 0);
	/* With another runtime, the memory is allowed through the mapping of that one. */
	processes_watch(&manager, map(PROCESS, OTHER_TEXT, 6), RUNTIME_ACCESS_READ);
	cr_expect_eq(sent(MESSAGE_ALLOW_MEMORY), 1);
	cr_expect_eq(allowed.address_start, OTHER_TEXT);
	map(PROCESS, OTHER_TEXT, 7);
	cr_expect_eq(sent(MESSAGE_FORBID_MEMORY), 1);
	cr_expect(runtime_allowed(PROCESS));
	processes_exec(&manager, PROCESS, "other", 1);
	cr_expect_not(runtime_allowed(PROCESS));
	cr_expect_eq(sent(MESSAGE_FORBID_MEMORY), 1);
}
