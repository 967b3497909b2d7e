/* SPDX-License-Identifier: Apache-2.0 */
/* What the exporter of a recording logs if it cannot start. */
#include "exporter/convert.h"
#include "exporter/exporter.h"
#include "exporter/handlers.h"
#include "exporter/policy.h"
#include "tests/unit/exporter/start_fixture.h"

const struct sandbox_policy exporter_policy;

void exporter_set_handlers(struct exporter *exporter)
{
	(void)exporter;
}

void exporter_start_ticks(struct exporter *exporter)
{
	(void)exporter;
}

int convert_main(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	return STATUS_USAGE;
}

TestSuite(start_recording, .init = capture);

Test(start_recording, nothing_is_logged_if_nothing_fails)
{
	expect_end(LOOP_WAS_RUN, NULL);
}

Test(start_recording, lack_of_memory_for_the_profile_is_logged)
{
	aggregate_error = -ENOMEM;
	expect_end(STATUS_FAILED, "cannot start an empty profile, so the exporter ends: error=Cannot allocate memory");
}
