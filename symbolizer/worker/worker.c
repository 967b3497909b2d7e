/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/worker/worker.h"

#include <errno.h>

#include "common/time_units.h"
#include "symbolizer/worker/identity.h"
#include "symbolizer/worker/limits.h"
#include "symbolizer/worker/runtimes.h"

static void worker_before_send(void *context)
{
	identity_describe(context);
}

static void worker_on_lost(void *context, size_t samples, int error)
{
	struct worker *worker = context;

	worker->losses.lost[error == -ENOMEM ? LOSS_WORKER_MEMORY : LOSS_EXPORTER_QUEUE] += samples;
	stack_ids_reset(worker);
}

int worker_init(struct worker *worker, bool keep_batches)
{
	static const struct batch_hooks hooks = {.before_send = worker_before_send,
						 .on_lost = worker_on_lost};

	int r = id_secret_init(&worker->id_secret);

	if (r < 0)
		return r;
	worker->kallsyms.fd = -1;
	modules_init(&worker->modules);
	jit_maps_init(&worker->jit_maps);
	process_reader_init(&worker->reader, &worker->role.loop, "bulkhead-symwh",
			    worker->role.work_page);
	process_work_init(&worker->memory_work, worker->role.work_page);
	worker->modules.work_page = worker->role.work_page;
	worker->waiting = (struct time_share){.percent = LIMIT_ANNOUNCEMENTS_TIME_PERCENT,
					      .most_ns = LIMIT_ANNOUNCEMENTS_TIME_MS * NS_PER_MS};
	worker->waiting_for_debug =
	    (struct time_share){.percent = LIMIT_DEBUG_FILES_TIME_PERCENT,
				.most_ns = LIMIT_DEBUG_FILES_TIME_MS * NS_PER_MS};
	return batch_init(&worker->batch, keep_batches, &worker->role.peers[ROLE_EXPORTER], &hooks,
			  worker);
}

void worker_fini(struct worker *worker)
{
	kallsyms_file_free(worker);
	kernel_symbols_free(worker->kernel);
	late_samples_free(&worker->late);
	stack_ids_reset(worker);
	batch_fini(&worker->batch);
	identity_free(worker);
	recognition_free(worker);
	runtimes_free(worker);
	process_reader_stop(&worker->reader);
	modules_fini(&worker->modules);
	jit_maps_free(&worker->jit_maps);
	processes_fini(&worker->processes);
}
