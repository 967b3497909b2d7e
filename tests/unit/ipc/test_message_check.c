/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The check of every packet. The cases are generated from message_rules, that is from messages.def:
 * for each message, each sender, each receiver and each state of the receiver. The rows of
 * messages.def themselves are checked by examples at the end.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/ipc/raw_link.h"

/* A packet and the circumstances in which it is received. */
struct packet {
	enum role_id from, to;
	enum role_state state;
	uint32_t type;
	uint32_t header_length; /* as the header says */
	size_t length;		/* as it is */
	unsigned int fd_count;
};

/* Sends the packet and receives it. For any verdict, no descriptor may be left open. */
static int receive(const struct packet *p, enum message_verdict *verdict)
{
	static uint8_t bytes[sizeof(struct msg_header) + MESSAGE_BYTES_MAX + 64];
	const struct msg_header header = {.type = p->type, .length = p->header_length};
	const unsigned int before = count_fds();
	struct link *l = link_new(p->from, p->to);
	struct message message;

	memcpy(bytes, &header, sizeof(header));
	raw_send(l->raw, bytes, sizeof(header) + p->length, p->fd_count);
	int r = peer_receive(&l->peer, p->state, &l->buffer, &message);
	*verdict = message.verdict;
	if (r == 1) {
		cr_assert_eq(message.type, p->type);
		cr_assert_eq(message.length, p->length);
		cr_assert_eq(message.fd_count, p->fd_count);
		cr_assert_eq((uintptr_t)message.payload % 8, 0);
		for (unsigned int i = 0; i < p->fd_count; i++)
			cr_assert_eq(fcntl(message.fds[i], F_GETFD), FD_CLOEXEC);
		message_close(&message);
	}
	cr_assert_eq(message.fd_count, 0);
	link_free(l);
	cr_assert_eq(count_fds(), before,
		     "%s of %zu bytes with %u descriptors leaves descriptors open",
		     message_name(p->type), p->length, p->fd_count);
	return r;
}

static void expect_allowed(const struct packet *p, const char *what)
{
	enum message_verdict verdict;

	cr_expect_eq(receive(p, &verdict), 1, "%s, %s: %s", message_name(p->type), what,
		     message_verdict_texts[verdict]);
}

static void expect_refused(const struct packet *p, enum message_verdict expected, const char *what)
{
	enum message_verdict verdict;

	cr_expect_eq(receive(p, &verdict), -EPROTO, "%s, %s, is accepted", message_name(p->type),
		     what);
	cr_expect_eq(verdict, expected, "%s, %s: \"%s\" instead of \"%s\"", message_name(p->type),
		     what, message_verdict_texts[verdict], message_verdict_texts[expected]);
}

/* Returns the lowest state of a set. For an empty set, as for no receiver, it is the first state of
 * all. */
static enum role_state first_state(uint32_t states)
{
	return (enum role_state)(states ? __builtin_ctz(states) : 0);
}

/* Returns the smallest packet of the type that is allowed from this sender to this receiver. */
static struct packet smallest(uint32_t type, enum role_id from, enum role_id to)
{
	const struct message_rule *rule = &message_rules[type];

	return (struct packet){.from = from,
			       .to = to,
			       .state = first_state(rule->receivers[to].states),
			       .type = type,
			       .header_length = rule->sizes.bytes_least,
			       .length = rule->sizes.bytes_least,
			       .fd_count = rule->sizes.fds_least};
}

/* Calls `fn` for each message, and for each sender and receiver that it may have. */
static void for_each_route(void (*fn)(const struct packet *smallest,
				      const struct message_rule *rule))
{
	for (uint32_t type = 1; type < MESSAGE_TYPE_COUNT; type++) {
		for (int route = 0; route < ROLE_COUNT * ROLE_COUNT; route++) {
			const enum role_id from = (enum role_id)(route / ROLE_COUNT),
					   to = (enum role_id)(route % ROLE_COUNT);
			const struct message_rule *rule = &message_rules[type];

			if (!(rule->senders & ROLE_BIT(from)) || !rule->receivers[to].states)
				continue;
			const struct packet p = smallest(type, from, to);
			fn(&p, rule);
		}
	}
}

