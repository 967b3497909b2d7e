/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent reports its state to `bulkhead status` and to the service manager.
 *
 * How this works: `bulkhead status` connects to the socket <run directory>/control/status. The
 * agent sends one struct agent_report and closes the connection. It reads nothing from the other
 * end, so a client can neither block nor attack it. The mode of the socket decides who may connect:
 * root, and the members of status.group. The report has three sources: the supervisor (phase,
 * restarts), the last STATUS message of each role, and the page of statistics that the exporter
 * writes.
 *
 * The service manager gets the messages of sd_notify(3): READY=1 once, then STATUS and WATCHDOG
 * every 5 s, and STOPPING=1 at the end. READY=1 means that samples arrive at the exporter, not only
 * that the roles were started.
 *
 * Example: on an idle machine no sample arrives. 5 s after all roles are ready the agent sends
 * READY=1 nevertheless, because otherwise the service manager would kill it after its start
 * timeout.
 */
#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "control/agent.h"
#include "control/agent_report.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/exit_status.h"
#include "common/log.h"
#include "ipc/losses.h"
#include "role/service_manager.h"

enum {
	STATUS_BACKLOG = 4,
	/* On an idle machine the first sample may take very long: after this time none is
	 * needed. */
	NOTIFY_READY_MS = 5000,
	/* A watchdog of the service manager (WatchdogSec=) must be at least twice as long. */
	NOTIFY_INTERVAL_MS = 5000,
};

/* --- bulkhead status --- */

static void report_roles(struct agent *agent, struct agent_report *report)
{
	const uint64_t now = clock_monotonic_ns();

	roles_measure(&agent->supervisor.roles);
	for (int role = ROLE_CONTROL + 1; role < ROLE_COUNT; role++) {
		const struct role_process *child = &agent->supervisor.roles.processes[role];

		report->roles[role] = (struct agent_report_role){
		    .pid = child->pid > 0 ? (uint32_t)child->pid : 0,
		    .restarts = agent->supervisor.role[role].restarts,
		    .rss_bytes = child->pid ? child->rss_bytes : 0,
		    .pss_bytes = child->pid ? child->pss_bytes : 0,
		    .heard_ns_ago = now - agent->supervisor.role[role].heard_ns,
		};
	}
}

static void report_fill(struct agent *agent, struct agent_report *report)
{
	const struct msg_status *loader = &agent->supervisor.role[ROLE_LOADER].status;

	*report = (struct agent_report){
	    .magic = AGENT_REPORT_MAGIC,
	    .bytes = sizeof(*report),
	    .now_unix_ns = clock_read_ns(CLOCK_REALTIME),
	    .now_boot_ns = clock_boot_ns(),
	    .started_boot_ns = agent->started_boot_ns,
	    .phase = agent->supervisor.phase,
	    .ready = agent->supervisor.phase == SUPERVISOR_RUNNING && agent->reported_ready &&
		     supervisor_all_ready(&agent->supervisor),
	    .sampling = agent->sampling,
	    .frequency_hz = (uint32_t)agent->config.frequency_hz,
	    .probability_percent = (uint32_t)agent->config.probability_percent,
	    .map_bytes = loader->map_bytes,
	    .bpf_run_ns = loader->bpf_run_ns,
	    .bpf_run_count = loader->bpf_run_count,
	    .deferred = loader->deferred,
	    .paused_ns = sampling_pause_total(&agent->pause),
	    .lost_worker = agent->supervisor.role[ROLE_WORKER].status.losses,
	    .stats = *agent->export.stats,
	};
	losses_add(&report->lost_worker, &agent->export.lost_worker);
	/* The last STATUS of a worker that has ended does not describe the present processes. */
	if (agent->supervisor.role[ROLE_WORKER].ready &&
	    agent->supervisor.roles.processes[ROLE_WORKER].pid)
		memcpy(report->runtimes, agent->supervisor.role[ROLE_WORKER].status.runtimes,
		       sizeof(report->runtimes));
	memcpy(report->endpoint, agent->export.config.target, sizeof(report->endpoint));
	report_roles(agent, report);
}

