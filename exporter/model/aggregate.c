/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/model/aggregate.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/frame_kind.h"
#include "common/incomplete_reasons.h"
#include "common/limits.h"
#include "exporter/model/inlined.h"
#include "records/records.h"

enum {
	/* The worker assigns ids from 1 on without gaps, and resets them after
	 * LIMIT_WORKER_FRAME_IDS (3 * 2^18). The rest is for those until the reset. */
	AGGREGATE_IDS_MAX = 1 << 20,
};
_Static_assert((int)LIMIT_WORKER_FRAME_IDS < (int)AGGREGATE_IDS_MAX, "ids of the worker fit");

/* 1 h. A sample may have waited in the worker while the exporter was started again, but never this
 * long: an older time is taken for a lie. */
#define AGGREGATE_AGE_MAX_NS 3600000000000ull

static int ids_set(struct aggregate_ids *n, uint32_t id, uint32_t value)
{
	if (id >= AGGREGATE_IDS_MAX)
		return -ENOSPC;
	if (id >= n->capacity) {
		const size_t before = n->capacity;
		int r = ARRAY_RESERVE(n->ids, n->capacity, (size_t)id + 1, 1024, AGGREGATE_IDS_MAX);
		if (r < 0)
			return r;
		memset(n->ids + before, 0, (n->capacity - before) * sizeof(*n->ids));
	}
	n->ids[id] = value;
	return 0;
}

static uint32_t ids_get(const struct aggregate_ids *n, uint32_t id)
{
	return id < n->capacity ? n->ids[id] : 0;
}

static void ids_clear(struct aggregate_ids *n)
{
	if (n->ids)
		memset(n->ids, 0, n->capacity * sizeof(n->ids[0]));
}

static int profile_begin(struct aggregate *aggregate)
{
	int r = profile_init(&aggregate->profile, aggregate->profile_bytes_max);

	for (int i = 0; i < FRAME_KIND_COUNT && !r; i++)
		r = profile_string(&aggregate->profile, frame_kind_names[i],
				   strlen(frame_kind_names[i]), &aggregate->kinds[i]);
	return r;
}

int aggregate_init(struct aggregate *aggregate, size_t profile_bytes_max)
{
	*aggregate = (struct aggregate){.profile_bytes_max = profile_bytes_max,
					.missing = LOSS_PROFILE_FULL};
	return profile_begin(aggregate);
}

static int intern_text(struct aggregate *a, const char *text, uint32_t *id)
{
	*id = 0;
	return text[0] ? profile_string(&a->profile, text, strlen(text), id) : 0;
}

static enum loss_reason loss_of(int error)
{
	return error == -ENOMEM ? LOSS_EXPORTER_MEMORY : LOSS_PROFILE_FULL;
}

/* Handles a definition that the profile could not take: its id stays unknown. Samples that need it
 * are counted as lost, with the reason of the last definition that failed. */
static int keep_going(struct aggregate *a, int r)
{
	if (r != -ENOSPC && r != -ENOMEM && r != -EINVAL)
		return r;
	a->missing = loss_of(r);
	return 0;
}

/* Every table of ids of an aggregate. */
#define AGGREGATE_TABLES(a)                                                                        \
	{                                                                                          \
		&(a)->modules, &(a)->functions, &(a)->frames, &(a)->label_sets, &(a)->stacks,      \
		    &(a)->processes, &(a)->threads, &(a)->reasons                                  \
	}

void aggregate_fini(struct aggregate *aggregate)
{
	struct aggregate_ids *const all[] = AGGREGATE_TABLES(aggregate);

	profile_fini(&aggregate->profile);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		free(all[i]->ids);
		*all[i] = (struct aggregate_ids){0};
	}
}

static int on_reset(void *context)
{
	struct aggregate *a = context;
	struct aggregate_ids *const all[] = AGGREGATE_TABLES(a);

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		ids_clear(all[i]);
	a->missing = LOSS_PROFILE_FULL;
	return 0;
}

int aggregate_reset(struct aggregate *aggregate)
{
	const uint64_t period_ns = aggregate->profile.period_ns;

	profile_fini(&aggregate->profile);
	int r = profile_begin(aggregate);
	aggregate->profile.period_ns = period_ns;
	on_reset(aggregate);
	return r;
}

