/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see stand_in.h. */
#include <errno.h>
#include <fcntl.h>
#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bpf/shared.h"
#include "common/clock.h"
#include "common/time_units.h"
#include "role/export_stats.h"
#include "role/work_page.h"
#include "tests/security/stand_in.h"

enum {
	/* Of the range that systemd leaves to services. Each session has uids of its own, because
	 * helpers of the last one may still be there, and count against the limit of processes. */
	FIRST_UID = 64001,
	UID_SETS = 150,
	POLL_MS = 2,
	LOG_BYTES = 64 << 10,
	FREQUENCY_HZ = 19,
	MEMORY_BYTES = 1 << 20,
	SOCKET_BYTES = 4 << 20
};

#define LOADER ROLE_BIT(ROLE_LOADER)
#define MANAGER ROLE_BIT(ROLE_MANAGER)
#define OPENER ROLE_BIT(ROLE_OPENER)
#define WORKER ROLE_BIT(ROLE_WORKER)
#define EXPORTER ROLE_BIT(ROLE_EXPORTER)

/* Whom each policy names as its peers. Only the manager needs one of them, the loader, before its
 * sandbox. The others connect to the receiver, which works for any MEET then. */
const struct receiver receivers[] = {
    {"loader", ROLE_LOADER, false, 0, MANAGER | WORKER | EXPORTER, WORKER | EXPORTER},
    {"manager", ROLE_MANAGER, false, LOADER, OPENER | WORKER, OPENER | WORKER},
    {"opener", ROLE_OPENER, false, 0, MANAGER | WORKER, 0},
    {"worker", ROLE_WORKER, false, 0, LOADER | OPENER | MANAGER | EXPORTER, OPENER | EXPORTER},
    {"exporter", ROLE_EXPORTER, false, 0, LOADER | WORKER, 0},
    /* These two are not the same in an agent. */
    {"agent's worker", ROLE_WORKER, true, 0, LOADER | OPENER | MANAGER | EXPORTER,
     OPENER | EXPORTER},
    {"agent's exporter", ROLE_EXPORTER, true, 0, LOADER | WORKER, 0},
};
const size_t receiver_count = sizeof(receivers) / sizeof(receivers[0]);

static char run_dir[64];
static const char *programs;
static int listeners[ROLE_COUNT];
static uid_t uids[ROLE_COUNT];
static int null_fd = -1;

static void fail(const char *what)
{
	perror(what);
	exit(EXIT_FAILURE);
}

/* Until the next call, peers see this uid. */
static void become(uid_t uid)
{
	if (seteuid(uid) < 0)
		fail("seteuid");
}

static struct sockaddr_un address_of(enum role_id role)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	snprintf(address.sun_path, sizeof(address.sun_path), "%s/%.15s/sock", run_dir,
		 role_names[role].directory);
	return address;
}

static void stand_in_listen(enum role_id role)
{
	const struct sockaddr_un address = address_of(role);

	unlink(address.sun_path);
	listeners[role] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (bind(listeners[role], (const struct sockaddr *)&address, sizeof(address)) < 0 ||
	    chmod(address.sun_path, 0777) < 0)
		fail("bind");
	become(uids[role]);
	if (listen(listeners[role], ROLE_COUNT) < 0)
		fail("listen");
	become(0);
}

void stand_in_init(const char *bin)
{
	char path[128];

	programs = bin;
	signal(SIGPIPE, SIG_IGN);
	null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	snprintf(run_dir, sizeof(run_dir), "/tmp/bulkhead-stand-in-XXXXXX");
	if (!mkdtemp(run_dir) || chmod(run_dir, 0711) < 0)
		fail("mkdtemp");
	for (int role = 0; role < ROLE_COUNT; role++) {
		listeners[role] = -1;
		snprintf(path, sizeof(path), "%s/%.15s", run_dir, role_names[role].directory);
		if (mkdir(path, 0711) < 0)
			fail("mkdir");
	}
}

