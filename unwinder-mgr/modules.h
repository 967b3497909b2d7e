/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules: files that processes map executable. Each is opened and parsed once.
 *
 * How this works. The kernel reports a mapping's file by device and inode, the key. modules_get
 * looks the key up without opening anything. If the key is new, the opener is asked to open the
 * file (MODULE_OPENING). Its answer goes to modules_on_file, which has the unwind table built and
 * placed (MODULE_READY), or finds that another module has the same file.
 *
 * The inode of an open file cannot be recycled, so a module keeps its file open. Somebody may still
 * write to it: before a module is reused, its size and times are compared, and a changed file
 * becomes a new module. Processes that mapped the old contents keep the old module.
 *
 * The opener may fail: the process that mapped the file has ended or executes another program, or
 * descriptors are short. Then the file is requested at once for up to LIMIT_MODULE_TRIES others
 * that map it, while stacks are still deferred. If that fails, too, frame pointers are used
 * (MODULE_UNKNOWN), and the file is requested again with growing pauses (process_files.h).
 *
 * Files, rules and bytes of tables are counted as held by the user of the process through which the
 * file was opened (shares.h). A file that this user may not have in addition gets no module: its
 * mappings belong to the module `no_room`. A module whose table finds no room keeps its name
 * (MODULE_REFUSED). In both cases stacks end there with the reason "table_refused", and it is tried
 * again later.
 *
 * On overlayfs and btrfs the reported numbers are not those of stat(2), and two containers may have
 * different files under the same numbers. Then the answer says so, and the module is only for the
 * process that it was opened for; every other process has the file opened for itself, and equal
 * files are recognised by stat(2).
 *
 * Example: 100 processes map libc.so.6, device 8:1, inode 77. The first makes module 5 in slot 3,
 * with 1 user, and has it opened; the other 99 find it by its key. When the last one exits, module
 * 5 keeps its table for LIMIT_MODULE_IDLE_MS, in case somebody maps the library again.
 */
#ifndef UNWINDER_MGR_MODULES_H
#define UNWINDER_MGR_MODULES_H

#include <stdbool.h>
#include <stdint.h>

#include "ipc/messages.h"
#include "unwinder-mgr/module.h"

struct manager;
struct process;

/* What the opener's answer means for the processes that map the module. */
struct modules_answer {
	uint32_t requested_for;	  /* the process that had asked for it; 0: none had */
	struct module *module;	  /* NULL: nothing to do */
	bool unshared;		  /* other processes must have the file opened for themselves */
	struct module *duplicate; /* unless NULL, this module has the same file and replaces it */
};

/* Makes the module of all files for which there is no room. Returns 0 or -ENOMEM. */
int modules_add_no_room(struct manager *manager);

/* Makes a module of this kernel's vDSO, from this process's own. Called before the sandbox, since
 * it makes a file of it for the worker. Returns 0 or a negative errno. */
int modules_add_vdso(struct manager *manager);

/* Returns the module of a file mapping in a process, with one use more; a new module is requested
 * from the opener. That is `no_room` if the process may not have one more. */
struct module *modules_get(struct manager *manager, const struct module_key *key,
			   struct process *process, uint64_t start, uint64_t end, const char *path);

/* Returns whether a file of this user would get a module. */
bool modules_allow(const struct modules *modules, const struct share *share);

/* Returns whether the module's file could not be opened, and it is time to request it again. */
bool module_is_due(const struct module *module, uint64_t now_ns);

/* Returns whether module_is_due() for any module. */
bool modules_any_due(const struct modules *modules, uint64_t now_ns);

/* Asks the opener for the module's file, which the process maps at [start, end). */
void module_request(struct manager *manager, struct module *module, struct process *process,
		    uint64_t start, uint64_t end);

/* Lets the walker use frame pointers in a module whose file cannot be opened for now, and announces
 * it without a file. */
void module_give_up_file(struct manager *manager, struct module *module);

/* Lets the modules that are due wait for their next turn: no process maps them. */
void modules_postpone_due(struct modules *modules, uint64_t now_ns);

/* Returns the vDSO's module with one use more, or NULL if there is none. */
struct module *modules_get_vdso(struct manager *manager);

/* Returns the module with this id, or NULL. */
struct module *modules_find(struct modules *modules, uint32_t id);

/* Returns what the worker may do with the processes of the module, if its file can be a language
 * runtime. The file is read the first time only, and nothing is allowed from then on: the caller
 * keeps the answer in `watched`. */
enum runtime_access module_check_runtime(struct manager *manager, struct module *module);

/* Returns whether any module still waits for its file or for a slab. */
bool modules_pending(const struct modules *modules);

/* Handles the opener's answer about a file of this tenant; `fd` is taken over. The caller applies
 * the result to the processes (process_files_on_answer). */
struct modules_answer modules_on_file(struct manager *manager, const struct msg_file *answer,
				      struct tenant tenant, int fd);

/* Lets the walker use frame pointers in a module whose mappings all belong to another one now. */
void modules_abandon(struct modules *modules, struct module *module);

/* Announces all modules to a worker that has just started, and watches none of them for it. */
void modules_tell_worker(struct manager *manager);

/* Lets the files be asked for again that an opener which has ended was asked for. */
void modules_ask_again(struct modules *modules);

/* Announces the modules that the worker could not take before. */
void modules_announce_waiting(struct manager *manager);

/* Frees modules that no process has mapped for LIMIT_MODULE_IDLE_MS. */
void modules_reclaim(struct manager *manager, uint64_t now_ns);

#endif
