/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/worker/modules.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/file_read.h"
#include "common/log.h"
#include "common/time_units.h"
#include "common/work_time.h"
#include "symbolizer/namer/named_frames.h"
#include "symbolizer/worker/limits.h"

enum {
	LOOKUP_FREE_NS = 100 * NS_PER_US, /* one that takes longer than this is accounted for */
	SLOW_SLICE_NS = 50 * NS_PER_MS,	  /* ten times what a slice may take */
	/* Parts of a lookup follow each other for this long. The last one may take 5 ms. */
	LOOKUP_PARTS_NS = 5 * NS_PER_MS,
	NAME_ON_RETRY_MS = 20, /* a lookup that cannot go on for lack of time is tried again */
};

void modules_init(struct modules *modules)
{
	*modules =
	    (struct modules){.reading = {.percent = LIMIT_SYMBOLS_TIME_PERCENT,
					 .most_ns = LIMIT_SYMBOLS_TIME_MS * NS_PER_MS},
			     .waiting = {.percent = LIMIT_SYMBOLS_WAIT_PERCENT,
					 .most_ns = LIMIT_SYMBOLS_WAIT_MS * NS_PER_MS},
			     .recognising = {.percent = LIMIT_RECOGNITION_TIME_PERCENT,
					     .most_ns = LIMIT_RECOGNITION_TIME_MS * NS_PER_MS},
			     .naming = {.percent = LIMIT_NAMERS_TIME_PERCENT,
					.most_ns = LIMIT_NAMERS_TIME_MS * NS_PER_MS}};
}

/* Returns the link to the module of this id. It points to NULL if there is none. */
static struct module **modules_link(struct modules *modules, uint32_t id)
{
	struct module **link = &modules->buckets[id % MODULES_BUCKETS];

	while (*link && (*link)->id != id)
		link = &(*link)->next;
	return link;
}

struct module *modules_find(const struct modules *modules, uint32_t id)
{
	struct module *module = modules->buckets[id % MODULES_BUCKETS];

	while (module && module->id != id)
		module = module->next;
	return module;
}

struct module *modules_next(const struct modules *modules, const struct module *module)
{
	struct module *next = module ? module->next : NULL;

	for (unsigned int i = module ? module->id % MODULES_BUCKETS + 1 : 0;
	     !next && i < MODULES_BUCKETS; i++)
		next = modules->buckets[i];
	return next;
}

static void module_set_subject(struct module *module, const struct msg_module *message)
{
	struct stat file = {0};

	/* If the file cannot be asked, its process is blamed. */
	file_read_status(module->fd, &file);
	module->subject = (struct work_subject){.device = file.st_dev,
						.inode = file.st_ino,
						.tgid = message->tgid,
						.tenant = message->tenant};
}

int modules_add(struct modules *modules, const struct msg_module *message, int fd)
{
	struct module **link = modules_link(modules, message->id);
	struct module *module = *link;
	const bool announced = module != NULL;

	if (!module) {
		module = calloc(1, sizeof(*module));
		if (!module)
			return -ENOMEM;
		module->id = message->id;
		module->fd = module->debug.fd = module->further.fd = -1;
		*link = module;
	}
	/* A second announcement brings the file that could not be opened at the first one, because
	 * the process that mapped it had already ended. */
	if (fd >= 0 && module->users)
		return -EBUSY;
	if (fd >= 0) {
		if (module->fd >= 0)
			close(module->fd);
		else if (announced)
			module->late_file = modules->late_files = true;
		module->fd = fd;
		module->no_symbols = false;
		module_set_subject(module, message);
	}
	memcpy(module->path, message->path, sizeof(module->path));
	module->path[sizeof(module->path) - 1] = 0;
	return 0;
}

uint64_t modules_definition(const struct modules *modules, uint32_t id)
{
	const struct module *module = modules->late_files ? modules_find(modules, id) : NULL;

	return module && module->late_file;
}

