/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker's state. Samples come in from the BPF ring, or deferred from the manager; their frames
 * are named; batches of records go out to the exporter.
 *
 * The path of a sample: turn.c takes it from the ring and sample_check.c checks it; samples.c asks
 * stack_ids.c for the id of its stack, which asks frames.c for the ids of its frames; frames.c asks
 * modules.c and symbols.c, kernel_symbols.c or runtimes.c for names. What is new is defined in the
 * batch (batch.c), then the sample is added to it.
 */
#ifndef SYMBOLIZER_WORKER_WORKER_H
#define SYMBOLIZER_WORKER_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/bpf_ring.h"
#include "common/clock.h"
#include "common/memory_shortage.h"
#include "role/process_reader.h"
#include "role/process_work.h"
#include "role/role.h"
#include "symbolizer/worker/batch.h"
#include "symbolizer/worker/deferred_count.h"
#include "symbolizer/worker/id_key.h"
#include "symbolizer/worker/ids.h"
#include "symbolizer/worker/jit_maps.h"
#include "symbolizer/worker/kallsyms_file.h"
#include "symbolizer/worker/kernel_debug.h"
#include "symbolizer/worker/kernel_symbols.h"
#include "symbolizer/worker/late_samples.h"
#include "symbolizer/worker/modules.h"
#include "symbolizer/worker/names_due.h"
#include "symbolizer/worker/processes.h"
#include "symbolizer/worker/recognition.h"
#include "symbolizer/worker/stack_ids.h"

struct identity;
struct runtimes;

struct worker {
	struct role role;
	struct bpf_ring ring;
	struct kernel_symbols *kernel; /* NULL: not read yet, or kernel frames have no names */
	struct kallsyms_file kallsyms;
	struct kernel_debug kernel_debug;
	uint64_t kernel_due_ns; /* its symbols are read then, if no frame needs them earlier; 0: not
				   yet */
	struct modules modules;
	struct processes processes;
	struct jit_maps jit_maps;
	struct process_reader reader;	 /* for files of /proc */
	struct process_work memory_work; /* for what reads the memory of processes */
	struct id_secret id_secret;
	struct ids ids;
	struct stack_ids stack_ids;
	struct memory_shortage shortage;
	struct bh_worker_control *control; /* read by the kernel side */
	struct batch batch;
	struct msg_losses losses;
	struct late_samples late; /* of the manager, whose names are on their way */
	struct deferred_count deferred;
	uint64_t waiting_since_ns; /* the record at the ring's head waits for a module that was not
				      announced yet; 0: it does not */
	struct time_share waiting; /* for all such waits */
	struct time_share waiting_for_debug; /* for those for debug files */
	uint32_t sample_tgid;		     /* of the last sample; 0: there was none */
	uint32_t module_given_up; /* neither this module nor one with a lower id is waited for */
	uint64_t scanned_ns;	  /* when the manager had reported all processes; 0: not yet */
	uint64_t takes_over_ns;	  /* until then, from another worker: see turn_take_over() */
	bool manager_drained;
	struct recognition recognition;
	struct runtimes *runtimes; /* NULL: the kernel side's table is not there */
	struct identity *identity; /* NULL: the identity of processes is not asked for */
	uint64_t naming_until_ns;  /* naming of managed frames pauses after this; 0: never */
	bool naming_paused;	   /* since the last managed frame that was named */
	bool naming_waits;	   /* for a debug file, or for symbols that are being read */
	enum names_due names_due;  /* of the stack that is being defined, or was defined last */
	bool batch_held;	   /* the batch waits for the identity of processes in it */
	bool ring_emptied;	   /* by the last turn */
	bool samples_are_due;	   /* the next tick only takes samples */
};

/* Returns whether what can be put off is to be put off, because the ring is half full. For a while
 * after a worker took over, that does not matter: the samples have waited for a worker. */
static inline bool worker_is_behind(const struct worker *worker)
{
	return bpf_ring_is_half_full(&worker->ring) &&
	       clock_monotonic_ns() >= worker->takes_over_ns;
}

/* Initialises everything but the role. `keep_batches`: the exporter may be restarted, see
 * resend_buffer.h. Returns 0 or a negative errno. */
int worker_init(struct worker *worker, bool keep_batches);

/* Frees everything but the role, dropping what was not sent. For tests: the process just ends. */
void worker_fini(struct worker *worker);

#endif
