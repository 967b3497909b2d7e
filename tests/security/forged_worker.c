/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker that has been taken over, for tests/e2e/test_forged_worker.py, which lets `bulkhead record` start this program in the worker's place.
 *
 * It speaks the protocol, but wants the memory of every process:
 * - it declares every module to be a language runtime (WATCH), the C library among them;
 * - it asks for the memory of each process that it hears of (OPEN_MEMORY), reported to have a runtime or not;
 * - every 20 ms it asks again for each program of each process, also for those that are no longer executed;
 * - it floods the opener with requests for pids and generations that it has not heard of, as fast as the opener reads them;
 * - it publishes a runtime slot for each process, in which all addresses are code of CPython, so that the kernel side would read its memory.
 *
 * It prints what the test needs to know:
 *	process TGID GENERATION PATH		the manager has announced the program
 *	mapped TGID GENERATION PATH		the manager has reported that the program maps this module
 *	obtained TGID GENERATION		the opener has sent a descriptor of its memory
 *	late TGID GENERATION			the same, more than LATE_ANSWERS answers after a later program of this process was announced
 *	walked TGID				a sample of the process has managed frames, copied memory, or was cut by a walker
 *	answers N				this many requests were answered or refused
 *	refused N, answered N			at the end: how many requests were refused, and how many descriptors were sent
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bpf/shared.h"
#include "common/bpf_ring.h"
#include "role/role.h"
#include "symbolizer/worker/policy.h"

enum {
	PROGRAMS_MAX = 4096,
	MODULES_MAX = 8192,
	TICK_MS = 20,
	PAGE = 4096,
	FLOOD = 500, /* requests per tick, of which no one can be answered */
	/* More than the requests that may be on their way: those of one tick, and what the socket holds. */
	LATE_ANSWERS = 20000,
	ANSWERS_SHOWN = 1000
};

struct program {
	uint32_t tgid, exec_generation;
	unsigned long long ended_at; /* answers that had come when a later program of this process was announced */
	bool ended, gone, mapped, obtained, walked;
};

struct forged_worker {
	struct role role;
	struct program programs[PROGRAMS_MAX];
	unsigned int program_count;
	char *modules[MODULES_MAX]; /* paths by id */
	uint32_t flood_tgid;
	struct bpf_ring ring;
	struct bh_runtime_table *table;
	unsigned long long refused, answered;
};

static struct program *find(struct forged_worker *worker, uint32_t tgid, uint32_t exec_generation)
{
	for (unsigned int i = 0; i < worker->program_count; i++) {
		struct program *p = &worker->programs[i];

		if (p->tgid == tgid && p->exec_generation == exec_generation)
			return p;
	}
	struct program *free = worker->program_count < PROGRAMS_MAX ? &worker->programs[worker->program_count++] : NULL;
	for (unsigned int i = 0; i < worker->program_count; i++) {
		struct program *p = &worker->programs[i];

		if (!free && p->gone)
			free = p;
		if (p->tgid != tgid || p->ended)
			continue;
		p->ended = true;
		p->ended_at = worker->refused + worker->answered;
	}
	if (free)
		*free = (struct program){.tgid = tgid, .exec_generation = exec_generation};
	return free;
}

static void ask(struct forged_worker *worker, uint32_t tgid, uint32_t exec_generation)
{
	const struct msg_open_memory request = {.tgid = tgid, .exec_generation = exec_generation};

	peer_send(&worker->role.peers[ROLE_OPENER], MESSAGE_OPEN_MEMORY, &request, sizeof(request), NULL, 0);
}

/* Publishes a slot for a process: its only range is all of its memory, and belongs to CPython. The block has only zeros. */
static void forge_slot(struct bh_runtime_table *table, uint32_t tgid)
{
	for (uint32_t i = 0; table && i < BH_RUNTIME_PROBES; i++) {
		struct bh_runtime_slot *slot = &table->slots[(bh_runtime_hash(tgid) + i) & ((1u << BH_RUNTIME_SLOTS_BITS) - 1)];

		if (slot->tgid && slot->tgid != tgid)
			continue;
		slot->range_count = 1;
		slot->code_filters[0] = (struct bh_runtime_code_filter){.start = PAGE, .bytes = 1ull << 47};
		slot->tgid = tgid;
		return;
	}
}

/* Prints each process in which a walker has worked. */
static void read_samples(struct forged_worker *worker)
{
	const void *record;
	size_t length;

	while (worker->ring.data && bpf_ring_peek(&worker->ring, &record, &length)) {
		const struct bh_sample *header = record;

		for (unsigned int i = 0; i < worker->program_count && (header->flags || header->reason == BH_REASON_RUNTIME); i++) {
			struct program *p = &worker->programs[i];

			if (p->tgid == header->tgid && !p->walked)
				printf("walked %u\n", p->tgid);
			p->walked |= p->tgid == header->tgid;
		}
		bpf_ring_next(&worker->ring);
	}
}

