/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this works: all three formats show the same totals, which totals_of() computes from the
 * report. Each sample is counted once:
 *
 *     taken + spooled_at_start = delivered + waiting + in flight + lost
 *
 * All but "in flight" are counters, so it is the rest: samples in the ring, in the worker, or in
 * the current report interval. The counters come from different processes at slightly different
 * times, so the rest may be negative for a moment; it is then shown as 0.
 *
 * Example: 100 samples taken, none spooled at the start, 60 delivered, 10 in the spool, 5 lost:
 * 25 are in flight.
 *
 * Texts of the exporter and of the backend (endpoint, last error) are not trusted: the text format
 * escapes what could drive a terminal, and JSON escapes them as JSON strings.
 */
#include "cli/status_print.h"

#include <inttypes.h>
#include <string.h>

#include "control/agent.h"
#include "cli/names.h"
#include "cli/runtime_print.h"
#include "common/escape.h"
#include "common/incomplete_reasons.h"
#include "common/log.h"

static const char *const phase_names[] = {"starting", "running",  "restarting",
					  "stopping", "draining", "done"};

static const char *phase_name(const struct agent_report *report)
{
	return report->phase < sizeof(phase_names) / sizeof(phase_names[0])
		   ? phase_names[report->phase]
		   : "unknown";
}

/* Totals that all three formats show. `lost` has the losses of all roles, by reason. */
struct totals {
	uint64_t taken, waiting, in_flight, lost_total;
	uint64_t lost[LOSS_COUNT];
	uint64_t rss_bytes;
};

static struct totals totals_of(const struct agent_report *report)
{
	const struct export_stats *l = &report->stats;
	struct totals f = {.taken = l->taken_before + l->taken, .waiting = l->waiting};

	for (int i = 0; i < LOSS_COUNT; i++) {
		f.lost[i] = l->lost.lost[i] + l->lost_before.lost[i] + l->lost_kernel.lost[i] +
			    report->lost_worker.lost[i];
		f.lost_total += f.lost[i];
	}
	for (int role = 0; role < ROLE_COUNT; role++)
		f.rss_bytes += report->roles[role].rss_bytes;
	const uint64_t accounted = l->delivered + f.lost_total + f.waiting;
	const uint64_t all = f.taken + l->spooled_at_start;
	f.in_flight = all > accounted ? all - accounted : 0;
	return f;
}

static double seconds_since(uint64_t now_ns, uint64_t then_ns)
{
	return now_ns > then_ns ? (double)(now_ns - then_ns) / 1e9 : 0;
}

/* Returns the Unix time of a time of CLOCK_BOOTTIME, by the clock as it is set now. 0 stays 0. */
static uint64_t unix_ns(const struct agent_report *report, uint64_t boot_ns)
{
	return boot_ns ? report->now_unix_ns - (report->now_boot_ns - boot_ns) : 0;
}

static double mib(uint64_t bytes)
{
	return (double)bytes / (1 << 20);
}

/* --- text --- */

static void print_backend(const struct agent_report *report, FILE *out)
{
	const struct export_stats *l = &report->stats;
	const uint64_t now = report->now_boot_ns;
	char message[512];

	fprintf(out, "backend   %s: %" PRIu64 " requests, %.1f MiB", report->endpoint,
		l->delivered_requests, mib(l->delivered_bytes));
	if (l->last_success_boot_ns)
		fprintf(out, ", last %.0f s ago", seconds_since(now, l->last_success_boot_ns));
	fputc('\n', out);
	if (l->last_failure_boot_ns > l->last_success_boot_ns)
		fprintf(out, "          failing since the last success; ");
	else if (l->last_failure_boot_ns)
		fprintf(out, "          ");
	if (l->last_failure_boot_ns)
		fprintf(out, "last error %.0f s ago: %s\n",
			seconds_since(now, l->last_failure_boot_ns),
			log_escape(l->last_message, message, sizeof(message)));
	if (l->next_attempt_boot_ns > now)
		fprintf(out, "          next attempt in %.0f s\n",
			(double)(l->next_attempt_boot_ns - now) / 1e9);
	fprintf(out,
		"spool     %" PRIu64 " samples in %" PRIu64 " records wait: %.1f MiB in memory, "
		"%.1f MiB on disk\n",
		l->waiting, l->waiting_records, mib(l->spool_memory_bytes),
		mib(l->spool_disk_bytes));
	if (l->spool_error)
		fprintf(out, "          the directory cannot be used, samples wait in memory: %s\n",
			strerror((int)l->spool_error));
}

