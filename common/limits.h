/* SPDX-License-Identifier: Apache-2.0 */
/* Caps on memory, time and counts that concern more than one directory. Each says its unit, its
 * reason, and what happens when it is reached. A cap that concerns one directory only is in the
 * limits.h of that directory, or next to the code that it bounds; sizes that are part of a file or
 * message format are with that format. */
#ifndef COMMON_LIMITS_H
#define COMMON_LIMITS_H

enum {
	/* ms. All peers of a role must have connected within this time after its start. A loaded
	 * machine may need seconds to execute five programs. Later: the recording fails. */
	LIMIT_CONNECT_MS = 10000,
	/* Bytes of messages that wait for one slow peer: some seconds of module announcements.
	 * Full: peer_send returns -ENOBUFS and nothing was sent. */
	LIMIT_QUEUE_BYTES = 16 << 20,
	/* File descriptors that wait for one slow peer. Full: as above. */
	LIMIT_QUEUE_FDS = 512,

	/* Bytes of .eh_frame or .debug_frame that are read for one module; the largest in Debian,
	 * of a browser, has 30 MiB. More: the section is not used. */
	LIMIT_CFI_BYTES = 96 << 20,

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
	LIMIT_WORKER_RETAINED = 8192,
	/* A batch of records to the exporter, bytes: below the socket's buffer. */
	LIMIT_BATCH_BYTES = 60000,
	/* Batches that the worker keeps for an exporter that may be killed before it has read them:
	 * bytes, and ms; while there is no exporter, twice as many bytes wait. */
	LIMIT_RESEND_BYTES = 2 << 20,
	LIMIT_RESEND_MS = 10000,
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
