/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/audit.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/audit_descriptors.h"
#include "cli/audit_files.h"
#include "cli/audit_find.h"
#include "cli/audit_judge.h"
#include "cli/audit_report.h"
#include "cli/help.h"
#include "cli/role_uids.h"
#include "common/cleanup.h"
#include "common/exit_status.h"
#include "common/file_read.h"
#include "parse/proc_maps.h"

enum {
	/* A role is judged again if something differs: it may have been about to open or close it,
	 * or a helper may just have been started, which closes what it inherits. */
	ATTEMPTS = 3,
	ATTEMPT_PAUSE_NS = 100000000,
	MAPS_FIRST_BYTES = 16 << 10,
	MAPS_BYTES_MAX = 4 << 20, /* 65,530 mappings, the kernel's default limit, of 60 bytes */
};

struct audit_options {
	bool json;
	pid_t pid; /* 0: all recordings and agents */
	const char *manifest;
};

/* One recording or agent. */
struct audit {
	struct audit_report *report;
	const struct audit_table *table;
	const struct audit_instance *instance;
	struct audit_process supervisor;
	struct audit_held held;
};

static void judge_threads(struct audit *audit, const struct audit_subject *subject,
			  const struct audit_expectation *expected)
{
	char path[64];
	size_t threads = 0, differing = 0;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)subject->pid);
	_cleanup_closedir_ DIR *directory = opendir(path);
	if (!directory) {
		audit_unverified(audit->report, subject, "threads", errno);
		return;
	}
	for (struct dirent *entry; (entry = readdir(directory));) {
		struct audit_credentials credentials;
		struct audit_subject thread = {.pid = (pid_t)strtol(entry->d_name, NULL, 10)};
		const size_t first = audit->report->count;

		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		threads++;
		if (thread.pid == subject->pid ||
		    audit_credentials_read(subject->pid, thread.pid, &credentials) < 0)
			continue;
		snprintf(thread.name, sizeof(thread.name), "%.20s thread", subject->name);
		audit_judge_credentials(audit->report, &thread, &credentials, expected);
		if (audit_report_agrees(audit->report, first))
			audit_report_cut(audit->report, first);
		else
			differing++;
	}
	if (!differing)
		audit_ok(audit->report, subject, "threads", "%zu, all with the same rights",
			 threads);
}

static void judge_mappings(struct audit *audit, const struct audit_subject *subject)
{
	_cleanup_free_ uint8_t *text = NULL;
	char path[64];
	size_t length = 0;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)subject->pid);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	int r =
	    fd < 0 ? -errno : file_read_all(fd, MAPS_FIRST_BYTES, MAPS_BYTES_MAX, &text, &length);
	if (r)
		audit_unverified(audit->report, subject, "mappings", r > 0 ? E2BIG : -r);
	else
		audit_judge_mappings(audit->report, subject, (const char *)text, length);
}

/* No other process may have the uid of a role, because its peers recognise it by that. Only a
 * role's helpers are children of it. */
static void judge_neighbours(struct audit *audit, const struct audit_subject *subject,
			     const struct audit_member *member, uid_t uid)
{
	const size_t first = audit->report->count;

	for (size_t i = 0; i < audit->table->count; i++) {
		const struct audit_table_process *other = &audit->table->processes[i];
		bool has_uid = false, is_role = false;

		for (int id = 0; id < AUDIT_IDS; id++)
			has_uid |= other->uids[id] == uid;
		for (size_t m = 0; m < audit->instance->count; m++)
			is_role |= audit->instance->members[m].pid == other->pid &&
				   audit->instance->members[m].role == member->role;
		if ((!has_uid && other->parent != member->pid) || is_role)
			continue;
		audit_difference(
		    audit->report, subject, "processes", "only the role and its helpers",
		    "pid %d has the uid of the role or is a child of it", (int)other->pid);
	}
	if (audit->report->count == first)
		audit_ok(audit->report, subject, "processes", "no other with its uid");
}

