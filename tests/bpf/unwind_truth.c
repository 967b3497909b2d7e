/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the unwinder with gdb: unwind_truth FILE, where FILE was written by
 * tests/e2e/gdb_truth/record_truth.py. It builds tables from the mapped files as the manager does,
 * unwinds each recorded stack, and compares it with gdb's frame by frame. It prints a JSON object
 * for each difference, and one with the sums.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "common/incomplete_reasons.h"
#include "parse/proc_maps.h"
#include "tests/support/unwind_memory.h"

enum {
	MODULES_MAX = 512,
	MAPPINGS_MAX = (1 << BH_PROCESS_MAPPINGS_BITS) - 1,
	SLABS = 31,
	FRAMES_MAX = 4096,
};

struct truth_module {
	char path[512];
	struct table table;
	bool ready;
};

struct truth {
	struct unwind_memory memory;
	struct truth_module modules[MODULES_MAX]; /* by slot, which is also the id; 0: no file */
	unsigned int module_count;
	struct slab_block mappings;
	unsigned int mapping_count;
	char *maps;
	struct unwind_file vdso;
	uint64_t vdso_pid;
	unsigned int stops, threads, equal, cut, different;
	unsigned int depth_sum, depth_max, sigtramps;
};

struct thread {
	json_t *json;
	uint64_t expected[FRAMES_MAX]; /* frames of gdb, as addresses in the call */
	unsigned int expected_count;
	uint64_t ours[BH_USER_FRAMES_MAX];
	unsigned int count;
	unsigned int reason;
};

static void fail(const char *what)
{
	fprintf(stderr, "unwind_truth: %s\n", what);
	exit(2);
}

static uint64_t hex(const char *text)
{
	char *end;
	const uint64_t value = text ? strtoull(text, &end, 16) : 0;

	if (!text || *end)
		fail("not a hexadecimal number");
	return value;
}

static uint64_t hex_member(const json_t *object, const char *name)
{
	return hex(json_string_value(json_object_get(object, name)));
}

static uint8_t *hex_bytes(const char *text, size_t *length)
{
	static const char digits[] = "0123456789abcdef";

	if (!text)
		fail("no bytes");
	*length = strlen(text) / 2;
	uint8_t *bytes = malloc(*length + 1);
	for (size_t i = 0; bytes && i < *length; i++) {
		const char *high = strchr(digits, text[2 * i]),
			   *low = strchr(digits, text[2 * i + 1]);

		if (!high || !low)
			fail("bytes are not hexadecimal");
		bytes[i] = (uint8_t)((high - digits) << 4 | (low - digits));
	}
	return bytes;
}

/* ---- Tables ---- */

static void module_build(struct truth *truth, unsigned int id, const struct elf_source *source)
{
	struct truth_module *module = &truth->modules[id];
	struct unwind_table_builder builder;
	int r = unwind_table_build(&builder, truth->memory.rules, RULES_MAX, source);

	if (!r)
		r = table_place(&module->table, &builder, &truth->memory.slabs);
	unwind_table_builder_fini(&builder, truth->memory.rules, 0);
	module->ready = r == 0;
	if (r)
		fprintf(stderr, "%s: no table: %s\n", module->path, strerror(-r));
	truth->memory.modules[id] =
	    (struct bh_module){.state = BH_MODULE_FRAME_POINTERS, .id = id};
	if (!r)
		unwind_memory_publish(&truth->memory, id, id, &module->table);
}

/* Returns the index of the module with that path, and builds its table if it is new. */
static unsigned int module_of(struct truth *truth, const char *path)
{
	struct unwind_file file;

	if (path[0] != '/' && strcmp(path, "[vdso]") != 0)
		return 0;
	for (unsigned int i = 1; i <= truth->module_count; i++) {
		if (!strcmp(truth->modules[i].path, path))
			return i;
	}
	if (truth->module_count + 1 >= MODULES_MAX)
		fail("too many files");
	const unsigned int id = ++truth->module_count;
	snprintf(truth->modules[id].path, sizeof(truth->modules[id].path), "%s", path);
	truth->memory.modules[id] =
	    (struct bh_module){.state = BH_MODULE_FRAME_POINTERS, .id = id};
	if (path[0] != '/')
		return id; /* its contents follow in the next line of the file */
	if (unwind_file_read(&file, path) < 0) {
		fprintf(stderr, "%s: cannot be read\n", path);
		return id;
	}
	module_build(truth, id, unwind_file_source(&file));
	free(file.data);
	return id;
}

