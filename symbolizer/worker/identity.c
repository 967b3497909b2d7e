/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/worker/identity.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/time_units.h"
#include "common/tenant.h"
#include "symbolizer/worker/containers.h"
#include "symbolizer/worker/identity_read.h"
#include "symbolizer/worker/limits.h"
#include "symbolizer/worker/worker.h"

enum {
	/* The description of a process in a batch without its variables: path, comm, container,
	 * and for each text 4 bytes of length, a NUL and padding, and the fields of the table. */
	DESCRIPTION_BYTES = MSG_PATH_BYTES + BH_COMM_BYTES + CGROUP_CONTAINER_MAX + 128,
	VARIABLE_BYTES = IDENTITY_NAME_BYTES + ENVIRON_VALUE_MAX + 48
};

/* A batch is full before LIMIT_IDENTITY_PROCESSES processes wait for their description. So there is
 * always a process that was described and can be evicted. */
_Static_assert(LIMIT_IDENTITY_PROCESSES *DESCRIPTION_BYTES > 2 * LIMIT_BATCH_BYTES, "room");
_Static_assert(LIMIT_IDENTITY_REQUESTS <= LIMIT_IDENTITY_PROCESSES, "bounds");
_Static_assert((int)LIMIT_IDENTITY_VARIABLES == (int)RECORD_VARIABLES_MAX, "one name");

enum process_state {
	PROCESS_UNASKED,
	PROCESS_ASKED,
	PROCESS_ANSWERED /* there is nothing more to come */
};

/* A process between its first sample and the time when its description is complete. */
struct identity_process {
	XXH128_hash_t key;
	uint64_t start_ns;
	uint64_t cgroup_id; /* of its first sample */
	uint64_t asked_ns, answered_ns;
	uint32_t tgid, id, cookie;
	enum process_state state;
	bool found;	/* the answer was about this process, which was alive */
	bool described; /* to the exporter, under this id */
	bool new_id;  /* the answer came later and adds something: the next sample gets a new id */
	bool confirm; /* the next sample shows whether cgroup and container belong together */
	char comm[BH_COMM_BYTES];
	char path[MSG_PATH_BYTES];
	char container[CGROUP_CONTAINER_MAX + 1];
	uint32_t values_found; /* one bit per name */
	char values[][ENVIRON_VALUE_MAX + 1];
};

struct identity {
	/* Names of environment variables. The first is that of the service name, if it is
	 * wanted. */
	char names[IDENTITY_NAMES_MAX][IDENTITY_NAME_BYTES];
	unsigned int name_count;
	bool want_service_name;
	uint64_t tick_ns; /* of /proc/PID/stat */
	uint32_t cookie;
	unsigned int requests; /* without an answer, also those of processes given up */
	uint64_t heard_ns;     /* when the opener last answered */
	/* In the order of their first samples. */
	struct identity_process *processes[LIMIT_IDENTITY_PROCESSES];
	unsigned int process_count;
	unsigned int undescribed; /* how many of them the exporter does not have */
	struct containers containers;
	struct identity_buffer buffer;
};

/* Adds the name of a variable. Returns false if it is empty, not terminated, or has a '='. */
static bool name_add(struct identity *identity, const char *name)
{
	const size_t length = strnlen(name, IDENTITY_NAME_BYTES);

	if (!length || length == IDENTITY_NAME_BYTES || memchr(name, '=', length))
		return false;
	memcpy(identity->names[identity->name_count++], name, length + 1);
	return true;
}

static bool names_init(struct identity *identity, const struct msg_configure_worker *configuration)
{
	identity->want_service_name = configuration->want_service_name;
	if (identity->want_service_name)
		name_add(identity, "OTEL_SERVICE_NAME");
	if (configuration->variable_count > LIMIT_IDENTITY_VARIABLES)
		return false;
	for (unsigned int i = 0; i < configuration->variable_count; i++) {
		if (!name_add(identity, configuration->variables[i]))
			return false;
	}
	return true;
}

static void identity_delete(struct identity *identity)
{
	if (!identity)
		return;
	for (unsigned int i = 0; i < identity->process_count; i++)
		free(identity->processes[i]);
	free(identity->buffer.bytes);
	free(identity);
}