static void judge_member_once(struct audit *audit, const struct audit_subject *subject,
			      const struct audit_member *member)
{
	const struct audit_expectation expected = {
	    .role = member->role,
	    .policy = audit_policy_of(audit->instance, member->role),
	    .supervisor = &audit->supervisor,
	    .service = audit->instance->services,
	};
	struct audit_process process;

	audit_process_read(member->pid, &process);
	if (process.credentials_error) {
		audit_unverified(audit->report, subject, "process", process.credentials_error);
		return;
	}
	if (member->replaced)
		audit_difference(audit->report, subject, "executable", "the installed program",
				 "a file that was at %.200s before", member->program->path);
	else
		audit_ok(audit->report, subject, "executable", "%.250s", member->program->path);
	audit_judge_credentials(audit->report, subject, &process.credentials, &expected);
	judge_threads(audit, subject, &expected);
	audit_judge_process(audit->report, subject, &process, &expected);
	judge_mappings(audit, subject);
	audit_judge_descriptors(audit->report, subject, member, audit->instance, &audit->held,
				process.credentials.uids[0]);
	judge_neighbours(audit, subject, member, process.credentials.uids[0]);
}

/* Returns whether a process has ended, and may wait for its parent to take note of that. */
static bool has_ended(pid_t pid)
{
	char path[64], stat[512];

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT;
	const ssize_t n = file_read_fully(fd, stat, sizeof(stat));
	return n == -ESRCH || (n > 0 && proc_stat_leader_ended(stat, (size_t)n));
}

static void judge_member(struct audit *audit, const struct audit_member *member)
{
	const size_t first = audit->report->count;
	struct audit_subject subject = {.pid = member->pid};

	snprintf(subject.name, sizeof(subject.name), "%s%s", role_names[member->role].directory,
		 member->helper ? " helper" : "");
	for (int i = 0; i < ATTEMPTS; i++) {
		if (i)
			nanosleep(&(struct timespec){.tv_nsec = ATTEMPT_PAUSE_NS}, NULL);
		audit_report_cut(audit->report, first);
		judge_member_once(audit, &subject, member);
		if (audit_report_agrees(audit->report, first))
			return;
	}
	/* Helpers come and go. A role that has ended is reported. */
	if (member->helper && has_ended(member->pid)) {
		audit_report_cut(audit->report, first);
		audit_ok(audit->report, &subject, "process", "it has ended");
	}
}

/* Each role runs once, and the roles of a recording or agent belong together. */
static void judge_roles(struct audit *audit, const struct audit_subject *subject)
{
	unsigned int running[ROLE_COUNT] = {0};
	bool complete = true;

	for (size_t i = 0; i < audit->instance->count; i++)
		running[audit->instance->members[i].role] += !audit->instance->members[i].helper;
	for (int role = ROLE_CONTROL + 1; role < ROLE_COUNT; role++) {
		if (running[role] == 1)
			continue;
		complete = false;
		audit_difference(audit->report, subject, "roles", "one process of each", "%s: %u",
				 role_names[role].directory, running[role]);
	}
	if (audit->instance->child_error)
		audit_unverified(audit->report, subject, "roles", audit->instance->child_error);
	else if (complete)
		audit_ok(audit->report, subject, "roles", "one process of each");
	if (audit->instance->disagrees)
		audit_difference(audit->report, subject, "mode",
				 "the opener and the worker have the same",
				 "only one of them has --strict-memory");
	else
		audit_ok(audit->report, subject, "mode", "%s",
			 audit->instance->strict_memory ? "strict memory" : "usual");
}

static void judge_instance(struct audit_report *report, const struct audit_table *table,
			   const struct audit_instance *instance)
{
	struct audit audit = {.report = report, .table = table, .instance = instance};
	struct audit_subject subject = {.pid = instance->supervisor};

	snprintf(subject.name, sizeof(subject.name), "%s", instance->agent ? "agent" : "recording");
	judge_roles(&audit, &subject);
	audit_process_read(instance->supervisor, &audit.supervisor);
	const int r = audit_held_read(&audit.held, instance);
	if (r)
		audit_unverified(report, &subject, "descriptors", -r);
	for (size_t i = 0; i < instance->count; i++)
		judge_member(&audit, &instance->members[i]);
	audit_held_fini(&audit.held);
}

