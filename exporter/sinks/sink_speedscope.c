/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the JSON of https://www.speedscope.app/file-format-schema.json, type "sampled". The first
 * profile has all samples. Then there is one for each thread, or for each process if there are more
 * threads than a menu can show. A sample is a merged stack and its weight is the time it stands
 * for, so the time axis shows no history. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/escape.h"
#include "exporter/sinks/sink.h"
#include "exporter/sinks/sink_stream.h"

#define THREADS_MAX 500 /* entries that a menu can show */
#define NAME_BYTES 4200 /* a string of a profile, 4,096 bytes, and a pid or an address */

struct speedscope {
	const struct profile *profile;
	FILE *out;
	/* Its functions are the frames: a name, a file and the function's first line. */
	struct profile frames;
	uint32_t *location_frames; /* by location: the index of that function (file: one less) */
	uint32_t *groups;	   /* by thread: its thread or process */
	uint32_t *order;	   /* samples, ordered by group */
	bool by_process;
};

static void speedscope_fini(struct speedscope *s)
{
	profile_fini(&s->frames);
	free(s->location_frames);
	free(s->groups);
	free(s->order);
}

static int intern_frame(struct speedscope *s, uint32_t location)
{
	const struct profile *p = s->profile;
	const struct profile_location *l = &p->locations[location];
	uint32_t file = p->functions[l->function].filename;
	struct profile_function frame = {.start_line = p->functions[l->function].start_line};
	char name[NAME_BYTES];

	if (!file)
		file = p->mappings[l->mapping].filename;
	profile_location_name(p, location, name, sizeof(name));
	int r = profile_string(&s->frames, name, strlen(name), &frame.name);
	if (r == 0)
		r = profile_string(&s->frames, p->strings[file], profile_string_length(p, file),
				   &frame.filename);
	/* An empty name, which only a foreign file can contain, would be the "none" entry of
	 * `frames`. */
	if (r == 0 && !frame.name)
		r = profile_string(&s->frames, "[unknown]", 9, &frame.name);
	if (r == 0)
		r = profile_function(&s->frames, &frame, &s->location_frames[location]);
	return r;
}

static void write_frames(struct speedscope *s)
{
	const struct profile *f = &s->frames;

	fputs("\"shared\":{\"frames\":[", s->out);
	for (uint32_t i = 1; i < f->functions_count; i++) {
		uint32_t name = f->functions[i].name, file = f->functions[i].filename;
		fputs(i > 1 ? ",\n{\"name\":" : "\n{\"name\":", s->out);
		escape_write_json(s->out, f->strings[name], profile_string_length(f, name),
				  ESCAPE_JSON);
		if (file) {
			fputs(",\"file\":", s->out);
			escape_write_json(s->out, f->strings[file], profile_string_length(f, file),
					  ESCAPE_JSON);
		}
		if (f->functions[i].start_line)
			fprintf(s->out, ",\"line\":%" PRIu32, f->functions[i].start_line);
		putc('}', s->out);
	}
	fputs("\n]},\n\"profiles\":[", s->out);
}

static uint64_t weight(const struct speedscope *s, uint64_t count)
{
	return s->profile->period_ns ? sink_multiply(count, s->profile->period_ns, UINT64_MAX)
				     : count;
}

/* Writes what precedes the samples of a profile, whose weights add up to `total`. */
static void write_profile_head(const struct speedscope *s, const char *name, uint64_t total)
{
	fputs("\n{\"type\":\"sampled\",\"name\":", s->out);
	escape_write_json(s->out, name, strlen(name), ESCAPE_JSON);
	fprintf(s->out, ",\"unit\":\"%s\",\"startValue\":0,\"endValue\":%" PRIu64 ",\"samples\":[",
		s->profile->period_ns ? "nanoseconds" : "none", total);
}

static void write_stack(const struct speedscope *s, uint32_t stack, bool first)
{
	const struct profile *p = s->profile;
	const struct profile_stack *k = &p->stacks[stack];

	fputs(first ? "\n[" : ",\n[", s->out);
	for (uint32_t i = k->count; i-- > 0;) {
		uint32_t frame = s->location_frames[p->stack_locations[k->first + i]] - 1;
		fprintf(s->out, i + 1 < k->count ? ",%" PRIu32 : "%" PRIu32, frame);
	}
	putc(']', s->out);
}

