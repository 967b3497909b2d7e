/* SPDX-License-Identifier: Apache-2.0 */
/* Memory is handed out only if the CLI, the manager and the worker agree. The lanes are replaced:
 * what is given to them is not opened. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "role/handlers.h"
#include "symbolizer/opener/handlers.h"
#include "symbolizer/opener/opener.h"

static struct work_page work_page;
static struct opener opener = {.role.work_page = &work_page};
static struct opening asked; /* of the lane, the last time */
static unsigned int asks;
static struct msg_memory answer; /* to the worker, the last one */
static unsigned int answers, answered_fds;

int __wrap_lane_add(struct lane *lane, const struct opening *opening);
int __wrap_lane_add(struct lane *lane, const struct opening *opening)
{
	(void)lane;
	asked = *opening;
	asks++;
	return 0;
}

int __wrap_peer_send(struct peer *peer, enum message_type type, const void *payload, size_t length,
		     const int *fds, unsigned int fd_count);
int __wrap_peer_send(struct peer *peer, enum message_type type, const void *payload, size_t length,
		     const int *fds, unsigned int fd_count)
{
	(void)fds;
	if (type == MESSAGE_MEMORY) {
		cr_assert_eq(length, sizeof(answer));
		cr_expect_eq(peer, &opener.role.peers[ROLE_WORKER]);
		memcpy(&answer, payload, length);
		answered_fds = fd_count;
		answers++;
	}
	return 0;
}

static void call(enum message_type type, void *payload, unsigned int length)
{
	struct message message = {.type = type, .payload = payload, .length = length};

	cr_assert_eq(handlers_call(opener.role.handlers, opener.role.context, &message), 0);
}

static void configure(bool memory)
{
	struct msg_configure_opener config = {.allow_memory = memory};

	call(MESSAGE_CONFIGURE_OPENER, &config, sizeof(config));
}

static struct msg_open_memory of_42 = {.tgid = 42, .exec_generation = 7};

static void allow(void)
{
	struct msg_allow_memory allowed = {
	    .tgid = 42, .exec_generation = 7, .inode = 5, .container = 9};

	call(MESSAGE_ALLOW_MEMORY, &allowed, sizeof(allowed));
}

static void request(void)
{
	call(MESSAGE_OPEN_MEMORY, &of_42, sizeof(of_42));
}

/* The helper has opened what was asked for last. */
static void done(void)
{
	const struct opened opened = {.fd_count = 1, .fds = {9}};

	opener.owner.done(&opener, &asked, &opened);
}

static void setup(void)
{
	opener_set_handlers(&opener);
	cr_assert_eq(loop_init(&opener.role.loop), 0);
	cr_assert_eq(opener_start_lanes(&opener), 0);
}

static void teardown(void)
{
	for (int i = 0; i < LANE_COUNT; i++)
		lane_stop(&opener.lanes[i]);
	loop_fini(&opener.role.loop);
	memory_permits_fini(&opener.permits);
}

TestSuite(opener_memory, .init = setup, .fini = teardown);

Test(opener_memory, the_worker_gets_what_the_manager_has_allowed)
{
	configure(true);
	allow();
	request();
	cr_expect_eq(asks, 1);
	cr_expect_eq(asked.kind, OPENING_MEMORY);
	cr_expect_eq(asked.memory.inode, 5);
	cr_expect_eq(asked.container, 9);
	done();
	cr_expect_eq(answers, 1);
	cr_expect_eq(answer.error, 0);
	cr_expect_eq(answer.tgid, 42);
	cr_expect_eq(answered_fds, 1);
}

/* Without it, the opener would leave alone a user in all containers. */
Test(opener_memory, other_requests_have_the_container_too)
{
	struct msg_open_maps maps = {.container = 1};
	struct msg_open_file file = {.container = 2};
	struct msg_open_identity identity = {.container = 3};
	struct msg_open_jit_map jit_map = {.container = 4};
	struct msg_open_debug debug = {.place = MSG_DEBUG_OF_PROCESS, .container = 5};

	call(MESSAGE_OPEN_MAPS, &maps, sizeof(maps));
	cr_expect_eq(asked.container, 1);
	call(MESSAGE_OPEN_FILE, &file, sizeof(file));
	cr_expect_eq(asked.container, 2);
	call(MESSAGE_OPEN_IDENTITY, &identity, sizeof(identity));
	cr_expect_eq(asked.container, 3);
	call(MESSAGE_OPEN_JIT_MAP, &jit_map, sizeof(jit_map));
	cr_expect_eq(asked.container, 4);
	call(MESSAGE_OPEN_DEBUG, &debug, sizeof(debug));
	cr_expect_eq(asked.container, 5);
	debug.place = MSG_DEBUG_OF_HOST;
	call(MESSAGE_OPEN_DEBUG, &debug, sizeof(debug));
	cr_expect_eq(asked.container, 0, "it belongs to nobody");
}

Test(opener_memory, a_request_waits_for_the_permission)
{
	configure(true);
	request();
	cr_expect_eq(asks, 0);
	cr_expect_eq(answers, 0);
	allow();
	cr_expect_eq(asks, 1);
}

Test(opener_memory, nobody_gets_any_unless_the_cli_has_allowed_it)
{
	configure(false);
	allow();
	request();
	cr_expect_eq(asks, 0);
	cr_expect_eq(answers, 1);
	cr_expect_eq(answer.error, EPERM);
	cr_expect_eq(answered_fds, 0);
}

Test(opener_memory, a_permission_that_ends_while_the_memory_is_opened_counts)
{
	configure(true);
	allow();
	request();
	call(MESSAGE_FORBID_MEMORY, &of_42, sizeof(of_42));
	done();
	cr_expect_eq(answer.error, ESRCH);
	cr_expect_eq(answered_fds, 0);
}
