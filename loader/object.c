/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The BPF object: programs and maps.
 *
 * How this works. The compiled object is part of the loader (bulkhead.skel.h). Before it is loaded,
 * the configuration becomes constants of its read-only data, so that the verifier removes what this
 * recording does not use, and the maps get the sizes that this machine needs. Slabs are maps of
 * their own inside a map of maps, made when the manager asks. Each role then gets the descriptors
 * of just the maps that it uses.
 *
 * The program of a language runtime is loaded when the worker has found the first file of that
 * runtime on this host. It is in an object of its own, which uses the same maps.
 *
 * In an agent, maps and programs are pinned. A loader that is started again, while the other roles
 * go on, opens the same object with the pinned maps instead of new ones, and loads no program.
 *
 * Example: `record -F 99 --user` on 4 CPUs. want_kernel = 0 removes the kernel stacks from the
 * program. The ring `samples` must hold 4 s of samples: 4 CPUs x 99 Hz x 4 s x 384 bytes =
 * 608 KB, rounded up to 1 MiB.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "bulkhead.skel.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/exit_status.h"
#include "common/hash.h"
#include "common/log.h"
#include "common/runtimes.h"
#include "common/time_units.h"
#include "loader/adoption.h"
#include "loader/loader.h"
#include "loader/runtime_programs.h"
#include "loader/user_reads.h"

enum {
	/* The worker is woken when the ring `samples` holds this much from all CPUs together. */
	WAKEUP_BYTES = 256 << 10,
};

/* Logs libbpf's messages, line by line. The verifier's log is one message of many lines, and the
 * cause of a failure is at its end. */
static int object_print(enum libbpf_print_level level, const char *format, va_list args)
{
	_cleanup_free_ char *text = NULL;

	if (level == LIBBPF_DEBUG)
		return 0;
	if (vasprintf(&text, format, args) < 0) {
		text = NULL;
		return 0;
	}
	for (char *saved, *line = strtok_r(text, "\n", &saved); line;
	     line = strtok_r(NULL, "\n", &saved))
		log_debug("%s", line);
	return 0;
}

/* Returns the size of a ring that holds `ms` milliseconds of records of `record_bytes` bytes while
 * all CPUs are busy: a power of two from `least` to `most`. */
static uint32_t ring_bytes(const struct loader *loader, uint64_t record_bytes, uint64_t ms,
			   uint32_t least, uint32_t most)
{
	const uint64_t wanted = (uint64_t)loader->possible_cpus * loader->config.frequency_hz *
				record_bytes * ms / MS_PER_S;
	uint32_t bytes = least;

	while (bytes < most && bytes < wanted)
		bytes *= 2;
	return bytes;
}

/* Sets the sizes of the rings. The worker may be delayed for 4 s although every stack is different,
 * even if copies of memory have taken the half of the ring that is not for samples alone
 * (bpf/sample/copy.h). A stack of two hundred managed frames is as large as fifteen usual ones, so
 * there is room for 0.3 s of those: a few processes that make readers of their memory wait may
 * delay the worker for that long. The manager may be delayed for 0.5 s while it builds a large
 * table. */
static void object_size_rings(struct loader *loader)
{
	enum {
		/* A stack of 40 frames; the median of real programs is below that. */
		STACK_BYTES = sizeof(struct bh_sample) + 40 * sizeof(uint64_t)
	};
	const struct bulkhead_bpf *o = loader->object;

	bpf_map__set_max_entries(o->maps.samples,
				 ring_bytes(loader, 2 * STACK_BYTES, 4000, 512 << 10, 32 << 20));
	bpf_map__set_max_entries(o->maps.deferred, ring_bytes(loader, sizeof(struct bh_deferred),
							      500, 512 << 10, 8 << 20));
}

/* Returns the wanted runtimes; without user frames there are none. */
static uint32_t wanted_runtimes(const struct loader *loader)
{
	return loader->config.want_user ? loader->config.runtimes : 0;
}

