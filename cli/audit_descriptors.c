/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see audit_descriptors.h. */
#include "cli/audit_descriptors.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <linux/bpf.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/audit_open_file.h"
#include "common/array.h"
#include "common/cleanup.h"

enum {
	HELD_FIRST = 64,
	HELD_MAX = 65536, /* more than a process may hold */
};

/* What a descriptor is, and under which property it is reported. */
static const struct {
	const char *property, *name;
} kinds[DESCRIPTOR_KIND_COUNT + 1] = {
    [DESCRIPTOR_PEER] = {"sockets", "role"},
    [DESCRIPTOR_LISTENER] = {"sockets", "listener"},
    [DESCRIPTOR_HELPER] = {"sockets", "helper"},
    [DESCRIPTOR_NETWORK] = {"sockets", "network"},
    [DESCRIPTOR_BACKEND] = {"sockets", "backend"},
    [DESCRIPTOR_SERVICE_MANAGER] = {"sockets", "service manager"},
    [DESCRIPTOR_STATUS] = {"sockets", "status"},
    [DESCRIPTOR_BPF_PROGRAM] = {"bpf", "program"},
    [DESCRIPTOR_BPF_MAP] = {"bpf", "map"},
    [DESCRIPTOR_BPF_TYPES] = {"bpf", "types"},
    [DESCRIPTOR_BPF_LINK] = {"bpf", "link"},
    [DESCRIPTOR_PERF_EVENT] = {"descriptors", "perf event"},
    [DESCRIPTOR_EPOLL] = {"descriptors", "event loop"},
    [DESCRIPTOR_EVENTFD] = {"descriptors", "eventfd"},
    [DESCRIPTOR_SIGNALFD] = {"descriptors", "signalfd"},
    [DESCRIPTOR_FILE] = {"descriptors", "file"},
    [DESCRIPTOR_DIRECTORY] = {"descriptors", "directory"},
    [DESCRIPTOR_PINS] = {"pins", "directory"},
    [DESCRIPTOR_PROCESS_MEMORY] = {"descriptors", "process memory"},
    [DESCRIPTOR_OUTPUT] = {"descriptors", "output"},
    [DESCRIPTOR_OWN_FILE] = {"descriptors", "own file"},
    [DESCRIPTOR_KIND_COUNT] = {"descriptors", "of no kind that roles have"},
};

struct descriptor_judge {
	struct audit_report *report;
	const struct audit_subject *subject;
	const struct audit_member *member;
	const struct audit_instance *instance;
	const struct audit_held *held;
	const struct sandbox_policy *policy;
	uint32_t allowed; /* set of DESCRIPTOR_BIT */
	uid_t uid;
	size_t counts[DESCRIPTOR_KIND_COUNT];
	char programs[AUDIT_TEXT_BYTES]; /* names and tags */
	size_t pins;			 /* in the directories of pins */
};

/* Called for each descriptor with the errno of reading it, or 0. Returns 0 or a negative errno. */
typedef int (*descriptor_fn)(void *context, int number, const struct audit_open_file *file,
			     int error);

static int for_each_descriptor(pid_t pid, descriptor_fn fn, void *context)
{
	/* It is static because it is large; the audit has one thread. */
	static struct audit_open_file file;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	_cleanup_closedir_ DIR *directory = opendir(path);
	if (!directory)
		return -errno;
	_cleanup_close_ int process = audit_open_process(pid);
	int r = process < 0 ? process : 0;
	for (struct dirent *entry; !r && (entry = readdir(directory));) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		const int number = (int)strtol(entry->d_name, NULL, 10);
		const int error = audit_open_file_read(process, pid, number, &file);
		if (error != -EBADF)
			r = fn(context, number, &file, -error);
	}
	return r;
}

static bool ids_equal(const struct audit_file_id *a, const struct audit_file_id *b)
{
	return a->device == b->device && a->inode == b->inode;
}

static int hold_file(void *context, int number, const struct audit_open_file *file, int error)
{
	struct audit_held *held = context;

	if (error)
		return -error;
	if (number == STDERR_FILENO)
		held->log = file->id;
	/* Files without a path all have the same inode. */
	if (file->kind != AUDIT_FILE_REGULAR && file->kind != AUDIT_FILE_OTHER)
		return 0;
	if (file->kind == AUDIT_FILE_OTHER && file->name[0] == 'a')
		return 0;
	int r = ARRAY_RESERVE(held->files, held->file_capacity, held->file_count + 1, HELD_FIRST,
			      HELD_MAX);
	if (!r)
		held->files[held->file_count++] = file->id;
	return r;
}

