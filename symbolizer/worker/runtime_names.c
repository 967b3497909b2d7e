/* SPDX-License-Identifier: Apache-2.0 */
/* Names of frames, from the memory of processes with a language runtime (runtimes.h). */
#include <errno.h>

#include "common/clock.h"
#include "symbolizer/worker/runtime_attachment.h"
#include "symbolizer/worker/runtimes.h"
#include "symbolizer/worker/runtimes_private.h"
#include "symbolizer/worker/unnamed_frame.h"
#include "symbolizer/worker/worker.h"

static struct runtime_attachment *process_attachment(struct managed_process *process,
						     unsigned int runtime)
{
	for (unsigned int i = 0; process && i < process->count; i++) {
		if (process->attachments[i]->image->runtime == (int)runtime &&
		    runtime_attachment_has_ranges(process->attachments[i]))
			return process->attachments[i];
	}
	return NULL;
}

/* Returns 0; an error of runtime_attachment_symbolize(); -EBUSY if there is no time; or -ECANCELED
 * if the process is left alone. */
static int process_symbolize(struct worker *worker, struct managed_process *process,
			     struct runtime_attachment *a, const uint64_t *words,
			     struct named_frames *frames)
{
	struct runtimes *runtimes = worker->runtimes;
	const struct work_subject subject = runtimes_subject(process);

	if (work_is_quarantined(worker->role.work_page, &subject))
		return -ECANCELED;
	if (!runtimes_may_begin(worker, process, 0, clock_monotonic_ns()))
		return -EBUSY;
	const struct work_time begin = work_time_begin();
	work_begin(worker->role.work_page, &subject);
	int r = runtime_attachment_symbolize(a, &worker->memory_work, process->readable,
					     &runtimes->copies, words, frames);
	work_end(worker->role.work_page);
	a->used = ++runtimes->clock;
	managed_processes_count_cache(&runtimes->processes, a);
	runtimes_spend(worker, process, &begin);
	return r;
}

enum names_due runtimes_symbolize(struct worker *worker, struct managed_process *process,
				  const uint64_t *words, struct named_frames *frames)
{
	const unsigned int runtime = bh_frame_runtime(words[0]);
	struct runtime_attachment *a = process_attachment(process, runtime);
	int r = -ESRCH;

	frames->count = 0;
	frames->label_count = 0;
	frames->used = 0;
	if (a)
		r = process_symbolize(worker, process, a, words, frames);
	if (process && r == -ESRCH)
		process->named_too_early = !process->was_readable;
	if (r < 0)
		unnamed_frame_set(frames, runtime, r);
	if (worker->runtimes && frames->count)
		runtime_stats_frame(&worker->runtimes->processes.stats, runtime, r == 0);
	if (r == 0)
		return NAMES_FINAL;
	if (r == -EBUSY)
		return NAMES_SOON;
	/* The same code may be made again at the same address, as by each request of a server. */
	return r == -ECANCELED || r == -ESTALE || r == -EFAULT ? NAMES_LATER : NAMES_FINAL;
}

/* --- generated code without a walker --- */

/* Has the sample wait for the memory of the process, if it can. Returns -EAGAIN then; or when its
 * frames may have names. */
static int wait_for_memory(struct worker *worker, struct managed_process *process)
{
	process->named_too_early = !process->was_readable;
	if (!worker->naming_until_ns || !runtimes_must_wait(worker, process->tgid))
		return NAMES_LATER;
	worker->naming_waits = true;
	return -EAGAIN;
}

int runtimes_name_code(struct worker *worker, struct managed_process *process, uint64_t frame,
		       struct named_frames *frames)
{
	int due = NAMES_FINAL;

	frames->count = 0;
	for (unsigned int i = 0; process && i < process->count; i++) {
		struct runtime_attachment *a = process->attachments[i];

		if (!a->image->ops->only_names)
			continue;
		if (!process->readable)
			return wait_for_memory(worker, process);
		if (!runtimes_give_names(a))
			continue;
		frames->used = 0;
		const uint64_t changed = a->process.names_changed;
		const int r = process_symbolize(worker, process, a, &frame, frames);
		worker->jit_maps.changed |= a->process.names_changed != changed;
		if (r == 0) {
			runtime_stats_frame(&worker->runtimes->processes.stats,
					    (unsigned int)a->image->runtime, true);
			return NAMES_FINAL;
		}
		frames->count = 0;
		/* What is known of its code is not complete: attaching may read more. */
		if (r == -EBUSY) {
			a->due_ns = clock_monotonic_ns();
			loop_tick_within(&worker->role.loop, 1);
		}
		due = r == -EBUSY ? NAMES_SOON : due == NAMES_SOON ? due : NAMES_LATER;
	}
	return due;
}
