/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see audit_find.h. */
#include "cli/audit_find.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/host_text.h"
#include "cli/program_path.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "control/policy.h"
#include "exporter/delivery/policy.h"
#include "exporter/policy.h"
#include "loader/policy.h"
#include "symbolizer/opener/policy.h"
#include "symbolizer/worker/policy.h"
#include "unwinder-mgr/policy.h"

enum {
	PROCESSES_FIRST = 512,
	ARGUMENTS_BYTES = 4096,
};

static const struct sandbox_policy *const policies[ROLE_COUNT] = {
    [ROLE_CONTROL] = &control_policy, [ROLE_LOADER] = &loader_policy,
    [ROLE_MANAGER] = &manager_policy, [ROLE_OPENER] = &opener_policy,
    [ROLE_WORKER] = &worker_policy,   [ROLE_EXPORTER] = &exporter_policy,
};

const struct sandbox_policy *audit_policy_of(const struct audit_instance *instance,
					     enum role_id role)
{
	const struct sandbox_policy *policy = policies[role];

	if (role == ROLE_EXPORTER && instance->agent)
		return &otlp_exporter_policy;
	return instance->strict_memory && policy->strict ? policy->strict : policy;
}

static void program_add(struct audit_programs *programs, enum role_id role, const char *name,
			bool of_recordings, bool of_agents)
{
	struct audit_program *program = &programs->programs[programs->count++];
	struct stat st;

	*program = (struct audit_program){
	    .role = role, .of_recordings = of_recordings, .of_agents = of_agents};
	program_path(name, program->path, sizeof(program->path));
	if (stat(program->path, &st) < 0)
		program->error = errno;
	else
		program->id = (struct audit_file_id){st.st_dev, st.st_ino};
}

void audit_programs_find(struct audit_programs *programs)
{
	programs->count = 0;
	for (int role = 0; role < ROLE_COUNT; role++) {
		const struct role_names *names = &role_names[role];
		const bool both = !strcmp(names->program, names->agent_program);

		program_add(programs, (enum role_id)role, names->program, true, both);
		if (!both)
			program_add(programs, (enum role_id)role, names->agent_program, false,
				    true);
	}
}

/* Returns whether the kernel reports this path as that of the executable, which may be deleted. */
static bool executes_path(pid_t pid, const char *path)
{
	static const char deleted[] = " (deleted)";
	char link[64], target[PATH_MAX + sizeof(deleted)];

	snprintf(link, sizeof(link), "/proc/%d/exe", (int)pid);
	const ssize_t n = readlink(link, target, sizeof(target) - 1);
	if (n < 0)
		return false;
	target[n] = 0;
	const size_t length = strlen(path);
	return !strncmp(target, path, length) &&
	       (!target[length] || !strcmp(target + length, deleted));
}

static int hash_path(const char *path, char hash[AUDIT_HASH_BYTES])
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : audit_hash_file(fd, hash);
}

/* Returns whether a process executes a copy of a program, which has its name, and its hash. */
static bool executes_copy(pid_t pid, struct audit_program *program)
{
	char link[64], target[PATH_MAX], hash[AUDIT_HASH_BYTES];

	snprintf(link, sizeof(link), "/proc/%d/exe", (int)pid);
	const ssize_t n = readlink(link, target, sizeof(target) - 1);
	if (n <= 0 || program->error)
		return false;
	target[n] = 0;
	const char *name = strrchr(target, '/');
	if (!name || strcmp(name, strrchr(program->path, '/')))
		return false;
	if (!program->hash[0] && hash_path(program->path, program->hash))
		return false;
	return !hash_path(link, hash) && !strcmp(hash, program->hash);
}

static void find_program(struct audit_table_process *process, struct audit_programs *programs)
{
	char link[64];
	struct stat st;

	snprintf(link, sizeof(link), "/proc/%d/exe", (int)process->pid);
	if (stat(link, &st) < 0) {
		/* Kernel threads and processes that have ended have none. */
		process->error = errno == ENOENT || errno == ESRCH ? 0 : errno;
		return;
	}
	for (size_t i = 0; i < programs->count; i++) {
		struct audit_program *program = &programs->programs[i];
		const bool same = (!program->error && program->id.device == st.st_dev &&
				   program->id.inode == st.st_ino) ||
				  executes_copy(process->pid, program);

		if (!same && !executes_path(process->pid, program->path))
			continue;
		process->program = program;
		process->replaced = !same;
		return;
	}
}

int audit_table_read(struct audit_table *table, struct audit_programs *programs)
{
	_cleanup_closedir_ DIR *directory = opendir("/proc");
	int r = directory ? 0 : -errno;

	for (struct dirent *entry; !r && (entry = readdir(directory));) {
		struct audit_credentials credentials;

		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		const pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
		if (audit_credentials_read(pid, 0, &credentials) < 0)
			continue; /* it has just ended */
		r = ARRAY_RESERVE(table->processes, table->capacity, table->count + 1,
				  PROCESSES_FIRST, ARRAY_UNLIMITED);
		if (r)
			break;
		struct audit_table_process *process = &table->processes[table->count++];
		*process = (struct audit_table_process){.pid = pid, .parent = credentials.parent};
		memcpy(process->uids, credentials.uids, sizeof(process->uids));
		find_program(process, programs);
	}
	return r;
}

