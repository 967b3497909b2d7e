/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of a profile, whose parts refer to each other by index: see profile.h, which has an
 * example. */
#ifndef EXPORTER_MODEL_PROFILE_TYPES_H
#define EXPORTER_MODEL_PROFILE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct profile_mapping {
	uint32_t filename; /* string: path of the module; "vmlinux" or the name of a kernel module
			      for the kernel */
	uint32_t gnu_build_id; /* string, hex; 0 if none */
	uint32_t htlhash;      /* string, hex; 0 if none */
	uint32_t go_build_id;  /* string, unchanged; 0 if none */
};

struct profile_function {
	uint32_t name;		  /* string, demangled */
	uint32_t system_name;	  /* string, 0 if the same or unknown */
	uint32_t filename;	  /* string, 0 if unknown */
	uint32_t start_line : 31; /* in that file, 0 if unknown */
	/* The function has no symbol: the name is "mapping+0xSTART". OTLP leaves such a function
	 * out, so that a backend looks for the name of the address. */
	uint32_t name_is_generated : 1;
};

enum {
	PROFILE_LINE_MAX = 0x7fffffff, /* of profile_function.start_line */
};

/* One frame. A location without a function is shown as "module+0xaddress". */
struct profile_location {
	uint32_t mapping;  /* 0 if none, as for generated code without a name */
	uint32_t function; /* 0 if it has no name */
	uint32_t kind;	   /* string: OTLP's profile.frame.type, such as "kernel", "native",
			      "abort-marker" or "cpython"; 0 only in location 0 */
	uint32_t line;	   /* 0 if unknown */
	uint64_t address;  /* address in the file, as linked; for frames without a mapping, the
			      address as sampled */
	/* The location of the function into which this one was inlined at the same address; 0: it
	 * was not inlined. In each stack it comes next. */
	uint32_t caller;
	uint32_t reserved; /* 0 */
};

enum {
	/* Functions at one address; compilers stop far below. A file with more is refused. */
	PROFILE_INLINED_MAX = 256,
};

struct profile_stack {
	/* The frames are stack_locations[first] to stack_locations[first + count - 1], the leaf
	 * first; kernel frames come before user frames. */
	uint32_t first, count;
	uint32_t plain;	 /* the same stack without labels: itself if it has none */
	uint32_t labels; /* 0 if none */
};

/* Comes before the key of a label in the name of its attribute in OTLP, as other profilers write
 * it. */
#define PROFILE_LABEL_PREFIX "process.context.label."

/* What a program says of its work, such as request=checkout. All are strings. */
struct profile_label {
	uint32_t key, value;
	uint32_t attribute; /* PROFILE_LABEL_PREFIX and the key */
};

enum {
	PROFILE_LABELS_MAX = 11 /* NAMED_LABELS_MAX, and the id of the goroutine */
};

/* The labels of a stack, with different keys. */
struct profile_label_set {
	uint32_t count;
	uint32_t labels[PROFILE_LABELS_MAX]; /* sorted; the rest is 0 */
};

enum {
	PROFILE_VARIABLES_MAX = 8 /* LIMIT_IDENTITY_VARIABLES */
};

/* An environment variable of a process; both are strings. */
struct profile_variable {
	uint32_t name, value;
};

struct profile_process {
	uint64_t start; /* any number that distinguishes processes with the same tgid */
	uint32_t tgid;
	uint32_t name;	       /* string: comm of the process */
	uint32_t path;	       /* string: executable's path, 0 if unknown */
	uint32_t container_id; /* string, 0 if none */
	uint32_t service_name; /* string: the process's own; 0 if unknown or not wanted */
	uint32_t reserved;     /* 0 */
	/* The variables that it has; the rest is 0. */
	struct profile_variable variables[PROFILE_VARIABLES_MAX];
};

struct profile_thread {
	uint32_t process;
	uint32_t tid;
	uint32_t name; /* string: comm of the thread when it was sampled */
};

enum {
	PROFILE_CPU_UNKNOWN = 0xffffffff
};

/* Samples are merged: there is one entry for each {thread, stack, cpu, timed}. */
struct profile_sample {
	uint32_t thread;
	uint32_t stack;
	uint32_t cpu;			/* or PROFILE_CPU_UNKNOWN */
	uint32_t timed;			/* 1: each of its samples has a time; 0: none of them has */
	uint32_t first_time, last_time; /* indexes in `times` plus one; 0 if it is not timed */
	uint64_t count;
};

/* The time of a sample. The times of one entry are a list, in the order of arrival. */
struct profile_time {
	/* Unix time in a complete profile; CLOCK_MONOTONIC while it is collected (aggregate.h). */
	uint64_t time_ns;
	uint32_t next; /* index plus one; 0 ends the list */
	uint32_t reserved;
};

#define PROFILE_TABLE(type, name)                                                                  \
	type *name;                                                                                \
	uint32_t name##_count, name##_capacity

struct profile_index; /* a hash from contents to index, private to profile_tables.c */

struct profile {
	PROFILE_TABLE(char *, strings);
	PROFILE_TABLE(struct profile_mapping, mappings);
	PROFILE_TABLE(struct profile_function, functions);
	PROFILE_TABLE(struct profile_location, locations);
	PROFILE_TABLE(uint32_t, stack_locations);    /* a pool, no "none" */
	PROFILE_TABLE(struct profile_stack, stacks); /* stack 0 is the empty stack */
	PROFILE_TABLE(struct profile_label, labels);
	PROFILE_TABLE(struct profile_label_set, label_sets);
	PROFILE_TABLE(struct profile_process, processes);
	PROFILE_TABLE(struct profile_thread, threads);
	PROFILE_TABLE(struct profile_sample, samples); /* no "none" */
	PROFILE_TABLE(struct profile_time, times);     /* a pool, no "none" */
	struct profile_index *indexes[11];
	bool inlined;	      /* some location has a caller */
	bool without_inlined; /* stacks are added without inlined functions (inlined.h) */
	uint64_t start_unix_ns, duration_ns;
	uint64_t period_ns;    /* time between two samples of one CPU: 1e9 / frequency */
	uint64_t sample_count; /* sum over samples[].count */
	/* Memory in use, and the cap above which interning returns -ENOSPC. */
	size_t bytes, bytes_max;
};

#endif
