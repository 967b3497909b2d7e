/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see debug_files.h. */
#include "symbolizer/worker/debug_files.h"

#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "common/time_units.h"
#include "symbolizer/namer/namer.h"
#include "symbolizer/worker/limits.h"
#include "symbolizer/worker/worker.h"

enum {
	/* How long a sample waits for the answer (hold.h). The opener needs 0.1 ms, unless the
	 * machine is overloaded or the directory is on a file system that does not answer. */
	HOLD_MS = 100,
	/* After this time it is not expected any more. The opener gives up after 1.5 s. */
	ANSWER_MS = 3000,
};

/* The places of each kind of file, in the order in which they are searched. */
static const struct debug_places {
	uint32_t first, end;
} debug_places = {MSG_DEBUG_OF_HOST, MSG_DEBUG_ALTERNATE_OF_HOST},
  further_places[] = {
      [NAMER_WANTS_NOTHING] = {MSG_DEBUG_PLACES, MSG_DEBUG_PLACES},
      [NAMER_WANTS_ALTERNATE] = {MSG_DEBUG_ALTERNATE_OF_HOST, MSG_DEBUG_PACKAGE_OF_PROCESS},
      [NAMER_WANTS_PACKAGE] = {MSG_DEBUG_PACKAGE_OF_PROCESS, MSG_DEBUG_SPLIT_OF_PROCESS},
      [NAMER_WANTS_SPLIT] = {MSG_DEBUG_SPLIT_OF_PROCESS, MSG_DEBUG_KERNEL_OF_HOST},
};

static const struct debug_places *places_of(const struct module *module,
					    const struct module_debug_file *file)
{
	const struct namer_wanted *wanted = symbols_wanted(module->symbols);

	return file == &module->debug
		   ? &debug_places
		   : &further_places[wanted ? wanted->kind : NAMER_WANTS_NOTHING];
}

static bool is_asked(const struct module_debug_file *file)
{
	return file->state == MODULE_DEBUG_ASKED &&
	       clock_monotonic_ns() - file->asked_ns < ANSWER_MS * NS_PER_MS;
}

bool debug_files_may_retry(uint64_t asked_ns)
{
	return !asked_ns || clock_monotonic_ns() - asked_ns >= LIMIT_DEBUG_RETRY_MS * NS_PER_MS;
}

static bool may_ask(const struct module_debug_file *file)
{
	if (file->state == MODULE_DEBUG_REFUSED)
		return true;
	const bool open = file->state == MODULE_DEBUG_UNKNOWN || file->state == MODULE_DEBUG_ASKED;

	return open && debug_files_may_retry(file->asked_ns);
}

/* Puts the build id and the name of a file into a request. */
static void request_set_file(struct msg_open_debug *request, const uint8_t *id, size_t length,
			     const char *link)
{
	if (length >= 2 && length <= sizeof(request->build_id)) {
		request->length = (uint32_t)length;
		memcpy(request->build_id, id, length);
	}
	if (strlen(link) < sizeof(request->link))
		memcpy(request->link, link, strlen(link));
}

/* Returns the path of a split file as it is searched: near the file, so the directory of the
 * compiler does not count. */
static const char *split_link(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && (path[0] == '/' || strlen(path) >= MSG_DEBUG_LINK_BYTES) ? slash + 1 : path;
}

/* Puts what a further file is known by into a request. */
static void request_set_wanted(struct msg_open_debug *request, const struct namer_wanted *wanted)
{
	if (wanted->kind == NAMER_WANTS_ALTERNATE)
		request_set_file(request, wanted->alternate.build_id,
				 wanted->alternate.build_id_length, wanted->alternate.name);
	else if (wanted->kind == NAMER_WANTS_SPLIT)
		request_set_file(request, NULL, 0, split_link(wanted->split));
}

/* Makes the request for the place where a debug file of a module is to be searched now. Returns
 * false if there is nothing to search for there. */
static bool make_request(const struct worker *worker, const struct module *module,
			 const struct module_debug_file *file, struct msg_open_debug *request)
{
	const struct namer_wanted *wanted = symbols_wanted(module->symbols);
	const uint8_t *id;

	*request = (struct msg_open_debug){
	    .module = module->id, .place = file->place, .first = file->next};
	if (file == &module->debug) {
		const size_t length = symbols_want_debug(module->symbols, &id);

		request_set_file(
		    request, id, length,
		    file->place == MSG_DEBUG_OF_HOST ? "" : symbols_debug_link(module->symbols));
	} else if (wanted) {
		request_set_wanted(request, wanted);
	}
	if (file->place == MSG_DEBUG_OF_HOST || file->place == MSG_DEBUG_ALTERNATE_OF_HOST)
		return request->length;
	request->tgid = worker->sample_tgid;
	request->container = processes_container(&worker->processes, worker->sample_tgid);
	request->inode = module->subject.inode;
	return request->tgid && request->inode &&
	       (request->length || request->link[0] || file->place == MSG_DEBUG_PACKAGE_OF_PROCESS);
}

