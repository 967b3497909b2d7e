/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see modules.h. */
#include "unwinder-mgr/modules.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/exit_status.h"
#include "common/file_read.h"
#include "common/log.h"
#include "unwinder-mgr/manager.h"
#include "unwinder-mgr/module_state.h"
#include "unwinder-mgr/module_table.h"
#include "unwinder-mgr/runtime_check.h"

enum {
	VDSO_BYTES_MAX = 64 << 10, /* several times the size of any kernel's */
	VDSO_PAGE_BYTES = 4096,
};

static struct module **bucket_by_key(struct modules *modules, const struct module_key *key)
{
	return &modules->by_key[XXH3_64bits(key, sizeof(*key)) % MODULE_BUCKETS];
}

static struct module **bucket_by_file(struct modules *modules, const struct stat *file)
{
	const uint64_t id[2] = {file->st_dev, file->st_ino};

	return &modules->by_file[XXH3_64bits(id, sizeof(id)) % MODULE_BUCKETS];
}

static struct module **bucket_by_id(struct modules *modules, uint32_t id)
{
	return &modules->by_id[id % MODULE_BUCKETS];
}

static bool same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/* Returns whether both describe the same file with the same contents. A build id would not do: the
 * author of a file chooses it. */
static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       same_time(&a->st_mtim, &b->st_mtim) && same_time(&a->st_ctim, &b->st_ctim);
}

/* Returns whether the module's file has been written to, or unlinked, since it was opened. */
static bool module_is_stale(const struct module *module)
{
	struct stat now;

	return module->fd >= 0 &&
	       (file_read_status(module->fd, &now) < 0 || !same_file(&now, &module->file));
}

static void module_set_unannounced(struct modules *modules, struct module *module, bool unannounced)
{
	modules->unannounced += unannounced - module->unannounced;
	module->unannounced = unannounced;
}

/* Tells the worker the module's path, and hands it the file for the symbols. If too many files
 * already wait for the worker, this is tried again later. */
static void module_announce(struct manager *manager, struct module *module)
{
	struct msg_module message = {
	    .id = module->id,
	    .tgid = module->requested_for,
	    .tenant = share_tenant(module->share),
	};

	memcpy(message.path, module->path, sizeof(message.path));
	int r = peer_send(&manager->role.peers[ROLE_WORKER], MESSAGE_MODULE, &message,
			  sizeof(message), &module->fd, module->fd >= 0);
	module_set_unannounced(&manager->modules, module, r == -ENOBUFS);
}

/* Returns a slot that was never used, or whose last module was freed before the grace period; 0 if
 * there is none. */
static uint32_t modules_take_slot(struct modules *modules)
{
	const unsigned int first = modules->free_slot_first;

	if (modules->free_slot_count &&
	    clock_monotonic_ns() - modules->free_slots_ns[first] >= LIMIT_GRACE_MS * NS_PER_MS) {
		modules->free_slot_first = (first + 1) % MODULE_SLOTS;
		modules->free_slot_count--;
		return modules->free_slots[first];
	}
	return modules->next_slot + 1 < MODULE_SLOTS ? ++modules->next_slot : 0;
}

/* Copies the path, or the end of a long one, which says more than its start. The kernel appends
 * " (deleted)" to the name of an unlinked file in /proc/PID/maps. */
static void module_set_path(struct module *module, const char *path)
{
	static const char deleted[] = " (deleted)";
	const size_t suffix = sizeof(deleted) - 1, room = sizeof(module->path) - 1;
	size_t length = strlen(path);

	if (length > suffix && !strcmp(path + length - suffix, deleted))
		length -= suffix;
	if (length > room) {
		path += length - room;
		length = room;
	}
	memcpy(module->path, path, length);
	module->path[length] = 0;
}

/* An id is never used twice, because caches and tables that name modules would then be wrong. */
static bool are_ids_used_up(const struct modules *modules)
{
	return modules->last_id >= BH_MODULE_ID_MAX;
}

static struct module *module_new(struct modules *modules, const char *path)
{
	if (modules->count >= LIMIT_MODULES || are_ids_used_up(modules))
		return NULL;
	struct module *module = calloc(1, sizeof(*module));
	uint32_t slot = module ? modules_take_slot(modules) : 0;
	if (!slot) {
		free(module);
		return NULL;
	}
	module->fd = -1;
	module->slot = slot;
	module->id = ++modules->last_id;
	module->next_by_id = *bucket_by_id(modules, module->id);
	*bucket_by_id(modules, module->id) = module;
	module->next = modules->all;
	modules->all = module;
	modules->count++;
	module_set_path(module, path);
	module_publish(modules, module);
	return module;
}

static void unlink_by_key(struct modules *modules, struct module *module)
{
	for (struct module **link = bucket_by_key(modules, &module->key); *link;
	     link = &(*link)->next_by_key) {
		if (*link == module) {
			*link = module->next_by_key;
			break;
		}
	}
	module->shared = false;
}