static void on_tick(void *context, uint32_t events)
{
	struct forged_worker *worker = context;

	(void)events;
	read_samples(worker);
	loop_tick_within(&worker->role.loop, TICK_MS);
	/* Requests that wait here would only delay those that matter to the test. */
	if (worker->role.peers[ROLE_OPENER].queued_bytes)
		return;
	for (unsigned int i = 0; i < worker->program_count; i++) {
		struct program *p = &worker->programs[i];

		if (!p->obtained || p->ended)
			ask(worker, p->tgid, p->exec_generation);
	}
	for (unsigned int i = 0; i < FLOOD; i++) {
		worker->flood_tgid = (worker->flood_tgid + 1) % (1 << 22);
		ask(worker, worker->flood_tgid, worker->flood_tgid % 1000);
	}
}

static int on_maps(void *context, const struct msg_maps *maps, struct message *message)
{
	struct forged_worker *worker = context;

	const struct msg_id cpython = {.id = BH_RUNTIME_CPYTHON};

	if (bpf_ring_init(&worker->ring, message->fds[0], maps->ring_bytes) < 0)
		abort();
	message->fds[0] = -1;
	worker->table = mmap(NULL, sizeof(*worker->table), PROT_READ | PROT_WRITE, MAP_SHARED, message->fds[3], 0);
	if (worker->table == MAP_FAILED)
		abort();
	worker->table->ranges[0] = (struct bh_runtime_range){.start = PAGE, .end = 1ull << 47, .runtime = BH_RUNTIME_CPYTHON};
	for (unsigned int i = 0; i < worker->program_count; i++)
		forge_slot(worker->table, worker->programs[i].tgid);
	peer_send(&worker->role.peers[ROLE_LOADER], MESSAGE_LOAD_RUNTIME, &cpython, sizeof(cpython), NULL, 0);
	worker->role.state = ROLE_READY;
	role_send_status(&worker->role, &(struct msg_status){0});
	return 0;
}

static int on_module(void *context, const struct msg_module *module, struct message *message)
{
	struct forged_worker *worker = context;
	const struct msg_id watch = {.id = module->id};

	(void)message;
	if (module->id < MODULES_MAX && !worker->modules[module->id])
		worker->modules[module->id] = strndup(module->path, sizeof(module->path));
	peer_send(&worker->role.peers[ROLE_MANAGER], MESSAGE_WATCH, &watch, sizeof(watch), NULL, 0);
	return 0;
}

static int on_process(void *context, const struct msg_process *process)
{
	struct forged_worker *worker = context;

	printf("process %u %u %.*s\n", process->tgid, process->exec_generation, (int)sizeof(process->path), process->path);
	find(worker, process->tgid, process->exec_generation);
	forge_slot(worker->table, process->tgid);
	ask(worker, process->tgid, process->exec_generation);
	return 0;
}

static int on_process_gone(void *context, const struct msg_id *process)
{
	struct forged_worker *worker = context;

	for (unsigned int i = 0; i < worker->program_count; i++)
		worker->programs[i].gone |= worker->programs[i].tgid == process->id;
	for (uint32_t i = 0; worker->table && i < 1u << BH_RUNTIME_SLOTS_BITS; i++) {
		if (worker->table->slots[i].tgid == process->id)
			worker->table->slots[i].tgid = 0;
	}
	return 0;
}

static int on_mapped(void *context, const struct msg_mapped *mapped)
{
	struct forged_worker *worker = context;
	struct program *p = find(worker, mapped->tgid, mapped->exec_generation);

	if (p && !p->mapped)
		printf("mapped %u %u %s\n", mapped->tgid, mapped->exec_generation,
		       mapped->module < MODULES_MAX && worker->modules[mapped->module] ? worker->modules[mapped->module] : "?");
	if (p)
		p->mapped = true;
	return 0;
}

static int on_memory(void *context, const struct msg_memory *memory, struct message *message)
{
	struct forged_worker *worker = context;

	if ((worker->refused + worker->answered + 1) % ANSWERS_SHOWN == 0)
		printf("answers %llu\n", worker->refused + worker->answered + 1);
	if (!message->fd_count) {
		worker->refused++;
		return 0;
	}
	worker->answered++;
	struct program *p = find(worker, memory->tgid, memory->exec_generation);
	if (p && p->ended && worker->refused + worker->answered > p->ended_at + LATE_ANSWERS)
		printf("late %u %u\n", memory->tgid, memory->exec_generation);
	if (p && !p->obtained)
		printf("obtained %u %u\n", memory->tgid, memory->exec_generation);
	if (p)
		p->obtained = true;
	return 0;
}