void status_print_text(const struct agent_report *report, FILE *out)
{
	const struct export_stats *l = &report->stats;
	const struct totals f = totals_of(report);
	const double up = seconds_since(report->now_boot_ns, report->started_boot_ns);

	fprintf(out, "agent     %s%s for %.0f s at %u Hz", phase_name(report),
		report->sampling ? "" : " (not sampling)", up, report->frequency_hz);
	if (report->probability_percent < 100)
		fprintf(out, ", %u %% of the time", report->probability_percent);
	if (report->paused_ns)
		fprintf(out, "\n          did not sample for %.1f s while roles were started again",
			(double)report->paused_ns / 1e9);
	fprintf(out,
		"\nsamples   %" PRIu64 " taken (%.1f/s), %" PRIu64 " delivered, %" PRIu64
		" waiting, %" PRIu64 " in flight, %" PRIu64 " lost\n",
		f.taken, up > 0 ? (double)f.taken / up : 0, l->delivered, f.waiting, f.in_flight,
		f.lost_total);
	for (int i = 0; i < LOSS_COUNT; i++) {
		if (f.lost[i])
			fprintf(out, "          lost, %s: %" PRIu64 "\n", loss_names[i], f.lost[i]);
	}
	for (int i = 1; i < INCOMPLETE_COUNT; i++) {
		if (l->incomplete[i])
			fprintf(out, "          stacks cut, %s: %" PRIu64 "\n",
				incomplete_reason_names[i], l->incomplete[i]);
	}
	runtime_print_status(report->runtimes, out);
	print_backend(report, out);
	fprintf(out, "memory    %.1f MiB resident, %.1f MiB in the kernel\n", mib(f.rss_bytes),
		mib(report->map_bytes));
	for (int role = ROLE_CONTROL + 1; role < ROLE_COUNT; role++) {
		const struct agent_report_role *r = &report->roles[role];

		fprintf(out, "          %-16s pid %-7u %5.1f MiB", role_names[role].process, r->pid,
			mib(r->rss_bytes));
		if (r->restarts)
			fprintf(out, "  restarted %u times", r->restarts);
		fputc('\n', out);
	}
}

/* --- JSON --- */

static void json_text(FILE *out, const char *text)
{
	escape_write_json(out, text, strlen(text), ESCAPE_JSON);
}

static void json_number(FILE *out, const char *key, uint64_t value)
{
	fprintf(out, "  \"%s\": %" PRIu64 ",\n", key, value);
}

static void json_backend(const struct agent_report *report, FILE *out)
{
	const struct export_stats *l = &report->stats;

	fprintf(out, "  \"backend\": {\"endpoint\": ");
	json_text(out, report->endpoint);
	fprintf(out,
		", \"requests\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"attempts\": %" PRIu64
		", \"failures\": %" PRIu64 ", \"refused_requests\": %" PRIu64
		", \"partial_requests\": %" PRIu64 ", \"rejected_profiles\": %" PRIu64
		", \"last_success_unix_ns\": %" PRIu64 ", \"last_failure_unix_ns\": %" PRIu64
		", \"next_attempt_unix_ns\": %" PRIu64 ", \"last_code\": %" PRIu64
		", \"last_error\": ",
		l->delivered_requests, l->delivered_bytes, l->attempts, l->failures,
		l->refused_requests, l->partial_requests, l->rejected_profiles,
		unix_ns(report, l->last_success_boot_ns), unix_ns(report, l->last_failure_boot_ns),
		unix_ns(report, l->next_attempt_boot_ns), l->last_code);
	json_text(out, l->last_message);
	fprintf(out,
		"},\n  \"spool\": {\"samples\": %" PRIu64 ", \"records\": %" PRIu64
		", \"memory_bytes\": %" PRIu64 ", \"disk_bytes\": %" PRIu64
		", \"oldest_unix_ns\": %" PRIu64 ", \"damaged_records\": %" PRIu64
		", \"disk_error\": %" PRIu64 "},\n",
		l->waiting, l->waiting_records, l->spool_memory_bytes, l->spool_disk_bytes,
		l->oldest_unix_ns, l->damaged_records, l->spool_error);
}

