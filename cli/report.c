/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `bulkhead report`: converts a recording. A recording may come from anyone, so it is parsed by the
 * exporter in its sandbox. This process only opens the files and starts the exporter.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/help.h"
#include "cli/options.h"
#include "cli/output_format.h"
#include "cli/outputs.h"
#include "cli/record.h"
#include "cli/role_uids.h"
#include "cli/program_path.h"
#include "common/exit_status.h"
#include "common/log.h"

struct report_options {
	const char *input;
	struct output outputs[LIMIT_OUTPUTS];
	unsigned int output_count;
	enum group_by group_by;
	bool lines, without_inlined; /* as in struct record_options */
	const char *labels[LIMIT_REPORT_LABELS];
	unsigned int label_count;
};

static int report_usage(const char *what)
{
	fprintf(stderr, "bulkhead report: %s; see bulkhead report --help\n", what);
	return STATUS_USAGE;
}

static int report_add_output(struct report_options *o, const char *path, const char *format)
{
	if (!format)
		format = strcmp(path, "-") ? output_format_from_path(path) : "tree";
	if (!format)
		return report_usage(
		    "cannot infer the format from the file name; add --format before -o");
	if (o->output_count == LIMIT_OUTPUTS)
		return report_usage("-o, --output: at most 8 outputs are possible");
	o->outputs[o->output_count++] = (struct output){.path = path, .format = format, .fd = -1};
	return STATUS_DONE;
}

static int report_add_label(struct report_options *o, const char *label)
{
	if (!label[0] || label[0] == '=')
		return report_usage("--label: must be KEY=VALUE, or KEY for any value");
	if (o->label_count == LIMIT_REPORT_LABELS)
		return report_usage("--label: at most 10 labels are possible");
	o->labels[o->label_count++] = label;
	return STATUS_DONE;
}

static int report_parse(int argc, char **argv, struct report_options *o)
{
	static const struct option options[] = {
	    {"output", required_argument, NULL, 'o'},	{"format", required_argument, NULL, 'f'},
	    {"group-by", required_argument, NULL, 'g'}, {"lines", no_argument, NULL, 'l'},
	    {"no-inline", no_argument, NULL, 'n'},	{"label", required_argument, NULL, 'L'},
	    {"help", no_argument, NULL, 'h'},		{NULL, 0, NULL, 0},
	};
	const char *format = NULL;
	int c, status = STATUS_DONE;

	*o = (struct report_options){0};
	opterr = 0;
	while (!status && (c = getopt_long(argc, argv, ":o:h", options, NULL)) != -1) {
		if (c == 'o')
			status = report_add_output(o, optarg, format);
		else if (c == 'f' && output_format_exists(optarg))
			format = optarg;
		else if (c == 'f')
			status = report_usage(
			    "--format: must be html, folded, pprof, speedscope, otlp or tree");
		else if (c == 'g' && !group_by_parse(optarg, &o->group_by))
			status = report_usage("--group-by: must be name, pid or thread");
		else if (c == 'g')
			continue;
		else if (c == 'l')
			o->lines = true;
		else if (c == 'n')
			o->without_inlined = true;
		else if (c == 'L')
			status = report_add_label(o, optarg);
		else if (c == 'h')
			return -1;
		else
			status = report_usage("unknown option, or an option without its value");
	}
	if (status)
		return status;
	if (argc - optind != 1)
		return report_usage(
		    "name exactly one recording: bulkhead report RECORDING.otlp -o FILE");
	o->input = argv[optind];
	if (!o->output_count)
		return report_usage(
		    "an output is missing: use -o FILE, or -o - for a tree on standard output");
	return STATUS_DONE;
}

static void __attribute__((noreturn))
report_exec(int in, int out, uid_t as, const char *format, const struct report_options *o)
{
	char program[PATH_MAX], uid[16];
	const char *const words[] = {"bulkhead-exporter",
				     "--convert",
				     format,
				     uid,
				     group_by_names[o->group_by],
				     o->lines ? "lines" : "no-lines",
				     o->without_inlined ? "no-inline" : "inline"};
	const char *arguments[sizeof(words) / sizeof(words[0]) + LIMIT_REPORT_LABELS + 1] = {0};

	memcpy(arguments, words, sizeof(words));
	memcpy(arguments + sizeof(words) / sizeof(words[0]), o->labels, sizeof(o->labels));
	snprintf(uid, sizeof(uid), "%u", (unsigned int)as);
	program_path("bulkhead-exporter", program, sizeof(program));
	dup2(in, STDIN_FILENO);
	dup2(out, STDOUT_FILENO);
	execv(program, (char *const *)arguments);
	fprintf(stderr, "bulkhead: cannot start %s: %s; reinstall bulkhead\n", program,
		strerror(errno));
	_exit(STATUS_FAILED);
}

/* Finds the uid that the converter runs as. Only root can give it one of its own. */
static int report_choose_uid(uid_t *uid)
{
	struct peer_uids uids;

	*uid = geteuid();
	if (*uid)
		return STATUS_DONE;
	int r = role_uids_choose("/proc", false, &uids);
	if (r < 0) {
		fprintf(stderr,
			"bulkhead: cannot find a free uid for the converter: %s; nothing is "
			"converted\n",
			strerror(-r));
		return STATUS_FAILED;
	}
	*uid = uids.uid[ROLE_EXPORTER];
	return STATUS_DONE;
}

static int report_convert(const struct report_options *o, const struct output *output, uid_t uid)
{
	int in = open(o->input, O_RDONLY | O_CLOEXEC), wait_status;

	if (in < 0) {
		fprintf(stderr,
			"bulkhead: cannot read the recording %s: %s; nothing is converted\n",
			o->input, strerror(errno));
		return STATUS_FAILED;
	}
	bool created;
	int out = outputs_open_path(output->path, &created);
	if (out < 0) {
		fprintf(stderr, "bulkhead: cannot write %s: %s; name another file with -o\n",
			output->path, strerror(errno));
		close(in);
		return STATUS_FAILED;
	}
	/* Only regular files can be truncated; pipes and devices need no truncation. Standard
	 * output is the caller's own, who may have written to it before. */
	if (strcmp(output->path, "-") && ftruncate(out, 0) < 0)
		log_debug("cannot truncate the output: %s", strerror(errno));
	pid_t pid = fork();
	if (pid == 0)
		report_exec(in, out, uid, output->format, o);
	close(in);
	close(out);
	if (pid < 0 || waitpid(pid, &wait_status, 0) < 0) {
		fprintf(stderr, "bulkhead: cannot start the converter: %s; nothing is converted\n",
			strerror(errno));
		return STATUS_FAILED;
	}
	if (WIFSIGNALED(wait_status))
		fprintf(stderr,
			"bulkhead: the converter was killed; the output is incomplete: signal=%d\n",
			WTERMSIG(wait_status));
	return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : STATUS_FAILED;
}

int report_main(int argc, char **argv)
{
	struct report_options options;
	int status = report_parse(argc, argv, &options);

	if (status < 0) {
		help_print_report(stdout);
		return STATUS_DONE;
	}
	uid_t uid = 0;
	if (!status)
		status = report_choose_uid(&uid);
	for (unsigned int i = 0; i < options.output_count && !status; i++)
		status = report_convert(&options, &options.outputs[i], uid);
	return status;
}
