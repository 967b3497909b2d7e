/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/worker/handlers.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/map_shared.h"
#include "ipc/losses.h"
#include "symbolizer/worker/debug_files.h"
#include "symbolizer/worker/identity.h"
#include "symbolizer/worker/kallsyms_file.h"
#include "symbolizer/worker/runtimes.h"
#include "symbolizer/worker/sample_check.h"
#include "symbolizer/worker/samples.h"
#include "symbolizer/worker/stack_ids.h"
#include "symbolizer/worker/turn.h"
#include "symbolizer/worker/worker.h"

/* The protocol gives the size of a record without bpf/shared.h. */
_Static_assert(sizeof(struct bh_sample) == MSG_SAMPLE_BYTES_LEAST &&
		   sizeof(struct bh_sample_record) == MSG_SAMPLE_BYTES_MOST,
	       "DEFERRED_SAMPLE carries a struct bh_sample_record");

static int worker_on_maps(void *context, const struct msg_maps *maps, struct message *message)
{
	struct worker *worker = context;

	if (role_has_maps(&worker->role, maps))
		return 0;
	int r = bpf_ring_init(&worker->ring, message->fds[0], maps->ring_bytes);

	if (r < 0)
		return r;
	message->fds[0] = -1;
	void *control = map_shared(message->fds[2], sizeof(struct bh_worker_control),
				   PROT_READ | PROT_WRITE, 0);
	if (!control)
		return -errno;
	worker->control = control;
	const bool had_other_worker = worker->control->generation != 0;
	if (had_other_worker || worker->role.again) {
		bpf_ring_resume(&worker->ring);
		turn_take_over(worker);
	}
	stack_ids_begin(worker);
	worker->batch.sent_samples += worker->control->position;
	deferred_count_resume(worker);
	r = runtimes_init(worker, message->fds[3], had_other_worker);
	if (r < 0)
		return r;
	recognition_begin(worker, maps->runtimes);
	worker->kallsyms.fd = message->fds[1];
	message->fds[1] = -1;
	r = loop_add(&worker->role.loop, worker->ring.fd, EPOLLIN | EPOLLET, turn_on_ring, worker);
	if (r < 0)
		return r;
	worker->role.state = ROLE_CONFIGURED;
	return 0;
}

static int worker_on_kernel_notes(void *context, const struct msg_kernel_notes *message)
{
	kernel_notes_read(context, message);
	return 0;
}

static int worker_on_configure(void *context, const struct msg_configure_worker *config)
{
	return identity_configure(context, config);
}

static int worker_on_stop(void *context)
{
	struct worker *worker = context;

	worker->role.state = ROLE_STOPPING;
	loop_tick_within(&worker->role.loop, 0);
	return 0;
}

static int worker_on_module(void *context, const struct msg_module *module, struct message *message)
{
	struct worker *worker = context;
	int fd = message->fd_count ? message->fds[0] : -1;

	if (module->id == MODULES_KERNEL)
		return -EPROTO;
	if (modules_add(&worker->modules, module, fd) < 0)
		return 0;
	if (fd >= 0)
		message->fds[0] = -1;
	recognition_on_module(worker, modules_find(&worker->modules, module->id));
	/* Otherwise the kernel side would refer to stacks without its names for 17 s. */
	if (worker->modules.missed)
		stack_ids_send_again(worker);
	worker->modules.missed = false;
	return 0;
}

static int worker_on_module_gone(void *context, const struct msg_id *module)
{
	struct worker *worker = context;
	const struct module *gone = modules_find(&worker->modules, module->id);

	if (module->id == MODULES_KERNEL)
		return -EPROTO;
	if (gone) {
		recognition_on_module_gone(worker, gone);
		runtimes_on_module_gone(worker, gone);
	}
	modules_remove(&worker->modules, module->id);
	return 0;
}

static int worker_on_process(void *context, const struct msg_process *process)
{
	struct worker *worker = context;

	processes_announce(&worker->processes, process);
	runtimes_on_process(worker, process);
	return 0;
}

static int worker_on_process_gone(void *context, const struct msg_id *process)
{
	struct worker *worker = context;

	processes_remove(&worker->processes, process->id);
	runtimes_on_process_gone(worker, process->id);
	jit_maps_on_process_gone(worker, process->id);
	return 0;
}

static int worker_on_mapped(void *context, const struct msg_mapped *mapped)
{
	runtimes_on_mapped(context, mapped);
	return 0;
}

static int worker_on_code_memory(void *context, const struct msg_code_memory *memory)
{
	runtimes_on_code_memory(context, memory);
	return 0;
}

static int worker_on_debug_file(void *context, const struct msg_debug_file *file,
				struct message *message)
{
	if (file->place != MSG_DEBUG_KERNEL_OF_HOST)
		debug_files_on_answer(context, message);
	else if (kernel_debug_on_answer(context, message))
		stack_ids_request_reset(context);
	return 0;
}

