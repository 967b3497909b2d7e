/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The perf events: two on each CPU that is online.
 *
 * How this works. The sampling event is a clock that interrupts its CPU `frequency_hz` times per
 * second and runs the BPF program. The sideband event has a ring into which the kernel writes what
 * happens to processes and to kernel text; the manager maps that ring and reads it. CPUs may come
 * and go while a recording runs. So the list of online CPUs is compared once per second with the
 * events that are open: a new CPU gets both events, and those of a CPU that went are closed. If the
 * kernel refuses an event, the role ends at its start; later only that CPU is not sampled, and the
 * attempt is repeated each second.
 *
 * A loader that pins its objects also pins a link from each sampling event to the program, as long
 * as it samples. The next loader takes the links over, but has no descriptors of the events: it can
 * end them, and to resume after a pause it opens others. The manager has the rings of the sideband.
 *
 * Example: CPUs 0 and 1 are online, and 1 goes offline and returns.
 *
 *	start   open sideband 0, sampling 0, sideband 1, sampling 1; the rings go to the manager
 *	t=5 s   list "0": close both events of CPU 1
 *	t=9 s   list "0-1": open both again; the manager replaces its ring of CPU 1
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/exit_status.h"
#include "common/log.h"
#include "common/time_units.h"
#include "loader/loader.h"

