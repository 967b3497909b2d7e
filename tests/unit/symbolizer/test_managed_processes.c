/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "common/clock.h"
#include "common/time_units.h"
#include "symbolizer/worker/limits.h"
#include "symbolizer/worker/managed_processes.h"
#include "tests/support/fake_peer.h"

enum {
	RANGES = RUNTIME_RANGES_MAX,	/* of one process */
	FILL = RUNTIME_RANGES / RANGES, /* the number of processes that fill the table */
};

FAKE_PEER(NULL);

static void fake_detach(struct runtime_process *process)
{
	(void)process;
}

static const struct runtime_ops ops = {.detach = fake_detach};
static struct runtime_image image;
static struct bh_runtime_table table;
static struct managed_processes processes;

static void setup(void)
{
	image = (struct runtime_image){
	    .users = 1, .module = 7, .runtime = BH_RUNTIME_HOTSPOT, .ops = &ops};
	processes.images = &image;
	processes.slots.table = &table;
}

static void teardown(void)
{
	managed_processes_fini(&processes);
	cr_expect_eq(processes.count, 0);
	cr_expect_eq(processes.out_of_table, 0);
	cr_expect_eq(image.users, 1);
}

TestSuite(managed_processes, .init = setup, .fini = teardown);

static struct managed_process *ensure(uint32_t tgid, uint32_t exec_generation)
{
	return managed_processes_ensure(
	    &processes, &(struct msg_mapped){.tgid = tgid, .exec_generation = exec_generation});
}

/* Adds a process with the largest number of ranges, and publishes it. */
static struct managed_process *add(uint32_t tgid)
{
	struct managed_process *process = ensure(tgid, 1);

	cr_assert_not_null(process);
	struct runtime_attachment *a = managed_process_attachment(process, &image, 0);
	cr_assert_not_null(a);
	a->state = RUNTIME_ATTACHMENT_PUBLISHED;
	for (uint64_t i = 0; i < RANGES; i++)
		a->process.layout.ranges[i] =
		    (struct runtime_range){.start = (2 * i + 1) << 20, .end = (2 * i + 2) << 20};
	a->process.layout.range_count = RANGES;
	managed_processes_publish(&processes, process);
	return process;
}

/* Fills the table with processes that were last sampled long ago: 1 first, then 2, and so on. */
static void fill(void)
{
	for (uint32_t tgid = 1; tgid <= FILL; tgid++)
		add(tgid)->sampled_ns = tgid;
}

/* Returns whether the kernel side finds the process, with the block that it has here. */
static bool is_in_table(uint32_t tgid)
{
	const struct managed_process *process = managed_processes_find(&processes, tgid);

	for (uint32_t i = 0; i < BH_RUNTIME_PROBES; i++) {
		const struct bh_runtime_slot *slot =
		    &table.slots[(bh_runtime_hash(tgid) + i) & (RUNTIME_SLOTS - 1)];

		if (!slot->tgid)
			break;
		if (slot->tgid != tgid)
			continue;
		cr_expect_eq(slot->range_count, RANGES);
		cr_expect_eq(table.ranges[slot->first_range].block,
			     (uint16_t)process->attachments[0]->block);
		cr_expect(process->in_table);
		return true;
	}
	cr_expect(!process || !process->in_table);
	return false;
}

static uint64_t no_room(void)
{
	return processes.stats.by_runtime[BH_RUNTIME_HOTSPOT].no_room;
}

Test(managed_processes, are_found_and_visited)
{
	unsigned int visited = 0;

	cr_expect_null(managed_processes_next(&processes, NULL));
	for (uint32_t tgid = 1; tgid <= 3 * MANAGED_PROCESS_BUCKETS; tgid += 100)
		cr_assert_not_null(ensure(tgid, 1));
	for (struct managed_process *p = NULL; (p = managed_processes_next(&processes, p));) {
		cr_expect_eq(managed_processes_find(&processes, p->tgid), p);
		visited++;
	}
	cr_expect_eq(visited, processes.count);
	cr_expect_null(managed_processes_find(&processes, 2));
	managed_processes_delete(&processes, 2);
	managed_processes_delete(&processes, 101);
	cr_expect_null(managed_processes_find(&processes, 101));
	cr_expect_eq(processes.count, visited - 1);
}

Test(managed_processes, have_a_limit)
{
	for (uint32_t tgid = 1; tgid <= LIMIT_RUNTIME_PROCESSES; tgid++)
		cr_assert_not_null(ensure(tgid, 1));
	cr_expect_null(ensure(LIMIT_RUNTIME_PROCESSES + 1, 1));
	cr_expect_not_null(ensure(1, 2), "an exec of a process that is there");
	managed_processes_delete(&processes, 1);
	cr_expect_not_null(ensure(LIMIT_RUNTIME_PROCESSES + 1, 1));
}

