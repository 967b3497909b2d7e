/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_floor HZ [ticks]: runs floor.bpf.c on all CPUs and empties its ring ten times per second
 * until stdin is closed. With `ticks` the clocks tick but run no program. It prints "ready", and at
 * its end one line of JSON with what it read. kernel_time.py reads its costs from /proc/PID/fdinfo.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <err.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <signal.h>
#include <unistd.h>

#include "floor.skel.h"
#include "tests/bench/floor.h"

enum {
	READ_EVERY_MS = 100
};

struct counts {
	unsigned long samples, user_frames, kernel_frames;
};

static int on_sample(void *context, void *data, size_t size)
{
	const struct floor_sample *s = data;
	struct counts *counts = context;

	(void)size;
	counts->samples++;
	counts->user_frames += s->user_count;
	counts->kernel_frames += s->kernel_count;
	return 0;
}

/* Opens the same kind of event as loader/events.c. */
static void start_clock(int cpu, unsigned long frequency_hz, int program_or_none)
{
	struct perf_event_attr attr = {
	    .type = PERF_TYPE_SOFTWARE,
	    .size = sizeof(attr),
	    .config = PERF_COUNT_SW_CPU_CLOCK,
	    .freq = 1,
	    .sample_freq = frequency_hz,
	    .disabled = 1,
	    .exclude_idle = 1,
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0)
		return; /* offline */
	if ((program_or_none >= 0 && ioctl(fd, PERF_EVENT_IOC_SET_BPF, program_or_none) < 0) ||
	    ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) < 0)
		err(1, "cannot start the clock of CPU %d", cpu);
}

int main(int argc, char **argv)
{
	const unsigned long frequency_hz = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
	struct pollfd end = {.fd = STDIN_FILENO, .events = POLLIN};
	struct counts counts = {0};
	struct floor_bpf *object;
	struct ring_buffer *ring;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!frequency_hz)
		errx(2, "bench_floor HZ [ticks]");
	object = floor_bpf__open_and_load();
	if (!object)
		err(1, "cannot load the BPF program");
	ring = ring_buffer__new(bpf_map__fd(object->maps.floor_ring), on_sample, &counts, NULL);
	if (!ring)
		err(1, "ring");
	for (int cpu = 0; cpu < libbpf_num_possible_cpus(); cpu++)
		start_clock(cpu, frequency_hz,
			    argc > 2 ? -1 : bpf_program__fd(object->progs.floor_sample));
	puts("ready");
	fflush(stdout);
	while (poll(&end, 1, READ_EVERY_MS) == 0)
		ring_buffer__consume(ring);
	ring_buffer__consume(ring);
	printf("{\"samples\": %lu, \"user_frames\": %lu, \"kernel_frames\": %lu}\n",
	       counts.samples, counts.user_frames, counts.kernel_frames);
	return 0;
}
