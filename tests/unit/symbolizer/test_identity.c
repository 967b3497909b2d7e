/* SPDX-License-Identifier: Apache-2.0 */
/* When the worker asks the opener about a process, and what it does with the answers. */
#include "symbolizer/worker/identity.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/tenant.h"
#include "parse/environ.h"
#include "symbolizer/worker/limits.h"
#include "tests/unit/symbolizer/identity_fixture.h"

Test(identity, without_identities_nothing_is_requested)
{
	struct worker *worker = calloc(1, sizeof(*worker));
	const struct msg_configure_worker nothing = {.want_service_name = 1, .variable_count = 99};

	cr_assert_eq(worker_init(worker, false), 0);
	cr_assert_eq(identity_configure(worker, &nothing), 0);
	cr_assert_null(worker->identity);
	sample_add(worker, TGID, 7);
	cr_assert_not(identity_must_wait(worker));
	batch_flush(&worker->batch);
	cr_assert_eq(sent.request_count, 0);
	cr_assert_eq(sent.process_count, 1);
	cr_assert_eq(sent.samples, 1);
	worker_free(worker);
}

Test(identity, malformed_and_repeated_configurations_are_refused)
{
	struct worker *worker = calloc(1, sizeof(*worker));
	struct msg_configure_worker c = {.want_identity = 1, .variable_count = 1};

	cr_assert_eq(identity_configure(worker, &c), -EPROTO, "no name");
	memset(c.variables[0], 'A', sizeof(c.variables[0]));
	cr_assert_eq(identity_configure(worker, &c), -EPROTO, "without an end");
	memcpy(c.variables[0], "A=B", 4);
	cr_assert_eq(identity_configure(worker, &c), -EPROTO);
	memcpy(c.variables[0], "A", 2);
	c.variable_count = LIMIT_IDENTITY_VARIABLES + 1;
	cr_assert_eq(identity_configure(worker, &c), -EPROTO);
	cr_assert_null(worker->identity);
	c.variable_count = 1;
	cr_assert_eq(identity_configure(worker, &c), 0);
	cr_assert_eq(identity_configure(worker, &c), -EPROTO, "twice");
	identity_free(worker);
	cr_assert_null(worker->identity);
	free(worker);
}

/* The usual case: the description is in the batch of the first sample. */
Test(identity, a_process_is_requested_once_and_described_once)
{
	struct worker *worker = worker_new(0, false);

	sample_add(worker, TGID, 7);
	sample_add(worker, TGID, 7);
	cr_assert_eq(sent.request_count, 1);
	cr_assert_eq(sent.requests[0].tgid, TGID);
	cr_assert_eq(sent.requests[0].want_environment, 0, "no variable is wanted");
	cr_assert(identity_must_wait(worker));
	answer_request(worker, 0, "0::/docker/" HEX "\n");
	cr_assert_not(identity_must_wait(worker));
	batch_flush(&worker->batch);
	sample_add(worker, TGID, 7);
	sample_add(worker, TGID, 7);
	batch_flush(&worker->batch);
	cr_assert_eq(sent.request_count, 1);
	cr_assert_eq(sent.process_count, 1);
	cr_assert_eq(sent.processes[0].tgid, TGID);
	cr_assert_str_eq(sent.processes[0].container, HEX);
	cr_assert_str_eq(sent.processes[0].comm, "test");
	cr_assert_eq(sent.samples, 4);
	worker_free(worker);
}

