/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of the matrix of attempts and roles: which outcome is expected for which role. The columns
 * are those of attempt.h: loader, manager, opener, worker, exporter, the agent's exporter, and in
 * strict mode opener and worker.
 */
#ifndef TESTS_SECURITY_MATRIX_H
#define TESTS_SECURITY_MATRIX_H

#include "tests/security/attempt.h"

#define ONLY_LOADER(outcome)                                                                       \
	{                                                                                          \
		outcome, KILLED, KILLED, KILLED, KILLED, KILLED, KILLED, KILLED                    \
	}
#define ONLY_OPENER(outcome)                                                                       \
	{                                                                                          \
		KILLED, KILLED, outcome, KILLED, KILLED, KILLED, outcome, KILLED                   \
	}
/* Manager, opener and worker, which start helpers. */
#define WITH_HELPERS(outcome)                                                                      \
	{                                                                                          \
		KILLED, outcome, outcome, outcome, KILLED, KILLED, outcome, outcome                \
	}
#define ONLY_OTLP(outcome)                                                                         \
	{                                                                                          \
		KILLED, KILLED, KILLED, KILLED, KILLED, outcome, KILLED, KILLED                    \
	}
#define BOTH_EXPORTERS(outcome)                                                                    \
	{                                                                                          \
		KILLED, KILLED, KILLED, KILLED, outcome, outcome, KILLED, KILLED                   \
	}
#define ONLY_STRICT_WORKER(outcome)                                                                \
	{                                                                                          \
		KILLED, KILLED, KILLED, KILLED, KILLED, KILLED, KILLED, outcome                    \
	}

/* The parts of the matrix. Each tries its rows under every role's policy. */
void matrix_try_processes(struct tally *tally, const struct fixture *s);
void matrix_try_privileges(struct tally *tally, const struct fixture *s);
void matrix_try_sockets(struct tally *tally, const struct fixture *s);
void matrix_try_socket_options(struct tally *tally, const struct fixture *s);
void matrix_try_bpf(struct tally *tally, const struct fixture *s);
void matrix_try_memory(struct tally *tally, const struct fixture *s);
void matrix_try_files(struct tally *tally, const struct fixture *s);
void matrix_try_descriptors(struct tally *tally, const struct fixture *s);

#endif
