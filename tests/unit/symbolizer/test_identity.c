/* SPDX-License-Identifier: Apache-2.0 */
/* Processes get their container, service and variables: what is asked, what becomes of answers. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "symbolizer/worker/limits.h"
#include "symbolizer/worker/containers.h"
#include "symbolizer/worker/identity.h"
#include "symbolizer/worker/identity_read.h"
#include "symbolizer/worker/samples.h"
#include "symbolizer/worker/worker.h"
#include "tests/support/fake_peer.h"

#define HEX "2403ccfe427f1dc7b6120dccb9ac58c2f8456950380d587a9f33ea7f00dd303d"
#define OTHER "ee4b20e90ac7f42a10bd004d05646b13d8ab5e2c5e7cbc01abf8006bac016459"

enum {
	TGID = 42,
	PROCESSES_MAX = 4096,
	TICK_NS = 10000000,
	START_TICKS = 1234
};

/* Within the tick, as the kernel's times are. */
#define START_NS ((uint64_t)START_TICKS * TICK_NS + 123)

/* What the opener and the exporter would have got. */
static struct {
	int opener_answer, exporter_answer; /* of peer_send */
	struct msg_open_identity requests[PROCESSES_MAX];
	unsigned int request_count;
	struct {
		uint32_t number, tgid;
		char container[160], service[300], comm[16];
		char names[RECORD_VARIABLES_MAX][80], values[RECORD_VARIABLES_MAX][300];
		unsigned int variable_count;
	} processes[PROCESSES_MAX];
	unsigned int process_count;
	uint32_t thread_process[PROCESSES_MAX];
	unsigned int samples, batches;
	uint32_t last_process;
	size_t longest;
} sent;

static int on_reset(void *context)
{
	(void)context;
	return 0;
}

static int on_process(void *context, const struct record_process *process)
{
	(void)context;
	cr_assert_lt(sent.process_count, PROCESSES_MAX);
	__typeof__(sent.processes[0]) *p = &sent.processes[sent.process_count++];
	*p = (__typeof__(*p)){.number = process->number,
			      .tgid = process->tgid,
			      .variable_count = process->variable_count};
	snprintf(p->container, sizeof(p->container), "%s", process->container_id);
	snprintf(p->service, sizeof(p->service), "%s", process->service_name);
	snprintf(p->comm, sizeof(p->comm), "%s", process->comm);
	for (unsigned int i = 0; i < process->variable_count; i++) {
		snprintf(p->names[i], sizeof(p->names[i]), "%s", process->variables[i].name);
		snprintf(p->values[i], sizeof(p->values[i]), "%s", process->variables[i].value);
	}
	return 0;
}

static bool is_described(uint32_t number)
{
	for (unsigned int i = 0; i < sent.process_count; i++) {
		if (sent.processes[i].number == number)
			return true;
	}
	return false;
}

/* No thread without its process. */
static int on_thread(void *context, const struct record_thread *thread)
{
	(void)context;
	cr_assert(is_described(thread->process), "%u", thread->process);
	cr_assert_lt(thread->number, PROCESSES_MAX);
	sent.thread_process[thread->number] = thread->process;
	return 0;
}

static int on_sample(void *context, const struct record_sample *sample)
{
	(void)context;
	cr_assert_lt(sample->thread, PROCESSES_MAX);
	sent.last_process = sent.thread_process[sample->thread];
	cr_assert(sent.last_process);
	sent.samples++;
	return 0;
}

#define IGNORE(kind)                                                                               \
	static int ignore_##kind(void *context, const struct record_##kind *record)                \
	{                                                                                          \
		(void)context;                                                                     \
		(void)record;                                                                      \
		return 0;                                                                          \
	}
IGNORE(module)
IGNORE(function)
IGNORE(frame)
IGNORE(stack)