Test(identity, only_wanted_variables_are_described)
{
	static const char block[] = "TWO=2\0OTEL_SERVICE_NAME=shop\0SECRET=x\0THREE=\0";
	struct worker *worker = worker_new(3, true);

	sample_add(worker, TGID, 7);
	cr_assert_eq(sent.requests[0].want_environment, 1);
	answer_with(worker, &sent.requests[0], START_TICKS, "0::/\n", block, sizeof(block) - 1);
	batch_flush(&worker->batch);
	cr_assert_eq(sent.process_count, 1);
	cr_assert_str_eq(sent.processes[0].container, "");
	cr_assert_str_eq(sent.processes[0].service, "shop");
	cr_assert_eq(sent.processes[0].variable_count, 2);
	cr_assert_str_eq(sent.processes[0].names[0], "TWO");
	cr_assert_str_eq(sent.processes[0].values[0], "2");
	cr_assert_str_eq(sent.processes[0].names[1], "THREE");
	cr_assert_str_eq(sent.processes[0].values[1], "");
	/* The environment of the second process cannot be read: its container is described all
	 * the same. */
	sample_add(worker, TGID + 1, 7);
	answer_request(worker, 1, "0::/docker/" HEX "\n");
	batch_flush(&worker->batch);
	cr_assert_str_eq(last_container(), HEX);
	cr_assert_eq(sent.processes[1].variable_count, 0);
	cr_assert_str_eq(sent.processes[1].service, "");
	worker_free(worker);
}

/* Variables beyond the limit of the environment are not found, and long values are cut. */
Test(identity, environments_and_values_are_cut_at_their_limits)
{
	const size_t length = LIMIT_ENVIRON_BYTES + 100;
	struct worker *worker = worker_new(2, false);
	char *block = malloc(length);

	memset(block, 'a', length);
	memcpy(block, "ONE=", 4);
	block[LIMIT_ENVIRON_BYTES - 1] = 0;
	memcpy(block + LIMIT_ENVIRON_BYTES, "TWO=2", 6);
	sample_add(worker, TGID, 7);
	answer_with(worker, &sent.requests[0], START_TICKS, "0::/\n", block, length);
	batch_flush(&worker->batch);
	cr_assert_eq(sent.processes[0].variable_count, 1);
	cr_assert_eq(strlen(sent.processes[0].values[0]), ENVIRON_VALUE_MAX);
	free(block);
	worker_free(worker);
}

/* The first batch describes the process without a container. The next sample after the answer
 * describes it again, with its container. */
Test(identity, a_late_answer_describes_the_process_again_under_a_new_id)
{
	struct worker *worker = worker_new(0, false);

	sample_add(worker, TGID, 7);
	batch_flush(&worker->batch);
	cr_assert_str_eq(last_container(), "");
	cr_assert_not(identity_must_wait(worker), "it is described");
	sample_add(worker, TGID, 7);
	cr_assert_not(identity_must_wait(worker));
	answer_request(worker, 0, "0::/docker/" HEX "\n");
	batch_flush(&worker->batch);
	cr_assert_eq(sent.process_count, 1);
	cr_assert_eq(sent.last_process, sent.processes[0].id);
	sample_add(worker, TGID, 7);
	batch_flush(&worker->batch);
	cr_assert_eq(sent.process_count, 2);
	cr_assert_str_eq(last_container(), HEX);
	cr_assert_neq(sent.processes[1].id, sent.processes[0].id);
	cr_assert_eq(sent.last_process, sent.processes[1].id);
	sample_add(worker, TGID, 7);
	batch_flush(&worker->batch);
	cr_assert_eq(sent.process_count, 2);
	cr_assert_eq(sent.last_process, sent.processes[1].id);
	cr_assert_eq(sent.request_count, 1);
	cr_assert_eq(sent.samples, 4);
	worker_free(worker);
}

Test(identity, a_late_answer_without_news_changes_nothing)
{
	struct worker *worker = worker_new(0, false);

	sample_add(worker, TGID, 7);
	batch_flush(&worker->batch);
	answer_request(worker, 0, "0::/system.slice/ssh.service\n");
	sample_add(worker, TGID, 7);
	batch_flush(&worker->batch);
	cr_assert_eq(sent.process_count, 1);
	cr_assert_eq(sent.request_count, 1);
	worker_free(worker);
}

/* The start time in /proc/PID/stat must be the one of the sample: one clock tick earlier or later,
 * the tgid belonged to another process. */
