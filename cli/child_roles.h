/* SPDX-License-Identifier: Apache-2.0 */
/* The part of child_roles.c that is not in control/roles.h. */
#ifndef CLI_CHILD_ROLES_H
#define CLI_CHILD_ROLES_H

#include "control/roles.h"

/* Removes the run directory, so that nothing can be left in the file system. The names of sockets
 * are not needed once all are connected. */
void roles_remove_run_dir(struct roles *roles);

#endif