/* Returns those that have a walker. */
static uint32_t object_runtimes(const struct loader *loader)
{
	return wanted_runtimes(loader) & BH_RUNTIMES_ALL;
}

static void object_configure(struct loader *loader)
{
	struct bulkhead_bpf *o = loader->object;
	const struct msg_configure_loader *c = &loader->config;

	o->rodata->filter_pids = c->target_count > 0;
	o->rodata->filter_tid = c->tid;
	o->rodata->filter_cgroup = c->cgroup_id;
	o->rodata->filter_cgroup_level = c->cgroup_level;
	o->rodata->filter_comm = c->comm[0] != 0;
	for (int i = 0; i < BH_COMM_BYTES; i++)
		o->rodata->filter_comm_name[i] = c->comm[i];
	o->rodata->want_kernel = c->want_kernel;
	o->rodata->want_user = c->want_user;
	o->rodata->wakeup_bytes = WAKEUP_BYTES / (uint32_t)loader->possible_cpus;
	bpf_program__set_autoload(o->progs.bulkhead_fork, c->follow_forks);
	bpf_program__set_autoload(o->progs.bulkhead_free, c->follow_forks);
	bpf_map__set_max_entries(o->maps.counters, (uint32_t)loader->possible_cpus);
	if (object_runtimes(loader))
		bpf_map__set_max_entries(o->maps.method_caches, (uint32_t)loader->possible_cpus);
	object_size_rings(loader);
	/* The map is preallocated, so it is only as large as this filter can need. */
	if (c->target_count)
		bpf_map__set_max_entries(o->maps.pid_filter,
					 c->follow_forks ? BH_PID_FILTER_MAX : c->target_count);
}

/* Sets the key of the stack hash, so that a program cannot provoke collisions, and the generation
 * of the maps. */
static bool object_make_keys(struct loader *loader)
{
	uint64_t keys[2];

	if (getrandom(keys, sizeof(keys), 0) != (ssize_t)sizeof(keys)) {
		log_error("cannot get random bytes, so nothing is sampled: error=%s",
			  strerror(errno));
		return false;
	}
	loader->object->rodata->stack_key = keys[0] | 1;
	loader->generation = keys[1] | 1;
	return true;
}

/* Explains why the object cannot be loaded. Returns the exit status. */
static int object_load_failed(int error)
{
	switch (error) {
	case -EPERM:
	case -EACCES:
		log_error("the kernel refused the BPF programs: %s; CAP_BPF and CAP_PERFMON are "
			  "required, and no LSM may forbid them",
			  strerror(-error));
		return STATUS_NOT_PERMITTED;
	case -ESRCH:
	case -ENOENT:
		log_error(
		    "the kernel lacks BTF (/sys/kernel/btf/vmlinux), or a structure in it: %s; "
		    "it must be built with CONFIG_DEBUG_INFO_BTF",
		    strerror(-error));
		return STATUS_KERNEL;
	default:
		log_error(
		    "the kernel cannot load the BPF programs: %s; Linux 5.10 or later with BTF "
		    "is required, under lockdown=confidentiality 5.15 or later "
		    "(BULKHEAD_LOG=debug shows the verifier's log)",
		    strerror(-error));
		return STATUS_KERNEL;
	}
}

/* Creates a slab and puts it into the map of slabs. Returns its descriptor or a negative errno. The
 * manager says which index is next, because the last loader may have ended between the two steps
 * that make a slab the manager's. */
static int object_make_slab(struct loader *loader, uint32_t index)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_MMAPABLE);

	if (index >= BH_SLABS_MAX)
		return -ENOSPC;
	_cleanup_close_ int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "slab", sizeof(uint32_t),
						BH_SLAB_BYTES, 1, &options);
	if (fd < 0)
		return fd;
	int r = bpf_map_update_elem(bpf_map__fd(loader->object->maps.slabs), &index, &fd, BPF_ANY);
	if (r < 0)
		return r;
	if (loader->slab_count <= index)
		loader->slab_count = index + 1;
	return TAKE_FD(fd);
}

