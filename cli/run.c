/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `bulkhead run`: the agent as one command. It does what `bulkhead-control` does where each role is
 * a service (control/agent.h), and in addition starts the roles as its children, and opens the
 * files of the exporter with its own rights. So it stays root, but without the capabilities that
 * none of this needs.
 */
#include "cli/run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/preflight.h"
#include "common/exit_status.h"
#include "common/log.h"
#include "config/config_load.h"
#include "control/agent.h"

/* Returns whether nobody else can create or remove anything in a directory. */
static bool is_own_directory(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
	       (st.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* Locks the run directory, because two agents must not use the same one. */
static int lock_run_directory(const struct config *config, int *lock_fd)
{
	char path[CONFIG_TEXT_BYTES + 16];

	if (mkdir(config->run_directory, 0711) < 0 && errno != EEXIST) {
		log_error("cannot create agent.run_directory; nothing is sampled: path=%s error=%s",
			  config->run_directory, strerror(errno));
		return STATUS_FAILED;
	}
	if (!is_own_directory(config->run_directory)) {
		log_error(
		    "agent.run_directory belongs to another user, or others may write to it, so "
		    "they could replace the sockets in it; nothing is sampled: path=%s",
		    config->run_directory);
		return STATUS_FAILED;
	}
	snprintf(path, sizeof(path), "%s/lock", config->run_directory);
	*lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (*lock_fd >= 0 && flock(*lock_fd, LOCK_EX | LOCK_NB) == 0)
		return STATUS_DONE;
	if (errno == EWOULDBLOCK)
		log_error("another agent is running with this agent.run_directory; stop it first: "
			  "path=%s",
			  path);
	else
		log_error("cannot lock agent.run_directory; nothing is sampled: path=%s error=%s",
			  path, strerror(errno));
	return STATUS_FAILED;
}

static int check_host(const struct config *config)
{
	const struct check_wants wants = {.agent = true,
					  .strict_memory = config->strict_memory,
					  .frequency_hz = (unsigned int)config->frequency_hz,
					  .runtimes = (uint32_t)config->runtimes};

	return preflight_check(&wants, NULL);
}

/* What the roles have at their start, and what this process needs to start, feed and end them. */
static const cap_value_t kept[] = {
    /* Of the loader. */
    CAP_BPF, CAP_PERFMON, CAP_SYSLOG,
    /* Of the opener. */
    CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH, CAP_CHECKPOINT_RESTORE,
    /* Each role becomes its user, and gives up the other capabilities. */
    CAP_SETUID, CAP_SETGID, CAP_SETPCAP,
    /* Limits of locked memory and of descriptors. */
    CAP_SYS_RESOURCE,
    /* The directories of the roles' sockets and the spool belong to the roles. */
    CAP_CHOWN, CAP_FOWNER, CAP_DAC_OVERRIDE,
    /* A role that hangs is killed. */
    CAP_KILL};

static bool is_kept(cap_value_t capability)
{
	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
		if (kept[i] == capability)
			return true;
	}
	return false;
}

/* Gives up the capabilities that nothing here needs, for this process and all that it starts. */
static int give_up_capabilities(void)
{
	cap_t caps = cap_get_proc();
	int r = caps ? 0 : -1;

	for (cap_value_t c = 0; c <= CAP_LAST_CAP && !r; c++) {
		if (is_kept(c))
			continue;
		if (cap_get_bound(c) == 1)
			r = cap_drop_bound(c);
		if (!r)
			r = cap_set_flag(caps, CAP_PERMITTED, 1, &c, CAP_CLEAR) |
			    cap_set_flag(caps, CAP_EFFECTIVE, 1, &c, CAP_CLEAR) |
			    cap_set_flag(caps, CAP_INHERITABLE, 1, &c, CAP_CLEAR);
	}
	if (!r)
		r = cap_set_proc(caps);
	if (r)
		log_error("cannot give up the capabilities that are not needed; nothing is "
			  "sampled: error=%s",
			  strerror(errno));
	cap_free(caps);
	return r ? STATUS_NOT_PERMITTED : STATUS_DONE;
}

int run_main(int argc, char **argv)
{
	static struct agent agent;
	int lock_fd = -1;

	/* It reads headers and keys, which no core dump may contain. */
	prctl(PR_SET_DUMPABLE, 0);
	/* A service logs its starts and ends, unless BULKHEAD_LOG says otherwise. */
	setenv("BULKHEAD_LOG", "info", 0);
	log_init("bulkhead");
	int status = config_load(argc, argv, environ, &agent.config);
	if (status)
		return status < 0 ? STATUS_DONE : status;
	if (agent.config.disabled) {
		log_info("OTEL_SDK_DISABLED is true in the environment: nothing is profiled");
		return STATUS_DONE;
	}
	agent_clear(&agent);
	status = check_host(&agent.config);
	if (!status)
		status = give_up_capabilities();
	if (!status)
		status = lock_run_directory(&agent.config, &lock_fd);
	if (!status)
		status = agent_open(&agent);
	if (!status)
		status = agent_run(&agent);
	status = agent_finish(&agent, status);
	if (lock_fd >= 0)
		close(lock_fd);
	return status;
}
