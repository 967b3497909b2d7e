/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this works: a role is started with more rights than it keeps, and gives them up in steps, so
 * that it never reads a byte of another process while it could still do harm.
 *
 * 1. role_start: close inherited descriptors, compile the system call filter (which needs memory
 *    and files), change to the role's own uid and keep only the capabilities of its policy.
 * 2. role_meet: listen on <run_dir>/<role>/sock, accept CONTROL, and connect to the peers that are
 *    there. A peer is recognised by its uid, which the kernel reports.
 * 3. role_receive: some roles need their configuration before the sandbox, because it contains
 *    descriptors to prepare or maps to load. It comes from CONTROL or the loader, which are
 *    trusted.
 * 4. role_enter_sandbox: Landlock and seccomp. From here on untrusted bytes may be read.
 * 5. role_watch_peers and loop_run: each message is checked against messages.def, with the state of
 *    this role (role->state), and is then given to its handler. Peers that come later connect to
 *    this role. When a peer ends without which the role has nothing to do, it ends, too.
 *
 * Example: the worker is killed and started again. The exporter, the loader, the manager and the
 * opener go on without it: their on_gone() returns true. The new worker is told that all of them
 * are there, and connects to them. Each accepts it, and on_connected() lets it tell the worker what
 * it needs.
 */
#include "role/role.h"

#include <errno.h>
#include <getopt.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/exit_status.h"
#include "common/log.h"
#include "common/time_units.h"
#include "role/role_private.h"

enum {
	/* Blocks of this size and above are mappings of their own (the C library's default). */
	ROLE_MMAP_THRESHOLD_BYTES = 128 << 10,
	/* While too many others wait for a role to accept them. */
	ROLE_RETRY_MS = 20,
	/* The least time between two messages about unexpected processes that connect: short enough
	 * to find such a process while it is at work. */
	ROLE_REFUSAL_LOG_S = 60
};

#define ROLE_SERVICE_RUN_DIR "/run/bulkhead"

static int role_parse_arguments(struct role *role, int argc, char **argv)
{
	static const struct option options[] = {
	    {"run-dir", required_argument, NULL, 'r'},
	    {"uids", required_argument, NULL, 'u'},
	    {"agent", no_argument, NULL, 'a'},
	    {"strict-memory", no_argument, NULL, 's'},
	    {"service", no_argument, NULL, 'S'},
	    {"config", required_argument, NULL, 'c'},
	    {"pin-directory", required_argument, NULL, 'p'},
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
		else if (c == 'S')
			role->agent = role->is_service = true;
		else if (c == 'c')
			role->config_file = optarg;
		else if (c == 'p')
			role->pin_directory = optarg;
		else
			return -EINVAL;
	}
	if (role->is_service && !role->run_dir)
		role->run_dir = ROLE_SERVICE_RUN_DIR;
	if (optind != argc || !role->run_dir || (!uids && !role->is_service))
		return -EINVAL;
	return uids ? peer_uids_parse(uids, &role->uids) : 0;
}

void role_tune_memory(void)
{
	/* Large blocks are short-lived (sections of files, rows of a table under construction). As
	 * mappings of their own they are returned to the kernel at once. Without a fixed threshold
	 * the C library would raise it with the first large block that is freed, and keep the later
	 * ones as gaps in its heap. */
	mallopt(M_MMAP_THRESHOLD, ROLE_MMAP_THRESHOLD_BYTES);
	mallopt(M_TRIM_THRESHOLD, ROLE_MMAP_THRESHOLD_BYTES);
	mallopt(M_ARENA_MAX, 1);
}

void role_log_loop_error(int error)
{
	log_error("cannot set up the main loop, so this role ends: error=%s", strerror(-error));
}

/* Ignores the signals that ask for an end. A terminal sends Ctrl-C to all processes, and a service
 * manager sends SIGTERM to all processes of a service. Only the CLI reacts; the roles end when it
 * tells them to, or when it ends. A service is asked itself: until it is connected, SIGTERM ends
 * it, and later it says so to the agent (role_service_handle_sigterm). */
static void role_ignore_signals(const struct role *role)
{
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	if (!role->is_service)
		signal(SIGTERM, SIG_IGN);
}

