/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/worker/runtime_attachment.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/runtimes.h"
#include "common/time_units.h"

enum {
	/* A process whose runtime is not initialised yet is tried again every 5 ms in the first
	 * 20 ms, every 20 ms in the first 5 s, then once per second. */
	ATTACH_FIRST_MS = 5,
	ATTACH_SOON_MS = 20,
	ATTACH_LATER_MS = 1000,
	ATTACH_SOON_FOR_MS = 5000,
	/* Limits on the reads of one attempt: a forged process must not keep the worker busy. The
	 * first one is enough for CPython. An attempt for which it is not is repeated with eight
	 * times as many (a Java VM: 3,000), up to the second one. */
	ATTACH_READS = 512,
	ATTACH_READS_GROWTH = 8,
	ATTACH_READS_MAX = 65536,
	ATTACH_BYTES = 64 << 20,
	READ_NS = 500, /* the duration of one, as measured */
	/* The same for reading the names of one frame. */
	FRAME_READS = 2048,
	FRAME_BYTES = 4 << 20,
};

struct runtime_attachment *runtime_attachment_new(struct runtime_image *image, uint64_t bias,
						  uint32_t tgid, struct memory *memory)
{
	struct runtime_attachment *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	image->users++;
	a->image = image;
	a->block = RUNTIME_NO_BLOCK;
	a->due_ns = clock_monotonic_ns();
	a->reads = ATTACH_READS;
	a->process = (struct runtime_process){.ops = image->ops,
					      .tgid = tgid,
					      .image = image->recognised,
					      .path = image->path,
					      .bias = bias,
					      .memory = memory};
	return a;
}

void runtime_attachment_add_mapping(struct runtime_attachment *a,
				    const struct runtime_mapping *mapping)
{
	struct runtime_process *process = &a->process;

	for (unsigned int i = 0; i < process->mapping_count; i++) {
		if (process->mappings[i].start == mapping->start) {
			process->mappings[i] = *mapping;
			return;
		}
	}
	if (process->mapping_count == RUNTIME_MAPPINGS_MAX)
		return;
	process->mappings[process->mapping_count++] = *mapping;
	if (a->state != RUNTIME_ATTACHMENT_REFUSED)
		a->due_ns = clock_monotonic_ns();
}

bool runtime_attachment_code_changed(struct runtime_attachment *a)
{
	if (!a->process.follows_code_memory || a->state == RUNTIME_ATTACHMENT_REFUSED)
		return false;
	a->due_ns = clock_monotonic_ns();
	return true;
}

bool runtime_attachment_take_block(struct runtime_attachment *a, struct runtime_slots *slots)
{
	if (a->block == RUNTIME_NO_BLOCK)
		a->block = runtime_slots_take_block(slots);
	return a->block != RUNTIME_NO_BLOCK;
}

void runtime_attachment_give_block(struct runtime_attachment *a, struct runtime_slots *slots)
{
	runtime_slots_give_block(slots, a->block);
	a->block = RUNTIME_NO_BLOCK;
}

void runtime_attachment_free(struct runtime_attachment *a, struct runtime_image **images)
{
	a->process.ops->detach(&a->process);
	runtime_images_put(images, a->image);
	free(a);
}

/* Counts a refusal. A file that is not supported is logged and counted once, not for each
 * process. */
static void attachment_refuse(struct runtime_attachment *a, struct runtime_stats *stats, int error)
{
	const bool unsupported = error == -ENOTSUP;

	a->state = RUNTIME_ATTACHMENT_REFUSED;
	a->due_ns = 0;
	if (error != -ESRCH && !(unsupported && a->image->refused))
		runtime_stats_refuse(stats, (unsigned int)a->image->runtime,
				     unsupported ? a->process.refusal.text : NULL);
	a->image->refused |= unsupported;
	if (!unsupported)
		log_debug("not attached: tgid=%u runtime=%s error=%s", a->process.tgid,
			  runtime_titles[a->image->runtime], strerror(-error));
}

bool runtime_attachment_expect(struct runtime_attachment *a)
{
	const struct runtime_image *image = a->image;

	if (!image->layout_known || !image->ops->expect ||
	    image->ops->expect(&a->process, &image->layout) < 0)
		return false;
	a->state = RUNTIME_ATTACHMENT_EXPECTED;
	/* What is expected is nearly always right, so it is checked without hurry. */
	a->due_ns += ATTACH_SOON_MS * NS_PER_MS;
	return true;
}

static uint64_t attach_pause_ns(uint64_t waited_ns)
{
	const uint64_t waited_ms = waited_ns / NS_PER_MS;

	return NS_PER_MS * (waited_ms < ATTACH_SOON_MS	     ? ATTACH_FIRST_MS
			    : waited_ms < ATTACH_SOON_FOR_MS ? ATTACH_SOON_MS
							     : ATTACH_LATER_MS);
}

/* --- what reads memory --- */

struct operation {
	struct runtime_process *process;
	const uint64_t *words;
	struct named_frames *frames;
	int result;
};

static void attach(void *context)
{
	struct operation *o = context;

	o->result = o->process->ops->attach(o->process);
}

static void symbolize(void *context)
{
	struct operation *o = context;

	o->result = o->process->ops->symbolize(o->process, o->words, o->frames);
}

