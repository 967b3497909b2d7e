/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/audit_process.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/host_text.h"

enum {
	/* /proc/PID/status has some 1.5 KiB, more on machines with many CPUs and memory nodes. */
	STATUS_BYTES = 16 << 10,
	LIMITS_BYTES = 4096, /* 16 lines of some 80 bytes */
	PATH_BYTES = 64,
};

const char *const audit_namespace_names[AUDIT_NAMESPACE_COUNT] = {
    "cgroup", "ipc", "mnt", "net", "pid", "pid_for_children", "time", "time_for_children",
    "user",   "uts",
};

const char *const audit_capability_set_names[AUDIT_CAPABILITY_SETS] = {
    [AUDIT_INHERITABLE] = "inheritable", [AUDIT_PERMITTED] = "permitted",
    [AUDIT_EFFECTIVE] = "effective",	 [AUDIT_BOUNDING] = "bounding",
    [AUDIT_AMBIENT] = "ambient",
};

const char *const audit_limit_names[AUDIT_LIMIT_COUNT] = {
    [AUDIT_LIMIT_CORE] = "core file size", [AUDIT_LIMIT_DATA] = "data size",
    [AUDIT_LIMIT_FILES] = "open files",	   [AUDIT_LIMIT_PROCESSES] = "processes",
    [AUDIT_LIMIT_STACK] = "stack size",
};

/* Returns what follows the label of a line, or NULL. A newline in the name of a process, which is
 * in the first line, is escaped by the kernel. */
static const char *line_of(const char *text, const char *label)
{
	const size_t length = strlen(label);

	for (const char *line = text; *line;) {
		if (!strncmp(line, label, length))
			return line + length;
		line += strcspn(line, "\n");
		line += *line == '\n';
	}
	return NULL;
}

/* Reads the number after a label. Returns false if there is none. */
static bool number_of(const char *text, const char *label, int base, uint64_t *value)
{
	const char *at = line_of(text, label);
	char *end;

	if (!at)
		return false;
	at += strspn(at, " \t");
	if (*at == '\n' || *at == '-' || !*at)
		return false;
	errno = 0;
	*value = strtoull(at, &end, base);
	return end > at && !errno && (*end == '\n' || !*end || *end == ' ' || *end == '\t');
}

static bool ids_of(const char *text, const char *label, uint32_t ids[AUDIT_IDS])
{
	const char *at = line_of(text, label);

	for (int i = 0; at && i < AUDIT_IDS; i++) {
		char *end;

		at += strspn(at, " \t");
		if (*at < '0' || *at > '9')
			return false;
		const unsigned long id = strtoul(at, &end, 10);
		if (id > UINT32_MAX)
			return false;
		ids[i] = (uint32_t)id;
		at = end;
	}
	return at != NULL;
}

static bool groups_of(const char *text, char groups[AUDIT_GROUPS_BYTES])
{
	const char *at = line_of(text, "Groups:");

	if (!at)
		return false;
	at += strspn(at, " \t");
	size_t length = strcspn(at, "\n");
	while (length && at[length - 1] == ' ')
		length--;
	snprintf(groups, AUDIT_GROUPS_BYTES, "%.*s", (int)length, at);
	return true;
}

int audit_credentials_parse(const char *text, struct audit_credentials *credentials)
{
	static const char *const labels[AUDIT_CAPABILITY_SETS] = {
	    [AUDIT_INHERITABLE] = "CapInh:", [AUDIT_PERMITTED] = "CapPrm:",
	    [AUDIT_EFFECTIVE] = "CapEff:",   [AUDIT_BOUNDING] = "CapBnd:",
	    [AUDIT_AMBIENT] = "CapAmb:",
	};
	struct audit_credentials c = {0};
	uint64_t parent = 0, tracer = 0;
	bool good = number_of(text, "PPid:", 10, &parent) && parent <= INT32_MAX &&
		    number_of(text, "TracerPid:", 10, &tracer) && tracer <= INT32_MAX &&
		    ids_of(text, "Uid:", c.uids) && ids_of(text, "Gid:", c.gids) &&
		    groups_of(text, c.groups) &&
		    number_of(text, "NoNewPrivs:", 10, &c.no_new_privs) &&
		    number_of(text, "Seccomp:", 10, &c.seccomp_mode);

	for (int i = 0; i < AUDIT_CAPABILITY_SETS; i++)
		good = good && number_of(text, labels[i], 16, &c.capabilities[i]);
	if (!good)
		return -EBADMSG;
	if (!number_of(text, "Seccomp_filters:", 10, &c.seccomp_filters))
		c.seccomp_filters = 0;
	c.parent = (pid_t)parent;
	c.tracer = (pid_t)tracer;
	*credentials = c;
	return 0;
}