Test(identity, files_of_another_process_with_the_tgid_are_not_used)
{
	struct worker *worker = worker_new(1, true);

	for (int i = -1; i <= 1; i++) {
		sample_add(worker, TGID + (uint32_t)i, 7);
		answer_with(worker, &sent.requests[i + 1], (uint64_t)(START_TICKS + i),
			    "0::/docker/" HEX "\n", "ONE=1\0OTEL_SERVICE_NAME=x\0", 27);
	}
	batch_flush(&worker->batch);
	cr_assert_eq(sent.process_count, 3);
	for (int i = 0; i < 3; i++) {
		cr_assert_str_eq(sent.processes[i].container, i == 1 ? HEX : "");
		cr_assert_str_eq(sent.processes[i].service, i == 1 ? "x" : "");
		cr_assert_eq(sent.processes[i].variable_count, i == 1);
	}
	worker_free(worker);
}

Test(identity, unrequested_answers_are_ignored)
{
	struct worker *worker = worker_new(0, false);
	struct msg_open_identity request = {.tgid = TGID, .cookie = 1};

	answer_with(worker, &request, START_TICKS, "0::/docker/" OTHER "\n", NULL, 0);
	sample_add(worker, TGID, 7);
	sample_add(worker, TGID + 1, 7);
	/* The right cookie with another tgid, then the right tgid with another cookie. */
	request = sent.requests[0];
	request.tgid++;
	answer_with(worker, &request, START_TICKS, "0::/docker/" OTHER "\n", NULL, 0);
	request = sent.requests[0];
	request.cookie += 7;
	answer_with(worker, &request, START_TICKS, "0::/docker/" OTHER "\n", NULL, 0);
	cr_assert(identity_must_wait(worker));
	/* Answers may come in another order. A second answer to a request is ignored. */
	answer_request(worker, 1, "0::/docker/" HEX "\n");
	answer_request(worker, 0, "0::/lxc/web\n");
	answer_request(worker, 0, "0::/docker/" OTHER "\n");
	batch_flush(&worker->batch);
	answer_request(worker, 0, "0::/docker/" OTHER "\n");
	sample_add(worker, TGID, 7);
	batch_flush(&worker->batch);
	cr_assert_eq(sent.process_count, 2);
	cr_assert_str_eq(sent.processes[0].container, "web");
	cr_assert_str_eq(sent.processes[1].container, HEX);
	worker_free(worker);
	/* A worker without identities ignores every answer. */
	worker = calloc(1, sizeof(*worker));
	answer_request(worker, 0, "0::/docker/" OTHER "\n");
	free(worker);
}

Test(identity, a_batch_is_held_for_a_limited_time)
{
	struct worker *worker = worker_new(0, false);

	sample_add(worker, TGID, 7);
	cr_assert(identity_must_wait(worker));
	nanosleep(&(struct timespec){.tv_nsec = LIMIT_IDENTITY_HOLD_MS * 1000000}, NULL);
	/* A new process does not prolong the time. */
	sample_add(worker, TGID + 1, 7);
	cr_assert_not(identity_must_wait(worker));
	batch_flush(&worker->batch);
	cr_assert_eq(sent.process_count, 2);
	worker_free(worker);
}

Test(identity, the_last_answer_requests_the_tick_that_sends_the_batch)
{
	struct worker *worker = worker_new(0, false);
	const uint64_t later = UINT64_MAX;

	worker->batch_held = true;
	worker->role.loop.next_tick_ns = later;
	sample_add(worker, TGID, 7);
	sample_add(worker, TGID + 1, 7);
	answer_request(worker, 0, "0::/\n");
	cr_assert_eq(worker->role.loop.next_tick_ns, later);
	answer_request(worker, 1, NULL);
	cr_assert_lt(worker->role.loop.next_tick_ns, later);
	worker_free(worker);
}

