/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/summary.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/names.h"
#include "cli/runtime_print.h"
#include "common/cleanup.h"
#include "common/escape.h"
#include "common/incomplete_reasons.h"
#include "common/log.h"
#include "ipc/losses.h"

void summary_losses(const struct recording_stats *stats, struct msg_losses *losses)
{
	const struct msg_status *exporter = &stats->status[ROLE_EXPORTER];
	const uint64_t taken = stats->status[ROLE_LOADER].taken;

	*losses = exporter->losses;
	const uint64_t accounted = exporter->exported + losses_total(losses);
	if (accounted < taken)
		losses->lost[LOSS_ROLE_ENDED] += taken - accounted;
}

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

void summary_print_progress(const struct recording_stats *stats)
{
	const struct msg_status *exporter = &stats->status[ROLE_EXPORTER];
	struct msg_losses losses = exporter->losses;

	fprintf(stderr,
		"\r\033[K%.1f s  %" PRIu64 " samples  %" PRIu64 " lost  %" PRIu64
		" processes  %.0f %% of frames named",
		(double)stats->duration_ns / 1e9, stats->status[ROLE_LOADER].taken,
		losses_total(&losses), exporter->processes,
		percent(exporter->frames_named, exporter->frames));
}

void summary_clear_progress(void)
{
	fputs("\r\033[K", stderr);
}

/* Prints one line of the list of processes; `share` is in percent. */
static void print_top_process(const struct msg_top_process *process, enum group_by group_by,
			      double share)
{
	const unsigned int members = process->members;
	char name[4 * sizeof(process->name) + 1]; /* an escape has four bytes */

	escape_text(name, sizeof(name), process->name,
		    strnlen(process->name, sizeof(process->name)), ESCAPE_KEEP_PRINTABLE, NULL);
	if (group_by == GROUP_BY_PID)
		fprintf(stderr, "%5.1f %%  %s (pid %u)\n", share, name, process->id);
	else if (group_by == GROUP_BY_THREAD)
		fprintf(stderr, "%5.1f %%  %s (%u thread%s)\n", share, name, members,
			members == 1 ? "" : "s");
	else
		fprintf(stderr, "%5.1f %%  %s (%u process%s)\n", share, name, members,
			members == 1 ? "" : "es");
}

/* Prints the processes or threads with the most samples, with their shares of all samples. */
static void print_top_processes(const struct recording_stats *stats, enum group_by group_by)
{
	const uint64_t samples = stats->status[ROLE_EXPORTER].exported;

	if (!stats->top_process_count)
		return;
	fputs(group_by == GROUP_BY_THREAD ? "  total  thread\n" : "  total  process\n", stderr);
	for (unsigned int i = 0; i < stats->top_process_count; i++)
		print_top_process(&stats->top_processes[i], group_by,
				  percent(stats->top_processes[i].samples, samples));
}

/* Prints the functions with the most samples, with their shares of all samples. */
static void print_top_functions(const struct recording_stats *stats)
{
	const uint64_t samples = stats->status[ROLE_EXPORTER].exported;
	char name[sizeof(stats->top_functions[0].name)];

	if (!stats->top_function_count)
		return;
	fprintf(stderr, "   self   total  function\n");
	for (unsigned int i = 0; i < stats->top_function_count; i++) {
		char text[sizeof(stats->top_functions[i].name) + 1] = "";

		memcpy(text, stats->top_functions[i].name, sizeof(stats->top_functions[i].name));
		fprintf(stderr, "%5.1f %%  %5.1f %%  %s\n",
			percent(stats->top_functions[i].self, samples),
			percent(stats->top_functions[i].total, samples),
			log_escape(text, name, sizeof(name)));
	}
}

/* Prints one line for each count that is not 0: `what`, the name, the count and its share of
 * `whole`. */
static void print_reasons(const char *what, const char *const *names, const uint64_t *counts,
			  int first, int count, uint64_t whole)
{
	for (int i = first; i < count; i++) {
		if (counts[i])
			fprintf(stderr, "%s %s: %" PRIu64 " (%.2f %%)\n", what, names[i], counts[i],
				percent(counts[i], whole));
	}
}