static void modules_drop_symbols(struct modules *modules, struct module *module)
{
	if (!module->symbols)
		return;
	modules->symbols_bytes -= symbols_bytes(module->symbols);
	modules->debug_files -= symbols_further_files(module->symbols);
	symbols_free(module->symbols);
	module->symbols = NULL;
}

static void modules_close_debug(struct modules *modules, struct module_debug_file *file)
{
	close(file->fd);
	file->fd = -1;
	modules->debug_files--;
}

/* Has a file be asked for again as if it never was. */
static void debug_file_restart(struct module_debug_file *file)
{
	file->state = MODULE_DEBUG_UNKNOWN;
	file->asked_ns = 0;
}

/* Closes a debug file of a module. It is asked for again when the symbols are read again. */
static void modules_drop_debug(struct modules *modules, struct module_debug_file *file)
{
	if (file->fd < 0)
		return;
	modules_close_debug(modules, file);
	debug_file_restart(file);
}

/* Drops everything that was read of a module. */
static void modules_evict_one(struct modules *modules, struct module *module)
{
	modules_drop_symbols(modules, module);
	modules_drop_debug(modules, &module->debug);
	modules_drop_debug(modules, &module->further);
}

static void module_free(struct module *module)
{
	if (module->fd >= 0)
		close(module->fd);
	free(module);
}

void modules_hold(struct module *module)
{
	module->users++;
}

void modules_release(struct module *module)
{
	if (--module->users == 0 && module->removed)
		module_free(module);
}

void modules_remove(struct modules *modules, uint32_t id)
{
	struct module **link = modules_link(modules, id);
	struct module *module = *link;

	if (!module)
		return;
	*link = module->next;
	/* What is being read is dropped when that has ended. */
	if (module != modules->being_read)
		modules_evict_one(modules, module);
	if (module == modules->being_named)
		modules->being_named = NULL;
	modules_hold(module);
	module->removed = true;
	modules_release(module);
}

static bool has_symbols(const struct module *module)
{
	return module->symbols != NULL;
}

static bool has_debug_file(const struct module *module)
{
	return module->debug.fd >= 0 || module->further.fd >= 0 ||
	       (module->symbols && symbols_further_files(module->symbols));
}

static bool has_debug_namer(const struct module *module)
{
	return module->symbols && module->debug.fd >= 0 &&
	       module->debug.state == MODULE_DEBUG_ADDED;
}

/* Returns the module that was not used for the longest time, of those that have something and are
 * not being read, or NULL. */
static struct module *modules_least_used(const struct modules *modules,
					 bool (*has)(const struct module *module))
{
	struct module *least = NULL;

	for (struct module *m = NULL; (m = modules_next(modules, m));) {
		if (m != modules->being_read && has(m) && (!least || m->used_ns < least->used_ns))
			least = m;
	}
	return least;
}

static bool modules_are_full(const struct modules *modules, size_t further_bytes)
{
	return modules->symbols_bytes + further_bytes > LIMIT_SYMBOLS_BYTES;
}

/* Evicts modules that were not used for a while, until there is room for further bytes. */
static void modules_evict_unused(struct modules *modules, size_t further_bytes, uint64_t now)
{
	struct module *least;

	while (modules_are_full(modules, further_bytes) &&
	       (least = modules_least_used(modules, has_symbols)) &&
	       now > least->used_ns + LIMIT_SYMBOLS_UNUSED_MS * NS_PER_MS)
		modules_evict_one(modules, least);
}

/* Drops what others than `keep`, which is in use, have in memory until all fits into the limit. */
static void modules_evict(struct modules *modules, const struct module *keep)
{
	struct module *least;

	if (!modules_are_full(modules, 0))
		return;
	modules_evict_unused(modules, 0, keep->used_ns);
	while (modules_are_full(modules, 0) &&
	       (least = modules_least_used(modules, has_debug_namer)) && least != keep) {
		modules->debug_files -= symbols_further_files(least->symbols);
		least->dropped_bytes = symbols_drop_debug(least->symbols);
		modules->symbols_bytes -= least->dropped_bytes;
		least->debug.state = MODULE_DEBUG_DROPPED;
		/* The next namer starts with the first further file again. */
		modules_drop_debug(modules, &least->further);
		debug_file_restart(&least->further);
	}
	while (modules_are_full(modules, 0) && (least = modules_least_used(modules, has_symbols)) &&
	       least != keep)
		modules_evict_one(modules, least);
}

