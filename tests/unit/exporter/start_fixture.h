/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that an exporter's main() calls, all of which succeed unless the test says otherwise,
 * and what it logs. */
#ifndef TESTS_UNIT_EXPORTER_START_FIXTURE_H
#define TESTS_UNIT_EXPORTER_START_FIXTURE_H

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/exit_status.h"
#include "exporter/model/aggregate.h"
#include "role/role.h"

enum {
	LOOP_WAS_RUN = 77 /* returned by the main loop */
};

int exporter_main(int argc, char **argv);

static int aggregate_error; /* a negative errno, or 0 */
static int captured[2];

int role_start(struct role *role, enum role_id self, const struct sandbox_policy *policy, int argc,
	       char **argv)
{
	(void)argc;
	(void)argv;
	role->self = self;
	role->policy = policy;
	return STATUS_DONE;
}

int role_meet(struct role *role)
{
	(void)role;
	return STATUS_DONE;
}

int role_enter_sandbox(struct role *role)
{
	(void)role;
	return STATUS_DONE;
}

int role_watch_peers(struct role *role)
{
	(void)role;
	return 0;
}

int aggregate_init(struct aggregate *aggregate, size_t profile_bytes_max)
{
	(void)aggregate;
	(void)profile_bytes_max;
	return aggregate_error;
}

int loop_run(struct loop *loop)
{
	(void)loop;
	return LOOP_WAS_RUN;
}

static void capture(void)
{
	cr_assert_eq(pipe2(captured, O_NONBLOCK | O_CLOEXEC), 0);
	cr_assert_eq(dup2(captured[1], STDERR_FILENO), STDERR_FILENO);
}

/* Runs main(), and expects this exit status and a line with this text; NULL: nothing is logged. */
static void expect_end(int status, const char *text)
{
	char *arguments[] = {(char *)"exporter", NULL}, buffer[4096];

	cr_expect_eq(exporter_main(1, arguments), status);
	const ssize_t n = read(captured[0], buffer, sizeof(buffer) - 1);
	buffer[n > 0 ? n : 0] = 0;
	if (text)
		cr_expect(strstr(buffer, text), "logged \"%s\"", buffer);
	else
		cr_expect_str_eq(buffer, "");
}

#endif