void summary_print(const struct record_options *options, const struct recording_stats *stats)
{
	const struct msg_status *exporter = &stats->status[ROLE_EXPORTER];
	const uint64_t taken = stats->status[ROLE_LOADER].taken;
	struct msg_losses losses;

	summary_losses(stats, &losses);
	fprintf(stderr,
		"recorded %.1f s at %u Hz: %" PRIu64 " samples, %" PRIu64 " lost, %" PRIu64
		" processes, %" PRIu64 " distinct stacks, %.1f %% of frames named\n",
		(double)stats->duration_ns / 1e9, options->frequency_hz, taken,
		losses_total(&losses), exporter->processes, exporter->stacks,
		percent(exporter->frames_named, exporter->frames));
	print_reasons("lost,", loss_names, losses.lost, 0, LOSS_COUNT, taken);
	print_reasons("stacks cut,", incomplete_reason_names, exporter->incomplete, 1,
		      INCOMPLETE_COUNT, taken);
	runtime_print_faults(stats->status[ROLE_WORKER].runtimes, stderr);
	print_top_processes(stats, options->group_by);
	print_top_functions(stats);
	debug_hint_print(stats->unnamed_modules, stats->unnamed_module_count, exporter->exported,
			 "/var/lib/dpkg/info", stderr);
	for (unsigned int i = 0; i < options->output_count; i++) {
		if (strcmp(options->outputs[i].path, "-"))
			fprintf(stderr, "wrote %s (%s)\n", options->outputs[i].path,
				options->outputs[i].format);
	}
}

static uint64_t timeval_ns(const struct timeval *t)
{
	return (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_usec * 1000u;
}

static void write_roles(FILE *f, const struct roles *roles)
{
	fprintf(f, "  \"roles\": {\n");
	for (int role = ROLE_CONTROL + 1; role < ROLE_COUNT; role++) {
		const struct role_process *c = &roles->processes[role];

		fprintf(f,
			"    \"%s\": {\"pid\": %d, \"uid\": %u, \"rss_bytes\": %" PRIu64
			", \"pss_bytes\": %" PRIu64 ", \"peak_rss_bytes\": %" PRIu64
			", \"user_ns\": %" PRIu64 ", \"system_ns\": %" PRIu64 "}%s\n",
			role_names[role].directory, c->started, (unsigned int)roles->uids.uid[role],
			c->rss_bytes, c->pss_bytes, (uint64_t)c->usage.ru_maxrss << 10,
			timeval_ns(&c->usage.ru_utime), timeval_ns(&c->usage.ru_stime),
			role + 1 < ROLE_COUNT ? "," : "");
	}
	fprintf(f, "  },\n");
}

int summary_write_stats(int fd, const struct recording_stats *stats, const struct roles *roles)
{
	const struct msg_status *loader = &stats->status[ROLE_LOADER],
				*exporter = &stats->status[ROLE_EXPORTER];
	struct msg_losses losses;
	FILE *f = fdopen(fd, "w");

	if (!f)
		return -errno;
	summary_losses(stats, &losses);
	fprintf(f, "{\n  \"taken\": %" PRIu64 ",\n  \"exported\": %" PRIu64 ",\n", loader->taken,
		exporter->exported);
	names_print_json(f, "lost", loss_names, losses.lost, 0, LOSS_COUNT);
	names_print_json(f, "incomplete", incomplete_reason_names, exporter->incomplete, 1,
			 INCOMPLETE_COUNT);
	fprintf(f,
		"  \"deferred\": %" PRIu64 ",\n  \"batch_bytes\": %" PRIu64
		",\n  \"duration_ns\": %" PRIu64 ",\n",
		loader->deferred, stats->status[ROLE_WORKER].batch_bytes, stats->duration_ns);
	runtime_print_json(stats->status[ROLE_WORKER].runtimes, f);
	write_roles(f, roles);
	fprintf(f,
		"  \"bpf\": {\"map_bytes\": %" PRIu64 ", \"ring_bytes\": %" PRIu64
		", \"run_time_ns\": %" PRIu64 ", \"run_cnt\": %" PRIu64 "}\n}\n",
		loader->map_bytes, stats->status[ROLE_WORKER].ring_bytes, loader->bpf_run_ns,
		loader->bpf_run_count);
	return fclose(f) == 0 ? 0 : -errno;
}
