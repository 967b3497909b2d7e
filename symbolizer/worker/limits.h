/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's caps on memory, time and counts. Each says its unit, its reason, and what happens
 * when it is reached. Caps on what is read from a language runtime are in symbolizer/runtime. */
#ifndef SYMBOLIZER_WORKER_LIMITS_H
#define SYMBOLIZER_WORKER_LIMITS_H

#include "common/limits.h"

enum {
	/* Percent of the time, and ms at once, in which samples wait in the ring for announcements
	 * of modules. One takes milliseconds. Full: frames of modules that were not announced are
	 * shown as those of an unknown module. */
	LIMIT_ANNOUNCEMENTS_TIME_PERCENT = 25,
	LIMIT_ANNOUNCEMENTS_TIME_MS = 1000,
	/* The same for the opener's answers on debug files, which take 0.1 ms. Full: frames are
	 * described without the debug file at first. */
	LIMIT_DEBUG_FILES_TIME_PERCENT = 10,
	LIMIT_DEBUG_FILES_TIME_MS = 1000,
	/* Bytes of all symbol indexes, and of the namers of debug files, of which one may take
	 * nearly all if its sections are large and compressed. Full: the least recently used one is
	 * evicted; if all were used within the time below (ms), the lines and inlined calls of
	 * debug files are dropped first, until there is room for them again. */
	LIMIT_SYMBOLS_BYTES = 48 << 20,
	/* Bytes of the index of one file: 2.7 million functions. Full: it has no names. */
	LIMIT_SYMBOLS_FILE_BYTES = 32 << 20,
	LIMIT_SYMBOLS_UNUSED_MS = 10000,
	/* Debug files, each with a descriptor in addition to that of its module. Full: that of the
	 * module which was used least recently is closed, its symbols are evicted, and both are
	 * read again when they are needed. */
	LIMIT_DEBUG_FILES = 512,
	/* ms. A debug file that could not be opened, for another reason than that there is none, is
	 * asked for again after this. Frames that were named meanwhile keep their names. */
	LIMIT_DEBUG_RETRY_MS = 10000,
	/* ms. Work on a file pauses after this, and messages are handled (common/slices.h). */
	LIMIT_SLICE_MS = 5,
	/* Percent of the time, and ms at once, for reading the symbols of files: a million
	 * functions take 100 to 200 ms. Full: new frames of files whose symbols are not in memory
	 * have no names until there is time again. */
	LIMIT_SYMBOLS_TIME_PERCENT = 25,
	LIMIT_SYMBOLS_TIME_MS = 1000,
	/* The same for waiting for the disk meanwhile. Where that is busy, a file whose symbols
	 * take 40 ms may take a second. */
	LIMIT_SYMBOLS_WAIT_PERCENT = 50,
	LIMIT_SYMBOLS_WAIT_MS = 10000,
	/* Symbols that were evicted are read again after a pause of this many times what reading
	 * them took, so that no file takes more than a twentieth of the time. Frames of the file
	 * that are new during the pause have no names until it is over. */
	LIMIT_SYMBOLS_PAUSE = 20,
	/* Maps of generated code, jitdump files among them, each with a descriptor and 2 KiB;
	 * processes that have none count, too. Full: the one that was used least recently is
	 * removed, and asked for again when it is needed. */
	LIMIT_JIT_MAPS = 256,
	/* Ranges of one map, and bytes of their names: V8's map of a large program has 50,000.
	 * Full: those so far are dropped, and those that follow are read. */
	LIMIT_JIT_ENTRIES = 1 << 17,
	LIMIT_JIT_TEXT_BYTES = 12 << 20,
	/* Source lines of one map, with 12 bytes each, and of one function, which are searched for
	 * each of its frames: V8 has about 20 for a usual function. Full: the lines that follow are
	 * not read. */
	LIMIT_JIT_LINES = 1 << 20,
	LIMIT_JIT_ENTRY_LINES = 1 << 14,
	/* Bytes of the ranges, names and lines of all maps. Full: the largest one is dropped, so
	 * that a process with few names keeps them. It is read again after LIMIT_JIT_RETRY_MS. */
	LIMIT_JIT_BYTES = 48 << 20,
	/* Bytes of a map that are read. Full: what follows has no names. */
	LIMIT_JIT_FILE_BYTES = 1 << 30,
	/* ms. A process without a map is asked for it again after this, if it is sampled in
	 * generated code. */
	LIMIT_JIT_RETRY_MS = 10000,
	/* Percent of the time, and ms at once, in which samples wait in the ring for maps, and for
	 * reading maps. Each process has a part of both (common/time_share.h). Full: frames in
	 * generated code have no names until there is time again. */
	LIMIT_JIT_WAIT_TIME_PERCENT = 10,
	LIMIT_JIT_WAIT_TIME_MS = 1000,
	LIMIT_JIT_TIME_PERCENT = 10,
	LIMIT_JIT_TIME_MS = 1000,
	/* Percent of the time, and ms at once, for lookups by the namers of files, of which each
	 * file has a part (common/time_share.h). It is not the time for symbols, so that new files
	 * with endless debug information use up this one alone. Full: new frames have the names of
	 * symbols, without lines and inlined functions, until there is time again. */
	LIMIT_NAMERS_TIME_PERCENT = 25,
	LIMIT_NAMERS_TIME_MS = 1000,
	/* Percent of the time, and ms at once, for recognising language runtimes in files: that of
	 * Node takes 20 ms, and a file that only pretends to be one 80 ms, or more on a slow disk.
	 * Full: files that are announced wait for it, and their processes are not attached to
	 * meanwhile. */
	LIMIT_RECOGNITION_TIME_PERCENT = 25,
	LIMIT_RECOGNITION_TIME_MS = 1000,
	/* Percent of the time, and ms at once, for reading the memory of processes: to attach to
	 * their language runtimes and to name managed frames, which takes 10 to 100 us for each.
	 * Each process has a part of it (common/time_share.h). Full: new frames of the processes
	 * that have used most of it have no names until there is time again. */
	LIMIT_RUNTIMES_TIME_PERCENT = 50,
	LIMIT_RUNTIMES_TIME_MS = 300,
	/* ms. That a process has no time left is written to the log at most this often. */
	LIMIT_RUNTIMES_TIME_LOG_MS = 60000,
	/* Bytes that runtimes cache for all processes: names, line tables, compiled methods. Full:
	 * the caches that were used least recently are dropped. */
	LIMIT_RUNTIME_CACHE_BYTES = 48 << 20,
	/* Processes with a language runtime, each with a descriptor of its memory and 6 KiB; also
	 * those that ended a moment ago. Full: the runtime of a further process is not attached,
	 * which is counted (no_room), and its frames stay native. */
	LIMIT_RUNTIME_PROCESSES = 3072,
	/* Copies of memory for the names of new code, with up to 2 KiB each: those of four stacks
	 * (NEW_CODES_MAX of bpf/env.h). Full: the oldest one is replaced, and the name it was for
	 * is read from the process. */
	LIMIT_MEMORY_COPIES = 256,
	/* Bytes of samples of the manager that wait for names: some hundred. Full: further ones are
	 * named as far as that is possible at once. */
	LIMIT_LATE_SAMPLES_BYTES = 512 << 10,
	/* Distinct stacks to which ids are assigned. Full: all ids are reset, and everything is
	 * described again. */
	LIMIT_WORKER_STACKS = 1 << 17,
	/* Stacks that arrive between the request of a reset and the reset: 10 ms of samples, and
	 * more if the manager forges times. Full: later samples of these stacks are lost and
	 * counted. */
	LIMIT_WORKER_RETAINED = 8192,
	/* Bytes of batches that are kept for an exporter that may be killed before it has read
	 * them. While there is no exporter, twice as many bytes may wait. */
	LIMIT_RESEND_BYTES = 2 << 20,
	/* ms. A batch is kept this long for that purpose. */
	LIMIT_RESEND_MS = 10000,

	/* Bytes of /proc/PID/environ that are read: Kubernetes adds about 500 for each service of
	 * the namespace. A variable beyond this counts as absent. */
	LIMIT_ENVIRON_BYTES = 128 << 10,
	/* Processes whose identity is not final: it was requested, or the next sample must confirm
	 * it. Full: the oldest of them keeps what was found so far. */
	LIMIT_IDENTITY_PROCESSES = 256,
	/* Requests that the opener has not answered, with three descriptors each. This keeps it
	 * below its RLIMIT_NOFILE. Full: a process is asked about at one of its next samples. */
	LIMIT_IDENTITY_REQUESTS = 128,
	/* ms. A batch is held back this long for an answer, which mostly takes less than 1 ms. */
	LIMIT_IDENTITY_HOLD_MS = 100,
	/* ms. A request without an answer counts as lost after this. The next sample repeats it. */
	LIMIT_IDENTITY_ANSWER_MS = 5000,
	/* Cgroups whose container is cached: a kubelet runs 110 pods of a few containers. Full: the
	 * least recently used one is evicted. */
	LIMIT_CONTAINERS = 512,
};

#endif
