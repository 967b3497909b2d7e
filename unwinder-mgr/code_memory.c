/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see code_memory.h. */
#include "unwinder-mgr/code_memory.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "common/hash.h"
#include "common/memory_path.h"
#include "unwinder-mgr/manager.h"

enum {
	FIRST_GAP = 4096, /* that is closed if there are too many areas; then twice as much, ... */
};

/* Returns the label of a mapping, or NULL if it is of a program or library. */
static const char *label_of(const struct mapping *mapping)
{
	if (!mapping->module)
		return "";
	return memory_path(mapping->module->path) ? mapping->module->path : NULL;
}

/* Returns whether the second area can become a part of the first one. */
static bool may_join(const struct msg_code_area *first, const struct msg_code_area *second,
		     uint64_t gap)
{
	return second->start - first->end <= gap &&
	       !memcmp(first->label, second->label, sizeof(first->label));
}

/* Joins areas with gaps of at most this many bytes. */
static void close_gaps(struct msg_code_memory *message, uint64_t gap)
{
	uint32_t kept = 0;

	for (uint32_t i = 1; i < message->count; i++) {
		if (may_join(&message->areas[kept], &message->areas[i], gap))
			message->areas[kept].end = message->areas[i].end;
		else
			message->areas[++kept] = message->areas[i];
	}
	message->count = kept + 1;
}

/* Adds an area above all others. If there is no room even with large gaps, it is left out. */
static void add_area(struct msg_code_memory *message, const struct msg_code_area *area,
		     uint64_t *gap)
{
	if (message->count && may_join(&message->areas[message->count - 1], area, *gap)) {
		message->areas[message->count - 1].end = area->end;
		return;
	}
	while (message->count == MSG_CODE_AREAS_MAX && *gap < UINT64_MAX / 4) {
		*gap = *gap ? 2 * *gap : FIRST_GAP;
		close_gaps(message, *gap);
	}
	if (message->count < MSG_CODE_AREAS_MAX)
		message->areas[message->count++] = *area;
}

void code_memory_collect(const struct mapping_list *list, struct msg_code_memory *message)
{
	uint64_t gap = 0;

	message->count = 0;
	for (size_t i = 0; list && i < list->count; i++) {
		const struct mapping *m = &list->mappings[i];
		struct msg_code_area area = {.start = m->start, .end = m->end};
		const char *label = label_of(m);

		if (!label)
			continue;
		memcpy(area.label, label, strnlen(label, sizeof(area.label) - 1));
		add_area(message, &area, &gap);
	}
	memset(&message->areas[message->count], 0,
	       (MSG_CODE_AREAS_MAX - message->count) * sizeof(message->areas[0]));
}

/* Returns a number that differs for different messages, and is not 0. A process that makes two of
 * its own equal only hides its own code. */
static uint64_t message_hash(const struct msg_code_memory *message, unsigned int reported)
{
	uint64_t hash = hash_combine(reported, message->exec_generation);

	for (uint32_t i = 0; i < message->count; i++) {
		uint64_t words[sizeof(message->areas[0]) / sizeof(uint64_t)];

		memcpy(words, &message->areas[i], sizeof(words));
		for (size_t w = 0; w < sizeof(words) / sizeof(words[0]); w++)
			hash = hash_combine(hash, words[w]);
	}
	return hash | 1;
}

int code_memory_report(struct manager *manager, struct process *process, unsigned int reported)
{
	struct msg_code_memory message = {.tgid = process->tgid,
					  .exec_generation = process->exec_generation};

	code_memory_collect(process->list, &message);
	const uint64_t hash = message_hash(&message, reported);
	if (hash == process->code_memory_sent)
		return 0;
	if (peer_send(&manager->role.peers[ROLE_WORKER], MESSAGE_CODE_MEMORY, &message,
		      sizeof(message), NULL, 0) == -ENOBUFS)
		return -EAGAIN;
	process->code_memory_sent = hash;
	return 0;
}
