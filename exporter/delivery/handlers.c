/* SPDX-License-Identifier: Apache-2.0 */
/* One handler for each message to an agent's exporter, and the handlers of its other events. The
 * handler of its configuration is in configure.c. ipc/messages.def says who sends a message and
 * when. */
#include "exporter/delivery/handlers.h"

#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "common/exit_status.h"
#include "common/log.h"
#include "exporter/delivery/agent.h"
#include "exporter/delivery/delivery_limits.h"
#include "ipc/losses.h"

/* Stops the sender. What is not delivered stays in the spool for the next exporter. */
static void agent_finish(struct otlp_exporter *e)
{
	sender_stop(e->sender, DELIVERY_GRACE_MS * NS_PER_MS);
	e->sender = NULL;
	spool_keep(e->spool, spool_now());
	stats_update_spool(e);
}

/* Ends this process, so that another one is started. */
static void agent_leave(struct otlp_exporter *e)
{
	agent_finish(e);
	loop_stop(&e->role.loop, STATUS_DONE);
}

/* Returns whether a call has failed since the last success (or the start), which is more than
 * DELIVERY_RESTART_MS ago. */
static bool agent_is_stale(const struct otlp_exporter *e, uint64_t now_boot_ns)
{
	const struct export_stats *stats = e->stats;
	const uint64_t success = stats->last_success_boot_ns;
	const uint64_t since = success > e->started_boot_ns ? success : e->started_boot_ns;

	return stats->last_failure_boot_ns > since &&
	       now_boot_ns > since + DELIVERY_RESTART_MS * NS_PER_MS;
}

static void agent_tick_sampling(struct otlp_exporter *e, uint64_t now)
{
	const uint64_t short_of_memory = e->stats->lost.lost[LOSS_EXPORTER_MEMORY];

	interval_tick(e, now);
	if (agent_is_stale(e, clock_boot_ns())) {
		log_info("no successful export for 5 minutes: restarting to reload certificates "
			 "and headers");
		interval_commit(e);
		agent_leave(e);
	} else if (memory_shortage_lasts(&e->shortage, short_of_memory, now)) {
		/* The interval is not committed: the next exporter finds more of it in the journal
		 * than there is memory for here. */
		log_error("no memory for samples for %d s; restarting: lost=%llu",
			  LIMIT_SHORTAGE_MS / 1000, (unsigned long long)short_of_memory);
		agent_leave(e);
	} else if (e->report_due_ns < now + DELIVERY_TICK_MS * NS_PER_MS) {
		loop_tick_within(&e->role.loop, (int)((e->report_due_ns - now) / NS_PER_MS) + 1);
	}
}

static void agent_tick_draining(struct otlp_exporter *e, uint64_t now)
{
	if (!sender_idle(e->sender) && now < e->drain_deadline_ns) {
		loop_tick_within(&e->role.loop, DELIVERY_DRAIN_TICK_MS);
		return;
	}
	agent_finish(e);
	e->role.state = ROLE_DONE;
	role_send_status(&e->role, &(struct msg_status){0});
}

static void agent_on_tick(void *context, uint32_t events)
{
	struct otlp_exporter *e = context;

	(void)events;
	if (!e->sender)
		return;
	stats_update_kernel(e);
	stats_update_spool(e);
	if (e->role.state == ROLE_STOPPING)
		agent_tick_draining(e, clock_monotonic_ns());
	else
		agent_tick_sampling(e, clock_monotonic_ns());
}

static int agent_on_maps(void *context, const struct msg_maps *maps, struct message *message)
{
	struct otlp_exporter *e = context;

	if (role_has_maps(&e->role, maps))
		return 0;
	int r = counters_map(&e->counters, maps, message->fds[0]);

	if (r < 0)
		return r;
	/* END may have come first, if this exporter was started while the agent stops. */
	if (e->role.state == ROLE_CONFIGURED)
		e->role.state = ROLE_READY;
	role_send_status(&e->role, &(struct msg_status){0});
	return 0;
}

static int agent_on_batch(void *context, const void *payload, size_t length)
{
	return interval_on_batch(context, payload, length);
}

/* Commits the last interval. From now on only the sender has work to do. */
static int agent_on_end(void *context, const struct msg_losses *losses)
{
	struct otlp_exporter *e = context;

	/* The worker repeats END to the next exporter if one was killed after it. */
	if (!e->stats->ended)
		losses_add(&e->stats->lost, losses);
	e->stats->ended = 1;
	interval_commit(e);
	stats_update_kernel(e);
	e->role.state = ROLE_STOPPING;
	e->drain_deadline_ns = clock_monotonic_ns() + e->config.drain_timeout_ns;
	loop_tick_within(&e->role.loop, 0);
	return 0;
}

/* The messages refused here are for the exporter of recordings (exporter/handlers.c). */
#define AGENT_EXPORTER_HANDLERS(HANDLER, REFUSED)                                                  \
	HANDLER(CONFIGURE_OTLP, configure_on_message)                                              \
	REFUSED(CONFIGURE_EXPORTER)                                                                \
	HANDLER(EXPORTER_MAPS, agent_on_maps)                                                      \
	REFUSED(START)                                                                             \
	REFUSED(STOP)                                                                              \
	HANDLER(BATCH, agent_on_batch)                                                             \
	HANDLER(END, agent_on_end)
MESSAGE_HANDLERS(agent_exporter_handlers, EXPORTER, AGENT_EXPORTER_HANDLERS);

static void agent_on_connected(void *context, enum role_id other)
{
	struct otlp_exporter *e = context;
	const int r = other == ROLE_WORKER ? interval_resume(e) : 0;

	/* If the worker has ended, that is reported next. */
	if (!r || r == -EPIPE)
		return;
	log_error("cannot ask the symbolizer to continue, so the exporter ends: error=%s",
		  strerror(-r));
	loop_stop(&e->role.loop, STATUS_FAILED);
}

/* The worker and the loader may be started again. Otherwise no more batches will arrive, so what is
 * here is committed and stored. */
static bool agent_on_gone(void *context, enum role_id other, bool ended)
{
	struct otlp_exporter *e = context;

	if (ended && (other == ROLE_WORKER || other == ROLE_LOADER))
		return true;
	if (!e->sender)
		return false;
	interval_commit(e);
	stats_update_kernel(e);
	agent_finish(e);
	return false;
}

void agent_set_handlers(struct otlp_exporter *e)
{
	e->role.handlers = &agent_exporter_handlers;
	e->role.context = e;
	e->role.on_gone = agent_on_gone;
	e->role.on_connected = agent_on_connected;
}

void agent_start_ticks(struct otlp_exporter *e)
{
	loop_set_tick(&e->role.loop, DELIVERY_TICK_MS, agent_on_tick, e);
}