static int hold_map(void *context, int number, const struct audit_open_file *file, int error)
{
	struct audit_held *held = context;

	(void)number;
	if (error || file->kind != AUDIT_FILE_BPF_MAP)
		return -error;
	int r = ARRAY_RESERVE(held->maps, held->map_capacity, held->map_count + 1, HELD_FIRST,
			      HELD_MAX);
	if (!r)
		held->maps[held->map_count++] = file->bpf.id;
	return r;
}

int audit_held_read(struct audit_held *held, const struct audit_instance *instance)
{
	int r = for_each_descriptor(instance->supervisor, hold_file, held);

	for (size_t i = 0; i < instance->count && !r; i++) {
		if (instance->members[i].role == ROLE_LOADER)
			r = for_each_descriptor(instance->members[i].pid, hold_map, held);
	}
	return r;
}

void audit_held_fini(struct audit_held *held)
{
	free(held->files);
	free(held->maps);
	*held = (struct audit_held){0};
}

static bool supervisor_holds(const struct audit_held *held, const struct audit_file_id *id)
{
	for (size_t i = 0; i < held->file_count; i++) {
		if (ids_equal(&held->files[i], id))
			return true;
	}
	return false;
}

static bool loader_holds(const struct audit_held *held, uint32_t map)
{
	for (size_t i = 0; i < held->map_count; i++) {
		if (held->maps[i] == map)
			return true;
	}
	return false;
}

/* The peer of a pair of sockets is the process that made it. That of a helper is its role. */
static bool is_own_pair(const struct descriptor_judge *judge, pid_t peer)
{
	return judge->member->helper
		   ? audit_instance_role(judge->instance, peer) == judge->member->role
		   : peer == judge->member->pid;
}

static enum sandbox_descriptor kind_of_socket(const struct descriptor_judge *judge,
					      const struct audit_socket *socket)
{
	if (socket->family == AF_INET || socket->family == AF_INET6)
		return (socket->type == SOCK_STREAM && socket->protocol == IPPROTO_TCP) ||
			       (socket->type == SOCK_DGRAM && socket->protocol == IPPROTO_UDP)
			   ? DESCRIPTOR_NETWORK
			   : DESCRIPTOR_KIND_COUNT;
	if (socket->family != AF_UNIX)
		return DESCRIPTOR_KIND_COUNT;
	/* A pair of sockets has a peer, which made it. */
	if (socket->type == SOCK_DGRAM && socket->peer_pid <= 0)
		return DESCRIPTOR_SERVICE_MANAGER;
	if (socket->type == SOCK_STREAM)
		return socket->listens ? DESCRIPTOR_STATUS : DESCRIPTOR_BACKEND;
	if (socket->type != SOCK_SEQPACKET)
		return DESCRIPTOR_KIND_COUNT;
	if (socket->listens)
		return DESCRIPTOR_LISTENER;
	if (is_own_pair(judge, socket->peer_pid))
		return DESCRIPTOR_HELPER;
	const enum role_id role = audit_instance_role(judge->instance, socket->peer_pid);
	return role != ROLE_COUNT && judge->policy->peers & ROLE_BIT(role) ? DESCRIPTOR_PEER
									   : DESCRIPTOR_KIND_COUNT;
}

static enum sandbox_descriptor kind_of_writable(const struct descriptor_judge *judge,
						const struct audit_open_file *file)
{
	/* bulkhead-control is a role itself, and holds what it has made. */
	if (judge->member->role != ROLE_CONTROL && supervisor_holds(judge->held, &file->id))
		return DESCRIPTOR_OUTPUT;
	return file->kind == AUDIT_FILE_REGULAR && file->owner == judge->uid
		   ? DESCRIPTOR_OWN_FILE
		   : DESCRIPTOR_KIND_COUNT;
}

