/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_PREFLIGHT_H
#define CLI_PREFLIGHT_H

#include "cli/options.h"

/* What can be known before anything is started: privileges, kernel, filters (a cgroup's id and
 * depth are filled in). 0, or an exit status after one line that says what is missing and what
 * mends it. */
int preflight_check(struct record_options *options);

#endif