static int audit_usage(const char *what)
{
	fprintf(stderr, "bulkhead audit: %s; see bulkhead audit --help\n", what);
	return STATUS_USAGE;
}

/* Returns an exit status, or -1 for --help. */
static int audit_parse(int argc, char **argv, struct audit_options *o)
{
	static const struct option options[] = {
	    {"json", no_argument, NULL, 'j'},
	    {"pid", required_argument, NULL, 'p'},
	    {"manifest", required_argument, NULL, 'm'},
	    {"help", no_argument, NULL, 'h'},
	    {NULL, 0, NULL, 0},
	};
	char *end;
	int c;

	*o = (struct audit_options){0};
	opterr = 0;
	while ((c = getopt_long(argc, argv, "p:h", options, NULL)) != -1) {
		if (c == 'h')
			return -1;
		if (c == 'j')
			o->json = true;
		else if (c == 'm')
			o->manifest = optarg;
		else if (c != 'p')
			return audit_usage("unknown option, or an option without its value");
		else {
			const long pid = strtol(optarg, &end, 10);

			if (end == optarg || *end || pid <= 0 || pid > INT_MAX)
				return audit_usage("-p, --pid: not the pid of a process");
			o->pid = (pid_t)pid;
		}
	}
	return optind == argc ? STATUS_DONE
			      : audit_usage("unexpected argument; only options are possible");
}

/* A process with the uid of a role may be one, even if what it executes cannot be found out. */
static void judge_unknown_processes(struct audit_report *report, const struct audit_table *table,
				    pid_t only)
{
	for (size_t i = 0; i < table->count; i++) {
		const struct audit_table_process *process = &table->processes[i];
		struct audit_subject subject = {.name = "process", .pid = process->pid};
		bool possible = false;

		if (!process->error || (only && process->parent != only))
			continue;
		for (int role = ROLE_CONTROL + 1; role < ROLE_COUNT; role++)
			possible |= role_uids_may_be((enum role_id)role, process->uids[0]);
		if (possible)
			audit_unverified(report, &subject, "executable", process->error);
	}
}

/* Returns how many recordings and agents were judged, or a negative errno. */
static int audit_all(struct audit_report *report, const struct audit_options *options)
{
	/* They are static because they are large. */
	static struct audit_programs programs;
	static struct audit_instance instance;
	struct audit_table table = {0};
	size_t at = 0;
	int found = 0;

	audit_programs_find(&programs);
	const int r = audit_table_read(&table, &programs);
	while (!r && audit_instance_next(&table, &at, options->pid, &instance)) {
		judge_instance(report, &table, &instance);
		found++;
	}
	judge_unknown_processes(report, &table, options->pid);
	audit_table_fini(&table);
	audit_judge_files(report, &programs, options->manifest);
	return r ? r : found;
}

int audit_main(int argc, char **argv)
{
	struct audit_report report = {0};
	struct audit_options options;

	int status = audit_parse(argc, argv, &options);
	if (status < 0) {
		help_print_audit(stdout);
		return STATUS_DONE;
	}
	if (status)
		return status;
	const int found = audit_all(&report, &options);
	audit_report_print(&report, found > 0, options.json, stdout);
	status = found > 0 && audit_report_agrees(&report, 0) ? STATUS_DONE : STATUS_FAILED;
	audit_report_fini(&report);
	if (found < 0)
		fprintf(stderr,
			"bulkhead: cannot read the processes in /proc, so no role was found: %s\n",
			strerror(-found));
	else if (!found)
		fprintf(stderr, "bulkhead: no recording or agent of this installation runs here, "
				"so only its files were inspected\n");
	if (fflush(stdout) != 0 || ferror(stdout)) {
		perror("bulkhead: cannot write the report to standard output");
		return STATUS_FAILED;
	}
	return status;
}