/* In the place of ipc/peer.c's. */
static int on_send(enum message_type type, const void *payload, size_t length)
{
	static const struct records_visitor visitor = {
	    .reset = on_reset,
	    .module = ignore_module,
	    .function = ignore_function,
	    .frame = ignore_frame,
	    .stack = ignore_stack,
	    .process = on_process,
	    .thread = on_thread,
	    .sample = on_sample,
	};

	if (type == MESSAGE_OPEN_IDENTITY) {
		if (sent.opener_answer)
			return sent.opener_answer;
		cr_assert_eq(length, sizeof(sent.requests[0]));
		cr_assert_lt(sent.request_count, PROCESSES_MAX);
		memcpy(&sent.requests[sent.request_count++], payload, length);
		return 0;
	}
	cr_assert_eq(type, MESSAGE_BATCH);
	if (sent.exporter_answer)
		return sent.exporter_answer;
	sent.batches++;
	if (length > sent.longest)
		sent.longest = length;
	cr_assert_eq(records_visit(payload, length, &visitor, NULL), 0);
	return 0;
}

FAKE_PEER(on_send);

static struct worker *worker_new(unsigned int variable_count, bool want_service)
{
	static const char *const names[] = {"ONE",  "TWO", "THREE", "FOUR",
					    "FIVE", "SIX", "SEVEN", "EIGHT"};
	struct msg_configure_worker configuration = {.want_identity = 1,
						     .want_service_name = want_service,
						     .variable_count = variable_count};
	struct worker *worker = calloc(1, sizeof(*worker));

	for (unsigned int i = 0; i < variable_count; i++)
		snprintf(configuration.variables[i], sizeof(configuration.variables[i]), "%s",
			 names[i]);
	cr_assert_eq(worker_init(worker, false), 0);
	cr_assert_eq(identity_configure(worker, &configuration), 0);
	cr_assert(worker->identity);
	return worker;
}

static void worker_free(struct worker *worker)
{
	worker_fini(worker);
	free(worker);
}

static struct bh_sample sample_of(uint32_t tgid, uint64_t cgroup_id)
{
	return (struct bh_sample){.time_ns = clock_monotonic_ns(),
				  .process_start_ns = START_NS,
				  .cgroup_id = cgroup_id,
				  .tgid = tgid,
				  .tid = tgid,
				  .user_count = 1,
				  .comm = "test"};
}

static void add_sample(struct worker *worker, const struct bh_sample *header)
{
	const uint64_t raw = bh_frame_raw(0x1000);

	samples_add(worker, header, &raw);
}

static void add(struct worker *worker, uint32_t tgid, uint64_t cgroup_id)
{
	const struct bh_sample header = sample_of(tgid, cgroup_id);

	add_sample(worker, &header);
}

static int file_of(const char *text, size_t length)
{
	int fd = memfd_create("proc", MFD_CLOEXEC);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, text, length), (ssize_t)length);
	return fd;
}

/* The answer to a request, with such files; NULL: there are none. */
static void answer_with(struct worker *worker, const struct msg_open_identity *request,
			uint64_t start_ticks, const char *cgroup, const char *environment,
			size_t environment_length)
{
	const struct msg_identity answer = {
	    .tgid = request->tgid, .cookie = request->cookie, .error = cgroup ? 0 : ENOENT};
	struct message message = {
	    .type = MESSAGE_IDENTITY, .length = sizeof(answer), .payload = &answer};
	char stat[256];

	if (cgroup) {
		snprintf(stat, sizeof(stat),
			 "%u (x) S 1 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 %llu 9 10\n",
			 request->tgid, (unsigned long long)start_ticks);
		message.fds[message.fd_count++] = file_of(stat, strlen(stat));
		message.fds[message.fd_count++] = file_of(cgroup, strlen(cgroup));
	}
	if (environment)
		message.fds[message.fd_count++] = file_of(environment, environment_length);
	identity_on_answer(worker, &message);
	/* They stay the caller's. */
	for (unsigned int i = 0; i < message.fd_count; i++)
		cr_assert_eq(close(message.fds[i]), 0);
}

static void answer(struct worker *worker, unsigned int request, const char *cgroup)
{
	answer_with(worker, &sent.requests[request], START_TICKS, cgroup, NULL, 0);
}

static const char *last_container(void)
{
	cr_assert(sent.process_count);
	return sent.processes[sent.process_count - 1].container;
}

