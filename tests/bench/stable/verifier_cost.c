/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the verifier's work for each program as the loader loads it: for a plain recording, with
 * every filter, and for each language runtime. Prints one line per value (name, value, unit), and on stderr the time. The
 * exit status is 77 if this process may not load programs.
 */
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bpf/shared.h"
#include "bulkhead.skel.h"
#include "loader/runtime_programs.h"
#include "loader/user_reads.h"

enum {
	LOG_STATS = 4, /* BPF_LOG_STATS: only what it cost */
	LOG_BYTES = 1 << 20,
	PROGRAMS_MAX = 8,
	SKIPPED = 77,
	STACK_BYTES_MAX = 512,
};

static char logs[PROGRAMS_MAX][LOG_BYTES];

static void configure(struct bulkhead_bpf *o, bool filters)
{
	o->rodata->want_kernel = true;
	o->rodata->want_user = true;
	o->rodata->filter_pids = filters;
	o->rodata->filter_tid = filters;
	o->rodata->filter_cgroup = filters;
	o->rodata->filter_comm = filters;
	bpf_program__set_autoload(o->progs.bulkhead_fork, filters);
	bpf_program__set_autoload(o->progs.bulkhead_free, filters);
	bpf_map__set_max_entries(o->maps.counters, (uint32_t)libbpf_num_possible_cpus());
}

/* Returns the number after `label` in the log, or 0 if there is none. */
static unsigned long number_after(const char *log, const char *label)
{
	const char *at = strstr(log, label);

	return at ? strtoul(at + strlen(label), NULL, 10) : 0;
}

/* Returns the stack bytes of the deepest chain of calls (program, batch, walker), counted as
 * kernels before 6.13 do. These refuse more than 512 bytes; newer ones do not. The log contains
 * "stack depth A+B+...": the bytes of the program itself and of each of its functions. */
static unsigned long stack_bytes(const char *log)
{
	static const char label[] = "stack depth ";
	const char *at = strstr(log, label);
	unsigned long own = 0, deepest = 0, second = 0;

	if (!at)
		return 0;
	at += strlen(label);
	for (unsigned int i = 0;; i++) {
		char *end;
		unsigned long bytes = strtoul(at, &end, 10);

		bytes = bytes ? (bytes + 31) / 32 * 32 : 32;
		if (!i)
			own = bytes;
		else if (bytes > deepest) {
			second = deepest;
			deepest = bytes;
		} else if (bytes > second)
			second = bytes;
		if (*end != '+')
			return own + deepest + second;
		at = end + 1;
	}
}

static int report(const char *config, const struct bpf_program *program, const char *log)
{
	const char *name = bpf_program__name(program);
	const unsigned long processed = number_after(log, "processed "),
			    peak = number_after(log, "peak_states "),
			    microseconds = number_after(log, "verification time "),
			    stack = stack_bytes(log);

	if (!processed || !stack)
		return -EBADMSG;
	if (stack > STACK_BYTES_MAX) {
		fprintf(stderr, "%s: kernels before 6.13 will refuse %lu bytes of stack\n", name,
			stack);
		return -E2BIG;
	}
	printf("%s.%s\t%lu\tinstructions\n", config, name, processed);
	printf("%s.%s.peak_states\t%lu\tstates\n", config, name, peak);
	printf("%s.%s.stack_bytes\t%lu\tbytes\n", config, name, stack);
	fprintf(stderr, "%s.%s: verified in %.1f ms\n", config, name, (double)microseconds / 1e3);
	return 0;
}

/* Has the verifier write into `logs` what each program costs. */
static int request_logs(struct bpf_object *object)
{
	struct bpf_program *program;
	unsigned int count = 0;

	bpf_object__for_each_program(program, object)
	{
		if (count == PROGRAMS_MAX)
			return -E2BIG;
		bpf_program__set_log_level(program, LOG_STATS);
		bpf_program__set_log_buf(program, logs[count++], LOG_BYTES);
	}
	return 0;
}

static int report_all(const char *config, const struct bpf_object *object)
{
	struct bpf_program *program;
	unsigned int count = 0;
	int r = 0;

	bpf_object__for_each_program(program, object)
	{
		if (!r && bpf_program__autoload(program))
			r = report(config, program, logs[count]);
		count++;
	}
	return r;
}

static int measure(const char *config, bool filters)
{
	struct bulkhead_bpf *o = bulkhead_bpf__open();

	if (!o)
		return -errno;
	configure(o, filters);
	int r = request_logs(o->obj);
	if (!r)
		r = bulkhead_bpf__load(o);
	if (!r)
		r = report_all(config, o->obj);
	bulkhead_bpf__destroy(o);
	return r;
}

static int measure_runtime(uint32_t runtime, const struct bpf_object *base)
{
	struct bpf_object *object;
	int r = runtime_program_open(runtime, base, &object);

	if (r)
		return r;
	r = request_logs(object);
	if (!r)
		r = bpf_object__load(object);
	if (!r)
		r = report_all("runtime", object);
	bpf_object__close(object);
	return r;
}

static int measure_runtimes(void)
{
	struct bulkhead_bpf *o = bulkhead_bpf__open();

	if (!o)
		return -errno;
	configure(o, false);
	int r = bulkhead_bpf__load(o);
	for (uint32_t runtime = 1; runtime < BH_RUNTIME_COUNT && !r; runtime++)
		r = measure_runtime(runtime, o->obj);
	bulkhead_bpf__destroy(o);
	return r;
}

int main(void)
{
	int r = user_reads_register();

	if (!r)
		r = measure("plain", false);
	if (!r)
		r = measure_runtimes();
	/* Last, because kernels before 5.15 have no filter by cgroup. */
	if (!r)
		r = measure("filters", true);
	if (r)
		fprintf(stderr, "verifier_cost: %s\n", strerror(-r));
	return r == -EPERM || r == -EACCES ? SKIPPED : r ? 1 : 0;
}
