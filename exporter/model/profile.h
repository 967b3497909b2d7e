/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this works. The exporter aggregates samples into a profile in memory, and the sinks write it.
 * A profile consists of tables whose entries refer to each other by index, as in the OTLP
 * dictionary. Entry 0 of most tables means "none". Equal entries are stored once (interning), so
 * ids can be compared instead of contents. Only samples are ever removed.
 *
 * Example: two samples of main -> read in thread 7 of process 5.
 *
 *   strings    1 "main"  2 "read"  3 "/bin/app"  4 "native"  5 "app"
 *   mappings   1 {filename 3}
 *   functions  1 {name 1}   2 {name 2}
 *   locations  1 {mapping 1, function 1, kind 4, address 0x10}   2 {mapping 1, function 2, ...}
 *   stacks     1 {locations 2, 1: the leaf comes first}
 *   processes  1 {tgid 5, name 5}
 *   threads    1 {process 1, tid 7}
 *   samples    0 {thread 1, stack 1, count 2}
 */
#ifndef EXPORTER_MODEL_PROFILE_H
#define EXPORTER_MODEL_PROFILE_H

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

struct profile_index; /* a hash from contents to index, private to profile.c */

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
	bool inlined;	      /* some location has a caller */
	bool without_inlined; /* stacks are added without inlined functions (inlined.h) */
	uint64_t start_unix_ns, duration_ns;
	uint64_t period_ns;    /* time between two samples of one CPU: 1e9 / frequency */
	uint64_t sample_count; /* sum over samples[].count */
	/* Memory in use, and the cap above which interning returns -ENOSPC. */
	size_t bytes, bytes_max;
};

/* Initialises a profile that contains only the "none" entries. Returns 0 or -ENOMEM. */
int profile_init(struct profile *profile, size_t bytes_max);
void profile_fini(struct profile *profile);

/*
 * Interning: these functions find the entry with these contents or create it, and set its id. They
 * return 0; -ENOMEM or -ENOSPC, and the profile is unchanged; or -EINVAL if a reference inside
 * (string, mapping, ...) does not exist, a location has no kind, or an inlined function is not with
 * its caller.
 *
 * Strings of a profile are printable UTF-8 (UTF8_PRINTABLE), of at most 4,096 bytes. Every other
 * byte becomes \xNN (escape_text()), and a longer text is cut. So no output can have a name that
 * drives a terminal, ends a line or changes the direction of a text.
 */
int profile_string(struct profile *profile, const char *text, size_t length, uint32_t *id);
int profile_mapping(struct profile *profile, const struct profile_mapping *mapping, uint32_t *id);
int profile_function(struct profile *profile, const struct profile_function *function,
		     uint32_t *id);
int profile_location(struct profile *profile, const struct profile_location *location,
		     uint32_t *id);
int profile_stack(struct profile *profile, const uint32_t *locations, uint32_t count, uint32_t *id);
int profile_process(struct profile *profile, const struct profile_process *process, uint32_t *id);
int profile_thread(struct profile *profile, const struct profile_thread *thread, uint32_t *id);

/* Adds `count` samples of a stack in a thread, on an unknown CPU and at unknown times. Returns the
 * errors of interning, or -EOVERFLOW if sample_count would exceed INT64_MAX. */
int profile_add(struct profile *profile, uint32_t thread, uint32_t stack, uint64_t count);

/* Adds `count` samples like profile_add(), but on this CPU. */
int profile_add_on(struct profile *profile, uint32_t thread, uint32_t stack, uint32_t cpu,
		   uint64_t count);

/* Adds one sample with its CPU and time. Returns the errors of profile_add(). */
int profile_add_at(struct profile *profile, uint32_t thread, uint32_t stack, uint32_t cpu,
		   uint64_t time_ns);

/* Removes all samples but keeps their memory. The other tables stay, because the next interval
 * refers to most of their entries. */
void profile_clear_samples(struct profile *profile);

/* Returns the id of a string, or 0 if the profile does not have it. `text` must be UTF-8 as the
 * profile stores it. */
uint32_t profile_find_string(const struct profile *profile, const char *text);

/* Returns the length of a string in bytes. A NUL follows it. */
size_t profile_string_length(const struct profile *profile, uint32_t string);

/* Writes the name under which a location is printed: that of its function, else "module+0xaddress"
 * with the module's base name, else "0xaddress". */
void profile_location_name(const struct profile *profile, uint32_t location, char *buffer,
			   size_t size);

enum {
	PROFILE_LINE_BYTES = 280 /* " (", a name of at most 255 bytes, ":2147483647)" and a NUL */
};

/* Writes where a location is in the source code, as it follows the name: " (malloc.c:3301)",
 * " (line 3301)" if the file is unknown, or nothing if the line is unknown. */
void profile_location_line(const struct profile *profile, uint32_t location,
			   char buffer[static PROFILE_LINE_BYTES]);

#endif
