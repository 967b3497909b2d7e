/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>

#include "cli/command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	COMMAND_NOT_EXECUTABLE = 126,
	COMMAND_NOT_FOUND = 127
};

int command_prepare(struct command *command, char **argv)
{
	int gate[2];
	char go;

	if (pipe2(gate, O_CLOEXEC) < 0)
		return -errno;
	pid_t pid = fork();
	if (pid == 0) {
		sigset_t none;

		close(gate[1]);
		if (read(gate[0], &go, 1) != 1)
			_exit(0);
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		signal(SIGPIPE, SIG_DFL);
		execvp(argv[0], argv);
		fprintf(stderr, "bulkhead: cannot run %s: %s\n", argv[0], strerror(errno));
		_exit(errno == ENOENT ? COMMAND_NOT_FOUND : COMMAND_NOT_EXECUTABLE);
	}
	close(gate[0]);
	if (pid < 0) {
		close(gate[1]);
		return -errno;
	}
	*command = (struct command){.pid = pid, .gate = gate[1]};
	return 0;
}

void command_start(struct command *command)
{
	if (command->pid && write(command->gate, "g", 1) < 0)
		command->status = COMMAND_NOT_EXECUTABLE;
}

bool command_ended(struct command *command)
{
	int status;

	if (!command->pid || waitpid(command->pid, &status, WNOHANG) != command->pid)
		return false;
	command->pid = 0;
	command->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	return true;
}

void command_abandon(struct command *command)
{
	if (command->gate > 0)
		close(command->gate);
	command->gate = 0;
}