Test(identity, not_wanted)
{
	struct worker *worker = calloc(1, sizeof(*worker));
	const struct msg_configure_worker nothing = {.want_service_name = 1, .variable_count = 99};

	cr_assert_eq(worker_init(worker, false), 0);
	cr_assert_eq(identity_configure(worker, &nothing), 0);
	cr_assert_null(worker->identity);
	add(worker, TGID, 7);
	cr_assert_not(identity_must_wait(worker));
	batch_flush(&worker->batch);
	cr_assert_eq(sent.request_count, 0);
	cr_assert_eq(sent.process_count, 1);
	cr_assert_eq(sent.samples, 1);
	worker_free(worker);
}

Test(identity, configuration)
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

/* The rule: asked once, described once, in the batch of its first sample. */
Test(identity, answer_in_time)
{
	struct worker *worker = worker_new(0, false);

	add(worker, TGID, 7);
	add(worker, TGID, 7);
	cr_assert_eq(sent.request_count, 1);
	cr_assert_eq(sent.requests[0].tgid, TGID);
	cr_assert_eq(sent.requests[0].want_environment, 0, "not its business");
	cr_assert(identity_must_wait(worker));
	answer(worker, 0, "0::/docker/" HEX "\n");
	cr_assert_not(identity_must_wait(worker));
	batch_flush(&worker->batch);
	add(worker, TGID, 7);
	add(worker, TGID, 7);
	batch_flush(&worker->batch);
	cr_assert_eq(sent.request_count, 1);
	cr_assert_eq(sent.process_count, 1);
	cr_assert_eq(sent.processes[0].tgid, TGID);
	cr_assert_str_eq(sent.processes[0].container, HEX);
	cr_assert_str_eq(sent.processes[0].comm, "test");
	cr_assert_eq(sent.samples, 4);
	worker_free(worker);
}

Test(identity, environment)
{
	static const char block[] = "TWO=2\0OTEL_SERVICE_NAME=shop\0SECRET=x\0THREE=\0";
	struct worker *worker = worker_new(3, true);

	add(worker, TGID, 7);
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
	/* It cannot be read: the rest is known all the same. */
	add(worker, TGID + 1, 7);
	answer(worker, 1, "0::/docker/" HEX "\n");
	batch_flush(&worker->batch);
	cr_assert_str_eq(last_container(), HEX);
	cr_assert_eq(sent.processes[1].variable_count, 0);
	cr_assert_str_eq(sent.processes[1].service, "");
	worker_free(worker);
}

/* What lies behind the bound is not there; what is there has a bounded length. */
Test(identity, long_environment)
{
	const size_t length = LIMIT_ENVIRON_BYTES + 100;
	struct worker *worker = worker_new(2, false);
	char *block = malloc(length);

	memset(block, 'a', length);
	memcpy(block, "ONE=", 4);
	block[LIMIT_ENVIRON_BYTES - 1] = 0;
	memcpy(block + LIMIT_ENVIRON_BYTES, "TWO=2", 6);
	add(worker, TGID, 7);
	answer_with(worker, &sent.requests[0], START_TICKS, "0::/\n", block, length);
	batch_flush(&worker->batch);
	cr_assert_eq(sent.processes[0].variable_count, 1);
	cr_assert_eq(strlen(sent.processes[0].values[0]), ENVIRON_VALUE_MAX);
	free(block);
	worker_free(worker);
}

/* Described without, and once more, under another number, with the next sample. */
Test(identity, late_answer)
{
	struct worker *worker = worker_new(0, false);

	add(worker, TGID, 7);
	batch_flush(&worker->batch);
	cr_assert_str_eq(last_container(), "");
	cr_assert_not(identity_must_wait(worker), "it is described");
	add(worker, TGID, 7);
	cr_assert_not(identity_must_wait(worker));
	answer(worker, 0, "0::/docker/" HEX "\n");
	batch_flush(&worker->batch);
	cr_assert_eq(sent.process_count, 1);
	cr_assert_eq(sent.last_process, sent.processes[0].number);
	add(worker, TGID, 7);
	batch_flush(&worker->batch);
	cr_assert_eq(sent.process_count, 2);
	cr_assert_str_eq(last_container(), HEX);
	cr_assert_neq(sent.processes[1].number, sent.processes[0].number);
	cr_assert_eq(sent.last_process, sent.processes[1].number);
	add(worker, TGID, 7);
	batch_flush(&worker->batch);
	cr_assert_eq(sent.process_count, 2);
	cr_assert_eq(sent.last_process, sent.processes[1].number);
	cr_assert_eq(sent.request_count, 1);
	cr_assert_eq(sent.samples, 4);
	worker_free(worker);
}

