/* SPDX-License-Identifier: Apache-2.0 */
/* A profile that a test fills, and its output in each format. */
#ifndef TESTS_UNIT_EXPORTER_SINKS_FIXTURE_H
#define TESTS_UNIT_EXPORTER_SINKS_FIXTURE_H

#include <criterion/criterion.h>
#include <string.h>

#include "exporter/sinks/sink.h"

static struct profile p;
static struct sink_options options;

static inline void setup(void)
{
	options = (struct sink_options){.group_by = GROUP_BY_NAME};
	cr_assert_eq(profile_init(&p, 64 << 20), 0);
}

static inline void teardown(void)
{
	profile_fini(&p);
}

static inline char *render(const char *format, size_t *length)
{
	const struct sink *sink = sink_find(format);
	char *text = NULL;

	cr_assert_not_null(sink);
	FILE *out = open_memstream(&text, length);
	cr_assert_eq(sink->write(&p, &options, out), 0);
	fclose(out);
	return text;
}

static inline uint32_t string(const char *text)
{
	uint32_t n;

	cr_assert_eq(profile_string(&p, text, strlen(text), &n), 0);
	return n;
}

static inline uint32_t frame(const char *kind, const char *module, const char *name,
			     uint64_t address)
{
	struct profile_mapping m = {.filename = string(module)};
	struct profile_function f = {.name = string(name)};
	struct profile_location l = {.kind = string(kind), .address = address};
	uint32_t n;

	cr_assert_eq(profile_mapping(&p, &m, &l.mapping), 0);
	cr_assert_eq(profile_function(&p, &f, &l.function), 0);
	cr_assert_eq(profile_location(&p, &l, &n), 0);
	return n;
}

static inline uint32_t thread(uint32_t tgid, uint32_t tid, const char *process, const char *name)
{
	struct profile_process q = {.tgid = tgid, .name = string(process)};
	struct profile_thread t = {.tid = tid, .name = string(name)};
	uint32_t n;

	cr_assert_eq(profile_process(&p, &q, &t.process), 0);
	cr_assert_eq(profile_thread(&p, &t, &n), 0);
	return n;
}

static inline void add(uint32_t thread_number, uint64_t count, const uint32_t *frames,
		       uint32_t depth)
{
	uint32_t stack;

	cr_assert_eq(profile_stack(&p, frames, depth, &stack), 0);
	cr_assert_eq(profile_add(&p, thread_number, stack, count), 0);
}

#define ADD(thread, count, ...)                                                                    \
	add(thread, count, (uint32_t[]){__VA_ARGS__}, sizeof((uint32_t[]){__VA_ARGS__}) / 4)

#endif