int identity_configure(struct worker *worker, const struct msg_configure_worker *configuration)
{
	const long ticks = sysconf(_SC_CLK_TCK);

	if (worker->identity)
		return -EPROTO;
	if (!configuration->want_identity)
		return 0;
	struct identity *identity = calloc(1, sizeof(*identity));
	if (!identity)
		return -ENOMEM;
	identity->tick_ns = NS_PER_S / (uint64_t)(ticks > 0 ? ticks : 100);
	if (!names_init(identity, configuration)) {
		identity_delete(identity);
		return -EPROTO;
	}
	identity->buffer.size = identity->name_count ? LIMIT_ENVIRON_BYTES : CGROUP_TEXT_MAX;
	identity->buffer.bytes = malloc(identity->buffer.size);
	if (!identity->buffer.bytes) {
		identity_delete(identity);
		return -ENOMEM;
	}
	worker->identity = identity;
	return 0;
}

void identity_free(struct worker *worker)
{
	identity_delete(worker->identity);
	worker->identity = NULL;
}

static bool is_waiting(const struct identity_process *process)
{
	return !process->described && process->state == PROCESS_ASKED;
}

bool identity_must_wait(const struct worker *worker)
{
	const struct identity *identity = worker->identity;
	uint64_t oldest_ns = UINT64_MAX;

	if (!identity || !identity->undescribed)
		return false;
	for (unsigned int i = 0; i < identity->process_count; i++) {
		const struct identity_process *process = identity->processes[i];

		if (is_waiting(process) && process->asked_ns < oldest_ns)
			oldest_ns = process->asked_ns;
	}
	return oldest_ns != UINT64_MAX &&
	       clock_monotonic_ns() - oldest_ns < LIMIT_IDENTITY_HOLD_MS * NS_PER_MS;
}

/* Reserves what the descriptions of undescribed processes add to the batch at most. */
static void update_pending_bytes(struct worker *worker)
{
	const struct identity *identity = worker->identity;

	worker->batch.pending_bytes =
	    identity->undescribed *
	    (DESCRIPTION_BYTES + identity->name_count * (size_t)VARIABLE_BYTES);
}

static bool is_complete(const struct identity_process *process)
{
	return process->described && process->state == PROCESS_ANSWERED && !process->new_id &&
	       !process->confirm;
}

/* Commits a complete description: from now on the id is found in worker->ids.processes. */
static void process_commit(struct worker *worker, unsigned int index)
{
	struct identity *identity = worker->identity;
	struct identity_process *process = identity->processes[index];

	/* Without memory for the entry, its next sample makes it a new process. */
	id_map_put(&worker->ids.processes, process->key, process->id);
	free(process);
	identity->process_count--;
	memmove(&identity->processes[index], &identity->processes[index + 1],
		(identity->process_count - index) * sizeof(identity->processes[0]));
}

static void commit_all(struct worker *worker)
{
	for (unsigned int i = worker->identity->process_count; i--;) {
		if (is_complete(worker->identity->processes[i]))
			process_commit(worker, i);
	}
}

/* Makes room for one more process: the oldest described one keeps the description that it has. */
static bool make_room(struct worker *worker)
{
	struct identity *identity = worker->identity;

	if (identity->process_count < LIMIT_IDENTITY_PROCESSES)
		return true;
	for (unsigned int i = 0; i < identity->process_count; i++) {
		if (identity->processes[i]->described) {
			process_commit(worker, i);
			return true;
		}
	}
	return false;
}

static int process_add(struct worker *worker, const struct bh_sample *header, XXH128_hash_t key,
		       const struct record_process *record, struct identity_process **added)
{
	struct identity *identity = worker->identity;
	struct identity_process *process;

	if (!make_room(worker))
		return -ENOBUFS;
	process = calloc(1, sizeof(*process) + identity->name_count * sizeof(process->values[0]));
	if (!process)
		return -ENOMEM;
	process->key = key;
	process->start_ns = record->start_ns;
	process->tgid = record->tgid;
	process->cgroup_id = header->cgroup_id;
	process->id = ++worker->ids.process;
	snprintf(process->comm, sizeof(process->comm), "%s", record->comm);
	snprintf(process->path, sizeof(process->path), "%s", record->path);
	identity->processes[identity->process_count++] = process;
	identity->undescribed++;
	update_pending_bytes(worker);
	*added = process;
	return 0;
}

