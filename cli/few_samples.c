/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/few_samples.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"

enum {
	LINE_BYTES = 1024,
	PATH_BYTES = 512,
};

static bool read_line(const char *path, char line[static LINE_BYTES])
{
	_cleanup_fclose_ FILE *f = fopen(path, "re");

	return f && fgets(line, LINE_BYTES, f);
}

/* Adds the fields utime and stime of /proc/PID/stat, in clock ticks: the 14th and 15th (proc(5)).
 * They are counted from the last ')', since the second field is a name that may hold anything. */
static bool add_ticks(const char *path, uint64_t *ticks)
{
	char line[LINE_BYTES], *saved;

	if (!read_line(path, line) || !strrchr(line, ')'))
		return false;
	char *field = strtok_r(strrchr(line, ')') + 1, " ", &saved);
	for (int i = 3; field && i < 14; i++)
		field = strtok_r(NULL, " ", &saved);
	const char *stime = field ? strtok_r(NULL, " ", &saved) : NULL;
	if (!stime)
		return false;
	*ticks += strtoull(field, NULL, 10) + strtoull(stime, NULL, 10);
	return true;
}

/* Adds the first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq in ticks. The
 * idle times do not count. */
static bool add_machine_ticks(uint64_t *ticks)
{
	char line[LINE_BYTES], *saved;

	if (!read_line("/proc/stat", line))
		return false;
	strtok_r(line, " ", &saved);
	for (int i = 0; i < 7; i++) {
		const char *field = strtok_r(NULL, " ", &saved);

		if (field && i != 3 && i != 4)
			*ticks += strtoull(field, NULL, 10);
	}
	return true;
}

static uint64_t ticks_to_ns(uint64_t ticks)
{
	return ticks * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK));
}

/* Reads usage_usec of cpu.stat, which every cgroup of version 2 has but the root. */
static bool read_cgroup_time(const char *directory, uint64_t *ns)
{
	static const char key[] = "usage_usec ";
	char path[PATH_BYTES], line[LINE_BYTES];

	snprintf(path, sizeof(path), "%s/cpu.stat", directory);
	if (!read_line(path, line) || strncmp(line, key, sizeof(key) - 1))
		return false;
	*ns = strtoull(line + sizeof(key) - 1, NULL, 10) * 1000;
	return true;
}

/* Returns whether neither the cgroup nor one below it has a process: "populated 0" in
 * cgroup.events. */
static bool is_cgroup_empty(const char *directory)
{
	char path[PATH_BYTES], line[LINE_BYTES];

	snprintf(path, sizeof(path), "%s/cgroup.events", directory);
	return read_line(path, line) && !strncmp(line, "populated 0", strlen("populated 0"));
}

static enum few_samples_scope scope_of(const struct record_options *o)
{
	if (o->command)
		return FEW_SAMPLES_OF_COMMAND;
	if (o->tid)
		return FEW_SAMPLES_OF_THREAD;
	if (o->pid_count)
		return FEW_SAMPLES_OF_PROCESSES;
	if (o->comm)
		return FEW_SAMPLES_OF_COMM;
	return o->cgroup ? FEW_SAMPLES_OF_CGROUP : FEW_SAMPLES_OF_MACHINE;
}

/* Adds the CPU time of the selected processes or thread. Returns how many of them exist. */
static unsigned int add_selected_ticks(const struct record_options *o, uint64_t *ticks)
{
	unsigned int found = 0;
	char path[64];

	if (o->tid) {
		snprintf(path, sizeof(path), "/proc/%u/task/%u/stat", o->tid, o->tid);
		return add_ticks(path, ticks);
	}
	for (unsigned int i = 0; i < o->pid_count; i++) {
		snprintf(path, sizeof(path), "/proc/%u/stat", o->pids[i]);
		found += add_ticks(path, ticks);
	}
	return found;
}

/* Reads the CPU time used so far. Returns false if it cannot be determined for this scope. */
static bool read_cpu_time(const struct record_options *o, uint64_t *ns)
{
	uint64_t ticks = 0;
	bool known = false;

	switch (scope_of(o)) {
	case FEW_SAMPLES_OF_MACHINE:
		known = add_machine_ticks(&ticks);
		break;
	case FEW_SAMPLES_OF_PROCESSES:
	case FEW_SAMPLES_OF_THREAD:
		known = add_selected_ticks(o, &ticks) > 0;
		break;
	case FEW_SAMPLES_OF_CGROUP:
		return o->cgroup_path[0] && read_cgroup_time(o->cgroup_path, ns);
	case FEW_SAMPLES_OF_COMM:
	case FEW_SAMPLES_OF_COMMAND:
		return false;
	}
	*ns = ticks_to_ns(ticks);
	return known;
}

