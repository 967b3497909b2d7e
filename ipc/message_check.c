/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this works: messages.def is expanded twice into one table. A MESSAGE line fills in the name,
 * the sender and the sizes; the RECEIVER lines after it fill in one cell for each role that may
 * receive the message. A role without a RECEIVER line has the empty set of states, so it never
 * accepts the message.
 *
 * Example: the lines
 *	MESSAGE(START, CONTROL, EMPTY)
 *	RECEIVER(START, EXPORTER, IN(READY), ONCE)
 * become
 *	message_rules[MESSAGE_START].senders = 1 << ROLE_CONTROL
 *	message_rules[MESSAGE_START].receivers[ROLE_EXPORTER] = {1 << ROLE_READY, true}
 */
#include "ipc/message_check.h"

/* The names that the column `states` of messages.def uses. */
enum {
	STARTING = MESSAGE_STATE_BIT(ROLE_STARTING),
	CONFIGURED = MESSAGE_STATE_BIT(ROLE_CONFIGURED),
	READY = MESSAGE_STATE_BIT(ROLE_READY),
	SAMPLING = MESSAGE_STATE_BIT(ROLE_SAMPLING),
	STOPPING = MESSAGE_STATE_BIT(ROLE_STOPPING),
	STOPPED = MESSAGE_STATE_BIT(ROLE_STOPPED),
	DONE = MESSAGE_STATE_BIT(ROLE_DONE),
	ANY_STATE = MESSAGE_ANY_STATE
};
#define IN(states) (states)
#define FROM_STATE(state) (ANY_STATE & ~((state)-1))

/* The column `times`. */
#define ONCE true
#define ANY_TIMES false

#define SENDERS_CONTROL ROLE_BIT(ROLE_CONTROL)
#define SENDERS_LOADER ROLE_BIT(ROLE_LOADER)
#define SENDERS_MANAGER ROLE_BIT(ROLE_MANAGER)
#define SENDERS_OPENER ROLE_BIT(ROLE_OPENER)
#define SENDERS_WORKER ROLE_BIT(ROLE_WORKER)
#define SENDERS_EXPORTER ROLE_BIT(ROLE_EXPORTER)
#define SENDERS_ANY_ROLE (ROLE_BIT(ROLE_COUNT) - 1u - ROLE_BIT(ROLE_CONTROL))

/* The column `payload`: least and most bytes, least and most descriptors. */
#define SIZES_EMPTY 0, 0, 0, 0
#define SIZES_STRUCT(type) sizeof(type), sizeof(type), 0, 0
#define SIZES_STRUCT_FDS(type, least, most) sizeof(type), sizeof(type), least, most
#define SIZES_BYTES(least, most) least, most, 0, 0

const struct message_rule message_rules[MESSAGE_TYPE_COUNT] = {
#define MESSAGE(id, sender, payload)                                                               \
	[MESSAGE_##id].name = #id, [MESSAGE_##id].senders = SENDERS_##sender,                      \
	[MESSAGE_##id].sizes = {SIZES_##payload},
#define RECEIVER(id, role, in, times) [MESSAGE_##id].receivers[ROLE_##role] = {(in), (times)},
#include "ipc/messages.def"
};

const char *const message_verdict_texts[MESSAGE_VERDICT_COUNT] = {
    [MESSAGE_ALLOWED] = "its contents are not valid",
    [MESSAGE_UNDEFINED] = "there is no such message",
    [MESSAGE_WRONG_SENDER] = "this role must not send it",
    [MESSAGE_WRONG_RECEIVER] = "it is not for this role",
    [MESSAGE_WRONG_STATE] = "it is not allowed in the present state of the receiver",
    [MESSAGE_REPEATED] = "it came a second time",
    [MESSAGE_WRONG_LENGTH] = "its length is wrong",
    [MESSAGE_WRONG_FDS] = "its number of file descriptors is wrong",
};

enum message_verdict message_check(const struct message_envelope *e)
{
	if (e->type == MESSAGE_NONE || e->type >= MESSAGE_TYPE_COUNT)
		return MESSAGE_UNDEFINED;
	const struct message_rule *rule = &message_rules[e->type];
	if (!(rule->senders & ROLE_BIT(e->from)))
		return MESSAGE_WRONG_SENDER;
	if (!rule->receivers[e->to].states)
		return MESSAGE_WRONG_RECEIVER;
	if (!(rule->receivers[e->to].states & e->states))
		return MESSAGE_WRONG_STATE;
	if (rule->receivers[e->to].once && (e->received & 1ull << e->type))
		return MESSAGE_REPEATED;
	if (e->length < rule->sizes.bytes_least || e->length > rule->sizes.bytes_most)
		return MESSAGE_WRONG_LENGTH;
	if (e->fd_count < rule->sizes.fds_least || e->fd_count > rule->sizes.fds_most)
		return MESSAGE_WRONG_FDS;
	return MESSAGE_ALLOWED;
}

const char *message_name(uint32_t type)
{
	return type > MESSAGE_NONE && type < MESSAGE_TYPE_COUNT ? message_rules[type].name
								: "undefined";
}