static struct identity_process *process_find(const struct identity *identity, XXH128_hash_t key)
{
	for (unsigned int i = 0; i < identity->process_count; i++) {
		if (XXH128_isEqual(identity->processes[i]->key, key))
			return identity->processes[i];
	}
	return NULL;
}

static bool is_asked(const struct identity_process *process, uint64_t now_ns)
{
	return process->state == PROCESS_ASKED &&
	       now_ns - process->asked_ns < LIMIT_IDENTITY_ANSWER_MS * NS_PER_MS;
}

/* Returns whether one more request may wait for its answer. The opener may drop answers: if it was
 * silent for LIMIT_IDENTITY_ANSWER_MS, all requests without an answer count as lost. */
static bool may_ask(struct identity *identity, uint64_t now_ns)
{
	if (now_ns - identity->heard_ns >= LIMIT_IDENTITY_ANSWER_MS * NS_PER_MS)
		identity->requests = 0;
	return identity->requests < LIMIT_IDENTITY_REQUESTS;
}

/* Asks the opener about a process, if that was not done yet or without an answer. */
static void process_ask(struct worker *worker, struct identity_process *process)
{
	struct identity *identity = worker->identity;
	const uint64_t now = clock_monotonic_ns();

	if (process->state == PROCESS_ANSWERED || is_asked(process, now) || !may_ask(identity, now))
		return;
	const struct msg_open_identity request = {
	    .tgid = process->tgid,
	    .want_environment = identity->name_count > 0,
	    .cookie = ++identity->cookie,
	    .container = processes_container(&worker->processes, process->tgid)};
	process->state = PROCESS_UNASKED;
	if (peer_send(&worker->role.peers[ROLE_OPENER], MESSAGE_OPEN_IDENTITY, &request,
		      sizeof(request), NULL, 0) < 0)
		return;
	/* The time without an answer starts at the first request that waits for one. */
	if (!identity->requests++)
		identity->heard_ns = now;
	process->state = PROCESS_ASKED;
	process->asked_ns = now;
	process->cookie = request.cookie;
}

/*
 * Records which container a cgroup belongs to, once that is certain: the process was in this cgroup
 * at its first sample, then its file named the container, and it is still in this cgroup now.
 * Without the second look, a process that is just moving into a container would make the whole
 * cgroup that it comes from (that of the container runtime) part of the container.
 */
static void process_confirm(struct identity *identity, struct identity_process *process,
			    const struct bh_sample *header)
{
	if (!process->confirm || header->time_ns <= process->answered_ns)
		return;
	process->confirm = false;
	if (header->cgroup_id == process->cgroup_id)
		containers_put(&identity->containers, header->cgroup_id, process->container);
}

int identity_get_id(struct worker *worker, const struct bh_sample *header, XXH128_hash_t key,
		    const struct record_process *record, uint32_t *id)
{
	struct identity *identity = worker->identity;
	struct identity_process *process = process_find(identity, key);

	if (!process) {
		int r = process_add(worker, header, key, record, &process);

		if (r < 0)
			return r;
	}
	process_ask(worker, process);
	process_confirm(identity, process, header);
	if (process->new_id) {
		process->new_id = process->described = false;
		process->id = ++worker->ids.process;
		identity->undescribed++;
		update_pending_bytes(worker);
	}
	*id = process->id;
	if (is_complete(process))
		commit_all(worker);
	return 0;
}

/* Takes the container of the cgroup, if there was no answer about the process. */
static void process_guess(struct identity *identity, struct identity_process *process)
{
	if (!process->found)
		snprintf(process->container, sizeof(process->container), "%s",
			 containers_find(&identity->containers, process->cgroup_id));
}

