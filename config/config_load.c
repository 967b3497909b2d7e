/* SPDX-License-Identifier: Apache-2.0 */
#include "config/config_load.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config/config_check.h"
#include "config/config_environment.h"
#include "config/config_file.h"
#include "config/config_flags.h"
#include "config/config_print.h"
#include "common/cleanup.h"
#include "common/exit_status.h"

static void free_state(struct config_state **state)
{
	if (!*state)
		return;
	for (size_t i = 0; i < (*state)->path_count; i++)
		free((*state)->paths[i]);
	explicit_bzero(*state, sizeof(**state));
	free(*state);
}

static int finish(const struct config_state *state, struct config *config)
{
	if (state->faults > CONFIG_FAULTS_SHOWN)
		fprintf(stderr,
			"bulkhead run: %u more faults are not shown; correct those above first\n",
			state->faults - CONFIG_FAULTS_SHOWN);
	if (state->faults)
		return STATUS_USAGE;
	switch (state->mode) {
	case CONFIG_RUN:
		*config = state->config;
		return 0;
	case CONFIG_CHECK:
		puts("the configuration is valid");
		return -1;
	case CONFIG_DUMP:
		config_print_dump(state, stdout);
		return -1;
	case CONFIG_SAMPLE:
		config_print_sample(stdout);
		return -1;
	case CONFIG_HELP:
		config_print_help(stdout);
		return -1;
	}
	return STATUS_FAILED;
}

int config_load(int argc, char **argv, char *const environment[], struct config *config)
{
	static const struct config_origin built_in = {CONFIG_BUILT_IN, NULL, 0};
	_cleanup_(free_state) struct config_state *state = calloc(1, sizeof(*state));

	if (!state) {
		fprintf(stderr, "bulkhead run: cannot load the configuration: %s\n",
			strerror(ENOMEM));
		return STATUS_FAILED;
	}
	config_flags_read(state, argc, argv);
	if (state->faults || state->mode >= CONFIG_SAMPLE)
		return finish(state, config);
	for (size_t i = 0; i < CONFIG_OPTIONS; i++)
		config_set(state, &config_options[i], config_options[i].built_in, &built_in);
	config_files_apply(state, state->file ? state->file : CONFIG_DEFAULT_FILE,
			   state->file != NULL);
	config_environment_apply(state, environment);
	config_flags_apply(state);
	config_check(state);
	return finish(state, config);
}
