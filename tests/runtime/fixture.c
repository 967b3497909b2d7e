/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/runtime/fixture.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/incomplete_reasons.h"
#include "symbolizer/runtime/runtime.h"
#include "symbolizer/worker/runtime_images.h"
#include "symbolizer/worker/runtime_slots.h"

enum {
	ATTACH_TRIES = 4,
	/* The budgets of symbolizer/worker/runtime_attachment.c and runtimes.c. */
	ATTACH_READS = 65536,
	ATTACH_BYTES = 64 << 20,
	FRAME_READS = 2048,
	FRAME_BYTES = 4 << 20,
};

static const struct runtime_ops *const all_ops[BH_RUNTIME_COUNT] = {
#define RUNTIME(id, name, frame_type, title) [BH_RUNTIME_##id] = &runtime_##name,
#include "common/runtimes.def"
#undef RUNTIME
};

static const char *const all_names[BH_RUNTIME_COUNT] = {
#define RUNTIME(id, name, frame_type, title) [BH_RUNTIME_##id] = #name,
#include "common/runtimes.def"
#undef RUNTIME
};

/* What a runtime has recognised in its file. */
struct recognised {
	unsigned int runtime;
	void *image;		       /* NULL: nothing yet */
	struct runtime_image segments; /* of the file; nothing else of it is used */
};

struct fixture_images {
	struct recognised of[CASE_RUNTIMES_MAX];
};

/* A runtime in the process, like struct attachment of the worker. */
struct actor {
	unsigned int runtime; /* 0: there is none */
	struct case_runtime *from;
	struct recognised *kept; /* NULL: `recognised` is the actor's own */
	struct recognised recognised;
	struct memory memory;
	struct runtime_process process;
	struct runtime_code_memory code_memory;
	bool attached;
	int block;
};

struct fixture {
	struct case_file *file;
	struct other_process *other;
	struct fixture_images *images;
	struct fixture_text *text;
	struct bh_runtime_table runtimes;
	struct runtime_slots slots;
	struct runtime_slot_range ranges[CASE_RUNTIMES_MAX * RUNTIME_RANGES_MAX];
	struct actor actors[CASE_RUNTIMES_MAX];
	struct named_frames frames;
};

const struct runtime_ops *fixture_runtime_ops(unsigned int runtime)
{
	return runtime < BH_RUNTIME_COUNT ? all_ops[runtime] : NULL;
}

const char *fixture_runtime_name(unsigned int runtime)
{
	return runtime < BH_RUNTIME_COUNT && all_names[runtime] ? all_names[runtime] : "";
}

