/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/help.h"
#include "cli/output_format.h"
#include "config/runtime_set.h"
#include "common/exit_status.h"

/* The largest process id. Linux assigns ids below PID_MAX_LIMIT (include/linux/threads.h). */
#define PID_MAX ((1u << 22) - 1)

enum {
	FREQUENCY_MAX_HZ = 10000,
};

static int usage_error(const char *what, const char *value)
{
	fprintf(stderr, "bulkhead record: %s%s%s; see bulkhead record --help\n", what,
		value ? ": " : "", value ? value : "");
	return STATUS_USAGE;
}

static bool parse_unsigned(const char *text, uint64_t max, char **end, uint64_t *value)
{
	errno = 0;
	*value = strtoull(text, end, 10);
	return !errno && *end != text && *text >= '0' && *text <= '9' && *value <= max;
}

bool options_parse_frequency(const char *text, unsigned int *frequency_hz)
{
	uint64_t value;
	char *end;

	if (!parse_unsigned(text, FREQUENCY_MAX_HZ, &end, &value) || *end || !value)
		return false;
	*frequency_hz = (unsigned int)value;
	return true;
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

		if (!parse_unsigned(text, PID_MAX, &end, &pid) || !pid || (*end && *end != ','))
			return usage_error("-p, --pid: not a process id from 1 to 4194303", text);
		if (o->pid_count == MSG_FILTER_TARGETS_MAX)
			return usage_error(
			    "-p, --pid: at most 64 processes can be selected; use -G for more",
			    NULL);
		o->pids[o->pid_count++] = (uint32_t)pid;
		if (!*end)
			return 0;
		text = end + 1;
	}
}

static int parse_output(struct record_options *o, const char *path, const char *format)
{
	if (o->output_count == LIMIT_OUTPUTS)
		return usage_error("-o, --output: at most 8 outputs are possible", path);
	/* If the format is still NULL, complete_outputs() sets it from a later --format. */
	o->outputs[o->output_count++] = (struct output){
	    .path = path, .format = format ? format : output_format_from_path(path), .fd = -1};
	return 0;
}

/* Sets the formats that are missing. `format` is that of the last --format, or NULL. Returns an
 * exit status. */
static int complete_outputs(struct record_options *o, const char *format)
{
	if (!o->output_count)
		o->outputs[o->output_count++] =
		    (struct output){.format = format ? format : "html", .fd = -1};
	for (unsigned int i = 0; i < o->output_count; i++) {
		if (!o->outputs[i].format)
			o->outputs[i].format = format;
		if (!o->outputs[i].format)
			return usage_error(
			    "cannot infer the format from the file name; add --format",
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
		return usage_error("--max-loss: not a share from 0 to 1 or 0% to 100%", text);
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
	OPTION_STRICT_MEMORY,
	OPTION_DEBUG_DIR,
	OPTION_LINES,
	OPTION_NO_INLINE
};

static int parse_runtimes(struct record_options *o, const char *text)
{
	if (runtime_set_parse(text, &o->runtimes))
		return 0;
	fprintf(stderr,
		"bulkhead record: --runtimes must be all, none, or names of these separated by "
		"commas: %s: %s; see bulkhead record --help\n",
		runtime_set_names(), text);
	return STATUS_USAGE;
}

static int parse_debug_directory(struct record_options *o, const char *path)
{
	if (o->debug_directory_count == DEBUG_DIRECTORIES_MORE_MAX)
		return usage_error("--debug-dir: at most 7 directories are possible", path);
	o->debug_directories[o->debug_directory_count++] = path;
	return 0;
}

static int parse_number_option(int option, const char *text, struct record_options *o)
{
	uint64_t value;
	char *end;

	if (option == 'F')
		return options_parse_frequency(text, &o->frequency_hz)
			   ? 0
			   : usage_error("-F, --freq: not a frequency from 1 to 10000 Hz", text);
	if (!parse_unsigned(text, PID_MAX, &end, &value) || *end || !value)
		return usage_error("-t, --tid: not a thread id from 1 to 4194303", text);
	o->tid = (uint32_t)value;
	return 0;
}

/* Handles the options that have no value. -a is what happens without options. */
static int parse_flag(int option, struct record_options *o)
{
	o->user_only |= option == 'U';
	o->kernel_only |= option == 'K';
	o->strict_memory |= option == OPTION_STRICT_MEMORY;
	o->lines |= option == OPTION_LINES;
	o->without_inlined |= option == OPTION_NO_INLINE;
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
			   : usage_error("-d, --duration: not a time such as 10s, 500ms, 2m or 1h",
					 value);
	case 'p':
		return parse_pids(o, value);
	case 'o':
		return parse_output(o, value, *format);
	case 'G':
		o->cgroup = value;
		return 0;
	case 'h':
		help_print_record(stdout);
		return -1;
	case OPTION_FORMAT:
		*format = value;
		return output_format_exists(value)
			   ? 0
			   : usage_error(
				 "--format: must be html, folded, pprof, speedscope, otlp or tree",
				 value);
	case OPTION_COMM:
		o->comm = value;
		return strlen(value) < MSG_COMM_BYTES
			   ? 0
			   : usage_error("--comm: thread names have at most 15 bytes, the kernel "
					 "truncates longer ones",
					 value);
	case OPTION_STATS:
		o->stats_path = value;
		return 0;
	case OPTION_MAX_LOSS:
		return parse_loss(o, value);
	case OPTION_RUNTIMES:
		return parse_runtimes(o, value);
	case OPTION_GROUP_BY:
		return group_by_parse(value, &o->group_by)
			   ? 0
			   : usage_error("--group-by: must be name, pid or thread", value);
	case OPTION_DEBUG_DIR:
		return parse_debug_directory(o, value);
	default:
		return parse_flag(option, o);
	}
}

static int check_options(const struct record_options *o)
{
	if (o->user_only && o->kernel_only)
		return usage_error("-U and -K exclude each other: without both, user and kernel "
				   "stacks are sampled",
				   NULL);
	if (o->command && (o->pid_count || o->tid))
		return usage_error("-p and -t cannot be combined with a command, which selects the "
				   "processes itself",
				   NULL);
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
	    {"debug-dir", required_argument, NULL, OPTION_DEBUG_DIR},
	    {"lines", no_argument, NULL, OPTION_LINES},
	    {"no-inline", no_argument, NULL, OPTION_NO_INLINE},
	    {NULL, 0, NULL, 0},
	};
	const char *format = NULL;
	int option, r = 0;

	*o = (struct record_options){.frequency_hz = OPTIONS_FREQUENCY_DEFAULT_HZ,
				     .runtimes = RUNTIME_SET_ALL,
				     .stats_fd = -1,
				     .max_loss = -1};
	opterr = 0;
	while (!r &&
	       (option = getopt_long(argc, argv, "+:F:d:p:t:ao:G:UKh", options, NULL)) != -1) {
		if (option == '?')
			return usage_error("unknown option", argv[optind - 1]);
		if (option == ':')
			return usage_error("this option needs a value", argv[optind - 1]);
		r = parse_option(option, optarg, o, &format);
	}
	if (r)
		return r;
	if (optind < argc) {
		if (strcmp(argv[optind - 1], "--"))
			return usage_error(
			    "unexpected argument; to profile a command, put -- before it",
			    argv[optind]);
		o->command = argv + optind;
	}
	r = complete_outputs(o, format);
	return r ? r : check_options(o);
}