static enum sandbox_descriptor kind_of_descriptor(const struct descriptor_judge *judge,
						  const struct audit_open_file *file)
{
	switch (file->kind) {
	case AUDIT_FILE_SOCKET:
		return kind_of_socket(judge, &file->socket);
	case AUDIT_FILE_BPF_PROGRAM:
		return file->bpf.type == BPF_PROG_TYPE_PERF_EVENT ? DESCRIPTOR_BPF_PROGRAM
								  : DESCRIPTOR_KIND_COUNT;
	case AUDIT_FILE_BPF_MAP:
		return file->bpf.type < 64 && judge->policy->map_types >> file->bpf.type & 1 &&
			       loader_holds(judge->held, file->bpf.id)
			   ? DESCRIPTOR_BPF_MAP
			   : DESCRIPTOR_KIND_COUNT;
	case AUDIT_FILE_BPF_TYPES:
		return DESCRIPTOR_BPF_TYPES;
	case AUDIT_FILE_BPF_LINK:
		return file->bpf.type == BPF_LINK_TYPE_PERF_EVENT ? DESCRIPTOR_BPF_LINK
								  : DESCRIPTOR_KIND_COUNT;
	case AUDIT_FILE_PINS:
		return file->owner == judge->uid && file->pins.closed ? DESCRIPTOR_PINS
								      : DESCRIPTOR_KIND_COUNT;
	case AUDIT_FILE_PERF_EVENT:
		return DESCRIPTOR_PERF_EVENT;
	case AUDIT_FILE_EPOLL:
		return DESCRIPTOR_EPOLL;
	case AUDIT_FILE_EVENTFD:
		return DESCRIPTOR_EVENTFD;
	case AUDIT_FILE_SIGNALFD:
		return DESCRIPTOR_SIGNALFD;
	case AUDIT_FILE_DIRECTORY:
		return DESCRIPTOR_DIRECTORY;
	case AUDIT_FILE_PROCESS_MEMORY:
		return file->writable ? DESCRIPTOR_KIND_COUNT : DESCRIPTOR_PROCESS_MEMORY;
	case AUDIT_FILE_REGULAR:
		return file->writable ? kind_of_writable(judge, file) : DESCRIPTOR_FILE;
	default:
		return kind_of_writable(judge, file);
	}
}

/* The property under which a descriptor of no kind is reported. */
static const char *property_of(const struct audit_open_file *file, enum sandbox_descriptor kind)
{
	if (file->kind == AUDIT_FILE_SOCKET)
		return "sockets";
	if (file->kind == AUDIT_FILE_BPF_PROGRAM || file->kind == AUDIT_FILE_BPF_MAP)
		return "bpf";
	if (file->kind == AUDIT_FILE_PINS)
		return "pins";
	return kinds[kind].property;
}

static void describe(const struct descriptor_judge *judge, const struct audit_open_file *file,
		     char text[AUDIT_TEXT_BYTES])
{
	const struct audit_socket *socket = &file->socket;

	if (file->kind == AUDIT_FILE_SOCKET)
		snprintf(text, AUDIT_TEXT_BYTES,
			 "family %d, type %d, protocol %d, peer: pid %d, uid %u", socket->family,
			 socket->type, socket->protocol, (int)socket->peer_pid, socket->peer_uid);
	else if (file->kind == AUDIT_FILE_BPF_PROGRAM || file->kind == AUDIT_FILE_BPF_MAP)
		snprintf(text, AUDIT_TEXT_BYTES, "%s, id %u, type %u, %s", file->bpf.name,
			 file->bpf.id, file->bpf.type,
			 file->kind == AUDIT_FILE_BPF_MAP &&
				 !loader_holds(judge->held, file->bpf.id)
			     ? "not one of the loader"
			     : "of the loader");
	else if (file->kind == AUDIT_FILE_PINS)
		snprintf(text, AUDIT_TEXT_BYTES, "%.200s, %zu pins, owner: uid %u, %s", file->name,
			 file->pins.count, file->owner,
			 file->pins.closed ? "closed to others" : "open to others");
	else
		snprintf(text, AUDIT_TEXT_BYTES, "%.200s%s", file->name,
			 file->writable ? ", writable" : "");
}

static void list_program(struct descriptor_judge *judge, const struct audit_bpf *bpf)
{
	const size_t used = strlen(judge->programs);
	char tag[2 * AUDIT_BPF_TAG_BYTES + 1];

	for (size_t i = 0; i < AUDIT_BPF_TAG_BYTES; i++)
		snprintf(tag + 2 * i, 3, "%02x", bpf->tag[i]);
	snprintf(judge->programs + used, sizeof(judge->programs) - used, "%s%s %s",
		 used ? ", " : "", bpf->name, tag);
}

/* Returns whether a descriptor is the log that the starter of the process has given it. No role can
 * put something else there: the filters do not let them close or replace 0, 1 and 2. */
