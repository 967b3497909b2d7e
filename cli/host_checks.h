/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checks of `bulkhead doctor`, and of `bulkhead record` and `bulkhead run` before they start
 * anything.
 *
 * How this works. Each check judges one property of the host by the facts (host_facts.h) and does
 * nothing else, so that tests can feed it any host. A fault means that a recording would fail, and
 * has the exit status with which it does. A restriction means that a recording works but lacks
 * something. Both name the one remedy that grants least. A property that cannot be found out is
 * unknown, and a check that depends on another one that failed is unknown too: it would only repeat
 * the same fault, perhaps with a wrong remedy. The checks are in the order in which a recording
 * needs what they check, and the first fault is the one that ends it.
 *
 * Example: a container of Docker without options. The check "capabilities" is a fault with status 4
 * and the remedy "run the container with --cap-add BPF --cap-add PERFMON ...". The check "bpf" is
 * unknown, because BPF cannot be tried without CAP_BPF.
 */
#ifndef CLI_HOST_CHECKS_H
#define CLI_HOST_CHECKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/host_facts.h"

enum {
	CHECK_TEXT_BYTES = 320
};

enum check_status {
	CHECK_OK,
	CHECK_UNKNOWN,
	CHECK_RESTRICTION,
	CHECK_FAULT,
	CHECK_STATUS_COUNT
};

extern const char *const check_status_names[CHECK_STATUS_COUNT];

struct check_result {
	enum check_status status;
	int exit_status;	       /* of a fault */
	char found[CHECK_TEXT_BYTES];  /* what is the case, without a period */
	char remedy[CHECK_TEXT_BYTES]; /* what to do; "": nothing */
};

/* What is to be recorded, as far as the checks depend on it. */
struct check_wants {
	bool agent; /* of `bulkhead run` */
	bool strict_memory;
	unsigned int frequency_hz;
	uint32_t runtimes; /* set of 1 << enum runtime_id */
};

struct host_check {
	const char *name; /* for people and scripts; never changed */
	void (*judge)(const struct host_facts *facts, const struct check_wants *wants,
		      struct check_result *result);
};

extern const struct host_check host_checks[];
extern const size_t host_check_count;

/* Judges one check. */
void host_check_judge(const struct host_check *check, const struct host_facts *facts,
		      const struct check_wants *wants, struct check_result *result);

#endif