static int on_module(void *context, const struct record_module *m)
{
	struct aggregate *a = context;
	struct profile_mapping mapping = {0};
	uint32_t id;

	int r = intern_text(a, m->path, &mapping.filename);
	/* OTLP requests contain the other build ids only together with htlhash. Without it they are
	 * left out here as well: otherwise two different mappings could become equal in a
	 * request. */
	if (!r)
		r = intern_text(a, m->htlhash, &mapping.htlhash);
	if (!r && mapping.htlhash)
		r = intern_text(a, m->gnu_build_id, &mapping.gnu_build_id);
	if (!r && mapping.htlhash)
		r = intern_text(a, m->go_build_id, &mapping.go_build_id);
	if (!r)
		r = profile_mapping(&a->profile, &mapping, &id);
	if (!r)
		r = ids_set(&a->modules, m->id, id);
	return keep_going(a, r);
}

static int on_function(void *context, const struct record_function *f)
{
	struct aggregate *a = context;
	struct profile_function function = {.start_line = f->start_line & PROFILE_LINE_MAX,
					    .name_is_generated = f->name_is_generated};
	uint32_t id;

	int r = intern_text(a, f->name, &function.name);
	if (!r && f->file[0])
		r = intern_text(a, f->file, &function.filename);
	if (!r && f->system_name[0])
		r = intern_text(a, f->system_name, &function.system_name);
	if (!r)
		r = profile_function(&a->profile, &function, &id);
	if (!r)
		r = ids_set(&a->functions, f->id, id);
	return keep_going(a, r);
}

static int on_frame(void *context, const struct record_frame *f)
{
	struct aggregate *a = context;
	const struct profile_location location = {
	    .mapping = f->module ? ids_get(&a->modules, f->module) : 0,
	    .function = f->function ? ids_get(&a->functions, f->function) : 0,
	    .kind = a->kinds[f->kind],
	    .line = f->line,
	    .address = f->address,
	    .caller = f->caller ? ids_get(&a->frames, f->caller) : 0,
	};
	uint32_t id;

	if (!location.kind || (f->caller && !location.caller))
		return 0;
	int r = profile_location(&a->profile, &location, &id);
	if (!r)
		r = ids_set(&a->frames, f->id, id);
	a->frames_total++;
	a->frames_named +=
	    location.function && !a->profile.functions[location.function].name_is_generated;
	return keep_going(a, r);
}

static int on_label_set(void *context, const struct record_label_set *s)
{
	struct aggregate *a = context;
	uint32_t labels[RECORD_LABELS_MAX], value, id;
	int r = 0;

	for (uint32_t i = 0; i < s->count && !r; i++) {
		r = intern_text(a, s->labels[i].value, &value);
		if (!r)
			r = profile_label(&a->profile, s->labels[i].key, strlen(s->labels[i].key),
					  value, &labels[i]);
	}
	if (!r)
		r = profile_label_set(&a->profile, labels, s->count, &id);
	if (!r)
		r = ids_set(&a->label_sets, s->id, id);
	return keep_going(a, r);
}

static int on_stack(void *context, const struct record_stack *s)
{
	struct aggregate *a = context;
	uint32_t locations[LIMIT_STACK_FRAMES], id;

	if (s->count > LIMIT_STACK_FRAMES)
		return 0;
	for (uint32_t i = 0; i < s->count; i++) {
		locations[i] = ids_get(&a->frames, s->frames[i]);
		if (!locations[i])
			return 0;
	}
	int r = profile_stack(&a->profile, locations,
			      inlined_remove(&a->profile, locations, s->count), &id);
	if (!r && s->labels)
		r = profile_labelled_stack(&a->profile, id, ids_get(&a->label_sets, s->labels),
					   &id);
	/* Stored plus one: 0 is "unknown" here, but the empty stack in the profile. */
	if (!r)
		r = ids_set(&a->stacks, s->id, id + 1);
	if (!r)
		r = ids_set(&a->reasons, s->id, s->reason);
	return keep_going(a, r);
}

static int on_process(void *context, const struct record_process *p)
{
	struct aggregate *a = context;
	struct profile_process process = {.tgid = p->tgid, .start = p->start_ns};
	uint32_t id;

	int r = intern_text(a, p->comm, &process.name);
	if (!r)
		r = intern_text(a, p->path, &process.path);
	if (!r)
		r = intern_text(a, p->container_id, &process.container_id);
	if (!r)
		r = intern_text(a, p->service_name, &process.service_name);
	for (uint32_t i = 0; i < p->variable_count && i < PROFILE_VARIABLES_MAX && !r; i++) {
		r = intern_text(a, p->variables[i].name, &process.variables[i].name);
		if (!r)
			r = intern_text(a, p->variables[i].value, &process.variables[i].value);
	}
	if (!r)
		r = profile_process(&a->profile, &process, &id);
	if (!r)
		r = ids_set(&a->processes, p->id, id);
	return keep_going(a, r);
}

