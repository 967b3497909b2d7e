/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see table_builds.h. */
#include "unwinder-mgr/table_builds.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/file_read.h"
#include "common/log.h"
#include "common/time_units.h"
#include "ipc/fd_passing.h"
#include "unwinder-mgr/manager.h"
#include "unwinder-mgr/module_state.h"
#include "unwinder-mgr/module_table.h"

enum {
	/* If it has not sent everything by then, the helper hangs. The largest file takes two
	 * seconds of CPU time, and an overloaded machine leaves little of it. */
	DEADLINE_S = 20,
	PACKETS_PER_TURN = 16,
	LOG_EVERY_S = 60,
	/* The second helper is ended if nothing was sent to it for this long. */
	IDLE_S = 10,
	/* A module that has waited for this long comes first, whatever others wait for. */
	PASSED_OVER_MS = 2000,
};

static const char helper_name[] = "bulkhead-mgrh";

/* What the helper gets with the descriptor of a file. */
struct request {
	uint64_t file_bytes;
};

/* --- in the helper --- */

/* Builds the rows of one file and sends them. Returns 0, or a negative errno if they cannot be
 * sent. */
static int helper_build(int socket, struct rules *rules, const struct request *request, int fd)
{
	const struct elf_source source = {
	    .read = file_read_from, .context = &fd, .size = request->file_bytes};
	const uint64_t began_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
	struct unwind_table_builder builder;
	struct table_part_end end = {
	    .error = unwind_table_build(&builder, rules, rules_room(rules), &source)};

	end.cpu_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns;
	int r = table_parts_send(socket, &builder, rules, &end);
	/* No walker reads these rules, so their ids are free at once. */
	unwind_table_builder_fini(&builder, rules, 0);
	return r;
}

/* Builds tables until the manager has closed the socket, or has ended. */
static void helper_serve(int socket, void *context)
{
	struct rules *rules = calloc(1, sizeof(*rules));
	struct bh_rule *table = calloc(RULES_MAX, sizeof(*table));
	int r = rules && table ? 0 : -ENOMEM;

	(void)context;
	if (!r)
		rules_init(rules, table);
	while (!r) {
		struct request request;
		const int fd = helper_receive(socket, &request, sizeof(request));

		if (fd < 0)
			break;
		r = helper_build(socket, rules, &request, fd);
		close(fd);
		malloc_trim(0); /* the next file may come in an hour */
	}
	free(table);
	free(rules);
}

/* --- a helper and the module that it has --- */

static void builds_run(struct manager *manager);

static void log_loss(struct table_builds *builds, const struct work_subject *subject,
		     unsigned int seconds)
{
	const uint64_t now_ns = clock_monotonic_ns();
	char container[TENANT_CONTAINER_BYTES];

	if (builds->logged_ns && now_ns - builds->logged_ns < LOG_EVERY_S * NS_PER_S)
		return;
	builds->logged_ns = now_ns;
	log_warning("reading the unwind information of a file has ended the process that does it, "
		    "or did not end; the file is left alone for a time: pid=%u uid=%u "
		    "container=%s device=%llu inode=%llu seconds=%u",
		    (unsigned int)subject->tgid, subject->tenant.uid,
		    tenant_container(subject->tenant, container),
		    (unsigned long long)subject->device, (unsigned long long)subject->inode,
		    seconds);
}

/* Drops the helper, and refuses the table of the file on which it hangs or died. */
static void give_up(struct build_lane *lane)
{
	struct manager *manager = lane->manager;
	struct module *module = lane->building;

	helper_drop(&lane->helper);
	if (!module)
		return;
	const struct work_subject subject = module_subject(module);

	lane->building = NULL;
	table_receiver_drop(&lane->receiver, clock_monotonic_ns());
	log_loss(&manager->builds, &subject, work_quarantine(manager->role.work_page, &subject));
	module_refuse_table(manager, module);
}

/* Sends a module's file. Returns 0, or a negative errno if there is no helper that could take
 * it. */
static int send_file(struct build_lane *lane, struct module *module)
{
	struct manager *manager = lane->manager;
	const struct request request = {.file_bytes = (uint64_t)module->file.st_size};
	const int r = helper_send(&lane->helper, helper_name, helper_serve, &request,
				  sizeof(request), module->fd);

	if (r < 0)
		return r;
	lane->building = module;
	lane->sent_ns = clock_monotonic_ns();
	table_receiver_begin(&lane->receiver, &manager->rules, module_rules_most(manager, module));
	return 0;
}

/* Passes on the result for the module that the helper had. The time that it says is not more than
 * what has passed. */
static void finish(struct build_lane *lane, const struct table_part_end *end)
{
	struct module *module = lane->building;
	const uint64_t passed_ns = clock_monotonic_ns() - lane->sent_ns;

	lane->building = NULL;
	if (module->share)
		time_share_spend(&module->share->building,
				 end->cpu_ns < passed_ns ? end->cpu_ns : passed_ns);
	if (end->error)
		table_receiver_drop(&lane->receiver, clock_monotonic_ns());
	module_take_rows(lane->manager, module, end->error, &lane->receiver.builder);
}

