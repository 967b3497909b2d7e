/* SPDX-License-Identifier: Apache-2.0 */
/* Checks whether this machine can be profiled, before any role is started. */
#ifndef CLI_PREFLIGHT_H
#define CLI_PREFLIGHT_H

#include "cli/options.h"

/* Checks before anything is started: privileges, the kernel and the filters. Fills in the id, the
 * depth and the path of the cgroup. Returns STATUS_DONE, or another exit status after one line that
 * says what is missing and what to do. */
int preflight_check(struct record_options *options);

#endif
