/* SPDX-License-Identifier: Apache-2.0 */
/* OpenTelemetry's environment variables. */
#ifndef CONFIG_CONFIG_ENVIRONMENT_H
#define CONFIG_CONFIG_ENVIRONMENT_H

#include "config/config_state.h"

/* Sets the options that a variable names; `environment` is as `environ`. */
void config_environment_apply(struct config_state *state, char *const environment[]);

#endif