static int on_stop(void *context)
{
	struct forged_worker *worker = context;

	printf("refused %llu, answered %llu\n", worker->refused, worker->answered);
	exit(0);
}

static int ignore(void *context)
{
	(void)context;
	return 0;
}

static int ignore_bytes(void *context, const void *payload, size_t length)
{
	(void)context;
	(void)payload;
	(void)length;
	return 0;
}

#define IGNORE(name, type)                                                                                                                             \
	static int ignore_##name(void *context, const struct type *payload)                                                                            \
	{                                                                                                                                              \
		(void)context;                                                                                                                         \
		(void)payload;                                                                                                                         \
		return 0;                                                                                                                              \
	}
IGNORE(code_memory, msg_code_memory)
IGNORE(configure, msg_configure_worker)
IGNORE(id, msg_id)
IGNORE(kernel_notes, msg_kernel_notes)
IGNORE(kernel_text, msg_kernel_text)
IGNORE(deferred_count, msg_deferred_count)
IGNORE(losses, msg_losses)
IGNORE(resume, msg_resume)

static int ignore_identity(void *context, const struct msg_identity *identity, struct message *message)
{
	(void)context;
	(void)identity;
	(void)message;
	return 0;
}

static int ignore_debug_file(void *context, const struct msg_debug_file *file, struct message *message)
{
	(void)context;
	(void)file;
	(void)message;
	return 0;
}

static int ignore_jit_map(void *context, const struct msg_jit_map *map, struct message *message)
{
	(void)context;
	(void)map;
	(void)message;
	return 0;
}

#define FORGED_HANDLERS(HANDLER, REFUSED)                                                                                                              \
	HANDLER(CONFIGURE_WORKER, ignore_configure)                                                                                                    \
	HANDLER(STOP, on_stop)                                                                                                                         \
	HANDLER(KERNEL_NOTES, ignore_kernel_notes)                                                                                                     \
	HANDLER(WORKER_MAPS, on_maps)                                                                                                                  \
	HANDLER(MODULE, on_module)                                                                                                                     \
	HANDLER(MODULE_GONE, ignore_id)                                                                                                                \
	HANDLER(PROCESS, on_process)                                                                                                                   \
	HANDLER(PROCESS_GONE, on_process_gone)                                                                                                               \
	HANDLER(CODE_MEMORY, ignore_code_memory)                                                                                                       \
	HANDLER(DEBUG_FILE, ignore_debug_file)                                                                                                         \
	HANDLER(JIT_MAP, ignore_jit_map)                                                                                                               \
	HANDLER(MAPPED, on_mapped)                                                                                                                     \
	HANDLER(WATCHED, ignore_id)                                                                                                                    \
	HANDLER(SCANNED, ignore)                                                                                                                       \
	HANDLER(KERNEL_TEXT, ignore_kernel_text)                                                                                                       \
	HANDLER(DEFERRED_COUNT, ignore_deferred_count)                                                                                                 \
	HANDLER(DEFERRED_SAMPLE, ignore_bytes)                                                                                                         \
	HANDLER(DRAINED, ignore_losses)                                                                                                                \
	HANDLER(IDENTITY, ignore_identity)                                                                                                             \
	HANDLER(MEMORY, on_memory)                                                                                                                     \
	HANDLER(RESUME, ignore_resume)                                                                                                                 \
	HANDLER(RESET_REQUEST, ignore)
MESSAGE_HANDLERS(forged_handlers, WORKER, FORGED_HANDLERS);

int main(int argc, char **argv)
{
	static struct forged_worker worker;
	int status = role_start(&worker.role, ROLE_WORKER, &worker_policy, argc, argv);

	/* The supervisor leaves a role nothing but stderr. Here the sandbox would only be in the way: it is not what is tested. */
	dup2(STDERR_FILENO, STDOUT_FILENO);
	setvbuf(stdout, NULL, _IOLBF, 0);
	worker.role.handlers = &forged_handlers;
	worker.role.context = &worker;
	if (!status)
		status = role_meet(&worker.role);
	if (!status)
		status = role_receive(&worker.role, ROLE_CONTROL);
	if (status)
		return status;
	if (role_watch_peers(&worker.role) < 0)
		return EXIT_FAILURE;
	loop_set_tick(&worker.role.loop, TICK_MS, on_tick, &worker);
	return loop_run(&worker.role.loop);
}