static void json_roles(const struct agent_report *report, FILE *out)
{
	fprintf(out, "  \"roles\": {\n");
	for (int role = ROLE_CONTROL + 1; role < ROLE_COUNT; role++) {
		const struct agent_report_role *r = &report->roles[role];

		fprintf(out,
			"    \"%s\": {\"pid\": %u, \"restarts\": %u, \"rss_bytes\": %" PRIu64
			", \"pss_bytes\": %" PRIu64 "}%s\n",
			role_names[role].directory, r->pid, r->restarts, r->rss_bytes, r->pss_bytes,
			role + 1 < ROLE_COUNT ? "," : "");
	}
	fprintf(out, "  }\n");
}

void status_print_json(const struct agent_report *report, FILE *out)
{
	const struct export_stats *l = &report->stats;
	const struct totals f = totals_of(report);

	fprintf(out, "{\n  \"state\": \"%s\",\n  \"ready\": %s,\n  \"sampling\": %s,\n",
		phase_name(report), report->ready ? "true" : "false",
		report->sampling ? "true" : "false");
	json_number(out, "now_unix_ns", report->now_unix_ns);
	json_number(out, "started_unix_ns", unix_ns(report, report->started_boot_ns));
	json_number(out, "frequency_hz", report->frequency_hz);
	json_number(out, "probability_percent", report->probability_percent);
	json_number(out, "paused_ms", report->paused_ns / 1000000);
	json_number(out, "taken", f.taken);
	json_number(out, "spooled_at_start", l->spooled_at_start);
	json_number(out, "received", l->received);
	json_number(out, "delivered", l->delivered);
	json_number(out, "waiting", f.waiting);
	json_number(out, "in_flight", f.in_flight);
	json_number(out, "deferred", report->deferred);
	names_print_json(out, "lost", loss_names, f.lost, 0, LOSS_COUNT);
	names_print_json(out, "incomplete", incomplete_reason_names, l->incomplete, 1,
			 INCOMPLETE_COUNT);
	runtime_print_json(report->runtimes, out);
	json_backend(report, out);
	fprintf(out,
		"  \"bpf\": {\"map_bytes\": %" PRIu64 ", \"run_time_ns\": %" PRIu64
		", \"run_cnt\": %" PRIu64 "},\n",
		report->map_bytes, report->bpf_run_ns, report->bpf_run_count);
	json_roles(report, out);
	fprintf(out, "}\n");
}

/* --- metrics --- */

static void metric(FILE *out, const char *name, const char *type, const char *help, uint64_t value)
{
	fprintf(out, "# HELP bulkhead_%s %s\n# TYPE bulkhead_%s %s\nbulkhead_%s %" PRIu64 "\n",
		name, help, name, type, name, value);
}

static void metric_counts(FILE *out, const char *name, const char *help, const char *const *names,
			  const uint64_t *counts, int first, int count)
{
	fprintf(out, "# HELP bulkhead_%s %s\n# TYPE bulkhead_%s counter\n", name, help, name);
	for (int i = first; i < count; i++)
		fprintf(out, "bulkhead_%s{reason=\"%s\"} %" PRIu64 "\n", name, names[i], counts[i]);
}

