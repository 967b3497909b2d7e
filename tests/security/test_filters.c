/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows what a role can do once it is sandboxed. The files matrix_*.c are one matrix of attempts
 * (rows) and roles (columns). For each cell a child process drops its privileges exactly as the
 * role does, enters the sandbox of the role's own policy, makes the attempt and reports the
 * outcome, which is compared with the expected one. Needs root; exits with 77 without it.
 *
 *	security_filters [-v]		-v prints every cell
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/security/matrix.h"

int main(int argc, char **argv)
{
	struct tally tally = {.verbose = argc > 1 && !strcmp(argv[1], "-v")};
	struct fixture fixture;

	if (geteuid() != 0) {
		printf("skipped: only root can drop what a role drops\n");
		return EXIT_SKIPPED;
	}
	fixture_init(&fixture);
	status_check(&tally);
	needs_try(&tally, &fixture);
	matrix_try_processes(&tally, &fixture);
	matrix_try_sockets(&tally, &fixture);
	matrix_try_socket_options(&tally, &fixture);
	matrix_try_bpf(&tally, &fixture);
	matrix_try_files(&tally, &fixture);
	matrix_try_descriptors(&tally, &fixture);
	matrix_try_memory(&tally, &fixture);
	matrix_try_privileges(&tally, &fixture);
	landlock_try(&tally, &fixture);
	fixture_fini(&fixture);
	printf("%u cells, %u failures, %u known gaps\n", tally.cells, tally.failures, tally.gaps);
	return tally.failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