static int event_open(const struct perf_event_attr *attr, int cpu)
{
	int fd = (int)syscall(SYS_perf_event_open, attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* The name under which the link of a CPU is pinned. */
static const char *link_name(int cpu)
{
	static char name[sizeof("cpu") + 11];

	snprintf(name, sizeof(name), "cpu%d", cpu);
	return name;
}

/* Has an event run the sampling program. With pins that takes a link, which keeps both; kernels
 * before 5.15 have none. Returns 0 or a negative errno. */
static int event_attach(struct loader *loader, int cpu, int fd)
{
	const int program = loader->program_fd;

	if (pins_are_used(&loader->pins)) {
		loader->link_fds[cpu] = bpf_link_create(program, fd, BPF_PERF_EVENT, NULL);
		if (loader->link_fds[cpu] >= 0)
			return 0;
		loader->link_fds[cpu] = -1;
	}
	return ioctl(fd, PERF_EVENT_IOC_SET_BPF, program) < 0 ? -errno : 0;
}

/* Opens a CPU's sampling event, disabled. Returns the descriptor or a negative errno. */
static int event_open_sampling(struct loader *loader, int cpu)
{
	const struct perf_event_attr attr = {
	    .type = PERF_TYPE_SOFTWARE,
	    .size = sizeof(attr),
	    .config = PERF_COUNT_SW_CPU_CLOCK,
	    .freq = 1,
	    .sample_freq = loader->config.frequency_hz,
	    .disabled = 1,
	    .exclude_idle = 1, /* samples of the idle task would be discarded */
	};
	int fd = event_open(&attr, cpu);

	if (fd < 0)
		return fd;
	const int r = event_attach(loader, cpu, fd);
	if (r < 0)
		close(fd);
	return r < 0 ? r : fd;
}

/* Opens a CPU's sideband event: exec, fork, exit, executable mappings and kernel text. The
 * watermark of one byte wakes the reader at the first record. Returns the descriptor or a negative
 * errno. */
static int event_open_sideband(int cpu)
{
	const struct perf_event_attr attr = {
	    .type = PERF_TYPE_SOFTWARE,
	    .size = sizeof(attr),
	    .config = PERF_COUNT_SW_DUMMY,
	    .sample_period = 1,
	    .mmap = 1,
	    .mmap2 = 1,
	    .task = 1,
	    .comm = 1,
	    .comm_exec = 1,
	    .ksymbol = 1,
	    .sample_id_all = 1,
	    .sample_type = PERF_SAMPLE_TIME,
	    .use_clockid = 1,
	    .clockid = CLOCK_MONOTONIC,
	    .watermark = 1,
	    .wakeup_watermark = 1,
	};

	return event_open(&attr, cpu);
}

/* Logs why the events of a CPU cannot be opened. Returns the exit status. */
static int events_failed(const struct loader *loader, int cpu, int error)
{
	switch (error) {
	case -EACCES:
	case -EPERM:
		log_error("the kernel refused a perf event: cpu=%d error=%s; with "
			  "kernel.perf_event_paranoid "
			  "above 2 (Debian sets 3) CAP_PERFMON is not enough: run sysctl "
			  "kernel.perf_event_paranoid=2",
			  cpu, strerror(-error));
		return STATUS_NOT_PERMITTED;
	case -EINVAL:
		log_error(
		    "the kernel does not sample at this rate: frequency_hz=%u; choose a lower "
		    "one, or raise kernel.perf_event_max_sample_rate",
		    loader->config.frequency_hz);
		return STATUS_FAILED;
	case -ENOSYS:
	case -ENOENT:
		log_error(
		    "the kernel has no perf events; it must be built with CONFIG_PERF_EVENTS");
		return STATUS_KERNEL;
	default:
		log_error("cannot open a perf event, so this CPU is not sampled: cpu=%d error=%s",
			  cpu, strerror(-error));
		return STATUS_FAILED;
	}
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* Whether a CPU has a sampling event, of this loader or of the last one. */
static bool is_open(const struct loader *loader, int cpu)
{
	return loader->sample_fds[cpu] >= 0 || loader->link_fds[cpu] >= 0;
}

/* Ends the sampling of a CPU. */
static void events_close_sampling(struct loader *loader, int cpu)
{
	if (loader->link_fds[cpu] >= 0)
		pins_remove(&loader->pins, link_name(cpu));
	close_fd(&loader->link_fds[cpu]);
	close_fd(&loader->sample_fds[cpu]);
}

static void note_sideband(struct loader *loader, int cpu, bool sent)
{
	if (loader->pins.state)
		loader->pins.state->sideband[cpu] = sent;
}

static void events_close_cpu(struct loader *loader, int cpu)
{
	events_close_sampling(loader, cpu);
	close_fd(&loader->sideband_fds[cpu]);
	note_sideband(loader, cpu, false);
}

static int events_send_cpu(struct loader *loader, int cpu)
{
	const struct msg_id id = {.id = (uint32_t)cpu};
	const int r = peer_send(&loader->role.peers[ROLE_MANAGER], MESSAGE_SIDEBAND, &id,
				sizeof(id), &loader->sideband_fds[cpu], 1);

	if (!r)
		note_sideband(loader, cpu, true);
	return r;
}

/* Opens the sideband event of a CPU, unless there is one. The manager gets its ring now, or when it
 * connects. Returns 0 or a negative errno. */
static int events_open_sideband(struct loader *loader, int cpu)
{
	if (loader->sideband_fds[cpu] >= 0 ||
	    (loader->pins.state && loader->pins.state->sideband[cpu]))
		return 0;
	const int fd = event_open_sideband(cpu);
	if (fd < 0)
		return fd;
	loader->sideband_fds[cpu] = fd;
	const int r = loader->role.state < ROLE_READY ? 0 : events_send_cpu(loader, cpu);
	return r == -EPIPE ? 0 : r;
}

int events_send(struct loader *loader)
{
	int r = 0;

	for (int cpu = 0; cpu < CPUS_MAX && !r; cpu++) {
		if (loader->sideband_fds[cpu] >= 0)
			r = events_send_cpu(loader, cpu);
		else if (is_open(loader, cpu))
			r = events_open_sideband(loader, cpu);
	}
	return r;
}

void events_forget_manager(struct loader *loader)
{
	for (int cpu = 0; cpu < CPUS_MAX; cpu++)
		note_sideband(loader, cpu, false);
}

/* Starts or stops a CPU's event. One of the last loader runs already. Returns 0 or a negative
 * errno. */
static int event_enable(struct loader *loader, int cpu, bool on)
{
	const int link = loader->link_fds[cpu];

	if (link >= 0 && !on)
		pins_remove(&loader->pins, link_name(cpu));
	if (ioctl(loader->sample_fds[cpu], on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, 0) <
	    0)
		return -errno;
	/* Without the pin this CPU would not be sampled for the moment without a loader. */
	if (link >= 0 && on)
		pins_add(&loader->pins, link_name(cpu), link);
	return 0;
}

static int events_try_open_cpu(struct loader *loader, int cpu)
{
	const int r = events_open_sideband(loader, cpu);

	if (r < 0)
		return r;
	const int fd = event_open_sampling(loader, cpu);
	if (fd < 0)
		return fd;
	loader->sample_fds[cpu] = fd;
	return loader->sampling ? event_enable(loader, cpu, true) : 0;
}

/* Opens both events of a CPU, or none. Returns 0, also for a CPU that went offline after the list
 * was read, or a negative errno. */
static int events_open_cpu(struct loader *loader, int cpu)
{
	const int r = events_try_open_cpu(loader, cpu);

	if (r < 0)
		events_close_cpu(loader, cpu);
	return r == -ENODEV || r == -ENXIO ? 0 : r;
}

/* Reads the list of CPUs that are online. Returns 0 or a negative errno. */
static int events_read_online(const struct loader *loader, struct cpu_set *online)
{
	char text[4096];
	const ssize_t n = pread(loader->online_fd, text, sizeof(text) - 1, 0);

	if (n < 0)
		return -errno;
	text[n] = 0;
	return n ? cpus_parse(text, online) : -EINVAL;
}

/* Takes over the event of the last loader, if it has left one. */
static void events_adopt_cpu(struct loader *loader, int cpu)
{
	const int fd = pins_get(&loader->pins, link_name(cpu));

	loader->link_fds[cpu] = fd < 0 ? -1 : fd;
}

int events_open(struct loader *loader)
{
	struct cpu_set set;
	int r = events_read_online(loader, &set);

	if (r < 0) {
		log_error("cannot read the list of CPUs, so nothing is sampled: "
			  "path=/sys/devices/system/cpu/online error=%s",
			  strerror(-r));
		return STATUS_FAILED;
	}
	for (int cpu = 0; cpu < CPUS_MAX; cpu++) {
		if (loader->adopted)
			events_adopt_cpu(loader, cpu);
		const bool opens = set.online[cpu] && !is_open(loader, cpu);

		loader->missed += opens && loader->adopted;
		r = opens ? events_open_cpu(loader, cpu) : 0;
		if (r < 0)
			return events_failed(loader, cpu, r);
	}
	return STATUS_DONE;
}

/* Opens the events of a CPU that came online. The attempt is repeated each second, so an error is
 * logged only if it is not the one that was logged last. */
static void events_follow_cpu(struct loader *loader, int cpu)
{
	const int r = events_open_cpu(loader, cpu);

	if (r < 0 && r != loader->cpu_errors[cpu])
		events_failed(loader, cpu, r);
	loader->cpu_errors[cpu] = r;
}

void events_follow_cpus(struct loader *loader)
{
	struct cpu_set set;
	const int r = events_read_online(loader, &set);

	if (r < 0 && r != loader->online_error)
		log_warning("cannot read the list of CPUs, so a CPU that comes online is not "
			    "sampled: path=/sys/devices/system/cpu/online error=%s",
			    strerror(-r));
	loader->online_error = r;
	if (r < 0)
		return;
	for (int cpu = 0; cpu < CPUS_MAX; cpu++) {
		if (!set.online[cpu]) {
			events_close_cpu(loader, cpu);
			loader->cpu_errors[cpu] = 0;
		} else if (!is_open(loader, cpu)) {
			events_follow_cpu(loader, cpu);
		}
	}
}

void events_note_sampling(struct loader *loader)
{
	if (loader->pins.state)
		loader->pins.state->sampled_ns = loader->sampling ? clock_monotonic_ns() : 0;
}

static void events_log_pause(struct loader *loader)
{
	const uint64_t sampled_ns = loader->pins.state->sampled_ns;

	if (sampled_ns)
		log_warning("some CPUs were not sampled while there was no loader: cpus=%u "
			    "ms_at_most=%llu",
			    loader->missed,
			    (unsigned long long)((clock_monotonic_ns() - sampled_ns) / NS_PER_MS));
	loader->missed = 0;
}

void events_enable(struct loader *loader, bool on)
{
	if (on && loader->missed)
		events_log_pause(loader);
	loader->sampling = on;
	for (int cpu = 0; cpu < CPUS_MAX; cpu++) {
		if (loader->sample_fds[cpu] >= 0)
			event_enable(loader, cpu, on);
		else if (!on)
			events_close_sampling(loader, cpu);
	}
	if (on)
		events_follow_cpus(loader);
	events_note_sampling(loader);
}
