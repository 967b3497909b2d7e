/* SPDX-License-Identifier: Apache-2.0 */
/* Batches of records between worker and exporter: FlatBuffers (schemas/records.fbs) behind a C
 * interface. */
#ifndef RECORDS_RECORDS_H
#define RECORDS_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct record_module {
	uint32_t number;
	const char *path, *gnu_build_id, *htlhash, *go_build_id; /* "" for ids that it lacks */
};

struct record_function {
	uint32_t number;
	const char *name;
	const char *file;    /* of the source; NULL or "" if not known */
	uint32_t start_line; /* where it begins there; 0 if not known */
	/* The file has no symbol for the function: the name is "module+0xSTART". */
	bool name_is_generated;
};

struct record_frame {
	uint64_t address;
	uint32_t number, module, function;
	uint32_t line; /* of the source; 0 if not known */
	uint8_t kind;
};

struct record_stack {
	uint32_t number;
	uint8_t reason;
	const uint32_t *frames;
	uint32_t count;
};

enum {
	RECORD_VARIABLES_MAX = 8
};

struct record_variable {
	const char *name, *value;
};

struct record_process {
	uint32_t number, tgid;
	uint64_t start_ns;
	const char *comm, *path;
	const char *container_id, *service_name; /* "" if there is none */
	/* Of the environment variables that were asked for, those that it has. */
	const struct record_variable *variables;
	uint32_t variable_count;
};

struct record_thread {
	uint32_t number, process, tid;
	const char *comm;
};

struct record_sample {
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	uint32_t stack, thread;
	uint32_t cpu;
};

/* A batch under construction. */
struct records;

struct records *records_new(void);
void records_free(struct records *records);
void records_add_module(struct records *records, const struct record_module *module);
void records_add_function(struct records *records, const struct record_function *function);
void records_add_frame(struct records *records, const struct record_frame *frame);
void records_add_stack(struct records *records, const struct record_stack *stack);
void records_add_process(struct records *records, const struct record_process *process);
void records_add_thread(struct records *records, const struct record_thread *thread);
void records_add_sample(struct records *records, const struct record_sample *sample);

/* Bytes that the batch will have, roughly and not less (0: it is empty); and samples in it. */
size_t records_bytes(const struct records *records);
size_t records_samples(const struct records *records);

/* The finished batch, valid until the next call on `records`, which is empty afterwards. `sequence`
 * and `reset`: see the schema. */
const uint8_t *records_finish(struct records *records, uint64_t sequence, bool reset,
			      size_t *length);

/* Callbacks in the order of the schema; each returns 0 or a negative errno, which ends the visit.
 */
struct records_visitor {
	int (*reset)(void *context);
	int (*module)(void *context, const struct record_module *module);
	int (*function)(void *context, const struct record_function *function);
	int (*frame)(void *context, const struct record_frame *frame);
	int (*stack)(void *context, const struct record_stack *stack);
	int (*process)(void *context, const struct record_process *process);
	int (*thread)(void *context, const struct record_thread *thread);
	int (*sample)(void *context, const struct record_sample *sample);
};

/* Verify a batch, and tell which it is. -EBADMSG if it is malformed. */
int records_head(const uint8_t *data, size_t length, uint64_t *sequence, bool *reset);

/* Verify a batch (by the library's verifier) and visit its records. -EBADMSG if it is malformed:
 * nothing was visited. Strings are NUL-terminated; missing ones are "". `data` must be aligned to 8
 * bytes. */
int records_visit(const uint8_t *data, size_t length, const struct records_visitor *visitor,
		  void *context);

#ifdef __cplusplus
}
#endif

#endif