static struct packet with_length(struct packet p, size_t length)
{
	p.length = length;
	p.header_length = (uint32_t)length;
	return p;
}

static struct packet with_fds(struct packet p, unsigned int fd_count)
{
	p.fd_count = fd_count;
	return p;
}

static void check_bounds(const struct packet *p, const struct message_rule *rule)
{
	const struct packet largest =
	    with_fds(with_length(*p, rule->sizes.bytes_most), rule->sizes.fds_most);

	expect_allowed(p, "least bytes and descriptors");
	expect_allowed(&largest, "most bytes and descriptors");
}

Test(message_check, accepts_least_and_most_of_each_message)
{
	for_each_route(check_bounds);
}

static void check_lengths(const struct packet *p, const struct message_rule *rule)
{
	const struct packet longer = with_length(*p, rule->sizes.bytes_most + 1);

	expect_refused(&longer, MESSAGE_WRONG_LENGTH, "one byte too long");
	if (!rule->sizes.bytes_least)
		return;
	const struct packet shorter = with_length(*p, rule->sizes.bytes_least - 1);
	expect_refused(&shorter, MESSAGE_WRONG_LENGTH, "one byte too short");
}

Test(message_check, refuses_wrong_lengths_of_each_message)
{
	for_each_route(check_lengths);
}

static void check_fds(const struct packet *p, const struct message_rule *rule)
{
	const struct packet more = with_fds(*p, rule->sizes.fds_most + 1);
	const struct packet many = with_fds(*p, RAW_FDS_MAX);
	enum message_verdict verdict;

	/* The kernel cuts off a descriptor for which the receiver has no room, and the packet is
	 * refused. */
	cr_expect_eq(receive(&more, &verdict), -EPROTO, "%s with one descriptor too many",
		     rule->name);
	cr_expect_eq(receive(&many, &verdict), -EPROTO, "%s with %d descriptors", rule->name,
		     RAW_FDS_MAX);
	if (!rule->sizes.fds_least)
		return;
	const struct packet fewer = with_fds(*p, rule->sizes.fds_least - 1);
	expect_refused(&fewer, MESSAGE_WRONG_FDS, "one descriptor too few");
}

Test(message_check, refuses_wrong_descriptors_of_each_message)
{
	for_each_route(check_fds);
}

static void check_states(const struct packet *p, const struct message_rule *rule)
{
	for (int state = 0; state < ROLE_STATE_COUNT; state++) {
		struct packet in_state = *p;

		in_state.state = (enum role_state)state;
		if (rule->receivers[p->to].states & MESSAGE_STATE_BIT(state))
			expect_allowed(&in_state, "in an allowed state");
		else
			expect_refused(&in_state, MESSAGE_WRONG_STATE, "in another state");
	}
}

Test(message_check, accepts_each_message_in_its_states_only)
{
	for_each_route(check_states);
}

/* Twice the same message on one connection. */
static void check_repetition(const struct packet *p, const struct message_rule *rule)
{
	static uint8_t bytes[sizeof(struct msg_header) + MESSAGE_BYTES_MAX];
	const struct msg_header header = {.type = p->type, .length = p->header_length};
	struct link *l = link_new(p->from, p->to);
	const bool once = rule->receivers[p->to].once;
	struct message message;

	memcpy(bytes, &header, sizeof(header));
	for (int i = 0; i < 2; i++) {
		raw_send(l->raw, bytes, sizeof(header) + p->length, p->fd_count);
		cr_expect_eq(peer_receive(&l->peer, p->state, &l->buffer, &message),
			     i && once ? -EPROTO : 1, "%s, %s time", rule->name,
			     i ? "second" : "first");
		message_close(&message);
	}
	cr_expect_eq(message.verdict, once ? MESSAGE_REPEATED : MESSAGE_ALLOWED, "%s", rule->name);
	link_free(l);
}