static void metric_roles(const struct agent_report *report, FILE *out)
{
	fprintf(out, "# HELP bulkhead_role_resident_bytes Resident memory of a role.\n"
		     "# TYPE bulkhead_role_resident_bytes gauge\n");
	for (int role = ROLE_CONTROL + 1; role < ROLE_COUNT; role++)
		fprintf(out, "bulkhead_role_resident_bytes{role=\"%s\"} %" PRIu64 "\n",
			role_names[role].directory, report->roles[role].rss_bytes);
	fprintf(out, "# HELP bulkhead_role_restarts_total Restarts of a role.\n"
		     "# TYPE bulkhead_role_restarts_total counter\n");
	for (int role = ROLE_CONTROL + 1; role < ROLE_COUNT; role++)
		fprintf(out, "bulkhead_role_restarts_total{role=\"%s\"} %u\n",
			role_names[role].directory, report->roles[role].restarts);
}

void status_print_metrics(const struct agent_report *report, FILE *out)
{
	const struct export_stats *l = &report->stats;
	const struct totals f = totals_of(report);

	metric(out, "ready", "gauge", "1 if samples arrive at the exporter.", report->ready);
	metric(out, "sampling", "gauge", "1 if this host samples now (agent.probability).",
	       report->sampling);
	metric(out, "start_time_seconds", "gauge", "Unix time when the agent was started.",
	       unix_ns(report, report->started_boot_ns) / 1000000000u);
	metric(out, "paused_milliseconds_total", "counter",
	       "How long nothing was sampled while roles were started again.",
	       report->paused_ns / 1000000);
	metric(out, "samples_taken_total", "counter", "Samples taken by the kernel.", f.taken);
	metric(out, "samples_delivered_total", "counter", "Samples that the backend accepted.",
	       l->delivered);
	metric(out, "samples_waiting", "gauge", "Samples that wait in the spool.", f.waiting);
	metric_counts(out, "samples_lost_total", "Samples lost, by reason.", loss_names, f.lost, 0,
		      LOSS_COUNT);
	metric_counts(out, "stacks_incomplete_total",
		      "Samples with an incomplete stack, by reason.", incomplete_reason_names,
		      l->incomplete, 1, INCOMPLETE_COUNT);
	metric(out, "export_requests_total", "counter", "Requests that the backend accepted.",
	       l->delivered_requests);
	metric(out, "export_bytes_total", "counter", "Bytes of the accepted requests.",
	       l->delivered_bytes);
	metric(out, "export_failures_total", "counter", "Requests that failed and are retried.",
	       l->failures);
	metric(out, "export_requests_refused_total", "counter",
	       "Requests that the backend will never accept, dropped.", l->refused_requests);
	metric(out, "export_requests_partial_total", "counter",
	       "Requests that the backend accepted in part.", l->partial_requests);
	metric(out, "export_profiles_rejected_total", "counter",
	       "Profiles that the backend rejected in these requests.", l->rejected_profiles);
	metric(out, "export_last_success_seconds", "gauge",
	       "Unix time when the backend last accepted a request.",
	       unix_ns(report, l->last_success_boot_ns) / 1000000000u);
	metric(out, "spool_records", "gauge", "Requests that wait in the spool.",
	       l->waiting_records);
	metric(out, "spool_memory_bytes", "gauge", "Bytes of waiting requests in memory.",
	       l->spool_memory_bytes);
	metric(out, "spool_disk_bytes", "gauge", "Bytes of waiting requests on disk.",
	       l->spool_disk_bytes);
	metric(out, "spool_damaged_records_total", "counter",
	       "Records of the spool that were damaged, dropped.", l->damaged_records);
	metric(out, "bpf_map_bytes", "gauge", "Bytes of BPF maps.", report->map_bytes);
	runtime_print_metrics(report->runtimes, out);
	metric_roles(report, out);
}
