/* SPDX-License-Identifier: Apache-2.0 */
/* Flags of `bulkhead run`. */
#ifndef CONFIG_CONFIG_FLAGS_H
#define CONFIG_CONFIG_FLAGS_H

#include "config/config_state.h"

/* Reads the arguments into `state`: the mode, the file, and a text for each option that has a flag.
 * Nothing is set yet, since files and environment are applied before flags. */
void config_flags_read(struct config_state *state, int argc, char **argv);

/* Sets the options that have a flag. */
void config_flags_apply(struct config_state *state);

#endif