Test(message_check, refuses_the_second_of_messages_that_come_once)
{
	for_each_route(check_repetition);
}

static void check_header(const struct packet *p, const struct message_rule *rule)
{
	struct packet bad = *p;

	bad.header_length = p->header_length + 1;
	expect_refused(&bad, MESSAGE_WRONG_LENGTH, "header says more than there is");
	bad.header_length = (uint32_t)-8;
	expect_refused(&bad, MESSAGE_WRONG_LENGTH, "length that wraps around");
	bad.header_length = p->header_length;
	bad.length = p->length + 1;
	expect_refused(&bad, MESSAGE_WRONG_LENGTH, "more bytes than the header says");
	bad.length = p->length;
	bad.type = p->type | 0x10000;
	expect_refused(&bad, MESSAGE_UNDEFINED, "a high bit in the type");
	(void)rule;
}

Test(message_check, refuses_headers_that_contradict_the_packet)
{
	for_each_route(check_header);
}

/* Every pair of roles, for every message. */
Test(message_check, accepts_each_message_from_its_sender_to_its_receivers_only)
{
	for (uint32_t type = 1; type < MESSAGE_TYPE_COUNT; type++) {
		for (int route = 0; route < ROLE_COUNT * ROLE_COUNT; route++) {
			const enum role_id from = (enum role_id)(route / ROLE_COUNT),
					   to = (enum role_id)(route % ROLE_COUNT);
			const struct message_rule *rule = &message_rules[type];
			struct packet p = smallest(type, from, to);

			if (!rule->receivers[to].states)
				p.state = ROLE_READY;
			if (!(rule->senders & ROLE_BIT(from)))
				expect_refused(&p, MESSAGE_WRONG_SENDER, role_names[from].process);
			else if (!rule->receivers[to].states)
				expect_refused(&p, MESSAGE_WRONG_RECEIVER, role_names[to].process);
			else
				expect_allowed(&p, role_names[to].process);
		}
	}
}

Test(message_check, refuses_undefined_types)
{
	const uint32_t types[] = {MESSAGE_NONE, MESSAGE_TYPE_COUNT, MESSAGE_TYPE_COUNT + 1,
				  0x7fffffff,	0x80000000,	    UINT32_MAX};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		const struct packet empty = {
		    .from = ROLE_CONTROL, .to = ROLE_LOADER, .type = types[i]};
		const struct packet full = with_fds(with_length(empty, 8), 3);

		expect_refused(&empty, MESSAGE_UNDEFINED, "empty");
		expect_refused(&full, MESSAGE_UNDEFINED, "with payload and descriptors");
	}
}

Test(message_check, refuses_less_than_a_header)
{
	const struct msg_header header = {.type = MESSAGE_START, .length = 0};

	for (size_t length = 1; length < sizeof(header); length++) {
		for (unsigned int fds = 0; fds <= RAW_FDS_MAX; fds += RAW_FDS_MAX / 2) {
			const unsigned int before = count_fds();
			struct link *l = link_new(ROLE_CONTROL, ROLE_LOADER);
			struct message message;

			raw_send(l->raw, &header, length, fds);
			cr_expect_eq(peer_receive(&l->peer, ROLE_READY, &l->buffer, &message),
				     -EPROTO);
			link_free(l);
			cr_expect_eq(count_fds(), before, "%zu bytes, %u descriptors", length, fds);
		}
	}
}

/* A reader cannot distinguish an empty packet from the end of a connection. Its descriptors must
 * not stay open. */
Test(message_check, closes_the_descriptors_of_an_empty_packet)
{
	for (unsigned int fds = 0; fds <= RAW_FDS_MAX; fds += RAW_FDS_MAX / 2) {
		const unsigned int before = count_fds();
		struct link *l = link_new(ROLE_CONTROL, ROLE_LOADER);
		struct message message;

		raw_send(l->raw, "", 0, fds);
		int r = peer_receive(&l->peer, ROLE_READY, &l->buffer, &message);
		cr_expect(r == -EPROTO || r == -EPIPE, "%d", r);
		link_free(l);
		cr_expect_eq(count_fds(), before, "%u descriptors", fds);
	}
}

