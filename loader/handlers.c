/* SPDX-License-Identifier: Apache-2.0 */
/* One handler for each message to the loader, and the handlers of its other events.
 * ipc/messages.def says who sends a message and when. */
#include "loader/handlers.h"

#include <errno.h>
#include <string.h>

#include "common/exit_status.h"
#include "common/log.h"
#include "loader/loader.h"

enum {
	LOADER_TICK_MS = 1000
};

static void loader_send_status(struct loader *loader)
{
	struct msg_status status = {0};

	object_status(loader, &status);
	role_send_status(&loader->role, &status);
}

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

static int loader_on_hand_over(void *context)
{
	struct loader *loader = context;

	loader->handed_over = true;
	return 0;
}

/* The indices ascend on one connection. So for a manager that was taken over not more than
 * BH_SLABS_MAX slabs are made, however many it requests. */
static int loader_on_slab_request(void *context, const struct msg_id *slab)
{
	struct loader *loader = context;

	if (slab->id < loader->next_slab)
		return 0;
	if (slab->id < BH_SLABS_MAX)
		loader->next_slab = slab->id + 1;
	return object_add_slab(loader, slab->id);
}

static int loader_on_load_runtime(void *context, const struct msg_id *runtime)
{
	return object_load_runtime(context, runtime->id);
}

#define LOADER_HANDLERS(HANDLER, REFUSED)                                                          \
	HANDLER(CONFIGURE_LOADER, loader_on_configure)                                             \
	HANDLER(START, loader_on_start)                                                            \
	HANDLER(STOP, loader_on_stop)                                                              \
	HANDLER(HAND_OVER, loader_on_hand_over)                                                    \
	HANDLER(SLAB_REQUEST, loader_on_slab_request)                                              \
	HANDLER(LOAD_RUNTIME, loader_on_load_runtime)
MESSAGE_HANDLERS(loader_handlers, LOADER, LOADER_HANDLERS);

/* ---- Other events. ---- */

static bool loader_on_gone(void *context, enum role_id other, bool ended)
{
	struct loader *loader = context;

	if (other == ROLE_CONTROL || (other == ROLE_MANAGER && !ended))
		return false;
	if (other == ROLE_MANAGER)
		events_forget_manager(loader);
	return true;
}

static void loader_on_connected(void *context, enum role_id other)
{
	struct loader *loader = context;

	if (other == ROLE_MANAGER)
		loader->next_slab = 0;
	int r = object_send_maps(loader, other);

	if (!r && other == ROLE_MANAGER)
		r = events_send(loader);
	/* If the role has ended, that is reported next. */
	if (!r || r == -EPIPE)
		return;
	log_error("cannot send the BPF maps to another role, so nothing is sampled: error=%s",
		  strerror(-r));
	loop_stop(&loader->role.loop, STATUS_FAILED);
}

static void loader_on_tick(void *context, uint32_t events)
{
	struct loader *loader = context;

	(void)events;
	if (loader->sampling) {
		events_follow_cpus(loader);
		events_note_sampling(loader);
		loader_send_status(loader);
	}
}

void loader_set_handlers(struct loader *loader)
{
	loader->role.handlers = &loader_handlers;
	loader->role.context = loader;
	loader->role.on_gone = loader_on_gone;
	loader->role.on_connected = loader_on_connected;
}

void loader_start_ticks(struct loader *loader)
{
	loop_set_tick(&loader->role.loop, LOADER_TICK_MS, loader_on_tick, loader);
	loader_send_status(loader);
}
