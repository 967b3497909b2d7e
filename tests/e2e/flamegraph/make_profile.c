/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the flame graph page of a fixed profile, for test_flamegraph.py:
 *
 *   make_profile small|small-by-pid|hostile|lines|lines-shown|empty FILE
 *   make_profile large STACKS FILE
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/cleanup.h"
#include "exporter/model/profile.h"
#include "exporter/sinks/sink.h"

#define DEPTH_MAX 64

static void must(int error, const char *what)
{
	if (error) {
		fprintf(stderr, "make_profile: %s: %s\n", what, strerror(-error));
		exit(1);
	}
}

static uint32_t string_of(struct profile *profile, const char *text)
{
	uint32_t id = 0;

	if (text)
		must(profile_string(profile, text, strlen(text), &id), "string");
	return id;
}

/* Returns a location with a name. If `name` is NULL, the location only has its address. */
static uint32_t frame_of(struct profile *profile, const char *kind, const char *module,
			 const char *name, uint64_t address)
{
	struct profile_mapping mapping = {.filename = string_of(profile, module)};
	struct profile_function function = {.name = string_of(profile, name)};
	struct profile_location location = {.kind = string_of(profile, kind), .address = address};
	uint32_t id;

	if (module)
		must(profile_mapping(profile, &mapping, &location.mapping), "mapping");
	if (name)
		must(profile_function(profile, &function, &location.function), "function");
	must(profile_location(profile, &location, &id), "location");
	return id;
}

static uint32_t thread_of(struct profile *profile, const char *comm, uint32_t tgid,
			  const char *thread_name, uint32_t tid, const char *path)
{
	struct profile_process process = {
	    .tgid = tgid, .name = string_of(profile, comm), .path = string_of(profile, path)};
	struct profile_thread thread = {.tid = tid, .name = string_of(profile, thread_name)};
	uint32_t id;

	must(profile_process(profile, &process, &thread.process), "process");
	must(profile_thread(profile, &thread, &id), "thread");
	return id;
}

/* Adds `count` samples of one stack. The locations start with the leaf and end with 0. */
static void add(struct profile *profile, uint32_t thread, uint64_t count, ...)
{
	uint32_t locations[DEPTH_MAX], depth = 0, stack;
	va_list arguments;

	va_start(arguments, count);
	for (uint32_t location; (location = va_arg(arguments, uint32_t)) && depth < DEPTH_MAX;)
		locations[depth++] = location;
	va_end(arguments);
	must(profile_stack(profile, locations, depth, &stack), "stack");
	must(profile_add(profile, thread, stack, count), "sample");
}

/*
 * 1,000 samples in five threads:
 *
 * - nginx (812): 400 in two threads;
 * - nginx (813): 20, another process of the same name;
 * - python3 (1040): 500, with recursion;
 * - kworker (77): 80, all in the kernel.
 *
 * 230 of them run in the kernel, 10 have a stack that was cut off, and 10 have a frame without a
 * name.
 */
static void make_small(struct profile *profile)
{
	uint32_t master = thread_of(profile, "nginx", 812, "nginx", 812, "/usr/sbin/nginx");
	uint32_t pool = thread_of(profile, "nginx", 812, "aio-pool", 815, "/usr/sbin/nginx");
	uint32_t second = thread_of(profile, "nginx", 813, "nginx", 813, "/usr/sbin/nginx");
	uint32_t python = thread_of(profile, "python3", 1040, "python3", 1040, "/usr/bin/python3");
	uint32_t worker = thread_of(profile, "kworker/0:1", 77, "kworker/0:1", 77, NULL);
	uint32_t start = frame_of(profile, "native", "/usr/lib/libc.so.6", "_start", 1);
	uint32_t main_ = frame_of(profile, "native", "/usr/sbin/nginx", "main", 2);
	uint32_t loop = frame_of(profile, "native", "/usr/sbin/nginx", "ngx_process_events", 3);
	uint32_t parse = frame_of(profile, "native", "/usr/sbin/nginx", "ngx_http_parse_header", 4);
	uint32_t parse2 =
	    frame_of(profile, "native", "/usr/sbin/nginx", "ngx_http_parse_header", 5);
	uint32_t write_ = frame_of(profile, "native", "/usr/lib/libc.so.6", "write", 6);
	uint32_t entry = frame_of(profile, "kernel", "vmlinux", "entry_SYSCALL_64", 7);
	uint32_t vfs = frame_of(profile, "kernel", "vmlinux", "vfs_write", 8);
	uint32_t ext4 = frame_of(profile, "kernel", "ext4", "ext4_file_write_iter", 9);
	uint32_t fork_ = frame_of(profile, "kernel", "vmlinux", "ret_from_fork", 10);
	uint32_t eval =
	    frame_of(profile, "native", "/usr/bin/python3", "_PyEval_EvalFrameDefault", 11);
	uint32_t module = frame_of(profile, "cpython", "/srv/app.py", "<module>", 12);
	uint32_t fib = frame_of(profile, "cpython", "/srv/app.py", "fib", 13);
	uint32_t unnamed = frame_of(profile, "native", "/usr/lib/libplugin.so", NULL, 0x1f40);
	uint32_t cut = frame_of(profile, "abort-marker", NULL, NULL, 0);

	add(profile, master, 150, parse, loop, main_, start, 0);
	add(profile, master, 100, parse2, loop, main_, start, 0);
	add(profile, master, 90, ext4, vfs, entry, write_, loop, main_, start, 0);
	add(profile, pool, 60, vfs, entry, write_, 0);
	add(profile, second, 20, parse, loop, main_, start, 0);
	add(profile, python, 240, eval, fib, fib, fib, module, start, 0);
	add(profile, python, 200, eval, fib, module, start, 0);
	add(profile, python, 40, fib, module, start, 0);
	add(profile, python, 10, unnamed, fib, module, start, 0);
	add(profile, python, 10, eval, cut, 0);
	add(profile, worker, 80, vfs, fork_, 0);
}