void stand_in_fini(void)
{
	for (int role = 0; role < ROLE_COUNT; role++) {
		struct sockaddr_un address = address_of((enum role_id)role);

		unlink(address.sun_path);
		*strrchr(address.sun_path, '/') = 0;
		rmdir(address.sun_path);
	}
	rmdir(run_dir);
}

static void __attribute__((noreturn)) execute(const struct session *s)
{
	const struct receiver *r = s->receiver;
	char program[512], list[128] = "";
	char *const environment[] = {NULL};

	for (int role = 0; role < ROLE_COUNT; role++)
		snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%u", role ? "," : "",
			 (unsigned int)uids[role]);
	snprintf(program, sizeof(program), "%s/%s", programs,
		 r->agent ? role_names[r->role].agent_program : role_names[r->role].program);
	char *const arguments[] = {
	    program, "--run-dir", run_dir, "--uids", list, r->agent ? "--agent" : NULL, NULL};
	dup2(null_fd, STDIN_FILENO);
	dup2(null_fd, STDOUT_FILENO);
	dup2(s->log, STDERR_FILENO);
	execve(program, arguments, environment);
	_exit(127);
}

static bool has_ended(struct session *s)
{
	if (!s->ended)
		s->ended = waitpid(s->pid, &s->wait_status, WNOHANG) == s->pid;
	return s->ended;
}

static bool is_late(uint64_t since_ns)
{
	return clock_monotonic_ns() - since_ns > STAND_IN_SECONDS * NS_PER_S;
}

/* Connects to the receiver as a role. */
static bool connect_as(struct session *s, enum role_id role)
{
	const struct sockaddr_un address = address_of(s->receiver->role);
	const uint64_t since_ns = clock_monotonic_ns();
	const int bytes = SOCKET_BYTES;

	for (;;) {
		int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

		setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes));
		become(uids[role]);
		const int r = connect(fd, (const struct sockaddr *)&address, sizeof(address));
		become(0);
		if (r == 0) {
			s->peers[role] = fd;
			return true;
		}
		close(fd);
		if (has_ended(s) || is_late(since_ns))
			return false;
		poll(NULL, 0, POLL_MS);
	}
}

