/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/unpin.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "cli/help.h"
#include "cli/pin_directory.h"
#include "common/exit_status.h"

/* That of agent.pin_directory, and of the units. */
#define DEFAULT_DIRECTORY "/sys/fs/bpf/bulkhead"

static int usage(const char *problem)
{
	fprintf(stderr, "bulkhead unpin: %s; see bulkhead unpin --help\n", problem);
	return STATUS_USAGE;
}

/* Returns -1 to go on, or the exit status. */
static int parse(int argc, char **argv, const char **directory)
{
	static const struct option options[] = {
	    {"pin-directory", required_argument, NULL, 'p'},
	    {"help", no_argument, NULL, 'h'},
	    {NULL, 0, NULL, 0},
	};
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (c == 'h') {
			help_print_unpin(stdout);
			return STATUS_DONE;
		}
		if (c != 'p')
			return usage("unknown option, or an option without its value");
		*directory = optarg;
	}
	return optind == argc ? -1 : usage("unexpected argument; only options are possible");
}

/* Says why nothing could be removed. Returns the exit status. */
static int cannot_clear(const char *directory, int error)
{
	switch (error) {
	case -ENOENT:
		printf("nothing is pinned: there is no %s\n", directory);
		return STATUS_DONE;
	case -EBUSY:
		fprintf(stderr,
			"bulkhead unpin: an agent uses %s, and removes its pins when it ends; stop "
			"it first\n",
			directory);
		return STATUS_FAILED;
	case -EMEDIUMTYPE:
		fprintf(stderr, "bulkhead unpin: %s is not in a BPF file system\n", directory);
		return STATUS_FAILED;
	case -EACCES:
	case -EPERM:
		fprintf(stderr, "bulkhead unpin: cannot open %s: %s; run it as root\n", directory,
			strerror(-error));
		return STATUS_NOT_PERMITTED;
	default:
		fprintf(stderr, "bulkhead unpin: cannot open %s: %s\n", directory,
			strerror(-error));
		return STATUS_FAILED;
	}
}

int unpin_main(int argc, char **argv)
{
	const char *directory = DEFAULT_DIRECTORY;
	const int status = parse(argc, argv, &directory);

	if (status >= 0)
		return status;
	const int removed = pin_directory_clear_unused(directory);
	if (removed < 0)
		return cannot_clear(directory, removed);
	if (removed)
		printf("removed %d pins from %s; what they kept has ended\n", removed, directory);
	else
		printf("nothing is pinned in %s\n", directory);
	return STATUS_DONE;
}
