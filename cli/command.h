/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include <stdbool.h>
#include <sys/types.h>

/* The command after --: forked early, so that its pid can be filtered for, executed when sampling
 * has begun. */
struct command {
	pid_t pid;  /* 0: none, or ended */
	int gate;   /* closing it without a word lets the child go home */
	int status; /* as a shell would give it: 128 + signal */
};

int command_prepare(struct command *command, char **argv);
void command_start(struct command *command);
/* true when it has ended. */
bool command_ended(struct command *command);
void command_abandon(struct command *command);

#endif
