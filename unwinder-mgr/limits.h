/* SPDX-License-Identifier: Apache-2.0 */
/* The manager's caps on memory, time and counts. Each says its unit, its reason, and what happens
 * when it is reached. Sizes of shared maps are in bpf/shared.h. */
#ifndef UNWINDER_MGR_LIMITS_H
#define UNWINDER_MGR_LIMITS_H

#include "common/limits.h"

enum {
	/* Files for which one process may wait at a time. Full: its further files are refused, and
	 * read again later (LIMIT_REFUSED_RETRY_MS). */
	LIMIT_PROCESS_REQUESTS = 512,
	/* ms. A process whose files were refused is looked at again after this, if its user may
	 * have more. A table for which there was no room is built again after this. */
	LIMIT_REFUSED_RETRY_MS = 10000,
	/* Tenants whose shares are counted one by one. Full: all further ones count as one. */
	LIMIT_SHARES = 1024,
	/* ms. A refusal is written to the log at most this often. */
	LIMIT_SHARE_LOG_MS = 60000,
	/* The CPU time in which the tables of one tenant's files are built: percent of the time,
	 * and ms at once. The files of a desktop take 3 s. More: their tables are built later. */
	LIMIT_BUILD_PERCENT = 25,
	LIMIT_BUILD_MS = 8000,
	/* The CPU time in which the processes of one tenant are followed: percent of the time, and
	 * ms at once, for the maps that are read at the start. 1,000 programs that start per second
	 * take 3 %. More: what the tenant's processes do is not followed, and their stacks end
	 * until there is time to read their maps again. */
	LIMIT_FOLLOW_PERCENT = 20,
	LIMIT_FOLLOW_MS = 250,
	/* A process counts as its parent's tenant until the opener was asked whose it is. That is
	 * done ms after its fork or exec, and after this many events (fork, exec, mapping) of its
	 * own and of its ancestors; later again after FACTOR times as many as then. A program that
	 * starts has 20. */
	LIMIT_TENANT_AGE_MS = 1000,
	LIMIT_TENANT_EVENTS = 64,
	LIMIT_TENANT_EVENTS_FACTOR = 4,
	/* Processes for which there is time again, or that may have ended, and whose maps are
	 * requested at once, every 250 ms. The others wait for their turn, so that the opener is
	 * not kept busy. */
	LIMIT_FOLLOW_AGAIN = 64,
	/* How many other processes are tried at once for a file that could not be opened through
	 * the one that had just mapped it. Full: it waits for its next turn, see below. */
	LIMIT_MODULE_TRIES = 3,
	/* ms. A file that could not be opened is requested again, at most this often, when another
	 * process maps it. For the processes that map it already, it is requested again after this
	 * pause, which doubles with each failure. */
	LIMIT_MODULE_RETRY_MS = 100,
	/* How often the pause doubles: up to 51 s. */
	LIMIT_MODULE_RETRY_DOUBLINGS = 9,
	/* ms. A module that no process maps keeps its table for this long, since compilers and
	 * shells start again soon. */
	LIMIT_MODULE_IDLE_MS = 60000,

	/* Rows of one module while its table is built: 4 bytes each, plus 16 for each range. The
	 * largest module of Debian, a browser, has 2 million. Full: the rest of its code is walked
	 * by frame pointers. */
	LIMIT_CFI_ROWS = 6000000,
	/* Call frame instructions executed for one module, forged ones included: some seconds of
	 * work at most. Full: as for rows. */
	LIMIT_CFI_INSTRUCTIONS = 60000000,
	/* Bytes of one module's code that nothing describes and that is analysed instead. A C
	 * library without descriptions (musl) has 0.5 MB and node 1.7 MB; this takes a quarter of
	 * a second at most. More: no code is analysed. Programs of that size without descriptions,
	 * such as Bun and Deno, are built with frame pointers. */
	LIMIT_CODE_BYTES = 4 << 20,
	/* Bytes of a code region, which is analysed as a whole. The analysis needs ten times as
	 * much memory for some milliseconds. */
	LIMIT_CODE_REGION_BYTES = 512 << 10,
	/* Bytes of uncovered code up to which the module's symbols and relocations are not searched
	 * for functions. The start-up files of a compiler have less. */
	LIMIT_CODE_STARTUP_BYTES = 4 << 10,
	/* Bytes of all symbol and relocation tables that are searched: a table that does not fit is
	 * not used. This takes some 30 ms at most. */
	LIMIT_CODE_ENTRIES_BYTES = 4 << 20,

	/* Bytes of /proc/PID/maps of one process. What lies beyond is missing until it is sampled,
	 * and the deferred stack then waits in vain. */
	LIMIT_MAPS_BYTES = 4 << 20,
	/* ms. The maps of one process are requested again at most this often; if it has more
	 * mappings than there is room for, every LIMIT_REFUSED_RETRY_MS. */
	LIMIT_RESCAN_MS = 500,
	/* ms. The same for this long after sideband records were lost: its maps may have been read
	 * while it started, and what it has mapped since then may not have been reported. */
	LIMIT_RESCAN_LOST_MS = 50,
	LIMIT_LOST_LATELY_MS = 2000,
	/* ms. All processes are scanned again, after sideband records were lost, at most this
	 * often, and with pauses of at least this many times what the last scan took. */
	LIMIT_SCAN_MS = 2000,
	LIMIT_SCAN_PAUSES = 9,
	/* ms. A process that the last scan did not find is asked for again after this, until it
	 * has ended or is found: it may be a zombie. */
	LIMIT_UNSEEN_RETRY_MS = 10000,
	/* ms. That sideband records were lost is written to the log at most this often. */
	LIMIT_LOST_LOG_MS = 60000,
	/* ms. A process is kept this long after its exit, because late samples may still arrive. */
	LIMIT_EXIT_GRACE_MS = 3000,

	/* Bytes of deferred stacks that wait for a table, 17 KiB each at most. Each user has a
	 * share of them (shares.h). Full: a new one is sent on as far as it can be walked. */
	LIMIT_DEFERRED_BYTES = 16 << 20,
	/* ms. A deferred stack waits this long for its tables, and is then sent on as far as it can
	 * be walked. */
	LIMIT_DEFERRED_MS = 1500,
	/* ms. Memory, rules and module slots are reused only after this, because a walker on some
	 * CPU may still be reading them. A walk takes less than 1 ms; the rest is reserve for
	 * virtual machines whose CPUs are paused. */
	LIMIT_GRACE_MS = 200,
};

#endif
