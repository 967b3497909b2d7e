/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/worker/samples.h"

#include <errno.h>
#include <string.h>

#include "symbolizer/worker/identity.h"
#include "symbolizer/worker/runtimes.h"
#include "symbolizer/worker/sample_check.h"
#include "symbolizer/worker/worker.h"

/* Finds the id of the process of a sample. A process that ended before the manager could look at it
 * was not announced; then it has the name of its thread. */
static int process_get_id(struct worker *worker, const struct bh_sample *header, const char *comm,
			  uint32_t *id)
{
	const struct announced_process *process = processes_find(&worker->processes, header->tgid);
	const struct {
		uint64_t start;
		uint32_t tgid, version;
	} identity = {header->process_start_ns, header->tgid, process ? process->version : 0};
	const XXH128_hash_t key = id_key(&worker->id_secret, &identity, sizeof(identity));

	if (id_map_get(&worker->ids.processes, key, id))
		return 0;
	struct record_process record = {
	    .tgid = header->tgid,
	    .start_ns = header->process_start_ns,
	    .comm = process && process->message.comm[0] ? process->message.comm : comm,
	    .path = process ? process->message.path : "",
	    .container_id = "",
	    .service_name = "",
	};
	if (worker->identity)
		return identity_get_id(worker, header, key, &record, id);
	record.id = *id = ++worker->ids.process;
	records_add_process(worker->batch.records, &record);
	return id_map_put(&worker->ids.processes, key, *id);
}

static int thread_get_id(struct worker *worker, const struct bh_sample *header, uint32_t *id)
{
	struct {
		uint32_t process, tid;
		char comm[BH_COMM_BYTES + 8]; /* padded with zeros: hashed as a whole */
	} identity = {.tid = header->tid};

	memcpy(identity.comm, header->comm, strnlen(header->comm, BH_COMM_BYTES));
	int r = process_get_id(worker, header, identity.comm, &identity.process);
	if (r < 0)
		return r;
	const XXH128_hash_t key = id_key(&worker->id_secret, &identity, sizeof(identity));
	if (id_map_get(&worker->ids.threads, key, id))
		return 0;
	*id = ++worker->ids.thread;
	records_add_thread(worker->batch.records,
			   &(struct record_thread){.id = *id,
						   .process = identity.process,
						   .tid = identity.tid,
						   .comm = identity.comm});
	return id_map_put(&worker->ids.threads, key, *id);
}

void samples_set_position(struct worker *worker)
{
	if (worker->control)
		worker->control->position = batch_position(&worker->batch) + worker->late.count;
}

bool samples_add(struct worker *worker, const struct bh_sample *header, const uint64_t *frames)
{
	struct record_sample sample = {.time_ns = header->time_ns,
				       .cpu = header->cpu,
				       .goroutine = sample_goroutine(header, frames)};

	worker->sample_tgid = header->tgid;
	runtimes_on_sample(worker, header);
	batch_reserve(&worker->batch);
	int r = stack_ids_get(worker, header, frames, &sample.stack);
	if (r == -EAGAIN)
		return false;
	if (r == -ENOENT) {
		worker->losses.lost[LOSS_STACK_UNDEFINED]++;
		return true;
	}
	if (!r)
		r = thread_get_id(worker, header, &sample.thread);
	if (r < 0) {
		worker->losses.lost[r == -ENOMEM ? LOSS_WORKER_MEMORY : LOSS_BAD_RECORD]++;
		return true;
	}
	records_add_sample(worker->batch.records, &sample);
	return true;
}