Test(identity, processes_are_described_without_the_opener)
{
	struct worker *worker = worker_new(1, true);

	sent.opener_answer = -EPIPE;
	for (uint32_t i = 0; i < 3 * LIMIT_IDENTITY_PROCESSES; i++) {
		sample_add(worker, TGID + i, 7);
		cr_assert_not(identity_must_wait(worker));
	}
	batch_flush(&worker->batch);
	cr_assert_eq(sent.process_count, 3 * LIMIT_IDENTITY_PROCESSES);
	cr_assert_eq(sent.samples, 3 * LIMIT_IDENTITY_PROCESSES);
	cr_assert_eq(worker->losses.lost[LOSS_BAD_RECORD], 0);
	/* The opener is back. */
	sent.opener_answer = 0;
	sample_add(worker, 3 * LIMIT_IDENTITY_PROCESSES, 7);
	cr_assert_eq(sent.request_count, 1);
	answer_request(worker, 0, "0::/docker/" HEX "\n");
	sample_add(worker, 3 * LIMIT_IDENTITY_PROCESSES, 7);
	batch_flush(&worker->batch);
	cr_assert_str_eq(last_container(), HEX);
	worker_free(worker);
}

/* The limit holds for any number of processes, which are all described without an answer. */
Test(identity, a_silent_opener_gets_a_limited_number_of_requests)
{
	struct worker *worker = worker_new(0, false);

	for (uint32_t i = 0; i < 1000; i++)
		sample_add(worker, TGID + i, 7);
	batch_flush(&worker->batch);
	cr_assert_eq(sent.request_count, LIMIT_IDENTITY_REQUESTS);
	cr_assert_eq(sent.process_count, 1000);
	cr_assert_eq(sent.samples, 1000);
	/* Each answer allows one more request, even if its process was described already. */
	answer_request(worker, 0, "0::/\n");
	sample_add(worker, TGID + 999, 7);
	sample_add(worker, TGID + 998, 7);
	cr_assert_eq(sent.request_count, LIMIT_IDENTITY_REQUESTS + 1);
	answer_request(worker, LIMIT_IDENTITY_REQUESTS, "0::/docker/" HEX "\n");
	sample_add(worker, TGID + 999, 7);
	batch_flush(&worker->batch);
	cr_assert_str_eq(last_container(), HEX);
	worker_free(worker);
}

/* The variables, path and name of each process are as long as possible. */
Test(identity, descriptions_fit_into_the_batch)
{
	char block[8 * 300], value[280];
	static const char *const names[] = {"ONE",  "TWO", "THREE", "FOUR",
					    "FIVE", "SIX", "SEVEN", "EIGHT"};
	struct worker *worker = worker_new(8, true);
	size_t length = 0;

	memset(value, 'v', sizeof(value));
	value[sizeof(value) - 1] = 0;
	for (int i = 0; i < 8; i++)
		length += (size_t)snprintf(block + length, sizeof(block) - length, "%s=%s",
					   names[i], value) +
			  1;
	for (uint32_t i = 0; i < 500; i++) {
		struct msg_process said = {.tgid = TGID + i, .comm = "fifteen letters"};

		memset(said.path, 'p', sizeof(said.path) - 1);
		processes_announce(&worker->processes, &said);
		sample_add(worker, TGID + i, 7);
		if (i % 3)
			answer_with(worker, &sent.requests[sent.request_count - 1], START_TICKS,
				    "0::/docker/" HEX "\n", block, length);
	}
	batch_flush(&worker->batch);
	cr_assert_eq(sent.samples, 500);
	cr_assert_leq(sent.longest, LIMIT_BATCH_BYTES, "%zu", sent.longest);
	/* The bytes that are reserved for a description suffice for the longest one. */
	sample_add(worker, 9999, 7);
	const size_t reserved = worker->batch.pending_bytes,
		     empty = records_bytes(worker->batch.records);
	struct msg_process said = {.tgid = 9998, .comm = "fifteen letters"};
	memset(said.path, 'p', sizeof(said.path) - 1);
	processes_announce(&worker->processes, &said);
	batch_flush(&worker->batch);
	sample_add(worker, 9998, 7);
	answer_with(worker, &sent.requests[sent.request_count - 1], START_TICKS,
		    "0::/docker/" HEX "\n", block, length);
	identity_describe(worker);
	cr_assert_leq(records_bytes(worker->batch.records), empty + reserved);
	cr_assert_eq(worker->batch.pending_bytes, 0);
	worker_free(worker);
}

