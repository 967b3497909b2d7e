/* SPDX-License-Identifier: Apache-2.0 */
/*
 * runtime_capture --pid PID [--tid TID] [--wait-for TEXT]... [--seconds N] --out FILE.case
 *
 * Records a case of a live thread. It stops the process, walks the thread's stack, names its
 * frames, and writes all that was read for that, with the text of the stack next to it
 * (FILE.expected). With --wait-for it repeats that until each TEXT is part of a line of the stack.
 * Without --tid it takes the first thread for which that is so. It is run as root by
 * tests/runtime/add_case.sh.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "tests/runtime/live.h"

enum {
	TEXTS_MAX = 16,
	PAUSE_MS = 7,
	SECONDS = 20
};

struct options {
	pid_t pid, tid;
	const char *out;
	const char *texts[TEXTS_MAX];
	unsigned int text_count;
	unsigned int seconds;
};

static const char *const usage =
    "usage: runtime_capture --pid PID [--tid TID] [--wait-for TEXT]... "
    "[--seconds N] --out FILE.case\n";

static bool options_parse(struct options *options, int argc, char **argv)
{
	static const struct option known[] = {
	    {"pid", required_argument, NULL, 'p'},     {"tid", required_argument, NULL, 't'},
	    {"out", required_argument, NULL, 'o'},     {"wait-for", required_argument, NULL, 'w'},
	    {"seconds", required_argument, NULL, 's'}, {NULL, 0, NULL, 0}};

	*options = (struct options){.seconds = SECONDS};
	for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
		if (c == 'p')
			options->pid = (pid_t)strtol(optarg, NULL, 10);
		else if (c == 't')
			options->tid = (pid_t)strtol(optarg, NULL, 10);
		else if (c == 'o')
			options->out = optarg;
		else if (c == 's')
			options->seconds = (unsigned int)strtoul(optarg, NULL, 10);
		else if (c == 'w' && options->text_count < TEXTS_MAX)
			options->texts[options->text_count++] = optarg;
		else
			return false;
	}
	const size_t length = options->out ? strlen(options->out) : 0;
	return optind == argc && options->pid > 0 && length > 5 &&
	       !strcmp(options->out + length - 5, ".case");
}

static bool has_texts(const struct options *options, const char *stack)
{
	for (unsigned int i = 0; i < options->text_count; i++) {
		if (!strstr(stack, options->texts[i]))
			return false;
	}
	return true;
}

static int write_case(const struct options *options, struct live *live,
		      const struct walk_in_process_result *result, const char *stack)
{
	char path[1024];

	live_finish_thread(live, result);
	int r = case_write(live->file, options->out);
	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "%.*s.expected", (int)strlen(options->out) - 5, options->out);
	_cleanup_fclose_ FILE *file = fopen(path, "we");
	if (!file || fputs(stack, file) < 0)
		return -EIO;
	fputs(stack, stdout);
	return 0;
}

/* Returns 1 if a case was written, 0 if the stack is not the wanted one, or a negative errno. */
static int capture_thread(const struct options *options, struct live *live, pid_t tid, bool last)
{
	struct walk_in_process_result *result = calloc(1, sizeof(*result));
	struct other_process other = {.memory = &live->file->memory, .live_fd = live->memory_fd};
	struct fixture_tables tables;
	struct fixture_text text = {0};
	int r = result ? live_begin_thread(live, tid) : -ENOMEM;

	if (r == 0) {
		live_tables(live, &tables);
		fixture_run(live->file, &other, &tables, NULL, result, &text);
		r = other.error;
	}
	if (r == 0 && has_texts(options, text.data))
		r = write_case(options, live, result, text.data) < 0 ? -EIO : 1;
	else if (r == 0 && last)
		fprintf(stderr, "the last stack, of thread %d:\n%s", (int)tid, text.data);
	free(text.data);
	free(result);
	return r;
}

static int capture_some(const struct options *options, struct live *live, bool last)
{
	int r = live_refresh(live);

	for (unsigned int i = 0; r == 0 && i < live->thread_count; i++) {
		const pid_t tid = live->threads[i];

		if (options->tid ? tid == options->tid : options->text_count || tid == live->pid)
			r = capture_thread(options, live, tid, last);
	}
	return r;
}

static int capture(const struct options *options, struct live *live)
{
	const uint64_t until = clock_monotonic_ns() + options->seconds * 1000000000ull;
	const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000l};

	for (;;) {
		const bool last = clock_monotonic_ns() > until;
		int r = live_stop(live);

		if (r == 0)
			r = capture_some(options, live, last);
		live_go_on(live);
		if (r)
			return r;
		if (last)
			return -ETIMEDOUT;
		nanosleep(&pause, NULL);
	}
}

int main(int argc, char **argv)
{
	struct options options;
	struct case_file *file = case_new();
	struct live *live = calloc(1, sizeof(*live));

	if (!options_parse(&options, argc, argv) || !file || !live) {
		fputs(usage, stderr);
		return 2;
	}
	int r = live_init(live, options.pid, file);
	if (r == 0)
		r = capture(&options, live);
	if (r < 0)
		fprintf(stderr, "runtime_capture: %s\n", strerror(-r));
	live_fini(live);
	case_free(file);
	free(live);
	return r < 0;
}
