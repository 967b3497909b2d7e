/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile in memory: what the exporter aggregates samples into and what every sink writes. Tables
 * of things that arrive once and are referred to by number, as in the OTLP dictionary: index 0 of
 * each table is its "none". Nothing but samples is ever removed.
 */
#ifndef EXPORTER_MODEL_PROFILE_H
#define EXPORTER_MODEL_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct profile_mapping {
	uint32_t filename; /* string: base path of the module, "vmlinux" or a kernel module's name
			      for the kernel */
	uint32_t gnu_build_id; /* string, hex; 0 if none */
	uint32_t htlhash;      /* string, hex; 0 if none */
	uint32_t go_build_id;  /* string, as it is; 0 if none */
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

/* One frame. A location without a function is shown as "mapping+0xaddress". */
struct profile_location {
	uint32_t mapping;  /* 0 if none (JIT code without a name) */
	uint32_t function; /* 0 if it has no name */
	uint32_t kind;	   /* string: OTLP's profile.frame.type: "kernel", "native", "abort-marker",
			      "cpython", ...; never 0, but for location 0 */
	uint32_t line;	   /* 0 if unknown */
	uint64_t address;  /* in the file, as linked; for frames without a mapping the address as
			      sampled */
};

struct profile_stack {
	uint32_t first; /* index into stack_locations */
	uint32_t count; /* frames, leaf first: kernel frames come first */
};

enum {
	PROFILE_VARIABLES_MAX = 8
};

/* An environment variable of a process: strings. */
struct profile_variable {
	uint32_t name, value;
};

struct profile_process {
	uint64_t start; /* tells two processes of one tgid apart: any number that differs */
	uint32_t tgid;
	uint32_t name;	       /* string: comm of the process */
	uint32_t path;	       /* string: executable's path, 0 if unknown */
	uint32_t container_id; /* string, 0 if none */
	uint32_t service_name; /* string: its own; 0 if unknown or not asked for */
	uint32_t reserved;     /* 0 */
	struct profile_variable variables[PROFILE_VARIABLES_MAX]; /* those it has; the rest 0 */
};

struct profile_thread {
	uint32_t process;
	uint32_t tid;
	uint32_t name; /* string: comm of the thread at sampling */
};

enum {
	PROFILE_CPU_UNKNOWN = 0xffffffff
};

/* Samples are merged: one entry a {thread, stack, cpu, timed}. */
struct profile_sample {
	uint32_t thread;
	uint32_t stack;
	uint32_t cpu;			/* or PROFILE_CPU_UNKNOWN */
	uint32_t timed;			/* 1: each of its samples has a time; 0: none has */
	uint32_t first_time, last_time; /* in `times`, plus one; 0 if it is not timed */
	uint64_t count;
};

/* When a sample was taken; those of one entry are a list, in the order in which they came. */
struct profile_time {
	uint64_t unix_ns;
	uint32_t next; /* plus one; 0 ends the list */
	uint32_t reserved;
};

#define PROFILE_TABLE(type, name)                                                                  \
	type *name;                                                                                \
	uint32_t name##_count, name##_capacity

struct profile_index; /* a hash from contents to number; private to profile.c */

struct profile {
	PROFILE_TABLE(char *, strings);
	PROFILE_TABLE(struct profile_mapping, mappings);
	PROFILE_TABLE(struct profile_function, functions);
	PROFILE_TABLE(struct profile_location, locations);
	PROFILE_TABLE(uint32_t, stack_locations);    /* a pool, no "none" */
	PROFILE_TABLE(struct profile_stack, stacks); /* stack 0 is the empty stack */
	PROFILE_TABLE(struct profile_process, processes);
	PROFILE_TABLE(struct profile_thread, threads);
	PROFILE_TABLE(struct profile_sample, samples); /* no "none" */
	PROFILE_TABLE(struct profile_time, times);     /* a pool, no "none" */
	struct profile_index *indexes[8];
	uint64_t start_unix_ns, duration_ns;
	uint64_t period_ns;    /* between two samples of one CPU: 1e9 / Hz */
	uint64_t sample_count; /* sum over samples[].count */
	size_t bytes,
	    bytes_max; /* memory held, and the cap above which interning returns -ENOSPC */
};

/* A profile with only the "none" entries. 0 or -ENOMEM. */
int profile_init(struct profile *profile, size_t bytes_max);
void profile_fini(struct profile *profile);

/* Intern: the number of the entry with these contents, made if there is none. 0; -ENOMEM or
 * -ENOSPC, and the profile is as it was. References inside (strings, mappings, ...) must exist, and
 * a location must have a kind: -EINVAL.
 *
 * Strings of a profile are UTF-8 without NULs and of at most 4,096 bytes, whatever is interned:
 * what is not becomes U+FFFD (text_clean()), and what is longer is cut. */
int profile_string(struct profile *profile, const char *text, size_t length, uint32_t *number);
int profile_mapping(struct profile *profile, const struct profile_mapping *mapping,
		    uint32_t *number);
int profile_function(struct profile *profile, const struct profile_function *function,
		     uint32_t *number);
int profile_location(struct profile *profile, const struct profile_location *location,
		     uint32_t *number);
int profile_stack(struct profile *profile, const uint32_t *locations, uint32_t count,
		  uint32_t *number);
int profile_process(struct profile *profile, const struct profile_process *process,
		    uint32_t *number);
int profile_thread(struct profile *profile, const struct profile_thread *thread, uint32_t *number);

/* Add `count` samples of a stack in a thread, on an unknown CPU at unknown times. As above, and
 * -EOVERFLOW if sample_count would pass INT64_MAX. */
int profile_add(struct profile *profile, uint32_t thread, uint32_t stack, uint64_t count);

/* The same on a CPU that is known. As above. */
int profile_add_on(struct profile *profile, uint32_t thread, uint32_t stack, uint32_t cpu,
		   uint64_t count);

/* Add one sample with all that is known of it. As above. */
int profile_add_at(struct profile *profile, uint32_t thread, uint32_t stack, uint32_t cpu,
		   uint64_t unix_ns);

/* Forget the samples, keep what they referred to (the next interval has mostly the same) and the
 * memory that they took. */
void profile_clear_samples(struct profile *profile);

/* The number of a string that must be clean, or 0 if the profile does not have it. */
uint32_t profile_find_string(const struct profile *profile, const char *text);

/* Length of a string in bytes, without the NUL that follows it. */
size_t profile_string_length(const struct profile *profile, uint32_t string);

/* What to print for a location: its function's name, else "module+0xaddress" (base name of the
 * mapping), else "0xaddress". */
void profile_location_name(const struct profile *profile, uint32_t location, char *buffer,
			   size_t size);

#endif
