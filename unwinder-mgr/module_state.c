/* SPDX-License-Identifier: Apache-2.0 */
#include "unwinder-mgr/module_state.h"

#include "unwinder-mgr/manager.h"

void module_publish(struct modules *modules, const struct module *module)
{
	struct bh_module *slot = &modules->published[module->slot];
	static const uint8_t states[] = {
	    [MODULE_OPENING] = BH_MODULE_PENDING,	 [MODULE_BUILDING] = BH_MODULE_PENDING,
	    [MODULE_PLACING] = BH_MODULE_PENDING,	 [MODULE_READY] = BH_MODULE_READY,
	    [MODULE_UNKNOWN] = BH_MODULE_FRAME_POINTERS, [MODULE_COMPAT] = BH_MODULE_COMPAT,
	    [MODULE_REFUSED] = BH_MODULE_REFUSED,
	};
	const uint32_t state = states[module->state];

	slot->page_slab = module->table.pages.slab;
	slot->page_offset = module->table.pages.offset;
	slot->first_page = module->table.first_page;
	slot->page_count = module->table.page_count;
	__atomic_store_n(&slot->id, module->id, __ATOMIC_RELEASE);
	__atomic_store_n(&slot->state, state, __ATOMIC_RELEASE);
}

void module_set_state(struct manager *manager, struct module *module, enum module_state state)
{
	struct modules *modules = &manager->modules;

	modules->placing += (state == MODULE_PLACING) - (module->state == MODULE_PLACING);
	module->state = state;
	module_publish(modules, module);
	if (!module_is_pending(module))
		modules->generation++;
}
