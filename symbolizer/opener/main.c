/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The opener is the only role that may access other processes. It opens files for the manager and
 * the worker and sends them the descriptors. It does not read what is in the files, except for
 * lines of /proc that the kernel writes. Messages are in handlers.c, the checks of what may be
 * opened are in open_file.c. Since opening may take for ever, a child does it: see role/helper.h.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "common/exit_status.h"
#include "common/log.h"
#include "symbolizer/opener/handlers.h"
#include "symbolizer/opener/opener.h"
#include "symbolizer/opener/policy.h"

/* Finds out by what name the debug file of the kernel is known. */
static void read_kernel_version(struct opener *opener)
{
	struct utsname name;

	if (uname(&name) == 0)
		snprintf(opener->kernel_version, sizeof(opener->kernel_version), "%s",
			 name.release);
}

int main(int argc, char **argv)
{
	static struct opener opener;
	int status = role_start(&opener.role, ROLE_OPENER, &opener_policy, argc, argv);

	if (status)
		return status;
	opener.proc = opendir("/proc");
	if (!opener.proc) {
		log_error("cannot open /proc, so nothing is sampled: error=%s", strerror(errno));
		return STATUS_FAILED;
	}
	read_kernel_version(&opener);
	opener_set_handlers(&opener);
	status = role_meet(&opener.role);
	/* What its predecessor left alone, and what it may open. */
	for (int i = 0; i < 2 && !status; i++)
		status = role_receive(&opener.role, ROLE_CONTROL);
	if (!status)
		status = role_enter_sandbox(&opener.role);
	if (status)
		return status;
	int r = opener_start_lanes(&opener);
	if (r < 0) {
		log_error("cannot start the processes that open files, so nothing is sampled; the "
			  "limit of processes may be reached: error=%s",
			  strerror(-r));
		return STATUS_FAILED;
	}
	if (role_watch_peers(&opener.role) < 0)
		return STATUS_FAILED;
	opener.role.state = ROLE_READY;
	role_send_status(&opener.role, &(struct msg_status){0});
	status = loop_run(&opener.role.loop);
	for (int i = 0; i < LANE_COUNT; i++)
		lane_stop(&opener.lanes[i]);
	return status;
}