/* Returns whether the namer of a module's debug file, which was dropped, may be added again: it
 * takes the place only of modules that are not used. Otherwise files that are all in use would
 * drop each other's again and again. */
static bool modules_may_restore(struct modules *modules, struct module *module)
{
	if (module->debug.state != MODULE_DEBUG_DROPPED || module->used_ns < module->again_ns)
		return false;
	modules_evict_unused(modules, module->dropped_bytes, module->used_ns);
	if (!modules_are_full(modules, module->dropped_bytes))
		return true;
	module->again_ns = module->used_ns + LIMIT_SYMBOLS_UNUSED_MS * NS_PER_MS;
	return false;
}

void modules_set_debug(struct modules *modules, struct module_debug_file *file, int fd)
{
	struct module *least = modules->debug_files >= LIMIT_DEBUG_FILES
				   ? modules_least_used(modules, has_debug_file)
				   : NULL;

	if (least)
		modules_evict_one(modules, least);
	file->fd = fd;
	modules->debug_files++;
}

static bool debug_file_is_due(const struct module_debug_file *file)
{
	return file->state == MODULE_DEBUG_ANSWERED && file->fd >= 0;
}

static bool further_is_due(const struct module *module)
{
	return debug_file_is_due(&module->further) && module->symbols &&
	       symbols_wanted(module->symbols);
}

void modules_do_without(struct module *module)
{
	symbols_do_without(module->symbols);
	debug_file_restart(&module->further);
}

bool modules_debug_is_due(const struct module *module)
{
	return debug_file_is_due(&module->debug) || further_is_due(module);
}

bool modules_may_recognise(struct modules *modules, const struct module *module)
{
	return !work_is_quarantined(modules->work_page, &module->subject) &&
	       time_share_is_left(&modules->recognising, clock_monotonic_ns());
}

/* Returns whether there is time to read the symbols of a module now. Its debug file and the index
 * of its functions have their turn right after its own symbols (`in_turn`). */
static bool modules_may_read(struct modules *modules, const struct module *module, uint64_t now,
			     bool in_turn)
{
	if ((in_turn || now >= module->again_ns) && time_share_is_left(&modules->reading, now) &&
	    time_share_is_left(&modules->waiting, now))
		return true;
	if (!modules->postponed_logged)
		log_warning("reading the symbols of files takes too long; some functions are shown "
			    "without names for a while; this is logged once");
	modules->postponed_logged = true;
	return false;
}

/* Reads the symbols of a module from its file. */
static int modules_read(struct modules *modules, struct module *module)
{
	int r = symbols_new(module->fd, LIMIT_SYMBOLS_FILE_BYTES, &module->symbols);

	if (r < 0) {
		log_debug("cannot read symbols: module=%u error=%s", module->id, strerror(-r));
		module->no_symbols = true;
		return -ENODATA;
	}
	module->ids = *symbols_get_ids(module->symbols);
	module->index_known = false;
	modules->symbols_bytes += symbols_bytes(module->symbols);
	return 0;
}

/* Adds what a debug file or a further file says. One that is not the module's own is closed. */
static void modules_add_debug(struct modules *modules, struct module *module,
			      struct module_debug_file *file,
			      int (*add)(struct symbols *symbols, int fd))
{
	const size_t before = symbols_bytes(module->symbols);

	const int r = add(module->symbols, file->fd);

	file->state = MODULE_DEBUG_ADDED;
	module->index_known = false;
	modules->symbols_bytes += symbols_bytes(module->symbols) - before;
	if (r == 0 && file == &module->further) {
		/* It belongs to the symbols now. There may be another one. */
		file->fd = -1;
		debug_file_restart(file);
	}
	if (r == 0)
		return;
	log_debug("a debug file is not used: module=%u error=%s", module->id, strerror(-r));
	/* Of other errors, a part may be in use, but never of a further file. */
	if (r == -ENOENT || r == -ENOEXEC || file == &module->further) {
		modules_close_debug(modules, file);
		file->state = MODULE_DEBUG_REFUSED;
	}
}