Test(identity, late_answer_without_news)
{
	struct worker *worker = worker_new(0, false);

	add(worker, TGID, 7);
	batch_flush(&worker->batch);
	answer(worker, 0, "0::/system.slice/ssh.service\n");
	add(worker, TGID, 7);
	batch_flush(&worker->batch);
	cr_assert_eq(sent.process_count, 1);
	cr_assert_eq(sent.request_count, 1);
	worker_free(worker);
}

/* Another user of the tgid, or the same a tick off: not this process's. */
Test(identity, another_process)
{
	struct worker *worker = worker_new(1, true);

	for (int i = -1; i <= 1; i++) {
		add(worker, TGID + (uint32_t)i, 7);
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

Test(identity, answers_that_nobody_asked_for)
{
	struct worker *worker = worker_new(0, false);
	struct msg_open_identity request = {.tgid = TGID, .cookie = 1};

	answer_with(worker, &request, START_TICKS, "0::/docker/" OTHER "\n", NULL, 0);
	add(worker, TGID, 7);
	add(worker, TGID + 1, 7);
	/* Another's, an older one's. */
	request = sent.requests[0];
	request.tgid++;
	answer_with(worker, &request, START_TICKS, "0::/docker/" OTHER "\n", NULL, 0);
	request = sent.requests[0];
	request.cookie += 7;
	answer_with(worker, &request, START_TICKS, "0::/docker/" OTHER "\n", NULL, 0);
	cr_assert(identity_must_wait(worker));
	/* In the other order; and again. */
	answer(worker, 1, "0::/docker/" HEX "\n");
	answer(worker, 0, "0::/lxc/web\n");
	answer(worker, 0, "0::/docker/" OTHER "\n");
	batch_flush(&worker->batch);
	answer(worker, 0, "0::/docker/" OTHER "\n");
	add(worker, TGID, 7);
	batch_flush(&worker->batch);
	cr_assert_eq(sent.process_count, 2);
	cr_assert_str_eq(sent.processes[0].container, "web");
	cr_assert_str_eq(sent.processes[1].container, HEX);
	worker_free(worker);
	/* Nobody wants any. */
	worker = calloc(1, sizeof(*worker));
	answer(worker, 0, "0::/docker/" OTHER "\n");
	free(worker);
}

Test(identity, a_batch_is_not_held_for_long)
{
	struct worker *worker = worker_new(0, false);

	add(worker, TGID, 7);
	cr_assert(identity_must_wait(worker));
	nanosleep(&(struct timespec){.tv_nsec = LIMIT_IDENTITY_HOLD_MS * 1000000}, NULL);
	/* A new one does not prolong it. */
	add(worker, TGID + 1, 7);
	cr_assert_not(identity_must_wait(worker));
	batch_flush(&worker->batch);
	cr_assert_eq(sent.process_count, 2);
	worker_free(worker);
}

/* The last answer brings the tick that sends the batch. */
Test(identity, tick_after_the_last_answer)
{
	struct worker *worker = worker_new(0, false);
	const uint64_t later = UINT64_MAX;

	worker->batch_held = true;
	worker->role.loop.next_tick_ns = later;
	add(worker, TGID, 7);
	add(worker, TGID + 1, 7);
	answer(worker, 0, "0::/\n");
	cr_assert_eq(worker->role.loop.next_tick_ns, later);
	answer(worker, 1, NULL);
	cr_assert_lt(worker->role.loop.next_tick_ns, later);
	worker_free(worker);
}

Test(identity, opener_is_gone)
{
	struct worker *worker = worker_new(1, true);

	sent.opener_answer = -EPIPE;
	for (uint32_t i = 0; i < 3 * LIMIT_IDENTITY_PROCESSES; i++) {
		add(worker, TGID + i, 7);
		cr_assert_not(identity_must_wait(worker));
	}
	batch_flush(&worker->batch);
	cr_assert_eq(sent.process_count, 3 * LIMIT_IDENTITY_PROCESSES);
	cr_assert_eq(sent.samples, 3 * LIMIT_IDENTITY_PROCESSES);
	cr_assert_eq(worker->losses.lost[LOSS_BAD_RECORD], 0);
	/* And is there again. */
	sent.opener_answer = 0;
	add(worker, 3 * LIMIT_IDENTITY_PROCESSES, 7);
	cr_assert_eq(sent.request_count, 1);
	answer(worker, 0, "0::/docker/" HEX "\n");
	add(worker, 3 * LIMIT_IDENTITY_PROCESSES, 7);
	batch_flush(&worker->batch);
	cr_assert_str_eq(last_container(), HEX);
	worker_free(worker);
}

/* It does not answer: no more than that many questions, however many processes. */
Test(identity, requests_are_bounded)
{
	struct worker *worker = worker_new(0, false);

	for (uint32_t i = 0; i < 1000; i++)
		add(worker, TGID + i, 7);
	batch_flush(&worker->batch);
	cr_assert_eq(sent.request_count, LIMIT_IDENTITY_REQUESTS);
	cr_assert_eq(sent.process_count, 1000);
	cr_assert_eq(sent.samples, 1000);
	/* With an answer, be it of a process that was given up, one more may ask. */
	answer(worker, 0, "0::/\n");
	add(worker, TGID + 999, 7);
	add(worker, TGID + 998, 7);
	cr_assert_eq(sent.request_count, LIMIT_IDENTITY_REQUESTS + 1);
	answer(worker, LIMIT_IDENTITY_REQUESTS, "0::/docker/" HEX "\n");
	add(worker, TGID + 999, 7);
	batch_flush(&worker->batch);
	cr_assert_str_eq(last_container(), HEX);
	worker_free(worker);
}

/* However long what is said of processes is. */
Test(identity, batches_are_bounded)
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
		add(worker, TGID + i, 7);
		if (i % 3)
			answer_with(worker, &sent.requests[sent.request_count - 1], START_TICKS,
				    "0::/docker/" HEX "\n", block, length);
	}
	batch_flush(&worker->batch);
	cr_assert_eq(sent.samples, 500);
	cr_assert_leq(sent.longest, LIMIT_BATCH_BYTES, "%zu", sent.longest);
	/* What is counted for a description is enough for the longest. */
	add(worker, 9999, 7);
	const size_t reserved = worker->batch.pending_bytes,
		     empty = records_bytes(worker->batch.records);
	struct msg_process said = {.tgid = 9998, .comm = "fifteen letters"};
	memset(said.path, 'p', sizeof(said.path) - 1);
	processes_announce(&worker->processes, &said);
	batch_flush(&worker->batch);
	add(worker, 9998, 7);
	answer_with(worker, &sent.requests[sent.request_count - 1], START_TICKS,
		    "0::/docker/" HEX "\n", block, length);
	identity_describe(worker);
	cr_assert_leq(records_bytes(worker->batch.records), empty + reserved);
	cr_assert_eq(worker->batch.pending_bytes, 0);
	worker_free(worker);
}

