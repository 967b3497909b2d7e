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
	/* What a shell returns in these cases (POSIX, "Exit Status for Commands"). */
	COMMAND_NOT_EXECUTABLE = 126,
	COMMAND_NOT_FOUND = 127
};

int command_prepare(struct command *command, char **argv)
{
	int start_pipe[2];
	char go;

	if (pipe2(start_pipe, O_CLOEXEC) < 0)
		return -errno;
	pid_t pid = fork();
	if (pid == 0) {
		sigset_t none;

		close(start_pipe[1]);
		if (read(start_pipe[0], &go, 1) != 1)
			_exit(0);
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		signal(SIGPIPE, SIG_DFL);
		execvp(argv[0], argv);
		fprintf(stderr, "bulkhead: cannot run the command %s: %s; nothing is sampled\n",
			argv[0], strerror(errno));
		_exit(errno == ENOENT ? COMMAND_NOT_FOUND : COMMAND_NOT_EXECUTABLE);
	}
	close(start_pipe[0]);
	if (pid < 0) {
		close(start_pipe[1]);
		return -errno;
	}
	*command = (struct command){.pid = pid, .start_pipe = start_pipe[1]};
	return 0;
}

void command_start(struct command *command)
{
	if (command->pid && write(command->start_pipe, "g", 1) < 0)
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
	if (command->start_pipe > 0)
		close(command->start_pipe);
	command->start_pipe = 0;
}