/* Does this, and returns the result. If it was given up, what the runtime knows of the process may
 * be half changed, and is not even freed. */
static int do_watched(struct runtime_attachment *a, struct process_work *work,
		      void (*run)(void *context), struct operation *operation)
{
	struct runtime_process *process = &a->process;

	operation->process = process;
	const int r = process_work_run(work, run, operation);
	if (r == 0)
		return operation->result;
	process->state = NULL;
	process->cached_bytes = 0;
	process->memory->cache = NULL;
	process->memory->timed_out = true;
	if (runtime_attachment_has_ranges(a))
		a->state = RUNTIME_ATTACHMENT_LOST;
	a->due_ns = clock_monotonic_ns();
	return r;
}

uint64_t runtime_attachment_needed_ns(const struct runtime_attachment *a)
{
	return (uint64_t)a->reads * READ_NS;
}

enum runtime_attachment_result runtime_attachment_try(struct runtime_attachment *a,
						      struct process_work *work,
						      struct runtime_stats *stats,
						      uint64_t since_ns, uint64_t now_ns)
{
	const struct runtime_layout before = a->process.layout;
	const bool was_published =
	    a->state == RUNTIME_ATTACHMENT_PUBLISHED || a->state == RUNTIME_ATTACHMENT_LOST;
	const bool had_ranges = runtime_attachment_has_ranges(a);
	struct operation operation = {0};

	a->tried = true;
	memory_allow(a->process.memory, a->reads, ATTACH_BYTES);
	int r = do_watched(a, work, attach, &operation);
	const bool ran_out = !a->process.memory->reads_left && a->reads < ATTACH_READS_MAX;
	if (ran_out) {
		a->reads *= ATTACH_READS_GROWTH;
		a->reads = a->reads < ATTACH_READS_MAX ? a->reads : ATTACH_READS_MAX;
		r = -EAGAIN;
	}
	/* It is left alone for a time, and the walker goes on with what is published. */
	if (a->process.memory->timed_out) {
		a->process.layout = before;
		r = -EAGAIN;
	}
	/* -EFAULT: the file's data is not mapped yet, because its code is mapped first. */
	if (r == -EAGAIN || r == -EFAULT || r == -ESRCH || (r < 0 && was_published)) {
		a->due_ns = now_ns + attach_pause_ns(ran_out ? 0 : now_ns - since_ns);
		return r == -ESRCH ? RUNTIME_ATTACHMENT_MEMORY_GONE : RUNTIME_ATTACHMENT_UNCHANGED;
	}
	if (r < 0) {
		attachment_refuse(a, stats, r);
		return had_ranges ? RUNTIME_ATTACHMENT_CHANGED : RUNTIME_ATTACHMENT_UNCHANGED;
	}
	if (!was_published)
		log_debug("attached: tgid=%u runtime=%s ranges=%u after_ms=%llu", a->process.tgid,
			  runtime_titles[a->image->runtime], a->process.layout.range_count,
			  (unsigned long long)((now_ns - since_ns) / NS_PER_MS));
	a->state = RUNTIME_ATTACHMENT_PUBLISHED;
	a->image->layout = a->process.layout;
	a->image->layout_known = true;
	/* A tenth early, so that the tick that comes at the time of the refresh is not missed. */
	a->due_ns = a->process.refresh_ms ? now_ns + a->process.refresh_ms * 9 * NS_PER_MS / 10 : 0;
	const bool is_published =
	    had_ranges && memcmp(&before, &a->process.layout, sizeof(before)) == 0;
	return is_published || a->image->ops->only_names ? RUNTIME_ATTACHMENT_UNCHANGED
							 : RUNTIME_ATTACHMENT_CHANGED;
}

int runtime_attachment_symbolize(struct runtime_attachment *a, struct process_work *work,
				 bool readable, const struct memory_copies *copies,
				 const uint64_t *words, struct named_frames *frames)
{
	struct runtime_process *process = &a->process;
	struct operation operation = {.words = words, .frames = frames};
	struct memory *memory = process->memory;
	const bool without_memory = process->ops->without_memory;
	int r = without_memory ? -ESTALE : -ESRCH;

	/* Even a copy cannot be named without what the runtime knew. */
	if (a->state == RUNTIME_ATTACHMENT_LOST)
		return -ECANCELED;
	if (readable && !without_memory) {
		memory_allow(memory, FRAME_READS, FRAME_BYTES);
		r = do_watched(a, work, symbolize, &operation);
	}
	/* It is left alone from now on. */
	if (r < 0 && memory->timed_out)
		r = -ECANCELED;
	if (a->state == RUNTIME_ATTACHMENT_LOST)
		return r;
	const struct memory_copy *copy =
	    r < 0 ? memory_copies_find(copies, process->tgid, words) : NULL;
	if (!copy)
		return r;
	frames->count = 0;
	frames->used = 0;
	memory->copy = copy->record + sizeof(struct bh_memory_copy);
	memory->copy_bytes = copy->bytes - sizeof(struct bh_memory_copy);
	memory_allow(memory, FRAME_READS, FRAME_BYTES);
	const int from_copy = process->ops->symbolize(process, words, frames);
	memory->copy = NULL;
	return from_copy < 0 && r == -ECANCELED ? r : from_copy;
}