/* Takes some of what the helper has sent. Then others have their turn. */
static void on_helper(void *context, uint32_t events)
{
	struct build_lane *lane = context;
	static struct table_part part;
	struct table_part_end end;

	(void)events;
	for (int i = 0; i < PACKETS_PER_TURN && lane->helper.fd >= 0; i++) {
		unsigned int fd_count;
		bool truncated;
		const ssize_t n = fd_passing_receive(lane->helper.fd, &part, sizeof(part),
						     MSG_DONTWAIT, NULL, 0, &fd_count, &truncated);

		if (n == -EAGAIN || n == -EINTR)
			return;
		const int r = n > 0 && !truncated && lane->building
				  ? table_receiver_take(&lane->receiver, &part, (size_t)n, &end)
				  : -EPROTO;
		if (r < 0)
			give_up(lane);
		else if (r)
			finish(lane, &end);
		if (r)
			builds_run(lane->manager);
	}
}

/* --- the queue --- */

static bool is_being_built_for(const struct table_builds *builds, const struct share *share)
{
	for (int i = 0; i < BUILD_LANES; i++) {
		if (builds->lanes[i].building && builds->lanes[i].building->share == share)
			return true;
	}
	return false;
}

static struct build_lane *find_idle(struct table_builds *builds)
{
	for (int i = 0; i < BUILD_LANES; i++) {
		if (!builds->lanes[i].building)
			return &builds->lanes[i];
	}
	return NULL;
}

/* Returns whether more stacks wait for a module than for another one, for each byte of the file; or
 * if there is no difference, whether its file is smaller. */
static bool comes_before(const struct module *module, const struct module *other)
{
	const double awaited = (double)module->awaited * (double)(other->file.st_size + 1);
	const double other_awaited = (double)other->awaited * (double)(module->file.st_size + 1);

	if (awaited != other_awaited)
		return awaited > other_awaited;
	return module->file.st_size < other->file.st_size;
}

/* Takes the next module out of the queue: of the user of the first one for whom nothing is being
 * built. Returns NULL if there is none. */
static struct module *take_next(struct table_builds *builds)
{
	const uint64_t now = clock_monotonic_ns();
	struct module **next = NULL;

	for (struct module **link = &builds->first; *link; link = &(*link)->next_build) {
		if (next ? (*link)->share == (*next)->share && comes_before(*link, *next)
			 : !is_being_built_for(builds, (*link)->share))
			next = link;
		if (next == link && now - (*link)->queued_ns > PASSED_OVER_MS * NS_PER_MS)
			break;
	}
	if (!next)
		return NULL;
	struct module *module = *next;

	*next = module->next_build;
	if (builds->end == &module->next_build)
		builds->end = next;
	module->next_build = NULL;
	return module;
}

/* Sends the next files that may be read now. */
static void builds_run(struct manager *manager)
{
	struct table_builds *builds = &manager->builds;
	struct build_lane *idle;

	while (builds->started && (idle = find_idle(builds))) {
		struct module *module = take_next(builds);

		if (!module)
			return;
		if (!module_may_be_built(manager, module) || send_file(idle, module) < 0)
			module_refuse_table(manager, module);
	}
}

void table_builds_add(struct manager *manager, struct module *module)
{
	struct table_builds *builds = &manager->builds;

	module_set_state(manager, module, MODULE_BUILDING);
	module->queued_ns = clock_monotonic_ns();
	module->next_build = NULL;
	if (!builds->first)
		builds->end = &builds->first;
	*builds->end = module;
	builds->end = &module->next_build;
	builds_run(manager);
}

static void lane_tick(struct build_lane *lane, uint64_t now_ns)
{
	const bool is_first = lane == lane->manager->builds.lanes;

	helper_collect(&lane->helper);
	if (lane->building && now_ns - lane->sent_ns > DEADLINE_S * NS_PER_S)
		give_up(lane);
	else if (!is_first && !lane->building && now_ns - lane->sent_ns > IDLE_S * NS_PER_S)
		helper_drop(&lane->helper);
}

void table_builds_tick(struct manager *manager, uint64_t now_ns)
{
	for (int i = 0; i < BUILD_LANES && manager->builds.started; i++)
		lane_tick(&manager->builds.lanes[i], now_ns);
	builds_run(manager);
}

void table_builds_again(struct manager *manager, uint64_t now_ns)
{
	for (struct module *m = manager->modules.all; m; m = m->next) {
		if (m->state != MODULE_REFUSED || m->fd < 0 ||
		    now_ns < m->refused_ns + LIMIT_REFUSED_RETRY_MS * NS_PER_MS)
			continue;
		m->refused_ns = now_ns;
		if (share_allows(m->share, SHARED_SLABS, m->bytes_needed,
				 slabs_room(&manager->slabs)))
			table_builds_add(manager, m);
	}
}

int table_builds_start(struct manager *manager)
{
	struct table_builds *builds = &manager->builds;

	for (int i = 0; i < BUILD_LANES; i++) {
		struct build_lane *lane = &builds->lanes[i];

		lane->manager = manager;
		helper_init(&lane->helper, &manager->role.loop, on_helper, lane);
	}
	int r = helper_start(&builds->lanes[0].helper, helper_name, helper_serve, NULL);
	builds->started = r == 0;
	builds_run(manager);
	return r;
}

void table_builds_stop(struct manager *manager)
{
	for (int i = 0; i < BUILD_LANES; i++)
		helper_stop(&manager->builds.lanes[i].helper);
}
