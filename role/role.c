/* SPDX-License-Identifier: Apache-2.0 */
#include "role/role.h"

#include <errno.h>
#include <getopt.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/exit_status.h"
#include "common/log.h"

/* Messages of one peer handled before another gets its turn. */
enum {
	ROLE_MESSAGES_A_TURN = 256,
	ROLE_MMAP_THRESHOLD = 128 << 10
};

struct role_watch {
	struct role *role;
	enum role_id other;
	role_message_fn fn;
	void *context;
	struct message_buffer *buffer;
};

/* One set of watches a process; freed by its exit. */
struct role_watches {
	struct role_watch by_role[ROLE_COUNT];
	struct message_buffer buffer;
};

static int role_parse_arguments(struct role *role, int argc, char **argv)
{
	static const struct option options[] = {
	    {"run-dir", required_argument, NULL, 'r'},
	    {"uids", required_argument, NULL, 'u'},
	    {"agent", no_argument, NULL, 'a'},
	    {"strict-memory", no_argument, NULL, 's'},
	    {NULL, 0, NULL, 0},
	};
	const char *uids = NULL;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'r')
			role->run_dir = optarg;
		else if (c == 'u')
			uids = optarg;
		else if (c == 'a')
			role->agent = true;
		else if (c == 's')
			role->strict_memory = true;
		else
			return -EINVAL;
	}
	if (optind != argc || !role->run_dir || !uids)
		return -EINVAL;
	return peer_uids_parse(uids, &role->uids);
}

void role_tune_memory(void)
{
	/* Large blocks come and go (sections of files, rows of a draft): each a mapping of its own,
	 * given back at once. Left to itself the C library raises this threshold with the first one
	 * freed, and the heap keeps the holes. */
	mallopt(M_MMAP_THRESHOLD, ROLE_MMAP_THRESHOLD);
	mallopt(M_TRIM_THRESHOLD, ROLE_MMAP_THRESHOLD);
	mallopt(M_ARENA_MAX, 1);
}

int role_start(struct role *role, enum role_id self, const struct sandbox_policy *policy, int argc,
	       char **argv)
{
	*role = (struct role){.self = self, .policy = policy, .listener = -1};
	for (int i = 0; i < ROLE_COUNT; i++)
		role->peers[i].fd = -1;
	/* Whatever the parent left open is not ours. Kernels before 5.9 do not know the call; the
	 * CLI opens all with O_CLOEXEC. */
	syscall(SYS_close_range, 3u, ~0u, 0u);
	prctl(PR_SET_NAME, policy->name);
	log_init(policy->name);
	role_tune_memory();
	/* The terminal's Ctrl-C, and what a service manager sends to all processes of a service, is
	 * for the CLI; it tells the roles, which end with it in any case. */
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	if (role_parse_arguments(role, argc, argv) < 0) {
		log_error("this program is started by `bulkhead`: --run-dir DIR --uids LIST");
		return STATUS_USAGE;
	}
	if (role->strict_memory && policy->strict)
		role->policy = policy = policy->strict;
	int r = sandbox_prepare(&role->sandbox, policy);
	if (r < 0) {
		log_error("cannot compile the system call filter: %s", strerror(-r));
		return STATUS_FAILED;
	}
	r = sandbox_drop(policy, role->uids.uid[self], (gid_t)role->uids.uid[self]);
	if (r < 0) {
		log_error("cannot drop privileges: %s", strerror(-r));
		return STATUS_NOT_PERMITTED;
	}
	r = loop_init(&role->loop);
	return r < 0 ? STATUS_FAILED : STATUS_DONE;
}

