/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/runtime_set.h"
#include "common/exit_status.h"

enum {
	FREQUENCY_MAX_HZ = 10000,
	FREQUENCY_DEFAULT_HZ = 99
};

static const char *const format_names[] = {"html", "folded", "pprof", "speedscope", "otlp", "tree"};

static const struct {
	const char *extension, *format;
} extensions[] = {
    {".html", "html"},
    {".htm", "html"},
    {".folded", "folded"},
    {".collapsed", "folded"},
    {".txt", "tree"},
    {".pb.gz", "pprof"},
    {".pprof", "pprof"},
    {".speedscope.json", "speedscope"},
    {".speedscope", "speedscope"},
    {".otlp", "otlp"},
};

void options_usage(void)
{
	static const char text[] =
	    "usage: bulkhead record [options] -o FILE... [-- COMMAND...]\n"
	    "       bulkhead report RECORDING.otlp -o FILE...\n"
	    "       bulkhead run [options]\n"
	    "       bulkhead status [--json | --metrics | --ready]\n"
	    "\n"
	    "record: profile the whole machine, or what the filters select, into files\n"
	    "  -o, --output FILE     write FILE (repeatable); - is standard output. The format "
	    "follows the name:\n"
	    "                        .html .folded .pb.gz .speedscope.json .otlp .txt (tree)\n"
	    "      --format FORMAT   html, folded, pprof, speedscope, otlp or tree, for the "
	    "outputs that follow\n"
	    "  -F, --freq HZ         samples a second and CPU (99)\n"
	    "  -d, --duration TIME   10, 10s, 500ms, 2m or 1h; without it: until Ctrl-C or the "
	    "command's end\n"
	    "  -a, --all             every process (the default)\n"
	    "  -p, --pid PID,...     only these processes\n"
	    "  -t, --tid TID         only this thread\n"
	    "  -G, --cgroup PATH     only processes in this cgroup (v2) and below\n"
	    "      --comm NAME       only threads of this name\n"
	    "  -U, --user            user stacks only\n"
	    "  -K, --kernel          kernel stacks only\n"
	    "      --group-by WHAT   name (the default): processes of one name are one entry; or "
	    "pid\n"
	    "      --runtimes LIST   language runtimes whose frames get names: all (the default), "
	    "none, or\n"
	    "                        names by commas, of"
#define RUNTIME(id, name, frame_type, title) " " #name
#include "common/runtimes.def"
#undef RUNTIME
	    "\n"
	    "      --strict-memory   without CAP_DAC_READ_SEARCH: processes' memory is read by "
	    "process_vm_readv,\n"
	    "                        and of files only those that everyone may read\n"
	    "      --stats FILE      counts, losses and costs as JSON\n"
	    "      --max-loss SHARE  exit with 6 if more is lost: 0.01 or 1%\n"
	    "  -- COMMAND            profile COMMAND and what it starts; its exit status is passed "
	    "on\n"
	    "\n"
	    "report: convert a recording; -o - without --format prints a tree\n"
	    "\n"
	    "run: profile for good, and send to an OpenTelemetry backend; see bulkhead run --help\n"
	    "\n"
	    "status: how a running agent is doing, for people, scripts (JSON), Prometheus or a "
	    "probe\n"
	    "      --run-directory DIR  of the agent (/run/bulkhead)\n"
	    "\n"
	    "Exit status: 0 done, 1 failed, 2 wrong usage, 3 the kernel lacks something, 4 not "
	    "permitted,\n"
	    "5 not all was sent, the rest is kept, 6 too much lost\n";

	fputs(text, stdout);
}

static int usage_error(const char *what, const char *value)
{
	fprintf(stderr, "bulkhead: %s%s%s; see bulkhead --help\n", what, value ? ": " : "",
		value ? value : "");
	return STATUS_USAGE;
}

const char *options_format_of(const char *path)
{
	const size_t length = strlen(path);

	for (size_t i = 0; i < sizeof(extensions) / sizeof(extensions[0]); i++) {
		const size_t n = strlen(extensions[i].extension);

		if (length > n && !strcmp(path + length - n, extensions[i].extension))
			return extensions[i].format;
	}
	return NULL;
}