/* Exec: another environment, perhaps another container. */
Test(identity, another_program)
{
	struct worker *worker = worker_new(0, false);
	struct msg_process said = {.tgid = TGID, .comm = "first"};

	processes_announce(&worker->processes, &said);
	add(worker, TGID, 7);
	answer(worker, 0, "0::/\n");
	batch_flush(&worker->batch);
	memcpy(said.comm, "second", 7);
	processes_announce(&worker->processes, &said);
	add(worker, TGID, 7);
	cr_assert_eq(sent.request_count, 2);
	answer(worker, 1, "0::/docker/" HEX "\n");
	batch_flush(&worker->batch);
	cr_assert_eq(sent.process_count, 2);
	cr_assert_str_eq(sent.processes[0].comm, "first");
	cr_assert_str_eq(sent.processes[0].container, "");
	cr_assert_str_eq(sent.processes[1].comm, "second");
	cr_assert_str_eq(sent.processes[1].container, HEX);
	worker_free(worker);
}

/* The exporter forgot them: asked anew. */
Test(identity, numbers_are_forgotten)
{
	struct worker *worker = worker_new(0, false);

	add(worker, TGID, 7);
	add(worker, TGID + 1, 7);
	sent.exporter_answer = -ENOBUFS;
	batch_flush(&worker->batch);
	sent.exporter_answer = 0;
	cr_assert_eq(worker->batch.pending_bytes, 0);
	answer(worker, 0, "0::/docker/" OTHER "\n");
	add(worker, TGID, 7);
	cr_assert_eq(sent.request_count, 3);
	answer(worker, 2, "0::/docker/" HEX "\n");
	batch_flush(&worker->batch);
	cr_assert_eq(sent.process_count, 1);
	cr_assert_str_eq(last_container(), HEX);
	worker_free(worker);
}

