/* SPDX-License-Identifier: Apache-2.0 */
/* Records of several CPUs take effect in the order in which they happened. */
#include <criterion/criterion.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/time_units.h"
#include "tests/support/fake_peer.h"
#include "tests/unit/unwinder-mgr/manager_fixture.h"

enum {
	PAGE = 4096,
	RING_MAPPED = (1 + SIDEBAND_PAGES) * PAGE,
	LATER_MS = 50
};

FAKE_PEER(NULL);

static void setup(void)
{
	manager_setup();
	manager.sideband.epoll_fd = epoll_create1(0);
	for (int cpu = 0; cpu < 2; cpu++)
		manager.sideband.rings[cpu] = calloc(1, RING_MAPPED);
	cr_assert(manager.sideband.rings[0] && manager.sideband.rings[1] &&
		  manager.sideband.epoll_fd >= 0);
}

static void teardown(void)
{
	for (int cpu = 0; cpu < 2; cpu++)
		free(manager.sideband.rings[cpu]);
	free(manager.sideband.batch);
	free(manager.sideband.entries);
	close(manager.sideband.epoll_fd);
	manager_teardown();
}

TestSuite(sideband, .init = setup, .fini = teardown);

/* Appends a record, as the kernel does: header, body, time. */
static void report(int cpu, uint32_t type, uint16_t misc, const void *body, size_t bytes,
		   uint64_t time_ns)
{
	struct perf_event_mmap_page *page = (void *)manager.sideband.rings[cpu];
	uint8_t *to = manager.sideband.rings[cpu] + PAGE + page->data_head;
	const struct perf_event_header header = {
	    .type = type,
	    .misc = misc,
	    .size = (uint16_t)(sizeof(header) + bytes + sizeof(time_ns))};

	memcpy(to, &header, sizeof(header));
	memcpy(to + sizeof(header), body, bytes);
	memcpy(to + sizeof(header) + bytes, &time_ns, sizeof(time_ns));
	page->data_head += header.size;
}

static void report_fork(int cpu, uint32_t parent, uint32_t child, uint64_t time_ns)
{
	const uint32_t body[] = {child,	 parent, child,
				 parent, 0,	 0}; /* pid, ppid, tid, ptid, time */

	report(cpu, PERF_RECORD_FORK, 0, body, sizeof(body), time_ns);
}

static void report_exec(int cpu, uint32_t tgid, const char *comm, uint64_t time_ns)
{
	struct {
		uint32_t tgid, tid;
		char comm[8];
	} body = {tgid, tgid, ""};

	memcpy(body.comm, comm, strlen(comm));
	report(cpu, PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC, &body, sizeof(body), time_ns);
}

static const char *name_of(uint32_t tgid)
{
	const struct process *process = processes_find(&manager.processes, tgid);

	return process ? process->comm : "(no process)";
}

Test(sideband, rings_of_several_cpus_are_one_sequence)
{
	const uint64_t now = clock_monotonic_ns();

	report_exec(0, 100, "make", now - 2);
	report_exec(0, 101, "gcc", now);
	report_fork(1, 100, 101, now - 1);
	sideband_process(&manager);
	cr_expect_str_eq(name_of(101), "gcc");
}

/* The exec of CPU 1 comes after the ring of CPU 0 was read, and the fork that precedes it as
 * well. */
Test(sideband, an_exec_is_not_undone_by_a_fork_that_another_ring_reports_later)
{
	const uint64_t later = clock_monotonic_ns() + LATER_MS * NS_PER_MS;

	report_exec(0, 100, "make", 1);
	report_exec(1, 101, "gcc", later);
	sideband_process(&manager);
	report_fork(0, 100, 101, later - 1);
	nanosleep(&(struct timespec){.tv_nsec = (LATER_MS + 1) * NS_PER_MS}, NULL);
	sideband_process(&manager);
	cr_expect_str_eq(name_of(101), "gcc");
	/* Nothing is left in the rings. */
	for (int cpu = 0; cpu < 2; cpu++) {
		const struct perf_event_mmap_page *page = (void *)manager.sideband.rings[cpu];

		cr_expect_eq(page->data_tail, page->data_head);
	}
}

