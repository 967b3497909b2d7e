/* SPDX-License-Identifier: Apache-2.0 */
/* The connections of a role in its main loop: see role.c, step 5. */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "common/clock.h"
#include "common/exit_status.h"
#include "common/time_units.h"
#include "role/role_private.h"

enum {
	/* Messages of one peer that are handled before the other peers get their turn, and the time
	 * after which no further one is: a flood from one must not delay the others. */
	ROLE_MESSAGES_PER_TURN = 256,
	ROLE_TURN_MS = 10,
	/* How often the messages of a peer are handled before it is replaced by its successor: more
	 * than a socket has room for. */
	ROLE_LAST_TURNS = 64,
};

struct role_watch {
	struct role *role;
	enum role_id other;
	struct message_buffer *buffer;
};

/* The watches of all peers. A process has one set, which its exit frees. */
struct role_watches {
	struct role *role;
	struct role_watch by_role[ROLE_COUNT];
	struct message_buffer buffer;
};

/* Ends the connection to a peer because of `r` (see role_log_failure), and the role with it unless
 * it can continue. */
static void role_give_up(struct role_watch *watch, const struct message *message, int r)
{
	struct role *role = watch->role;

	if (r != -EPIPE) {
		role_log_failure(watch->other, message, r);
		/* Only the worker and the loader may send it. */
		peer_send(&role->peers[watch->other],
			  role->self == ROLE_LOADER ? MESSAGE_GIVEN_UP_BY_LOADER : MESSAGE_GIVEN_UP,
			  NULL, 0, NULL, 0);
	}
	peer_close(&role->peers[watch->other]);
	if (!role_needs(role, watch->other) && role->on_gone &&
	    role->on_gone(role->context, watch->other, r == -EPIPE))
		return;
	loop_stop(&role->loop, r == -EPIPE ? STATUS_DONE : STATUS_FAILED);
}

/* `events` of a peer whose connection ends are 0: the time is not limited. */
static void role_on_peer(void *context, uint32_t events)
{
	const uint64_t until_ns = clock_monotonic_ns() + ROLE_TURN_MS * NS_PER_MS;
	struct role_watch *watch = context;
	struct role *role = watch->role;
	struct peer *peer = &role->peers[watch->other];

	if ((events & EPOLLOUT) && peer_flush(peer) == -EMSGSIZE) {
		role_give_up(watch, NULL, -EMSGSIZE);
		return;
	}
	for (int i = 0; i < ROLE_MESSAGES_PER_TURN; i++) {
		struct message message;
		int r = peer_receive(peer, role->state, watch->buffer, &message);

		if (r == 0)
			return;
		if (r > 0)
			r = role_handle(role, &message);
		if (r >= 0 && role->after_message && !MESSAGE_IS_COMMON(message.type))
			role->after_message(role->context);
		if (r < 0) {
			role_give_up(watch, &message, r);
			return;
		}
		if (events && clock_monotonic_ns() >= until_ns)
			return;
	}
}

static int role_watch_peer(struct role_watch *watch)
{
	return peer_watch(&watch->role->peers[watch->other], &watch->role->loop, role_on_peer,
			  watch);
}

static void role_tell_connected(const struct role *role, enum role_id other)
{
	if (other != ROLE_CONTROL && role->on_connected)
		role->on_connected(role->context, other);
}

/* Ends the connection to a peer that has been started again. What the old process has sent comes
 * first. It may still be there, if it waits for a file system that does not answer. */
static void role_end_predecessor(struct role_watch *watch)
{
	struct peer *peer = &watch->role->peers[watch->other];

	for (int i = 0; i < ROLE_LAST_TURNS && peer->fd >= 0 && !watch->role->loop.stopped; i++)
		role_on_peer(watch, 0);
	if (peer->fd >= 0)
		role_give_up(watch, NULL, -EPIPE);
}

static void role_on_accepted(struct role_watches *watches, struct peer *accepted)
{
	struct role_watch *watch = &watches->by_role[accepted->other];
	struct role *role = watch->role;
	struct peer *peer = &role->peers[watch->other];

	if (peer->fd >= 0)
		role_end_predecessor(watch);
	if (role->loop.stopped) {
		peer_close(accepted);
		return;
	}
	*peer = *accepted;
	if (role_watch_peer(watch) < 0)
		peer_close(peer);
	else
		role_tell_connected(role, watch->other);
}

/* Accepts a peer that comes later than this role. */
static void role_on_connection(void *context, uint32_t events)
{
	struct role_watches *watches = context;
	struct role *role = watches->role;
	const struct peer_listener listener = role_listener(role);
	struct peer accepted;

	(void)events;
	int r =
	    peer_accept_one(&listener, role->policy->peers & ~ROLE_BIT(ROLE_CONTROL), &accepted);
	if (r < 0) {
		/* The connection still waits, so the loop would call this function again and again.
		 * The role has probably leaked descriptors: restarted, it can accept. */
		role_log_accept_error(r);
		loop_stop(&role->loop, STATUS_FAILED);
	} else if (r > 0) {
		role_on_accepted(watches, &accepted);
	}
}

static int role_watch_all(struct role *role)
{
	struct role_watches *watches = calloc(1, sizeof(*watches));
	int r = 0;

	if (!watches)
		return -ENOMEM;
	watches->role = role;
	for (int other = 0; other < ROLE_COUNT; other++)
		watches->by_role[other] = (struct role_watch){
		    .role = role, .other = (enum role_id)other, .buffer = &watches->buffer};
	for (int other = 0; other < ROLE_COUNT && !r; other++) {
		if (role->peers[other].fd < 0)
			continue;
		r = role_watch_peer(&watches->by_role[other]);
		if (!r)
			role_tell_connected(role, (enum role_id)other);
	}
	return r ? r : loop_add(&role->loop, role->listener, EPOLLIN, role_on_connection, watches);
}

int role_watch_peers(struct role *role)
{
	int r = role_watch_all(role);

	if (r < 0)
		role_log_loop_error(r);
	return r;
}
