/* SPDX-License-Identifier: Apache-2.0 */
#include "control/supervisor.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control/signals.h"
#include "common/clock.h"
#include "common/exit_status.h"
#include "common/log.h"
#include "common/time_units.h"

enum {
	TICK_MS = 1000,
	CONNECT_POLL_MS = 10, /* while a role that is restarted alone comes up */
	/* Within this time a role that is restarted alone must listen, which is the first that it
	 * does: less than at a start, where five programs are executed and one is verified. */
	RESTARTED_CONNECT_MS = 20000,
	/* A loader that loads its programs under an emulated CPU takes about 20 s. */
	READY_TIMEOUT_MS = 60000,
	/* Ends of a role in a row before it was ready, after which all are started again. */
	VAIN_STARTS_MAX = 3,
	SERVICE_POLL_MS = 100, /* while a role that is a service has not been started */
};

static void set_phase(struct supervisor *s, enum supervisor_phase phase)
{
	static const enum role_state states[] = {
	    [SUPERVISOR_STARTING] = ROLE_STARTING, [SUPERVISOR_RUNNING] = ROLE_SAMPLING,
	    [SUPERVISOR_WAITING] = ROLE_STARTING,  [SUPERVISOR_STOPPING] = ROLE_STOPPING,
	    [SUPERVISOR_DRAINING] = ROLE_STOPPING, [SUPERVISOR_DONE] = ROLE_DONE,
	};

	s->phase = phase;
	s->state = states[phase];
	s->phase_since_ns = clock_monotonic_ns();
	s->waiting_logged = false;
	s->leave_due_ns = 0;
}

static bool is_finishing(const struct supervisor *s)
{
	return s->phase == SUPERVISOR_STOPPING || s->phase == SUPERVISOR_DRAINING;
}

void supervisor_send(struct supervisor *s, enum role_id role, enum message_type type)
{
	peer_send(&s->roles.peers[role], type, NULL, 0, NULL, 0);
}

/* --- starting --- */

static void on_peer(void *context, uint32_t events);

static int watch_role(struct supervisor *s, enum role_id role)
{
	s->watches[role] = (struct supervisor_watch){s, role};
	s->role[role].ready = s->role[role].met = s->role[role].told_to_stop = false;
	return peer_watch(&s->roles.peers[role], &s->loop, on_peer, &s->watches[role]);
}

int supervisor_start(struct supervisor *s)
{
	const uint64_t now = clock_monotonic_ns();

	backoff_start(&s->group, now);
	for (int role = 0; role < ROLE_COUNT; role++) {
		backoff_start(&s->role[role].backoff, now);
		s->role[role].vain_starts = 0;
		s->role[role].connecting = s->role[role].again = false;
	}
	s->roles.pin_directory = s->policy->pin_directory;
	int status =
	    roles_prepare(&s->roles, s->policy->run_directory != NULL, s->policy->strict_memory);
	if (!status && s->policy->before_start)
		s->policy->before_start(s->context, ROLE_COUNT);
	if (!status)
		status = roles_start(&s->roles, s->policy->run_directory);
	for (int role = ROLE_CONTROL + 1; role < ROLE_COUNT && !status; role++) {
		s->role[role].ready = s->role[role].met = false;
		s->role[role].connecting = s->roles.peers[role].fd < 0;
		if (!s->role[role].connecting && watch_role(s, (enum role_id)role) < 0)
			status = STATUS_FAILED;
	}
	if (!status && supervisor_configure_all(s) < 0)
		status = STATUS_FAILED;
	if (!status)
		set_phase(s, SUPERVISOR_STARTING);
	return status;
}

static void restart_one(struct supervisor *s, enum role_id role)
{
	struct supervised_role *state = &s->role[role];

	if (s->policy->before_start)
		s->policy->before_start(s->context, role);
	backoff_start(&state->backoff, clock_monotonic_ns());
	state->restarts++;
	int r = roles_start_again(&s->roles, role);
	if (r < 0) {
		log_error("cannot start a role again; it is tried again later: role=%s error=%s",
			  role_names[role].process, strerror(-r));
		backoff_end(&state->backoff, clock_monotonic_ns(), false);
		return;
	}
	state->connecting = state->again = true;
	loop_tick_within(&s->loop, CONNECT_POLL_MS);
}

/* Connects to a service. One that is not there, or that fails, is tried again, because somebody
 * else starts it. */