/*
 * Names that would do harm if a page interpreted them as anything but text. The page must show them
 * as they are here, with escapes for what cannot be printed.
 */
static void make_hostile(struct profile *profile)
{
	static const char *const names[] = {
	    "</script><img src=x onerror=alert(1)>",
	    "<!--<script>alert(2)",
	    "\"'`;alert(3)//${alert(4)}",
	    "line one\nline two",
	    "bad \xff\xc3( utf-8 \xed\xa0\x80 end",
	    "turned \xe2\x80\xae\x61round",
	    "line\xe2\x80\xa8separator",
	    "&lt;b&gt;&amp;",
	    "@@DATA@@ @@SCRIPT@@",
	    "caf\xc3\xa9 \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x94\xa5",
	    "__proto__",
	    "constructor",
	};
	uint32_t thread = thread_of(profile, "</script><b>x", 66, "<i>\x01", 66, "/tmp/<script>");

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		add(profile, thread, 100 - i,
		    frame_of(profile, i % 2 ? "native" : names[i], "/tmp/<script>alert(5)</script>",
			     names[i], i + 1),
		    0);
	add(profile, 0, 7, 0); /* no stack, no thread */
}

/* Returns a location in a file, at a line of a function that starts at another one. `caller` is the
 * location of the function into which it was inlined, or 0. */
static uint32_t line_of(struct profile *profile, const char *file, const char *name, uint32_t start,
			uint32_t line, uint32_t caller)
{
	struct profile_mapping mapping = {.filename = string_of(profile, "/usr/bin/render")};
	struct profile_function function = {.name = string_of(profile, name),
					    .filename = string_of(profile, file),
					    .start_line = start & PROFILE_LINE_MAX};
	struct profile_location location = {
	    .kind = string_of(profile, "native"), .line = line, .address = 1, .caller = caller};
	uint32_t id;

	must(profile_mapping(profile, &mapping, &location.mapping), "mapping");
	must(profile_function(profile, &function, &location.function), "function");
	must(profile_location(profile, &location, &id), "location");
	return id;
}

/*
 * 100 samples of code whose lines are known:
 *
 * - main(), lines 40 and 42, calls render(), lines 12 (50 samples) and 14 (30);
 * - blend() and, in it, clamp() are inlined into line 12: 20 and 25 of the 50 samples;
 * - 20 are in a function of a library without lines.
 */
static void make_lines(struct profile *profile)
{
	uint32_t thread = thread_of(profile, "render", 5, "render", 5, "/usr/bin/render");
	uint32_t first = line_of(profile, "/src/main.c", "main", 38, 40, 0);
	uint32_t second = line_of(profile, "/src/main.c", "main", 38, 42, 0);
	uint32_t render = line_of(profile, "/src/render.c", "render", 10, 12, 0);
	uint32_t again = line_of(profile, "/src/render.c", "render", 10, 14, 0);
	uint32_t blend = line_of(profile, "/src/pixel.h", "blend", 5, 7, render);
	uint32_t clamp = line_of(profile, "/src/pixel.h", "clamp", 1, 2, blend);
	uint32_t other = frame_of(profile, "native", "/usr/lib/libm.so.6", "pow", 3);

	add(profile, thread, 5, render, first, 0);
	add(profile, thread, 20, blend, render, first, 0);
	add(profile, thread, 25, clamp, blend, render, first, 0);
	add(profile, thread, 30, again, second, 0);
	add(profile, thread, 20, other, second, 0);
}

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Returns an integer below `bound`. Small ones are much more frequent, as a few callees are in real
 * programs. */
static uint32_t next_skewed(uint64_t *state, uint32_t bound)
{
	double x = (double)(next_random(state) >> 11) * 0x1p-53;

	return (uint32_t)(x * x * x * bound);
}

#define FUNCTIONS 20000
#define FUNCTIONS_OF_KIND 4000

