/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/audit_judge.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>

#include "cli/role_uids.h"
#include "parse/proc_maps.h"

enum {
	SECCOMP_FILTERED = 2, /* the mode in proc_pid_status(5) */
	WHERE_BYTES = 96,     /* the range of a mapping, and the end of its path */
};

struct mapping_judge {
	struct audit_report *report;
	const struct audit_subject *subject;
	size_t executable;
};

static uint64_t capabilities_of(const cap_value_t *values)
{
	uint64_t set = 0;

	for (; *values >= 0; values++)
		set |= (uint64_t)1 << *values;
	return set;
}

static const char *name_capabilities(uint64_t set, char names[static AUDIT_TEXT_BYTES])
{
	size_t used = 0;

	snprintf(names, AUDIT_TEXT_BYTES, "%s", set ? "" : "none");
	for (int c = 0; c < 64; c++) {
		if (!(set >> c & 1) || used >= AUDIT_TEXT_BYTES)
			continue;
		char *name = cap_to_name(c);
		const int n = snprintf(names + used, AUDIT_TEXT_BYTES - used, "%s%s",
				       used ? ", " : "", name ? name : "?");

		cap_free(name);
		used += n > 0 ? (size_t)n : 0;
	}
	return names;
}

static bool ids_are(const uint32_t ids[AUDIT_IDS], uint32_t id)
{
	for (int i = 0; i < AUDIT_IDS; i++) {
		if (ids[i] != id)
			return false;
	}
	return true;
}

/* Returns whether a list has this number and no other. A service manager gives a process the group
 * of its user once more, as a supplementary one. */
static bool is_number(const char *list, uint32_t number)
{
	char *end;

	return strtoul(list, &end, 10) == number && !end[strspn(end, " ")];
}

static void judge_ids(struct audit_report *report, const struct audit_subject *subject,
		      const struct audit_credentials *c, const struct audit_expectation *expected)
{
	if (ids_are(c->uids, c->uids[0]) && role_uids_may_be(expected->role, c->uids[0]))
		audit_ok(report, subject, "uids", "%u", c->uids[0]);
	else
		audit_difference(report, subject, "uids",
				 "four times the uid of the role's user or of the range for roles",
				 "%u %u %u %u", c->uids[0], c->uids[1], c->uids[2], c->uids[3]);
	if (ids_are(c->gids, c->uids[0]))
		audit_ok(report, subject, "gids", "%u", c->gids[0]);
	else
		audit_difference(report, subject, "gids", "four times the number of the uid",
				 "%u %u %u %u", c->gids[0], c->gids[1], c->gids[2], c->gids[3]);
	if (!c->groups[0] || (expected->service && is_number(c->groups, c->gids[0])))
		audit_ok(report, subject, "groups", "%s", c->groups[0] ? "its own" : "none");
	else
		audit_difference(report, subject, "groups", "none", "%s", c->groups);
}

static void judge_capabilities(struct audit_report *report, const struct audit_subject *subject,
			       const struct audit_credentials *c,
			       const struct audit_expectation *expected)
{
	const uint64_t steady = capabilities_of(expected->policy->steady_capabilities);
	/* A service that did not start as root cannot drop what bounds it. With no_new_privs that
	 * gives it nothing. */
	const uint64_t bound =
	    expected->service ? capabilities_of(expected->policy->start_capabilities) : 0;
	char found[AUDIT_TEXT_BYTES], wanted[AUDIT_TEXT_BYTES];
	bool same = true;

	for (int i = 0; i < AUDIT_CAPABILITY_SETS; i++) {
		const bool has = i == AUDIT_PERMITTED || i == AUDIT_EFFECTIVE;
		const uint64_t right = has ? steady : i == AUDIT_BOUNDING ? bound : 0;

		if (c->capabilities[i] == right ||
		    (i == AUDIT_BOUNDING && !(c->capabilities[i] & ~bound)))
			continue;
		same = false;
		audit_difference(report, subject, "capabilities", name_capabilities(right, wanted),
				 "%s: %s", audit_capability_set_names[i],
				 name_capabilities(c->capabilities[i], found));
	}
	if (same)
		audit_ok(report, subject, "capabilities", "%s", name_capabilities(steady, found));
}