static void on_mapping(void *context, const struct proc_mapping *line)
{
	struct truth *truth = context;
	struct bh_mapping *mappings = slabs_at(&truth->memory.slabs, &truth->mappings);
	char path[512];

	if (!line->executable || line->end >> 62 || truth->mapping_count == MAPPINGS_MAX)
		return;
	snprintf(path, sizeof(path), "%.*s", (int)line->path_length, line->path);
	const unsigned int id = module_of(truth, path);
	mappings[truth->mapping_count++] = (struct bh_mapping){
	    .start = line->start,
	    .end = line->end,
	    .bias = id ? line->start - line->file_offset : 0,
	    .slot = id,
	    .module_id = id,
	};
}

static void on_maps(struct truth *truth, const json_t *json)
{
	const char *text = json_string_value(json_object_get(json, "text"));

	if (!text)
		fail("maps without text");
	truth->mapping_count = 0;
	proc_maps_parse(text, strlen(text), on_mapping, truth);
}

static void on_vdso(struct truth *truth, const json_t *json)
{
	struct unwind_file file = {0};
	const unsigned int id = module_of(truth, "[vdso]");

	if (truth->modules[id].ready)
		return;
	file.data =
	    hex_bytes(json_string_value(json_object_get(json, "bytes")), &file.buffer.length);
	file.buffer.data = file.data;
	module_build(truth, id, unwind_file_source(&file));
	free(file.data);
}

/* ---- One stack ---- */

static const struct bh_mapping *mapping_of(const struct truth *truth, uint64_t address)
{
	const struct bh_mapping *mappings = slabs_at(&truth->memory.slabs, &truth->mappings);

	for (unsigned int i = 0; i < truth->mapping_count; i++) {
		if (address >= mappings[i].start && address < mappings[i].end)
			return &mappings[i];
	}
	return NULL;
}

/* Returns the address from which a frame was made. A file may be mapped in pieces, but each offset
 * of code is mapped once. */
static uint64_t frame_address(const struct truth *truth, uint64_t frame)
{
	const struct bh_mapping *mappings = slabs_at(&truth->memory.slabs, &truth->mappings);

	if (frame & BH_FRAME_RAW)
		return frame & ~BH_FRAME_RAW;
	for (unsigned int i = 0; i < truth->mapping_count; i++) {
		const uint64_t address = (frame & BH_FRAME_OFFSET_MASK) + mappings[i].bias;

		if (mappings[i].module_id == frame >> BH_FRAME_OFFSET_BITS &&
		    address >= mappings[i].start && address < mappings[i].end)
			return address;
	}
	return 0;
}

static void registers_read(const json_t *json, struct bh_registers *registers)
{
	static const char *const names[16] = {"rax", "rdx", "rcx", "rbx", "rsi", "rdi",
					      "rbp", "rsp", "r8",  "r9",  "r10", "r11",
					      "r12", "r13", "r14", "r15"};

	for (unsigned int i = 0; i < 16; i++)
		registers->gpr[i] = hex_member(json, names[i]);
	registers->rip = hex_member(json, "rip");
}

static const char *string_at(const struct thread *thread, const char *list, size_t i)
{
	const char *text =
	    json_string_value(json_array_get(json_object_get(thread->json, list), i));

	return text ? text : "";
}

/* Sets the expected frames: the return addresses - 1. The frame that a signal handler interrupted keeps
 * its address. */
static void thread_expect(struct truth *truth, struct thread *thread)
{
	const json_t *pcs = json_object_get(thread->json, "pcs");
	const size_t count = json_array_size(pcs);

	thread->expected_count = count < FRAMES_MAX ? (unsigned int)count : FRAMES_MAX;
	for (unsigned int i = 0; i < thread->expected_count; i++) {
		const bool interrupted =
		    i == 0 || !strcmp(string_at(thread, "types", i - 1), "sigtramp");

		thread->expected[i] = hex(json_string_value(json_array_get(pcs, i))) - !interrupted;
		truth->sigtramps += !strcmp(string_at(thread, "types", i), "sigtramp");
	}
}