bool options_format_known(const char *format)
{
	for (size_t i = 0; i < sizeof(format_names) / sizeof(format_names[0]); i++) {
		if (!strcmp(format, format_names[i]))
			return true;
	}
	return false;
}

static const char *const group_by_names[] = {
    [GROUP_BY_NAME] = "name",
    [GROUP_BY_PID] = "pid",
};

const char *options_group_by_name(enum group_by group_by)
{
	return group_by_names[group_by];
}

bool options_parse_group_by(const char *text, enum group_by *group_by)
{
	for (size_t i = 0; i < sizeof(group_by_names) / sizeof(group_by_names[0]); i++) {
		if (!strcmp(text, group_by_names[i])) {
			*group_by = (enum group_by)i;
			return true;
		}
	}
	return false;
}

static bool parse_unsigned(const char *text, uint64_t max, char **end, uint64_t *value)
{
	errno = 0;
	*value = strtoull(text, end, 10);
	return !errno && *end != text && *text >= '0' && *text <= '9' && *value <= max;
}

static bool parse_duration(const char *text, uint64_t *ns)
{
	static const struct {
		const char *unit;
		double ns;
	} units[] = {{"", 1e9}, {"s", 1e9}, {"ms", 1e6}, {"m", 60e9}, {"h", 3600e9}};
	char *end;

	errno = 0;
	double value = strtod(text, &end);
	if (errno || end == text || !isfinite(value) || value <= 0)
		return false;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (!strcmp(end, units[i].unit) && value * units[i].ns < 1e18) {
			*ns = (uint64_t)(value * units[i].ns);
			return *ns > 0;
		}
	}
	return false;
}

static int parse_pids(struct record_options *o, const char *text)
{
	for (;;) {
		uint64_t pid;
		char *end;

		if (!parse_unsigned(text, 1u << 22, &end, &pid) || !pid || (*end && *end != ','))
			return usage_error("-p, --pid: not a process id", text);
		if (o->pid_count == MSG_FILTER_TARGETS_MAX)
			return usage_error("too many process ids", NULL);
		o->pids[o->pid_count++] = (uint32_t)pid;
		if (!*end)
			return 0;
		text = end + 1;
	}
}

static int parse_output(struct record_options *o, const char *path, const char *format)
{
	if (o->output_count == LIMIT_OUTPUTS)
		return usage_error("too many outputs", path);
	/* Without --format so far, and without a telling name, one that comes later decides. */
	o->outputs[o->output_count++] = (struct output){
	    .path = path, .format = format ? format : options_format_of(path), .fd = -1};
	return 0;
}

static int settle_formats(struct record_options *o, const char *format)
{
	for (unsigned int i = 0; i < o->output_count; i++) {
		if (!o->outputs[i].format)
			o->outputs[i].format = format;
		if (!o->outputs[i].format)
			return usage_error(
			    "the name of an output does not tell its format (--format does)",
			    o->outputs[i].path);
	}
	return 0;
}

static int parse_loss(struct record_options *o, const char *text)
{
	char *end;
	double value = strtod(text, &end);

	if (end != text && *end == '%') {
		value /= 100;
		end++;
	}
	if (end == text || *end || !(value >= 0 && value <= 1))
		return usage_error("--max-loss: not a share", text);
	o->max_loss = value;
	return 0;
}

enum {
	OPTION_FORMAT = 256,
	OPTION_COMM,
	OPTION_STATS,
	OPTION_MAX_LOSS,
	OPTION_RUNTIMES,
	OPTION_GROUP_BY,
	OPTION_STRICT_MEMORY
};

static int parse_runtimes(struct record_options *o, const char *text)
{
	if (runtime_set_parse(text, &o->runtimes))
		return 0;
	fprintf(stderr,
		"bulkhead: --runtimes: not all, none, or of %s, by commas: %s; see bulkhead "
		"--help\n",
		runtime_set_names(), text);
	return STATUS_USAGE;
}

static int parse_number_option(int option, const char *text, struct record_options *o)
{
	uint64_t value;
	char *end;

	if (option == 'F') {
		if (!parse_unsigned(text, FREQUENCY_MAX_HZ, &end, &value) || *end || !value)
			return usage_error("-F, --freq: not a frequency from 1 to 10000 Hz", text);
		o->frequency_hz = (unsigned int)value;
		return 0;
	}
	if (!parse_unsigned(text, 1u << 22, &end, &value) || *end || !value)
		return usage_error("-t, --tid: not a thread id", text);
	o->tid = (uint32_t)value;
	return 0;
}