/* Who was gone before anyone could look, in a cgroup that is known by others. */
static const char *container_of_the_dead(struct worker *worker, uint64_t cgroup_id)
{
	static uint32_t tgid = 100000;

	add(worker, ++tgid, cgroup_id);
	answer(worker, sent.request_count - 1, NULL);
	batch_flush(&worker->batch);
	cr_assert_eq(sent.processes[sent.process_count - 1].tgid, tgid);
	return last_container();
}

static void live(struct worker *worker, uint32_t tgid, uint64_t cgroup_before, const char *text,
		 uint64_t cgroup_after)
{
	add(worker, tgid, cgroup_before);
	answer(worker, sent.request_count - 1, text);
	batch_flush(&worker->batch);
	add(worker, tgid, cgroup_after);
	batch_flush(&worker->batch);
}

Test(identity, cgroups_are_learned)
{
	struct worker *worker = worker_new(0, false);

	cr_assert_str_eq(container_of_the_dead(worker, 7), "");
	live(worker, TGID, 7, "0::/docker/" HEX "\n", 7);
	cr_assert_str_eq(container_of_the_dead(worker, 7), HEX);
	cr_assert_str_eq(container_of_the_dead(worker, 8), "");
	/* Also when the numbers are forgotten. */
	stack_ids_reset(worker);
	cr_assert_str_eq(container_of_the_dead(worker, 7), HEX);
	/* Who is late has it from there, too, and then there is no news. */
	const unsigned int described = sent.process_count;
	add(worker, TGID + 1, 7);
	batch_flush(&worker->batch);
	cr_assert_str_eq(last_container(), HEX);
	answer(worker, sent.request_count - 1, "0::/docker/" HEX "\n");
	add(worker, TGID + 1, 7);
	batch_flush(&worker->batch);
	cr_assert_eq(sent.process_count, described + 1);
	/* But what the file says counts. */
	add(worker, TGID + 2, 7);
	answer(worker, sent.request_count - 1, "0::/system.slice\n");
	batch_flush(&worker->batch);
	cr_assert_str_eq(last_container(), "");
	worker_free(worker);
}

