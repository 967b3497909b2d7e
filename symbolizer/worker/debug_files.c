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
	if (module->debug == MODULE_DEBUG_REFUSED)
		return true;
	const bool open =
	    module->debug == MODULE_DEBUG_UNKNOWN || module->debug == MODULE_DEBUG_ASKED;

	return open && (!module->debug_asked_ns || clock_monotonic_ns() - module->debug_asked_ns >=
						       LIMIT_DEBUG_RETRY_MS * NS_PER_MS);
}

/* Makes the request for the place where a module's debug file is to be searched now. Returns false
 * if there is nothing to search for there. */
static bool make_request(const struct worker *worker, const struct module *module,
			 struct msg_open_debug *request)
{
	const uint8_t *id;
	const size_t length = symbols_want_debug(module->symbols, &id);
	const char *link = symbols_debug_link(module->symbols);

	*request = (struct msg_open_debug){
	    .module = module->id, .place = module->debug_place, .first = module->debug_next};
	if (length >= 2 && length <= sizeof(request->build_id)) {
		request->length = (uint32_t)length;
		memcpy(request->build_id, id, length);
	}
	if (module->debug_place == MSG_DEBUG_OF_HOST)
		return request->length;
	if (strlen(link) < sizeof(request->link))
		memcpy(request->link, link, strlen(link));
	request->tgid = worker->sample_tgid;
	request->inode = module->subject.inode;
	return request->tgid && request->inode && (request->length || request->link[0]);
}

/* Asks for the next file that may be the debug file of a module. */
static void ask(struct worker *worker, struct module *module)
{
	struct msg_open_debug request;

	for (; module->debug_place < MSG_DEBUG_PLACES; module->debug_place++) {
		if (make_request(worker, module, &request)) {
			module->debug_asked_ns = clock_monotonic_ns();
			const int r =
			    peer_send(&worker->role.peers[ROLE_OPENER], MESSAGE_OPEN_DEBUG,
				      &request, sizeof(request), NULL, 0);
			module->debug = r < 0 ? MODULE_DEBUG_UNKNOWN : MODULE_DEBUG_ASKED;
			return;
		}
		module->debug_next = 0;
	}
	module->debug = module->debug_failed ? MODULE_DEBUG_UNKNOWN : MODULE_DEBUG_ANSWERED;
}

/* Starts to search in the first place, unless a file was not the right one: then the search goes
 * on. */
static void search(struct worker *worker, struct module *module)
{
	if (module->debug != MODULE_DEBUG_REFUSED) {
		module->debug_place = module->debug_next = 0;
		module->debug_failed = false;
	}
	ask(worker, module);
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
		search(worker, module);
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
	if (!module || module->debug != MODULE_DEBUG_ASKED || answer.place != module->debug_place)
		return;
	end_hold(worker, module);
	/* The sample that waits for it is at the head of the ring. */
	loop_tick_within(&worker->role.loop, 0);
	if (message->fd_count) {
		module->debug = MODULE_DEBUG_ANSWERED;
		module->debug_next = answer.path < UINT32_MAX ? answer.path + 1 : UINT32_MAX;
		modules_set_debug(&worker->modules, module, message->fds[0]);
		message->fds[0] = -1;
		return;
	}
	module->debug_failed |= answer.error != ENOENT;
	module->debug_place++;
	module->debug_next = 0;
	/* What has been evicted meanwhile may be wanted again, and then from the start. */
	module->debug = MODULE_DEBUG_UNKNOWN;
	if (module->symbols)
		ask(worker, module);
}