static struct managed_process *ensure_of(uint32_t tgid, uint32_t uid)
{
	return managed_processes_ensure(
	    &processes, &(struct msg_mapped){.tgid = tgid, .tenant = tenant_of(uid, 0)});
}

Test(managed_processes, who_has_most_gives_way_to_others)
{
	const uint32_t hoarded = LIMIT_RUNTIME_PROCESSES - 10;
	uint32_t tgid = 1;

	for (; tgid <= hoarded; tgid++)
		cr_assert_not_null(ensure_of(tgid, 1000));
	managed_processes_find(&processes, 17)->sampled_ns = 1;
	for (; tgid <= LIMIT_RUNTIME_PROCESSES; tgid++)
		cr_assert_not_null(ensure_of(tgid, 1001));
	cr_expect_null(ensure_of(tgid, 1000));
	cr_expect_not_null(ensure_of(tgid, 1001));
	cr_expect_null(managed_processes_find(&processes, 17), "it was sampled least recently");
	cr_expect_not_null(managed_processes_find(&processes, 16));
	cr_expect_eq(processes.count, LIMIT_RUNTIME_PROCESSES);
	/* Two tenants share all there is. */
	for (tgid++; ensure_of(tgid, 1001); tgid++)
		cr_assert_leq(tgid, 3 * LIMIT_RUNTIME_PROCESSES);
	cr_expect_geq(tgid, LIMIT_RUNTIME_PROCESSES + hoarded / 2 - 20);
	cr_expect_not_null(ensure_of(tgid, 1002), "there is always room for one more");
}

Test(managed_processes, count_for_the_tenant_that_they_have_now)
{
	struct managed_process *process = ensure_of(1, 0);
	const struct managed_tenant *before = process->tenant;

	cr_expect_eq(before->processes, 1);
	cr_expect_eq(ensure_of(1, 1000), process);
	cr_expect_eq(before->processes, 0);
	cr_expect_eq(process->tenant->tenant.uid, 1000);
	cr_expect_eq(process->tenant->processes, 1);
	ensure_of(1, 1000);
	cr_expect_eq(process->tenant->processes, 1);
}

Test(managed_processes, an_exec_drops_the_previous_program)
{
	add(1);
	cr_expect(is_in_table(1));
	cr_expect_eq(image.users, 2);
	struct managed_process *process = ensure(1, 2);
	cr_expect_not(is_in_table(1));
	cr_expect_eq(process->count, 0);
	cr_expect_eq(process->exec_generation, 2);
	cr_expect_eq(image.users, 1);
}

Test(managed_processes, a_full_table_evicts_the_one_that_was_idle_for_longest)
{
	fill();
	cr_expect_eq(no_room(), 0);
	managed_processes_find(&processes, 1)->sampled_ns = FILL + 1;
	add(FILL + 1);
	cr_expect(is_in_table(FILL + 1));
	cr_expect(is_in_table(1));
	cr_expect_not(is_in_table(2));
	cr_expect(is_in_table(3));
	cr_expect_eq(no_room(), 1);
	cr_expect_eq(processes.out_of_table, 1);
}

Test(managed_processes, one_that_was_evicted_returns_with_its_next_sample)
{
	fill();
	add(FILL + 1);
	cr_assert_not(is_in_table(1));
	/* A second later. */
	managed_processes_find(&processes, 1)->tried_ns -= NS_PER_S;
	managed_processes_sampled(&processes, 1, clock_monotonic_ns());
	cr_expect(is_in_table(1));
	cr_expect_not(is_in_table(2), "it is the one that was idle for longest now");
	cr_expect_eq(no_room(), 2);
	managed_processes_sampled(&processes, FILL + 2, clock_monotonic_ns()); /* not known */
}

Test(managed_processes, busy_ones_do_not_replace_each_other)
{
	fill();
	for (uint32_t tgid = 1; tgid <= FILL; tgid++)
		managed_processes_sampled(&processes, tgid, clock_monotonic_ns());
	struct managed_process *late = add(FILL + 1);
	cr_expect_not(is_in_table(FILL + 1));
	cr_expect_eq(late->attachments[0]->block, RUNTIME_NO_BLOCK);
	for (uint32_t tgid = 1; tgid <= FILL; tgid++)
		cr_expect(is_in_table(tgid));
	cr_expect_eq(no_room(), 1);
	/* It is tried once per second, and counted once. */
	managed_processes_delete(&processes, 5);
	managed_processes_sampled(&processes, FILL + 1, clock_monotonic_ns());
	cr_expect_not(is_in_table(FILL + 1));
	late->tried_ns -= NS_PER_S;
	managed_processes_sampled(&processes, FILL + 1, clock_monotonic_ns());
	cr_expect(is_in_table(FILL + 1));
	cr_expect_eq(no_room(), 1);
}

