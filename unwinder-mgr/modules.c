/* SPDX-License-Identifier: Apache-2.0 */
#include "unwinder-mgr/modules.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file_read.h"
#include "common/log.h"
#include "unwinder-mgr/manager.h"

enum {
	MODULE_RETRY_MS = 100, /* a file that could not be had is asked for again by the next
				  process that maps it */
	VDSO_BYTES_MAX = 64 << 10,
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

static bool same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/* The identity of contents: a build id would be bytes that the file's author chose. */
static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       same_time(&a->st_mtim, &b->st_mtim) && same_time(&a->st_ctim, &b->st_ctim);
}

/* The held file may have been written or unlinked meanwhile. An unlinked one cannot be mapped anew
 * by name, so only its times of change count. */
static bool module_is_stale(const struct module *module)
{
	struct stat now;

	return module->fd >= 0 && (fstat(module->fd, &now) < 0 || !same_file(&now, &module->file));
}

static void module_publish(struct modules *modules, const struct module *module)
{
	struct bh_module *slot = &modules->published[module->slot];
	uint32_t state = module->state == MODULE_READY	   ? BH_MODULE_READY
			 : module->state == MODULE_UNKNOWN ? BH_MODULE_FRAME_POINTERS
							   : BH_MODULE_PENDING;

	slot->page_slab = module->table.pages.slab;
	slot->page_offset = module->table.pages.offset;
	slot->first_page = module->table.first_page;
	slot->page_count = module->table.page_count;
	__atomic_store_n(&slot->id, module->number, __ATOMIC_RELEASE);
	__atomic_store_n(&slot->state, state, __ATOMIC_RELEASE);
}

static void module_set_state(struct manager *manager, struct module *module,
			     enum module_state state)
{
	struct modules *modules = &manager->modules;

	modules->placing += (state == MODULE_PLACING) - (module->state == MODULE_PLACING);
	module->state = state;
	module_publish(modules, module);
	if (state == MODULE_READY || state == MODULE_UNKNOWN)
		modules->generation++;
}

static void module_announce(struct manager *manager, const struct module *module)
{
	struct msg_module message = {.number = module->number};

	memcpy(message.path, module->path, sizeof(message.path));
	peer_send(&manager->role.peers[ROLE_WORKER], MESSAGE_MODULE, &message, sizeof(message),
		  &module->fd, module->fd >= 0);
}

/* A slot nobody has, or whose last tenant has been gone for the grace period. 0: none. */
static uint32_t modules_take_slot(struct modules *modules)
{
	const unsigned int first = modules->free_slot_first;

	if (modules->free_slot_count &&
	    clock_monotonic_ns() - modules->free_slots_ns[first] >= LIMIT_GRACE_MS * 1000000ull) {
		modules->free_slot_first = (first + 1) % MODULE_SLOTS;
		modules->free_slot_count--;
		return modules->free_slots[first];
	}
	return modules->next_slot + 1 < MODULE_SLOTS ? ++modules->next_slot : 0;
}

/* The end of a long path tells more than its begin. What /proc/PID/maps appends to the name of an
 * unlinked file is not part of it. */
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