static int worker_on_jit_map(void *context, const struct msg_jit_map *map, struct message *message)
{
	(void)map;
	jit_maps_on_answer(context, message);
	return 0;
}

static int worker_on_watched(void *context, const struct msg_id *module)
{
	(void)module;
	runtimes_on_watched(context);
	return 0;
}

static int worker_on_memory(void *context, const struct msg_memory *memory, struct message *message)
{
	(void)memory;
	/* Otherwise the kernel side would refer to stacks without these names for 17 s. */
	if (runtimes_on_memory(context, message))
		stack_ids_send_again(context);
	return 0;
}

static int worker_on_identity(void *context, const struct msg_identity *identity,
			      struct message *message)
{
	(void)identity;
	identity_on_answer(context, message);
	return 0;
}

static int worker_on_scanned(void *context)
{
	struct worker *worker = context;

	worker->scanned_ns = clock_monotonic_ns();
	return 0;
}

static int worker_on_kernel_text(void *context, const struct msg_kernel_text *text)
{
	kallsyms_file_on_text(context, text);
	return 0;
}

static int worker_on_deferred_count(void *context, const struct msg_deferred_count *count)
{
	deferred_count_told(context, count->stacks);
	return 0;
}

static int worker_on_deferred_sample(void *context, const void *payload, size_t length)
{
	turn_on_deferred(context, payload, length);
	return 0;
}

static int worker_on_drained(void *context, const struct msg_losses *losses)
{
	struct worker *worker = context;

	losses_add(&worker->losses, losses);
	worker->manager_drained = true;
	loop_tick_within(&worker->role.loop, 0);
	return 0;
}

static int worker_on_resume(void *context, const struct msg_resume *resume)
{
	struct worker *worker = context;

	if (!resend_buffer_resume(&worker->batch.resend, &worker->role.peers[ROLE_EXPORTER],
				  resume->sequence)) {
		log_info("a restarted exporter connected and lacks earlier batches; resending all "
			 "definitions");
		stack_ids_reset(worker);
	}
	if (worker->role.state == ROLE_STOPPED)
		turn_send_end(worker);
	loop_tick_within(&worker->role.loop, 0);
	return 0;
}

static int worker_on_reset_request(void *context)
{
	stack_ids_request_reset(context);
	return 0;
}

#define WORKER_HANDLERS(HANDLER, REFUSED)                                                          \
	HANDLER(CONFIGURE_WORKER, worker_on_configure)                                             \
	HANDLER(STOP, worker_on_stop)                                                              \
	HANDLER(KERNEL_NOTES, worker_on_kernel_notes)                                              \
	HANDLER(WORKER_MAPS, worker_on_maps)                                                       \
	HANDLER(MODULE, worker_on_module)                                                          \
	HANDLER(MODULE_GONE, worker_on_module_gone)                                                \
	HANDLER(PROCESS, worker_on_process)                                                        \
	HANDLER(PROCESS_GONE, worker_on_process_gone)                                              \
	HANDLER(DEBUG_FILE, worker_on_debug_file)                                                  \
	HANDLER(JIT_MAP, worker_on_jit_map)                                                        \
	HANDLER(CODE_MEMORY, worker_on_code_memory)                                                \
	HANDLER(MAPPED, worker_on_mapped)                                                          \
	HANDLER(WATCHED, worker_on_watched)                                                        \
	HANDLER(SCANNED, worker_on_scanned)                                                        \
	HANDLER(KERNEL_TEXT, worker_on_kernel_text)                                                \
	HANDLER(DEFERRED_COUNT, worker_on_deferred_count)                                          \
	HANDLER(DEFERRED_SAMPLE, worker_on_deferred_sample)                                        \
	HANDLER(DRAINED, worker_on_drained)                                                        \
	HANDLER(IDENTITY, worker_on_identity)                                                      \
	HANDLER(MEMORY, worker_on_memory)                                                          \
	HANDLER(RESUME, worker_on_resume)                                                          \
	HANDLER(RESET_REQUEST, worker_on_reset_request)
MESSAGE_HANDLERS(worker_handlers, WORKER, WORKER_HANDLERS);

static void worker_after_message(void *context)
{
	turn_check_ready(context);
}

/* The other roles may be started again. */
static bool worker_on_gone(void *context, enum role_id other, bool ended)
{
	struct worker *worker = context;

	if (other == ROLE_CONTROL || (other == ROLE_LOADER && !ended))
		return false;
	if (other == ROLE_EXPORTER)
		resend_buffer_disconnect(&worker->batch.resend);
	return true;
}

static void worker_on_connected(void *context, enum role_id other)
{
	struct worker *worker = context;

	if (other == ROLE_OPENER)
		runtimes_ask_again(worker);
	if (other == ROLE_LOADER)
		runtimes_request_again(worker);
}

void worker_set_handlers(struct worker *worker)
{
	worker->role.on_gone = worker_on_gone;
	worker->role.on_connected = worker_on_connected;
	worker->role.handlers = &worker_handlers;
	worker->role.context = worker;
	worker->role.after_message = worker_after_message;
}
