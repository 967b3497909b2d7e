/* SPDX-License-Identifier: Apache-2.0 */
/* All facts that a profile contains about each sample, as sorted text. A round trip must not change it, whatever ids are assigned. */
#ifndef TESTS_DESCRIBE_H
#define TESTS_DESCRIBE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "exporter/model/profile.h"

static inline int describe_compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static inline void describe_location(const struct profile *p, uint32_t n, bool for_backend,
				     FILE *out)
{
	const struct profile_location *l = &p->locations[n];
	const struct profile_function *f = &p->functions[l->function];
	const struct profile_mapping *m = &p->mappings[l->mapping];
	bool ids = m->htlhash || !for_backend;

	fprintf(out, "|%s,%s,%s,%u;%s,%s,%s,%s;%s,%u,%lx%s", p->strings[f->name],
		p->strings[f->system_name], p->strings[f->filename], f->start_line,
		p->strings[m->filename],
		ids ? p->strings[m->gnu_build_id] : "", ids ? p->strings[m->go_build_id] : "",
		p->strings[m->htlhash], p->strings[l->kind], l->line, l->address,
		l->caller ? ",inlined" : "");
}

static inline void describe_process(const struct profile *p, uint32_t n, bool for_backend,
				    FILE *out)
{
	const struct profile_process *q = &p->processes[n];
	const char *path = p->strings[q->path], *name = p->strings[q->name];

	if (for_backend && *path)
		name = strrchr(path, '/') + 1;
	fprintf(out, "%u %s %s %lu %s %s", q->tgid, name, path, for_backend ? 0 : q->start,
		p->strings[q->container_id], p->strings[q->service_name]);
	for (int i = 0; i < PROFILE_VARIABLES_MAX && q->variables[i].name; i++)
		fprintf(out, " %s=%s", p->strings[q->variables[i].name],
			p->strings[q->variables[i].value]);
}

static inline void describe_labels(const struct profile *p, uint32_t set, FILE *out)
{
	const struct profile_label_set *labels = &p->label_sets[set];
	char *texts[PROFILE_LABELS_MAX];

	for (uint32_t i = 0; i < labels->count; i++) {
		const struct profile_label *l = &p->labels[labels->labels[i]];

		if (asprintf(&texts[i], " %s=%s(%s)", p->strings[l->key], p->strings[l->value],
			     p->strings[l->attribute]) < 0)
			abort();
	}
	qsort(texts, labels->count, sizeof(texts[0]), describe_compare);
	for (uint32_t i = 0; i < labels->count; i++) {
		fputs(texts[i], out);
		free(texts[i]);
	}
}

static inline void describe_sample(const struct profile *p, const struct profile_sample *s,
				   bool for_backend, FILE *out)
{
	const struct profile_thread *t = &p->threads[s->thread];
	const struct profile_stack *k = &p->stacks[s->stack];

	fprintf(out, "%lu %d %u %s ", s->count, (int)s->cpu, t->tid, p->strings[t->name]);
	describe_process(p, t->process, for_backend, out);
	for (uint32_t at = s->first_time; at; at = p->times[at - 1].next)
		fprintf(out, " @%lu", p->times[at - 1].time_ns);
	describe_labels(p, k->labels, out);
	for (uint32_t i = 0; i < k->count; i++)
		describe_location(p, p->stack_locations[k->first + i], for_backend, out);
}

/* Returns the text, which the caller frees. `for_backend`: without what requests leave out. */
static inline char *describe(const struct profile *p, bool for_backend)
{
	_cleanup_free_ char **lines = calloc(p->samples_count + 1, sizeof(*lines));
	char *all = NULL;
	size_t length;
	FILE *out;

	for (uint32_t i = 0; i < p->samples_count; i++) {
		out = open_memstream(&lines[i], &length);
		describe_sample(p, &p->samples[i], for_backend, out);
		fclose(out);
	}
	qsort(lines, p->samples_count, sizeof(*lines), describe_compare);
	out = open_memstream(&all, &length);
	fprintf(out, "%lu %lu %lu %lu\n", p->start_unix_ns, p->duration_ns, p->period_ns,
		p->sample_count);
	for (uint32_t i = 0; i < p->samples_count; i++) {
		fprintf(out, "%s\n", lines[i]);
		free(lines[i]);
	}
	fclose(out);
	return all;
}

#endif
