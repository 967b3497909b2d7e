/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends every message of messages.def to every program that receives messages, as each of its
 * peers: valid, with random contents, too short, too long, with a header that lies, repeated, in
 * a wrong state, to the wrong role, and with too few, too many and wrong descriptors. Batches are
 * FlatBuffers; they are damaged at random. The messages come from the table of messages.def, so a
 * new one is tested, too. And it sends the messages with which a receiver starts in each order that
 * is possible.
 *
 *	stand_in BIN		some of the messages that a role must not receive, chosen at random
 *	stand_in BIN all	all of them, and more random contents
 *
 * With sanitizers, in build/dev: build/release/bin/stand_in build/dev/bin
 *
 * A receiver may refuse a packet: then it says which message it was and why, and ends with status
 * 1, or goes on without the peer. Or it accepts the packet, and answers afterwards. It must not be
 * killed, hang, or keep a descriptor that it does not need.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/exit_status.h"
#include "records/records.h"
#include "tests/security/stand_in.h"

enum {
	EXIT_SKIPPED = 77,
	RANDOM_PAYLOADS = 12,
	BATCHES = 80,
	BATCHES_ALL = 3000,
	WRONG_ROUTES = 3, /* of 100 that a role must not receive, if not all are sent */
	KINDS = 7,
	KINDS_OF_TRUSTED = KINDS - 2, /* without files and memory */
	MEMORY_BYTES = 8192,
	FD_POLLS = 100,
	BATCH_BYTES_MAX = 4096
};

static struct {
	unsigned int sessions, packets, faults;
	uint64_t random;
	bool all;
	struct loader_maps maps;
	int kinds[KINDS];
} test;

/* What the CLI and the loader send to be mapped is as long as they say: both are trusted
 * (docs/threat-model.md). What is shorter would end the receiver by SIGBUS when it reads it. */
static uint32_t kinds_of(enum role_id from)
{
	return from == ROLE_CONTROL || from == ROLE_LOADER ? KINDS_OF_TRUSTED : KINDS;
}

static const char *const kind_names[KINDS] = {"/dev/null",  "a socket", "a pipe", "a directory",
					      "an eventfd", "a file",	"memory"};