static void connect_service(struct supervisor *s, enum role_id role, uint64_t now)
{
	int r = roles_connect(&s->roles, role);

	if (!r) {
		s->role[role].connecting = false;
		backoff_start(&s->role[role].backoff, now);
		r = watch_role(s, role);
	}
	if (!r)
		r = s->phase == SUPERVISOR_STARTING ? supervisor_configure_all(s)
						    : supervisor_configure(s, role);
	if (r < 0 && r != -EAGAIN && r != s->role[role].connect_error)
		log_error("cannot connect to a role; it is tried again: role=%s error=%s",
			  role_names[role].process, strerror(-r));
	if (r != -EAGAIN)
		s->role[role].connect_error = r;
	if (r < 0)
		roles_kill(&s->roles, role);
	loop_tick_within(&s->loop, SERVICE_POLL_MS);
}

static void connect_child(struct supervisor *s, enum role_id role, uint64_t now)
{
	const uint64_t waited_ns = now - s->role[role].backoff.started_ns;
	int r = roles_connect(&s->roles, role);

	if (r == -EAGAIN && waited_ns < RESTARTED_CONNECT_MS * NS_PER_MS) {
		loop_tick_within(&s->loop, CONNECT_POLL_MS);
		return;
	}
	if (r == -EAGAIN)
		r = -ETIMEDOUT;
	s->role[role].connecting = false;
	if (!r)
		r = watch_role(s, role);
	if (!r)
		r = supervisor_configure(s, role);
	if (r < 0)
		log_error("cannot connect to a role that was restarted; it will be killed and "
			  "restarted: role=%s error=%s",
			  role_names[role].process, strerror(-r));
	if (r < 0)
		roles_kill(&s->roles, role);
}

/* --- ends of roles --- */

static void restart_all(struct supervisor *s)
{
	for (int role = ROLE_CONTROL + 1; role < ROLE_COUNT; role++)
		s->role[role].restarts++;
	roles_stop(&s->roles);
	backoff_end(&s->group, clock_monotonic_ns(), s->phase == SUPERVISOR_RUNNING);
	if (s->policy->on_restart_all)
		s->policy->on_restart_all(s->context);
	if (is_finishing(s))
		loop_stop(&s->loop, STATUS_EXPORT);
	else
		set_phase(s, SUPERVISOR_WAITING);
	loop_tick_within(&s->loop, 0);
}

static void log_end(enum role_id role, int wait_status, const char *consequence)
{
	if (WIFSIGNALED(wait_status))
		log_error("a role was killed; %s: role=%s signal=%d", consequence,
			  role_names[role].process, WTERMSIG(wait_status));
	else
		log_error("a role ended unexpectedly; %s: role=%s status=%d", consequence,
			  role_names[role].process, WEXITSTATUS(wait_status));
}

/* Ends everything after a role has ended. A role that fails while it starts logs the reason itself,
 * unless it was killed. */
static void end_all(struct supervisor *s)
{
	const bool starting = s->phase == SUPERVISOR_STARTING;
	enum role_id first;
	const int status = roles_find_first_failure(&s->roles, &first);

	if (first < ROLE_COUNT) {
		const int wait_status = s->roles.processes[first].wait_status;

		if (!starting || WIFSIGNALED(wait_status))
			log_end(first, wait_status, "the recording is given up");
	} else if (!starting) {
		log_error("a role ended too early with exit status 0; the recording is given up");
	}
	loop_stop(&s->loop, status);
}

static void on_end_restart_all(struct supervisor *s, enum role_id ended)
{
	enum role_id first;

	roles_find_first_failure(&s->roles, &first);
	if (first < ROLE_COUNT)
		log_end(first, s->roles.processes[first].wait_status, "all roles are restarted");
	else if (roles_are_services())
		log_error("the connection to a role ended; all roles start again: role=%s",
			  role_names[ended].process);
	restart_all(s);
}

/* Closes the connection to a role that has ended, or is to end. */
static void disconnect(struct supervisor *s, enum role_id role)
{
	struct peer *peer = &s->roles.peers[role];

	/* Opener and worker lose the manager at the same time, and end. Its successor must not look
	 * for them, and find theirs, which look for it. */
	if (role == ROLE_MANAGER && peer->fd >= 0)
		s->role[ROLE_OPENER].met = s->role[ROLE_WORKER].met = false;
	peer_close(peer);
}

