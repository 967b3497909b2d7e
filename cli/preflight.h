/* SPDX-License-Identifier: Apache-2.0 */
/* Checks whether this machine can be profiled, before any role is started. */
#ifndef CLI_PREFLIGHT_H
#define CLI_PREFLIGHT_H

#include "cli/host_checks.h"
#include "cli/options.h"

/* Checks before anything is started: the host, by the checks of `bulkhead doctor`, and the filters
 * of a recording. Fills in the id, the depth and the path of its cgroup. `options` is NULL for an
 * agent, which has no filters. Returns STATUS_DONE, or another exit status after one line that says
 * what is missing and what to do. */
int preflight_check(const struct check_wants *wants, struct record_options *options);

#endif