static int parse_option(int option, const char *value, struct record_options *o,
			const char **format)
{
	switch (option) {
	case 'F':
	case 't':
		return parse_number_option(option, value, o);
	case 'd':
		return parse_duration(value, &o->duration_ns)
			   ? 0
			   : usage_error("-d, --duration: not a duration", value);
	case 'p':
		return parse_pids(o, value);
	case 'a':
		return 0;
	case 'o':
		return parse_output(o, value, *format);
	case 'G':
		o->cgroup = value;
		return 0;
	case 'U':
		o->user_only = true;
		return 0;
	case 'K':
		o->kernel_only = true;
		return 0;
	case 'h':
		options_usage();
		return -1;
	case OPTION_FORMAT:
		*format = value;
		return options_format_known(value) ? 0
						   : usage_error("--format: unknown format", value);
	case OPTION_COMM:
		o->comm = value;
		return strlen(value) < MSG_COMM_BYTES
			   ? 0
			   : usage_error("--comm: thread names have at most 15 characters", value);
	case OPTION_STATS:
		o->stats_path = value;
		return 0;
	case OPTION_MAX_LOSS:
		return parse_loss(o, value);
	case OPTION_RUNTIMES:
		return parse_runtimes(o, value);
	case OPTION_GROUP_BY:
		return options_parse_group_by(value, &o->group_by)
			   ? 0
			   : usage_error("--group-by: must be name or pid", value);
	case OPTION_STRICT_MEMORY:
		o->strict_memory = true;
		return 0;
	default:
		return STATUS_USAGE;
	}
}

static int check_options(const struct record_options *o)
{
	if (!o->output_count)
		return usage_error("no output: -o FILE", NULL);
	if (o->user_only && o->kernel_only)
		return usage_error("-U and -K exclude each other", NULL);
	if (o->command && (o->pid_count || o->tid))
		return usage_error("a command excludes -p and -t", NULL);
	return 0;
}

int options_parse_record(int argc, char **argv, struct record_options *o)
{
	static const struct option options[] = {
	    {"freq", required_argument, NULL, 'F'},
	    {"duration", required_argument, NULL, 'd'},
	    {"pid", required_argument, NULL, 'p'},
	    {"tid", required_argument, NULL, 't'},
	    {"all", no_argument, NULL, 'a'},
	    {"output", required_argument, NULL, 'o'},
	    {"cgroup", required_argument, NULL, 'G'},
	    {"user", no_argument, NULL, 'U'},
	    {"kernel", no_argument, NULL, 'K'},
	    {"help", no_argument, NULL, 'h'},
	    {"format", required_argument, NULL, OPTION_FORMAT},
	    {"comm", required_argument, NULL, OPTION_COMM},
	    {"stats", required_argument, NULL, OPTION_STATS},
	    {"max-loss", required_argument, NULL, OPTION_MAX_LOSS},
	    {"runtimes", required_argument, NULL, OPTION_RUNTIMES},
	    {"group-by", required_argument, NULL, OPTION_GROUP_BY},
	    {"strict-memory", no_argument, NULL, OPTION_STRICT_MEMORY},
	    {NULL, 0, NULL, 0},
	};
	const char *format = NULL;
	int option, r = 0;

	*o = (struct record_options){.frequency_hz = FREQUENCY_DEFAULT_HZ,
				     .runtimes = RUNTIME_SET_ALL,
				     .stats_fd = -1,
				     .max_loss = -1};
	opterr = 0;
	while (!r &&
	       (option = getopt_long(argc, argv, "+:F:d:p:t:ao:G:UKh", options, NULL)) != -1) {
		if (option == '?')
			return usage_error("unknown option", argv[optind - 1]);
		if (option == ':')
			return usage_error("an argument is missing after", argv[optind - 1]);
		r = parse_option(option, optarg, o, &format);
	}
	if (r)
		return r;
	if (optind < argc) {
		if (strcmp(argv[optind - 1], "--"))
			return usage_error("not an option (a command comes after --)",
					   argv[optind]);
		o->command = argv + optind;
	}
	r = settle_formats(o, format);
	return r ? r : check_options(o);
}