static void unlink_by_file(struct modules *modules, struct module *module)
{
	for (struct module **link = bucket_by_file(modules, &module->file); *link;
	     link = &(*link)->next_by_file) {
		if (*link == module) {
			*link = module->next_by_file;
			break;
		}
	}
}

static void unlink_by_id(struct modules *modules, struct module *module)
{
	struct module **link = bucket_by_id(modules, module->id);

	while (*link != module)
		link = &(*link)->next_by_id;
	*link = module->next_by_id;
}

static void module_free(struct manager *manager, struct module *module, uint64_t now_ns)
{
	struct modules *modules = &manager->modules;
	const struct msg_id id = {.id = module->id};

	unlink_by_id(modules, module);
	if (module->shared)
		unlink_by_key(modules, module);
	if (module->fd >= 0) {
		unlink_by_file(modules, module);
		close(module->fd);
	}
	peer_send(&manager->role.peers[ROLE_WORKER], MESSAGE_MODULE_GONE, &id, sizeof(id), NULL, 0);
	unwind_table_builder_fini(&module->builder, &manager->rules, now_ns);
	share_give_back(module->share, SHARED_MODULES, 1);
	share_give_back(module->share, SHARED_RULES, module->rules_added);
	share_give_back(module->share, SHARED_SLABS, module->table.bytes);
	share_unref(module->share);
	table_retire(&module->table, &manager->slabs, &manager->rules, now_ns);
	const unsigned int last =
	    (modules->free_slot_first + modules->free_slot_count++) % MODULE_SLOTS;
	modules->free_slots[last] = module->slot;
	modules->free_slots_ns[last] = now_ns;
	modules->count--;
	modules->watched -= module->watched != RUNTIME_ACCESS_NONE;
	modules->placing -= module->state == MODULE_PLACING;
	module_set_unannounced(modules, module, false);
	free(module);
}

/* Returns whether the module's file could not be opened, and the last request for it was at least
 * LIMIT_MODULE_RETRY_MS ago, doubled as often as `doublings` says. */
static bool module_may_retry(const struct module *module, uint64_t now_ns, unsigned int doublings)
{
	const uint64_t pause_ns = (LIMIT_MODULE_RETRY_MS * NS_PER_MS) << doublings;

	return module->state == MODULE_UNKNOWN && module->fd < 0 &&
	       now_ns - module->requested_ns >= pause_ns;
}

/* Lets other processes be tried at once if the next request fails. */
static void module_allow_tries(struct module *module)
{
	module->tries_left = LIMIT_MODULE_TRIES;
	module->tried_exec = 0;
}

void module_give_up_file(struct manager *manager, struct module *module)
{
	module->wanted_elsewhere = false;
	module->tries_left = 0;
	module_announce(manager, module);
	module_set_state(manager, module, MODULE_UNKNOWN);
}

bool module_is_due(const struct module *module, uint64_t now_ns)
{
	const unsigned int doublings = module->failures ? module->failures - 1 : 0;

	return module_may_retry(
	    module, now_ns,
	    doublings < LIMIT_MODULE_RETRY_DOUBLINGS ? doublings : LIMIT_MODULE_RETRY_DOUBLINGS);
}

bool modules_any_due(const struct modules *modules, uint64_t now_ns)
{
	for (const struct module *m = modules->all; m; m = m->next) {
		if (module_is_due(m, now_ns))
			return true;
	}
	return false;
}

void modules_postpone_due(struct modules *modules, uint64_t now_ns)
{
	for (struct module *m = modules->all; m; m = m->next) {
		if (!module_is_due(m, now_ns))
			continue;
		m->requested_ns = now_ns;
		m->failures++;
	}
}

void module_request(struct manager *manager, struct module *module, struct process *process,
		    uint64_t start, uint64_t end)
{
	const struct msg_open_file request = {
	    .address_start = start,
	    .address_end = end,
	    .inode = module->key.inode,
	    .device_major = module->key.device_major,
	    .device_minor = module->key.device_minor,
	    .tgid = process->tgid,
	    .cookie = module->id,
	    .container = share_tenant(process->share).container,
	};

	module->requested_for = process->tgid;
	module->wanted_elsewhere = false;
	module->requested_ns = clock_monotonic_ns();
	const int r = peer_send(&manager->role.peers[ROLE_OPENER], MESSAGE_OPEN_FILE, &request,
				sizeof(request), NULL, 0);
	/* An opener that is started again is asked again. */
	if (r < 0 && r != -EPIPE) {
		module_give_up_file(manager, module);
		return;
	}
	module_set_state(manager, module, MODULE_OPENING);
	process->requests++;
}