static bool accept_from(struct session *s, enum role_id role)
{
	const uint64_t since_ns = clock_monotonic_ns();

	while (s->peers[role] < 0) {
		s->peers[role] = accept4(listeners[role], NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (s->peers[role] >= 0)
			break;
		if (has_ended(s) || is_late(since_ns))
			return false;
		poll(&(struct pollfd){.fd = listeners[role], .events = POLLIN}, 1, POLL_MS);
	}
	return true;
}

/* Assigns the uids of a session. The directory of the receiver's socket belongs to it. */
static void next_uids(enum role_id receiver)
{
	static unsigned int set;
	struct sockaddr_un address = address_of(receiver);

	for (int role = ROLE_CONTROL + 1; role < ROLE_COUNT; role++)
		uids[role] = FIRST_UID + set * ROLE_COUNT + (uid_t)role;
	set = (set + 1) % UID_SETS;
	*strrchr(address.sun_path, '/') = 0;
	if (chown(address.sun_path, uids[receiver], (gid_t)uids[receiver]) < 0)
		fail("chown");
}

bool session_start_alone(struct session *s, const struct receiver *receiver,
			 struct loader_maps *maps)
{
	*s = (struct session){
	    .receiver = receiver, .maps = maps, .log = memfd_create("log", MFD_CLOEXEC)};
	for (int role = 0; role < ROLE_COUNT; role++)
		s->peers[role] = -1;
	unlink(address_of(receiver->role).sun_path);
	next_uids(receiver->role);
	for (int role = 0; role < ROLE_COUNT; role++) {
		if (receiver->connects & ROLE_BIT(role))
			stand_in_listen((enum role_id)role);
	}
	s->pid = fork();
	if (s->pid == 0)
		execute(s);
	return connect_as(s, ROLE_CONTROL);
}

bool session_connect_peers(struct session *s)
{
	for (int role = 0; role < ROLE_COUNT; role++) {
		if (s->receiver->connects & ROLE_BIT(role) && !accept_from(s, (enum role_id)role))
			return false;
		if (s->receiver->accepts & ROLE_BIT(role) && !connect_as(s, (enum role_id)role))
			return false;
	}
	return true;
}

bool session_start(struct session *s, const struct receiver *receiver, struct loader_maps *maps)
{
	if (!session_start_alone(s, receiver, maps))
		return false;
	session_send_valid(s, ROLE_CONTROL, MESSAGE_MEET);
	return session_connect_peers(s);
}

/* --- packets --- */

struct packet packet_smallest(enum role_id from, uint32_t type)
{
	static const uint8_t zeros[MESSAGE_BYTES_MAX];
	struct packet p = {.from = from, .type = type, .payload = zeros};

	if (type == MESSAGE_NONE || type >= MESSAGE_TYPE_COUNT)
		return p;
	p.length = message_rules[type].sizes.bytes_least;
	p.header_length = (uint32_t)p.length;
	p.fd_count = message_rules[type].sizes.fds_least;
	for (unsigned int i = 0; i < STAND_IN_FDS_MAX; i++)
		p.fds[i] = null_fd;
	return p;
}

static int memory_new(size_t bytes, bool sealed)
{
	int fd = memfd_create("stand-in", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (ftruncate(fd, (off_t)bytes) < 0 ||
	    (sealed && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0))
		fail("memfd");
	return fd;
}

static struct packet packet_otlp(struct packet p)
{
	static struct msg_configure_otlp otlp;

	otlp = (struct msg_configure_otlp){.period_ns = NS_PER_S / FREQUENCY_HZ,
					   .report_interval_ns = NS_PER_S,
					   .timeout_ns = NS_PER_S,
					   .drain_timeout_ns = 0,
					   .request_bytes_max = MEMORY_BYTES / 4,
					   .spool_memory_bytes_max = MEMORY_BYTES,
					   .spool_age_max_ns = 60 * NS_PER_S,
					   .target = "127.0.0.1:1"};
	p.payload = &otlp;
	for (unsigned int i = 0; i < p.fd_count; i++)
		p.fds[i] = i == MSG_OTLP_STATS ? memory_new(sizeof(struct export_stats), true)
					       : memory_new(0, false);
	return p;
}

/* Each manager gives ids after those of the one before, and does not start when half of them are
 * used. Long before that, the table of modules is emptied. */
static void forget_modules(int fd)
{
	const uint32_t count = 1u << BH_MODULES_BITS;
	const size_t bytes = count * sizeof(struct bh_module);
	struct bh_module *modules = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	bool any_high = false;

	if (modules == MAP_FAILED)
		fail("map of modules");
	for (uint32_t i = 0; i < count; i++)
		any_high |= modules[i].id > BH_MODULE_ID_MAX / 4;
	for (uint32_t i = 0; any_high && i < count; i++)
		modules[i].id = 0;
	munmap(modules, bytes);
}

/* The maps of the real loader for a role. */
static struct packet packet_maps(const struct session *s, struct packet p)
{
	const enum role_id role = s->receiver->role;

	p.payload = &s->maps->text[role];
	memcpy(p.fds, s->maps->fds[role], sizeof(s->maps->fds[role]));
	if (role == ROLE_MANAGER)
		forget_modules(p.fds[1]);
	return p;
}

struct packet packet_valid(const struct session *s, enum role_id from, uint32_t type)
{
	static const struct msg_configure_loader loader = {
	    .frequency_hz = FREQUENCY_HZ, .want_user = 1, .want_kernel = 1};
	static const struct msg_work_page page = {.bytes = WORK_PAGE_BYTES};
	static struct msg_meet meet;
	static const struct msg_configure_exporter exporter = {
	    .period_ns = NS_PER_S / FREQUENCY_HZ, .output_count = 1, .formats = {"folded"}};
	struct packet p = packet_smallest(from, type);

	if (type == MESSAGE_CONFIGURE_LOADER)
		p.payload = &loader;
	else if (type == MESSAGE_CONFIGURE_OTLP)
		p = packet_otlp(p);
	else if (type == MESSAGE_MANAGER_MAPS || type == MESSAGE_WORKER_MAPS ||
		 type == MESSAGE_EXPORTER_MAPS)
		p = packet_maps(s, p);
	else if (type == MESSAGE_WORK_PAGE)
		p.payload = &page;
	else if (type == MESSAGE_MEET)
		p.payload = &meet;
	meet.roles = s->receiver->connects;
	if (type == MESSAGE_SLAB) {
		p.payload = &s->maps->slab;
		p.fds[0] = s->maps->slab_fd;
		p.fd_count = 1;
	}
	if (type == MESSAGE_WORK_PAGE)
		p.fds[0] = memory_new(WORK_PAGE_BYTES, true);
	if (type == MESSAGE_CONFIGURE_EXPORTER) {
		p.payload = &exporter;
		p.fd_count = 1;
	}
	return p;
}

bool session_send(struct session *s, const struct packet *packet)
{
	static uint8_t bytes[sizeof(struct msg_header) + MESSAGE_BYTES_MAX + 1];
	const struct msg_header header = {.type = packet->type, .length = packet->header_length};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int) * STAND_IN_FDS_MAX)];
	} control = {0};
	struct iovec part = {bytes, sizeof(header) + packet->length};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

	memcpy(bytes, &header, sizeof(header));
	memcpy(bytes + sizeof(header), packet->payload, packet->length);
	if (packet->fd_count) {
		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(sizeof(int) * packet->fd_count);
		struct cmsghdr *c = CMSG_FIRSTHDR(&message);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * packet->fd_count);
		memcpy(CMSG_DATA(c), packet->fds, sizeof(int) * packet->fd_count);
	}
	if (packet->type < MESSAGE_TYPE_COUNT)
		s->sent[packet->from] |= 1ull << packet->type;
	return sendmsg(s->peers[packet->from], &message, MSG_NOSIGNAL) == (ssize_t)part.iov_len;
}