void audit_table_fini(struct audit_table *table)
{
	free(table->processes);
	*table = (struct audit_table){0};
}

/* Returns whether the command line of a process has this word, only at one place unless that is
 * -1. */
static bool has_argument(pid_t pid, const char *word, int place)
{
	char path[64], text[ARGUMENTS_BYTES];

	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	const ssize_t n = host_text_read("", path, text, sizeof(text));
	const char *at = text, *end = text + (n > 0 ? n : 0);
	for (int i = 0; at < end; i++, at += strlen(at) + 1) {
		if ((place < 0 || i == place) && !strcmp(at, word))
			return true;
	}
	return false;
}

static void instance_add(struct audit_instance *instance, const struct audit_table_process *process,
			 bool helper)
{
	if (instance->count == AUDIT_MEMBERS_MAX)
		return;
	instance->members[instance->count++] = (struct audit_member){
	    .pid = process->pid,
	    .role = process->program->role,
	    .program = process->program,
	    .helper = helper,
	    .replaced = process->replaced,
	};
	if (helper)
		return;
	if (process->program->role == ROLE_EXPORTER)
		instance->agent |= process->program->of_agents;
}

/* Adds all children of a process that execute a program of a role: of `role`, or of any if it is
 * ROLE_CONTROL. */
static void add_children(struct audit_instance *instance, const struct audit_table *table,
			 pid_t parent, enum role_id role)
{
	for (size_t i = 0; i < table->count; i++) {
		const struct audit_table_process *process = &table->processes[i];

		if (process->parent != parent)
			continue;
		if (process->error)
			instance->child_error = process->error;
		if (!process->program || process->program->role == ROLE_CONTROL)
			continue;
		if (role == ROLE_CONTROL || role == process->program->role)
			instance_add(instance, process, role != ROLE_CONTROL);
	}
}

static void find_mode(struct audit_instance *instance)
{
	unsigned int strict = 0, usual = 0;

	for (size_t i = 0; i < instance->count; i++) {
		const struct audit_member *member = &instance->members[i];

		if (member->helper || (member->role != ROLE_OPENER && member->role != ROLE_WORKER))
			continue;
		if (has_argument(member->pid, "--strict-memory", -1))
			strict++;
		else
			usual++;
	}
	instance->strict_memory = strict && !usual;
	instance->disagrees = strict && usual;
}

/* Returns whether one of our programs started a process. */
static bool has_parent_of_ours(const struct audit_table *table,
			       const struct audit_table_process *process)
{
	for (size_t i = 0; i < table->count; i++) {
		if (table->processes[i].pid == process->parent)
			return table->processes[i].program != NULL;
	}
	return false;
}

/* Adds the processes that are services, which includes bulkhead-control. */
static void add_services(struct audit_instance *instance, const struct audit_table *table)
{
	for (size_t i = 0; i < table->count; i++) {
		const struct audit_table_process *process = &table->processes[i];

		if (process->program && process->program->of_agents &&
		    (process->program->role != ROLE_CONTROL || !process->program->of_recordings) &&
		    !has_parent_of_ours(table, process))
			instance_add(instance, process, false);
	}
}

/* Finds what belongs to a supervisor. Returns whether it supervises anything. */
static bool find_members(struct audit_instance *instance, const struct audit_table *table,
			 const struct audit_table_process *supervisor)
{
	*instance = (struct audit_instance){.supervisor = supervisor->pid,
					    .services = !supervisor->program->of_recordings};
	if (instance->services) {
		add_services(instance, table);
		return true;
	}
	add_children(instance, table, supervisor->pid, ROLE_CONTROL);
	/* `bulkhead report` runs only the exporter, with the rights of its user. */
	return (instance->count || instance->child_error) && !supervisor->uids[0] &&
	       !has_argument(supervisor->pid, "report", 1);
}

bool audit_instance_next(const struct audit_table *table, size_t *at, pid_t only,
			 struct audit_instance *instance)
{
	for (; *at < table->count; (*at)++) {
		const struct audit_table_process *process = &table->processes[*at];

		if (!process->program || process->program->role != ROLE_CONTROL ||
		    (only && process->pid != only))
			continue;
		if (!find_members(instance, table, process))
			continue;
		const size_t roles = instance->count;
		for (size_t i = 0; i < roles; i++)
			add_children(instance, table, instance->members[i].pid,
				     instance->members[i].role);
		find_mode(instance);
		(*at)++;
		return true;
	}
	return false;
}

enum role_id audit_instance_role(const struct audit_instance *instance, pid_t pid)
{
	if (pid == instance->supervisor)
		return ROLE_CONTROL;
	for (size_t i = 0; i < instance->count; i++) {
		if (instance->members[i].pid == pid && !instance->members[i].helper)
			return instance->members[i].role;
	}
	return ROLE_COUNT;
}
