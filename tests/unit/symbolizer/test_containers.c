/* SPDX-License-Identifier: Apache-2.0 */
/* Which container a cgroup belongs to: what is recorded, used and evicted. */
#include "symbolizer/worker/containers.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "symbolizer/worker/identity.h"
#include "symbolizer/worker/stack_ids.h"
#include "tests/unit/symbolizer/identity_fixture.h"

/* Returns the container of a process that had ended when the opener looked: it can only follow from
 * the cgroup. */
static const char *container_of_ended_process(struct worker *worker, uint64_t cgroup_id)
{
	static uint32_t tgid = 100000;

	sample_add(worker, ++tgid, cgroup_id);
	answer_request(worker, sent.request_count - 1, NULL);
	batch_flush(&worker->batch);
	cr_assert_eq(sent.processes[sent.process_count - 1].tgid, tgid);
	return last_container();
}

static void add_live_process(struct worker *worker, uint32_t tgid, uint64_t cgroup_before,
			     const char *text, uint64_t cgroup_after)
{
	sample_add(worker, tgid, cgroup_before);
	answer_request(worker, sent.request_count - 1, text);
	batch_flush(&worker->batch);
	sample_add(worker, tgid, cgroup_after);
	batch_flush(&worker->batch);
}

Test(containers, the_container_of_a_cgroup_is_used_for_ended_processes)
{
	struct worker *worker = worker_new(0, false);

	cr_assert_str_eq(container_of_ended_process(worker, 7), "");
	add_live_process(worker, TGID, 7, "0::/docker/" HEX "\n", 7);
	cr_assert_str_eq(container_of_ended_process(worker, 7), HEX);
	cr_assert_str_eq(container_of_ended_process(worker, 8), "");
	/* A reset of the ids keeps the containers of cgroups. */
	stack_ids_reset(worker);
	cr_assert_str_eq(container_of_ended_process(worker, 7), HEX);
	/* A process whose answer is late gets the container from its cgroup as well. The answer
	 * is then no news. */
	const unsigned int described = sent.process_count;
	sample_add(worker, TGID + 1, 7);
	batch_flush(&worker->batch);
	cr_assert_str_eq(last_container(), HEX);
	answer_request(worker, sent.request_count - 1, "0::/docker/" HEX "\n");
	sample_add(worker, TGID + 1, 7);
	batch_flush(&worker->batch);
	cr_assert_eq(sent.process_count, described + 1);
	/* The file of a process overrules what was recorded for the cgroup. */
	sample_add(worker, TGID + 2, 7);
	answer_request(worker, sent.request_count - 1, "0::/system.slice\n");
	batch_flush(&worker->batch);
	cr_assert_str_eq(last_container(), "");
	worker_free(worker);
}

/* In each of these cases other processes of the cgroup may be outside of the container. */
Test(containers, uncertain_containers_of_a_cgroup_are_not_recorded)
{
	struct worker *worker = worker_new(0, false);

	/* The container is named by a cgroup of version 1, alone or together with version 2. */
	add_live_process(worker, TGID, 1, "4:memory:/docker/" HEX "\n", 1);
	add_live_process(worker, TGID + 1, 1,
			 "4:memory:/docker/" HEX "\n0::/system.slice/containerd.service\n", 1);
	add_live_process(worker, TGID + 2, 1,
			 "4:memory:/docker/" OTHER "/docker/" HEX "\n0::/docker/" OTHER "\n", 1);
	cr_assert_str_eq(container_of_ended_process(worker, 1), "");
	/* The process moves from the cgroup of the container runtime into that of the container. */
	add_live_process(worker, TGID + 3, 2, "0::/docker/" HEX "\n", 3);
	cr_assert_str_eq(container_of_ended_process(worker, 2), "");
	cr_assert_str_eq(container_of_ended_process(worker, 3), "");
	/* No sample was taken after the answer, which would confirm the cgroup. */
	sample_add(worker, TGID + 4, 4);
	const struct bh_sample before = sample_header(TGID + 4, 4);
	answer_request(worker, sent.request_count - 1, "0::/docker/" HEX "\n");
	sample_add_header(worker, &before);
	batch_flush(&worker->batch);
	cr_assert_str_eq(container_of_ended_process(worker, 4), "");
	/* The answer is about another process with the same tgid. */
	sample_add(worker, TGID + 5, 5);
	answer_with(worker, &sent.requests[sent.request_count - 1], START_TICKS + 1,
		    "0::/docker/" HEX "\n", NULL, 0);
	batch_flush(&worker->batch);
	sample_add(worker, TGID + 5, 5);
	batch_flush(&worker->batch);
	cr_assert_str_eq(container_of_ended_process(worker, 5), "");
	worker_free(worker);
}

Test(containers, the_least_recently_used_cgroup_is_evicted)
{
	static struct containers containers;
	char id[32];

	for (uint64_t i = 0; i < LIMIT_CONTAINERS; i++) {
		snprintf(id, sizeof(id), "c%llu", (unsigned long long)i);
		containers_put(&containers, i, id);
	}
	for (uint64_t i = 0; i < LIMIT_CONTAINERS; i++) {
		snprintf(id, sizeof(id), "c%llu", (unsigned long long)i);
		if (i != 5)
			cr_assert_str_eq(containers_find(&containers, i), id);
	}
	containers_put(&containers, 7777, "new");
	cr_assert_str_eq(containers_find(&containers, 7777), "new");
	cr_assert_str_eq(containers_find(&containers, 5), "", "the least recently used");
	cr_assert_str_eq(containers_find(&containers, 0), "c0");
	containers_put(&containers, 0, "other");
	cr_assert_str_eq(containers_find(&containers, 0), "other");
	cr_assert_str_eq(containers_find(&containers, 1), "c1");
}