static struct module *module_new(struct modules *modules, const char *path)
{
	if (modules->count >= LIMIT_MODULES || modules->last_number >= BH_MODULE_ID_MAX)
		return NULL;
	struct module *module = calloc(1, sizeof(*module));
	uint32_t slot = module ? modules_take_slot(modules) : 0;
	if (!slot) {
		free(module);
		return NULL;
	}
	module->fd = -1;
	module->slot = slot;
	module->number = ++modules->last_number;
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

static void module_free(struct manager *manager, struct module *module, uint64_t now_ns)
{
	struct modules *modules = &manager->modules;
	const struct msg_number number = {.number = module->number};

	if (module->shared)
		unlink_by_key(modules, module);
	if (module->fd >= 0) {
		unlink_by_file(modules, module);
		close(module->fd);
	}
	peer_send(&manager->role.peers[ROLE_WORKER], MESSAGE_MODULE_GONE, &number, sizeof(number),
		  NULL, 0);
	unwind_table_builder_fini(&module->builder, &manager->rules, now_ns);
	table_retire(&module->table, &manager->slabs, &manager->rules, now_ns);
	const unsigned int last =
	    (modules->free_slot_first + modules->free_slot_count++) % MODULE_SLOTS;
	modules->free_slots[last] = module->slot;
	modules->free_slots_ns[last] = now_ns;
	modules->count--;
	modules->watched -= module->watched;
	modules->placing -= module->state == MODULE_PLACING;
	free(module);
}

static void module_ask(struct manager *manager, struct module *module, uint32_t tgid,
		       uint64_t start, uint64_t end)
{
	const struct msg_open_file request = {
	    .address_start = start,
	    .address_end = end,
	    .inode = module->key.inode,
	    .device_major = module->key.device_major,
	    .device_minor = module->key.device_minor,
	    .tgid = tgid,
	    .cookie = module->number,
	};

	module->asked_for = tgid;
	module->address_start = start;
	module->address_end = end;
	module->asked_ns = clock_monotonic_ns();
	module_set_state(manager, module, MODULE_OPENING);
	if (peer_send(&manager->role.peers[ROLE_OPENER], MESSAGE_OPEN_FILE, &request,
		      sizeof(request), NULL, 0) < 0)
		module_set_state(manager, module, MODULE_UNKNOWN);
}

static struct module *modules_find(struct modules *modules, const struct module_key *key)
{
	for (struct module *m = *bucket_by_key(modules, key); m; m = m->next_by_key) {
		if (memcmp(&m->key, key, sizeof(*key)))
			continue;
		if (!module_is_stale(m))
			return m;
		/* Its users keep the old contents; whoever maps the file now gets a new module. */
		unlink_by_key(modules, m);
		return NULL;
	}
	return NULL;
}

void modules_use(struct module *module)
{
	module->users++;
}

void modules_put(struct module *module)
{
	if (!--module->users)
		module->idle_since_ns = clock_monotonic_ns();
}

struct module *modules_get(struct manager *manager, const struct module_key *key, uint32_t tgid,
			   uint64_t start, uint64_t end, const char *path)
{
	struct modules *modules = &manager->modules;
	struct module *module = modules_find(modules, key);

	if (!module) {
		module = module_new(modules, path);
		if (!module)
			return NULL;
		module->key = *key;
		module->shared = true;
		module->next_by_key = *bucket_by_key(modules, key);
		*bucket_by_key(modules, key) = module;
		module_ask(manager, module, tgid, start, end);
	} else if (module->state == MODULE_UNKNOWN && module->fd < 0 &&
		   clock_monotonic_ns() - module->asked_ns > MODULE_RETRY_MS * 1000000ull) {
		module_ask(manager, module, tgid, start, end);
	}
	modules_use(module);
	return module;
}

struct module *modules_get_vdso(struct manager *manager)
{
	if (manager->modules.vdso)
		modules_use(manager->modules.vdso);
	return manager->modules.vdso;
}

static int read_fd(void *context, uint64_t offset, void *buffer, size_t length)
{
	return file_read_exactly(*(const int *)context, offset, buffer, length);
}

static void module_place(struct manager *manager, struct module *module)
{
	int r = table_place(&module->table, &module->builder, &manager->slabs);

	if (r == -EAGAIN) {
		module_set_state(manager, module, MODULE_PLACING);
		return;
	}
	if (r < 0)
		log_debug("no table: module=%u error=%s", module->number, strerror(-r));
	log_debug("table: module=%u bytes=%zu rows=%zu pages=%u rules=%zu", module->number,
		  module->table.bytes, module->builder.row_count, module->table.page_count,
		  module->table.rule_count);
	unwind_table_builder_fini(&module->builder, &manager->rules, clock_monotonic_ns());
	module_set_state(manager, module, r < 0 ? MODULE_UNKNOWN : MODULE_READY);
}

/* The file is there: table and announcement. */
static void module_build(struct manager *manager, struct module *module)
{
	const struct elf_source source = {
	    .read = read_fd, .context = &module->fd, .size = (uint64_t)module->file.st_size};

	module_announce(manager, module);
	int r = unwind_table_build(&module->builder, &manager->rules, &source);
	if (r < 0) {
		char name[MSG_PATH_BYTES];

		log_debug("no call frame information: module=%s error=%s",
			  log_escape(module->path, name, sizeof(name)), strerror(-r));
		module_set_state(manager, module, MODULE_UNKNOWN);
		return;
	}
	module_place(manager, module);
}

static struct module *modules_find_file(struct modules *modules, const struct stat *file)
{
	for (struct module *m = *bucket_by_file(modules, file); m; m = m->next_by_file) {
		if (same_file(&m->file, file))
			return m;
	}
	return NULL;
}

struct module *modules_by_number(struct modules *modules, uint32_t number)
{
	for (struct module *m = modules->all; m; m = m->next) {
		if (m->number == number)
			return m;
	}
	return NULL;
}

/*
 * The kernel's numbers do not name this file: processes that have the same numbers in their maps
 * may see another file at their path, and one container must not decide what another's libc is. So
 * only the process that was asked for gets this module; the others ask for themselves.
 */
static void module_stop_sharing(struct manager *manager, struct module *module)
{
	if (!module->shared)
		return;
	unlink_by_key(&manager->modules, module);
	processes_reask(manager, module, module->asked_for);
}

void modules_on_file(struct manager *manager, const struct msg_file *answer, int fd)
{
	struct modules *modules = &manager->modules;
	struct module *module = modules_by_number(modules, answer->cookie);

	if (!module || module->state != MODULE_OPENING || fd < 0 || fstat(fd, &module->file) < 0) {
		if (fd >= 0)
			close(fd);
		if (module && module->state == MODULE_OPENING) {
			module_announce(manager, module);
			module_set_state(manager, module, MODULE_UNKNOWN);
		}
		return;
	}
	if (!answer->same_file)
		module_stop_sharing(manager, module);
	struct module *known = modules_find_file(modules, &module->file);
	if (known && known != module) {
		close(fd);
		if (module->shared)
			unlink_by_key(modules, module);
		processes_replace_module(manager, module, known);
		return;
	}
	module->fd = fd;
	module->next_by_file = *bucket_by_file(modules, &module->file);
	*bucket_by_file(modules, &module->file) = module;
	module_build(manager, module);
}

bool modules_pending(const struct modules *modules)
{
	for (const struct module *m = modules->all; m; m = m->next) {
		if (m->state == MODULE_OPENING || m->state == MODULE_PLACING)
			return true;
	}
	return false;
}

void modules_place_waiting(struct manager *manager)
{
	for (struct module *m = manager->modules.all; m && manager->modules.placing; m = m->next) {
		if (m->state == MODULE_PLACING)
			module_place(manager, m);
	}
}

void modules_reclaim(struct manager *manager, uint64_t now_ns)
{
	/* Short of room, what is idle goes at once. */
	const bool crowded =
	    manager->modules.count > LIMIT_MODULES * 3 / 4 || manager->slabs.exhausted;
	const uint64_t patience_ns = (crowded ? LIMIT_GRACE_MS : LIMIT_MODULE_IDLE_MS) * 1000000ull;

	for (struct module **link = &manager->modules.all; *link;) {
		struct module *m = *link;

		if (m->users || m->state == MODULE_OPENING ||
		    now_ns < m->idle_since_ns + patience_ns) {
			link = &m->next;
			continue;
		}
		*link = m->next;
		module_free(manager, m, now_ns);
	}
}

int modules_add_vdso(struct manager *manager)
{
	const uint8_t *image =
	    (const uint8_t *)getauxval(AT_SYSINFO_EHDR); /* NOLINT: the kernel's own address */

	if (!image)
		return 0;
	_cleanup_close_ int fd = memfd_create("vdso", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* Its pages end before the next mapping: write(2) stops there instead of faulting. */
	size_t done = 0;
	while (done < VDSO_BYTES_MAX) {
		ssize_t n = write(fd, image + done, 4096);

		if (n <= 0)
			break;
		done += (size_t)n;
	}
	struct module *module = module_new(&manager->modules, "[vdso]");
	if (!module || fstat(fd, &module->file) < 0)
		return -ENOMEM;
	module->fd = TAKE_FD(fd);
	module->users = 1; /* never forgotten */
	manager->modules.vdso = module;
	module_build(manager, module);
	return 0;
}
