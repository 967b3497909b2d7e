/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/limits.h"
#include "common/log.h"
#include "symbolizer/worker/worker.h"

static struct worker_module **module_bucket(struct worker *worker, uint32_t number)
{
	return &worker->modules[number % WORKER_MODULE_BUCKETS];
}

struct worker_module *modules_find(struct worker *worker, uint32_t number)
{
	for (struct worker_module *m = *module_bucket(worker, number); m; m = m->next) {
		if (m->number == number)
			return m;
	}
	return NULL;
}

int modules_add(struct worker *worker, const struct msg_module *message, int fd)
{
	struct worker_module *module = modules_find(worker, message->number);

	if (!module) {
		module = calloc(1, sizeof(*module));
		if (!module)
			return -ENOMEM;
		module->number = message->number;
		module->fd = -1;
		module->next = *module_bucket(worker, message->number);
		*module_bucket(worker, message->number) = module;
	}
	/* Announced again: its file could be had after all. */
	if (fd >= 0) {
		if (module->fd >= 0)
			close(module->fd);
		module->fd = fd;
		module->no_symbols = false;
	}
	memcpy(module->path, message->path, sizeof(module->path));
	module->path[sizeof(module->path) - 1] = 0;
	return 0;
}

static void module_drop_symbols(struct worker *worker, struct worker_module *module)
{
	if (!module->symbols)
		return;
	worker->symbol_bytes -= symbols_bytes(module->symbols);
	symbols_free(module->symbols);
	module->symbols = NULL;
}

void modules_remove(struct worker *worker, uint32_t number)
{
	for (struct worker_module **link = module_bucket(worker, number); *link;
	     link = &(*link)->next) {
		struct worker_module *module = *link;

		if (module->number != number)
			continue;
		*link = module->next;
		module_drop_symbols(worker, module);
		if (module->fd >= 0)
			close(module->fd);
		free(module);
		return;
	}
}

static struct worker_module *modules_least_used(struct worker *worker)
{
	struct worker_module *least = NULL;

	for (int i = 0; i < WORKER_MODULE_BUCKETS; i++) {
		for (struct worker_module *m = worker->modules[i]; m; m = m->next) {
			if (m->symbols && (!least || m->used < least->used))
				least = m;
		}
	}
	return least;
}

/* Evict symbols of other modules until all fit into the limit again. */
static void modules_evict(struct worker *worker, const struct worker_module *keep)
{
	while (worker->symbol_bytes > LIMIT_SYMBOLS_BYTES) {
		struct worker_module *least = modules_least_used(worker);

		if (least == keep)
			break;
		module_drop_symbols(worker, least);
	}
}

const struct symbols *modules_symbols(struct worker *worker, struct worker_module *module)
{
	module->used = ++worker->clock;
	if (module->symbols || module->no_symbols || module->fd < 0)
		return module->symbols;
	int r = symbols_new(module->fd, LIMIT_SYMBOLS_BYTES, &module->symbols);
	if (r < 0) {
		log_debug("no symbols: module=%u error=%s", module->number, strerror(-r));
		module->no_symbols = true;
		return NULL;
	}
	module->ids = *symbols_get_ids(module->symbols);
	worker->symbol_bytes += symbols_bytes(module->symbols);
	modules_evict(worker, module);
	return module->symbols;
}

bool modules_function_start(struct worker *worker, struct worker_module *module, uint64_t offset,
			    uint64_t *start_vaddr)
{
	const size_t before = symbols_bytes(module->symbols);
	const bool found = symbols_find_start(module->symbols, offset, start_vaddr);

	worker->symbol_bytes += symbols_bytes(module->symbols) - before;
	modules_evict(worker, module);
	return found;
}