int object_add_slab(struct loader *loader, uint32_t index)
{
	struct msg_id id = {.id = index};
	_cleanup_close_ int fd = object_make_slab(loader, index);

	if (fd < 0)
		log_debug("cannot create another slab: index=%u error=%s", index, strerror(-fd));
	return peer_send(&loader->role.peers[ROLE_MANAGER], MESSAGE_SLAB, &id, sizeof(id), &fd,
			 fd >= 0);
}

/* The exporter maps the counters by the protocol's description, without bpf/shared.h. */
_Static_assert(sizeof(struct msg_counters) == sizeof(struct bh_counters) &&
		   (int)MSG_COUNTER_TAKEN == (int)BH_COUNTER_TAKEN &&
		   (int)MSG_COUNTER_LOST_RING_FULL == (int)BH_COUNTER_LOST_RING_FULL,
	       "EXPORTER_MAPS describes the BPF map `counters`");

/* Maps the counters. Freezing the map forbids writes from user space, so that every other role can
 * only map it for reading as well. */
static int object_map_counters(struct loader *loader)
{
	int fd = bpf_map__fd(loader->object->maps.counters);
	size_t bytes = (size_t)loader->possible_cpus * sizeof(struct bh_counters);

	/* That of the last loader is frozen. */
	if (!loader->adopted && bpf_map_freeze(fd) < 0)
		return -errno;
	void *at = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return -errno;
	loader->counters = at;
	return 0;
}

/* Writes the process filter and the last program of each sample. Returns 0 or a negative errno. */
static int object_fill(struct loader *loader)
{
	const struct bulkhead_bpf *o = loader->object;
	const uint32_t finish = BH_PROGRAM_FINISH;
	const int finish_fd = bpf_program__fd(o->progs.bulkhead_finish);
	const int programs = bpf_map__fd(o->maps.programs);
	const uint8_t one = 1;
	int r = bpf_map_update_elem(programs, &finish, &finish_fd, BPF_ANY);

	for (uint32_t i = 0; i < loader->config.target_count && r >= 0; i++)
		r = bpf_map_update_elem(bpf_map__fd(o->maps.pid_filter), &loader->config.targets[i],
					&one, BPF_ANY);
	return r;
}

/* libbpf opens files when an object uses maps of another one. So the objects of all wanted runtimes
 * are opened before the sandbox is entered, which takes less than a millisecond each; what takes
 * long is the verifier's work when a program is loaded. */
static int object_open_runtimes(struct loader *loader)
{
	for (uint32_t i = 1; i < BH_RUNTIME_COUNT; i++) {
		if (!(object_runtimes(loader) >> i & 1) ||
		    (loader->adopted && runtime_program_is_published(i, loader->object->obj)))
			continue;
		int r = runtime_program_open(i, loader->object->obj, &loader->runtimes[i]);

		if (r < 0)
			return r;
	}
	return 0;
}

/* Prepares what the loaded programs need: the contents of maps, the programs that follow forks, and
 * the programs of language runtimes. Returns 0, or an exit status after a message. */
static int object_prepare(struct loader *loader)
{
	int r = object_fill(loader);

	if (!r)
		r = object_map_counters(loader);
	if (r < 0) {
		log_error("cannot fill or map the BPF maps, so nothing is sampled: error=%s",
			  strerror(-r));
		return STATUS_FAILED;
	}
	if (loader->config.follow_forks)
		r = bulkhead_bpf__attach(loader->object);
	if (r < 0) {
		log_error("cannot attach the BPF programs that follow forks, so nothing is "
			  "sampled: error=%s",
			  strerror(-r));
		return STATUS_KERNEL;
	}
	r = object_open_runtimes(loader);
	if (r < 0) {
		log_error("cannot open the BPF programs of the language runtimes, so nothing is "
			  "sampled: error=%s",
			  strerror(-r));
		return STATUS_FAILED;
	}
	return STATUS_DONE;
}

/* In the header of the object each file that asks for it would get a copy. */
static uint64_t object_hash(void)
{
	size_t length;
	const void *bytes = bulkhead_bpf__elf_bytes(&length);

	return hash_bytes(0, bytes, length);
}