static void on_end_restart_one(struct supervisor *s, enum role_id role)
{
	struct supervised_role *state = &s->role[role];
	const int wait_status = s->roles.processes[role].wait_status;

	if (roles_are_services())
		log_info("the connection to a role ended; it is connected again when it has been "
			 "started: role=%s",
			 role_names[role].process);
	else if (WIFEXITED(wait_status) && !WEXITSTATUS(wait_status))
		log_info("a role is restarted at its own request: role=%s",
			 role_names[role].process);
	else
		log_end(role, wait_status, "it is restarted");
	/* heard_ns shows whether this process of the role was configured before it was killed. */
	if (state->ready)
		state->failed_starts = 0;
	else if ((WIFSIGNALED(wait_status) || roles_are_services()) &&
		 state->heard_ns >= state->backoff.started_ns)
		state->failed_starts++;
	state->vain_starts = state->ready ? 0 : state->vain_starts + 1;
	backoff_end(&state->backoff, clock_monotonic_ns(), state->ready);
	state->ready = state->met = state->connecting = false;
	disconnect(s, role);
	loop_tick_within(&s->loop, 0);
}

/* Returns whether another start would only repeat the failure: wrong usage, the kernel, or
 * permissions. */
static bool is_final(const struct supervisor *s, int wait_status)
{
	return !s->was_running && WIFEXITED(wait_status) &&
	       WEXITSTATUS(wait_status) >= STATUS_USAGE &&
	       WEXITSTATUS(wait_status) <= STATUS_NOT_PERMITTED;
}

/* Returns whether a role can be started again with the uid by which the others know it. One that is
 * left alone has that uid still. So have helpers that hang, and count against the number of its
 * processes: then it does not become ready. An exporter that does not has other reasons. */
static bool may_return_alone(const struct supervisor *s, enum role_id role)
{
	return !s->roles.processes[role].left_alone &&
	       (role == ROLE_EXPORTER || s->role[role].vain_starts < VAIN_STARTS_MAX);
}

/* Returns whether all roles may be started again together, which is what the policy says of the
 * loader's end. */
static bool may_restart_all(const struct supervisor *s)
{
	return s->policy->on_end[ROLE_LOADER] != SUPERVISOR_END_ALL;
}

static void on_end_of(struct supervisor *s, enum role_id role)
{
	const int wait_status = s->roles.processes[role].wait_status;
	const enum supervisor_on_end action = s->policy->on_end[role];

	if (s->phase == SUPERVISOR_WAITING || s->phase == SUPERVISOR_DONE)
		return;
	/* Services that start after a restart of all may still meet old ones that are ending. */
	if (s->phase == SUPERVISOR_STARTING && roles_are_services()) {
		s->role[role].ready = s->role[role].met = false;
		s->role[role].connecting = true;
		return;
	}
	if (action == SUPERVISOR_RESTART_ONE && may_return_alone(s, role) &&
	    !is_final(s, wait_status))
		on_end_restart_one(s, role);
	else if (!may_restart_all(s))
		end_all(s);
	else if (is_final(s, wait_status))
		loop_stop(&s->loop, WEXITSTATUS(wait_status));
	else
		on_end_restart_all(s, role);
}

static void reap(struct supervisor *s)
{
	enum role_id role;

	while (!s->loop.stopped && (role = roles_reap(&s->roles)) != ROLE_COUNT)
		on_end_of(s, role);
}

/* --- messages --- */

bool supervisor_all_ready(const struct supervisor *s)
{
	for (int role = ROLE_CONTROL + 1; role < ROLE_COUNT; role++) {
		if (!s->role[role].ready)
			return false;
	}
	return true;
}

static void start_running(struct supervisor *s)
{
	set_phase(s, SUPERVISOR_RUNNING);
	for (int role = 0; role < ROLE_COUNT; role++)
		s->role[role].heard_ns = s->phase_since_ns;
	s->was_running = true;
	if (s->policy->on_ready)
		s->policy->on_ready(s->context);
	loop_tick_within(&s->loop, 0);
}

/* Tells a role to pass on what it still holds. One that is just being started is told when it is
 * ready. */
static void tell_to_stop(struct supervisor *s, enum role_id role)
{
	if (!s->role[role].ready || s->role[role].told_to_stop)
		return;
	s->role[role].told_to_stop = true;
	supervisor_send(s, role, MESSAGE_STOP);
}

