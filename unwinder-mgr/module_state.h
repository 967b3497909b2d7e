/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a module, and what the walker is told of it. */
#ifndef UNWINDER_MGR_MODULE_STATE_H
#define UNWINDER_MGR_MODULE_STATE_H

#include "unwinder-mgr/module.h"

struct manager;

/* Writes a module's table and state where the walker reads them. The state is written last, because
 * a walker trusts the rest only if the state says so. */
void module_publish(struct modules *modules, const struct module *module);

/* Sets the state and publishes it. Deferred stacks are tried again if the module has become usable,
 * or if it is known that it will not. */
void module_set_state(struct manager *manager, struct module *module, enum module_state state);

/* Returns whether the module's table may still come by itself. */
static inline bool module_is_pending(const struct module *module)
{
	return module->state == MODULE_OPENING || module->state == MODULE_BUILDING ||
	       module->state == MODULE_PLACING;
}

#endif
