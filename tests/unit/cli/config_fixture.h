/* SPDX-License-Identifier: Apache-2.0 */
/* Loads configurations in a temporary directory, and stores what is printed. */
#ifndef TESTS_UNIT_CLI_CONFIG_FIXTURE_H
#define TESTS_UNIT_CLI_CONFIG_FIXTURE_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config_load.h"
#include "config/config_state.h"
#include "config/config_table.h"
#include "config/config_value.h"
#include "common/exit_status.h"

enum {
	OUTPUT_BYTES = 1 << 18
};

#define COUNT(x) (sizeof(x) / sizeof((x)[0]))
#define MAIN_FILE "main.conf"

extern char *no_environment[];
/* What the last load() printed on stdout and stderr, and what it loaded. */
extern char output[OUTPUT_BYTES], messages[OUTPUT_BYTES];
extern struct config config;

/* For TestSuite(): a temporary directory becomes the current one, and is removed again. */
void config_set_up(void);
void config_tear_down(void);

void write_bytes(const char *path, const void *text, size_t length);
void write_file(const char *path, const char *text);

/* Runs config_load() with these arguments, the first of which is the command. */
int load_with(char *const environment[], int argc, char **argv);

/* Runs config_load() with MAIN_FILE and with further arguments, which end with NULL. */
int load(char *const environment[], ...);

size_t lines_of(const char *text);

#define LOAD(...) load(no_environment, __VA_ARGS__, NULL)
#define LOAD_FILE(text) (write_file(MAIN_FILE, (text)), load(no_environment, NULL))
#define LOAD_VARIABLES(...) load((char *[]){__VA_ARGS__, NULL}, NULL)
#define EXPECT_MESSAGE(text)                                                                       \
	cr_expect(strstr(messages, (text)), "'%s' not in:\n%s", (text), messages)
#define EXPECT_NO_MESSAGE(text) cr_expect(!strstr(messages, (text)), "printed:\n%s", messages)
#define EXPECT_PRINTED(text) cr_expect(strstr(output, (text)), "'%s' not in:\n%s", (text), output)

#endif