static void judge_seccomp(struct audit_report *report, const struct audit_subject *subject,
			  const struct audit_credentials *c,
			  const struct audit_expectation *expected)
{
	/* The role's own filter comes on top of those that its parent had, in a container for
	 * example. Before Linux 5.9 the number is not reported, and 0 for both. */
	const uint64_t inherited = expected->supervisor->credentials.seccomp_filters;
	const bool counted = c->seccomp_filters > 0 && !expected->service;

	if (c->seccomp_mode == SECCOMP_FILTERED &&
	    (!counted || c->seccomp_filters == inherited + 1))
		audit_ok(report, subject, "seccomp", "mode %" PRIu64 ", filters: %" PRIu64,
			 c->seccomp_mode, c->seccomp_filters);
	else
		audit_difference(report, subject, "seccomp",
				 "mode 2, and one filter more than the process that started it",
				 "mode %" PRIu64 ", filters: %" PRIu64, c->seccomp_mode,
				 c->seccomp_filters);
}

void audit_judge_credentials(struct audit_report *report, const struct audit_subject *subject,
			     const struct audit_credentials *c,
			     const struct audit_expectation *expected)
{
	judge_ids(report, subject, c, expected);
	judge_capabilities(report, subject, c, expected);
	if (c->no_new_privs == 1)
		audit_ok(report, subject, "no-new-privs", "set");
	else
		audit_difference(report, subject, "no-new-privs", "set", "not set");
	judge_seccomp(report, subject, c, expected);
	if (!c->tracer)
		audit_ok(report, subject, "tracer", "none");
	else
		audit_difference(report, subject, "tracer", "none", "pid %d", (int)c->tracer);
}

static void judge_namespaces(struct audit_report *report, const struct audit_subject *subject,
			     const struct audit_process *process,
			     const struct audit_process *supervisor)
{
	bool same = true;

	if (process->namespaces_error || supervisor->namespaces_error) {
		audit_unverified(report, subject, "namespaces",
				 process->namespaces_error ? process->namespaces_error
							   : supervisor->namespaces_error);
		return;
	}
	for (int i = 0; i < AUDIT_NAMESPACE_COUNT; i++) {
		if (process->namespaces[i] == supervisor->namespaces[i])
			continue;
		char wanted[64];

		same = false;
		snprintf(wanted, sizeof(wanted), "%s:[%llu], that of the process that started it",
			 audit_namespace_names[i], (unsigned long long)supervisor->namespaces[i]);
		audit_difference(report, subject, "namespaces", wanted, "%s:[%llu]",
				 audit_namespace_names[i],
				 (unsigned long long)process->namespaces[i]);
	}
	if (same)
		audit_ok(report, subject, "namespaces", "those of the process that started it");
}

/* Says what the service manager or the container runtime has chosen. The audit does not know what
 * it should be, so nothing of it is a difference. */
static void describe_place(struct audit_report *report, const struct audit_subject *subject,
			   const struct audit_process *process, const struct audit_process *control)
{
	char names[AUDIT_TEXT_BYTES] = "";
	size_t used = 0;

	for (int i = 0; i < AUDIT_NAMESPACE_COUNT && !process->namespaces_error; i++) {
		if (process->namespaces[i] != control->namespaces[i] && used < sizeof(names))
			used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s",
						 used ? ", " : "", audit_namespace_names[i]);
	}
	if (process->namespaces_error)
		audit_unverified(report, subject, "namespaces", process->namespaces_error);
	else
		audit_ok(report, subject, "namespaces", "other than those of control: %.200s",
			 used ? names : "none");
	if (process->root_error)
		audit_unverified(report, subject, "root", process->root_error);
	else
		audit_ok(report, subject, "root", "inode %llu",
			 (unsigned long long)process->root.inode);
	if (process->label_error)
		audit_unverified(report, subject, "label", process->label_error);
	else
		audit_ok(report, subject, "label", "%s",
			 process->label[0] ? process->label : "no security module has labels");
}

static void judge_place(struct audit_report *report, const struct audit_subject *subject,
			const struct audit_process *process, const struct audit_process *supervisor)
{
	if (process->root_error || supervisor->root_error)
		audit_unverified(report, subject, "root",
				 process->root_error ? process->root_error
						     : supervisor->root_error);
	else if (process->root.device == supervisor->root.device &&
		 process->root.inode == supervisor->root.inode)
		audit_ok(report, subject, "root", "that of the process that started it");
	else
		audit_difference(report, subject, "root", "that of the process that started it",
				 "another directory, inode %llu",
				 (unsigned long long)process->root.inode);
	if (process->label_error || supervisor->label_error)
		audit_unverified(report, subject, "label",
				 process->label_error ? process->label_error
						      : supervisor->label_error);
	else if (!strcmp(process->label, supervisor->label))
		audit_ok(report, subject, "label", "%s",
			 process->label[0] ? process->label : "no security module has labels");
	else
		audit_difference(report, subject, "label", supervisor->label, "%s", process->label);
}

