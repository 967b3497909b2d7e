/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that involve more than one option, or the files that options name. */
#ifndef CONFIG_CONFIG_CHECK_H
#define CONFIG_CONFIG_CHECK_H

#include "config/config_state.h"

/* Checks the whole configuration, once all sources have been applied. Faults are counted in
 * `state`. Files are opened only in mode CONFIG_CHECK: otherwise their users report them. */
void config_check(struct config_state *state);

#endif