/* A refused runtime has no ranges any more. */
Test(managed_processes, without_ranges_need_no_place)
{
	struct managed_process *process = add(1);

	process->attachments[0]->state = RUNTIME_ATTACHMENT_REFUSED;
	managed_processes_publish(&processes, process);
	cr_expect_not(is_in_table(1));
	cr_expect_eq(process->attachments[0]->block, RUNTIME_NO_BLOCK);
	cr_expect_eq(processes.out_of_table, 0);
	cr_expect_eq(no_room(), 0);
}

/* Four runtimes in one process may have more ranges than a process may publish. */
Test(managed_processes, too_many_ranges_are_left_out)
{
	struct runtime_image others[MANAGED_PROCESS_RUNTIMES_MAX];
	struct managed_process *idle = add(1), *process = ensure(2, 1);

	idle->sampled_ns = 1;
	for (uint64_t i = 0; i < MANAGED_PROCESS_RUNTIMES_MAX; i++) {
		others[i] = image;
		struct runtime_attachment *a = managed_process_attachment(process, &others[i], 0);

		cr_assert_not_null(a);
		a->state = RUNTIME_ATTACHMENT_PUBLISHED;
		for (uint64_t j = 0; j < RANGES; j++)
			a->process.layout.ranges[j] =
			    (struct runtime_range){.start = (i << 40) + ((2 * j + 1) << 20),
						   .end = (i << 40) + ((2 * j + 2) << 20)};
		a->process.layout.range_count = RANGES;
	}
	managed_processes_publish(&processes, process);
	cr_expect(process->in_table);
	cr_expect(idle->in_table);
	cr_expect_eq(no_room(), 0);
	cr_expect_null(managed_process_attachment(process, &image, 0), "there are four already");
	managed_processes_delete(&processes, 2);
}

/* --- executable memory outside of files --- */

static struct msg_code_memory code_memory(uint32_t exec_generation, uint32_t count)
{
	struct msg_code_memory message = {.exec_generation = exec_generation, .count = count};

	for (uint32_t i = 0; i < count && i < MSG_CODE_AREAS_MAX; i++) {
		message.areas[i].start = (2 * i + 1) << 20;
		message.areas[i].end = (2 * i + 2) << 20;
	}
	return message;
}

Test(managed_processes, runtimes_learn_where_code_may_be)
{
	struct managed_process *process = add(1);
	struct runtime_attachment *a = process->attachments[0];
	struct msg_code_memory message = code_memory(1, 2);

	memset(message.areas[1].label, 'x', sizeof(message.areas[1].label));
	a->due_ns = 0;
	cr_expect_not(managed_process_set_code_memory(process, &message));
	cr_expect_eq(a->due_ns, 0, "it does not follow it");
	cr_assert_not_null(a->process.code_memory);
	cr_expect_eq(a->process.code_memory->count, 2);
	cr_expect_eq(a->process.code_memory->areas[1].start, 3 << 20);
	cr_expect_eq(strlen(a->process.code_memory->areas[1].label), RUNTIME_CODE_LABEL_BYTES - 1);
	a->process.follows_code_memory = true;
	cr_expect(managed_process_set_code_memory(process, &message));
	cr_expect_neq(a->due_ns, 0);
	a->state = RUNTIME_ATTACHMENT_REFUSED;
	cr_expect_not(managed_process_set_code_memory(process, &message));
}

Test(managed_processes, a_runtime_that_comes_later_learns_where_code_may_be)
{
	struct managed_process *process = ensure(1, 1);
	const struct msg_code_memory message = code_memory(1, 1);

	managed_process_set_code_memory(process, &message);
	const struct runtime_attachment *a = managed_process_attachment(process, &image, 0);
	cr_assert_not_null(a->process.code_memory);
	cr_expect_eq(a->process.code_memory->count, 1);
}

Test(managed_processes, code_of_another_program_counts_for_nothing)
{
	struct managed_process *process = add(1);
	const struct msg_code_memory message = code_memory(2, 1);

	cr_expect_not(managed_process_set_code_memory(process, &message));
	cr_expect_null(process->attachments[0]->process.code_memory);
	/* Nor does what the process had before it executed this one. */
	process = ensure(1, 2);
	managed_process_set_code_memory(process, &message);
	process = ensure(1, 3);
	cr_expect_null(managed_process_attachment(process, &image, 0)->process.code_memory);
}

Test(managed_processes, forged_areas_are_cut)
{
	struct managed_process *process = add(1);
	struct msg_code_memory message = code_memory(1, 3);

	message.areas[2].start = message.areas[1].end - 1; /* overlaps */
	managed_process_set_code_memory(process, &message);
	cr_expect_eq(process->code_memory->count, 2);
	message.areas[0].end = message.areas[0].start; /* empty */
	managed_process_set_code_memory(process, &message);
	cr_expect_eq(process->code_memory->count, 0);
	message = code_memory(1, UINT32_MAX);
	managed_process_set_code_memory(process, &message);
	cr_expect_eq(process->code_memory->count, RUNTIME_CODE_AREAS_MAX);
}
