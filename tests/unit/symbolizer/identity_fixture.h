/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker whose opener and exporter are the test: samples go in, the requests to the opener and
 * the descriptions in the batches are recorded, and the test answers the requests.
 */
#ifndef TESTS_IDENTITY_FIXTURE_H
#define TESTS_IDENTITY_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbolizer/worker/worker.h"
#include "tests/support/fake_peer.h"

#define HEX "2403ccfe427f1dc7b6120dccb9ac58c2f8456950380d587a9f33ea7f00dd303d"
#define OTHER "ee4b20e90ac7f42a10bd004d05646b13d8ab5e2c5e7cbc01abf8006bac016459"

enum {
	TGID = 42,
	PROCESSES_MAX = 4096,
	TICK_NS = 10000000, /* a clock tick of /proc/PID/stat at 100 Hz */
	START_TICKS = 1234,
	ANSWER_UID = 165540, /* of all processes: one of a user namespace */
};

/* The start of the process in ns, which is somewhere within its tick. */
#define START_NS ((uint64_t)START_TICKS * TICK_NS + 123)

/* What the opener and the exporter received. */
struct identity_sent {
	int opener_answer, exporter_answer; /* what peer_send() returns */
	struct msg_open_identity requests[PROCESSES_MAX];
	unsigned int request_count;
	struct {
		uint32_t id, tgid;
		char container[160], service[300], comm[16];
		char names[RECORD_VARIABLES_MAX][80], values[RECORD_VARIABLES_MAX][300];
		unsigned int variable_count;
	} processes[PROCESSES_MAX];
	unsigned int process_count;
	uint32_t thread_process[PROCESSES_MAX]; /* id of the process, by the thread's id */
	unsigned int samples, batches;
	uint32_t last_process; /* id of the process of the last sample */
	size_t longest;	       /* bytes of the longest batch */
};
extern struct identity_sent sent;

/* Creates a worker that asks for identities, for the first `variable_count` of the variables ONE to
 * EIGHT, and for the service name if that is wanted. */
struct worker *worker_new(unsigned int variable_count, bool want_service);
void worker_free(struct worker *worker);

/* Returns the header of a sample of a process that started at START_NS. */
struct bh_sample sample_header(uint32_t tgid, uint64_t cgroup_id);
/* Gives the worker a sample with one native frame. */
void sample_add_header(struct worker *worker, const struct bh_sample *header);
void sample_add(struct worker *worker, uint32_t tgid, uint64_t cgroup_id);

/* Answers a request with files of these contents. `cgroup` is NULL if the process has ended, and
 * `environment` is NULL if the file cannot be read. */
void answer_with(struct worker *worker, const struct msg_open_identity *request,
		 uint64_t start_ticks, const char *cgroup, const char *environment,
		 size_t environment_length);
/* Answers the request of this index, for the process itself and without an environment. */
void answer_request(struct worker *worker, unsigned int request, const char *cgroup);

/* Returns the container in the last description. */
const char *last_container(void);

#endif