Test(sideband, all_processes_are_scanned_after_records_were_lost)
{
	const uint64_t body[] = {0, 5}; /* id, lost */

	report_exec(0, 100, "make", 1);
	sideband_process(&manager);
	cr_expect_not(manager.scan_wanted);
	cr_expect_eq(manager.sideband.lost, 0);

	report(0, PERF_RECORD_LOST, 0, body, sizeof(body), 2);
	sideband_process(&manager);
	cr_expect(manager.scan_wanted);
	cr_expect_eq(manager.sideband.lost, 1);
	cr_expect_neq(manager.sideband.logged_ns, 0);
}

Test(sideband, all_processes_are_scanned_after_a_record_that_makes_no_sense)
{
	struct perf_event_mmap_page *page = (void *)manager.sideband.rings[0];

	report_exec(0, 100, "make", 1);
	((struct perf_event_header *)(manager.sideband.rings[0] + PAGE))->size = 1;
	sideband_process(&manager);
	cr_expect_eq(page->data_tail, page->data_head, "the rest is skipped");
	cr_expect(manager.scan_wanted);
	cr_expect_eq(manager.sideband.lost, 1);
}

/* A record that is later than the present for ever would keep all that come after it in the ring, until the recording ends. */
Test(sideband, a_record_from_the_future_does_not_stop_a_ring)
{
	struct perf_event_mmap_page *page = (void *)manager.sideband.rings[0];

	report_exec(0, 100, "make", clock_monotonic_ns() + 3600 * NS_PER_S);
	report_exec(0, 101, "gcc", 1);
	sideband_process(&manager);
	cr_expect_eq(page->data_tail, page->data_head, "the rest is skipped");
	cr_expect(manager.scan_wanted);
	report_exec(0, 102, "ld", 2);
	sideband_process(&manager);
	cr_expect_str_eq(name_of(102), "ld");
}

/* Reports a symbol as the kernel does to the second reader and those after it: the record is longer than what was written, and old bytes of the
 * ring follow. */
static void report_symbol(int cpu, const char *name, uint64_t time_ns, unsigned int readers)
{
	struct {
		uint64_t address;
		uint32_t length;
		uint16_t type, flags;
		char rest[64]; /* the name, padded to 8 bytes, then the time, then old bytes */
	} body = {.address = 0xffffffffc0000000, .length = 16, .type = PERF_RECORD_KSYMBOL_TYPE_BPF};
	const size_t named = (strlen(name) + 8) & ~(size_t)7;

	memset(body.rest, 0x7f, sizeof(body.rest));
	memset(body.rest, 0, named);
	memcpy(body.rest, name, strlen(name));
	memcpy(body.rest + named, &time_ns, sizeof(time_ns));
	report(cpu, PERF_RECORD_KSYMBOL, 0, &body, 16 + named + 8 * (readers - 1), readers > 1 ? UINT64_MAX : time_ns);
}

Test(sideband, another_reader_of_kernel_symbols_does_not_stop_a_ring)
{
	for (unsigned int readers = 1; readers <= 4; readers++) {
		const uint64_t now = clock_monotonic_ns();

		report_fork(1, 100 * readers, 100 * readers + 1, now - 3);
		report_symbol(0, readers % 2 ? "bpf_prog_1" : "bpf_prog", now - 2, readers);
		report_exec(0, 100 * readers + 1, "gcc", now - 1);
		sideband_process(&manager);
		cr_expect_str_eq(name_of(100 * readers + 1), "gcc", "%u readers", readers);
		cr_expect_eq(fake_peer.attempts[MESSAGE_KERNEL_TEXT], readers);
	}
	cr_expect_eq(manager.sideband.lost, 0);
}