void few_samples_start(struct few_samples *few, const struct record_options *options)
{
	few->cpu_time_known = read_cpu_time(options, &few->cpu_time_ns);
}

struct few_samples_facts few_samples_collect(const struct few_samples *few,
					     const struct record_options *o, uint64_t taken,
					     uint64_t duration_ns)
{
	const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	struct few_samples_facts facts = {
	    .scope = scope_of(o),
	    .taken = taken,
	    .duration_ns = duration_ns,
	    .frequency_hz = o->frequency_hz,
	    .cpu_count = cpus > 0 ? (unsigned int)cpus : 1,
	};
	uint64_t now_ns, unused = 0;

	if (few->cpu_time_known && read_cpu_time(o, &now_ns) && now_ns >= few->cpu_time_ns) {
		facts.cpu_time_known = true;
		facts.cpu_time_ns = now_ns - few->cpu_time_ns;
	}
	if (facts.scope == FEW_SAMPLES_OF_PROCESSES || facts.scope == FEW_SAMPLES_OF_THREAD)
		facts.gone = !add_selected_ticks(o, &unused);
	if (facts.scope == FEW_SAMPLES_OF_CGROUP)
		facts.empty = o->cgroup_path[0] && is_cgroup_empty(o->cgroup_path);
	return facts;
}

static const char *subject_of(enum few_samples_scope scope)
{
	static const char *const subjects[] = {
	    [FEW_SAMPLES_OF_MACHINE] = "the machine",
	    [FEW_SAMPLES_OF_PROCESSES] = "the selected process",
	    [FEW_SAMPLES_OF_THREAD] = "the selected thread",
	    [FEW_SAMPLES_OF_CGROUP] = "the selected cgroup",
	    [FEW_SAMPLES_OF_COMM] = "the threads of this name",
	    [FEW_SAMPLES_OF_COMMAND] = "the command",
	};

	return subjects[scope];
}

/* Returns how many samples the frequency allows in the time recorded, if all CPUs are busy. */
static uint64_t most_samples(const struct few_samples_facts *f)
{
	return (uint64_t)((double)f->duration_ns / 1e9 * f->frequency_hz * f->cpu_count);
}

static void explain_idle(const struct few_samples_facts *f, char *text, size_t size)
{
	if (f->cpu_time_known)
		snprintf(text, size,
			 "%s used %.2f s of CPU time in %.1f s and waited for the rest; only "
			 "running code is sampled: record while it is busy, or longer (-d), or "
			 "more often (-F)",
			 subject_of(f->scope), (double)f->cpu_time_ns / 1e9,
			 (double)f->duration_ns / 1e9);
	else if (f->scope == FEW_SAMPLES_OF_COMM)
		snprintf(text, size,
			 "no thread of this name ran, or only for moments; only running code is "
			 "sampled: compare the name given to --comm with ps -eL -o comm");
	else
		snprintf(text, size,
			 "%s ran only for moments and waited for the rest; only running code is "
			 "sampled: record longer (-d) or more often (-F)",
			 subject_of(f->scope));
}

bool few_samples_explain(const struct few_samples_facts *f,
			 char text[static FEW_SAMPLES_TEXT_BYTES])
{
	const size_t size = FEW_SAMPLES_TEXT_BYTES;

	if (f->taken >= FEW_SAMPLES)
		return false;
	if (f->empty)
		snprintf(text, size,
			 "the selected cgroup has no process: compare the path given to -G with "
			 "systemd-cgls");
	else if (f->gone && !f->taken)
		snprintf(text, size,
			 "%s ended before it was sampled: select one that runs, or let bulkhead "
			 "start it (-- COMMAND)",
			 subject_of(f->scope));
	else if (f->gone)
		snprintf(text, size,
			 "%s ended while it was recorded: let bulkhead start it (-- COMMAND), or "
			 "sample more often (-F)",
			 subject_of(f->scope));
	else if (most_samples(f) < 2 * FEW_SAMPLES)
		snprintf(text, size,
			 "%.2f s at %u Hz are at most %" PRIu64 " samples on %u CPUs: record "
			 "longer (-d) or more often (-F)",
			 (double)f->duration_ns / 1e9, f->frequency_hz, most_samples(f),
			 f->cpu_count);
	else
		explain_idle(f, text, size);
	return true;
}