/* Opens the object and configures it. Returns 0 or a negative errno. */
static int object_open(struct loader *loader)
{
	loader->object = bulkhead_bpf__open();
	if (!loader->object)
		return -errno;
	/* events.c attaches the first one to an event of each CPU, and it calls the others. */
	bpf_program__set_autoattach(loader->object->progs.bulkhead_sample, false);
	bpf_program__set_autoattach(loader->object->progs.bulkhead_finish, false);
	object_configure(loader);
	return 0;
}

static int object_load_new(struct loader *loader)
{
	int r = object_open(loader);

	if (r < 0)
		return object_load_failed(r);
	if (!object_make_keys(loader))
		return STATUS_KERNEL;
	r = bulkhead_bpf__load(loader->object);
	if (r < 0)
		return object_load_failed(r);
	loader->program_fd = bpf_program__fd(loader->object->progs.bulkhead_sample);
	return object_prepare(loader);
}

static int object_try_adopt(struct loader *loader)
{
	int r = adoption_check(loader);

	if (!r)
		r = object_open(loader);
	if (!r)
		r = adoption_take_maps(loader);
	if (!r)
		r = bulkhead_bpf__load(loader->object);
	if (!r)
		r = adoption_take_program(loader);
	if (!r)
		r = object_map_counters(loader);
	if (!r)
		r = object_open_runtimes(loader);
	return r;
}

/* Takes over what the last loader has loaded: the other roles use it. If that fails, they have to
 * start again, too, which the status tells CONTROL. Returns an exit status. */
static int object_adopt(struct loader *loader)
{
	const struct msg_status not_pinned = {0};

	loader->adopted = true;
	const int r = pins_are_used(&loader->pins) ? object_try_adopt(loader) : -ENOENT;
	if (!r) {
		log_info("took over the BPF programs and maps of the last loader");
		return STATUS_DONE;
	}
	log_warning("cannot take over the BPF programs and maps of the last loader, so all roles "
		    "start again: error=%s",
		    strerror(-r));
	role_send_status(&loader->role, &not_pinned);
	return STATUS_FAILED;
}

int object_load(struct loader *loader)
{
	libbpf_set_print(object_print);
	loader->possible_cpus = libbpf_num_possible_cpus();
	if (loader->possible_cpus <= 0) {
		log_error("cannot find out how many CPUs there may be, so nothing is sampled: "
			  "path=/sys/devices/system/cpu/possible error=%s",
			  strerror(-loader->possible_cpus));
		return STATUS_KERNEL;
	}
	int r = user_reads_register();
	if (r < 0)
		return object_load_failed(r);
	loader->object_hash = object_hash();
	if (loader->role.again)
		return object_adopt(loader);
	/* What an agent has left that was killed is of no use. */
	if (pins_are_used(&loader->pins))
		pins_remove_all(&loader->pins);
	const int status = object_load_new(loader);
	if (!status && pins_are_used(&loader->pins))
		adoption_prepare(loader);
	return status;
}

int object_load_runtime(struct loader *loader, uint32_t runtime)
{
	if (!runtime || runtime >= BH_RUNTIME_COUNT || !(object_runtimes(loader) >> runtime & 1))
		return -EPROTO;
	struct bpf_object *object = loader->runtimes[runtime];
	if (!object)
		return 0;
	const uint64_t started_ns = clock_monotonic_ns();
	int r = bpf_object__load(object);
	if (!r)
		r = runtime_program_publish(runtime, loader->object->obj, object);
	if (r < 0)
		log_warning("cannot load the BPF program of a language runtime, so its frames are "
			    "shown as native ones: runtime=%s error=%s",
			    runtime_titles[runtime], strerror(-r));
	else
		log_debug("loaded the program of a language runtime: runtime=%s ms=%llu",
			  runtime_titles[runtime],
			  (unsigned long long)((clock_monotonic_ns() - started_ns) / NS_PER_MS));
	bpf_object__close(object);
	loader->runtimes[runtime] = NULL;
	return 0;
}

