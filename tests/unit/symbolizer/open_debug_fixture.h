/* SPDX-License-Identifier: Apache-2.0 */
/* Directories in which debug files are searched, and what open_debug_file() finds in them. */
#ifndef TESTS_UNIT_SYMBOLIZER_OPEN_DEBUG_FIXTURE_H
#define TESTS_UNIT_SYMBOLIZER_OPEN_DEBUG_FIXTURE_H

#include "symbolizer/opener/open_debug.h"

enum {
	DIRECTORIES = 3,
	PATH_BYTES = 256,
};

extern char top[];
extern struct directories directories; /* top/0, top/1, top/2 */
extern unsigned int opened;	       /* for reading, by the last find() */
extern unsigned int searched;	       /* paths below the directories, by the last find() */
extern uint32_t found_path;	       /* of the file that was found */
/* Next to the paths that are made of a build id, find() expects those with these names. */
extern const char *alternate_name; /* in the request for an alternate file */
extern const char *kernel_version; /* in the request for the kernel's file */

void open_debug_setup(void);
void open_debug_teardown(void);

/* Writes the path of an entry in one of the directories, and makes the directories above it. */
const char *make_path(unsigned int directory, const char *name);

/* Makes a file that contains where it is. */
void make_file(unsigned int directory, const char *name);
void remove_file(unsigned int directory, const char *name);

/* The build id 00112233... of this length. What follows is not part of it. */
struct msg_open_debug id_of(uint32_t length);

/* Returns what open_debug_file() does, which has opened nothing else. */
int find(const struct msg_open_debug *request);

/* The file that contains `expected` is found, and can be read and nothing more. */
void expect_found(const struct msg_open_debug *request, const char *expected);

/* The error is returned, and no file was opened for reading. */
void expect_error(const struct msg_open_debug *request, int error);

#endif