static int on_thread(void *context, const struct record_thread *t)
{
	struct aggregate *a = context;
	struct profile_thread thread = {.process = ids_get(&a->processes, t->process),
					.tid = t->tid};
	uint32_t id;

	if (!thread.process)
		return 0;
	int r = intern_text(a, t->comm, &thread.name);
	if (!r)
		r = profile_thread(&a->profile, &thread, &id);
	if (!r)
		r = ids_set(&a->threads, t->id, id);
	return keep_going(a, r);
}

/* Bounds the time of a sample, because a worker that lies about it must not stretch the
 * interval. */
static uint64_t bounded_time_ns(const struct aggregate *a, uint64_t time_ns)
{
	if (time_ns > a->now_ns)
		return a->now_ns;
	if (a->now_ns - time_ns > AGGREGATE_AGE_MAX_NS)
		return a->now_ns - AGGREGATE_AGE_MAX_NS;
	return time_ns;
}

/* Returns the stack with the id of a goroutine as a label, in front of those that it has: a program
 * that calls a label of its own like this one does not replace it. Without room or memory for that,
 * it is the stack without the id: the sample counts more. */
static __attribute__((noinline)) uint32_t with_goroutine(struct aggregate *a, uint64_t goroutine,
							 uint32_t stack)
{
	static const char key[] = "goroutine.id";
	struct profile *p = &a->profile;
	const struct profile_label_set *has = &p->label_sets[p->stacks[stack].labels];
	uint32_t labels[1 + PROFILE_LABELS_MAX], value, set, labelled;
	const uint32_t count = has->count;
	char text[24];

	memcpy(labels + 1, has->labels, count * sizeof(labels[0]));
	snprintf(text, sizeof(text), "%" PRIu64, goroutine);
	int r = intern_text(a, text, &value);
	if (!r)
		r = profile_label(p, key, strlen(key), value, &labels[0]);
	if (!r)
		r = profile_label_set(p, labels, 1 + count, &set);
	if (!r)
		r = profile_labelled_stack(p, stack, set, &labelled);
	return r ? stack : labelled;
}

static int add_sample(struct aggregate *a, const struct record_sample *s, uint32_t thread,
		      uint32_t stack)
{
	if (a->definitions_only)
		return 0;
	if (__builtin_expect(s->goroutine != 0, false))
		stack = with_goroutine(a, s->goroutine, stack);
	if (a->detailed)
		return profile_add_at(&a->profile, thread, stack, s->cpu,
				      bounded_time_ns(a, s->time_ns));
	return profile_add(&a->profile, thread, stack, 1);
}

static int on_sample(void *context, const struct record_sample *s)
{
	struct aggregate *a = context;
	const uint32_t stack = ids_get(&a->stacks, s->stack),
		       thread = ids_get(&a->threads, s->thread);
	const uint32_t reason = ids_get(&a->reasons, s->stack);

	if (!stack || !thread) {
		a->losses.lost[a->missing]++;
		return 0;
	}
	int r = add_sample(a, s, thread, stack - 1);
	if (r < 0) {
		a->losses.lost[loss_of(r)]++;
		return 0;
	}
	a->exported++;
	if (reason && reason < INCOMPLETE_COUNT)
		a->incomplete[reason]++;
	return 0;
}

int aggregate_batch(struct aggregate *aggregate, const uint8_t *data, size_t length)
{
	static const struct records_visitor visitor = {
	    .reset = on_reset,
	    .module = on_module,
	    .function = on_function,
	    .frame = on_frame,
	    .label_set = on_label_set,
	    .stack = on_stack,
	    .process = on_process,
	    .thread = on_thread,
	    .sample = on_sample,
	};

	if (aggregate->detailed)
		aggregate->now_ns = clock_monotonic_ns();
	return records_visit(data, length, &visitor, aggregate);
}

void aggregate_set_real_time(struct aggregate *aggregate, uint64_t started_ns, uint64_t duration_ns)
{
	struct profile *profile = &aggregate->profile;
	const uint64_t before_ns = clock_monotonic_ns();
	const uint64_t real_ns = clock_read_ns(CLOCK_REALTIME);
	/* The kernel refuses a real time that would make this negative (settimeofday(2)). */
	const uint64_t offset_ns = real_ns - (before_ns + (clock_monotonic_ns() - before_ns) / 2);

	profile->start_unix_ns = started_ns + offset_ns;
	profile->duration_ns = duration_ns;
	for (uint32_t i = 0; i < profile->times_count; i++)
		profile->times[i].time_ns += offset_ns;
}

uint64_t aggregate_samples(const struct aggregate *aggregate)
{
	return aggregate->exported + aggregate->losses.lost[LOSS_PROFILE_FULL] +
	       aggregate->losses.lost[LOSS_EXPORTER_MEMORY];
}
