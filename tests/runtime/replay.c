/* SPDX-License-Identifier: Apache-2.0 */
/*
 * runtime_replay FILE.case...: runs walkers and symbolizers over recorded memory. Each case must
 * give the stack in the file next to it (FILE.expected), without a read that was not recorded. Then
 * each case is repeated with failing reads and changed bytes. In these runs any stack is accepted
 * if the walk ends.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "tests/runtime/fixture.h"

enum {
	FAIL_EVERY_MAX = 24,
	FLIP_SEEDS = 32,
	EXPECTED_BYTES_MAX = 1 << 20,
	DIFFERENCE_BYTES = 300, /* shown before a difference */
	DIFFERENCE_LINES = 8,	/* shown of a difference */
#ifdef BULKHEAD_SANITIZE
	FAULTS_STEP = 2, /* the release build, which is six times as fast, has all of them */
#else
	FAULTS_STEP = 1,
#endif
};

struct test {
	const char *path;
	struct case_file *file;
	struct fixture_tables tables;
	struct fixture_memory *memory;
	struct fixture_images *images; /* for runs with late faults */
	struct walk_in_process_result *result;
};

static char *file_text(const char *path)
{
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	char *text = calloc(1, EXPECTED_BYTES_MAX + 1);

	if (!file || !text || (fread(text, 1, EXPECTED_BYTES_MAX, file) == 0 && ferror(file))) {
		free(text);
		return NULL;
	}
	return text;
}

static void print_line(const char *mark, const char **text)
{
	const size_t length = strcspn(*text, "\n");

	if (**text)
		printf("  %s %.*s\n", mark, (int)length, *text);
	*text += length + ((*text)[length] == '\n');
}

/* Prints both texts from shortly before the place where they differ. */
static void print_difference(const char *expected, const char *found)
{
	size_t same = 0, shown;

	while (expected[same] && expected[same] == found[same])
		same++;
	for (shown = same; shown && same - shown < DIFFERENCE_BYTES; shown--)
		;
	while (shown && expected[shown - 1] != '\n')
		shown--;
	while (same && expected[same - 1] != '\n')
		same--;
	for (const char *at = expected + shown; at < expected + same;)
		print_line(" ", &at);
	expected += same;
	found += same;
	for (int i = 0; i < DIFFERENCE_LINES; i++)
		print_line("-", &expected);
	for (int i = 0; i < DIFFERENCE_LINES; i++)
		print_line("+", &found);
}

static int test_expected(struct test *test)
{
	struct other_process other = {.memory = &test->file->memory, .live_fd = -1};
	struct fixture_text text = {0};
	char path[1024];

	snprintf(path, sizeof(path), "%.*s.expected", (int)(strlen(test->path) - strlen(".case")),
		 test->path);
	_cleanup_free_ char *expected = file_text(path);
	fixture_run(test->file, &other, &test->tables, NULL, test->result, &text);
	_cleanup_free_ char *found = text.data;
	if (!expected) {
		printf("%s: cannot be read; it would be\n%s", path, found);
		return 1;
	}
	int failed = strcmp(expected, found) != 0;
	if (failed) {
		printf("%s: not as expected (-), but (+)\n", test->path);
		print_difference(expected, found);
	}
	if (other.outside) {
		printf("%s: %" PRIu64
		       " reads outside of the recording, the first of %s at %#" PRIx64 ", %" PRIu64
		       " bytes; see tests/runtime/README.md\n",
		       test->path, other.outside, other.outside_of, other.outside_address,
		       other.outside_length);
		failed = 1;
	}
	return failed;
}

/* Returns the number of failures of a run with changed memory. Any well-formed stack is
 * accepted. */
static int test_hostile(struct test *test, const struct other_process_faults *faults)
{
	struct other_process other = {
	    .memory = &test->file->memory, .live_fd = -1, .faults = *faults};
	struct fixture_text text = {0};
	struct walk_in_process_result *result = test->result;

	fixture_run(test->file, &other, &test->tables, faults->late ? test->images : NULL, result,
		    &text);
	_cleanup_free_ char *found = text.data;
	if (result->reason < BH_REASON_COUNT && result->steps <= WALK_IN_PROCESS_STEPS_MAX &&
	    result->count <= BH_USER_FRAMES_MAX && !strstr(found, "a frame without its words"))
		return 0;
	printf("%s: fail_every=%" PRIu64 " random=%" PRIu64 " late=%d: reason %u after %u steps, "
	       "%u frames\n%s",
	       test->path, faults->fail_every, faults->random, faults->late, result->reason,
	       result->steps, result->count, found);
	return 1;
}

/* A run mostly ends with a fault during attach. So there is a second run with faults only after
 * it. */
static int test_hostile_twice(struct test *test, struct other_process_faults faults)
{
	int failures = test_hostile(test, &faults);

	faults.late = true;
	return failures + test_hostile(test, &faults);
}

static int test_hostile_all(struct test *test)
{
	int failures = 0;

	for (uint64_t i = 1; i <= FAIL_EVERY_MAX; i += FAULTS_STEP)
		failures +=
		    test_hostile_twice(test, (struct other_process_faults){.fail_every = i});
	for (uint64_t i = 1; i <= FLIP_SEEDS; i += FAULTS_STEP) {
		struct other_process_faults faults = {.flip_one_in = 1 + i * i,
						      .random = i * 0x9e3779b97f4a7c15ull};

		failures += test_hostile_twice(test, faults);
		faults.anywhere = i;
		failures += test_hostile_twice(test, faults);
	}
	return failures;
}

static int test_case(struct test *test)
{
	int failures;

	if (!test->file || !test->images || !test->result)
		abort();
	int r = case_read(test->file, test->path);
	if (r == 0)
		r = fixture_tables_make(test->file, &test->tables, &test->memory);
	if (r < 0) {
		printf("%s: %s\n", test->path, strerror(-r));
		return 1;
	}
	failures = test_expected(test);
	const unsigned int words = test->result->count;
	failures += test_hostile_all(test);
	printf("%s: %s, words=%u\n", test->path, failures ? "FAILED" : "ok", words);
	fixture_tables_free(test->memory);
	return failures;
}

int main(int argc, char **argv)
{
	int failures = 0;

	/* Printed first, so that after a crash it is clear which case it was. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 1; i < argc; i++) {
		struct test test = {.path = argv[i],
				    .file = case_new(),
				    .images = fixture_images_new(),
				    .result = calloc(1, sizeof(*test.result))};

		failures += test_case(&test);
		fixture_images_free(test.images);
		case_free(test.file);
		free(test.result);
	}
	if (argc < 2)
		fprintf(stderr, "usage: runtime_replay FILE.case...\n");
	return failures || argc < 2;
}