static void thread_walk(struct truth *truth, struct thread *thread)
{
	const struct walker_tables tables = unwind_memory_tables(&truth->memory);
	struct bh_registers registers;
	uint64_t frames[BH_USER_FRAMES_MAX];
	struct walker_stack stack = {.start = hex_member(thread->json, "stack")};

	registers_read(json_object_get(thread->json, "regs"), &registers);
	uint8_t *bytes =
	    hex_bytes(json_string_value(json_object_get(thread->json, "bytes")), &stack.length);
	stack.bytes = bytes;
	thread->reason =
	    walker_run(&tables, &registers, &stack, truth->mappings.slab, truth->mappings.offset,
		       truth->mapping_count, frames, &thread->count);
	free(bytes);
	for (unsigned int i = 0; i < thread->count; i++)
		thread->ours[i] = frame_address(truth, frames[i]);
}

/* Describes the rule at a place. It is found without a binary search, through all deltas of the
 * page. */
static json_t *rule_at(const struct truth *truth, const struct bh_mapping *mapping,
		       uint64_t address)
{
	static const char *const kinds[] = {"frame_pointer", "end",    "sp",  "fp",
					    "register",	     "deref",  "plt", "signal",
					    "ra_register",   "unknown"};
	const struct truth_module *module = &truth->modules[mapping->module_id];
	const uint64_t offset = address - mapping->bias,
		       page = (offset >> BH_PAGE_BITS) - module->table.first_page;

	if (!module->ready || page >= module->table.page_count)
		return json_string("none");
	const struct bh_page *entry =
	    (const struct bh_page *)slabs_at(&truth->memory.slabs, &module->table.pages) + page;
	const struct bh_delta *deltas =
	    (const void *)(truth->memory.slabs.slabs[entry->slab].data + entry->offset);
	unsigned int i = 0;
	while (i + 1u < entry->count && deltas[i + 1].low <= (offset & ((1 << BH_PAGE_BITS) - 1)))
		i++;
	const struct bh_rule *rule = &truth->memory.rules->table[deltas[i].rule];
	return json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i}", "kind", kinds[rule->kind], "reg",
			 rule->reg, "cfa", rule->cfa, "extra", rule->extra, "fp_kind",
			 rule->fp_kind, "fp", rule->fp, "bx_kind", rule->bx_kind);
}

static json_t *place(const struct truth *truth, uint64_t address)
{
	const struct bh_mapping *mapping = mapping_of(truth, address);
	char text[600];

	if (!mapping)
		snprintf(text, sizeof(text), "nowhere:%#" PRIx64, address);
	else
		snprintf(text, sizeof(text), "%s+%#" PRIx64,
			 mapping->module_id ? truth->modules[mapping->module_id].path : "[memory]",
			 address - mapping->bias);
	json_t *json = json_pack("{s:s}", "at", text);
	if (mapping)
		json_object_set_new(json, "rule", rule_at(truth, mapping, address));
	return json;
}

static void report(const struct truth *truth, const struct thread *thread, const char *class,
		   unsigned int same)
{
	json_t *json = json_pack(
	    "{s:s, s:O, s:O, s:O, s:s, s:s, s:i, s:i, s:i}", "class", class, "stop",
	    json_object_get(thread->json, "stop"), "tid", json_object_get(thread->json, "tid"),
	    "gdb_end", json_object_get(thread->json, "end"), "reason",
	    incomplete_reason_names[thread->reason], "name",
	    json_string_value(json_object_get(thread->json, "name")), "same", same, "gdb_frames",
	    thread->expected_count, "our_frames", thread->count);

	/* The last equal frame, after which the two differ. */
	if (same) {
		json_t *from = place(truth, thread->expected[same - 1]);

		json_object_set_new(from, "type",
				    json_string(string_at(thread, "types", same - 1)));
		json_object_set_new(from, "name",
				    json_string(string_at(thread, "names", same - 1)));
		json_object_set_new(json, "from", from);
	}
	if (same < thread->expected_count) {
		json_t *gdb = place(truth, thread->expected[same]);

		json_object_set_new(gdb, "type", json_string(string_at(thread, "types", same)));
		json_object_set_new(gdb, "name", json_string(string_at(thread, "names", same)));
		json_object_set_new(json, "gdb", gdb);
	}
	if (same < thread->count)
		json_object_set_new(json, "ours", place(truth, thread->ours[same]));
	json_dumpf(json, stdout, 0);
	putchar('\n');
	json_decref(json);
}

