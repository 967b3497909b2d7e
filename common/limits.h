/* SPDX-License-Identifier: Apache-2.0 */
/* Caps on memory, time and counts that concern more than one directory. Each says its unit, its
 * reason, and what happens when it is reached. A cap that concerns one directory only is in the
 * limits header of that directory, or next to the code that it bounds; sizes that are part of a
 * file or message format are with that format. */
#ifndef COMMON_LIMITS_H
#define COMMON_LIMITS_H

enum {
	/* ms. All peers of a role must have connected within this time after its start. A loaded
	 * machine may need seconds to execute five programs and to verify the first one for BPF:
	 * mostly 3 s next to six interpreters at full speed on two CPUs, but 10 s and more than
	 * 20 s were seen. Later: the recording fails. */
	LIMIT_CONNECT_MS = 60000,
	/* Bytes of messages that wait for one slow peer: some seconds of module announcements.
	 * Full: peer_send returns -ENOBUFS and nothing was sent. */
	LIMIT_QUEUE_BYTES = 16 << 20,
	/* File descriptors that wait for one slow peer. Full: as above. */
	LIMIT_QUEUE_FDS = 512,
	/* Bytes of a batch of records from the worker to the exporter, which must fit into the
	 * socket's buffer. Full: the batch is sent, and the next one starts. */
	LIMIT_BATCH_BYTES = 60000,

	/* ms. An agent's exporter or worker that has lost samples for lack of memory for this long,
	 * with no pause as long as the second one, ends, and is started again. */
	LIMIT_SHORTAGE_MS = 30000,
	LIMIT_SHORTAGE_PAUSE_MS = 5000,

	/* Modules that exist at the same time, each with one open file in the manager and in the
	 * worker: an inode number cannot be recycled while its file is open. Full: stacks that go
	 * through further files end with table_refused. */
	LIMIT_MODULES = 4096,
	/* Bytes of .eh_frame or .debug_frame that are read for one module; the largest in Debian,
	 * of a browser, has 30 MiB. More: the section is not used. */
	LIMIT_CFI_BYTES = 96 << 20,
	/* Distinct frames to which the worker assigns ids, and which the exporter expects at most.
	 * Full: the worker resets all ids and describes everything again. */
	LIMIT_WORKER_FRAMES = 1 << 18,
	/* Ids of these frames. A managed frame takes one for each function inlined there. Full: as
	 * above. */
	LIMIT_WORKER_FRAME_IDS = 3 << 18,

	/* Frames of one stack: kernel frames, 2,048 user frames, the functions inlined into managed
	 * ones, and the reason of an incomplete stack. The worker leaves out the outermost managed
	 * frames beyond it; the exporter loses the samples of a longer stack. */
	LIMIT_STACK_FRAMES = 2304,

	/* Environment variables of a process that the user may ask for. More: the command line is
	 * refused. */
	LIMIT_IDENTITY_VARIABLES = 8,
	/* Directories in which debug files are searched. More: the command line or the
	 * configuration is refused. */
	LIMIT_DEBUG_DIRECTORIES = 8,
	/* Output files of one recording. More: the command line is refused. */
	LIMIT_OUTPUTS = 8,
	/* Labels that the samples of a report must have. More: as above. */
	LIMIT_REPORT_LABELS = 10,
};

#endif