/* Reads one limit of a line, a number or "unlimited". */
static bool limit_of(const char **at, uint64_t *limit)
{
	static const char none[] = "unlimited";
	char *end;

	*at += strspn(*at, " ");
	if (!strncmp(*at, none, sizeof(none) - 1)) {
		*at += sizeof(none) - 1;
		*limit = AUDIT_LIMIT_NONE;
		return true;
	}
	if (**at < '0' || **at > '9')
		return false;
	*limit = strtoull(*at, &end, 10);
	*at = end;
	return true;
}

int audit_limits_parse(const char *text, uint64_t limits[AUDIT_LIMIT_COUNT])
{
	uint64_t found[AUDIT_LIMIT_COUNT];

	for (int i = 0; i < AUDIT_LIMIT_COUNT; i++) {
		char label[32];
		uint64_t soft, hard;

		snprintf(label, sizeof(label), "Max %s ", audit_limit_names[i]);
		const char *at = line_of(text, label);
		if (!at || !limit_of(&at, &soft) || !limit_of(&at, &hard))
			return -EBADMSG;
		found[i] = soft > hard ? soft : hard;
	}
	memcpy(limits, found, sizeof(found));
	return 0;
}

int audit_credentials_read(pid_t pid, pid_t tid, struct audit_credentials *credentials)
{
	char path[PATH_BYTES], text[STATUS_BYTES];

	if (tid)
		snprintf(path, sizeof(path), "/proc/%d/task/%d/status", (int)pid, (int)tid);
	else
		snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	const ssize_t n = host_text_read("", path, text, sizeof(text));
	return n < 0 ? (int)n : audit_credentials_parse(text, credentials);
}

static int read_limits(pid_t pid, uint64_t limits[AUDIT_LIMIT_COUNT])
{
	char path[PATH_BYTES], text[LIMITS_BYTES];

	snprintf(path, sizeof(path), "/proc/%d/limits", (int)pid);
	const ssize_t n = host_text_read("", path, text, sizeof(text));
	return n < 0 ? (int)n : audit_limits_parse(text, limits);
}

static int read_namespaces(pid_t pid, ino_t namespaces[AUDIT_NAMESPACE_COUNT])
{
	for (int i = 0; i < AUDIT_NAMESPACE_COUNT; i++) {
		char path[PATH_BYTES];
		struct stat st;

		snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, audit_namespace_names[i]);
		namespaces[i] = 0;
		if (stat(path, &st) == 0)
			namespaces[i] = st.st_ino;
		else if (errno != ENOENT)
			return -errno;
	}
	return 0;
}

/* Without a security module, the kernel refuses to read the label with EINVAL. */
static int read_label(pid_t pid, char label[AUDIT_LABEL_BYTES])
{
	char path[PATH_BYTES];

	snprintf(path, sizeof(path), "/proc/%d/attr/current", (int)pid);
	const ssize_t n = host_text_read("", path, label, AUDIT_LABEL_BYTES);
	if (n < 0)
		return n == -EINVAL ? 0 : (int)n;
	label[strcspn(label, "\n")] = 0;
	return 0;
}

static int read_root(pid_t pid, struct audit_file_id *root)
{
	char path[PATH_BYTES];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/root", (int)pid);
	if (stat(path, &st) < 0)
		return -errno;
	*root = (struct audit_file_id){.device = st.st_dev, .inode = st.st_ino};
	return 0;
}

/* The files in /proc of a process that is not dumpable belong to root (proc(5)). */
static int read_dumpable(pid_t pid, bool *dumpable)
{
	char path[PATH_BYTES];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	if (stat(path, &st) < 0)
		return -errno;
	*dumpable = st.st_uid != 0;
	return 0;
}

void audit_process_read(pid_t pid, struct audit_process *process)
{
	*process = (struct audit_process){.pid = pid};
	process->credentials_error = -audit_credentials_read(pid, 0, &process->credentials);
	process->namespaces_error = -read_namespaces(pid, process->namespaces);
	process->root_error = -read_root(pid, &process->root);
	process->label_error = -read_label(pid, process->label);
	process->limits_error = -read_limits(pid, process->limits);
	process->dumpable_error = -read_dumpable(pid, &process->dumpable);
}
