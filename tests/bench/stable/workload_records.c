/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workloads: the path of a sample from the ring to a file, through the worker, the exporter and
 * each sink. Stacks have 30 frames. The phases are: stacks in which every frame is new, new stacks
 * of frames that have ids, and stacks that have ids.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "exporter/limits.h"
#include "exporter/model/aggregate.h"
#include "exporter/otlp/otlp_read.h"
#include "exporter/sinks/sink.h"
#include "symbolizer/worker/sample_check.h"
#include "symbolizer/worker/samples.h"
#include "symbolizer/worker/worker.h"
#include "tests/bench/stable/inputs.h"
#include "tests/bench/stable/measure.h"
#include "tests/bench/stable/workloads.h"
#include "tests/support/fake_peer.h"

enum {
	USER_FRAMES = 24,
	KERNEL_FRAMES = 6,
	FRAMES = USER_FRAMES + KERNEL_FRAMES,
	NAMED_SAMPLES = 64,
	NEW_SAMPLES = 1024,
	KNOWN_SAMPLES = 8192,
	KERNEL_SYMBOLS = 4096,
	TASKS = 32,
	BATCHES_MAX = 256,
	RING_HEADER_BYTES = 8, /* BPF_RINGBUF_HDR_SZ */
};

enum phase {
	PHASE_NEW_NAMES,
	PHASE_NEW_STACKS,
	PHASE_KNOWN_STACKS,
	PHASES
};

static const uint32_t phase_samples[PHASES] = {NAMED_SAMPLES, NEW_SAMPLES, KNOWN_SAMPLES};

/* What the worker sent, by phase. */
static struct outbox {
	enum phase phase;
	struct {
		void *data;
		size_t length;
	} batches[PHASES][BATCHES_MAX];
	uint32_t count[PHASES];
	size_t bytes[PHASES];
} outbox;

/* Stores what is sent to the exporter, which is no process here. */
static int on_send(enum message_type type, const void *payload, size_t length)
{
	const enum phase phase = outbox.phase;
	void *copy = malloc(length);

	NEED(copy && type == MESSAGE_BATCH && outbox.count[phase] < BATCHES_MAX);
	outbox.batches[phase][outbox.count[phase]].data = memcpy(copy, payload, length);
	outbox.batches[phase][outbox.count[phase]++].length = length;
	outbox.bytes[phase] += length;
	return 0;
}

FAKE_PEER(on_send);

/* ---- The worker ---- */

/* Reads the symbols of the module, whose cost is that of another workload. In how many slices that
 * happens depends on the time. */
static void read_symbols(struct worker *worker)
{
	struct module *module = modules_find(&worker->modules, INPUT_MODULE);
	struct symbols *symbols;
	int r;

	while ((r = modules_get_symbols(&worker->modules, module, true, &symbols)) == -EINPROGRESS)
		modules_read_on(&worker->modules);
	NEED(!r);
}

static struct worker *worker_new(void)
{
	const struct input_elf *elf = input_elf_new();
	const struct input_text kallsyms = input_kallsyms(KERNEL_SYMBOLS);
	const struct msg_module module = {.id = INPUT_MODULE, .path = "/usr/bin/example"};
	struct worker *worker = calloc(1, sizeof(*worker));

	NEED(worker);
	NEED(!worker_init(worker, false));
	NEED(!kernel_symbols_new(input_file(kallsyms.text, kallsyms.length), &worker->kernel));
	NEED(!modules_add(&worker->modules, &module, input_file(elf->data, elf->length)));
	/* Under callgrind this takes longer than its share of the time. */
	worker->modules.reading.most_ns = 1000 * NS_PER_S;
	read_symbols(worker);
	return worker;
}

/* Returns frame `depth` of stack `stack`. */
static uint64_t user_frame(enum phase phase, uint32_t stack, uint32_t depth)
{
	uint32_t at = stack * USER_FRAMES + depth;

	if (phase != PHASE_NEW_NAMES)
		at = input_random(at + 100000) % (NAMED_SAMPLES * USER_FRAMES);
	return (uint64_t)INPUT_MODULE << BH_FRAME_OFFSET_BITS | (0x2010 + 256u * at);
}

static uint64_t kernel_frame(uint32_t stack, uint32_t depth)
{
	return input_kernel_address(input_random(stack % NAMED_SAMPLES + 1000 * depth) %
				    (KERNEL_SYMBOLS / 4 * 3));
}

static void make_sample(enum phase phase, uint32_t i, struct bh_sample_record *record)
{
	const uint32_t stack = phase == PHASE_KNOWN_STACKS ? input_random(i) % NEW_SAMPLES : i;
	const uint32_t task = input_random(i) % TASKS;

	record->header = (struct bh_sample){.time_ns = 1000000ull * i,
					    .process_start_ns = 5000000ull * (task / 4),
					    .tgid = 100 + task / 4 * 4,
					    .tid = 100 + task,
					    .kernel_count = KERNEL_FRAMES,
					    .user_count = USER_FRAMES,
					    .comm = "example"};
	for (uint32_t depth = 0; depth < USER_FRAMES; depth++)
		record->frames[depth] = user_frame(phase, stack, depth);
	for (uint32_t depth = 0; depth < KERNEL_FRAMES; depth++)
		record->frames[USER_FRAMES + depth] = kernel_frame(stack, depth);
}

static void make_samples(enum phase phase, struct bh_sample_record *records)
{
	for (uint32_t i = 0; i < phase_samples[phase]; i++)
		make_sample(phase, i, &records[i]);
}

static void send_samples(struct worker *worker, enum phase phase,
			 const struct bh_sample_record *records)
{
	outbox.phase = phase;
	for (uint32_t i = 0; i < phase_samples[phase]; i++) {
		NEED(sample_is_valid(&records[i], sizeof(records[i])));
		samples_add(worker, &records[i].header, records[i].frames);
	}
	batch_flush(&worker->batch);
}

