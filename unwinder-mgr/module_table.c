/* SPDX-License-Identifier: Apache-2.0 */
#include "unwinder-mgr/module_table.h"

#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "common/file_read.h"
#include "common/log.h"
#include "unwinder-mgr/manager.h"
#include "unwinder-mgr/module_state.h"

static int module_read(void *context, uint64_t offset, void *buffer, size_t length)
{
	return file_read_exactly(*(const int *)context, offset, buffer, length);
}

struct elf_source module_source(struct module *module)
{
	return (struct elf_source){
	    .read = module_read, .context = &module->fd, .size = (uint64_t)module->file.st_size};
}

struct work_subject module_subject(const struct module *module)
{
	return (struct work_subject){.device = module->file.st_dev,
				     .inode = module->file.st_ino,
				     .tgid = module->requested_for,
				     .uid = share_user(module->share)};
}

/* Lets the stacks in the module's code end there, until its table is built again. */
static void module_refuse_table(struct manager *manager, struct module *module, uint64_t now_ns)
{
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
		module_refuse_table(manager, module, now_ns);
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

/* Reads the module's unwind information, of which its user's share allows as many new rules as
 * there are left. Returns as unwind_table_build. What counts is the time of the CPU: where others
 * keep it busy, this takes longer, and that is not the user's fault. */
static int module_read_rows(struct manager *manager, struct module *module)
{
	const struct elf_source source = module_source(module);
	const uint64_t began_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
	const uint32_t rules_most =
	    (uint32_t)share_left(module->share, SHARED_RULES, rules_room(&manager->rules));
	int r = unwind_table_build(&module->builder, &manager->rules, rules_most, &source);

	if (module->share)
		time_share_spend(&module->share->building,
				 clock_read_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns);
	if (r < 0)
		return r;
	module->rules_added = module->builder.rules_added;
	share_take(module->share, SHARED_RULES, module->rules_added);
	if (module->builder.rules_missing)
		shares_log_refusal(&manager->shares, module->share, "rules");
	return 0;
}

void module_build(struct manager *manager, struct module *module)
{
	const uint64_t now_ns = clock_monotonic_ns();
	const struct work_subject subject = module_subject(module);
	struct share *share = module->share;

	if (work_is_quarantined(manager->role.work_page, &subject)) {
		module_refuse_table(manager, module, now_ns);
		return;
	}
	if (share && !time_share_is_left(&share->building, now_ns)) {
		module_refuse_table(manager, module, now_ns);
		shares_log_refusal(&manager->shares, share, "time");
		return;
	}
	work_begin(manager->role.work_page, &subject);
	int r = module_read_rows(manager, module);
	work_end(manager->role.work_page);
	if (r < 0) {
		char name[MSG_PATH_BYTES];

		log_debug("no unwind information, frame pointers are used: module=%s error=%s",
			  log_escape(module->path, name, sizeof(name)), strerror(-r));
		module_set_state(manager, module, MODULE_UNKNOWN);
		return;
	}
	module_place(manager, module);
}

void modules_build_again(struct manager *manager, uint64_t now_ns)
{
	for (struct module *m = manager->modules.all; m; m = m->next) {
		if (m->state != MODULE_REFUSED || m->fd < 0 ||
		    now_ns < m->refused_ns + LIMIT_REFUSED_RETRY_MS * NS_PER_MS)
			continue;
		m->refused_ns = now_ns;
		if (share_allows(m->share, SHARED_SLABS, m->bytes_needed,
				 slabs_room(&manager->slabs)))
			module_build(manager, m);
	}
}

void modules_place_waiting(struct manager *manager)
{
	for (struct module *m = manager->modules.all; m && manager->modules.placing; m = m->next) {
		if (m->state == MODULE_PLACING)
			module_place(manager, m);
	}
}