/* Reads what is missing of the symbols of a module and of its debug file, on a stack of its own. */
static void read_missing(void *context)
{
	struct modules *modules = context;
	struct module *module = modules->being_read;
	int r = 0;

	if (!module->symbols)
		r = modules_read(modules, module);
	if (r == 0 && module->debug.fd >= 0 && module->debug.state != MODULE_DEBUG_ADDED)
		modules_add_debug(modules, module, &module->debug, symbols_add_debug);
	if (r == 0 && further_is_due(module))
		modules_add_debug(modules, module, &module->further, symbols_add_wanted);
	if (r == 0 && module->ranges_due) {
		const size_t before = symbols_bytes(module->symbols);

		symbols_index_ranges(module->symbols);
		modules->symbols_bytes += symbols_bytes(module->symbols) - before;
	}
	module->ranges_due = false;
	modules->read_result = r;
}

/* Takes what was read. */
static void modules_end_reading(struct modules *modules)
{
	struct module *module = modules->being_read;

	log_debug("read symbols: module=%u ms=%llu", module->id,
		  (unsigned long long)(module->read_ns / NS_PER_MS));
	modules->being_read = NULL;
	module->again_ns = clock_monotonic_ns() + LIMIT_SYMBOLS_PAUSE * module->read_ns;
	if (module->removed)
		modules_evict_one(modules, module);
	else if (modules->read_result == 0)
		modules_evict(modules, module);
	modules_release(module);
}

/* Reads for a slice. Returns whether the reading has ended. */
static bool modules_read_slice(struct modules *modules)
{
	struct module *module = modules->being_read;
	const struct work_time begin = work_time_begin();
	uint64_t passed_ns, own_ns;

	work_begin(modules->work_page, &module->subject);
	const int r =
	    slices_work(&modules->slices, read_missing, modules, LIMIT_SLICE_MS * NS_PER_MS);
	work_end(modules->work_page);
	/* Nobody is to lack names because the machine is loaded or its disk busy. The caller has
	 * nothing read while many samples wait (`may_read`). */
	work_time_end(&begin, &passed_ns, &own_ns);
	const uint64_t used_ns = work_time_cpu_ns(&begin);
	const uint64_t cpu_ns = used_ns < own_ns ? used_ns : own_ns;
	time_share_spend(&modules->reading, cpu_ns);
	time_share_spend(&modules->waiting, own_ns - cpu_ns);
	module->read_ns += own_ns;
	if (own_ns > SLOW_SLICE_NS)
		log_debug("reading symbols was slow: module=%u ms=%llu of=%llu", module->id,
			  (unsigned long long)(own_ns / NS_PER_MS),
			  (unsigned long long)(passed_ns / NS_PER_MS));
	if (r == 0)
		modules_end_reading(modules);
	return r == 0;
}

bool modules_read_on(struct modules *modules)
{
	return modules->being_read && !modules_read_slice(modules);
}

/* Begins to read what is missing of the symbols of a module, and of its debug file. Returns 0 or an
 * error of modules_get_symbols(). */
static int modules_read_missing(struct modules *modules, struct module *module)
{
	const bool in_turn =
	    module->symbols && (modules_debug_is_due(module) || module->ranges_due);
	const uint64_t now = clock_monotonic_ns();

	if (module->no_symbols || module->fd < 0)
		return -ENODATA;
	if (work_is_quarantined(modules->work_page, &module->subject))
		return -ECANCELED;
	if (modules->being_read)
		return -EINPROGRESS;
	if (!modules_may_read(modules, module, now, in_turn))
		return -EAGAIN;
	module->read_ns = in_turn ? module->read_ns : 0;
	modules->being_read = module;
	modules_hold(module);
	return modules_read_slice(modules) ? modules->read_result : -EINPROGRESS;
}

