/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration files. */
#ifndef CONFIG_CONFIG_FILE_H
#define CONFIG_CONFIG_FILE_H

#include "config/config_state.h"

enum {
	CONFIG_FILE_BYTES = 1 << 20, /* the longest file that is accepted */
};

/* Sets the options in the file at `path`, and in the files of conf.d/ in the same directory.
 * `required`: a missing file is a fault. */
void config_files_apply(struct config_state *state, const char *path, bool required);

#endif
