/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that is observed: its memory, and the file of its runtime. Either both are live, and
 * what is read of them is recorded; or both are recorded. Walkers read through
 * other_process_read(). The reads of symbolizer/runtime get here because the linker wraps the
 * functions it reads with (--wrap, in CMakeLists.txt). So all of its own code is tested.
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

/* The file of a runtime. Of .symtab, which may have megabytes, there are only the symbols that were
 * searched; of V8's builtins only where they are, as if these were symbols. */
struct other_process_file {
	int fd;	       /* the file; if it is recorded, an empty file of its size */
	uint64_t size; /* bytes */
	struct recording bytes;
	struct other_process_symbol {
		char name[OTHER_PROCESS_NAME_BYTES];
		bool found;
		uint64_t vaddr, size;
	} symbols[OTHER_PROCESS_SYMBOLS_MAX];
	unsigned int symbol_count;
};

/* Hostile memory: how recorded bytes are changed. */
struct other_process_faults {
	uint64_t fail_every; /* one of this many reads fails; 0: none */
	uint64_t
	    flip_one_in; /* in one of this many reads bits, bytes or words are changed; 0: none */
	uint64_t random; /* the state of the generator */
	/* Not 0: memory that was not recorded can be read, and has the contents of another place.
	 * The value selects the place. */
	uint64_t anywhere;
	bool late; /* only after the runtimes are attached */
};

struct other_process {
	struct recording *memory;
	int live_fd;			 /* /proc/PID/mem; -1: the memory is recorded */
	struct other_process_file *file; /* of the runtime that is called next; NULL: none */
	struct other_process_faults faults;
	uint64_t reads;
	/* Reads outside the recording: how many, and the first one. */
	uint64_t outside;
	uint64_t outside_address, outside_length;
	const char *outside_of; /* "memory", "file", or the symbol's name */
	int error;		/* why recording failed */
};

/* Sets the process that the wrapped functions read. With NULL they read what they normally
 * would. */
void other_process_use(struct other_process *other);

/* Reads memory of the process. Returns 0 or -EFAULT. */
int other_process_read(struct other_process *other, uint64_t address, void *to, size_t length);

/*
 * The same for struct walk_in_process; `context` is the struct other_process. A walker copies what
 * is around a word, and the size of the copy is only a matter of speed. So the read succeeds if a
 * part of it was recorded. The walker must not use the rest, from which neither an address nor a
 * frame can be made.
 */
int other_process_read_around(void *context, uint64_t address, void *to, size_t length);

/* Creates an empty file of that size, for the fd of a recorded file. Returns the fd or a negative
 * errno. */
int other_process_file_stand_in(uint64_t size);
const struct other_process_symbol *other_process_file_symbol(const struct other_process_file *file,
							     const char *name);
void other_process_file_fini(struct other_process_file *file);

#endif