/* Returns the module that has this key, if its file is unchanged. The processes that map the old
 * contents of a changed file keep its module, which can no longer be found. */
static struct module *modules_find_by_key(struct modules *modules, const struct module_key *key)
{
	for (struct module *m = *bucket_by_key(modules, key); m; m = m->next_by_key) {
		if (memcmp(&m->key, key, sizeof(*key)))
			continue;
		if (!module_is_stale(m))
			return m;
		unlink_by_key(modules, m);
		return NULL;
	}
	return NULL;
}

bool modules_allow(const struct modules *modules, const struct share *share)
{
	return share_allows(share, SHARED_MODULES, 1, LIMIT_MODULES - modules->count);
}

/* An agent that has had four million modules, or whose users have made as many files, begins again:
 * this role ends, and so all roles are restarted. A recording goes on without further modules. */
static void modules_begin_again(struct manager *manager)
{
	if (!manager->role.agent || manager->role.loop.stopped)
		return;
	log_warning("all ids of modules have been used, so all roles are restarted: ids=%u",
		    manager->modules.last_id);
	loop_stop(&manager->role.loop, STATUS_FAILED);
}

/* Returns `no_room` for a file of a process, with one use more. */
static struct module *modules_refuse(struct manager *manager, struct process *process)
{
	struct modules *modules = &manager->modules;

	process->refused = true;
	if (are_ids_used_up(modules))
		modules_begin_again(manager);
	else if (!modules_allow(modules, process->share))
		shares_log_refusal(&manager->shares, process->share, "files");
	module_get(modules->no_room);
	return modules->no_room;
}

struct module *modules_get(struct manager *manager, const struct module_key *key,
			   struct process *process, uint64_t start, uint64_t end, const char *path)
{
	struct modules *modules = &manager->modules;
	struct module *module = modules_find_by_key(modules, key);
	/* A file that nobody maps any more was tried for processes that have ended. */
	bool wanted = module && module_may_retry(
				    module, module->users ? clock_monotonic_ns() : UINT64_MAX, 0);

	if (!module) {
		if (modules_allow(modules, process->share) &&
		    process->requests < LIMIT_PROCESS_REQUESTS)
			module = module_new(modules, path);
		if (!module)
			return modules_refuse(manager, process);
		module->key = *key;
		module->shared = true;
		module->next_by_key = *bucket_by_key(modules, key);
		*bucket_by_key(modules, key) = module;
		wanted = true;
	}
	if (wanted) {
		module_allow_tries(module);
		module_request(manager, module, process, start, end);
	}
	module_get(module);
	return module;
}

struct module *modules_get_vdso(struct manager *manager)
{
	if (manager->modules.vdso)
		module_get(manager->modules.vdso);
	return manager->modules.vdso;
}

enum runtime_access module_check_runtime(struct manager *manager, struct module *module)
{
	const struct elf_source source = module_source(module);
	const struct work_subject subject = module_subject(module);

	if (module->checked || module->fd < 0)
		return RUNTIME_ACCESS_NONE;
	module->checked = true;
	work_begin(manager->role.work_page, &subject);
	const enum runtime_access access = runtime_check_file(&source, manager->modules.runtimes);
	work_end(manager->role.work_page);
	return access;
}

static struct module *modules_find_by_file(struct modules *modules, const struct stat *file)
{
	for (struct module *m = *bucket_by_file(modules, file); m; m = m->next_by_file) {
		if (same_file(&m->file, file))
			return m;
	}
	return NULL;
}

struct module *modules_find(struct modules *modules, uint32_t id)
{
	struct module *m = *bucket_by_id(modules, id);

	while (m && m->id != id)
		m = m->next_by_id;
	return m;
}

/* Adds the opened file to the module and builds its table. */
static void module_take_file(struct manager *manager, struct module *module, int fd)
{
	struct module **bucket = bucket_by_file(&manager->modules, &module->file);

	module->fd = fd;
	module->next_by_file = *bucket;
	*bucket = module;
	module_announce(manager, module);
	table_builds_add(manager, module);
}

/* Counts a module as held by a tenant. Returns false if that one may not have it. */
static bool module_charge(struct manager *manager, struct module *module, struct tenant tenant)
{
	struct modules *modules = &manager->modules;

	/* Where the uid is not known, because the process has just ended, all count as one. */
	module->share = shares_get(&manager->shares, tenant);
	const bool allowed = modules_allow(modules, module->share);
	share_take(module->share, SHARED_MODULES, 1);
	if (!allowed)
		shares_log_refusal(&manager->shares, module->share, "files");
	return allowed;
}

/* Lets the file of a module that is still awaited be requested for another process. */
static void module_want_elsewhere(struct modules *modules, struct module *module)
{
	module->wanted_elsewhere = modules->any_wanted_elsewhere = true;
}

