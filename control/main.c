/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bulkhead-control: the agent where each role is a service of its own. It reads the configuration,
 * configures and watches the other roles, and answers `bulkhead status`. It has no capability and
 * does not stay root. A service manager or a container runtime starts and restarts the roles.
 *
 *	bulkhead-control --service [--uids UID,...] [OPTION of `bulkhead run`]...
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/exit_status.h"
#include "common/log.h"
#include "config/config_load.h"
#include "control/agent.h"
#include "control/policy.h"
#include "control/service_roles.h"
#include "role/role.h"
#include "role/service_manager.h"
#include "role/uids.h"

/* Becomes the user of this role, unless it was started as that. */
static int drop_privileges(struct peer_uids *uids, struct sandbox *sandbox)
{
	int status = role_uids_of_service(uids, ROLE_CONTROL);

	if (status)
		return status;
	service_roles_set_uids(uids);
	int r = sandbox_prepare(sandbox, &control_policy);
	if (!r)
		r = sandbox_drop(&control_policy, uids->uid[ROLE_CONTROL],
				 (gid_t)uids->uid[ROLE_CONTROL]);
	if (r < 0)
		log_error("cannot drop privileges: error=%s", strerror(-r));
	return r < 0 ? STATUS_NOT_PERMITTED : STATUS_DONE;
}

static int enter_sandbox(struct sandbox *sandbox, const struct agent *agent)
{
	char path[CONFIG_TEXT_BYTES + 32];
	int r = 0;

	snprintf(path, sizeof(path), "%s/%s", agent->config.run_directory,
		 role_names[ROLE_CONTROL].directory);
	const int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		r = sandbox_allow_path(sandbox, fd, true);
	if (!r)
		r = sandbox_enter(sandbox, &control_policy);
	if (r < 0)
		log_error("cannot enter the sandbox, so this role ends: error=%s", strerror(-r));
	return r < 0 ? STATUS_NOT_PERMITTED : STATUS_DONE;
}

static int run(struct agent *agent, struct peer_uids *uids)
{
	static struct sandbox sandbox;

	agent_clear(agent);
	int status = drop_privileges(uids, &sandbox);
	if (!status)
		status = agent_open(agent);
	if (!status)
		status = enter_sandbox(&sandbox, agent);
	if (!status)
		status = agent_run(agent);
	return agent_finish(agent, status);
}

int main(int argc, char **argv)
{
	static struct agent agent;
	struct peer_uids uids = {0};
	int used = 1; /* arguments; the last of them is in the place of the name of a command */

	syscall(SYS_close_range, 3u + service_manager_kept_count(), ~0u, 0u);
	role_service_drop_streams(false);
	prctl(PR_SET_NAME, control_policy.name);
	prctl(PR_SET_DUMPABLE, 0);
	/* A service logs its starts and ends, unless BULKHEAD_LOG says otherwise. */
	setenv("BULKHEAD_LOG", "info", 0);
	log_init(control_policy.name);
	role_tune_memory();
	if (argc < 2 || strcmp(argv[1], "--service")) {
		log_error("this program is a part of Bulkhead and is started as a service; on a "
			  "host without its units, run `bulkhead run` instead");
		return STATUS_USAGE;
	}
	if (argc > 3 && !strcmp(argv[2], "--uids")) {
		if (peer_uids_parse(argv[3], &uids) < 0) {
			log_error("--uids: this is not a list of %d uids: value=%s", ROLE_COUNT,
				  argv[3]);
			return STATUS_USAGE;
		}
		used = 3;
	}
	const int status = config_load(argc - used, argv + used, environ, &agent.config);
	if (status)
		return status < 0 ? STATUS_DONE : status;
	if (agent.config.disabled) {
		log_info("OTEL_SDK_DISABLED is true in the environment: nothing is profiled");
		return STATUS_DONE;
	}
	return run(&agent, &uids);
}