/* --- what the receiver sends --- */

/* Keeps maps that a real loader sends; closes all other descriptors. */
static void keep_maps(struct session *s, enum role_id role, const struct msg_header *header,
		      const void *payload, const int *fds, unsigned int fd_count)
{
	const bool wanted = header->type == MESSAGE_MANAGER_MAPS ||
			    header->type == MESSAGE_WORKER_MAPS ||
			    header->type == MESSAGE_EXPORTER_MAPS;

	if (header->type == MESSAGE_SLAB && fd_count && s->maps && !s->maps->has_slab) {
		memcpy(&s->maps->slab, payload, sizeof(s->maps->slab));
		s->maps->slab_fd = fds[0];
		s->maps->has_slab = true;
		return;
	}
	if (!wanted || s->receiver->role != ROLE_LOADER || !s->maps || s->maps->fd_counts[role]) {
		for (unsigned int i = 0; i < fd_count; i++)
			close(fds[i]);
		return;
	}
	memcpy(&s->maps->text[role], payload, sizeof(s->maps->text[role]));
	memcpy(s->maps->fds[role], fds, fd_count * sizeof(int));
	s->maps->fd_counts[role] = fd_count;
}

static void handle(struct session *s, enum role_id role, const uint8_t *bytes,
		   struct msghdr *message)
{
	struct msg_header header;
	struct msg_status status;
	int fds[STAND_IN_FDS_MAX];
	unsigned int fd_count = 0;

	memcpy(&header, bytes, sizeof(header));
	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
		fd_count = (unsigned int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fds, CMSG_DATA(c), fd_count * sizeof(int));
	}
	keep_maps(s, role, &header, bytes + sizeof(header), fds, fd_count);
	if (header.type == MESSAGE_STATUS) {
		memcpy(&status, bytes + sizeof(header), sizeof(status));
		s->state = (enum role_state)status.state;
	}
	s->pongs += header.type == MESSAGE_PONG;
	if (header.type == MESSAGE_SCAN) {
		const struct packet done = packet_smallest(ROLE_OPENER, MESSAGE_SCAN_DONE);
		session_send(s, &done);
	}
}

