/* SPDX-License-Identifier: Apache-2.0 */
/* Random profiles for tests; the same seed gives the same profile. */
#ifndef TESTS_RANDOM_PROFILE_H
#define TESTS_RANDOM_PROFILE_H

#include <inttypes.h>

#include "exporter/model/profile.h"

struct random_size {
	uint32_t names, locations, threads, samples;
	bool nasty; /* names with bytes that are special in a format */
	bool timed; /* most samples have times and CPUs */
};

static inline uint32_t random_next(uint64_t *state)
{
	*state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(*state >> 33);
}

static inline int random_string(struct profile *p, const char *stem, uint32_t i, bool nasty,
				uint32_t *id)
{
	static const char *const tails[] = {
	    "",		"with space 12", "semi;colon",	     "line\nbreak", "quote\"back\\slash",
	    "\x1b[31m", "\xff\xfe",	 "\xc3\xa4\xe2\x82", "</script>",   "\xed\xa0\x80",
	    "\xc2\x9b", "tab\t",	 "operator()<a, b>", "nul",	    "\x7f",
	};
	char text[128];
	uint32_t tail = nasty ? i % (sizeof(tails) / sizeof(tails[0])) : 0;
	int length = snprintf(text, sizeof(text), "%s%" PRIu32 "%s", stem, i, tails[tail]);

	if (nasty && tail == 13)
		text[1] = '\0';
	return profile_string(p, text, (size_t)length, id);
}

static inline int random_locations(struct profile *p, uint64_t *state,
				   const struct random_size *size)
{
	static const char *const kinds[] = {"native", "kernel", "cpython", "abort-marker"};
	uint32_t n;
	int r = 0;

	for (uint32_t i = 0; i < size->locations && r == 0; i++) {
		struct profile_mapping m = {0};
		struct profile_function f = {0};
		struct profile_location l = {.address = random_next(state), .line = i % 3};
		uint32_t kind = random_next(state) % 4, name = random_next(state) % size->names;
		r |= random_string(p, kind == 1 ? "vmlinux" : "/usr/lib/lib",
				   kind == 1 ? 0 : name % 7, size->nasty, &m.filename);
		/* A file has one set of ids, so two mappings do not differ in ids alone. */
		if (kind != 1)
			r |= random_string(p, "0123abcd", name % 7, false, &m.gnu_build_id);
		if (kind != 1 && name % 7 % 2)
			r |= random_string(p, "4567cdef", name % 7, false, &m.htlhash);
		if (kind != 1 && name % 7 == 3)
			r |= random_string(p, "go/id/", name % 7, false, &m.go_build_id);
		r |= profile_mapping(p, &m, &l.mapping);
		r |= random_string(p, "function", name, size->nasty, &f.name);
		if (name % 5 == 0)
			r |= random_string(p, "file.c", name, false, &f.filename);
		/* A function has one start line. */
		f.start_line = name % 5 == 0 ? name & PROFILE_LINE_MAX : 0;
		/* A name that was made from an address stands for a frame without debug
		 * information. */
		f.name_is_generated = name % 5 == 1 && l.line == 0;
		if (random_next(state) % 8)
			r |= profile_function(p, &f, &l.function);
		r |= profile_string(p, kinds[kind], strlen(kinds[kind]), &l.kind);
		r |= profile_location(p, &l, &n);
		/* Some functions are inlined there. They have names, as their callers do. */
		for (uint32_t j = name % 4; kind == 0 && !f.name_is_generated && j < 3 && r == 0; j++) {
			l.line = j + 1;
			l.caller = n;
			r |= profile_location(p, &l, &n);
		}
	}
	return r;
}

static inline int random_threads(struct profile *p, const struct random_size *size)
{
	uint32_t n;
	int r = 0;

	for (uint32_t i = 0; i < size->threads && r == 0; i++) {
		struct profile_process process = {.tgid = 100 + i / 4, .start = i / 8};
		struct profile_thread t = {.tid = 100 + i};
		r |= random_string(p, "proc", i / 4 % 5, size->nasty, &process.name);
		r |= random_string(p, "/bin/proc", i / 4, false, &process.path);
		if (i / 4 % 2)
			r |= random_string(p, "container", i / 8, false, &process.container_id);
		if (i / 4 % 3 == 1)
			r |= random_string(p, "service", i / 4, size->nasty, &process.service_name);
		for (uint32_t j = 0; j < i / 4 % 3 && r == 0; j++) {
			r |= random_string(p, "NAME", j, false, &process.variables[j].name);
			if (j)
				r |= random_string(p, "value", i / 4, size->nasty,
						   &process.variables[j].value);
		}
		r |= profile_process(p, &process, &t.process);
		r |= random_string(p, "worker", i % 9, size->nasty, &t.name);
		r |= profile_thread(p, &t, &n);
	}
	return r;
}

/* Gives some stacks labels, of which some have a key twice. */
static inline int random_labels(struct profile *p, uint64_t *state, bool nasty, uint32_t *stack)
{
	const uint32_t count = random_next(state) % 8;
	uint32_t labels[8], value, set;
	int r = 0;

	if (random_next(state) % 4)
		return 0;
	for (uint32_t i = 0; i < count && r == 0; i++) {
		char key[32];
		const int length =
		    snprintf(key, sizeof(key), "key%s%u", nasty ? "=\n" : "", random_next(state) % 9);

		r |= random_string(p, "value", random_next(state) % 20, nasty, &value);
		r |= profile_label(p, key, (size_t)length, value, &labels[i]);
	}
	r |= profile_label_set(p, labels, count, &set);
	return r | profile_labelled_stack(p, *stack, set, stack);
}

static inline int random_samples(struct profile *p, uint64_t *state, const struct random_size *size)
{
	uint32_t frames[64];
	int r = 0;

	for (uint32_t i = 0; i < size->samples && r == 0; i++) {
		uint32_t depth = random_next(state) % 40, stack, thread, count, cpu;
		uint32_t used = 0;
		while (used < depth) {
			uint32_t location = random_next(state) % p->locations_count;

			do
				frames[used++] = location;
			while ((location = p->locations[location].caller));
		}
		r |= profile_stack(p, frames, used, &stack);
		r |= random_labels(p, state, size->nasty, &stack);
		thread = random_next(state) % p->threads_count;
		count = 1 + random_next(state) % 50;
		if (!size->timed || i % 16 == 0) {
			r |= profile_add(p, thread, stack, count);
			continue;
		}
		for (; count && r == 0; count--) {
			cpu = random_next(state) % 5;
			r |= profile_add_at(p, thread, stack, cpu < 4 ? cpu : PROFILE_CPU_UNKNOWN,
					    p->start_unix_ns + random_next(state) % p->duration_ns);
		}
	}
	return r;
}

/* Fills an initialised profile. Returns 0 or the error of interning. */
static inline int random_profile(struct profile *p, uint64_t seed, const struct random_size *size)
{
	uint64_t state = seed;

	p->period_ns = 1000000000 / 99;
	p->start_unix_ns = 1700000000000000000 + seed;
	p->duration_ns = 10000000000;
	int r = random_locations(p, &state, size);
	if (r == 0)
		r = random_threads(p, size);
	return r ? r : random_samples(p, &state, size);
}

#endif
