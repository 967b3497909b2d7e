/* SPDX-License-Identifier: Apache-2.0 */
/* Every cap on memory, time and number that is not part of a format: value, unit, reason. */
#ifndef COMMON_LIMITS_H
#define COMMON_LIMITS_H

enum {
	/* Startup: peers appear within this; a loaded machine may need seconds to exec five
	 * programs. ms */
	LIMIT_CONNECT_MS = 10000,
	/* Messages that wait for a slow peer, bytes a peer: some seconds of module announcements.
	 * Full: the sender is told. */
	LIMIT_QUEUE_BYTES = 16 << 20,
	/* File descriptors on their way to a slow peer. */
	LIMIT_QUEUE_FDS = 512,

	/* Modules whose file the manager holds open: its identity cannot be recycled while it does.
	 */
	LIMIT_MODULES = 4096,
	/* Bytes of .eh_frame or .debug_frame read for one module; the largest in Debian (a browser)
	 * is 30 MiB. */
	LIMIT_CFI_BYTES = 96 << 20,
	/* Rows that one module may cost while its table is built: 4 bytes each, and 16 for each run
	 * of functions in a row. */
	LIMIT_CFI_ROWS = 6000000,
	/* CFA instructions of one module, forged CIEs included: some seconds of work at the very
	 * most. */
	LIMIT_CFI_INSTRUCTIONS = 60000000,
	/* Code of one module that no call frame information describes and that is read instead,
	 * bytes: a C library has 0.5 MB of it, node 1.7; it costs a quarter of a second at most.
	 * Programs with more, all of Bun or Deno, are built with frame pointers instead. */
	LIMIT_CODE_BYTES = 4 << 20,
	/* So much of it is looked at in one piece: ten times as much memory, for some ms. */
	LIMIT_CODE_PIECE_BYTES = 512 << 10,
	/* If there is more than this of it (what a compiler's startup files have is less), the
	 * module's symbols and relocations are read to find its functions: a table of either,
	 * bytes. */
	LIMIT_CODE_STARTUP_BYTES = 4 << 10,
	LIMIT_CODE_ENTRIES_BYTES = 2 << 20,
	/* /proc/PID/maps of one process, bytes. */
	LIMIT_MAPS_BYTES = 4 << 20,
	/* Deferred stacks that wait for a table, bytes; 17 KiB at most each. Full: the oldest is
	 * sent on as it is. */
	LIMIT_DEFERRED_BYTES = 8 << 20,
	/* How long a deferred stack waits for its tables. ms */
	LIMIT_DEFERRED_MS = 1500,
	/* A freed block of a slab, or a dead process's mappings, may still be in use by a walker
	 * for this long. ms */
	LIMIT_GRACE_MS = 200,
	/* A process is forgotten this long after its exit: late samples of it may still arrive. ms
	 */
	LIMIT_EXIT_GRACE_MS = 3000,
	/* A module that no process maps keeps its table for this long: compilers come back. ms */
	LIMIT_MODULE_IDLE_MS = 60000,
	/* Maps of one process are read again at most this often. ms */
	LIMIT_RESCAN_MS = 500,

	/* Symbol indexes that the worker keeps, bytes in all; beyond, the least recently used goes.
	 */
	LIMIT_SYMBOLS_BYTES = 20 << 20,
	/* What runtimes remember of all processes (names, line tables, compiled methods), bytes;
	 * full: the processes that were named longest ago are forgotten. */
	LIMIT_RUNTIME_CACHE_BYTES = 48 << 20,
	/* Processes with a language runtime, each with a descriptor of its memory. */
	LIMIT_RUNTIME_PROCESSES = 1024,
	/* Distinct frames and stacks the worker knows by number; full: it forgets all and numbers
	 * anew. */
	LIMIT_WORKER_FRAMES = 1 << 18,
	LIMIT_WORKER_STACKS = 1 << 17,
	/* Stacks that come between the word to the kernel side and the forgetting: 10 ms of
	 * samples, and what one that lies about times adds. Full: their samples are lost and
	 * counted. */
	LIMIT_WORKER_CARRIED = 8192,
	/* A batch of records to the exporter, bytes: below the socket's buffer. */
	LIMIT_BATCH_BYTES = 60000,
	/* Batches that the worker keeps for an exporter that may be killed before it has read them:
	 * bytes, and ms; while there is no exporter, twice as many bytes wait. */
	LIMIT_WINDOW_BYTES = 2 << 20,
	LIMIT_WINDOW_MS = 10000,
	/* What an agent's exporter knows by number between two intervals, bytes, and its journal,
	 * which is memory as well: beyond, all is described anew. */
	LIMIT_DICTIONARY_BYTES = 3 << 20,
	LIMIT_JOURNAL_BYTES = 6 << 20,
	/* What it may hold until that has happened, bytes. Full: samples are lost and counted. */
	LIMIT_INTERVAL_BYTES = 16 << 20,
	/* A file with certificates or a key, bytes: the bundle of a distribution is 230 KiB. */
	LIMIT_PEM_BYTES = 4 << 20,
	/* The profile of a recording, bytes. Full: samples of new stacks are lost and counted. */
	LIMIT_PROFILE_BYTES = 512 << 20,

	/* Environment variables of a process that may be asked for. */
	LIMIT_IDENTITY_VARIABLES = 8,
	/* /proc/PID/environ, bytes: Kubernetes adds some 500 a service of the namespace. What lies
	 * behind counts as not there. */
	LIMIT_ENVIRON_BYTES = 128 << 10,
	/* Processes whose identity is not settled: asked for, or to be confirmed by their next
	 * sample. Full: the oldest keeps what is known of it. */
	LIMIT_IDENTITY_PROCESSES = 256,
	/* Of them, those that the opener is asked about at one time, three descriptors each: some
	 * hundred in flight, below its RLIMIT_NOFILE. Full: a process is asked about at one of its
	 * next samples. */
	LIMIT_IDENTITY_REQUESTS = 128,
	/* A batch is held back for answers on their way, which mostly take less than 1. ms */
	LIMIT_IDENTITY_HOLD_MS = 100,
	/* A request without an answer counts as lost; the next sample asks again. ms */
	LIMIT_IDENTITY_ANSWER_MS = 5000,
	/* Cgroups whose containers are remembered; a kubelet runs 110 pods of some containers.
	 * Full: the least recently used goes. */
	LIMIT_CONTAINERS = 512,

	/* A recording that `report` reads, bytes. */
	LIMIT_REPORT_BYTES = 1 << 30,
	/* Output files of one recording. */
	LIMIT_OUTPUTS = 8,
};

#endif