/* Asks for the next file that may be a debug file of a module. */
static void ask(struct worker *worker, struct module *module, struct module_debug_file *file)
{
	const struct debug_places *places = places_of(module, file);
	struct msg_open_debug request;

	for (; file->place < places->end; file->place++) {
		if (make_request(worker, module, file, &request)) {
			file->asked_ns = clock_monotonic_ns();
			file->hold = (struct hold){0};
			const int r =
			    peer_send(&worker->role.peers[ROLE_OPENER], MESSAGE_OPEN_DEBUG,
				      &request, sizeof(request), NULL, 0);
			file->state = r < 0 ? MODULE_DEBUG_UNKNOWN : MODULE_DEBUG_ASKED;
			return;
		}
		file->next = 0;
	}
	if (file == &module->further && !file->failed)
		modules_do_without(module);
	else
		file->state = file->failed ? MODULE_DEBUG_UNKNOWN : MODULE_DEBUG_ANSWERED;
}

/* Starts to search in the first place, unless a file was not the right one: then the search goes
 * on. */
static void search(struct worker *worker, struct module *module, struct module_debug_file *file)
{
	if (file->state != MODULE_DEBUG_REFUSED) {
		file->place = places_of(module, file)->first;
		file->next = 0;
		file->failed = false;
	}
	ask(worker, module, file);
}

bool debug_files_hold_sample(struct worker *worker, struct hold *hold)
{
	const uint64_t now = clock_monotonic_ns();

	if (!worker->naming_until_ns || hold->over)
		return false;
	const bool over = hold_is_over(hold, HOLD_MS, now);
	if (!over && time_share_is_left(&worker->waiting_for_debug, now) &&
	    !worker_is_behind(worker)) {
		hold_go_on(hold, now);
		return true;
	}
	debug_files_end_hold(worker, hold);
	hold->over = over;
	return false;
}

void debug_files_end_hold(struct worker *worker, struct hold *hold)
{
	time_share_spend(&worker->waiting_for_debug, hold_ns(hold, clock_monotonic_ns()));
	*hold = (struct hold){0};
}

static bool is_awaited(struct worker *worker, struct module *module, struct module_debug_file *file)
{
	if (may_ask(file))
		search(worker, module, file);
	return is_asked(file) && debug_files_hold_sample(worker, &file->hold);
}

bool debug_files_are_awaited(struct worker *worker, struct module *module)
{
	if (is_awaited(worker, module, &module->debug))
		return true;
	/* If there is no such file, another one may be wanted. */
	return symbols_wanted(module->symbols) && is_awaited(worker, module, &module->further);
}

enum names_due debug_files_are_due(const struct module *module)
{
	if (is_asked(&module->debug) || is_asked(&module->further) || modules_debug_is_due(module))
		return NAMES_SOON;
	return module->debug.state == MODULE_DEBUG_DROPPED ? NAMES_LATER : NAMES_FINAL;
}

void debug_files_on_answer(struct worker *worker, struct message *message)
{
	struct msg_debug_file answer;

	memcpy(&answer, message->payload, sizeof(answer));
	struct module *module = modules_find(&worker->modules, answer.module);
	struct module_debug_file *file = !module			   ? NULL
					 : answer.place < debug_places.end ? &module->debug
									   : &module->further;
	if (!file || file->state != MODULE_DEBUG_ASKED || answer.place != file->place)
		return;
	debug_files_end_hold(worker, &file->hold);
	/* The sample that waits for it is at the head of the ring. */
	loop_tick_within(&worker->role.loop, 0);
	if (message->fd_count) {
		file->state = MODULE_DEBUG_ANSWERED;
		file->next = answer.path < UINT32_MAX ? answer.path + 1 : UINT32_MAX;
		modules_set_debug(&worker->modules, file, message->fds[0]);
		message->fds[0] = -1;
		return;
	}
	file->failed |= answer.error != ENOENT;
	file->place++;
	file->next = 0;
	/* What has been evicted meanwhile may be wanted again, and then from the start. */
	file->state = MODULE_DEBUG_UNKNOWN;
	if (module->symbols)
		ask(worker, module, file);
}
