/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see sideband.h. */
#include "unwinder-mgr/sideband.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/cursor.h"
#include "common/log.h"
#include "common/map_shared.h"
#include "common/time_units.h"
#include "unwinder-mgr/limits.h"
#include "unwinder-mgr/manager.h"
#include "unwinder-mgr/sideband_record.h"

enum {
	PAGE = 4096,
	RING_BYTES = SIDEBAND_PAGES * PAGE,
	RING_MAPPED = RING_BYTES + PAGE, /* the first page holds head and tail */
	/* A time that is further ahead of the clock, ms, is none. The kernel's clock for interrupts
	 * may be ahead by microseconds (ktime_get_mono_fast_ns()). */
	AHEAD_MS = 1000,
	/* Sizes of the first allocations: bytes and items. */
	BATCH_FIRST = 64 << 10,
	ENTRIES_FIRST = 256,
};

static void sideband_on_readable(void *context, uint32_t events)
{
	struct manager *manager = context;

	(void)events;
	sideband_process(manager);
	sideband_listen(manager, false);
	loop_tick_within(&manager->role.loop, SIDEBAND_PAUSE_MS);
}

int sideband_init(struct manager *manager)
{
	manager->sideband.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (manager->sideband.epoll_fd < 0)
		return -errno;
	manager->sideband.listening = true;
	return loop_add(&manager->role.loop, manager->sideband.epoll_fd, EPOLLIN,
			sideband_on_readable, manager);
}

void sideband_listen(struct manager *manager, bool on)
{
	struct sideband *sideband = &manager->sideband;

	if (sideband->listening != on)
		loop_modify(&manager->role.loop, sideband->epoll_fd, on ? EPOLLIN : 0);
	sideband->listening = on;
}