static struct bh_sample_record *records_room(void)
{
	struct bh_sample_record *records = calloc(KNOWN_SAMPLES, sizeof(*records));

	NEED(records);
	return records;
}

/* Runs the phases before `end`, which are not measured. Returns the worker after them. */
static struct worker *worker_run(enum phase end, struct bh_sample_record *records)
{
	struct worker *worker = worker_new();

	for (enum phase phase = 0; phase < end; phase++) {
		make_samples(phase, records);
		send_samples(worker, phase, records);
	}
	return worker;
}

static double batch_bytes(enum phase phase)
{
	return (double)outbox.bytes[phase] / phase_samples[phase];
}

static void measure_worker(enum phase phase, uint64_t items)
{
	struct bh_sample_record *records = records_room();
	struct worker *worker = worker_run(phase, records);

	make_samples(phase, records);
	measure_begin();
	send_samples(worker, phase, records);
	measure_end(items);
	for (int i = 0; i < LOSS_COUNT; i++)
		NEED(!worker->losses.lost[i]);
}

void workload_worker_new_names(void)
{
	measure_worker(PHASE_NEW_NAMES, NAMED_SAMPLES * FRAMES);
	measure_figure("bytes.batch_new_names",
		       (double)outbox.bytes[PHASE_NEW_NAMES] / (NAMED_SAMPLES * FRAMES),
		       "bytes/frame");
}

void workload_worker_new_stacks(void)
{
	measure_worker(PHASE_NEW_STACKS, NEW_SAMPLES);
	measure_figure("bytes.batch_new_stacks", batch_bytes(PHASE_NEW_STACKS), "bytes/sample");
	measure_figure("bytes.sample_header", sizeof(struct bh_sample), "bytes");
	measure_figure("bytes.ring_sample",
		       RING_HEADER_BYTES + offsetof(struct bh_sample_record, frames) + 8 * FRAMES,
		       "bytes");
}

void workload_worker_known_stacks(void)
{
	measure_worker(PHASE_KNOWN_STACKS, KNOWN_SAMPLES);
	measure_figure("bytes.batch_known_stacks", batch_bytes(PHASE_KNOWN_STACKS), "bytes/sample");
}

/* ---- The exporter ---- */

static void receive(struct aggregate *aggregate, enum phase phase)
{
	for (uint32_t i = 0; i < outbox.count[phase]; i++)
		NEED(!aggregate_batch(aggregate, outbox.batches[phase][i].data,
				      outbox.batches[phase][i].length));
}

/* Returns an aggregate that has received the phases before `end`. All phases have been sent. */
static struct aggregate *aggregate_new(enum phase end)
{
	struct aggregate *aggregate = calloc(1, sizeof(*aggregate));

	NEED(aggregate && !aggregate_init(aggregate, LIMIT_PROFILE_BYTES));
	worker_run(PHASES, records_room());
	for (enum phase phase = 0; phase < end; phase++)
		receive(aggregate, phase);
	return aggregate;
}

static void measure_exporter(enum phase phase, uint64_t items)
{
	struct aggregate *aggregate = aggregate_new(phase);
	const uint64_t before = aggregate->exported;

	measure_begin();
	receive(aggregate, phase);
	measure_end(items);
	NEED(aggregate->exported - before == phase_samples[phase]);
}

void workload_exporter_new_names(void)
{
	measure_exporter(PHASE_NEW_NAMES, NAMED_SAMPLES * FRAMES);
}

void workload_exporter_new_stacks(void)
{
	measure_exporter(PHASE_NEW_STACKS, NEW_SAMPLES);
}

void workload_exporter_known_stacks(void)
{
	measure_exporter(PHASE_KNOWN_STACKS, KNOWN_SAMPLES);
}

/* ---- Files ---- */

static struct profile *profile_new(void)
{
	struct profile *profile = &aggregate_new(PHASES)->profile;

	profile->period_ns = 10101010;
	profile->start_unix_ns = 1700000000000000000;
	profile->duration_ns = 10000000000;
	return profile;
}

static size_t render(const struct profile *profile, const char *format, char **text)
{
	const struct sink *sink = sink_find(format);
	size_t length;
	FILE *out = open_memstream(text, &length);

	NEED(sink && out && !sink->write(profile, &(struct sink_options){0}, out) && !fclose(out));
	return length;
}

static void measure_sink(const char *format)
{
	const struct profile *profile = profile_new();
	char name[32], *text;

	measure_begin();
	const size_t length = render(profile, format, &text);
	measure_end(profile->stacks_count);
	snprintf(name, sizeof(name), "bytes.%s", format);
	measure_figure(name, (double)length, "bytes");
}

void workload_sink_otlp(void)
{
	measure_sink("otlp");
}

void workload_sink_pprof(void)
{
	measure_sink("pprof");
}

void workload_sink_html(void)
{
	measure_sink("html");
}

void workload_sink_folded(void)
{
	measure_sink("folded");
}

void workload_sink_speedscope(void)
{
	measure_sink("speedscope");
}

void workload_sink_tree(void)
{
	measure_sink("tree");
}

void workload_otlp_read(void)
{
	const struct profile *profile = profile_new();
	struct profile back;
	char *text;
	const size_t length = render(profile, "otlp", &text);

	NEED(!profile_init(&back, SIZE_MAX));
	measure_begin();
	NEED(!otlp_read((const uint8_t *)text, length, &back));
	measure_end(profile->stacks_count);
	NEED(back.sample_count == profile->sample_count);
	measure_figure("bytes.profile", (double)profile->bytes, "bytes");
}
