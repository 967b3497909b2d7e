/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares what a role holds open with its policy.
 *
 * How this works. The audit duplicates each descriptor of the role by pidfd_getfd(2), asks the
 * kernel what it refers to, and closes it again. So it sees the same open file as the role does,
 * and no text that the role could have chosen decides. Each descriptor is of one kind of enum
 * sandbox_descriptor. The role may hold the kinds of its policy; in addition, sockets must be
 * connected to the roles of its policy, and maps must be some that the loader holds too.
 *
 * The tags of BPF programs are printed but not compared: the loader adapts the programs to the
 * types of the running kernel, and with that their instructions and tags. Instead, only the loader
 * may hold programs, which must be for perf events, and it cannot be sent one by anybody, because
 * no message has one (ipc/messages.def).
 *
 * Example: the worker holds descriptor 7, a socket. SO_PEERCRED names pid 4715, the loader of the
 * same recording, which is one of its peers. Descriptor 9 is a socket of AF_INET, which is of kind
 * DESCRIPTOR_NETWORK. The policy of the worker does not have it: this is a difference.
 */
#ifndef CLI_AUDIT_DESCRIPTORS_H
#define CLI_AUDIT_DESCRIPTORS_H

#include <stddef.h>
#include <stdint.h>

#include "cli/audit_find.h"
#include "cli/audit_judge.h"
#include "cli/audit_report.h"

/* What the supervisor and the loader of a recording or agent hold. */
struct audit_held {
	struct audit_file_id *files; /* of the supervisor */
	size_t file_count, file_capacity;
	struct audit_file_id log; /* its standard error */
	uint32_t *maps;		  /* ids of the loader's BPF maps */
	size_t map_count, map_capacity;
};

/* Reads what the supervisor and the loader hold, before the roles are judged. Returns 0 or a
 * negative errno. */
int audit_held_read(struct audit_held *held, const struct audit_instance *instance);

void audit_held_fini(struct audit_held *held);

/* Judges all descriptors of a role or helper: its sockets, its BPF objects, and the others. */
void audit_judge_descriptors(struct audit_report *report, const struct audit_subject *subject,
			     const struct audit_member *member,
			     const struct audit_instance *instance, const struct audit_held *held,
			     uid_t uid);

#endif
