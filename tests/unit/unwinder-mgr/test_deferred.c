/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks that wait for tables. In the place of the ring there is one record, as often as wanted. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "tests/support/fake_peer.h"
#include "tests/unit/unwinder-mgr/manager_fixture.h"
#include "unwinder-mgr/deferred.h"
#include "unwinder-mgr/process_files.h"

static int on_send(enum message_type type, const void *payload, size_t length);
FAKE_PEER(on_send);

static struct bh_deferred record = {.copied = BH_STACK_COPY_BYTES};
static unsigned int waiting;
static struct msg_deferred_count told;
static int sending; /* what becomes of stacks that are sent: 0, or a negative errno */

bool __wrap_bpf_ring_peek(struct bpf_ring *from, const void **at, size_t *length);
void __wrap_bpf_ring_next(struct bpf_ring *from);

bool __wrap_bpf_ring_peek(struct bpf_ring *from, const void **at, size_t *length)
{
	(void)from;
	*at = &record;
	*length = sizeof(record);
	return waiting > 0;
}

void __wrap_bpf_ring_next(struct bpf_ring *from)
{
	(void)from;
	waiting--;
}

static int on_send(enum message_type type, const void *payload, size_t length)
{
	if (type == MESSAGE_DEFERRED_COUNT) {
		cr_assert_eq(length, sizeof(told));
		memcpy(&told, payload, length);
	}
	return type == MESSAGE_DEFERRED_SAMPLE ? sending : 0;
}

static void setup(void)
{
	manager_setup();
	manager.role.state = ROLE_SAMPLING;
}

static void teardown(void)
{
	deferred_process(&manager, true);
	cr_expect_eq(manager.deferred.bytes, 0);
	manager_teardown();
	shares_reclaim(&manager.shares, UINT64_MAX / 2);
	cr_expect_eq(manager.shares.count, 0, "nobody holds anything");
}

TestSuite(deferred, .init = setup, .fini = teardown);

/* Defers stacks of a process whose mappings are not known. Returns how many of them wait. */
static size_t defer_stacks(uint32_t tgid, unsigned int count)
{
	const size_t before = manager.deferred.bytes;

	record.header.tgid = tgid;
	waiting = count;
	deferred_consume(&manager);
	return (manager.deferred.bytes - before) /
	       (sizeof(record) + offsetof(struct deferred_stack, record));
}

Test(deferred, one_user_leaves_room_for_the_stacks_of_others)
{
	enum {
		ALL = LIMIT_DEFERRED_BYTES / sizeof(struct bh_deferred)
	};

	for (uint32_t tgid = 100; tgid < 104; tgid++)
		processes_set_tenant(&manager, tgid, tenant_of(tgid < 102 ? 1000 : tgid, 0));
	const size_t first = defer_stacks(100, ALL);

	cr_expect(first > ALL / 3 && first <= ALL / 2, "%zu", first);
	cr_expect_eq(fake_peer.attempts[MESSAGE_DEFERRED_SAMPLE], ALL - first,
		     "the others are sent at once");
	cr_expect_eq(defer_stacks(101, ALL), 0, "it is the same user's");
	cr_expect_gt(defer_stacks(102, ALL), ALL / 6);
	cr_expect_gt(defer_stacks(103, ALL), ALL / 12);
	cr_expect_gt(defer_stacks(104, ALL), ALL / 24, "of a user who is not known yet");
	cr_expect_leq(manager.deferred.bytes, LIMIT_DEFERRED_BYTES);
}