static uint64_t add_capped(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static int write_all(const struct speedscope *s)
{
	const struct profile *p = s->profile;
	_cleanup_free_ uint64_t *counts = calloc(p->stacks_count, sizeof(*counts));
	uint64_t total = 0;
	bool first = true;

	if (!counts)
		return -ENOMEM;
	for (uint32_t i = 0; i < p->samples_count; i++)
		counts[p->samples[i].stack] += p->samples[i].count;
	for (uint32_t i = 0; i < p->stacks_count; i++)
		total = add_capped(total, weight(s, counts[i]));
	write_profile_head(s, "all", total);
	for (uint32_t i = 0; i < p->stacks_count && !ferror(s->out); i++) {
		if (counts[i]) {
			write_stack(s, i, first);
			first = false;
		}
	}
	fputs("],\"weights\":[", s->out);
	first = true;
	for (uint32_t i = 0; i < p->stacks_count && !ferror(s->out); i++) {
		if (counts[i]) {
			fprintf(s->out, first ? "%" PRIu64 : ",%" PRIu64, weight(s, counts[i]));
			first = false;
		}
	}
	fputs("]}", s->out);
	return 0;
}

static void group_name(const struct speedscope *s, uint32_t thread, char *buffer, size_t size)
{
	const struct profile *p = s->profile;
	const struct profile_thread *t = &p->threads[thread];
	const struct profile_process *process = &p->processes[t->process];
	const char *name = p->strings[process->name];

	if (s->by_process)
		snprintf(buffer, size, "%s (%" PRIu32 ")", name, process->tgid);
	else
		snprintf(buffer, size, "%s (%" PRIu32 ") / %s (%" PRIu32 ")", name, process->tgid,
			 p->strings[t->name], t->tid);
}

/* Moves `at` beyond the samples of one stack, which start at order[*at]. Returns their weight. */
static uint64_t take_stack(const struct speedscope *s, uint32_t *at, uint32_t end)
{
	const struct profile_sample *samples = s->profile->samples;
	const uint32_t stack = samples[s->order[*at]].stack;
	uint64_t count = 0;

	while (*at < end && samples[s->order[*at]].stack == stack)
		count += samples[s->order[(*at)++]].count;
	return weight(s, count);
}

/* Writes the samples of one thread or process: order[first] to order[end - 1]. */
static void write_group(const struct speedscope *s, uint32_t first, uint32_t end)
{
	const struct profile *p = s->profile;
	char name[2 * NAME_BYTES];
	uint64_t total = 0;

	for (uint32_t i = first; i < end;)
		total = add_capped(total, take_stack(s, &i, end));
	group_name(s, p->samples[s->order[first]].thread, name, sizeof(name));
	putc(',', s->out);
	write_profile_head(s, name, total);
	for (uint32_t i = first; i < end && !ferror(s->out); take_stack(s, &i, end))
		write_stack(s, p->samples[s->order[i]].stack, i == first);
	fputs("],\"weights\":[", s->out);
	for (uint32_t i = first; i < end && !ferror(s->out);) {
		const bool is_first = i == first;
		fprintf(s->out, is_first ? "%" PRIu64 : ",%" PRIu64, take_stack(s, &i, end));
	}
	fputs("]}", s->out);
}

/* Orders by group, then by stack. */
static int compare_groups(const void *a, const void *b, void *speedscope)
{
	const struct speedscope *s = speedscope;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	uint32_t group_x = s->groups[s->profile->samples[x].thread];
	uint32_t group_y = s->groups[s->profile->samples[y].thread];
	uint32_t stack_x = s->profile->samples[x].stack, stack_y = s->profile->samples[y].stack;

	if (group_x != group_y)
		return group_x < group_y ? -1 : 1;
	return (stack_x > stack_y) - (stack_x < stack_y);
}

static int write_groups(struct speedscope *s)
{
	const struct profile *p = s->profile;

	s->by_process = p->threads_count - 1 > THREADS_MAX;
	s->groups = calloc(p->threads_count, sizeof(*s->groups));
	s->order = calloc(p->samples_count + 1ULL, sizeof(*s->order));
	if (!s->groups || !s->order)
		return -ENOMEM;
	for (uint32_t i = 0; i < p->threads_count; i++)
		s->groups[i] = s->by_process ? p->threads[i].process : i;
	for (uint32_t i = 0; i < p->samples_count; i++)
		s->order[i] = i;
	qsort_r(s->order, p->samples_count, sizeof(*s->order), compare_groups, s);

	for (uint32_t first = 0, end; first < p->samples_count && !ferror(s->out); first = end) {
		uint32_t group = s->groups[p->samples[s->order[first]].thread];
		end = first + 1;
		while (end < p->samples_count &&
		       s->groups[p->samples[s->order[end]].thread] == group)
			end++;
		write_group(s, first, end);
	}
	return 0;
}

int sink_speedscope_write(const struct profile *profile, const struct sink_options *options,
			  FILE *out)
{
	_cleanup_(speedscope_fini) struct speedscope s = {.profile = profile, .out = out};
	(void)options;

	int r = profile_init(&s.frames, SIZE_MAX);
	if (r < 0)
		return r;
	s.location_frames = calloc(profile->locations_count, sizeof(*s.location_frames));
	if (!s.location_frames)
		return -ENOMEM;
	for (uint32_t i = 0; i < profile->locations_count && r == 0; i++)
		r = intern_frame(&s, i);
	if (r < 0)
		return r;
	fputs("{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\n"
	      "\"exporter\":\"bulkhead@" BULKHEAD_VERSION "\",\"activeProfileIndex\":0,\n",
	      out);
	write_frames(&s);
	r = write_all(&s);
	if (r == 0)
		r = write_groups(&s);
	if (r < 0)
		return r;
	fputs("\n]}\n", out);
	return sink_stream_result(out);
}
