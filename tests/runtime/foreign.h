/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is foreign to the code under test: the memory of a process, the file of its runtime. Either
 * live, and what is read of it is recorded; or recorded. Walkers read through foreign_read;
 * symbolizer/runtime comes here because the linker wraps the functions that it reads with (--wrap,
 * in CMakeLists.txt), so that all of its own code is tested.
 */
#ifndef TESTS_RUNTIME_FOREIGN_H
#define TESTS_RUNTIME_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/runtime/recording.h"

enum {
	FOREIGN_NAME_BYTES = 96,
	FOREIGN_SYMBOLS_MAX = 256
};

/* A runtime's file. Of .symtab, which may have megabytes, only what was looked up. */
struct foreign_file {
	int fd;	       /* the file; or if it is recorded, an empty one of its size */
	uint64_t size; /* bytes */
	struct recording bytes;
	struct foreign_symbol {
		char name[FOREIGN_NAME_BYTES];
		bool found;
		uint64_t vaddr, size;
	} symbols[FOREIGN_SYMBOLS_MAX];
	unsigned int symbol_count;
};

/* Hostile memory: what is done to recorded bytes. */
struct foreign_faults {
	uint64_t fail_every; /* this one of so many reads fails; 0: none */
	uint64_t
	    flip_one_in; /* of so many reads one has a bit, a byte or a word changed; 0: none */
	uint64_t random; /* the generator's state */
	/* What was not recorded can be read, and is what lies elsewhere; a salt. */
	uint64_t anywhere;
	bool late; /* nothing of that until the runtimes are attached */
};

struct foreign {
	struct recording *memory;
	int live_fd;		   /* /proc/PID/mem; -1: the memory is recorded */
	struct foreign_file *file; /* of the runtime that is called next */
	struct foreign_faults faults;
	uint64_t reads;
	/* Recorded memory was read where nothing was recorded: how often, and where first. */
	uint64_t outside;
	uint64_t outside_address, outside_length;
	const char *outside_of; /* "memory", "file", or the symbol's name */
	int error;		/* why recording failed */
};

/* What the wrapped functions read from now on; NULL: what they would. */
void foreign_use(struct foreign *foreign);

/* 0, or -EFAULT. */
int foreign_read(struct foreign *foreign, uint64_t address, void *to, size_t length);

/*
 * The same for struct user_walk: `context` is struct foreign *. A walker copies what lies around a
 * word, and how much is a matter of speed: it is enough if some of that was recorded. It must not
 * use the rest, which is no address and no frame.
 */
int foreign_read_around(void *context, uint64_t address, void *to, size_t length);

/* A file of that size, for a recorded file's fd. An fd, or a negative errno. */
int foreign_file_stand_in(uint64_t size);
const struct foreign_symbol *foreign_file_symbol(const struct foreign_file *file, const char *name);
void foreign_file_fini(struct foreign_file *file);

#endif