static void on_status(struct supervisor *s, enum role_id from)
{
	const enum role_state state = (enum role_state)s->role[from].status.state;

	const bool returned = !s->role[from].ready && state >= ROLE_READY;

	s->role[from].ready |= returned;
	if (returned && s->phase == SUPERVISOR_RUNNING && s->policy->on_return)
		s->policy->on_return(s->context, from);
	if (s->phase == SUPERVISOR_STARTING && supervisor_all_ready(s))
		start_running(s);
	if (s->phase == SUPERVISOR_STOPPING && from == ROLE_LOADER && state == ROLE_STOPPED)
		set_phase(s, SUPERVISOR_DRAINING);
	if (s->phase == SUPERVISOR_STOPPING)
		tell_to_stop(s, ROLE_LOADER);
	if (s->phase == SUPERVISOR_DRAINING) {
		tell_to_stop(s, ROLE_MANAGER);
		tell_to_stop(s, ROLE_WORKER);
	}
	if (s->policy->on_status)
		s->policy->on_status(s->context, from);
	if (s->phase == SUPERVISOR_DRAINING && from == ROLE_EXPORTER && state == ROLE_DONE) {
		set_phase(s, SUPERVISOR_DONE);
		loop_stop(&s->loop, STATUS_DONE);
	}
}

int supervisor_on_status(void *context, const struct msg_status *status)
{
	struct supervisor_watch *watch = context;

	watch->supervisor->role[watch->role].status = *status;
	on_status(watch->supervisor, watch->role);
	return 0;
}

/* Does nothing: on_peer() has recorded the time, which is what PING asked for. */
int supervisor_on_pong(void *context)
{
	(void)context;
	return 0;
}

static void on_protocol_error(struct supervisor *s, enum role_id role,
			      const struct message *message)
{
	log_error("a role sent a message that the protocol does not allow, and is killed: role=%s "
		  "message=%s: %s",
		  role_names[role].process, message_name(message->type),
		  message_verdict_texts[message->verdict]);
	if (s->policy->on_end[role] == SUPERVISOR_END_ALL)
		loop_stop(&s->loop, STATUS_FAILED);
	else
		roles_kill(&s->roles, role);
}

static void on_peer(void *context, uint32_t events)
{
	struct supervisor_watch *watch = context;
	struct supervisor *s = watch->supervisor;
	struct peer *peer = &s->roles.peers[watch->role];
	struct message message;
	int got;

	if (events & EPOLLOUT)
		peer_flush(peer);
	while ((got = peer_receive(peer, s->state, &s->buffer, &message)) > 0) {
		s->role[watch->role].heard_ns = clock_monotonic_ns();
		got = handlers_call(s->policy->handlers, watch, &message);
		if (got < 0)
			break;
	}
	if (got == 0)
		return;
	if (got == -EPROTO)
		on_protocol_error(s, watch->role, &message);
	/* If the role has ended and is a child, SIGCHLD follows at once, and its wait status says
	 * more. */
	disconnect(s, watch->role);
	if (roles_are_services())
		reap(s);
}

/* --- time --- */

static void log_not_ready(const struct supervisor *s)
{
	for (int role = ROLE_CONTROL + 1; role < ROLE_COUNT; role++) {
		if (!s->role[role].ready)
			log_error("a role was not ready within %d s, so the start failed; the "
				  "machine may be overloaded: role=%s",
				  READY_TIMEOUT_MS / 1000, role_names[role].process);
	}
}

/* Kills a role that was restarted alone and is connected, but hangs before it is ready. */
static void check_restarted(struct supervisor *s, enum role_id role, uint64_t now)
{
	const struct supervised_role *state = &s->role[role];

	if (s->phase == SUPERVISOR_STARTING || state->ready || state->connecting ||
	    !s->roles.processes[role].pid || s->roles.processes[role].killed_ns ||
	    now - state->backoff.started_ns < READY_TIMEOUT_MS * NS_PER_MS)
		return;
	log_error("a role that was restarted was not ready within %d s; it is killed and "
		  "restarted: role=%s",
		  READY_TIMEOUT_MS / 1000, role_names[role].process);
	roles_kill(&s->roles, role);
}

