/* SPDX-License-Identifier: Apache-2.0 */
/* `bulkhead status`: asks the running agent for a report, and prints it as text, JSON or
 * metrics. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "cli/help.h"
#include "cli/host_text.h"
#include "cli/status.h"
#include "cli/status_print.h"
#include "common/cleanup.h"
#include "common/exit_status.h"
#include "control/agent_report.h"

enum {
	STATUS_TIMEOUT_S = 5,
	STATUS_BYTES = 4096, /* of /proc/PID/status: enough for the memory, which comes early */
};

struct status_options {
	const char *run_directory;
	void (*print)(const struct agent_report *report,
		      FILE *out); /* NULL: --ready, which prints nothing */
};

static int status_usage(const char *what)
{
	fprintf(stderr, "bulkhead status: %s; see bulkhead status --help\n", what);
	return STATUS_USAGE;
}

static int status_parse(int argc, char **argv, struct status_options *o)
{
	static const struct option options[] = {
	    {"json", no_argument, NULL, 'j'},	 {"ready", no_argument, NULL, 'r'},
	    {"metrics", no_argument, NULL, 'm'}, {"run-directory", required_argument, NULL, 'd'},
	    {"help", no_argument, NULL, 'h'},	 {NULL, 0, NULL, 0},
	};
	int c;

	*o = (struct status_options){.run_directory = "/run/bulkhead", .print = status_print_text};
	opterr = 0;
	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (c == 'j')
			o->print = status_print_json;
		else if (c == 'm')
			o->print = status_print_metrics;
		else if (c == 'r')
			o->print = NULL;
		else if (c == 'd')
			o->run_directory = optarg;
		else if (c == 'h')
			return -1;
		else
			return status_usage("unknown option, or an option without its value");
	}
	return optind == argc ? STATUS_DONE
			      : status_usage("unexpected argument; only options are possible");
}

static int status_connect(const char *run_directory)
{
	const struct timeval timeout = {.tv_sec = STATUS_TIMEOUT_S};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int n = snprintf(address.sun_path, sizeof(address.sun_path), "%s/" AGENT_REPORT_SOCKET,
			 run_directory);

	if (n < 0 || (size_t)n >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	return TAKE_FD(fd);
}

/* Reads a complete report of this version. */
static int status_read(int fd, struct agent_report *report)
{
	size_t used = 0;

	while (used < sizeof(*report)) {
		ssize_t n = recv(fd, (char *)report + used, sizeof(*report) - used, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? -ETIMEDOUT : -errno;
		if (n == 0)
			return -EPROTO;
		used += (size_t)n;
	}
	return report->magic == AGENT_REPORT_MAGIC && report->bytes == sizeof(*report) ? 0
										       : -EPROTO;
}

/* Adds the memory of roles that the agent could not measure, because they are services with other
 * uids. Everybody may read this file, unless /proc hides processes; then it stays 0. */
static void status_measure(struct agent_report *report)
{
	for (int i = 0; i < ROLE_COUNT; i++) {
		struct agent_report_role *role = &report->roles[i];
		char path[64], text[STATUS_BYTES];

		if (role->rss_bytes || !role->pid)
			continue;
		snprintf(path, sizeof(path), "/proc/%u/status", role->pid);
		host_text_read("", path, text, sizeof(text));
		const char *line = strstr(text, "\nVmRSS:");
		if (line)
			role->rss_bytes = strtoull(line + strlen("\nVmRSS:"), NULL, 10) << 10;
	}
}

static int status_explain(int error, const char *run_directory)
{
	switch (error) {
	case -ENOENT:
	case -ECONNREFUSED:
		fprintf(stderr,
			"bulkhead: no agent is running with run directory %s; start one with "
			"bulkhead run, "
			"or use --run-directory\n",
			run_directory);
		return STATUS_FAILED;
	case -EACCES:
	case -EPERM:
		fprintf(
		    stderr,
		    "bulkhead: only root and the members of status.group may ask the agent; run "
		    "it with sudo\n");
		return STATUS_NOT_PERMITTED;
	case -EPROTO:
		fprintf(stderr, "bulkhead: the running agent has another version than this "
				"program; restart the "
				"agent\n");
		return STATUS_FAILED;
	default:
		fprintf(stderr, "bulkhead: the agent did not answer: %s; see its log\n",
			strerror(-error));
		return STATUS_FAILED;
	}
}

int status_main(int argc, char **argv)
{
	static struct agent_report report;
	struct status_options options;

	int status = status_parse(argc, argv, &options);
	if (status < 0) {
		help_print_status(stdout);
		return STATUS_DONE;
	}
	if (status)
		return status;
	_cleanup_close_ int fd = status_connect(options.run_directory);
	int r = fd < 0 ? fd : status_read(fd, &report);
	if (r < 0)
		return status_explain(r, options.run_directory);
	status_measure(&report);
	/* Other processes wrote these texts: they may lack a NUL. */
	report.stats.last_message[sizeof(report.stats.last_message) - 1] = 0;
	report.endpoint[sizeof(report.endpoint) - 1] = 0;
	if (!options.print)
		return report.ready ? STATUS_DONE : STATUS_FAILED;
	options.print(&report, stdout);
	return fflush(stdout) == 0 ? STATUS_DONE : STATUS_FAILED;
}