int role_meet(struct role *role, uint32_t connect, uint32_t accept)
{
	int listener = peer_listen(role->run_dir, role->self);

	if (listener < 0) {
		log_error("cannot listen: dir=%s error=%s", role->run_dir, strerror(-listener));
		return STATUS_FAILED;
	}
	int r = 0;
	for (int other = 0; other < ROLE_COUNT && !r; other++) {
		if (!(connect & ROLE_BIT(other)))
			continue;
		r = peer_connect(&role->peers[other], role->run_dir, role->self,
				 (enum role_id)other, &role->uids, LIMIT_CONNECT_MS);
		if (r < 0 && r != -EPIPE)
			log_error("cannot reach a peer: role=%s error=%s",
				  role_names[other].process, strerror(-r));
	}
	if (!r) {
		r = peer_accept_all(listener, role->self, accept, &role->uids, role->peers,
				    LIMIT_CONNECT_MS);
		if (r < 0 && r != -EPIPE)
			log_error("a peer did not come: error=%s", strerror(-r));
	}
	if (role->agent && (accept & ROLE_BIT(ROLE_EXPORTER)))
		role->listener = listener;
	else
		close(listener);
	return r < 0 ? STATUS_FAILED : STATUS_DONE;
}

int role_enter_sandbox(struct role *role)
{
	int r = sandbox_enter(&role->sandbox, role->policy);

	if (r < 0) {
		log_error("cannot enter the sandbox: %s", strerror(-r));
		return STATUS_NOT_PERMITTED;
	}
	return STATUS_DONE;
}

/* Why a peer is heard no more: `r` of peer_receive or of the handler. */
static void role_give_up(struct role_watch *watch, int r)
{
	struct role *role = watch->role;
	const char *name = role_names[watch->other].process;

	if (r == -EPROTO)
		log_error("a peer broke the protocol: role=%s", name);
	else if (r != -EPIPE)
		log_error("giving up: peer=%s error=%s", name, strerror(-r));
	peer_close(&role->peers[watch->other]);
	if (role->on_gone && role->on_gone(watch->context, watch->other))
		return;
	loop_stop(&role->loop, r == -EPIPE ? STATUS_DONE : STATUS_FAILED);
}

static void role_on_peer(void *context, uint32_t events)
{
	struct role_watch *watch = context;
	struct peer *peer = &watch->role->peers[watch->other];

	if (events & EPOLLOUT)
		peer_flush(peer);
	for (int i = 0; i < ROLE_MESSAGES_A_TURN; i++) {
		struct message message;
		int r = peer_receive(peer, watch->buffer, &message);

		if (r == 0)
			return;
		if (r > 0 && message.type == MESSAGE_PING) {
			peer_send(peer, MESSAGE_PONG, NULL, 0, NULL, 0);
			continue;
		}
		if (r > 0)
			r = watch->fn(watch->context, watch->other, &message);
		if (r < 0) {
			role_give_up(watch, r);
			return;
		}
	}
}

static int role_watch_peer(struct role_watch *watch)
{
	return peer_watch(&watch->role->peers[watch->other], &watch->role->loop, role_on_peer,
			  watch);
}

static void role_on_knock(void *context, uint32_t events)
{
	struct role_watch *watch = context;
	struct role *role = watch->role;

	(void)events;
	/* The one that it follows may have ended without our having looked. */
	if (role->peers[watch->other].fd >= 0)
		role_on_peer(watch, EPOLLIN);
	if (peer_accept_one(role->listener, role->self, ROLE_BIT(watch->other), &role->uids,
			    role->peers) <= 0)
		return;
	if (role_watch_peer(watch) < 0) {
		peer_close(&role->peers[watch->other]);
		return;
	}
	if (role->on_return)
		role->on_return(watch->context, watch->other);
}

int role_watch_peers(struct role *role, role_message_fn fn, void *context)
{
	struct role_watches *watches = calloc(1, sizeof(*watches));
	int r = 0;

	if (!watches)
		return -ENOMEM;
	for (int other = 0; other < ROLE_COUNT; other++)
		watches->by_role[other] = (struct role_watch){.role = role,
							      .other = (enum role_id)other,
							      .fn = fn,
							      .context = context,
							      .buffer = &watches->buffer};
	for (int other = 0; other < ROLE_COUNT && !r; other++) {
		if (role->peers[other].fd >= 0)
			r = role_watch_peer(&watches->by_role[other]);
	}
	if (!r && role->listener >= 0)
		r = loop_add(&role->loop, role->listener, EPOLLIN, role_on_knock,
			     &watches->by_role[ROLE_EXPORTER]);
	return r;
}

void role_send_status(struct role *role, const struct msg_status *status)
{
	peer_send(&role->peers[ROLE_CLI], MESSAGE_STATUS, status, sizeof(*status), NULL, 0);
}