int sideband_add(struct manager *manager, unsigned int cpu, int fd)
{
	struct sideband *sideband = &manager->sideband;

	if (cpu >= SIDEBAND_CPUS_MAX)
		return -EINVAL;
	if (sideband->rings[cpu]) {
		sideband_process(manager);
		epoll_ctl(sideband->epoll_fd, EPOLL_CTL_DEL, sideband->fds[cpu], NULL);
		munmap(sideband->rings[cpu], RING_MAPPED);
		close(sideband->fds[cpu]);
		sideband->rings[cpu] = NULL;
	}
	void *ring = map_shared(fd, RING_MAPPED, PROT_READ | PROT_WRITE, 0);
	if (!ring)
		return -errno;
	sideband->rings[cpu] = ring;
	sideband->fds[cpu] = fd;
	struct epoll_event event = {.events = EPOLLIN | EPOLLET};
	return epoll_ctl(sideband->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

/* Makes room in the batch for one record of this many bytes, rounded up to a multiple of 8. */
static bool batch_reserve(struct sideband *sideband, size_t bytes)
{
	return ARRAY_RESERVE(sideband->batch, sideband->batch_capacity,
			     sideband->batch_bytes + bytes, BATCH_FIRST, ARRAY_UNLIMITED) == 0 &&
	       ARRAY_RESERVE(sideband->entries, sideband->entry_capacity, sideband->entry_count + 1,
			     ENTRIES_FIRST, ARRAY_UNLIMITED) == 0;
}

/* Copies bytes out of a ring, whose end continues at its start. */
static void ring_copy(const uint8_t *data, uint64_t position, void *to, size_t bytes)
{
	const size_t at = position % RING_BYTES;
	const size_t first = bytes < RING_BYTES - at ? bytes : RING_BYTES - at;

	memcpy(to, data + at, first);
	memcpy((uint8_t *)to + first, data, bytes - first);
}

/* Moves the records of one ring up to a time into the batch. Later ones stay in the ring. A record
 * that makes no sense ends it: the rest of the ring is skipped. This includes one from the future,
 * which would stay for ever, and all that come after it. */
static void sideband_drain(struct sideband *sideband, uint8_t *ring, uint64_t until_ns)
{
	struct perf_event_mmap_page *page = (struct perf_event_mmap_page *)ring;
	const uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = page->data_tail;
	struct perf_event_header header;
	uint64_t time_ns;

	while (head - tail >= sizeof(header)) {
		ring_copy(ring + PAGE, tail, &header, sizeof(header));
		if (header.size < sizeof(header) + SIDEBAND_TRAILER_BYTES ||
		    header.size > head - tail ||
		    !batch_reserve(sideband, (header.size + 7u) & ~7u)) {
			sideband->lost++;
			tail = head;
			break;
		}
		uint8_t *record = sideband->batch + sideband->batch_bytes;
		ring_copy(ring + PAGE, tail, record, header.size);
		time_ns = sideband_record_time(record, header.size);
		if (time_ns > until_ns) {
			if (time_ns > clock_monotonic_ns() + AHEAD_MS * NS_PER_MS) {
				sideband->lost++;
				tail = head;
			}
			break;
		}
		sideband->entries[sideband->entry_count++] =
		    (struct sideband_entry){.offset = sideband->batch_bytes, .time_ns = time_ns};
		sideband->batch_bytes += (header.size + 7u) & ~7u;
		tail += header.size;
	}
	__atomic_store_n(&page->data_tail, tail, __ATOMIC_RELEASE);
}

/* Orders by time. Records with the same time come from one CPU and keep its order. */
static int entry_compare(const void *a, const void *b)
{
	const struct sideband_entry *x = a, *y = b;

	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	return x->offset < y->offset ? -1 : 1;
}

static void on_mmap(struct manager *manager, struct cursor *c)
{
	struct sideband_mmap record;

	if (!sideband_mmap_read(c, &record) || !(record.protection & PROT_EXEC) ||
	    record.start + record.length < record.start)
		return;
	const struct mapping mapping = {.start = record.start,
					.end = record.start + record.length,
					.file_offset = record.file_offset};
	const struct module_key key = {.device_major = record.device_major,
				       .device_minor = record.device_minor,
				       .inode = record.inode};
	processes_map(manager, record.tgid, &mapping, &key, record.path);
}

static void on_comm(struct manager *manager, struct cursor *c, uint16_t misc, uint64_t time_ns)
{
	struct sideband_comm record;

	if (sideband_comm_read(c, &record) && (misc & PERF_RECORD_MISC_COMM_EXEC))
		processes_exec(manager, record.tgid, record.comm, time_ns);
}

/* Handles a fork or an exit. Threads come and go in records of the same types; only processes
 * matter. */
static void on_task(struct manager *manager, struct cursor *c, bool is_exit, uint64_t time_ns)
{
	struct sideband_task record;

	if (!sideband_task_read(c, &record))
		return;
	if (is_exit && record.tgid == record.tid)
		processes_exit(manager, record.tgid, time_ns);
	if (!is_exit && record.tgid != record.parent_tgid)
		processes_fork(manager, record.parent_tgid, record.tgid, time_ns);
}

/* Reports text of the kernel that came or went, such as a BPF program, to the worker, which names
 * it. */
static void on_ksymbol(struct manager *manager, struct cursor *c)
{
	struct msg_kernel_text message = {0};
	struct sideband_ksymbol record;

	if (!sideband_ksymbol_read(c, &record))
		return;
	message.address = record.address;
	message.length = record.length;
	message.bpf = record.type == PERF_RECORD_KSYMBOL_TYPE_BPF;
	message.unregistered = (record.flags & PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER) != 0;
	memcpy(message.name, record.name, strnlen(record.name, sizeof(message.name) - 1));
	peer_send(&manager->role.peers[ROLE_WORKER], MESSAGE_KERNEL_TEXT, &message, sizeof(message),
		  NULL, 0);
}

static void sideband_dispatch(struct manager *manager, const uint8_t *record, uint64_t time_ns)
{
	struct perf_event_header header;

	memcpy(&header, record, sizeof(header));
	struct cursor c = cursor_init(record + sizeof(header),
				      header.size - sizeof(header) - SIDEBAND_TRAILER_BYTES);
	switch (header.type) {
	case PERF_RECORD_MMAP2:
		on_mmap(manager, &c);
		break;
	case PERF_RECORD_COMM:
		on_comm(manager, &c, header.misc, time_ns);
		break;
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
		on_task(manager, &c, header.type == PERF_RECORD_EXIT, time_ns);
		break;
	case PERF_RECORD_KSYMBOL:
		on_ksymbol(manager, &c);
		break;
	case PERF_RECORD_LOST:
		manager->sideband.lost++;
		break;
	default:
		break;
	}
}

/* Consumes the rings' events. Which rings they are does not matter, since all are emptied; but a
 * record that arrives while they are read must cause a new event, so the old ones go first. */
static void sideband_take_wakeups(const struct sideband *sideband)
{
	struct epoll_event events[64];

	while (epoll_wait(sideband->epoll_fd, events, 64, 0) == 64)
		;
}

/* Any process may have changed, so all of /proc is scanned again. */
static void on_lost(struct manager *manager, uint64_t now_ns)
{
	struct sideband *sideband = &manager->sideband;

	manager->scan_wanted = true;
	sideband->lost_ns = now_ns;
	if (sideband->logged_ns && now_ns - sideband->logged_ns < LIMIT_LOST_LOG_MS * NS_PER_MS)
		return;
	sideband->logged_ns = now_ns;
	log_warning("events about processes and mappings were lost, so stacks may be cut or wrong "
		    "until all processes have been scanned again: times=%" PRIu64,
		    sideband->lost);
}

void sideband_process(struct manager *manager)
{
	struct sideband *sideband = &manager->sideband;
	const uint64_t lost = sideband->lost;

	sideband_take_wakeups(sideband);
	/* One ring after the other is read, and this process may be interrupted in between. A fork
	 * that the kernel reports in a ring after it was read must not be dispatched after the exec
	 * of the child, which is in a ring that is read later: the child would get its parent's
	 * mappings. So what comes after this moment is left for the next call. Its wakeup comes
	 * after those taken above. */
	const uint64_t until_ns = clock_monotonic_ns();
	sideband->batch_bytes = 0;
	sideband->entry_count = 0;
	for (unsigned int cpu = 0; cpu < SIDEBAND_CPUS_MAX; cpu++) {
		if (sideband->rings[cpu])
			sideband_drain(sideband, sideband->rings[cpu], until_ns);
	}
	if (sideband->entry_count)
		qsort(sideband->entries, sideband->entry_count, sizeof(sideband->entries[0]),
		      entry_compare);
	for (size_t i = 0; i < sideband->entry_count; i++)
		sideband_dispatch(manager, sideband->batch + sideband->entries[i].offset,
				  sideband->entries[i].time_ns);
	if (sideband->lost != lost)
		on_lost(manager, until_ns);
	processes_publish(manager);
}