struct modules_answer modules_on_file(struct manager *manager, const struct msg_file *answer,
				      struct tenant tenant, int fd)
{
	struct modules *modules = &manager->modules;
	struct module *module = modules_find(modules, answer->cookie);
	struct modules_answer result = {0};

	if (module && module->state == MODULE_OPENING)
		result.requested_for = module->requested_for;
	if (!module || module->state != MODULE_OPENING || fd < 0 ||
	    file_read_status(fd, &module->file) < 0) {
		if (fd >= 0)
			close(fd);
		if (module && module->state == MODULE_OPENING) {
			module->failures++;
			if (module->tries_left)
				module_want_elsewhere(modules, module);
			else
				module_give_up_file(manager, module);
		}
		return result;
	}
	result.module = module;
	/* The numbers that the kernel reports do not identify this file. Other processes with the
	 * same numbers may see another file at their path, and one container must not decide what
	 * another container's C library is. */
	result.unshared = !answer->same_file && module->shared;
	result.duplicate = modules_find_by_file(modules, &module->file);
	if (!result.duplicate && !module_charge(manager, module, tenant))
		result.duplicate = modules->no_room;
	if (module->shared && (result.unshared || result.duplicate))
		unlink_by_key(modules, module);
	if (result.duplicate)
		close(fd);
	else
		module_take_file(manager, module, fd);
	return result;
}

void modules_abandon(struct modules *modules, struct module *module)
{
	module->state = MODULE_UNKNOWN;
	modules->generation++;
}

bool modules_pending(const struct modules *modules)
{
	for (const struct module *m = modules->all; m; m = m->next) {
		if (module_is_pending(m))
			return true;
	}
	return false;
}

void modules_tell_worker(struct manager *manager)
{
	manager->modules.watched = 0;
	for (struct module *m = manager->modules.all; m; m = m->next) {
		m->watched = RUNTIME_ACCESS_NONE;
		m->checked = false;
		if (m->state != MODULE_OPENING)
			module_announce(manager, m);
	}
}

void modules_ask_again(struct modules *modules)
{
	for (struct module *m = modules->all; m; m = m->next) {
		if (m->state != MODULE_OPENING)
			continue;
		m->requested_for = 0;
		module_allow_tries(m);
		module_want_elsewhere(modules, m);
	}
}

void modules_announce_waiting(struct manager *manager)
{
	for (struct module *m = manager->modules.all; m && manager->modules.unannounced;
	     m = m->next) {
		if (m->unannounced)
			module_announce(manager, m);
	}
}

void modules_reclaim(struct manager *manager, uint64_t now_ns)
{
	/* Where modules or slabs are scarce, idle modules are freed at once. */
	const bool crowded =
	    manager->modules.count > LIMIT_MODULES * 3 / 4 || manager->slabs.exhausted;
	for (struct module **link = &manager->modules.all; *link;) {
		struct module *m = *link;
		const uint64_t idle_ns = (crowded || !modules_allow(&manager->modules, m->share)
					      ? LIMIT_GRACE_MS
					      : LIMIT_MODULE_IDLE_MS) *
					 NS_PER_MS;

		if (m->users || m->state == MODULE_OPENING || m->state == MODULE_BUILDING ||
		    now_ns < m->idle_since_ns + idle_ns) {
			link = &m->next;
			continue;
		}
		*link = m->next;
		module_free(manager, m, now_ns);
	}
}

int modules_add_no_room(struct manager *manager)
{
	struct module *module = module_new(&manager->modules, "[file without a table]");

	if (!module)
		return -ENOMEM;
	module->users = 1; /* so it is never freed */
	manager->modules.no_room = module;
	module_announce(manager, module);
	module_set_state(manager, module, MODULE_REFUSED);
	return 0;
}

int modules_add_vdso(struct manager *manager)
{
	const uint8_t *image =
	    (const uint8_t *)getauxval(AT_SYSINFO_EHDR); /* NOLINT: an address from the kernel */

	if (!image)
		return 0;
	_cleanup_close_ int fd = memfd_create("vdso", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	/* The size of the image is unknown. write(2) stops at the end of its pages, where reading
	 * would fault. */
	size_t done = 0;
	while (done < VDSO_BYTES_MAX) {
		ssize_t n = write(fd, image + done, VDSO_PAGE_BYTES);

		if (n <= 0)
			break;
		done += (size_t)n;
	}
	/* The worker receives it too, and the two must not share memory that one of them can write
	 * to. */
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
		return -errno;
	struct module *module = module_new(&manager->modules, "[vdso]");
	if (!module || file_read_status(fd, &module->file) < 0)
		return -ENOMEM;
	module->fd = TAKE_FD(fd);
	module->users = 1; /* so it is never freed */
	manager->modules.vdso = module;
	module_announce(manager, module);
	table_builds_add(manager, module);
	return 0;
}
