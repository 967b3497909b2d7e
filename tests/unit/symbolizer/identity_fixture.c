/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/symbolizer/identity_fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/clock.h"
#include "symbolizer/worker/identity.h"
#include "symbolizer/worker/samples.h"
#include "tests/unit/symbolizer/ignore_record.h"

struct identity_sent sent;

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
	*p = (__typeof__(*p)){
	    .id = process->id, .tgid = process->tgid, .variable_count = process->variable_count};
	snprintf(p->container, sizeof(p->container), "%s", process->container_id);
	snprintf(p->service, sizeof(p->service), "%s", process->service_name);
	snprintf(p->comm, sizeof(p->comm), "%s", process->comm);
	for (unsigned int i = 0; i < process->variable_count; i++) {
		snprintf(p->names[i], sizeof(p->names[i]), "%s", process->variables[i].name);
		snprintf(p->values[i], sizeof(p->values[i]), "%s", process->variables[i].value);
	}
	return 0;
}

static bool is_described(uint32_t id)
{
	for (unsigned int i = 0; i < sent.process_count; i++) {
		if (sent.processes[i].id == id)
			return true;
	}
	return false;
}

/* A thread must not be defined before its process. */
static int on_thread(void *context, const struct record_thread *thread)
{
	(void)context;
	cr_assert(is_described(thread->process), "%u", thread->process);
	cr_assert_lt(thread->id, PROCESSES_MAX);
	sent.thread_process[thread->id] = thread->process;
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

IGNORE_RECORD(module)
IGNORE_RECORD(label_set)
IGNORE_RECORD(function)
IGNORE_RECORD(frame)
IGNORE_RECORD(stack)

static int on_send(enum message_type type, const void *payload, size_t length)
{
	static const struct records_visitor visitor = {
	    .reset = on_reset,
	    .module = ignore_module,
	    .function = ignore_function,
	    .frame = ignore_frame,
	    .label_set = ignore_label_set,
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
	if (type == MESSAGE_OPEN_JIT_MAP)
		return -ENOBUFS;
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

struct worker *worker_new(unsigned int variable_count, bool want_service)
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
	cr_assert_eq(loop_init(&worker->role.loop), 0);
	cr_assert_eq(worker_init(worker, false), 0);
	cr_assert_eq(identity_configure(worker, &configuration), 0);
	cr_assert(worker->identity);
	return worker;
}

void worker_free(struct worker *worker)
{
	worker_fini(worker);
	loop_fini(&worker->role.loop);
	free(worker);
}

struct bh_sample sample_header(uint32_t tgid, uint64_t cgroup_id)
{
	return (struct bh_sample){.time_ns = clock_monotonic_ns(),
				  .process_start_ns = START_NS,
				  .cgroup_id = cgroup_id,
				  .tgid = tgid,
				  .tid = tgid,
				  .user_count = 1,
				  .comm = "test"};
}

void sample_add_header(struct worker *worker, const struct bh_sample *header)
{
	const uint64_t raw = bh_frame_raw(0x1000);

	samples_add(worker, header, &raw);
}

void sample_add(struct worker *worker, uint32_t tgid, uint64_t cgroup_id)
{
	const struct bh_sample header = sample_header(tgid, cgroup_id);

	sample_add_header(worker, &header);
}

static int file_of(const char *text, size_t length)
{
	int fd = memfd_create("proc", MFD_CLOEXEC);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, text, length), (ssize_t)length);
	return fd;
}

void answer_with(struct worker *worker, const struct msg_open_identity *request,
		 uint64_t start_ticks, const char *cgroup, const char *environment,
		 size_t environment_length)
{
	const struct msg_identity answer = {.tgid = request->tgid,
					    .cookie = request->cookie,
					    .uid = ANSWER_UID,
					    .error = cgroup ? 0 : ENOENT};
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
	/* The descriptors stay the caller's. */
	for (unsigned int i = 0; i < message.fd_count; i++)
		cr_assert_eq(close(message.fds[i]), 0);
}

void answer_request(struct worker *worker, unsigned int request, const char *cgroup)
{
	answer_with(worker, &sent.requests[request], START_TICKS, cgroup, NULL, 0);
}

const char *last_container(void)
{
	cr_assert(sent.process_count);
	return sent.processes[sent.process_count - 1].container;
}
