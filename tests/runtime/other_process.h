/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is other to the code under test: the memory of a process, the file of its runtime. Either
 * live, and what is read of it is recorded; or recorded. Walkers read through other_process_read;
 * symbolizer/runtime comes here because the linker wraps the functions that it reads with (--wrap,
 * in CMakeLists.txt), so that all of its own code is tested.
 */
#ifndef TESTS_RUNTIME_OTHER_PROCESS_H
#define TESTS_RUNTIME_OTHER_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/runtime/recording.h"

enum {
	OTHER_PROCESS_NAME_BYTES = 96,
	OTHER_PROCESS_SYMBOLS_MAX = 256
};

/* A runtime's file. Of .symtab, which may have megabytes, only what was looked up. */
struct other_process_file {
	int fd;	       /* the file; or if it is recorded, an empty one of its size */
	uint64_t size; /* bytes */
	struct recording bytes;
	struct other_process_symbol {
		char name[OTHER_PROCESS_NAME_BYTES];
		bool found;
		uint64_t vaddr, size;
	} symbols[OTHER_PROCESS_SYMBOLS_MAX];
	unsigned int symbol_count;
};

/* Hostile memory: what is done to recorded bytes. */
struct other_process_faults {
	uint64_t fail_every; /* this one of so many reads fails; 0: none */
	uint64_t
	    flip_one_in; /* of so many reads one has a bit, a byte or a word changed; 0: none */
	uint64_t random; /* the generator's state */
	/* What was not recorded can be read, and is what lies elsewhere; a salt. */
	uint64_t anywhere;
	bool late; /* nothing of that until the runtimes are attached */
};

struct other_process {
	struct recording *memory;
	int live_fd;		   /* /proc/PID/mem; -1: the memory is recorded */
	struct other_process_file *file; /* of the runtime that is called next */
	struct other_process_faults faults;
	uint64_t reads;
	/* Recorded memory was read where nothing was recorded: how often, and where first. */
	uint64_t outside;
	uint64_t outside_address, outside_length;
	const char *outside_of; /* "memory", "file", or the symbol's name */
	int error;		/* why recording failed */
};

/* What the wrapped functions read from now on; NULL: what they would. */
void other_process_use(struct other_process *other);

/* 0, or -EFAULT. */
int other_process_read(struct other_process *other, uint64_t address, void *to, size_t length);

/*
 * The same for struct walk_in_process: `context` is struct other_process *. A walker copies what lies around a
 * word, and how much is a matter of speed: it is enough if some of that was recorded. It must not
 * use the rest, which is no address and no frame.
 */
int other_process_read_around(void *context, uint64_t address, void *to, size_t length);

/* A file of that size, for a recorded file's fd. An fd, or a negative errno. */
int other_process_file_stand_in(uint64_t size);
const struct other_process_symbol *other_process_file_symbol(const struct other_process_file *file, const char *name);
void other_process_file_fini(struct other_process_file *file);

#endif
