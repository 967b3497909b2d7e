/* SPDX-License-Identifier: Apache-2.0 */
#include "unwinder-mgr/module_table.h"

#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "common/file_read.h"
#include "common/log.h"
#include "common/memory_path.h"
#include "unwinder-mgr/manager.h"
#include "unwinder-mgr/module_state.h"

struct elf_source module_source(struct module *module)
{
	return (struct elf_source){
	    .read = file_read_from, .context = &module->fd, .size = (uint64_t)module->file.st_size};
}

struct work_subject module_subject(const struct module *module)
{
	return (struct work_subject){.device = module->file.st_dev,
				     .inode = module->file.st_ino,
				     .tgid = module->requested_for,
				     .tenant = share_tenant(module->share)};
}

void module_refuse_table(struct manager *manager, struct module *module)
{
	const uint64_t now_ns = clock_monotonic_ns();

	unwind_table_builder_fini(&module->builder, &manager->rules, now_ns);
	share_give_back(module->share, SHARED_RULES, module->rules_added);
	module->rules_added = 0;
	module->refused_ns = now_ns;
	module_set_state(manager, module, MODULE_REFUSED);
}

/* Places the module's rows, lets it wait for a slab, or finds that there is no room. */
static void module_place(struct manager *manager, struct module *module)
{
	const uint64_t now_ns = clock_monotonic_ns();
	int r = -EDQUOT;

	module->bytes_needed = table_bytes_most(&module->builder);
	if (share_allows(module->share, SHARED_SLABS, module->bytes_needed,
			 slabs_room(&manager->slabs)))
		r = table_place(&module->table, &module->builder, &manager->slabs);
	if (r == -EAGAIN) {
		module_set_state(manager, module, MODULE_PLACING);
		return;
	}
	if (r < 0) {
		log_debug("cannot place an unwind table: module=%u bytes=%llu error=%s", module->id,
			  (unsigned long long)module->bytes_needed, strerror(-r));
		module_refuse_table(manager, module);
		shares_log_refusal(&manager->shares, module->share, "bytes");
		return;
	}
	log_debug("unwind table: module=%u bytes=%zu rows=%zu pages=%u rules=%zu", module->id,
		  module->table.bytes, module->builder.row_count, module->table.page_count,
		  module->table.rule_count);
	share_take(module->share, SHARED_SLABS, module->table.bytes);
	unwind_table_builder_fini(&module->builder, &manager->rules, now_ns);
	module_set_state(manager, module, MODULE_READY);
}

bool module_may_be_built(struct manager *manager, const struct module *module)
{
	const struct work_subject subject = module_subject(module);
	struct share *share = module->share;

	if (work_is_quarantined(manager->role.work_page, &subject))
		return false;
	if (!share || time_share_is_left(&share->building, clock_monotonic_ns()))
		return true;
	shares_log_refusal(&manager->shares, share, "time");
	return false;
}

uint32_t module_rules_most(const struct manager *manager, const struct module *module)
{
	return (uint32_t)share_left(module->share, SHARED_RULES, rules_room(&manager->rules));
}

void module_take_rows(struct manager *manager, struct module *module, int error,
		      const struct unwind_table_builder *rows)
{
	if (error) {
		char name[MSG_PATH_BYTES];

		log_debug("no unwind information that could be used: module=%s error=%s",
			  log_escape(module->path, name, sizeof(name)), strerror(-error));
		module_set_state(manager, module,
				 error == -ENOTSUP ? MODULE_COMPAT : MODULE_UNKNOWN);
		if (error == -ENOEXEC && memory_path(module->path)) {
			module->is_memory = module->memory_is_new = true;
			manager->modules.any_memory_is_new = true;
		}
		return;
	}
	module->builder = *rows;
	module->rules_added = rows->rules_added;
	share_take(module->share, SHARED_RULES, module->rules_added);
	if (rows->rules_missing)
		shares_log_refusal(&manager->shares, module->share, "rules");
	module_place(manager, module);
}

void modules_place_waiting(struct manager *manager)
{
	for (struct module *m = manager->modules.all; m && manager->modules.placing; m = m->next) {
		if (m->state == MODULE_PLACING)
			module_place(manager, m);
	}
}