static uint64_t random_next(void)
{
	/* SplitMix64: any seed is good, 0 too. */
	uint64_t z = test.random += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static uint32_t random_below(uint64_t bound)
{
	return bound ? (uint32_t)(random_next() % bound) : 0;
}

static void fault(const struct session *s, const struct packet *p, const char *variant,
		  const char *what)
{
	const char *log = session_log(s);
	const size_t length = strlen(log);

	test.faults++;
	printf("FAULT %s: %s of %s, %s: %s (wait status %d)\n%s\n", s->receiver->title,
	       message_name(p->type), role_names[p->from].process, variant, what,
	       s->ended ? s->wait_status : -1, log + (length > 600 ? length - 600 : 0));
}

/* Ends a session. A receiver that was built with sanitizers must have had nothing to report. */
static void finish(struct session *s)
{
	const char *log = session_log(s);

	if (strstr(log, "Sanitizer") || strstr(log, "runtime error")) {
		test.faults++;
		printf("FAULT %s:\n%s\n", s->receiver->title, log);
	}
	session_close(s);
}

/* A receiver that has ended has ended by itself, and has said why if it failed. */
static bool ended_cleanly(const struct session *s)
{
	return WIFEXITED(s->wait_status) &&
	       (WEXITSTATUS(s->wait_status) == STATUS_DONE || strstr(session_log(s), "error"));
}

/* Waits until the receiver has closed the connection to a peer. Returns false if it does not. */
static bool peer_is_closed(struct session *s, enum role_id role)
{
	char byte;

	for (int i = 0; i < STAND_IN_SECONDS * 1000; i++) {
		session_drain(s);
		if (recv(s->peers[role], &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0)
			return true;
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	return false;
}

/* Returns whether the receiver has logged why it refused a packet. */
static bool says_why(const struct session *s, const struct packet *p, enum message_verdict verdict)
{
	char line[128];
	const char *log = session_log(s);
	/* What is larger than any message is not read completely. */
	const bool cut = sizeof(struct msg_header) + p->length > MESSAGE_BYTES_MAX;

	snprintf(line, sizeof(line), "message=%s: %s", cut ? "undefined" : message_name(p->type),
		 message_verdict_texts[verdict]);
	if (strstr(log, line))
		return true;
	/* The first message may have led to another state, in which the second is not allowed. */
	snprintf(line, sizeof(line), "message=%s: %s", message_name(p->type),
		 message_verdict_texts[MESSAGE_WRONG_STATE]);
	return verdict == MESSAGE_REPEATED && strstr(log, line);
}

/* Sends a packet that the protocol does not allow, for this reason. */
static void send_refused(struct session *s, const struct packet *p, const char *variant,
			 enum message_verdict verdict)
{
	test.packets++;
	session_send(s, p);
	if (s->receiver->survives & ROLE_BIT(p->from)) {
		if (!peer_is_closed(s, p->from) || !session_synchronize(s) || s->ended)
			fault(s, p, variant, "it does not go on without this peer");
	} else if (!session_wait_end(s)) {
		fault(s, p, variant, "it does not end");
	} else if (!(WIFEXITED(s->wait_status) && WEXITSTATUS(s->wait_status) == STATUS_FAILED)) {
		fault(s, p, variant, "it does not end with status 1");
	}
	if (!says_why(s, p, verdict))
		fault(s, p, variant, message_verdict_texts[verdict]);
}

/* Sends a packet that the protocol allows, whatever it contains. Returns whether the session can go
 * on. */
static bool send_allowed(struct session *s, const struct packet *p, const char *variant)
{
	test.packets++;
	session_send(s, p);
	/* It answers questions only when it is configured. */
	const bool configures = s->state < ROLE_READY && session_configures(s, p->from, p->type);
	if (!(configures ? session_configure_after(s, p->from, p->type) : session_synchronize(s)) &&
	    !s->ended) {
		fault(s, p, variant, "it neither ends nor answers");
		return false;
	}
	if (s->ended && !ended_cleanly(s))
		fault(s, p, variant, "it does not end by itself");
	return !s->ended;
}

/* Starts a session in which this message is expected: when the receiver is ready, or, if the
 * message is not allowed then, before that part of the configuration. */
static bool begin(struct session *s, const struct receiver *receiver, enum role_id from,
		  uint32_t type)
{
	const struct packet p = packet_smallest(from, type);
	const bool when_ready =
	    message_rules[type].receivers[receiver->role].states & MESSAGE_STATE_BIT(ROLE_READY);

	test.sessions++;
	bool started = type == MESSAGE_MEET ? session_start_alone(s, receiver, &test.maps)
					    : session_start(s, receiver, &test.maps);
	if (started && !when_ready && session_configures(s, from, type))
		session_configure_until(s, from, type);
	else if (started)
		started = session_make_ready(s);
	if (!started)
		fault(s, &p, "start", "it is not ready");
	return started;
}

/* --- variants of one message --- */

struct variant {
	const char *name;
	int bytes, header,
	    fds; /* more or fewer than the least or, if they are positive, the most */
	enum message_verdict verdict;
};

static const struct variant variants[] = {
    {"one byte too long", 1, 0, 0, MESSAGE_WRONG_LENGTH},
    {"one byte too short", -1, 0, 0, MESSAGE_WRONG_LENGTH},
    {"a header that lies", 0, 1, 0, MESSAGE_WRONG_LENGTH},
    {"one descriptor too many", 0, 0, 1, MESSAGE_WRONG_FDS},
    {"one descriptor too few", 0, 0, -1, MESSAGE_WRONG_FDS},
};

/* Changes a valid packet. Returns false if this message has no such variant. */
static bool vary(struct packet *p, const struct variant *v)
{
	static uint8_t payload[MESSAGE_BYTES_MAX + 1];
	const struct message_rule *rule = &message_rules[p->type];

	if ((v->bytes < 0 && !rule->sizes.bytes_least) || (v->fds < 0 && !rule->sizes.fds_least))
		return false;
	memset(payload, 0, sizeof(payload));
	memcpy(payload, p->payload, p->length);
	p->payload = payload;
	if (v->bytes)
		p->length = (v->bytes > 0 ? rule->sizes.bytes_most : rule->sizes.bytes_least) +
			    (size_t)v->bytes;
	p->header_length = (uint32_t)(p->length + (size_t)v->header);
	for (unsigned int i = p->fd_count; i < STAND_IN_FDS_MAX; i++)
		p->fds[i] = test.kinds[0];
	if (v->fds)
		p->fd_count =
		    (unsigned int)((v->fds > 0 ? rule->sizes.fds_most : rule->sizes.fds_least) +
				   v->fds);
	/* The kernel cuts off what is more than any message may have. */
	return p->fd_count <= MESSAGE_FDS_MAX && p->length <= MESSAGE_BYTES_MAX;
}

static void check_variants(const struct receiver *receiver, enum role_id from, uint32_t type)
{
	struct session s;

	for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++) {
		if (begin(&s, receiver, from, type)) {
			struct packet p = packet_valid(&s, from, type);

			/* The configuration may have had it already. */
			const bool again = s.sent[from] & 1ull << type &&
					   message_rules[type].receivers[receiver->role].once;
			if (vary(&p, &variants[i]))
				send_refused(&s, &p, variants[i].name,
					     again && !variants[i].header ? MESSAGE_REPEATED
									  : variants[i].verdict);
		}
		finish(&s);
	}
}

static void check_repeated(const struct receiver *receiver, enum role_id from, uint32_t type)
{
	struct session s;

	if (begin(&s, receiver, from, type)) {
		const struct packet p = packet_valid(&s, from, type);
		const bool first = s.sent[from] & 1ull << type || send_allowed(&s, &p, "first");

		if (first && s.state == ROLE_READY)
			send_refused(&s, &p, "repeated", MESSAGE_REPEATED);
	}
	finish(&s);
}

static void check_state(const struct receiver *receiver, enum role_id from, uint32_t type,
			bool ready)
{
	struct session s;

	test.sessions++;
	if (session_start(&s, receiver, &test.maps) && (!ready || session_make_ready(&s))) {
		const struct packet p = packet_valid(&s, from, type);

		send_refused(&s, &p, ready ? "when it is ready" : "before it is configured",
			     MESSAGE_WRONG_STATE);
	}
	finish(&s);
}

/* Descriptors of these messages stay open, because the receiver needs them: its maps and files. */
static bool keeps_fds(uint32_t type)
{
	return type == MESSAGE_MODULE || type == MESSAGE_SLAB || type == MESSAGE_SIDEBAND ||
	       type == MESSAGE_CONFIGURE_OPENER;
}

static void check_leak(const struct session *s, const struct packet *p, const char *variant,
		       unsigned int before)
{
	unsigned int count = session_fd_count(s);

	/* A receiver opens and closes descriptors while it works. */
	for (int i = 0; i < FD_POLLS && count > before; i++) {
		nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
		count = session_fd_count(s);
	}
	if (count > before)
		fault(s, p, variant, "it keeps descriptors");
}

/* The valid message with all kinds of descriptors. */
static void check_kinds(const struct receiver *receiver, enum role_id from, uint32_t type)
{
	struct session s;

	for (uint32_t kind = 0; kind < kinds_of(from); kind++) {
		if (begin(&s, receiver, from, type)) {
			struct packet p = packet_valid(&s, from, type);
			const unsigned int before = session_fd_count(&s);

			if (!p.fd_count)
				p.fd_count = message_rules[type].sizes.fds_most;
			for (unsigned int i = 0; i < p.fd_count; i++)
				p.fds[i] = test.kinds[kind];
			const bool ready = s.state == ROLE_READY;
			if (send_allowed(&s, &p, kind_names[kind]) && ready && !keeps_fds(type))
				check_leak(&s, &p, kind_names[kind], before);
		}
		finish(&s);
	}
}

static void randomize(struct packet *p)
{
	static uint8_t payload[MESSAGE_BYTES_MAX];
	const struct message_rule *rule = &message_rules[p->type];
	/* Small numbers and zeros reach further than random words. */
	const uint32_t style = random_below(3);

	p->length = rule->sizes.bytes_least +
		    random_below(rule->sizes.bytes_most - rule->sizes.bytes_least + 1);
	p->header_length = (uint32_t)p->length;
	for (size_t i = 0; i < p->length; i++)
		payload[i] = style == 0	  ? (uint8_t)random_next()
			     : style == 1 ? (random_below(8) ? 0 : (uint8_t)random_next())
					  : (i % 4 ? 0 : (uint8_t)random_below(4));
	p->payload = payload;
	p->fd_count =
	    rule->sizes.fds_least + random_below(rule->sizes.fds_most - rule->sizes.fds_least + 1u);
	for (unsigned int i = 0; i < p->fd_count; i++)
		p->fds[i] = test.kinds[random_below(kinds_of(p->from))];
}

static void check_random(const struct receiver *receiver, enum role_id from, uint32_t type)
{
	const int count = test.all ? 4 * RANDOM_PAYLOADS : RANDOM_PAYLOADS;
	struct session s;
	bool open = false;

	for (int i = 0; i < count; i++) {
		struct packet p = packet_smallest(from, type);

		/* A message that the state does not allow any more, or a second time, is refused:
		 * that is clean, too. */
		if (!open && !begin(&s, receiver, from, type)) {
			finish(&s);
			return;
		}
		randomize(&p);
		open = send_allowed(&s, &p, "random contents");
		if (!open)
			finish(&s);
	}
	if (open)
		finish(&s);
}

static void check_route(const struct receiver *receiver, enum role_id from, uint32_t type)
{
	const struct message_rule *rule = &message_rules[type];
	const uint32_t states = rule->receivers[receiver->role].states;
	const struct session s = {.receiver = receiver};
	const bool configures = session_configures(&s, from, type),
		   when_ready = states & MESSAGE_STATE_BIT(ROLE_READY);

	if (configures || when_ready) {
		check_variants(receiver, from, type);
		check_random(receiver, from, type);
		if (rule->sizes.fds_most)
			check_kinds(receiver, from, type);
	}
	if (when_ready && rule->receivers[receiver->role].once)
		check_repeated(receiver, from, type);
	if (!when_ready)
		check_state(receiver, from, type, true);
	/* Only what the CLI sends is read before it. */
	if (from == ROLE_CONTROL && !(states & MESSAGE_STATE_BIT(ROLE_STARTING)))
		check_state(receiver, from, type, false);
}

static void check_wrong_route(const struct receiver *receiver, enum role_id from, uint32_t type)
{
	const struct message_envelope e = {.type = type,
					   .from = from,
					   .to = receiver->role,
					   .states = MESSAGE_STATE_BIT(ROLE_READY)};
	struct session s;

	if (begin(&s, receiver, from, MESSAGE_NONE)) {
		const struct packet p = packet_smallest(from, type);

		send_refused(&s, &p, "of the wrong role", message_check(&e));
	}
	finish(&s);
}

/* --- batches --- */

/* Makes a batch with one record of each kind. Returns its length. */
static size_t make_batch(struct records *records, uint64_t sequence, uint8_t *batch)
{
	const uint32_t frames[] = {1, 2};
	size_t length;

	records_add_module(records, &(struct record_module){.id = 1,
							    .path = "/bin/program",
							    .gnu_build_id = "",
							    .htlhash = "",
							    .go_build_id = ""});
	records_add_function(records, &(struct record_function){.id = 1, .name = "function"});
	records_add_frame(
	    records, &(struct record_frame){.id = 1, .address = 16, .module = 1, .function = 1});
	records_add_frame(
	    records, &(struct record_frame){.id = 2, .address = 32, .module = 1, .function = 1});
	records_add_stack(records, &(struct record_stack){.id = 1, .frames = frames, .count = 2});
	records_add_process(records, &(struct record_process){.id = 1,
							      .tgid = 42,
							      .comm = "program",
							      .path = "/bin/program",
							      .container_id = "",
							      .service_name = ""});
	records_add_thread(
	    records, &(struct record_thread){.id = 1, .process = 1, .tid = 42, .comm = "thread"});
	records_add_sample(records,
			   &(struct record_sample){.time_ns = sequence, .stack = 1, .thread = 1});
	const uint8_t *data = records_finish(
	    records, &(struct record_head){.sequence = sequence, .reset = true}, &length);
	if (length > BATCH_BYTES_MAX)
		abort();
	memcpy(batch, data, length);
	return length;
}

static void damage(uint8_t *batch, size_t *length)
{
	const uint32_t least = message_rules[MESSAGE_BATCH].sizes.bytes_least;

	for (uint32_t i = 0, count = 1 + random_below(6); i < count; i++)
		batch[random_below(*length)] =
		    random_below(2) ? (uint8_t)random_next() : (uint8_t)(random_below(3) * 127);
	if (random_below(4) == 0)
		*length = least + random_below(*length - least);
}

static void check_batches(const struct receiver *receiver)
{
	static uint8_t batch[BATCH_BYTES_MAX];
	const int count = test.all ? BATCHES_ALL : BATCHES;
	struct records *records = records_new();
	struct session s;
	int refused = 0;
	bool open = false;

	for (int i = 0; i < count; i++) {
		struct packet p = packet_smallest(ROLE_WORKER, MESSAGE_BATCH);
		/* Every session starts with a batch that is whole. */
		const bool whole = !open;

		p.payload = batch;
		p.length = make_batch(records, (uint64_t)i + 1, batch);
		if (whole && !begin(&s, receiver, ROLE_WORKER, MESSAGE_BATCH))
			break;
		if (!whole)
			damage(batch, &p.length);
		p.header_length = (uint32_t)p.length;
		open = send_allowed(&s, &p, "damaged");
		if (whole && !open)
			fault(&s, &p, "whole", "it is refused");
		refused += !open;
		if (!open)
			finish(&s);
	}
	if (open)
		finish(&s);
	records_free(records);
	printf("%s: %d batches, %d refused\n", receiver->title, count, refused);
	if (!refused || refused > count / 2) {
		printf("FAULT %s: all or none of the batches were refused\n", receiver->title);
		test.faults++;
	}
}

/* --- all of them --- */

static void check_receiver(const struct receiver *receiver)
{
	const unsigned int sessions = test.sessions, packets = test.packets;

	for (int from = 0; from < ROLE_COUNT; from++) {
		if (from != ROLE_CONTROL &&
		    !((receiver->connects | receiver->accepts) & ROLE_BIT(from)))
			continue;
		for (uint32_t type = 0; type <= MESSAGE_TYPE_COUNT; type++) {
			const bool defined = type > MESSAGE_NONE && type < MESSAGE_TYPE_COUNT;

			if (defined && message_rules[type].senders & ROLE_BIT(from) &&
			    message_rules[type].receivers[receiver->role].states)
				check_route(receiver, (enum role_id)from, type);
			else if (test.all || random_below(100) < WRONG_ROUTES)
				check_wrong_route(receiver, (enum role_id)from, type);
		}
	}
	if (receiver->role == ROLE_EXPORTER)
		check_batches(receiver);
	test.faults += stand_in_check_orders(receiver, &test.maps);
	printf("%s: %u packets in %u sessions\n", receiver->title, test.packets - packets,
	       test.sessions - sessions);
	fflush(stdout);
}

static void make_kinds(void)
{
	int pair[2], ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0 ||
	    pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		exit(EXIT_FAILURE);
	test.kinds[0] = open("/dev/null", O_RDWR | O_CLOEXEC);
	test.kinds[1] = pair[0];
	test.kinds[2] = ends[0];
	test.kinds[3] = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	test.kinds[4] = eventfd(0, EFD_CLOEXEC);
	test.kinds[5] = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	test.kinds[6] = memfd_create("kind", MFD_CLOEXEC);
	if (ftruncate(test.kinds[6], MEMORY_BYTES) < 0)
		exit(EXIT_FAILURE);
}

/* Has a real loader send the maps that other receivers need. */
static bool get_maps(void)
{
	struct session s;
	bool ready = session_start(&s, &receivers[0], &test.maps) && session_make_ready(&s);

	session_send_valid(&s, ROLE_MANAGER, MESSAGE_SLAB_REQUEST);
	ready = ready && session_wait_maps(&s);
	if (!ready)
		printf("no BPF maps:\n%s\n", session_log(&s));
	finish(&s);
	return ready;
}

int main(int argc, char **argv)
{
	const char *seed = getenv("BULKHEAD_SEED"), *only = getenv("BULKHEAD_RECEIVER");

	if (geteuid() != 0) {
		printf("SKIP stand_in: not root\n");
		return EXIT_SKIPPED;
	}
	if (argc < 2)
		return EXIT_FAILURE;
	test.all = argc > 2;
	test.random = seed ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL);
	printf("BULKHEAD_SEED=%llu\n", (unsigned long long)test.random);
	make_kinds();
	stand_in_init(argv[1]);
	if (!get_maps()) {
		stand_in_fini();
		return EXIT_FAILURE;
	}
	for (size_t i = 0; i < receiver_count; i++) {
		if (!only || !strcmp(only, receivers[i].title))
			check_receiver(&receivers[i]);
	}
	stand_in_fini();
	printf("%u packets, %u sessions, %u faults\n", test.packets, test.sessions, test.faults);
	return test.faults ? EXIT_FAILURE : EXIT_SUCCESS;
}