/* What must not be learned: all of these share a cgroup with others that are elsewhere. */
Test(identity, cgroups_are_not_learned)
{
	struct worker *worker = worker_new(0, false);

	/* By v1 alone, or with v1. */
	live(worker, TGID, 1, "4:memory:/docker/" HEX "\n", 1);
	live(worker, TGID + 1, 1, "4:memory:/docker/" HEX "\n0::/system.slice/containerd.service\n",
	     1);
	live(worker, TGID + 2, 1,
	     "4:memory:/docker/" OTHER "/docker/" HEX "\n0::/docker/" OTHER "\n", 1);
	cr_assert_str_eq(container_of_the_dead(worker, 1), "");
	/* On its way from the runtime's cgroup into the container's. */
	live(worker, TGID + 3, 2, "0::/docker/" HEX "\n", 3);
	cr_assert_str_eq(container_of_the_dead(worker, 2), "");
	cr_assert_str_eq(container_of_the_dead(worker, 3), "");
	/* Not a second time seen, or only before the answer. */
	add(worker, TGID + 4, 4);
	const struct bh_sample before = sample_of(TGID + 4, 4);
	answer(worker, sent.request_count - 1, "0::/docker/" HEX "\n");
	add_sample(worker, &before);
	batch_flush(&worker->batch);
	cr_assert_str_eq(container_of_the_dead(worker, 4), "");
	/* Of another process. */
	add(worker, TGID + 5, 5);
	answer_with(worker, &sent.requests[sent.request_count - 1], START_TICKS + 1,
		    "0::/docker/" HEX "\n", NULL, 0);
	batch_flush(&worker->batch);
	add(worker, TGID + 5, 5);
	batch_flush(&worker->batch);
	cr_assert_str_eq(container_of_the_dead(worker, 5), "");
	worker_free(worker);
}

Test(identity, containers_are_bounded)
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

static int open_proc(pid_t pid, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	cr_assert_geq(fd, 0, "%s", path);
	return fd;
}

/* As if processes had started in each of 20 ticks, all with these files. */
static void answer_ticks(struct worker *worker, struct msg_identity *answer,
			 struct message *message, uint64_t start_ns)
{
	for (uint64_t i = 0; i < 20; i++) {
		struct bh_sample header = sample_of(answer->tgid, 7);

		header.process_start_ns = start_ns + i * TICK_NS;
		add_sample(worker, &header);
		answer->cookie = sent.requests[i].cookie;
		identity_on_answer(worker, message);
	}
	batch_flush(&worker->batch);
}

/* The kernel's own files: of a live process, then of the same descriptors when it is gone. */
Test(identity, real_process)
{
	char *const argv[] = {"sleep", "60", NULL};
	char *const environment[] = {"ONE=1", "OTEL_SERVICE_NAME=shop", "ONE=2", NULL};
	struct worker *worker = worker_new(2, true);
	const uint64_t before = clock_read_ns(CLOCK_BOOTTIME);
	const pid_t child = fork();

	if (child == 0) {
		execve("/bin/sleep", argv, environment);
		_exit(1);
	}
	struct msg_identity answer = {.tgid = (uint32_t)child};
	struct message message = {.payload = &answer, .length = sizeof(answer), .fd_count = 3};
	/* As soon as it has its own environment. */
	char byte = 0;
	for (int i = 0; i < 1000 && byte != 'O'; i++) {
		message.fds[2] = open_proc(child, "environ");
		if (pread(message.fds[2], &byte, 1, 0) != 1 || byte != 'O') {
			close(message.fds[2]);
			nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
		}
	}
	message.fds[0] = open_proc(child, "stat");
	message.fds[1] = open_proc(child, "cgroup");
	/* It started within a tick or two of the fork: try those. */
	answer_ticks(worker, &answer, &message, before);
	unsigned int known = 0;
	for (unsigned int i = 0; i < sent.process_count; i++) {
		known += sent.processes[i].variable_count;
		if (!sent.processes[i].variable_count)
			continue;
		cr_assert_str_eq(sent.processes[i].service, "shop");
		cr_assert_str_eq(sent.processes[i].values[0], "1");
	}
	cr_assert_eq(known, 1, "one of them is its tick");
	kill(child, SIGKILL);
	cr_assert_eq(waitpid(child, NULL, 0), child);
	stack_ids_reset(worker);
	sent.process_count = sent.request_count = 0;
	answer_ticks(worker, &answer, &message, before);
	cr_assert_eq(sent.process_count, 20);
	for (unsigned int i = 0; i < sent.process_count; i++)
		cr_assert_eq(sent.processes[i].variable_count, 0);
	for (int i = 0; i < 3; i++)
		close(message.fds[i]);
	worker_free(worker);
}
