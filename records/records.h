/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches of records, which the worker sends to the exporter. A batch is a FlatBuffer of
 * schemas/records.fbs; this is its C interface, for both ends.
 *
 * The worker assigns an id to each module, function, frame, set of labels, stack, process and
 * thread, and defines it once, before it is used. Ids are valid in all later batches, until a batch
 * says `reset`.
 */
#ifndef RECORDS_RECORDS_H
#define RECORDS_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/limits.h"

#ifdef __cplusplus
extern "C" {
#endif

struct record_module {
	uint32_t id;
	const char *path;
	const char *gnu_build_id, *htlhash, *go_build_id; /* "" if the module has no such id */
};

struct record_function {
	uint32_t id;
	const char *name;
	const char *file;    /* source file; NULL or "" if unknown */
	uint32_t start_line; /* first line of the function there; 0 if unknown */
	/* The file has no symbol for the function: the name is "module+0xSTART". */
	bool name_is_generated;
	const char *system_name; /* as the linker knows it; NULL or "" if the same or unknown */
};

struct record_frame {
	uint64_t address;
	uint32_t id;
	uint32_t module, function; /* ids; 0 if there is none */
	uint32_t line;		   /* in the source file; 0 if unknown */
	uint8_t kind;		   /* enum frame_kind */
	/* The frame, defined before, into which this one was inlined at the same address; 0: it was
	 * not inlined. In a stack it comes next. */
	uint32_t caller;
};

enum {
	RECORD_LABELS_MAX = 10 /* of a set: NAMED_LABELS_MAX */
};

struct record_label {
	const char *key, *value;
};

/* What a program says of its work at the moment of a sample. */
struct record_label_set {
	uint32_t id;
	const struct record_label *labels;
	uint32_t count;
};

struct record_stack {
	uint32_t id;
	uint8_t reason;		/* enum incomplete_reason */
	const uint32_t *frames; /* ids of the frames, leaf first */
	uint32_t count;
	uint32_t labels; /* id of the set; 0: there are none */
};

enum {
	RECORD_VARIABLES_MAX = 8 /* environment variables of a process: LIMIT_IDENTITY_VARIABLES */
};

struct record_variable {
	const char *name, *value;
};

struct record_process {
	uint32_t id, tgid;
	uint64_t start_ns;
	const char *comm, *path;
	const char *container_id, *service_name; /* "" if there is none */
	/* The environment variables that the CLI asked for and that the process has. */
	const struct record_variable *variables;
	uint32_t variable_count;
};

struct record_thread {
	uint32_t id, process, tid;
	const char *comm;
};

struct record_sample {
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	uint32_t stack, thread;
	uint16_t cpu;
	uint64_t goroutine; /* RECORD_GOROUTINE_MAX at most; 0: none, or unknown */
};

/* Programs number their goroutines from 1 on. With a million per second, these last nine years. */
#define RECORD_GOROUTINE_MAX ((1ull << 48) - 1)

enum {
	RECORDS_BYTES_MAX = LIMIT_BATCH_BYTES
};

/* A batch under construction, of at most RECORDS_BYTES_MAX bytes, for which all memory is there
 * from the start. records_new() returns NULL if there is none. Each records_add function copies
 * what it is given. If that does not fit, records_finish() says so. */
struct records;

struct records *records_new(void);
void records_free(struct records *records);
void records_add_module(struct records *records, const struct record_module *module);
void records_add_function(struct records *records, const struct record_function *function);
void records_add_frame(struct records *records, const struct record_frame *frame);
void records_add_label_set(struct records *records, const struct record_label_set *set);
void records_add_stack(struct records *records, const struct record_stack *stack);
void records_add_process(struct records *records, const struct record_process *process);
void records_add_thread(struct records *records, const struct record_thread *thread);
void records_add_sample(struct records *records, const struct record_sample *sample);

/* Returns an upper bound of the bytes that the batch will have, close to the real size, or 0 if the
 * batch is empty. */
size_t records_bytes(const struct records *records);
/* Returns the number of samples in the batch. */
size_t records_samples(const struct records *records);

/* What a batch says of itself. */
struct record_head {
	uint64_t sequence; /* the upper half identifies the worker */
	uint64_t position; /* samples in all batches before this one, also of earlier workers */
	bool reset;	   /* the exporter drops all ids before it reads the batch */
};

/* Finishes the batch and returns its bytes, which are valid until the next call on `records`, or
 * NULL if not all records fit. `records` is empty afterwards. */
const uint8_t *records_finish(struct records *records, const struct record_head *head,
			      size_t *length);

/* One function for each kind of record. They are called in the order of the fields of Batch in the
 * schema. Each returns 0, or a negative errno that ends the visit. */
struct records_visitor {
	int (*reset)(void *context);
	int (*module)(void *context, const struct record_module *module);
	int (*function)(void *context, const struct record_function *function);
	int (*frame)(void *context, const struct record_frame *frame);
	int (*label_set)(void *context, const struct record_label_set *set);
	int (*stack)(void *context, const struct record_stack *stack);
	int (*process)(void *context, const struct record_process *process);
	int (*thread)(void *context, const struct record_thread *thread);
	int (*sample)(void *context, const struct record_sample *sample);
};

/* Verifies a batch, and reads what it says of itself. Returns 0, or -EBADMSG if the batch is
 * malformed. */
int records_head(const uint8_t *data, size_t length, struct record_head *head);

/* Verifies a batch completely, then visits its records. Returns 0, the error of a visitor, or
 * -EBADMSG if the batch is malformed; then nothing was visited. Strings are NUL-terminated, and a
 * missing one is "". `data` must be aligned to 8 bytes. Ids are not checked. */
int records_visit(const uint8_t *data, size_t length, const struct records_visitor *visitor,
		  void *context);

#ifdef __cplusplus
}
#endif

#endif
