/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see recognition.h. */
#include "symbolizer/worker/recognition.h"

#include <errno.h>

#include "common/clock.h"
#include "common/time_units.h"
#include "common/work_time.h"
#include "symbolizer/worker/limits.h"
#include "symbolizer/worker/runtime_images.h"
#include "symbolizer/worker/runtimes.h"
#include "symbolizer/worker/worker.h"

enum {
	/* The pause before it is asked again whether there is time, or a file is left alone. */
	PAUSE_MS = 100,
};

static void set_unrecognised(struct recognition *r, struct module *module, bool unrecognised)
{
	r->unrecognised -= module->unrecognised;
	r->unrecognised += unrecognised;
	module->unrecognised = unrecognised;
}

/* Reads the file of the module, on a stack of its own. */
static void recognise(void *context)
{
	struct recognition *r = context;

	r->found = (struct recognised){0};
	r->found.error =
	    runtime_image_recognise(r->module->fd, r->module->path, r->wanted, &r->found.runtime,
				    &r->found.refusal, &r->found.image);
}

static void recognition_end(struct worker *worker)
{
	struct recognition *r = &worker->recognition;
	struct module *module = r->module;

	r->module = NULL;
	r->ended_ns = clock_monotonic_ns();
	if (module->removed)
		runtime_image_free(r->found.image);
	else
		runtimes_on_recognised(worker, module->id, &r->found);
	modules_release(module);
}

/* Reads for a slice. Returns whether the module has been recognised then. */
static bool recognise_slice(struct worker *worker)
{
	struct recognition *r = &worker->recognition;
	const struct work_time begin = work_time_begin();
	uint64_t passed_ns, own_ns;

	work_begin(worker->role.work_page, &r->module->subject);
	const int left = slices_work(&r->slices, recognise, r, LIMIT_SLICE_MS * NS_PER_MS);
	work_end(worker->role.work_page);
	work_time_end(&begin, &passed_ns, &own_ns);
	time_share_spend(&worker->modules.recognising, own_ns);
	if (left)
		return false;
	recognition_end(worker);
	return true;
}

void recognition_on_module(struct worker *worker, struct module *module)
{
	struct recognition *r = &worker->recognition;

	set_unrecognised(r, module, false);
	if (!worker->runtimes || module->fd < 0 || module == r->module ||
	    runtimes_know_image(worker, module->id))
		return;
	if (r->module || !modules_may_recognise(&worker->modules, module)) {
		r->others_wait |= r->module != NULL;
		set_unrecognised(r, module, true);
		return;
	}
	r->module = module;
	modules_hold(module);
	if (!recognise_slice(worker))
		loop_tick_within(&worker->role.loop, 0);
}

/* Returns the module with the next higher id that had to wait, or NULL. Ids ascend, so new files
 * that somebody maps all the time cannot keep others from their turn. */
static struct module *next_unrecognised(const struct modules *modules, uint32_t id)
{
	struct module *next = NULL;

	for (struct module *m = NULL; (m = modules_next(modules, m));) {
		if (m->unrecognised && m->id > id && (!next || m->id < next->id))
			next = m;
	}
	return next;
}

/* Tries to recognise the modules that had to wait, until the file of one of them needs another
 * slice. */
static void recognise_others(struct worker *worker, uint64_t now)
{
	struct recognition *r = &worker->recognition;
	struct module *module = NULL;

	r->tried_ns = now;
	r->others_wait = false;
	while ((module = next_unrecognised(&worker->modules, module ? module->id : 0)) &&
	       !r->others_wait) {
		if (r->module || clock_monotonic_ns() - now >= LIMIT_SLICE_MS * NS_PER_MS)
			r->others_wait = true;
		else
			recognition_on_module(worker, module);
	}
}

void recognition_begin(struct worker *worker, uint32_t wanted)
{
	struct recognition *r = &worker->recognition;

	r->wanted = wanted;
	for (struct module *m = NULL; (m = modules_next(&worker->modules, m));)
		set_unrecognised(r, m, true);
	r->others_wait = r->unrecognised > 0;
	recognition_go_on(worker);
}

void recognition_on_module_gone(struct worker *worker, const struct module *module)
{
	worker->recognition.unrecognised -= module->unrecognised;
}

bool recognition_go_on(struct worker *worker)
{
	struct recognition *r = &worker->recognition;
	const uint64_t now = clock_monotonic_ns();

	if (r->module)
		return !recognise_slice(worker) || r->others_wait;
	if (r->others_wait || (r->unrecognised && now >= r->tried_ns + PAUSE_MS * NS_PER_MS))
		recognise_others(worker, now);
	return r->module || r->others_wait;
}

bool recognition_is_under_way(struct worker *worker)
{
	const struct recognition *r = &worker->recognition;

	return r->module || (r->others_wait && time_share_is_left(&worker->modules.recognising,
								  clock_monotonic_ns()));
}

void recognition_free(struct worker *worker)
{
	struct recognition *r = &worker->recognition;

	slices_finish(&r->slices);
	if (!r->module)
		return;
	runtime_image_free(r->found.image);
	modules_release(r->module);
	r->module = NULL;
}