static bool is_log(const struct descriptor_judge *judge, int number,
		   const struct audit_open_file *file)
{
	if (!judge->instance->services)
		return number == STDERR_FILENO && ids_equal(&file->id, &judge->held->log);
	return (number == STDOUT_FILENO || number == STDERR_FILENO) &&
	       (file->kind != AUDIT_FILE_SOCKET ||
		(file->socket.family == AF_UNIX && file->socket.type == SOCK_STREAM));
}

static int judge_descriptor(void *context, int number, const struct audit_open_file *file,
			    int error)
{
	struct descriptor_judge *judge = context;
	char text[AUDIT_TEXT_BYTES];

	if (error) {
		audit_unverified(judge->report, judge->subject, "descriptors", error);
		return 0;
	}
	if (file->kind == AUDIT_FILE_NULL)
		return 0;
	if (is_log(judge, number, file))
		return 0;
	const enum sandbox_descriptor kind = kind_of_descriptor(judge, file);
	if (kind != DESCRIPTOR_KIND_COUNT && judge->allowed & DESCRIPTOR_BIT(kind)) {
		judge->counts[kind]++;
		if (kind == DESCRIPTOR_BPF_PROGRAM)
			list_program(judge, &file->bpf);
		if (kind == DESCRIPTOR_PINS)
			judge->pins += file->pins.count;
		return 0;
	}
	describe(judge, file, text);
	audit_difference(judge->report, judge->subject, property_of(file, kind),
			 "none that the policy does not list", "descriptor %d, %s: %s", number,
			 kinds[kind].name, text);
	return 0;
}

/* Adds that all descriptors of a property are as they should be, and how many there are. */
static void summarize(const struct descriptor_judge *judge, const char *property, size_t first)
{
	char text[AUDIT_TEXT_BYTES] = "none";
	size_t used = 0;

	for (size_t i = first; i < judge->report->count; i++) {
		if (!strcmp(judge->report->results[i].property, property))
			return;
	}
	for (int kind = 0; kind < DESCRIPTOR_KIND_COUNT; kind++) {
		if (!judge->counts[kind] || strcmp(kinds[kind].property, property) ||
		    used >= sizeof(text))
			continue;
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s: %zu",
					 used ? ", " : "", kinds[kind].name, judge->counts[kind]);
		if (kind == DESCRIPTOR_BPF_PROGRAM && used < sizeof(text))
			used += (size_t)snprintf(text + used, sizeof(text) - used, " (%.200s)",
						 judge->programs);
		if (kind == DESCRIPTOR_PINS && used < sizeof(text))
			used += (size_t)snprintf(text + used, sizeof(text) - used, " (%zu pins)",
						 judge->pins);
	}
	audit_ok(judge->report, judge->subject, property, "%s", text);
}

void audit_judge_descriptors(struct audit_report *report, const struct audit_subject *subject,
			     const struct audit_member *member,
			     const struct audit_instance *instance, const struct audit_held *held,
			     uid_t uid)
{
	/* A helper keeps only its socket, and opens or receives what it works on. */
	const uint32_t of_helpers =
	    DESCRIPTOR_BIT(DESCRIPTOR_HELPER) | DESCRIPTOR_BIT(DESCRIPTOR_FILE) |
	    DESCRIPTOR_BIT(DESCRIPTOR_DIRECTORY) | DESCRIPTOR_BIT(DESCRIPTOR_PROCESS_MEMORY);
	const size_t first = report->count;
	struct descriptor_judge judge = {
	    .report = report,
	    .subject = subject,
	    .member = member,
	    .instance = instance,
	    .held = held,
	    .policy = audit_policy_of(instance, member->role),
	    .uid = uid,
	};

	judge.allowed = judge.policy->descriptors & (member->helper ? of_helpers : ~0u);
	if (instance->services && !member->helper)
		judge.allowed |= DESCRIPTOR_BIT(DESCRIPTOR_SERVICE_MANAGER);
	const int r = for_each_descriptor(member->pid, judge_descriptor, &judge);
	if (r) {
		audit_unverified(report, subject, "descriptors", -r);
		return;
	}
	summarize(&judge, "sockets", first);
	summarize(&judge, "bpf", first);
	summarize(&judge, "descriptors", first);
	if (judge.allowed & DESCRIPTOR_BIT(DESCRIPTOR_PINS))
		summarize(&judge, "pins", first);
}
