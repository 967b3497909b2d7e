/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "cli/audit.h"
#include "cli/doctor.h"
#include "cli/help.h"
#include "cli/record.h"
#include "cli/run.h"
#include "cli/status.h"
#include "cli/unpin.h"
#include "common/exit_status.h"
#include "common/log.h"

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} commands[] = {
    {"record", record_main}, {"report", report_main}, {"run", run_main},
    {"status", status_main}, {"doctor", doctor_main}, {"audit", audit_main},
    {"unpin", unpin_main},
};

int main(int argc, char **argv)
{
	log_init("bulkhead");
	if (argc > 1 &&
	    (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))) {
		help_print_overview(stdout);
		return STATUS_DONE;
	}
	if (argc > 1 && !strcmp(argv[1], "--version")) {
		puts("bulkhead " BULKHEAD_VERSION);
		return STATUS_DONE;
	}
	for (size_t i = 0; argc > 1 && i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (!strcmp(argv[1], commands[i].name))
			return commands[i].run(argc - 1, argv + 1);
	}
	if (argc > 1)
		fprintf(stderr,
			"bulkhead: unknown command: %s; see bulkhead --help for the commands\n",
			argv[1]);
	else
		fprintf(stderr,
			"bulkhead: a command is missing; see bulkhead --help for the commands\n");
	return STATUS_USAGE;
}