int modules_get_symbols(struct modules *modules, struct module *module, bool may_read,
			struct symbols **symbols)
{
	const bool in_use = module == modules->being_read;
	int r = 0;

	module->used_ns = clock_monotonic_ns();
	*symbols = NULL;
	if (in_use || !module->symbols || modules_debug_is_due(module) ||
	    modules_may_restore(modules, module))
		r = may_read ? modules_read_missing(modules, module) : -EAGAIN;
	if (in_use || r == -EINPROGRESS)
		return r;
	*symbols = module->symbols;
	return module->symbols ? 0 : r;
}

/* Looks up an offset for as long as a lookup may take at once. Returns as modules_find_frames(), or
 * -EBUSY: there is no time for it now. */
static int find_frames(struct modules *modules, struct module *module, uint64_t file_offset,
		       struct named_frames *frames)
{
	const struct work_time begin = work_time_begin();
	const size_t before = symbols_bytes(module->symbols);

	if (!time_part_may_begin(&module->naming, &modules->naming, 0, begin.began_ns))
		return -EBUSY;
	if (!modules->cache)
		modules->cache = calloc(1, sizeof(*modules->cache));

	uint64_t passed_ns, own_ns;
	int r;
	do {
		work_begin(modules->work_page, &module->subject);
		r = symbols_find_frames(module->symbols, modules->cache, file_offset, frames);
		work_end(modules->work_page);
		passed_ns = clock_monotonic_ns() - begin.began_ns;
	} while (r == -EAGAIN && passed_ns < LOOKUP_PARTS_NS);
	if (passed_ns > LOOKUP_FREE_NS) {
		work_time_end(&begin, &passed_ns, &own_ns);
		time_part_spend(&module->naming, &modules->naming, own_ns, own_ns);
	}
	module->index_known |= r != -EAGAIN;
	modules->symbols_bytes += symbols_bytes(module->symbols) - before;
	modules_evict(modules, module);
	return r;
}

int modules_find_frames(struct modules *modules, struct module *module, uint64_t file_offset,
			struct named_frames *frames)
{
	if (!symbols_have_namer(module->symbols))
		return -ENOENT;
	/* Each lookup would go on with the same index, so that other work had to wait. */
	if (module == modules->being_named && !module->index_known)
		return -EAGAIN;
	const int r = find_frames(modules, module, file_offset, frames);
	if (r == -EAGAIN && !modules->being_named) {
		modules->being_named = module;
		modules->named_offset = file_offset;
	}
	return r == -EBUSY ? -EAGAIN : r;
}

int modules_name_on(struct modules *modules, bool may_read)
{
	struct module *module = modules->being_named;
	struct named_frames frames;
	int r = -ENOENT;

	if (!module)
		return -1;
	if (!may_read)
		return NAME_ON_RETRY_MS;
	/* What was dropped meanwhile begins again with the next lookup. */
	if (module != modules->being_read && module->symbols && symbols_have_namer(module->symbols))
		r = find_frames(modules, module, modules->named_offset, &frames);
	if (r == -EAGAIN || r == -EBUSY)
		return r == -EAGAIN ? 0 : NAME_ON_RETRY_MS;
	modules->being_named = NULL;
	return -1;
}

int modules_find_start(struct modules *modules, struct module *module, uint64_t file_offset,
		       uint64_t *start_vaddr)
{
	work_begin(modules->work_page, &module->subject);
	int r = symbols_find_start(module->symbols, file_offset, start_vaddr);
	work_end(modules->work_page);
	if (r != -EAGAIN)
		return r;
	module->ranges_due = true;
	r = modules_read_missing(modules, module);
	return r ? r : symbols_find_start(module->symbols, file_offset, start_vaddr);
}

void modules_fini(struct modules *modules)
{
	if (modules->being_read) {
		slices_finish(&modules->slices);
		modules_end_reading(modules);
	}
	for (unsigned int i = 0; i < MODULES_BUCKETS; i++) {
		while (modules->buckets[i])
			modules_remove(modules, modules->buckets[i]->id);
	}
	free(modules->cache);
	modules->cache = NULL;
}