Test(message_check, refuses_packets_larger_than_any_message)
{
	static uint8_t bytes[MESSAGE_BYTES_MAX + 4096];
	const struct msg_header header = {.type = MESSAGE_BATCH,
					  .length = sizeof(bytes) - sizeof(header)};
	const unsigned int before = count_fds();
	struct link *l = link_new(ROLE_WORKER, ROLE_EXPORTER);
	struct message message;

	memcpy(bytes, &header, sizeof(header));
	raw_send(l->raw, bytes, sizeof(bytes), 2);
	cr_assert_eq(peer_receive(&l->peer, ROLE_READY, &l->buffer, &message), -EPROTO);
	link_free(l);
	cr_assert_eq(count_fds(), before);
}

/* ---- Rows of messages.def, by example: what the columns mean. ---- */

static enum message_verdict verdict_of(uint32_t type, enum role_id to, enum role_state state)
{
	const struct message_rule *rule = &message_rules[type];
	const struct message_envelope e = {.type = type,
					   .from = (enum role_id)__builtin_ctz(rule->senders),
					   .to = to,
					   .states = MESSAGE_STATE_BIT(state),
					   .length = rule->sizes.bytes_least,
					   .fd_count = rule->sizes.fds_least};

	return message_check(&e);
}

Test(message_check, a_role_is_configured_before_anything_else)
{
	cr_expect_eq(verdict_of(MESSAGE_CONFIGURE_LOADER, ROLE_LOADER, ROLE_STARTING),
		     MESSAGE_ALLOWED);
	cr_expect_eq(verdict_of(MESSAGE_CONFIGURE_LOADER, ROLE_LOADER, ROLE_READY),
		     MESSAGE_WRONG_STATE);
	cr_expect_eq(verdict_of(MESSAGE_START, ROLE_LOADER, ROLE_STARTING), MESSAGE_WRONG_STATE);
	cr_expect_eq(verdict_of(MESSAGE_SLAB, ROLE_MANAGER, ROLE_STARTING), MESSAGE_WRONG_STATE);
	cr_expect_eq(verdict_of(MESSAGE_BATCH, ROLE_EXPORTER, ROLE_STARTING), MESSAGE_WRONG_STATE);
}

Test(message_check, an_agent_pauses_and_resumes_the_loader)
{
	cr_expect_eq(verdict_of(MESSAGE_START, ROLE_LOADER, ROLE_READY), MESSAGE_ALLOWED);
	cr_expect_eq(verdict_of(MESSAGE_STOP, ROLE_LOADER, ROLE_SAMPLING), MESSAGE_ALLOWED);
	cr_expect_eq(verdict_of(MESSAGE_START, ROLE_LOADER, ROLE_STOPPED), MESSAGE_ALLOWED);
	cr_expect_eq(verdict_of(MESSAGE_START, ROLE_LOADER, ROLE_SAMPLING), MESSAGE_WRONG_STATE);
	cr_expect_not(message_rules[MESSAGE_START].receivers[ROLE_LOADER].once);
	cr_expect(message_rules[MESSAGE_START].receivers[ROLE_EXPORTER].once);
}

Test(message_check, nothing_comes_after_the_last_batch)
{
	cr_expect_eq(verdict_of(MESSAGE_BATCH, ROLE_EXPORTER, ROLE_STOPPING), MESSAGE_ALLOWED);
	cr_expect_eq(verdict_of(MESSAGE_BATCH, ROLE_EXPORTER, ROLE_DONE), MESSAGE_WRONG_STATE);
	cr_expect_eq(verdict_of(MESSAGE_END, ROLE_EXPORTER, ROLE_DONE), MESSAGE_WRONG_STATE);
}
