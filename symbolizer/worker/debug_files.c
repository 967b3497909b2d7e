/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see debug_files.h. */
#include "symbolizer/worker/debug_files.h"

#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "common/time_units.h"
#include "symbolizer/worker/limits.h"
#include "symbolizer/worker/worker.h"

enum {
	/* How long a sample waits for the answer. The opener needs 0.1 ms, unless the machine is
	 * overloaded or the directory is on a file system that does not answer. */
	HOLD_MS = 100,
	/* After this time it is not expected any more. The opener gives up after 1.5 s. */
	ANSWER_MS = 3000,
};

static bool is_asked_since(const struct module *module, uint64_t ms)
{
	return module->debug == MODULE_DEBUG_ASKED &&
	       clock_monotonic_ns() - module->debug_asked_ns < ms * NS_PER_MS;
}

static bool may_ask(const struct module *module)
{
	const bool open =
	    module->debug == MODULE_DEBUG_UNKNOWN || module->debug == MODULE_DEBUG_ASKED;

	return open && (!module->debug_asked_ns || clock_monotonic_ns() - module->debug_asked_ns >=
						       LIMIT_DEBUG_RETRY_MS * NS_PER_MS);
}

static void ask(struct worker *worker, struct module *module)
{
	struct msg_open_debug request = {.module = module->id};
	const uint8_t *id;
	const size_t length = symbols_want_debug(module->symbols, &id);

	module->debug = MODULE_DEBUG_ANSWERED;
	if (length < 2 || length > sizeof(request.build_id))
		return;
	request.length = (uint32_t)length;
	memcpy(request.build_id, id, length);
	module->debug_asked_ns = clock_monotonic_ns();
	const int r = peer_send(&worker->role.peers[ROLE_OPENER], MESSAGE_OPEN_DEBUG, &request,
				sizeof(request), NULL, 0);
	module->debug = r < 0 ? MODULE_DEBUG_UNKNOWN : MODULE_DEBUG_ASKED;
}

/* Accounts for the time in which a sample has waited. */
static void end_hold(struct worker *worker, struct module *module)
{
	if (module->debug_held)
		time_share_spend(&worker->waiting_for_debug,
				 clock_monotonic_ns() - module->debug_asked_ns);
	module->debug_held = false;
}

bool debug_files_are_awaited(struct worker *worker, struct module *module)
{
	if (may_ask(module))
		ask(worker, module);
	if (worker->naming_until_ns && is_asked_since(module, HOLD_MS) &&
	    time_share_is_left(&worker->waiting_for_debug, clock_monotonic_ns()) &&
	    !bpf_ring_is_half_full(&worker->ring)) {
		module->debug_held = true;
		return true;
	}
	end_hold(worker, module);
	return false;
}

enum names_due debug_files_are_due(const struct module *module)
{
	if (is_asked_since(module, ANSWER_MS) || modules_debug_is_due(module))
		return NAMES_SOON;
	return module->debug == MODULE_DEBUG_DROPPED ? NAMES_LATER : NAMES_FINAL;
}

void debug_files_on_answer(struct worker *worker, struct message *message)
{
	struct msg_debug_file answer;

	memcpy(&answer, message->payload, sizeof(answer));
	struct module *module = modules_find(&worker->modules, answer.module);
	if (!module || module->debug != MODULE_DEBUG_ASKED)
		return;
	module->debug = message->fd_count || answer.error == ENOENT ? MODULE_DEBUG_ANSWERED
								    : MODULE_DEBUG_UNKNOWN;
	end_hold(worker, module);
	/* The sample that waits for it is at the head of the ring. */
	loop_tick_within(&worker->role.loop, 0);
	if (!message->fd_count)
		return;
	modules_set_debug(&worker->modules, module, message->fds[0]);
	message->fds[0] = -1;
}