int role_start(struct role *role, enum role_id self, const struct sandbox_policy *policy, int argc,
	       char **argv)
{
	*role =
	    (struct role){.self = self, .policy = policy, .listener = -1, .service.notify_fd = -1};
	for (int i = 0; i < ROLE_COUNT; i++)
		role->peers[i].fd = -1;
	/* Descriptors that the parent left open are not for this role. Kernels before 5.9 do not
	 * have the call; there, only O_CLOEXEC in the CLI protects. */
	syscall(SYS_close_range, 3u, ~0u, 0u);
	prctl(PR_SET_NAME, policy->name);
	log_init(policy->name);
	role_tune_memory();
	if (role_parse_arguments(role, argc, argv) < 0) {
		log_error(
		    "this program is a part of Bulkhead and is started by `bulkhead record` or "
		    "`bulkhead run`; run one of these instead");
		return STATUS_USAGE;
	}
	role_ignore_signals(role);
	if (role->is_service) {
		const int status = role_service_start(&role->service, &role->uids, self);
		if (status)
			return status;
	}
	if (role->strict_memory && policy->strict)
		role->policy = policy = policy->strict;
	int r = sandbox_prepare(&role->sandbox, policy);
	if (r < 0) {
		log_error("cannot compile the system call filter, so this role ends: error=%s",
			  strerror(-r));
		return STATUS_FAILED;
	}
	r = sandbox_drop(policy, role->uids.uid[self], (gid_t)role->uids.uid[self]);
	if (r < 0) {
		log_error("cannot drop privileges: error=%s; run `bulkhead` as root", strerror(-r));
		return STATUS_NOT_PERMITTED;
	}
	r = loop_init(&role->loop);
	if (r < 0)
		role_log_loop_error(r);
	return r < 0 ? STATUS_FAILED : STATUS_DONE;
}

static void role_log_connect_error(enum role_id other, int error)
{
	const char *name = role_names[other].process;

	if (error == -EACCES)
		log_error("the socket of another role belongs to a process with an unexpected uid, "
			  "so this "
			  "role ends; check who can write to the run directory: role=%s",
			  name);
	else
		log_error("cannot connect to another role, so this role ends; see the messages of "
			  "that role: role=%s error=%s",
			  name, strerror(-error));
}

/* Connects to those peers that are there, and so listen. One that has just ended is left out,
 * unless this role ends with it. Its successor is not waited for: it connects to this role, and a
 * second connection ends the first. */
static int role_connect_all(struct role *role)
{
	const uint32_t peers = role->here & role->policy->peers;

	for (int other = ROLE_CONTROL + 1; other < ROLE_COUNT; other++) {
		uint64_t waited_ms = 0;
		int r = 0;

		if (!(peers & ROLE_BIT(other)))
			continue;
		/* Any process may connect to a role, so others may be waiting. */
		while ((r = peer_connect(&role->peers[other], role->run_dir, role->self,
					 (enum role_id)other, &role->uids, 0)) == -EAGAIN &&
		       (waited_ms += ROLE_RETRY_MS) < LIMIT_CONNECT_MS)
			nanosleep(&(struct timespec){.tv_nsec = ROLE_RETRY_MS * NS_PER_MS}, NULL);
		const bool goes_on = r == -ETIMEDOUT && !role_needs(role, (enum role_id)other);
		if (goes_on)
			log_info("another role has just ended; this role goes on without it: "
				 "role=%s",
				 role_names[other].process);
		else if (r < 0 && r != -EPIPE)
			role_log_connect_error((enum role_id)other, r);
		if (r < 0 && !goes_on)
			return r;
	}
	return 0;
}

/* Logs that an unexpected process has connected. Any process may do that at any rate, so further
 * ones are only logged after a pause. */
static void role_on_refused(void *context, uid_t uid)
{
	struct role *role = context;
	const uint64_t now_ns = clock_monotonic_ns();

	if (role->refusal_logged_ns &&
	    now_ns - role->refusal_logged_ns < ROLE_REFUSAL_LOG_S * NS_PER_S)
		return;
	role->refusal_logged_ns = now_ns;
	log_warning("refused a connection from a process that is not an expected role; profiling "
		    "is not affected: uid=%u",
		    (unsigned int)uid);
}

struct peer_listener role_listener(struct role *role)
{
	return (struct peer_listener){.fd = role->listener,
				      .self = role->self,
				      .uids = &role->uids,
				      .on_refused = role_on_refused,
				      .context = role};
}

/* Accepts CONTROL; a service waits for it without a limit. */
static int role_accept_control(struct role *role)
{
	const struct peer_listener listener = role_listener(role);
	bool logged = false;

	for (;;) {
		int r = peer_accept_all(&listener, ROLE_BIT(ROLE_CONTROL), role->peers,
					LIMIT_CONNECT_MS);

		if (r != -ETIMEDOUT || !role->is_service)
			return r;
		if (!logged)
			role_service_log_waiting(&role->service, ROLE_CONTROL, "to connect");
		logged = true;
	}
}

void role_log_accept_error(int error)
{
	if (error == -ETIMEDOUT)
		log_error("timed out after %d s waiting for %s to connect: it failed to start (see "
			  "its messages), or this machine is too busy (try again)",
			  LIMIT_CONNECT_MS / 1000, role_names[ROLE_CONTROL].process);
	else
		log_error(
		    "cannot accept the connections of other roles, so this role ends: error=%s",
		    strerror(-error));
}

int role_meet(struct role *role)
{
	role->listener = peer_listen(role->run_dir, role->self);
	if (role->listener < 0) {
		log_error("cannot create the socket of this role in the run directory, so the role "
			  "ends: dir=%s error=%s",
			  role->run_dir, strerror(-role->listener));
		return STATUS_FAILED;
	}
	int r = role_accept_control(role);
	if (r < 0) {
		if (r != -EPIPE)
			role_log_accept_error(r);
		return STATUS_FAILED;
	}
	const int status = role_receive(role, ROLE_CONTROL);
	if (status)
		return status;
	return role_connect_all(role) < 0 ? STATUS_FAILED : STATUS_DONE;
}

