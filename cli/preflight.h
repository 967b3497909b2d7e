/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_PREFLIGHT_H
#define CLI_PREFLIGHT_H

#include "cli/options.h"

/* What can be known before anything is started: privileges, kernel, filters. 0, or an exit status after one line that says what is missing and what mends
 * it. */
int preflight_check(const struct record_options *options);

/* A cgroup (v2) by path, absolute below its mount or relative to it: its id and depth. 0 or an exit status after a message. */
int preflight_cgroup(const char *path, uint64_t *id, uint32_t *level);

#endif