static int send_manager_maps(struct loader *loader, const struct msg_maps *maps)
{
	const struct bulkhead_bpf *o = loader->object;
	const int fds[] = {bpf_map__fd(o->maps.processes), bpf_map__fd(o->maps.modules),
			   bpf_map__fd(o->maps.rules), bpf_map__fd(o->maps.deferred)};

	return peer_send(&loader->role.peers[ROLE_MANAGER], MESSAGE_MANAGER_MAPS, maps,
			 sizeof(*maps), fds, 4);
}

static int send_worker_maps(struct loader *loader, const struct msg_maps *maps)
{
	const struct bulkhead_bpf *o = loader->object;
	const int fds[] = {bpf_map__fd(o->maps.samples), loader->kallsyms_fd,
			   bpf_map__fd(o->maps.worker_control), bpf_map__fd(o->maps.runtimes)};
	struct peer *worker = &loader->role.peers[ROLE_WORKER];
	int r = 0;

	if (loader->notes.length)
		r = peer_send(worker, MESSAGE_KERNEL_NOTES, &loader->notes, sizeof(loader->notes),
			      NULL, 0);
	return r < 0 ? r : peer_send(worker, MESSAGE_WORKER_MAPS, maps, sizeof(*maps), fds, 4);
}

int object_send_maps(struct loader *loader, enum role_id role)
{
	const struct bulkhead_bpf *o = loader->object;
	const int counters = bpf_map__fd(o->maps.counters);
	const struct bpf_map *ring = role == ROLE_MANAGER ? o->maps.deferred : o->maps.samples;
	const struct msg_maps maps = {.ring_bytes = bpf_map__max_entries(ring),
				      .cpu_count = (uint32_t)loader->possible_cpus,
				      .runtimes = wanted_runtimes(loader),
				      .generation = loader->generation};

	switch (role) {
	case ROLE_MANAGER:
		return send_manager_maps(loader, &maps);
	case ROLE_WORKER:
		return send_worker_maps(loader, &maps);
	case ROLE_EXPORTER:
		return peer_send(&loader->role.peers[role], MESSAGE_EXPORTER_MAPS, &maps,
				 sizeof(maps), &counters, 1);
	default:
		return 0;
	}
}

static uint64_t object_map_bytes(const struct loader *loader)
{
	uint64_t bytes = (uint64_t)loader->slab_count * BH_SLAB_BYTES;
	const struct bpf_map *map;

	bpf_object__for_each_map(map, loader->object->obj)
	{
		uint64_t entries = bpf_map__max_entries(map);

		switch (bpf_map__type(map)) {
		case BPF_MAP_TYPE_RINGBUF:
			bytes += entries;
			break;
		case BPF_MAP_TYPE_PERCPU_ARRAY:
			bytes +=
			    entries * bpf_map__value_size(map) * (uint64_t)loader->possible_cpus;
			break;
		default:
			bytes +=
			    entries * (bpf_map__value_size(map) + (uint64_t)bpf_map__key_size(map));
		}
	}
	return bytes;
}

void object_status(const struct loader *loader, struct msg_status *status)
{
	struct bpf_prog_info info = {0};
	uint32_t length = sizeof(info);

	for (int cpu = 0; cpu < loader->possible_cpus; cpu++) {
		const volatile uint64_t *value = loader->counters[cpu].value;

		status->taken += value[BH_COUNTER_TAKEN];
		status->deferred += value[BH_COUNTER_DEFERRED];
		status->losses.lost[LOSS_RING_FULL] += value[BH_COUNTER_LOST_RING_FULL];
	}
	if (bpf_obj_get_info_by_fd(loader->program_fd, &info, &length) == 0) {
		status->bpf_run_ns = info.run_time_ns;
		status->bpf_run_count = info.run_cnt;
	}
	status->map_bytes = object_map_bytes(loader);
	status->pinned = pins_are_used(&loader->pins);
}