/* The end of the stack, whose mapping the kernel side has not found, may not be in the copy. */
Test(deferred, mappings_that_only_the_kernel_side_has_missed_are_requested)
{
	enum {
		VSYSCALL_TIME = -0xa00000 + 0x400, /* a return address is on its stack */
		STACK = 0x10000
	};
	const struct module_key key = {.device_major = 8, .device_minor = 1, .inode = 1};
	const struct mapping mapping = {.start = 0x1000, .end = 0x2000};

	manager_add_slab();
	processes_exec(&manager, 100, "program", 1);
	processes_map(&manager, 100, &mapping, &key, "/tmp/file");
	record.header.process_start_ns = 1;
	record.header.time_ns = 2;
	record.registers.rip = (uint64_t)(int64_t)VSYSCALL_TIME;
	record.registers.gpr[BH_REG_RSP] = STACK + BH_STACK_COPY_BYTES;
	record.stack_start = STACK;
	record.header.reason = BH_REASON_NO_TABLE;
	cr_expect_eq(defer_stacks(100, 1), 0, "it is sent: waiting does not make the copy longer");
	cr_expect_eq(fake_peer.attempts[MESSAGE_OPEN_MAPS], 0);
	record.header.reason = BH_REASON_NO_MAPPING;
	cr_expect_eq(defer_stacks(100, 1), 0);
	cr_expect_eq(fake_peer.attempts[MESSAGE_OPEN_MAPS], 1);
	process_files_on_answer(&manager, &(struct msg_file){.cookie = manager.modules.last_id},
				-1);
}

Test(deferred, stacks_are_counted_for_the_module_whose_table_they_wait_for)
{
	const struct module_key key = {.device_major = 8, .device_minor = 1, .inode = 1},
				other_key = {.device_major = 8, .device_minor = 1, .inode = 2};
	const struct mapping mapping = {.start = 0x1000, .end = 0x2000},
			     other_mapping = {.start = 0x3000, .end = 0x4000};

	manager_add_slab();
	processes_exec(&manager, 100, "program", 1);
	processes_map(&manager, 100, &mapping, &key, "/tmp/file");
	const struct module *module = modules_find(&manager.modules, manager.modules.last_id);
	processes_map(&manager, 100, &other_mapping, &other_key, "/tmp/other");
	const struct module *other = modules_find(&manager.modules, manager.modules.last_id);

	record.header.process_start_ns = 1;
	record.header.time_ns = 2;
	record.registers.rip = 0x1500;
	cr_expect_eq(defer_stacks(100, 3), 3);
	cr_expect_eq(module->awaited, 3);
	cr_expect_eq(other->awaited, 0);
	record.registers.rip = 0x5000;
	cr_expect_eq(defer_stacks(100, 1), 1, "it is in no file");
	cr_expect_eq(module->awaited, 3);
	for (uint32_t id = module->id; id <= other->id; id++)
		process_files_on_answer(&manager, &(struct msg_file){.cookie = id}, -1);
}

/* What waits is lost if the manager is killed. The next one finds the number in the table. */
Test(deferred, the_worker_is_told_what_it_should_have_got)
{
	const uint64_t *taken = &manager.processes.table->deferred_taken;

	manager.processes.table->deferred_taken = 40; /* by an earlier manager */
	cr_expect_eq(defer_stacks(100, 3), 3);
	cr_expect_eq(*taken, 43);
	deferred_tell_count(&manager);
	cr_expect_eq(told.stacks, 40);
	deferred_process(&manager, true);
	cr_expect_eq(fake_peer.attempts[MESSAGE_DEFERRED_SAMPLE], 3);
	deferred_tell_count(&manager);
	cr_expect_eq(told.stacks, 43);
}

Test(deferred, the_worker_is_told_of_nothing_that_was_counted_as_lost)
{
	const uint64_t *taken = &manager.processes.table->deferred_taken;

	cr_expect_eq(defer_stacks(100, 3), 3);
	sending = -EAGAIN;
	deferred_process(&manager, true);
	cr_expect_eq(manager.losses.lost[LOSS_MANAGER_QUEUE], 3);
	cr_expect_eq(*taken, 0);
	record.copied = BH_STACK_COPY_BYTES + 1;
	cr_expect_eq(defer_stacks(100, 2), 0);
	cr_expect_eq(manager.losses.lost[LOSS_BAD_RECORD], 2);
	cr_expect_eq(*taken, 0);
	deferred_tell_count(&manager);
	cr_expect_eq(told.stacks, 0);
}
