/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/doctor.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "cli/check_print.h"
#include "cli/help.h"
#include "cli/options.h"
#include "common/exit_status.h"
#include "common/runtimes.h"

enum {
	/* More than there are checks. */
	DOCTOR_CHECKS_MAX = 64,
	NAME_WIDTH = 16, /* the longest name of a check */
};

struct diagnosis {
	struct check_result results[DOCTOR_CHECKS_MAX];
	unsigned int counts[CHECK_STATUS_COUNT];
	size_t first_fault; /* host_check_count: there is none */
	int exit_status;
};

struct doctor_options {
	bool json;
	struct check_wants wants;
};

static void doctor_judge(const struct host_facts *facts, const struct check_wants *wants,
			 struct diagnosis *d)
{
	d->first_fault = host_check_count;
	d->exit_status = STATUS_DONE;
	for (size_t i = 0; i < host_check_count; i++) {
		host_check_judge(&host_checks[i], facts, wants, &d->results[i]);
		d->counts[d->results[i].status]++;
		if (d->results[i].status != CHECK_FAULT || d->first_fault < i)
			continue;
		d->first_fault = i;
		d->exit_status = d->results[i].exit_status;
	}
}

static void print_verdict(const struct diagnosis *d, FILE *out)
{
	if (d->first_fault < host_check_count) {
		fprintf(out,
			"`bulkhead record` would fail here with exit status %d: ", d->exit_status);
		check_print_text(d->results[d->first_fault].found, out);
		fputc('\n', out);
		return;
	}
	fprintf(out, "`bulkhead record` works here");
	if (d->counts[CHECK_RESTRICTION])
		fprintf(out, "; restrictions: %u", d->counts[CHECK_RESTRICTION]);
	if (d->counts[CHECK_UNKNOWN])
		fprintf(out, "; not known: %u", d->counts[CHECK_UNKNOWN]);
	fputc('\n', out);
}

/* `exit_status` and `remedy` are null where there is none. */
static void json_check(const char *name, const struct check_result *result, bool last, FILE *out)
{
	fprintf(out, "    {\"name\": \"%s\", \"status\": \"%s\"", name,
		check_status_names[result->status]);
	check_print_json_member(out, "found", result->found);
	if (result->remedy[0])
		check_print_json_member(out, "remedy", result->remedy);
	else
		fprintf(out, ", \"remedy\": null");
	if (result->status == CHECK_FAULT)
		fprintf(out, ", \"exit_status\": %d", result->exit_status);
	else
		fprintf(out, ", \"exit_status\": null");
	fprintf(out, "}%s\n", last ? "" : ",");
}

static void json_diagnosis(const struct diagnosis *d, FILE *out)
{
	fprintf(out, "{\n  \"version\": \"" BULKHEAD_VERSION "\",\n  \"works\": %s,\n",
		d->exit_status ? "false" : "true");
	fprintf(out, "  \"exit_status\": %d,\n  \"checks\": [\n", d->exit_status);
	for (size_t i = 0; i < host_check_count; i++)
		json_check(host_checks[i].name, &d->results[i], i + 1 == host_check_count, out);
	fprintf(out, "  ]\n}\n");
}

int doctor_report(const struct host_facts *facts, const struct check_wants *wants, bool json,
		  FILE *out)
{
	struct diagnosis d = {0};

	doctor_judge(facts, wants, &d);
	if (json) {
		json_diagnosis(&d, out);
		return d.exit_status;
	}
	for (size_t i = 0; i < host_check_count; i++)
		check_print_row(check_status_names[d.results[i].status], host_checks[i].name,
				NAME_WIDTH, d.results[i].found, d.results[i].remedy, out);
	print_verdict(&d, out);
	return d.exit_status;
}

static int doctor_usage(const char *what)
{
	fprintf(stderr, "bulkhead doctor: %s; see bulkhead doctor --help\n", what);
	return STATUS_USAGE;
}

/* Returns an exit status, or -1 for --help. */
static int doctor_parse(int argc, char **argv, struct doctor_options *o)
{
	static const struct option options[] = {
	    {"json", no_argument, NULL, 'j'},
	    {"freq", required_argument, NULL, 'F'},
	    {"strict-memory", no_argument, NULL, 's'},
	    {"help", no_argument, NULL, 'h'},
	    {NULL, 0, NULL, 0},
	};
	int c;

	*o = (struct doctor_options){
	    .wants = {.frequency_hz = OPTIONS_FREQUENCY_DEFAULT_HZ, .runtimes = RUNTIME_SET_ALL}};
	opterr = 0;
	while ((c = getopt_long(argc, argv, "F:h", options, NULL)) != -1) {
		if (c == 'j')
			o->json = true;
		else if (c == 's')
			o->wants.strict_memory = true;
		else if (c == 'h')
			return -1;
		else if (c != 'F')
			return doctor_usage("unknown option, or an option without its value");
		else if (!options_parse_frequency(optarg, &o->wants.frequency_hz))
			return doctor_usage("-F, --freq: not a frequency from 1 to 10000 Hz");
	}
	return optind == argc ? STATUS_DONE
			      : doctor_usage("unexpected argument; only options are possible");
}

int doctor_main(int argc, char **argv)
{
	static struct host_facts facts;
	struct doctor_options options;

	_Static_assert(DOCTOR_CHECKS_MAX > 25, "one result per check");
	int status = doctor_parse(argc, argv, &options);
	if (status < 0) {
		help_print_doctor(stdout);
		return STATUS_DONE;
	}
	if (status)
		return status;
	host_facts_collect("", &facts);
	host_trials_make(options.wants.strict_memory ? TRIALS_PROCESSES_STRICTLY : TRIALS_PROCESSES,
			 &facts.trials);
	status = doctor_report(&facts, &options.wants, options.json, stdout);
	if (fflush(stdout) != 0 || ferror(stdout)) {
		perror("bulkhead: cannot write the report to standard output");
		return STATUS_FAILED;
	}
	return status;
}
