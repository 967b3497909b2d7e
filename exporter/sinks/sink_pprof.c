/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this works. The sink writes the gzipped protobuf of `go tool pprof`
 * (schemas/pprof/profile.proto). It is compressed while it is written, so that memory holds no
 * second copy. The tables have the same order as those of the profile, so that ids need no map.
 * Mappings, functions and strings keep their index as their id. Locations get their index plus one,
 * because location 0 occurs in stacks and an id of pprof must not be 0.
 *
 * Example: location 4 of the profile, in mapping 2 with function 7, becomes Location { id: 5,
 * mapping_id: 2, address, line { function_id: 7 } }. Strings that the profile does not contain,
 * such as "nanoseconds", follow its strings.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "common/cleanup.h"
#include "exporter/model/inlined.h"
#include "exporter/otlp/proto_out.h"
#include "exporter/sinks/sink.h"
#include "exporter/sinks/sink_stream.h"
#include "pprof/profile.pb-c.h"

#define GZIP_WINDOW_BITS (15 + 16) /* 15: the largest window; +16: with a gzip header */

/* Strings that follow those of the profile. */
enum extra {
	EXTRA_SAMPLES,
	EXTRA_COUNT,
	EXTRA_CPU,
	EXTRA_NANOSECONDS,
	EXTRA_PROCESS,
	EXTRA_PID,
	EXTRA_TID,
	EXTRA_THREAD,
	EXTRA_KERNEL,
	EXTRAS,
};

static const char *const extras[EXTRAS] = {
    [EXTRA_SAMPLES] = "samples",
    [EXTRA_COUNT] = "count",
    [EXTRA_CPU] = "cpu",
    [EXTRA_NANOSECONDS] = "nanoseconds",
    [EXTRA_PROCESS] = "process",
    [EXTRA_PID] = "pid",
    [EXTRA_TID] = "tid",
    [EXTRA_THREAD] = "thread",
    [EXTRA_KERNEL] = "[kernel.kallsyms]",
};

enum {
	OWN_LABELS = 4, /* process, pid, thread, tid; those of the program follow */
};

/* What the locations in a mapping say about it. */
struct mapping_facts {
	uint64_t address_max;
	bool is_kernel;
	bool has_functions, has_filenames, has_lines;
};

struct pprof {
	const struct profile *profile;
	struct proto_out out;
	FILE *file;
	z_stream deflate;
	int error;
	struct mapping_facts *mappings;
};

/* Compresses and writes data. If `flush` is Z_FINISH, everything that is left is written, too. */
static void compress_bytes(struct pprof *w, const uint8_t *data, size_t length, int flush)
{
	uint8_t buffer[16384];

	w->deflate.next_in = (Bytef *)data;
	w->deflate.avail_in = (uInt)length;
	do {
		w->deflate.next_out = buffer;
		w->deflate.avail_out = sizeof(buffer);
		int r = deflate(&w->deflate, flush);
		if (r == Z_STREAM_ERROR)
			w->error = -EIO;
		size_t length_out = sizeof(buffer) - w->deflate.avail_out;
		/* The data is larger than the stream's buffer, so a write error shows here. Its
		 * errno would be lost later. */
		errno = 0;
		if (fwrite(buffer, 1, length_out, w->file) != length_out)
			w->error = errno ? -errno : -EIO;
	} while (!w->deflate.avail_out && !w->error);
}

static void put(void *context, const uint8_t *data, size_t length)
{
	compress_bytes(context, data, length, Z_NO_FLUSH);
}

static int64_t extra(const struct pprof *w, enum extra which)
{
	return (int64_t)w->profile->strings_count + which;
}

