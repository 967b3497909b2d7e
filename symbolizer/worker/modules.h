/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The modules (files that processes map) that the manager announced, and their symbols.
 *
 * The symbols of a module are read when its first frame is to be named, in slices (slices.h): one
 * module at a time, whose symbols nobody uses meanwhile. All symbols together take at most
 * LIMIT_SYMBOLS_BYTES. Beyond that, what was used least recently is dropped: first modules that
 * were not used for a while, then the namers of debug files, which are the largest part and without
 * which functions still have names, and then all symbols of modules. Symbols are read again when
 * they are needed. A namer is added again when there is room without dropping what is in use.
 *
 * Reading may take long, and the profiled processes decide which files they map and in which order
 * their stacks use them. So it has only a share of the time, and a module whose symbols were
 * evicted has to pause before they are read again. A frame that needs symbols meanwhile is shown as
 * module and offset, and is looked up again when its stack comes again. The same holds for a file
 * on which an earlier worker hung or died (role/work_page.h).
 */
#ifndef SYMBOLIZER_WORKER_MODULES_H
#define SYMBOLIZER_WORKER_MODULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/slices.h"
#include "common/time_share.h"
#include "ipc/messages.h"
#include "parse/elf_cache.h"
#include "role/work_page.h"
#include "symbolizer/worker/hold.h"
#include "symbolizer/worker/symbols.h"

enum {
	MODULES_BUCKETS = 1024, /* a host maps some hundred to some thousand files */
	/* The id of the kernel's debug file (kernel_debug.h). The manager counts from 1. */
	MODULES_KERNEL = 0,
};

/* Whether there is a debug file is asked when the symbols have been read (debug_files.h). */
enum module_debug {
	MODULE_DEBUG_UNKNOWN, /* not asked yet, or it could not be found out */
	MODULE_DEBUG_ASKED,
	MODULE_DEBUG_REFUSED,  /* a file has come that is not the right one */
	MODULE_DEBUG_ANSWERED, /* the descriptor has come, or there is none */
	MODULE_DEBUG_ADDED,    /* the symbols that are in memory contain it */
	MODULE_DEBUG_DROPPED,  /* they did, but there was no room for its namer */
};

/* A debug file, or the further file that its namer wants now: whether and where it is searched. */
struct module_debug_file {
	int fd; /* -1: none */
	enum module_debug state;
	uint64_t asked_ns; /* the last time; 0: never */
	uint32_t place;	   /* MSG_DEBUG_*: where it is searched */
	uint32_t next;	   /* the first path there that was not tried yet */
	bool failed;	   /* there may be one that could not be opened */
	struct hold hold;  /* of the sample that waits for the answer */
};

struct module {
	struct module *next;
	uint32_t id; /* the manager's */
	int fd;	     /* -1: the file could not be opened */
	struct module_debug_file debug;
	struct module_debug_file further; /* what symbols_wanted() says; those before are added */
	size_t dropped_bytes;	     /* that the namer of the debug file had when it was dropped */
	struct work_subject subject; /* the file, for the record of what is worked on */
	unsigned int users;	     /* work in slices that uses the file */
	bool removed;		     /* it is freed when there are none */
	bool unrecognised; /* whether it is a language runtime is not known yet (recognition.h) */
	struct symbols *symbols; /* NULL: not read yet, or evicted */
	struct symbols_ids ids;	 /* read with the symbols */
	uint64_t read_ns;	 /* how long reading the symbols took, the last time */
	uint64_t again_ns;	 /* they are not read again before this time; 0: never read */
	struct time_part naming; /* its part of the time for lookups by namers */
	bool index_known; /* its namer has read what all lookups need: one has come to its end */
	bool no_symbols;  /* reading them failed, which is not tried again */
	bool ranges_due;  /* an index of its functions is needed (symbols_find_start()) */
	bool late_file;	  /* the first announcement came without the file */
	uint64_t used_ns; /* when the symbols were last used */
	char path[MSG_PATH_BYTES];
};