/* Makes functions of five kinds, FUNCTIONS_OF_KIND of each. Those of the kernel come first. */
static void make_frames(struct profile *profile, uint32_t *frames)
{
	static const char *const kinds[] = {"kernel", "native", "cpython", "jvm", "v8js"};

	for (uint32_t i = 0; i < FUNCTIONS; i++) {
		const char *kind = kinds[i / FUNCTIONS_OF_KIND];
		char name[64], module[64];

		snprintf(name, sizeof(name), "%s::component_%u::operation_%u", kind, i % 97, i);
		snprintf(module, sizeof(module), "/usr/lib/lib%s_%u.so", kind, i % 61);
		frames[i] = frame_of(profile, kind, module, name, i + 1);
	}
}

/* Returns one of the few callees of a function. Most are of its own kind, some of another one, and
 * near the leaf some are of the kernel. */
static uint32_t next_callee(uint64_t *state, uint32_t caller, uint32_t to_leaf)
{
	/* Most functions call one other; some call many. */
	uint32_t fan_out = caller * 2246822519U >> 29 < 5 ? 1 : 12;
	uint32_t hash = (caller * 12 + next_skewed(state, fan_out)) * 2654435761U >> 4;
	uint32_t kind = caller / FUNCTIONS_OF_KIND;

	if (kind && to_leaf < 6 && next_random(state) % 16 == 0)
		kind = 0;
	else if (kind && hash % 16 == 0)
		kind = 1 + hash / 16 % 4;
	return kind * FUNCTIONS_OF_KIND + hash % FUNCTIONS_OF_KIND;
}

/* Makes `stacks` distinct stacks of 30 frames in 400 threads. Like those of real programs, they
 * share the frames next to the root. */
static void make_large(struct profile *profile, uint32_t stacks)
{
	const uint32_t depth = 30, threads = 400;
	_cleanup_free_ uint32_t *frames = calloc(FUNCTIONS, sizeof(*frames));
	_cleanup_free_ uint32_t *thread = calloc(threads, sizeof(*thread));
	uint64_t state = 88172645463325252ULL;
	uint32_t functions[30], path[30];

	must(frames && thread ? 0 : -ENOMEM, "memory");
	make_frames(profile, frames);
	for (uint32_t i = 0; i < threads; i++) {
		char comm[16];

		snprintf(comm, sizeof(comm), "service-%u", i / 16);
		thread[i] = thread_of(profile, comm, 1000 + i / 8, comm, 5000 + i, NULL);
	}
	while (profile->stacks_count <= stacks) {
		uint32_t of = next_skewed(&state, threads), id;

		/* The leaf comes first. Each process has another outermost function. */
		functions[depth - 1] = FUNCTIONS_OF_KIND * (1 + of / 16 % 4) + of / 8;
		for (uint32_t i = depth - 1; i-- > 0;)
			functions[i] = next_callee(&state, functions[i + 1], i);
		for (uint32_t i = 0; i < depth; i++)
			path[i] = frames[functions[i]];
		must(profile_stack(profile, path, depth, &id), "stack");
		must(profile_add(profile, thread[of], id, 1 + next_skewed(&state, 20)), "sample");
	}
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	_cleanup_(profile_fini) struct profile profile = {0};
	_cleanup_fclose_ FILE *out = NULL;
	const char *what = argc > 1 ? argv[1] : "";
	struct sink_options options = {.group_by = GROUP_BY_NAME};
	double start;

	if (argc < 3 || (argc < 4 && !strcmp(what, "large"))) {
		fputs("usage: make_profile small|small-by-pid|hostile|lines|lines-shown|empty FILE "
		      "| large STACKS "
		      "FILE\n",
		      stderr);
		return 2;
	}
	must(profile_init(&profile, (size_t)1 << 30), "init");
	profile.start_unix_ns = 1700000000ULL * 1000000000; /* 2023-11-14 22:13:20 UTC */
	profile.duration_ns = 10ULL * 1000000000;
	profile.period_ns = 10000000;
	if (!strcmp(what, "small") || !strcmp(what, "small-by-pid"))
		make_small(&profile);
	else if (!strcmp(what, "hostile"))
		make_hostile(&profile);
	else if (!strcmp(what, "lines") || !strcmp(what, "lines-shown"))
		make_lines(&profile);
	else if (!strcmp(what, "large"))
		make_large(&profile, (uint32_t)strtoul(argv[2], NULL, 10));

	out = fopen(argv[argc - 1], "w");
	must(out ? 0 : -errno, argv[argc - 1]);
	if (!strcmp(what, "small-by-pid"))
		options.group_by = GROUP_BY_PID;
	options.lines = !strcmp(what, "lines-shown");
	start = seconds();
	must(sink_html_write(&profile, &options, out), "sink_html_write");
	printf("stacks %" PRIu32 ", samples %" PRIu64 ", written in %.3f s, %ld bytes\n",
	       profile.stacks_count - 1, profile.sample_count, seconds() - start, ftell(out));
	return 0;
}