void session_drain(struct session *s)
{
	static uint8_t bytes[sizeof(struct msg_header) + MESSAGE_BYTES_MAX];

	for (int role = 0; role < ROLE_COUNT; role++) {
		for (;;) {
			union {
				struct cmsghdr align;
				char bytes[CMSG_SPACE(sizeof(int) * STAND_IN_FDS_MAX)];
			} control = {0};
			struct iovec part = {bytes, sizeof(bytes)};
			struct msghdr message = {.msg_iov = &part,
						 .msg_iovlen = 1,
						 .msg_control = control.bytes,
						 .msg_controllen = sizeof(control.bytes)};

			if (s->peers[role] < 0 ||
			    recvmsg(s->peers[role], &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) <
				(ssize_t)sizeof(struct msg_header))
				break;
			handle(s, (enum role_id)role, bytes, &message);
		}
	}
}

bool session_wait_ready(struct session *s)
{
	const uint64_t since_ns = clock_monotonic_ns();

	while (s->state < ROLE_READY) {
		if (has_ended(s) || is_late(since_ns))
			return false;
		poll(&(struct pollfd){.fd = s->peers[ROLE_CONTROL], .events = POLLIN}, 1, POLL_MS);
		session_drain(s);
	}
	return true;
}

bool session_wait_maps(struct session *s)
{
	const uint64_t since_ns = clock_monotonic_ns();
	const struct loader_maps *maps = s->maps;

	while (!maps->fd_counts[ROLE_MANAGER] || !maps->fd_counts[ROLE_WORKER] ||
	       !maps->fd_counts[ROLE_EXPORTER] || !maps->has_slab) {
		if (has_ended(s) || is_late(since_ns))
			return false;
		poll(NULL, 0, POLL_MS);
		session_drain(s);
	}
	return true;
}

void session_send_valid(struct session *s, enum role_id from, uint32_t type)
{
	const struct packet p = packet_valid(s, from, type);

	session_send(s, &p);
	/* Only the receiver needs this memory. */
	for (unsigned int i = 0;
	     i < p.fd_count && (type == MESSAGE_WORK_PAGE || type == MESSAGE_CONFIGURE_OTLP); i++)
		close(p.fds[i]);
}

bool session_synchronize(struct session *s)
{
	const struct packet ping = packet_smallest(ROLE_CONTROL, MESSAGE_PING);
	const uint64_t since_ns = clock_monotonic_ns();

	/* What was sent before the first question has been handled before the second is answered,
	 * if the receiver does not read both of them at once. */
	for (int i = 0; i < 2; i++) {
		const unsigned int pongs = s->pongs;

		poll(NULL, 0, i * POLL_MS);
		session_send(s, &ping);
		while (s->pongs == pongs && !has_ended(s)) {
			if (is_late(since_ns))
				return false;
			poll(&(struct pollfd){.fd = s->peers[ROLE_CONTROL], .events = POLLIN}, 1,
			     POLL_MS);
			session_drain(s);
		}
	}
	return true;
}

bool session_wait_end(struct session *s)
{
	const uint64_t since_ns = clock_monotonic_ns();

	while (!has_ended(s)) {
		if (is_late(since_ns))
			return false;
		session_drain(s);
		poll(NULL, 0, 1);
	}
	return true;
}

unsigned int session_fd_count(const struct session *s)
{
	char path[64];
	unsigned int count = 0;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)s->pid);
	DIR *dir = opendir(path);
	while (dir && readdir(dir))
		count++;
	if (dir)
		closedir(dir);
	return count;
}

const char *session_log(const struct session *s)
{
	static char text[LOG_BYTES];
	const ssize_t n = pread(s->log, text, sizeof(text) - 1, 0);

	text[n > 0 ? n : 0] = 0;
	return text;
}

void session_close(struct session *s)
{
	if (!s->ended) {
		kill(s->pid, SIGKILL);
		waitpid(s->pid, &s->wait_status, 0);
	}
	for (int role = 0; role < ROLE_COUNT; role++) {
		if (s->peers[role] >= 0)
			close(s->peers[role]);
		if (listeners[role] >= 0)
			close(listeners[role]);
		listeners[role] = -1;
	}
	close(s->log);
}
