/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `bulkhead doctor`: says what this host permits and what is missing. It runs with the rights of
 * the user, starts no role, and changes nothing.
 */
#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

#include <stdio.h>

#include "cli/host_checks.h"

int doctor_main(int argc, char **argv);

/* Judges all checks and prints the results, as text or JSON. Returns the exit status with which
 * `bulkhead record` would be refused, or STATUS_DONE. */
int doctor_report(const struct host_facts *facts, const struct check_wants *wants, bool json,
		  FILE *out);

#endif
