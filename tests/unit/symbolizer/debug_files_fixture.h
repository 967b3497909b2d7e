/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of debug files in the worker share: a worker with a module, whose symbols say what
 * the test wants, and an opener that answers what the test wants. */
#ifndef TESTS_DEBUG_FILES_FIXTURE_H
#define TESTS_DEBUG_FILES_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbolizer/namer/namer.h"
#include "symbolizer/worker/debug_files.h"
#include "symbolizer/worker/worker.h"

enum {
	MODULE = 7,
	ID_BYTES = 20,
	SAMPLED = 42 /* a process */
};

extern struct worker worker;
extern struct module *module;
extern struct msg_open_debug asked; /* the last request */
extern int refusal;		    /* of requests; 0: none */

/* What the symbols want. */
extern size_t id_length;
extern uint8_t build_id[ID_BYTES];
extern const char *debug_link;
extern struct namer_wanted *wanted;

extern unsigned int added; /* how often a debug file was added */
extern int add_result;
/* How often a further file was added, how many are open, and how often one was given up. */
extern unsigned int added_further, open_further, given_up;
extern int add_further_result;
extern size_t droppable;    /* bytes of the namer of the debug file */
extern uint64_t later_ns;   /* how much later it is than it really is */
extern uint32_t found_path; /* of the answer */

/* Makes a module whose symbols are read; its file has none. */
void debug_files_setup(void);
void debug_files_teardown(void);

int empty_file(void);

/* Let the opener answer. Return whether the descriptor was taken. */
bool answer_with(uint32_t id, int fd, uint32_t error);
bool answer(uint32_t id, int fd);
void answer_error(uint32_t id, uint32_t error);

struct symbols *symbols_again(void);

/* Lets the sample be one of a process that maps the file, which has a link. */
void sample_process(void);

#endif
