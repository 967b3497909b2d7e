/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see kernel_debug.h. */
#include "symbolizer/worker/kernel_debug.h"

#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "common/frame_kind.h"
#include "symbolizer/namer/named_frames.h"
#include "symbolizer/worker/debug_files.h"
#include "symbolizer/worker/worker.h"

static bool may_ask(const struct kernel_debug *debug)
{
	const bool open =
	    debug->state == KERNEL_DEBUG_UNKNOWN || debug->state == KERNEL_DEBUG_ASKED;

	return open && debug->build_id_length && debug_files_may_retry(debug->asked_ns);
}

void kernel_debug_ask(struct worker *worker)
{
	struct kernel_debug *debug = &worker->kernel_debug;
	struct msg_open_debug request = {.module = MODULES_KERNEL,
					 .place = MSG_DEBUG_KERNEL_OF_HOST,
					 .first = debug->next,
					 .length = debug->build_id_length};

	if (!may_ask(debug))
		return;
	memcpy(request.build_id, debug->build_id, sizeof(request.build_id));
	const int r = peer_send(&worker->role.peers[ROLE_OPENER], MESSAGE_OPEN_DEBUG, &request,
				sizeof(request), NULL, 0);
	debug->state = r < 0 ? KERNEL_DEBUG_UNKNOWN : KERNEL_DEBUG_ASKED;
	debug->asked_ns = clock_monotonic_ns();
	debug->hold = (struct hold){0};
}

/* Finds the symbols of the file, and gives it up if it is not that of the kernel: then the next one
 * is asked for. Returns -ESTALE in this case; otherwise as modules_get_symbols(). */
static int get_symbols(struct worker *worker, struct module *module, struct symbols **symbols)
{
	const int r =
	    modules_get_symbols(&worker->modules, module, !worker_is_behind(worker), symbols);

	if (r < 0 || !strcmp(module->ids.gnu_build_id, worker->kernel_debug.ids.gnu_build_id))
		return r;
	modules_remove(&worker->modules, MODULES_KERNEL);
	worker->kernel_debug.state = KERNEL_DEBUG_UNKNOWN;
	worker->kernel_debug.asked_ns = 0;
	kernel_debug_ask(worker);
	return -ESTALE;
}

bool kernel_debug_on_answer(struct worker *worker, struct message *message)
{
	static const struct msg_module vmlinux = {.id = MODULES_KERNEL, .path = "vmlinux"};
	struct kernel_debug *debug = &worker->kernel_debug;
	struct msg_debug_file answer;
	struct symbols *symbols;

	if (debug->state != KERNEL_DEBUG_ASKED)
		return false;
	memcpy(&answer, message->payload, sizeof(answer));
	debug_files_end_hold(worker, &debug->hold);
	loop_tick_within(&worker->role.loop, 0);
	if (!message->fd_count) {
		debug->state = answer.error == ENOENT ? KERNEL_DEBUG_MISSING : KERNEL_DEBUG_UNKNOWN;
		return false;
	}
	debug->next = answer.path < UINT32_MAX ? answer.path + 1 : UINT32_MAX;
	if (modules_add(&worker->modules, &vmlinux, message->fds[0]) < 0) {
		debug->state = KERNEL_DEBUG_UNKNOWN;
		return false;
	}
	message->fds[0] = -1;
	debug->state = KERNEL_DEBUG_USED;
	/* Usually no sample waits yet. */
	const int r = get_symbols(worker, modules_find(&worker->modules, MODULES_KERNEL), &symbols);
	return r != -ESTALE && debug->missed;
}

/* Finds where an address is in the file. Returns false if the function of the symbol is not where
 * it should be. */
static bool find_in_file(const struct worker *worker, const struct symbols *symbols,
			 uint64_t address, const struct kernel_symbol *kernel_symbol,
			 uint64_t *vaddr, uint64_t *file_offset)
{
	const uint64_t text = kernel_symbols_text(worker->kernel);
	uint64_t start_vaddr, start_offset;
	struct symbol symbol;

	if (!text || address < text || !symbols_code_start(symbols, &start_vaddr, &start_offset))
		return false;
	*file_offset = start_offset + (address - text);
	if (!symbols_find(symbols, *file_offset, &symbol) ||
	    symbol.start_vaddr - start_vaddr != kernel_symbol->start - text)
		return false;
	*vaddr = start_vaddr + (address - text);
	return true;
}

/* Has the sample wait for the opener's answer, if it can: then returns -EINPROGRESS. Otherwise its
 * frame is described without the file. */
static int do_without(struct worker *worker)
{
	struct kernel_debug *debug = &worker->kernel_debug;

	if (debug->state == KERNEL_DEBUG_ASKED && debug_files_hold_sample(worker, &debug->hold))
		return -EINPROGRESS;
	debug->missed = true;
	return -ESTALE;
}

int kernel_debug_find_frames(struct worker *worker, uint64_t address,
			     const struct kernel_symbol *symbol, uint64_t *vaddr,
			     struct named_frames *names)
{
	struct module *module = modules_find(&worker->modules, MODULES_KERNEL);
	struct symbols *symbols;
	uint64_t file_offset;

	if (!module)
		kernel_debug_ask(worker);
	int r = module ? get_symbols(worker, module, &symbols) : -ESTALE;
	if (r == -ESTALE)
		r = do_without(worker);
	if (r == -EINPROGRESS)
		return r;
	if (r < 0)
		return r == -EAGAIN ? NAMES_SOON : r == -ECANCELED ? NAMES_LATER : NAMES_FINAL;
	if (!find_in_file(worker, symbols, address, symbol, vaddr, &file_offset))
		return NAMES_FINAL;
	r = modules_find_frames(&worker->modules, module, file_offset, names);
	/* Nobody searches further files of it. */
	if (r == -EINPROGRESS)
		modules_do_without(module);
	if (r < 0)
		names->count = 0;
	names->kind = FRAME_KIND_KERNEL;
	return r == -EAGAIN || r == -EINPROGRESS ? NAMES_SOON : NAMES_FINAL;
}