static int64_t capped(uint64_t value)
{
	return value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

static void write_types(struct pprof *w)
{
	Perftools__Profiles__ValueType samples = PERFTOOLS__PROFILES__VALUE_TYPE__INIT;
	Perftools__Profiles__ValueType cpu = PERFTOOLS__PROFILES__VALUE_TYPE__INIT;
	Perftools__Profiles__ValueType *types[] = {&samples, &cpu};
	Perftools__Profiles__Profile head = PERFTOOLS__PROFILES__PROFILE__INIT;

	samples.type = extra(w, EXTRA_SAMPLES);
	samples.unit = extra(w, EXTRA_COUNT);
	cpu.type = extra(w, EXTRA_CPU);
	cpu.unit = extra(w, EXTRA_NANOSECONDS);
	head.n_sample_type = 2;
	head.sample_type = types;
	head.time_nanos = capped(w->profile->start_unix_ns);
	head.duration_nanos = capped(w->profile->duration_ns);
	head.period_type = &cpu;
	head.period = capped(w->profile->period_ns);
	proto_out_fields(&w->out, &head);
}

static int find_mapping_facts(struct pprof *w)
{
	const struct profile *p = w->profile;

	w->mappings = calloc(p->mappings_count, sizeof(*w->mappings));
	if (!w->mappings)
		return -ENOMEM;
	for (uint32_t i = 1; i < p->locations_count; i++) {
		const struct profile_location *l = &p->locations[i];
		struct mapping_facts *m = &w->mappings[l->mapping];
		if (l->address > m->address_max)
			m->address_max = l->address;
		m->is_kernel |= !strcmp(p->strings[l->kind], "kernel");
		m->has_functions |= l->function && !p->functions[l->function].name_is_generated;
		m->has_filenames |= p->functions[l->function].filename != 0;
		m->has_lines |= l->line != 0;
	}
	return 0;
}

/* Returns the id of a location's mapping, or 0 if it has none. Kernel frames without a mapping get
 * one whose id comes after all others, because 0 means "none" in both formats. */
static uint64_t mapping_id(const struct pprof *w, const struct profile_location *location)
{
	if (location->mapping)
		return location->mapping;
	bool kernel = !strcmp(w->profile->strings[location->kind], "kernel");
	return kernel ? w->profile->mappings_count : 0;
}

static void write_mapping(struct pprof *w, uint32_t id)
{
	const struct profile_mapping *mapping = &w->profile->mappings[id];
	const struct mapping_facts *facts = &w->mappings[id];
	Perftools__Profiles__Mapping m = PERFTOOLS__PROFILES__MAPPING__INIT;

	m.id = id ? id : w->profile->mappings_count;
	/* Addresses are those in the file, so each mapping starts at 0. */
	m.memory_limit = facts->address_max < UINT64_MAX ? facts->address_max + 1 : UINT64_MAX;
	m.filename = facts->is_kernel ? extra(w, EXTRA_KERNEL) : mapping->filename;
	m.build_id = mapping->gnu_build_id ? mapping->gnu_build_id : mapping->htlhash;
	/* If these are unset, pprof looks for symbols in files of this name on its own host. */
	m.has_functions = facts->has_functions;
	m.has_filenames = facts->has_filenames;
	m.has_line_numbers = facts->has_lines;
	proto_out_message(&w->out, 3, &m);
}

static void write_mappings(struct pprof *w)
{
	for (uint32_t i = 1; i < w->profile->mappings_count; i++)
		write_mapping(w, i);
	if (w->mappings[0].is_kernel)
		write_mapping(w, 0);
}

/* Writes the location `id` with all functions that are inlined there. */
static void write_location(struct pprof *w, uint32_t id)
{
	const struct profile_location *locations = w->profile->locations;
	Perftools__Profiles__Location location = PERFTOOLS__PROFILES__LOCATION__INIT;
	Perftools__Profiles__Line lines[PROFILE_INLINED_MAX], *pointers[PROFILE_INLINED_MAX];

	location.id = id + 1ULL;
	location.mapping_id = mapping_id(w, &locations[id]);
	location.address = locations[id].address;
	location.line = pointers;
	do {
		Perftools__Profiles__Line *line = &lines[location.n_line];

		perftools__profiles__line__init(line);
		line->function_id = locations[id].function;
		line->line = locations[id].line;
		if (line->function_id)
			pointers[location.n_line++] = line;
		id = locations[id].caller;
	} while (id);
	proto_out_message(&w->out, 4, &location);
}

static void write_locations(struct pprof *w)
{
	for (uint32_t i = 0; i < w->profile->locations_count; i++)
		write_location(w, i);
}

static void write_functions(struct pprof *w)
{
	const struct profile *p = w->profile;

	for (uint32_t i = 1; i < p->functions_count; i++) {
		const struct profile_function *f = &p->functions[i];
		Perftools__Profiles__Function function = PERFTOOLS__PROFILES__FUNCTION__INIT;

		function.id = i;
		function.name = f->name;
		function.system_name = f->system_name ? f->system_name : f->name;
		function.filename = f->filename;
		function.start_line = f->start_line;
		proto_out_message(&w->out, 5, &function);
	}
}

static void write_strings(struct pprof *w)
{
	const struct profile *p = w->profile;

	for (uint32_t i = 0; i < p->strings_count; i++)
		proto_out_bytes(&w->out, 6, p->strings[i], profile_string_length(p, i));
	for (uint32_t i = 0; i < EXTRAS; i++)
		proto_out_bytes(&w->out, 6, extras[i], strlen(extras[i]));
}

static void set_label(Perftools__Profiles__Label *label, int64_t key, int64_t str, int64_t num)
{
	perftools__profiles__label__init(label);
	label->key = key;
	label->str = str;
	label->num = num;
}

/* Writes `count` samples of the stack and thread of `s`. */
static void write_sample(struct pprof *w, const struct profile_sample *s, uint64_t count,
			 uint64_t *location_ids)
{
	const struct profile *p = w->profile;
	const struct profile_stack *stack = &p->stacks[s->stack];
	const struct profile_thread *thread = &p->threads[s->thread];
	const struct profile_process *process = &p->processes[thread->process];
	const struct profile_label_set *set = &p->label_sets[stack->labels];
	Perftools__Profiles__Sample sample = PERFTOOLS__PROFILES__SAMPLE__INIT;
	Perftools__Profiles__Label labels[OWN_LABELS + PROFILE_LABELS_MAX];
	Perftools__Profiles__Label *pointers[OWN_LABELS + PROFILE_LABELS_MAX];
	int64_t values[] = {
	    capped(count),
	    capped(sink_multiply(count, p->period_ns, INT64_MAX)),
	};

	for (uint32_t i = 0; i < stack->count; i += inlined_count(p, stack, i))
		location_ids[sample.n_location_id++] = p->stack_locations[stack->first + i] + 1ULL;
	set_label(&labels[0], extra(w, EXTRA_PROCESS), process->name, 0);
	set_label(&labels[1], extra(w, EXTRA_PID), 0, process->tgid);
	set_label(&labels[2], extra(w, EXTRA_THREAD), thread->name, 0);
	set_label(&labels[3], extra(w, EXTRA_TID), 0, thread->tid);
	for (uint32_t i = 0; i < set->count; i++) {
		const struct profile_label *label = &p->labels[set->labels[i]];

		set_label(&labels[OWN_LABELS + i], label->key, label->value, 0);
	}
	for (uint32_t i = 0; i < OWN_LABELS + set->count; i++)
		pointers[i] = &labels[i];
	sample.location_id = location_ids;
	sample.n_value = 2;
	sample.value = values;
	sample.n_label = OWN_LABELS + set->count;
	sample.label = pointers;
	proto_out_message(&w->out, 2, &sample);
}

static int compare_samples(const void *a, const void *b, void *profile)
{
	const struct profile *p = profile;
	const struct profile_sample *x = &p->samples[*(const uint32_t *)a],
				    *y = &p->samples[*(const uint32_t *)b];

	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	return (x->stack > y->stack) - (x->stack < y->stack);
}

/* Writes one sample for each thread and stack. The format has no CPUs and times. */
static int write_samples(struct pprof *w)
{
	const struct profile *p = w->profile;
	uint32_t depth = 0;

	for (uint32_t i = 0; i < p->stacks_count; i++)
		depth = p->stacks[i].count > depth ? p->stacks[i].count : depth;
	_cleanup_free_ uint64_t *location_ids = calloc(depth + 1ULL, sizeof(*location_ids));
	_cleanup_free_ uint32_t *order = calloc(p->samples_count + 1ULL, sizeof(*order));
	if (!location_ids || !order)
		return -ENOMEM;
	for (uint32_t i = 0; i < p->samples_count; i++)
		order[i] = i;
	qsort_r(order, p->samples_count, sizeof(*order), compare_samples, (void *)p);
	for (uint32_t i = 0; i < p->samples_count && !ferror(w->file) && !w->error;) {
		const uint32_t first = i;
		uint64_t count = 0;
		do
			count += p->samples[order[i++]].count;
		while (i < p->samples_count &&
		       !compare_samples(&order[first], &order[i], (void *)p));
		write_sample(w, &p->samples[order[first]], count, location_ids);
	}
	return 0;
}

static void pprof_fini(struct pprof *w)
{
	deflateEnd(&w->deflate);
	free(w->mappings);
}

int sink_pprof_write(const struct profile *profile, const struct sink_options *options, FILE *out)
{
	_cleanup_(pprof_fini) struct pprof w = {.profile = profile, .file = out};
	(void)options;

	w.out = proto_out_init(put, &w);
	if (deflateInit2(&w.deflate, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW_BITS, 8,
			 Z_DEFAULT_STRATEGY) != Z_OK)
		return -ENOMEM;
	int r = find_mapping_facts(&w);
	if (r < 0)
		return r;
	write_types(&w);
	r = write_samples(&w);
	if (r < 0)
		return r;
	write_mappings(&w);
	write_locations(&w);
	write_functions(&w);
	write_strings(&w);
	compress_bytes(&w, (const uint8_t *)"", 0, Z_FINISH);
	return w.error ? w.error : sink_stream_result(out);
}