static void status_on_connection(void *context, uint32_t events)
{
	struct agent *agent = context;
	static struct agent_report report;

	(void)events;
	_cleanup_close_ int fd =
	    accept4(agent->status_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return;
	report_fill(agent, &report);
	/* The socket buffer has room for the whole report. */
	if (send(fd, &report, sizeof(report), MSG_NOSIGNAL) != (ssize_t)sizeof(report))
		log_debug("`bulkhead status` did not take the report");
}

static int status_group(const struct agent *agent, gid_t *gid)
{
	const char *name = agent->config.status_group;

	*gid = 0;
	if (!name[0])
		return 0;
	const struct group *group = getgrnam(name);
	if (!group) {
		log_error("the group that status.group names does not exist: group=%s", name);
		return -ENOENT;
	}
	*gid = group->gr_gid;
	return 0;
}

int agent_status_open(struct agent *agent)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	gid_t gid;

	if (status_group(agent, &gid) < 0)
		return STATUS_USAGE;
	snprintf(agent->status_path, sizeof(agent->status_path), "%s/%s",
		 agent->config.run_directory, role_names[ROLE_CONTROL].directory);
	/* The directory of a service exists, and belongs to it. */
	mkdir(agent->status_path, 0711);
	snprintf(agent->status_path, sizeof(agent->status_path), "%s/" AGENT_REPORT_SOCKET,
		 agent->config.run_directory);
	memcpy(address.sun_path, agent->status_path,
	       strnlen(agent->status_path, sizeof(address.sun_path) - 1));
	unlink(agent->status_path);
	agent->status_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* Nobody may connect until owner and mode are set. */
	const mode_t mask = umask(0777);
	const bool bound =
	    agent->status_fd >= 0 &&
	    bind(agent->status_fd, (struct sockaddr *)&address, sizeof(address)) == 0;
	umask(mask);
	if (!bound || (gid && chown(agent->status_path, (uid_t)-1, gid) < 0) ||
	    chmod(agent->status_path, agent->config.status_group[0] ? 0660 : 0600) < 0 ||
	    listen(agent->status_fd, STATUS_BACKLOG) < 0 ||
	    loop_add(&agent->supervisor.loop, agent->status_fd, EPOLLIN, status_on_connection,
		     agent) < 0) {
		log_error("cannot open the socket for `bulkhead status`; nothing is sampled: "
			  "path=%s error=%s",
			  agent->status_path, strerror(errno));
		return STATUS_FAILED;
	}
	return STATUS_DONE;
}

void agent_status_close(struct agent *agent)
{
	if (agent->status_fd < 0)
		return;
	unlink(agent->status_path);
	close(agent->status_fd);
	agent->status_fd = -1;
	if (roles_are_services())
		return;
	*strrchr(agent->status_path, '/') = 0;
	rmdir(agent->status_path);
}

/* --- the service manager --- */

void agent_notify_stopping(const struct agent *agent)
{
	service_manager_send(agent->notify_fd, "STOPPING=1");
}

/* Returns whether the agent is ready: all roles are, and the first sample has arrived at the
 * exporter or need not be waited for. */
static bool notify_is_ready(const struct agent *agent, uint64_t now_ns)
{
	return agent->supervisor.phase == SUPERVISOR_RUNNING &&
	       (agent->export.stats->received || !agent->sampling ||
		now_ns - agent->supervisor.phase_since_ns > NOTIFY_READY_MS * 1000000ull);
}

void agent_notify(struct agent *agent, uint64_t now_ns)
{
	const struct export_stats *stats = agent->export.stats;
	char text[256];

	if (!agent->reported_ready && notify_is_ready(agent, now_ns)) {
		agent->reported_ready = true;
		log_info("the agent is profiling: frequency=%u endpoint=%s",
			 (unsigned int)agent->config.frequency_hz, agent->export.config.target);
		service_manager_send(agent->notify_fd, "READY=1");
	}
	if (now_ns < agent->notify_due_ns)
		return;
	agent->notify_due_ns = now_ns + NOTIFY_INTERVAL_MS * 1000000ull;
	snprintf(text, sizeof(text),
		 "STATUS=%" PRIu64 " samples delivered, %" PRIu64 " waiting\nWATCHDOG=1",
		 stats->delivered, stats->waiting);
	service_manager_send(agent->notify_fd, text);
}