static void check_phase(struct supervisor *s, uint64_t now)
{
	const uint64_t in_phase_ns = now - s->phase_since_ns;

	if (s->phase == SUPERVISOR_STARTING && roles_are_services()) {
		supervisor_log_waiting(s, now);
		return;
	}
	if (s->phase == SUPERVISOR_STARTING && in_phase_ns > READY_TIMEOUT_MS * 1000000ull) {
		log_not_ready(s);
		if (may_restart_all(s))
			restart_all(s);
		else
			loop_stop(&s->loop, STATUS_FAILED);
	}
	if (is_finishing(s) && in_phase_ns > s->policy->finish_timeout_ns) {
		log_error("the roles did not finish within %llu s; what they still held is lost",
			  (unsigned long long)(s->policy->finish_timeout_ns / 1000000000));
		loop_stop(&s->loop, STATUS_FAILED);
	}
}

static void tick_at(struct supervisor *s, uint64_t due_ns, uint64_t now)
{
	if (due_ns && due_ns < now + TICK_MS * 1000000ull)
		loop_tick_within(&s->loop, due_ns > now ? (int)((due_ns - now) / 1000000) + 1 : 0);
}

/* Starts and connects the roles for which that is due. */
static void check_restarts(struct supervisor *s, uint64_t now)
{
	if (s->phase == SUPERVISOR_WAITING) {
		if (now >= s->group.due_ns && supervisor_start(s))
			restart_all(s);
		tick_at(s, s->group.due_ns, now);
		return;
	}
	for (int role = ROLE_CONTROL + 1; role < ROLE_COUNT; role++) {
		struct supervised_role *state = &s->role[role];

		if (state->connecting && roles_are_services())
			connect_service(s, (enum role_id)role, now);
		else if (state->connecting)
			connect_child(s, (enum role_id)role, now);
		else if (state->backoff.due_ns && now >= state->backoff.due_ns)
			restart_one(s, (enum role_id)role);
		check_restarted(s, (enum role_id)role, now);
		tick_at(s, state->backoff.due_ns, now);
	}
}

static void on_tick(void *context, uint32_t events)
{
	struct supervisor *s = context;
	const uint64_t now = clock_monotonic_ns();

	(void)events;
	roles_collect_others(&s->roles);
	reap(s);
	if (s->loop.stopped)
		return;
	check_phase(s, now);
	if (supervisor_leave_due(s, now) && !is_finishing(s)) {
		roles_kill(&s->roles, s->leaving);
		reap(s);
	}
	supervisor_check_silence(s, now);
	check_restarts(s, now);
	if (s->policy->on_wake)
		s->policy->on_wake(s->context, now);
}

static void on_signal(void *context, uint32_t events)
{
	struct supervisor *s = context;
	struct signalfd_siginfo info;

	(void)events;
	while (read(s->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo != SIGCHLD)
			s->policy->on_signal(s->context);
	}
	reap(s);
	if (!s->loop.stopped && s->policy->on_wake)
		s->policy->on_wake(s->context, clock_monotonic_ns());
}

/* --- the whole --- */

void supervisor_clear(struct supervisor *s)
{
	s->signal_fd = -1;
	work_pages_clear(&s->work_pages);
	for (int role = 0; role < ROLE_COUNT; role++)
		s->roles.peers[role].fd = -1;
}

int supervisor_init(struct supervisor *s, const struct supervisor_policy *policy, void *context)
{
	s->policy = policy;
	s->context = context;
	s->signal_fd = signals_open();
	if (s->signal_fd < 0 || loop_init(&s->loop) < 0 ||
	    loop_add(&s->loop, s->signal_fd, EPOLLIN, on_signal, s) < 0) {
		log_error("cannot set up the main loop; nothing is sampled: error=%s",
			  strerror(errno));
		return STATUS_FAILED;
	}
	return STATUS_DONE;
}

int supervisor_run(struct supervisor *s)
{
	loop_set_tick(&s->loop, TICK_MS, on_tick, s);
	return loop_run(&s->loop);
}

void supervisor_begin_stop(struct supervisor *s)
{
	tell_to_stop(s, ROLE_LOADER);
	set_phase(s, SUPERVISOR_STOPPING);
	/* Only an exporter can end the drain: one that waits for its restart is started at once. */
	for (int role = 0; role < ROLE_COUNT; role++) {
		if (s->role[role].backoff.due_ns)
			s->role[role].backoff.due_ns = clock_monotonic_ns();
	}
	loop_tick_within(&s->loop, 0);
}

void supervisor_stop(struct supervisor *s)
{
	roles_stop(&s->roles);
}
