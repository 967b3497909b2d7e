/* SPDX-License-Identifier: Apache-2.0 */
#include "unwinder-mgr/sideband.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/cursor.h"
#include "unwinder-mgr/manager.h"

enum {
	PAGE = 4096,
	RING_BYTES = SIDEBAND_PAGES * PAGE,
	RING_MAPPED = RING_BYTES + PAGE,
	TRAILER_BYTES =
	    8, /* sample_id_all with PERF_SAMPLE_TIME alone: the time ends each record */
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
	void *ring = mmap(NULL, RING_MAPPED, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (ring == MAP_FAILED)
		return -errno;
	sideband->rings[cpu] = ring;
	sideband->fds[cpu] = fd;
	struct epoll_event event = {.events = EPOLLIN | EPOLLET};
	return epoll_ctl(sideband->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static bool batch_reserve(struct sideband *sideband, size_t bytes)
{
	if (sideband->batch_bytes + bytes > sideband->batch_capacity) {
		size_t capacity =
		    sideband->batch_capacity ? sideband->batch_capacity * 2 : 64 << 10;
		while (capacity < sideband->batch_bytes + bytes)
			capacity *= 2;
		uint8_t *grown = realloc(sideband->batch, capacity);
		if (!grown)
			return false;
		sideband->batch = grown;
		sideband->batch_capacity = capacity;
	}
	if (sideband->record_count == sideband->record_capacity) {
		size_t capacity = sideband->record_capacity ? sideband->record_capacity * 2 : 256;
		struct sideband_record *grown =
		    realloc(sideband->records, capacity * sizeof(*grown));
		if (!grown)
			return false;
		sideband->records = grown;
		sideband->record_capacity = capacity;
	}
	return true;
}

static void ring_copy(const uint8_t *data, uint64_t position, void *to, size_t bytes)
{
	const size_t at = position % RING_BYTES;
	const size_t first = bytes < RING_BYTES - at ? bytes : RING_BYTES - at;

	memcpy(to, data + at, first);
	memcpy((uint8_t *)to + first, data, bytes - first);
}

/* All records of one ring into the batch. */
static void sideband_drain(struct sideband *sideband, uint8_t *ring)
{
	struct perf_event_mmap_page *page = (struct perf_event_mmap_page *)ring;
	const uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = page->data_tail;
	struct perf_event_header header;

	while (head - tail >= sizeof(header)) {
		ring_copy(ring + PAGE, tail, &header, sizeof(header));
		if (header.size < sizeof(header) + TRAILER_BYTES || header.size > head - tail)
			break;
		if (!batch_reserve(sideband, header.size)) {
			sideband->lost++;
			break;
		}
		uint8_t *to = sideband->batch + sideband->batch_bytes;
		ring_copy(ring + PAGE, tail, to, header.size);
		struct sideband_record *record = &sideband->records[sideband->record_count++];
		record->offset = sideband->batch_bytes;
		memcpy(&record->time_ns, to + header.size - TRAILER_BYTES, sizeof(record->time_ns));
		sideband->batch_bytes += (header.size + 7u) & ~7u;
		tail += header.size;
	}
	__atomic_store_n(&page->data_tail, head, __ATOMIC_RELEASE);
}

static int record_compare(const void *a, const void *b)
{
	const struct sideband_record *x = a, *y = b;

	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	return x->offset < y->offset ? -1 : 1;
}

static void on_mmap2(struct manager *manager, struct cursor *c)
{
	uint32_t tgid = cursor_u32(c);
	cursor_skip(c, 4);
	uint64_t start = cursor_u64(c), length = cursor_u64(c), file_offset = cursor_u64(c);
	struct module_key key = {0};
	key.device_major = cursor_u32(c);
	key.device_minor = cursor_u32(c);
	key.inode = cursor_u64(c);
	cursor_skip(c, 8); /* generation: an inode that is held open is not recycled */
	uint32_t protection = cursor_u32(c);
	cursor_skip(c, 4);
	const char *path = cursor_string(c);
	if (!path || !(protection & PROT_EXEC) || start + length < start)
		return;
	const struct mapping mapping = {
	    .start = start, .end = start + length, .file_offset = file_offset};
	processes_map(manager, tgid, &mapping, &key, path);
}

static void on_comm(struct manager *manager, struct cursor *c, uint16_t misc, uint64_t time_ns)
{
	uint32_t tgid = cursor_u32(c);
	cursor_skip(c, 4);
	const char *comm = cursor_string(c);

	if (comm && (misc & PERF_RECORD_MISC_COMM_EXEC))
		processes_exec(manager, tgid, comm, time_ns);
}

static void on_task(struct manager *manager, struct cursor *c, bool is_exit, uint64_t time_ns)
{
	uint32_t pid = cursor_u32(c), parent = cursor_u32(c), tid = cursor_u32(c);

	if (c->failed)
		return;
	if (is_exit && pid == tid)
		processes_exit(manager, pid, time_ns);
	if (!is_exit && pid != parent)
		processes_fork(manager, parent, pid);
}

static void on_ksymbol(struct manager *manager, struct cursor *c)
{
	struct msg_kernel_text message = {0};
	message.address = cursor_u64(c);
	message.length = cursor_u32(c);
	uint16_t type = cursor_u16(c), flags = cursor_u16(c);
	const char *name = cursor_string(c);

	if (!name)
		return;
	message.bpf = type == PERF_RECORD_KSYMBOL_TYPE_BPF;
	message.unregistered = (flags & PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER) != 0;
	memcpy(message.name, name, strnlen(name, sizeof(message.name) - 1));
	peer_send(&manager->role.peers[ROLE_WORKER], MESSAGE_KERNEL_TEXT, &message, sizeof(message),
		  NULL, 0);
}

static void sideband_dispatch(struct manager *manager, const uint8_t *record, uint64_t time_ns)
{
	struct perf_event_header header;

	memcpy(&header, record, sizeof(header));
	struct cursor c =
	    cursor_init(record + sizeof(header), header.size - sizeof(header) - TRAILER_BYTES);
	switch (header.type) {
	case PERF_RECORD_MMAP2:
		on_mmap2(manager, &c);
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
		/* What happened is unknown: look at everything again. */
		manager->sideband.lost++;
		manager->scan_wanted = true;
		break;
	default:
		break;
	}
}

/* Which rings have news does not matter, but their wake-ups have to be taken before the rings are
 * read. */
static void sideband_take_wakeups(const struct sideband *sideband)
{
	struct epoll_event events[64];

	while (epoll_wait(sideband->epoll_fd, events, 64, 0) == 64)
		;
}

void sideband_process(struct manager *manager)
{
	struct sideband *sideband = &manager->sideband;

	sideband_take_wakeups(sideband);
	sideband->batch_bytes = 0;
	sideband->record_count = 0;
	for (unsigned int cpu = 0; cpu < SIDEBAND_CPUS_MAX; cpu++) {
		if (sideband->rings[cpu])
			sideband_drain(sideband, sideband->rings[cpu]);
	}
	if (sideband->record_count)
		qsort(sideband->records, sideband->record_count, sizeof(sideband->records[0]),
		      record_compare);
	for (size_t i = 0; i < sideband->record_count; i++)
		sideband_dispatch(manager, sideband->batch + sideband->records[i].offset,
				  sideband->records[i].time_ns);
	processes_publish(manager);
}
