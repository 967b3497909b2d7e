/* SPDX-License-Identifier: Apache-2.0 */
/* The loader loads and attaches the BPF programs and sends the other roles what they need of them.
 * Inside its sandbox it can still add slabs and perf events. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/exit_status.h"
#include "common/log.h"
#include "loader/loader.h"
#include "loader/policy.h"

enum {
	LOADER_TICK_MS = 1000
};

static void loader_send_status(struct loader *loader)
{
	struct msg_status status = {0};

	object_status(loader, &status);
	role_send_status(&loader->role, &status);
}

/* ---- Messages. ---- */

static int loader_on_configure(void *context, const struct msg_configure_loader *config)
{
	struct loader *loader = context;

	if (config->target_count > MSG_FILTER_TARGETS_MAX || !config->frequency_hz)
		return -EPROTO;
	loader->config = *config;
	loader->role.state = ROLE_CONFIGURED;
	return 0;
}

static int loader_on_start(void *context)
{
	struct loader *loader = context;

	events_enable(loader, true);
	loader->role.state = ROLE_SAMPLING;
	loader_send_status(loader);
	return 0;
}

static int loader_on_stop(void *context)
{
	struct loader *loader = context;

	events_enable(loader, false);
	loader->role.state = ROLE_STOPPED;
	loader_send_status(loader);
	return 0;
}

static int loader_on_slab_request(void *context)
{
	return object_add_slab(context);
}

#define LOADER_HANDLERS(HANDLER, REFUSED)                                                          \
	HANDLER(CONFIGURE_LOADER, loader_on_configure)                                             \
	HANDLER(START, loader_on_start)                                                            \
	HANDLER(STOP, loader_on_stop)                                                              \
	HANDLER(SLAB_REQUEST, loader_on_slab_request)
MESSAGE_HANDLERS(loader_handlers, LOADER, LOADER_HANDLERS);

/* ---- Other events. ---- */

static bool loader_on_gone(void *context, enum role_id other)
{
	struct loader *loader = context;

	return loader->role.agent && other == ROLE_EXPORTER;
}

static void loader_on_return(void *context, enum role_id other)
{
	(void)other;
	object_send_exporter_maps(context);
}

static void loader_on_tick(void *context, uint32_t events)
{
	struct loader *loader = context;

	(void)events;
	if (loader->sampling) {
		events_follow_cpus(loader);
		loader_send_status(loader);
	}
}

/* Opens the two files that are read later. If one is missing, the kernel was built without it, or a
 * container hides it. */
static int loader_open_files(struct loader *loader)
{
	loader->online_fd = open("/sys/devices/system/cpu/online", O_RDONLY | O_CLOEXEC);
	if (loader->online_fd < 0) {
		log_error("cannot open the list of CPUs, so nothing is sampled: "
			  "path=/sys/devices/system/cpu/online error=%s",
			  strerror(errno));
		return STATUS_KERNEL;
	}
	loader->kallsyms_fd = open("/proc/kallsyms", O_RDONLY | O_CLOEXEC);
	if (loader->kallsyms_fd < 0) {
		log_error("cannot open the kernel symbols, so nothing is sampled: "
			  "path=/proc/kallsyms error=%s",
			  strerror(errno));
		return STATUS_NOT_PERMITTED;
	}
	return STATUS_DONE;
}

int main(int argc, char **argv)
{
	static struct loader loader;
	int status = role_start(&loader.role, ROLE_LOADER, &loader_policy, argc, argv);

	for (int cpu = 0; cpu < CPUS_MAX; cpu++)
		loader.sample_fds[cpu] = loader.sideband_fds[cpu] = -1;
	if (!status)
		status = role_meet(&loader.role, 0,
				   ROLE_BIT(ROLE_CLI) | ROLE_BIT(ROLE_MANAGER) |
				       ROLE_BIT(ROLE_WORKER) | ROLE_BIT(ROLE_EXPORTER));
	loader.role.handlers = &loader_handlers;
	loader.role.context = &loader;
	if (!status)
		status = role_receive(&loader.role, ROLE_CLI);
	if (!status)
		status = loader_open_files(&loader);
	if (!status)
		status = object_load(&loader);
	if (!status)
		status = object_send_maps(&loader) < 0 ? STATUS_FAILED : STATUS_DONE;
	if (!status)
		status = events_follow_cpus(&loader);
	if (!status)
		status = role_enter_sandbox(&loader.role);
	if (status)
		return status;
	close(loader.kallsyms_fd);
	loader.role.on_gone = loader_on_gone;
	loader.role.on_return = loader_on_return;
	if (role_watch_peers(&loader.role) < 0)
		return STATUS_FAILED;
	loop_set_tick(&loader.role.loop, LOADER_TICK_MS, loader_on_tick, &loader);
	loader.role.state = ROLE_READY;
	loader_send_status(&loader);
	return loop_run(&loader.role.loop);
}