/* The manager may learn whose a process is when it was announced already. */
Test(identity, the_opener_learns_the_container)
{
	struct worker *worker = worker_new(0, false);
	struct msg_process said = {.tgid = TGID, .comm = "first", .container = 9};

	processes_announce(&worker->processes, &said);
	sample_add(worker, TGID, 7);
	cr_assert_eq(sent.request_count, 1);
	cr_expect_eq(sent.requests[0].container, 9);
	said.container = 8;
	processes_announce(&worker->processes, &said);
	cr_expect_eq(processes_container(&worker->processes, TGID), 8);
	cr_expect_eq(processes_container(&worker->processes, TGID + 1), 0);
	answer_request(worker, 0, "0::/\n");
	batch_flush(&worker->batch);
	sample_add(worker, TGID, 7);
	cr_expect_eq(sent.request_count, 1, "it is the same process");
	worker_free(worker);
}

/* An exec changes the environment and possibly the container. */
Test(identity, a_process_is_requested_again_after_an_exec)
{
	struct worker *worker = worker_new(0, false);
	struct msg_process said = {.tgid = TGID, .comm = "first"};

	processes_announce(&worker->processes, &said);
	sample_add(worker, TGID, 7);
	answer_request(worker, 0, "0::/\n");
	batch_flush(&worker->batch);
	memcpy(said.comm, "second", 7);
	processes_announce(&worker->processes, &said);
	sample_add(worker, TGID, 7);
	cr_assert_eq(sent.request_count, 2);
	answer_request(worker, 1, "0::/docker/" HEX "\n");
	batch_flush(&worker->batch);
	cr_assert_eq(sent.process_count, 2);
	cr_assert_str_eq(sent.processes[0].comm, "first");
	cr_assert_str_eq(sent.processes[0].container, "");
	cr_assert_str_eq(sent.processes[1].comm, "second");
	cr_assert_str_eq(sent.processes[1].container, HEX);
	worker_free(worker);
}

/* The exporter does not have the descriptions in a lost batch, so all ids are reset. */
Test(identity, processes_are_requested_again_after_a_lost_batch)
{
	struct worker *worker = worker_new(0, false);

	sample_add(worker, TGID, 7);
	sample_add(worker, TGID + 1, 7);
	sent.exporter_answer = -ENOBUFS;
	batch_flush(&worker->batch);
	sent.exporter_answer = 0;
	cr_assert_eq(worker->batch.pending_bytes, 0);
	answer_request(worker, 0, "0::/docker/" OTHER "\n");
	sample_add(worker, TGID, 7);
	cr_assert_eq(sent.request_count, 3);
	answer_request(worker, 2, "0::/docker/" HEX "\n");
	batch_flush(&worker->batch);
	cr_assert_eq(sent.process_count, 1);
	cr_assert_str_eq(last_container(), HEX);
	worker_free(worker);
}

/* The second time that a role ended because of one user, nothing of that user is read. */
Test(identity, files_of_a_user_who_is_left_alone_are_not_read)
{
	static struct work_page page;
	struct worker *worker = worker_new(0, false);

	worker->role.work_page = &page;
	for (unsigned int i = 0; i < WORK_TENANT_TIMES; i++)
		quarantine_add_tenant(&page.quarantine, tenant_of(ANSWER_UID, 0),
				      clock_monotonic_ns());
	sample_add(worker, TGID, 7);
	answer_request(worker, 0, "0::/docker/" HEX "\n");
	cr_expect_eq(page.subject.tgid, 0);
	page.quarantine = (struct quarantine){0};
	sample_add(worker, TGID + 1, 8);
	answer_request(worker, 1, "0::/docker/" HEX "\n");
	cr_expect_eq(page.subject.tgid, TGID + 1);
	cr_expect_eq(page.subject.tenant.uid, user_of_uid(ANSWER_UID));
	cr_expect_eq(page.working, 0);
	worker_free(worker);
}
