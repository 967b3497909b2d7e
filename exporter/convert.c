/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/convert.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/exit_status.h"
#include "common/log.h"
#include "exporter/limits.h"
#include "exporter/model/label_filter.h"
#include "exporter/otlp/otlp_read.h"
#include "exporter/policy.h"
#include "exporter/sinks/sink.h"

static int convert_sandbox(const char *uid)
{
	struct sandbox sandbox;
	char *end;
	const unsigned long id = strtoul(uid, &end, 10);

	if (*end || end == uid || id >= (uid_t)-1)
		return -EINVAL;
	int r = sandbox_prepare(&sandbox, &exporter_policy);
	if (!r)
		r = sandbox_drop(&exporter_policy, (uid_t)id, (gid_t)id);
	if (!r)
		r = sandbox_enter(&sandbox, &exporter_policy);
	return r;
}

enum {
	READ_FIRST_BYTES = 1 << 20 /* most recordings are smaller */
};

static int read_all(uint8_t **data, size_t *length)
{
	size_t capacity = 0, used = 0;
	_cleanup_free_ uint8_t *buffer = NULL;

	for (;;) {
		int r =
		    ARRAY_RESERVE(buffer, capacity, used + 1, READ_FIRST_BYTES, LIMIT_REPORT_BYTES);
		if (r < 0)
			return r == -E2BIG ? -EFBIG : r;
		ssize_t n = read(STDIN_FILENO, buffer + used, capacity - used);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0) {
			*data = TAKE_PTR(buffer);
			*length = used;
			return 0;
		}
		used += n > 0 ? (size_t)n : 0;
	}
}

/* Sets `value` to whether a word says yes. Returns false if it says neither yes nor no. */
static bool parse_word(const char *word, const char *yes, const char *no, bool *value)
{
	*value = !strcmp(word, yes);
	return *value || !strcmp(word, no);
}

enum {
	FIXED_ARGUMENTS = 7 /* the rest are labels */
};

int convert_main(int argc, char **argv)
{
	const struct sink *sink = argc >= FIXED_ARGUMENTS ? sink_find(argv[2]) : NULL;
	struct sink_options options;
	bool without_inlined;
	_cleanup_free_ uint8_t *data = NULL;
	struct profile profile;
	size_t length = 0;
	/* Static, because the stream uses it until the process has ended. */
	static char buffer[LIMIT_STREAM_BYTES];

	/* The caller's own, such as those of a shell script. */
	close_range(STDERR_FILENO + 1, ~0u, 0);
	log_init("bulkhead");
	/* A reader such as head(1) may close the pipe early. That is not an error. */
	signal(SIGPIPE, SIG_IGN);
	if (!sink || !group_by_parse(argv[4], &options.group_by) ||
	    !parse_word(argv[5], "lines", "no-lines", &options.lines) ||
	    !parse_word(argv[6], "no-inline", "inline", &without_inlined))
		return STATUS_USAGE;
	int r = convert_sandbox(argv[3]);
	if (r < 0) {
		log_error("cannot enter the sandbox, so nothing is converted: error=%s",
			  strerror(-r));
		return STATUS_NOT_PERMITTED;
	}
	r = read_all(&data, &length);
	if (!r)
		r = profile_init(&profile, LIMIT_PROFILE_BYTES);
	if (!r) {
		profile.without_inlined = without_inlined;
		r = otlp_read(data, length, &profile);
	}
	if (!r && argc > FIXED_ARGUMENTS)
		r = label_filter_apply(&profile, &argv[FIXED_ARGUMENTS],
				       (unsigned int)(argc - FIXED_ARGUMENTS));
	/* LIMIT_PROFILE_BYTES is not a lack of space on a disk. */
	if (r == -ENOSPC)
		r = -EFBIG;
	if (r < 0) {
		log_error("cannot read the recording, so nothing is converted: %s",
			  r == -EBADMSG ? "it is not an OTLP profile, or it is damaged"
					: strerror(-r));
		return STATUS_FAILED;
	}
	if (argc > FIXED_ARGUMENTS && !profile.samples_count) {
		log_error("no sample of the recording has these labels, so nothing is converted");
		return STATUS_FAILED;
	}
	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
	r = sink->write(&profile, &options, stdout);
	if (!r && fflush(stdout) != 0)
		r = -errno;
	if (r < 0 && r != -EPIPE) {
		log_error("cannot write the output, which is incomplete now: error=%s",
			  strerror(-r));
		return STATUS_FAILED;
	}
	return STATUS_DONE;
}
