/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a recording has few or no samples.
 *
 * How this works: Bulkhead samples code that runs on a CPU, `frequency` times per second per CPU.
 * A thread that waits is not sampled. So the number of samples to expect is the CPU time that the
 * selected processes used, times the frequency. When sampling starts and when it stops, the CPU
 * time of the selected processes, of the cgroup or of the machine is read. If few samples were
 * taken, the difference says which of the possible reasons is true.
 *
 * Example: `bulkhead record -p 812 -d 10` takes 2 samples. Process 812 still exists and used 0.02 s
 * of CPU time in these 10 s. The explanation starts with "the selected process used 0.02 s of CPU
 * time in 10.0 s and waited for the rest".
 */
#ifndef CLI_FEW_SAMPLES_H
#define CLI_FEW_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/options.h"

enum {
	FEW_SAMPLES = 20, /* below this a flame graph shows single stacks, not shares of time */
	FEW_SAMPLES_TEXT_BYTES = 384,
};

/* What was selected. If several options select, the explanation is about one of them. */
enum few_samples_scope {
	FEW_SAMPLES_OF_MACHINE,
	FEW_SAMPLES_OF_PROCESSES, /* -p */
	FEW_SAMPLES_OF_THREAD,	  /* -t */
	FEW_SAMPLES_OF_CGROUP,	  /* -G */
	FEW_SAMPLES_OF_COMM,	  /* --comm */
	FEW_SAMPLES_OF_COMMAND,	  /* -- COMMAND */
};

struct few_samples_facts {
	enum few_samples_scope scope;
	uint64_t taken, duration_ns;
	unsigned int frequency_hz, cpu_count;
	uint64_t cpu_time_ns; /* that the selected processes used; see cpu_time_known */
	bool cpu_time_known;
	bool gone;  /* all selected processes, or the thread, have ended */
	bool empty; /* the cgroup has no process */
};

/* The CPU time that had been used when sampling started. */
struct few_samples {
	uint64_t cpu_time_ns;
	bool cpu_time_known;
};

/* Reads the CPU time of what `options` selects; called when sampling starts. */
void few_samples_start(struct few_samples *few, const struct record_options *options);

/* Collects the facts after sampling has stopped. */
struct few_samples_facts few_samples_collect(const struct few_samples *few,
					     const struct record_options *options, uint64_t taken,
					     uint64_t duration_ns);

/* Writes the reason and what to do as one line. Returns false and writes nothing if the number of
 * samples needs no explanation. */
bool few_samples_explain(const struct few_samples_facts *facts,
			 char text[static FEW_SAMPLES_TEXT_BYTES]);

#endif
