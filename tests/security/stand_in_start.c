/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages with which a receiver starts, and the orders in which it may read them.
 *
 * Each peer has its own connection. So the messages of one peer arrive in the order in which it has
 * sent them, but those of two peers in any order, which depends on how the kernel schedules the
 * roles. The protocol must allow each of these orders. MEET comes before the others connect.
 *
 * Example: the worker's maps (from the loader) take it to the next state. Its configuration (from
 * CONTROL) must be allowed before them and after them.
 */
#include <stdio.h>
#include <time.h>

#include "tests/security/stand_in.h"

enum {
	MESSAGES_OF_PEER = 8,
	/* So that the receiver handles a message before the next one is sent. It may be slower:
	 * then this test tests less, but does not fail. */
	BETWEEN_MS = 20,
};

/* With what each receiver is configured, in this order. */
static const struct step {
	enum role_id receiver, from;
	uint32_t type;
	bool optional; /* it is ready without this message, too */
} steps[] = {
    {ROLE_LOADER, ROLE_CONTROL, MESSAGE_CONFIGURE_LOADER, false},
    {ROLE_MANAGER, ROLE_CONTROL, MESSAGE_WORK_PAGE, false},
    {ROLE_MANAGER, ROLE_LOADER, MESSAGE_MANAGER_MAPS, false},
    {ROLE_MANAGER, ROLE_LOADER, MESSAGE_SLAB, false},
    {ROLE_OPENER, ROLE_CONTROL, MESSAGE_WORK_PAGE, false},
    {ROLE_OPENER, ROLE_CONTROL, MESSAGE_CONFIGURE_OPENER, false},
    {ROLE_WORKER, ROLE_CONTROL, MESSAGE_WORK_PAGE, false},
    {ROLE_WORKER, ROLE_CONTROL, MESSAGE_CONFIGURE_WORKER, true},
    {ROLE_WORKER, ROLE_LOADER, MESSAGE_WORKER_MAPS, false},
    {ROLE_WORKER, ROLE_MANAGER, MESSAGE_SCANNED, false},
    {ROLE_EXPORTER, ROLE_CONTROL, MESSAGE_CONFIGURE_EXPORTER, false},
    {ROLE_EXPORTER, ROLE_CONTROL, MESSAGE_CONFIGURE_OTLP, false},
    {ROLE_EXPORTER, ROLE_LOADER, MESSAGE_EXPORTER_MAPS, false},
};

/* Whether a step is for this receiver: there are two exporters. */
static bool is_for(const struct step *step, const struct receiver *receiver)
{
	return step->receiver == receiver->role &&
	       !(step->type == MESSAGE_CONFIGURE_EXPORTER && receiver->agent) &&
	       !(step->type == MESSAGE_CONFIGURE_OTLP && !receiver->agent);
}

bool session_configures(const struct session *s, enum role_id from, uint32_t type)
{
	bool found = type == MESSAGE_MEET;

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		found |= is_for(&steps[i], s->receiver) && !steps[i].optional &&
			 steps[i].from == from && steps[i].type == type;
	return found;
}

size_t session_start_messages(const struct receiver *receiver, enum role_id from, uint32_t *types,
			      size_t most)
{
	size_t count = 0;

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && count < most; i++) {
		if (is_for(&steps[i], receiver) && steps[i].from == from)
			types[count++] = steps[i].type;
	}
	return count;
}

void session_configure_until(struct session *s, enum role_id from, uint32_t type)
{
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && type != MESSAGE_MEET; i++) {
		if (!is_for(&steps[i], s->receiver) || steps[i].optional)
			continue;
		if (steps[i].from == from && steps[i].type == type)
			return;
		session_send_valid(s, steps[i].from, steps[i].type);
	}
}

bool session_configure_after(struct session *s, enum role_id from, uint32_t type)
{
	bool after = type == MESSAGE_NONE || type == MESSAGE_MEET;

	if (type == MESSAGE_MEET && !session_connect_peers(s))
		return false;
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		if (!is_for(&steps[i], s->receiver) || steps[i].optional)
			continue;
		if (after)
			session_send_valid(s, steps[i].from, steps[i].type);
		after |= steps[i].from == from && steps[i].type == type;
	}
	return session_wait_ready(s);
}

bool session_make_ready(struct session *s)
{
	return session_configure_after(s, ROLE_CONTROL, MESSAGE_NONE);
}

/* --- orders --- */

struct orders {
	const struct receiver *receiver;
	struct loader_maps *maps;
	uint32_t types[ROLE_COUNT][MESSAGES_OF_PEER];
	size_t counts[ROLE_COUNT];
	enum role_id order[ROLE_COUNT * MESSAGES_OF_PEER]; /* who sends the i-th message */
	unsigned int tried, faults;
};

static void print_order(const struct orders *o, size_t length)
{
	size_t sent[ROLE_COUNT] = {0};

	for (size_t i = 0; i < length; i++)
		printf(" %s", message_name(o->types[o->order[i]][sent[o->order[i]]++]));
	printf("\n");
}

static void try_order(struct orders *o, size_t length)
{
	const struct timespec pause = {.tv_nsec = BETWEEN_MS * 1000000l};
	size_t sent[ROLE_COUNT] = {0};
	struct session s;
	bool ready = session_start(&s, o->receiver, o->maps);

	for (size_t i = 0; i < length && ready; i++) {
		const enum role_id from = o->order[i];

		session_send_valid(&s, from, o->types[from][sent[from]++]);
		nanosleep(&pause, NULL);
		session_drain(&s);
	}
	o->tried++;
	/* A message may be refused by a receiver that is ready already. */
	if (!ready || !session_wait_ready(&s) || !session_synchronize(&s) || s.ended) {
		o->faults++;
		printf("FAULT %s: not ready after this order:", o->receiver->title);
		print_order(o, length);
		printf("%s\n", session_log(&s));
	}
	session_close(&s);
}

/* Tries all orders that begin with the first `length` messages of `o->order`, of which `sent` are
 * from each peer. */
static void try_from(struct orders *o, size_t length, size_t *sent)
{
	bool complete = true;

	for (int from = 0; from < ROLE_COUNT; from++) {
		if (sent[from] == o->counts[from])
			continue;
		complete = false;
		o->order[length] = (enum role_id)from;
		sent[from]++;
		try_from(o, length + 1, sent);
		sent[from]--;
	}
	if (complete)
		try_order(o, length);
}

unsigned int stand_in_check_orders(const struct receiver *receiver, struct loader_maps *maps)
{
	struct orders o = {.receiver = receiver, .maps = maps};
	size_t sent[ROLE_COUNT] = {0};

	for (int from = 0; from < ROLE_COUNT; from++)
		o.counts[from] = session_start_messages(receiver, (enum role_id)from, o.types[from],
							MESSAGES_OF_PEER);
	try_from(&o, 0, sent);
	printf("%s: %u orders of the messages at its start\n", receiver->title, o.tried);
	return o.faults;
}