static void judge_limits(struct audit_report *report, const struct audit_subject *subject,
			 const struct audit_process *process, const struct sandbox_policy *policy)
{
	const uint64_t most[AUDIT_LIMIT_COUNT] = {
	    [AUDIT_LIMIT_CORE] = 0,
	    [AUDIT_LIMIT_DATA] =
		policy->memory_bytes_max ? policy->memory_bytes_max : AUDIT_LIMIT_NONE,
	    [AUDIT_LIMIT_FILES] = policy->files_max,
	    [AUDIT_LIMIT_PROCESSES] = policy->threads_max,
	    [AUDIT_LIMIT_STACK] = SANDBOX_STACK_BYTES,
	};
	bool low = true;

	if (process->limits_error) {
		audit_unverified(report, subject, "limits", process->limits_error);
		return;
	}
	for (int i = 0; i < AUDIT_LIMIT_COUNT; i++) {
		if (process->limits[i] <= most[i])
			continue;
		char wanted[64];

		low = false;
		snprintf(wanted, sizeof(wanted), "at most %" PRIu64, most[i]);
		audit_difference(report, subject, "limits", wanted, "%s: %" PRIu64,
				 audit_limit_names[i], process->limits[i]);
	}
	if (low)
		audit_ok(report, subject, "limits",
			 "data size: %" PRIu64 ", open files: %" PRIu64 ", processes: %" PRIu64,
			 process->limits[AUDIT_LIMIT_DATA], process->limits[AUDIT_LIMIT_FILES],
			 process->limits[AUDIT_LIMIT_PROCESSES]);
}

void audit_judge_process(struct audit_report *report, const struct audit_subject *subject,
			 const struct audit_process *process,
			 const struct audit_expectation *expected)
{
	if (expected->service) {
		describe_place(report, subject, process, expected->supervisor);
	} else {
		judge_namespaces(report, subject, process, expected->supervisor);
		judge_place(report, subject, process, expected->supervisor);
	}
	judge_limits(report, subject, process, expected->policy);
	if (process->dumpable_error)
		audit_unverified(report, subject, "dumpable", process->dumpable_error);
	else if (!process->dumpable)
		audit_ok(report, subject, "dumpable", "no");
	else
		audit_difference(report, subject, "dumpable", "no", "yes");
}

static bool path_starts(const struct proc_mapping *m, const char *start)
{
	const size_t length = strlen(start);

	return m->path_length >= length && !memcmp(m->path, start, length);
}

/* Memory that is not of a file may not be executed, except what the kernel puts into every
 * process. */
static bool is_code(const struct proc_mapping *m)
{
	if (!m->inode)
		return path_starts(m, "[vdso]") || path_starts(m, "[vsyscall]");
	return !path_starts(m, "/memfd:") && !path_starts(m, "/dev/");
}

static void judge_mapping(void *context, const struct proc_mapping *m)
{
	struct mapping_judge *judge = context;

	if (!m->executable)
		return;
	judge->executable++;
	if (!m->writable && is_code(m))
		return;
	audit_difference(
	    judge->report, judge->subject, "mappings",
	    m->writable ? "none that is writable and executable"
			: "only code of files is executable",
	    "%" PRIx64 "-%" PRIx64 " %s %.*s", m->start, m->end, m->writable ? "wx" : "x",
	    (int)(m->path_length < WHERE_BYTES ? m->path_length : WHERE_BYTES), m->path);
}

void audit_judge_mappings(struct audit_report *report, const struct audit_subject *subject,
			  const char *text, size_t length)
{
	struct mapping_judge judge = {.report = report, .subject = subject};
	const size_t before = report->count;

	/* A line that is not understood could be anything. */
	if (proc_maps_parse(text, length, judge_mapping, &judge) || !judge.executable)
		audit_difference(report, subject, "mappings", "text that the kernel writes",
				 "/proc/PID/maps is not understood");
	if (report->count == before)
		audit_ok(report, subject, "mappings", "executable: %zu, none of them writable",
			 judge.executable);
}