static void process_take(struct identity *identity, struct identity_process *process,
			 const struct identity_found *found)
{
	const bool container_is_news = strcmp(process->container, found->container.id) != 0;
	const char *cached = containers_find(&identity->containers, process->cgroup_id);

	process->found = true;
	process->confirm = found->container.by_unified_alone && strcmp(cached, found->container.id);
	memcpy(process->container, found->container.id, sizeof(process->container));
	for (unsigned int i = 0; i < identity->name_count; i++) {
		if (!found->variables[i].found)
			continue;
		process->values_found |= 1u << i;
		memcpy(process->values[i], found->variables[i].value, sizeof(process->values[i]));
	}
	process->new_id = process->described && (container_is_news || process->values_found);
}

static struct identity_process *answered_process(const struct identity *identity,
						 const struct msg_identity *answer)
{
	for (unsigned int i = 0; i < identity->process_count; i++) {
		struct identity_process *process = identity->processes[i];

		if (process->state == PROCESS_ASKED && process->cookie == answer->cookie &&
		    process->tgid == answer->tgid)
			return process;
	}
	return NULL;
}

/* Reads what the opener has sent. Returns as identity_read(), or -EBUSY if the process is left
 * alone. */
static int identity_read_of(struct worker *worker, const struct identity_process *process,
			    const struct message *message, uint32_t uid,
			    struct identity_found *found)
{
	struct identity *identity = worker->identity;
	const struct work_subject subject = {
	    .tgid = process->tgid,
	    .tenant = tenant_of(uid, processes_container(&worker->processes, process->tgid))};

	if (work_is_quarantined(worker->role.work_page, &subject))
		return -EBUSY;
	work_begin(worker->role.work_page, &subject);
	const int r =
	    identity_read(message->fds, message->fd_count, process->start_ns / identity->tick_ns,
			  &worker->reader, &identity->buffer, found, identity->name_count);
	work_end(worker->role.work_page);
	return r;
}

void identity_on_answer(struct worker *worker, const struct message *message)
{
	struct identity *identity = worker->identity;
	struct identity_found found;
	struct msg_identity answer;

	memcpy(&answer, message->payload, sizeof(answer));
	if (!identity)
		return;
	identity->heard_ns = clock_monotonic_ns();
	identity->requests -= identity->requests > 0;
	struct identity_process *process = answered_process(identity, &answer);
	if (!process)
		return;
	for (unsigned int i = 0; i < identity->name_count; i++)
		found.variables[i].name = identity->names[i];
	int r = identity_read_of(worker, process, message, answer.uid, &found);
	process->state = PROCESS_ANSWERED;
	process->answered_ns = clock_monotonic_ns(); /* after the files were read */
	if (!r)
		process_take(identity, process, &found);
	if (is_complete(process))
		commit_all(worker);
	if (worker->batch_held && !identity_must_wait(worker))
		loop_tick_within(&worker->role.loop, 0);
}

static void process_describe(struct worker *worker, struct identity_process *process)
{
	const struct identity *identity = worker->identity;
	struct record_variable variables[RECORD_VARIABLES_MAX];
	const bool named = identity->want_service_name;
	struct record_process record = {.id = process->id,
					.tgid = process->tgid,
					.start_ns = process->start_ns,
					.comm = process->comm,
					.path = process->path,
					.container_id = process->container,
					.service_name = named ? process->values[0] : "",
					.variables = variables};

	for (unsigned int i = named; i < identity->name_count; i++) {
		if (process->values_found & 1u << i)
			variables[record.variable_count++] =
			    (struct record_variable){identity->names[i], process->values[i]};
	}
	records_add_process(worker->batch.records, &record);
	process->described = true;
}

void identity_describe(struct worker *worker)
{
	struct identity *identity = worker->identity;

	if (!identity || !identity->undescribed)
		return;
	for (unsigned int i = 0; i < identity->process_count; i++) {
		struct identity_process *process = identity->processes[i];

		if (process->described)
			continue;
		process_guess(identity, process);
		process_describe(worker, process);
	}
	identity->undescribed = 0;
	update_pending_bytes(worker);
	commit_all(worker);
}

void identity_reset(struct worker *worker)
{
	struct identity *identity = worker->identity;

	if (!identity)
		return;
	for (unsigned int i = 0; i < identity->process_count; i++)
		free(identity->processes[i]);
	identity->process_count = identity->undescribed = 0;
	update_pending_bytes(worker);
}