static void on_thread(struct truth *truth, json_t *json)
{
	static struct thread thread;
	unsigned int same = 0;

	thread = (struct thread){.json = json};
	thread_expect(truth, &thread);
	thread_walk(truth, &thread);
	while (same < thread.count && same < thread.expected_count &&
	       thread.ours[same] == thread.expected[same])
		same++;
	const bool ours_is_prefix = same == thread.count,
		   gdbs_is_prefix = same == thread.expected_count;
	truth->threads++;
	truth->depth_sum += same;
	truth->depth_max = same > truth->depth_max ? same : truth->depth_max;
	if (ours_is_prefix && gdbs_is_prefix && thread.reason == BH_REASON_COMPLETE) {
		truth->equal++;
	} else if (ours_is_prefix &&
		   (thread.reason == BH_REASON_COPY_SHORT || thread.reason == BH_REASON_TOO_DEEP)) {
		truth->cut++;
		report(truth, &thread, "cut", same);
	} else {
		truth->different++;
		report(truth, &thread,
		       ours_is_prefix && gdbs_is_prefix ? "ended_otherwise"
		       : ours_is_prefix			? "ours_shorter"
		       : gdbs_is_prefix			? "ours_longer"
							: "other_frame",
		       same);
	}
	const unsigned int stop =
	    (unsigned int)json_integer_value(json_object_get(json, "stop")) + 1;
	truth->stops = stop > truth->stops ? stop : truth->stops;
}

static void on_line(struct truth *truth, const char *line)
{
	json_error_t error;
	json_t *json = json_loads(line, 0, &error);
	const char *kind = json ? json_string_value(json_object_get(json, "kind")) : NULL;

	if (!kind)
		fail("not a JSON object with a kind");
	if (!strcmp(kind, "maps"))
		on_maps(truth, json);
	else if (!strcmp(kind, "vdso"))
		on_vdso(truth, json);
	else if (!strcmp(kind, "thread"))
		on_thread(truth, json);
	json_decref(json);
}

int main(int argc, char **argv)
{
	_cleanup_fclose_ FILE *file = argc == 2 ? fopen(argv[1], "re") : NULL;
	_cleanup_free_ struct truth *truth = calloc(1, sizeof(*truth));
	_cleanup_free_ char *line = NULL;
	size_t room = 0;

	if (!file || !truth) {
		fprintf(stderr, "usage: unwind_truth FILE\n");
		return 2;
	}
	if (unwind_memory_init(&truth->memory, SLABS) < 0 ||
	    slabs_alloc(&truth->memory.slabs, MAPPINGS_MAX * sizeof(struct bh_mapping),
			&truth->mappings) < 0)
		fail("no memory");
	while (getline(&line, &room, file) > 0)
		on_line(truth, line);
	printf("{\"class\": \"sum\", \"stops\": %u, \"threads\": %u, \"equal\": %u, \"cut\": %u, "
	       "\"different\": %u, \"frames\": %u, "
	       "\"deepest\": %u, \"signal_frames\": %u, \"files\": %u}\n",
	       truth->stops, truth->threads, truth->equal, truth->cut, truth->different,
	       truth->depth_sum, truth->depth_max, truth->sigtramps, truth->module_count);
	for (unsigned int i = 1; i <= truth->module_count; i++) {
		if (truth->modules[i].ready)
			table_retire(&truth->modules[i].table, &truth->memory.slabs,
				     truth->memory.rules, 0);
	}
	unwind_memory_fini(&truth->memory);
	return 0;
}