struct modules {
	struct module *buckets[MODULES_BUCKETS];
	size_t symbols_bytes;	       /* of all modules */
	unsigned int debug_files;      /* descriptors of debug files and further files */
	bool late_files;	       /* some module has a late file */
	bool missed;		       /* a frame was in a module that had not been announced */
	struct work_page *work_page;   /* of the role */
	struct module *being_read;     /* NULL: none */
	int read_result;	       /* of what was read of it */
	struct slices slices;	       /* in which it is read */
	struct module *being_named;    /* whose namer has more to read for an offset; NULL: none */
	uint64_t named_offset;	       /* in its file */
	struct time_share reading;     /* for reading symbols */
	struct time_share waiting;     /* for the disk meanwhile */
	struct time_share naming;      /* for lookups by namers */
	struct time_share recognising; /* language runtimes (recognition.h) */
	struct elf_cache *cache;       /* of the files that have namers; NULL: there is none yet */
	bool postponed_logged;	       /* that symbols could not be read in time */
};

void modules_init(struct modules *modules);

/* Returns NULL if the module was not announced, or was removed. */
struct module *modules_find(const struct modules *modules, uint32_t id);

/* Returns the module after this one, or the first one for NULL, in any order; NULL: no more. */
struct module *modules_next(const struct modules *modules, const struct module *module);

/* Returns whether it may be found out now if the file is that of a language runtime: it is not left
 * alone, and there is time for it. */
bool modules_may_recognise(struct modules *modules, const struct module *module);

/* Adds a module, or gives one that could not be opened before its file. Takes ownership of `fd`
 * (-1: there is none) on success. Returns 0; -EBUSY: its file is in use; or -ENOMEM. */
int modules_add(struct modules *modules, const struct msg_module *message, int fd);
void modules_remove(struct modules *modules, uint32_t id);
void modules_fini(struct modules *modules);

/* Keeps a module and its file until modules_release(), also if it is removed meanwhile. */
void modules_hold(struct module *module);
void modules_release(struct module *module);

/* Goes on with reading symbols, for a slice: what has begun is read to its end, even if it takes
 * more than its share of the time. Returns whether more is to be done. */
bool modules_read_on(struct modules *modules);

/* Returns what distinguishes the definition of a module, and of its frames, from an earlier one
 * that was made while its file could not be opened: 0 or 1. Frames that were defined then have no
 * names. */
uint64_t modules_definition(const struct modules *modules, uint32_t id);

/* Gives a module its debug file or a further file, and takes ownership of `fd`. If there are as
 * many as possible, the module with one that was used least recently loses it, with its symbols. */
void modules_set_debug(struct modules *modules, struct module_debug_file *file, int fd);

/* Gives up the further file that is wanted: there is none. */
void modules_do_without(struct module *module);

/* Returns whether the module has a debug file or a further file that its symbols in memory do not
 * contain yet. */
bool modules_debug_is_due(const struct module *module);

/* Finds the symbols of a module, with those of its debug file, and reads them if they are not in
 * memory, unless `may_read` is false. If only those of the debug file cannot be read now, the
 * others are found. They are valid until the next call for any module. Returns 0; -ENODATA if the
 * module has none; -ECANCELED if the file is left alone; -EAGAIN if there is no time to read them
 * now; or -EINPROGRESS: they are read since now, or those of another module are, and
 * modules_read_on() goes on with it. */
int modules_get_symbols(struct modules *modules, struct module *module, bool may_read,
			struct symbols **symbols);

/* Does the same as symbols_find_frames(), for a module whose symbols are in memory. Returns 0;
 * -ENOENT if there is no namer that knows the offset; -EAGAIN if more is to be done, or there is no
 * time for it now; or -EINPROGRESS. */
int modules_find_frames(struct modules *modules, struct module *module, uint64_t file_offset,
			struct named_frames *frames);

/* Goes on with what a namer has to read before it knows an offset that was looked up, unless
 * `may_read` is false: if only lookups did, the index of a large file would be complete after many
 * of them. Returns after how many milliseconds to go on again, or -1 if nothing is to be done. */
int modules_name_on(struct modules *modules, bool may_read);

/* Does the same as symbols_find_start(), for a module whose symbols are in memory. Returns 0;
 * -ENOENT if there is no function; -EAGAIN if there is no time now for the index that it needs; or
 * -EINPROGRESS as modules_get_symbols(). */
int modules_find_start(struct modules *modules, struct module *module, uint64_t file_offset,
		       uint64_t *start_vaddr);

#endif
