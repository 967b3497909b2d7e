/* SPDX-License-Identifier: Apache-2.0 */
/* Columns that differ from others in few rows. Those of bulkhead-control and of the helper that
 * connects to a Unix socket: what all roles may do or may not do, and these rows; everything else
 * kills them. That of the exporter with this helper: as the agent's exporter, except these rows. */
#include <string.h>

#include "tests/security/matrix.h"

struct row {
	const char *name;
	int outcome;
};

static const struct row control_rows[] = {
    {"pread of identity", WORKS}, /* of descriptors, of which it gets none of processes */
    {"pwrite64", WORKS},
    {"read of a file", WORKS}, /* the same call reads signals */
    {"ftruncate", WORKS},
    {"fcntl(F_ADD_SEALS)", WORKS},
    {"memfd_create", WORKS},
    {"mmap of a descriptor, shared", WORKS},
    {"unlink", EACCES}, /* Landlock allows it in its own directory */
    {"socket(AF_UNIX)", WORKS},
    {"connect", EAFNOSUPPORT}, /* no socket of another family can be made */
    {"sendto", WORKS},
};

static const struct row connector_rows[] = {
    /* It only waits for requests, and passes connections on. */
    {"loop, messages, exit", KILLED},
    {"log lines", KILLED},
    {"log lines to a file", KILLED},
    {"accept4", KILLED},
    {"setsockopt(SO_SNDBUF)", KILLED},
    {"getsockopt(SO_PEERCRED)", KILLED},
    {"getsockopt(SO_PEERSEC)", KILLED},
    {"memory up to the cap", KILLED},
    {"write to stderr", KILLED},
    {"mmap, private", KILLED},
    {"socket(AF_UNIX)", KILLED}, /* of another type than its own */
    {"connect", EAFNOSUPPORT},	 /* no socket of another family can be made */
};

static const struct row local_rows[] = {
    {"socket(AF_INET)", EAFNOSUPPORT},
    {"socket(AF_INET6)", EAFNOSUPPORT},
    {"socket(AF_AX25)", EAFNOSUPPORT},
    {"socket(AF_X25)", EAFNOSUPPORT},
    {"socket(IPPROTO_TCP)", EAFNOSUPPORT},
    {"socket(IPPROTO_UDP)", EAFNOSUPPORT},
    {"socket(SOCK_RAW)", EAFNOSUPPORT},
    {"socket(IPPROTO_ICMP)", EAFNOSUPPORT},
    {"socket(IPPROTO_SCTP)", EAFNOSUPPORT},
    {"socket(IPPROTO_MPTCP), IPv6", EAFNOSUPPORT},
    {"socket(IPPROTO_UDPLITE)", EAFNOSUPPORT},
    {"TCP over loopback", EAFNOSUPPORT},
    {"connect", KILLED},
    {"bind", KILLED},
};

static const struct {
	const struct row *rows;
	size_t count;
	int base; /* the column from which it is derived; -1: what all roles have in common */
} derived[ROLES - MATRIX_COLUMNS] = {
    [CONTROL - MATRIX_COLUMNS] = {control_rows, sizeof(control_rows) / sizeof(control_rows[0]), -1},
    [CONNECTOR -
	MATRIX_COLUMNS] = {connector_rows, sizeof(connector_rows) / sizeof(connector_rows[0]), -1},
    [LOCAL_OTLP - MATRIX_COLUMNS] = {local_rows, sizeof(local_rows) / sizeof(local_rows[0]), OTLP},
};

int matrix_derived(unsigned int column, const struct attempt *a)
{
	const unsigned int i = column - MATRIX_COLUMNS;
	int same = 1;

	for (size_t row = 0; row < derived[i].count; row++) {
		if (!strcmp(derived[i].rows[row].name, a->name))
			return derived[i].rows[row].outcome;
	}
	if (derived[i].base >= 0)
		return a->expected[derived[i].base];
	for (int role = 1; role < MATRIX_COLUMNS; role++)
		same &= a->expected[role] == a->expected[0];
	return same ? a->expected[0] : KILLED;
}
