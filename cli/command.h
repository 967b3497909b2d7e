/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command after `--`. Its process is forked before the roles are started, so that its pid can
 * be given to the loader; it executes the command only when sampling has begun.
 */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include <stdbool.h>
#include <sys/types.h>

struct command {
	pid_t pid;	/* 0: there is no command, or it has ended */
	int start_pipe; /* the child waits for a byte; it exits if the pipe is closed without one */
	int status;	/* exit status as a shell gives it: 128 + signal if it was killed */
};

/* Forks the child, which waits for command_start(). Returns 0 or a negative errno. */
int command_prepare(struct command *command, char **argv);

/* Lets the child execute the command. */
void command_start(struct command *command);

/* Returns true once, when the command has ended; `status` is then set. Does not wait. */
bool command_ended(struct command *command);

/* Closes the pipe: a child that was not started exits. */
void command_abandon(struct command *command);

#endif