void role_log_failure(enum role_id other, const struct message *message, int r)
{
	const char *name = role_names[other].process;

	if (!message)
		log_error("cannot send a message; closed the connection to the role that should "
			  "receive it; raise net.core.wmem_max: role=%s error=%s",
			  name, strerror(-r));
	else if (r == -EPROTO)
		log_error("another role sent a message that the protocol does not allow; closed "
			  "the connection to it: role=%s message=%s: %s",
			  name, message_name(message->type),
			  message_verdict_texts[message->verdict]);
	else
		log_error("cannot handle a message; closed the connection to the role that sent "
			  "it: role=%s message=%s error=%s",
			  name, message_name(message->type), strerror(-r));
}

/* --- messages that all roles handle --- */

static int role_on_work_page(void *context, const struct msg_work_page *page,
			     struct message *message)
{
	struct role *role = context;

	if (page->bytes < sizeof(*role->work_page))
		return -EPROTO;
	return work_page_map(message->fds[0], &role->work_page);
}

static int role_on_meet(void *context, const struct msg_meet *meet)
{
	struct role *role = context;

	role->here = meet->roles;
	role->again = meet->again;
	return 0;
}

static int role_on_given_up(void *context)
{
	struct role *role = context;

	log_error("another role closed the connection because of what this role has sent, so "
		  "this role ends; see the messages of the other one");
	loop_stop(&role->loop, STATUS_FAILED);
	return 0;
}

static int role_on_ping(void *context)
{
	struct role *role = context;

	/* The answer proves that this loop runs. If it cannot be sent, CONTROL asks again. */
	role_service_alive(&role->service, role->state >= ROLE_READY);
	peer_send(&role->peers[ROLE_CONTROL], MESSAGE_PONG, NULL, 0, NULL, 0);
	return 0;
}

static int role_common_handlers(void *context, struct message *message)
{
	switch (message->type) {
	case MESSAGE_MEET:
		return handler_call_MEET(role_on_meet, context, message);
	case MESSAGE_WORK_PAGE:
		return handler_call_WORK_PAGE(role_on_work_page, context, message);
	case MESSAGE_GIVEN_UP:
		return handler_call_GIVEN_UP(role_on_given_up, context, message);
	case MESSAGE_GIVEN_UP_BY_LOADER:
		return handler_call_GIVEN_UP_BY_LOADER(role_on_given_up, context, message);
	default:
		return handler_call_PING(role_on_ping, context, message);
	}
}

int role_handle(struct role *role, struct message *message)
{
	if (MESSAGE_IS_COMMON(message->type))
		return handlers_call(role_common_handlers, role, message);
	return handlers_call(role->handlers, role->context, message);
}

/* --- connections --- */

int role_receive(struct role *role, enum role_id other)
{
	/* It is static because it is too large for the stack. It is erased because it may hold a
	 * secret, such as the token in the headers of a request. */
	static struct message_buffer buffer;
	struct message message;
	bool logged = false;
	int r;

	for (;;) {
		r = peer_receive_wait(&role->peers[other], role->state, &buffer, &message,
				      LIMIT_CONNECT_MS);
		if (r != -ETIMEDOUT || !role->is_service)
			break;
		if (!logged)
			role_service_log_waiting(&role->service, other,
						 other == ROLE_CONTROL
						     ? "to say that all roles are there"
						     : "to send its maps");
		logged = true;
	}
	if (r > 0)
		r = role_handle(role, &message);
	explicit_bzero(&buffer, sizeof(buffer));
	if (r == -ETIMEDOUT)
		log_error("timed out after %d s waiting for the configuration, so this role ends; "
			  "the machine may be overloaded: role=%s",
			  LIMIT_CONNECT_MS / 1000, role_names[other].process);
	else if (r < 0 && r != -EPIPE)
		role_log_failure(other, &message, r);
	return r < 0 ? STATUS_FAILED : STATUS_DONE;
}

int role_use_policy(struct role *role, const struct sandbox_policy *policy)
{
	sandbox_free(&role->sandbox);
	role->policy = policy;
	return sandbox_prepare(&role->sandbox, policy);
}

int role_enter_sandbox(struct role *role)
{
	if (role->is_service)
		role_service_handle_sigterm(&role->service, &role->loop,
					    &role->peers[ROLE_CONTROL]);
	int r = sandbox_enter(&role->sandbox, role->policy);

	if (r < 0) {
		log_error("cannot enter the sandbox, so this role ends: error=%s", strerror(-r));
		return STATUS_NOT_PERMITTED;
	}
	work_page_take_over(role->work_page);
	return STATUS_DONE;
}

void role_send_status(struct role *role, const struct msg_status *status)
{
	struct msg_status sent = *status;

	sent.state = role->state;
	role_service_alive(&role->service, role->state >= ROLE_READY);
	peer_send(&role->peers[ROLE_CONTROL], MESSAGE_STATUS, &sent, sizeof(sent), NULL, 0);
}