static void text_add(struct fixture_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void text_add(struct fixture_text *text, const char *format, ...)
{
	char line[4096];
	va_list args;

	va_start(args, format);
	const int n = vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	const size_t length = strlen(line);
	if (n < 0)
		return;
	if (text->used + length + 1 > text->room) {
		text->room = 2 * (text->used + length + 1);
		text->data = realloc(text->data, text->room);
		if (!text->data)
			abort();
	}
	memcpy(text->data + text->used, line, length + 1);
	text->used += length;
}

/* ---- Attaching, like the worker ---- */

static int actor_recognise(struct actor *actor)
{
	struct recognised *found = &actor->recognised;
	struct runtime_file file;
	struct runtime_refusal refusal = {0};

	if (actor->kept && actor->kept->image) {
		*found = *actor->kept;
		return 0;
	}
	int r = runtime_file_init(&file, actor->from->file.fd, actor->from->path);

	if (r < 0)
		return r;
	found->runtime = actor->runtime;
	r = all_ops[actor->runtime]->recognise(&file, &found->image, &refusal);
	found->segments.segment_count = file.image.segment_count;
	memcpy(found->segments.segments, file.image.segments, sizeof(file.image.segments));
	runtime_file_fini(&file);
	if (!r && actor->kept)
		*actor->kept = *found;
	return r;
}

/* Adds the mappings of the runtime's file, which is a module of the same name. */
static void actor_add_mappings(const struct fixture *fixture, struct actor *actor)
{
	const struct case_file *file = fixture->file;
	struct runtime_process *process = &actor->process;

	for (unsigned int i = 0;
	     i < file->mapping_count && process->mapping_count < RUNTIME_MAPPINGS_MAX; i++) {
		const struct case_mapping *m = &file->mappings[i];

		struct runtime_mapping mapping = {.start = m->start, .end = m->end};

		if (m->module && m->module < file->module_count &&
		    !strcmp(file->modules[m->module].name, actor->from->path) &&
		    runtime_image_bias(&actor->recognised.segments, m->start, m->start - m->bias,
				       &mapping.bias))
			process->mappings[process->mapping_count++] = mapping;
	}
}

/* Finds the executable memory without a file, as the manager reports it. */
static void actor_add_code_memory(const struct fixture *fixture, struct actor *actor)
{
	const struct case_file *file = fixture->file;
	struct runtime_code_memory *memory = &actor->code_memory;

	for (unsigned int i = 0; i < file->mapping_count && memory->count < RUNTIME_CODE_AREAS_MAX;
	     i++) {
		const struct case_mapping *m = &file->mappings[i];

		if (!m->module)
			memory->areas[memory->count++] =
			    (struct runtime_code_area){.start = m->start, .end = m->end};
	}
	actor->process.code_memory = memory;
}

static int actor_attach(struct fixture *fixture, struct actor *actor)
{
	struct other_process *other = fixture->other;
	int r;

	other->file = &actor->from->file;
	r = actor_recognise(actor);
	other->file = NULL;
	if (r < 0)
		return r;
	actor->memory = (struct memory){.fd = -1, .pid = (pid_t)fixture->file->tgid};
	actor->process = (struct runtime_process){.ops = all_ops[actor->runtime],
						  .tgid = fixture->file->tgid,
						  .image = actor->recognised.image,
						  .path = actor->from->path,
						  .bias = actor->from->bias,
						  .memory = &actor->memory};
	actor_add_mappings(fixture, actor);
	actor_add_code_memory(fixture, actor);
	r = -EAGAIN;
	for (int i = 0; i < ATTACH_TRIES && r == -EAGAIN; i++) {
		memory_allow(&actor->memory, ATTACH_READS, ATTACH_BYTES);
		r = all_ops[actor->runtime]->attach(&actor->process);
	}
	actor->attached = r == 0;
	return r;
}

static void blocks_fill(void *context, struct bh_runtime_table *table)
{
	const struct fixture *fixture = context;

	for (unsigned int i = 0; i < fixture->file->runtime_count; i++) {
		const struct actor *actor = &fixture->actors[i];

		if (actor->attached)
			table->blocks[actor->block] = actor->process.layout.block;
	}
}

static void fixture_publish(struct fixture *fixture)
{
	size_t count = 0;

	fixture->slots.table = &fixture->runtimes;
	for (unsigned int i = 0; i < fixture->file->runtime_count; i++) {
		struct actor *actor = &fixture->actors[i];
		const struct runtime_layout *layout = &actor->process.layout;

		if (!actor->attached)
			continue;
		actor->block = runtime_slots_take_block(&fixture->slots);
		for (unsigned int j = 0; j < layout->range_count && j < RUNTIME_RANGES_MAX; j++) {
			const struct runtime_range *from = &layout->ranges[j];

			fixture->ranges[count++] = (struct runtime_slot_range){
			    .range = {.start = from->start,
				      .end = from->end,
				      .runtime = (uint16_t)actor->runtime,
				      .block = (uint16_t)actor->block,
				      .data = from->data},
			    .in_file = from->in_file};
		}
	}
	runtime_slots_publish(&fixture->slots, fixture->file->tgid, fixture->ranges, count,
			      blocks_fill, fixture);
}

static void fixture_attach(struct fixture *fixture)
{
	for (unsigned int i = 0; i < fixture->file->runtime_count; i++) {
		struct actor *actor = &fixture->actors[i];

		actor->from = &fixture->file->runtimes[i];
		actor->kept = fixture->images ? &fixture->images->of[i] : NULL;
		for (unsigned int j = 1; j < BH_RUNTIME_COUNT; j++) {
			if (!strcmp(all_names[j], actor->from->name))
				actor->runtime = j;
		}
		const int r = actor->runtime ? actor_attach(fixture, actor) : -ENOENT;
		if (r < 0)
			text_add(fixture->text, "%s is not attached: %s %s\n", actor->from->name,
				 strerror(-r), actor->process.refusal.text);
	}
	fixture_publish(fixture);
}

static void recognised_release(struct recognised *recognised)
{
	if (recognised->image)
		all_ops[recognised->runtime]->release(recognised->image);
}

struct fixture_images *fixture_images_new(void)
{
	return calloc(1, sizeof(struct fixture_images));
}

void fixture_images_free(struct fixture_images *images)
{
	for (unsigned int i = 0; images && i < CASE_RUNTIMES_MAX; i++)
		recognised_release(&images->of[i]);
	free(images);
}

static void fixture_detach(struct fixture *fixture)
{
	for (unsigned int i = 0; i < fixture->file->runtime_count; i++) {
		struct actor *actor = &fixture->actors[i];

		if (actor->process.ops)
			actor->process.ops->detach(&actor->process);
		if (!actor->kept)
			recognised_release(&actor->recognised);
	}
}

/* ---- Text ---- */

static void text_managed(struct fixture *fixture, const uint64_t *words)
{
	const unsigned int runtime = bh_frame_runtime(words[0]);
	struct named_frames *frames = &fixture->frames;
	struct actor *actor = NULL;
	int r = -ESRCH;

	/* In the worker this memory is on the stack, and has what was there before. */
	memset(frames->frames, 0x5a, sizeof(frames->frames));
	frames->count = 0;
	frames->used = 0;
	for (unsigned int i = 0; i < fixture->file->runtime_count && !actor; i++) {
		if (fixture->actors[i].attached && fixture->actors[i].runtime == runtime)
			actor = &fixture->actors[i];
	}
	if (actor) {
		memory_allow(&actor->memory, FRAME_READS, FRAME_BYTES);
		r = actor->process.ops->symbolize(&actor->process, words, frames);
	}
	if (r < 0 || !frames->count)
		text_add(fixture->text, "%s [%s]\n", fixture_runtime_name(runtime), strerror(-r));
	for (unsigned int i = 0; r == 0 && i < frames->count && i < NAMED_FRAMES_MAX; i++) {
		const struct named_frame *f = &frames->frames[i];

		text_add(fixture->text, "%s %s %s:%u (%u)%s%s\n", fixture_runtime_name(runtime),
			 f->function, f->file, f->line, f->start_line,
			 i + 1 < frames->count ? " inlined" : "",
			 f->system_name ? ", and the linker has a name" : "");
	}
}

static void text_native(struct fixture *fixture, uint64_t frame)
{
	const uint64_t module = frame >> BH_FRAME_OFFSET_BITS;

	if (frame & BH_FRAME_RAW)
		text_add(fixture->text, "memory %#llx\n",
			 (unsigned long long)(frame & BH_ADDRESS_MASK));
	else
		text_add(fixture->text, "native %s+%#llx\n",
			 module < fixture->file->module_count ? fixture->file->modules[module].name
							      : "?",
			 (unsigned long long)(frame & BH_FRAME_OFFSET_MASK));
}

static void fixture_print(struct fixture *fixture, const struct walk_in_process_result *result)
{
	for (unsigned int i = 0; i < result->count;) {
		const unsigned int words = bh_frame_words(result->frames[i]);

		if (words > result->count - i) {
			text_add(fixture->text, "a frame without its words\n");
			break;
		}
		if (bh_frame_is_managed(result->frames[i]))
			text_managed(fixture, &result->frames[i]);
		else
			text_native(fixture, result->frames[i]);
		i += words;
	}
	text_add(fixture->text, "end %s\n",
		 result->reason < BH_REASON_COUNT ? incomplete_reason_names[result->reason] : "?");
}

void fixture_run(struct case_file *file, struct other_process *other,
		 const struct fixture_tables *tables, struct fixture_images *images,
		 struct walk_in_process_result *result, struct fixture_text *text)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	if (!fixture)
		abort();
	fixture->file = file;
	fixture->other = other;
	fixture->images = images;
	fixture->text = text;
	other_process_use(other);
	const struct other_process_faults faults = other->faults;
	if (faults.late)
		other->faults = (struct other_process_faults){0};
	fixture_attach(fixture);
	other->faults = faults;
	const struct walk_in_process walk = {.tables = &tables->tables,
					     .runtimes = &fixture->runtimes,
					     .tgid = file->tgid,
					     .mapping_slab = tables->mapping_slab,
					     .mapping_offset = tables->mapping_offset,
					     .mapping_count = tables->mapping_count,
					     .thread_pointer = file->thread_pointer,
					     .read = other_process_read_around,
					     .context = other};
	walk_in_process_run(&walk, &file->registers, result);
	fixture_print(fixture, result);
	fixture_detach(fixture);
	other_process_use(NULL);
	free(fixture);
}
