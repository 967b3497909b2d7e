/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/runtime/scene.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/incomplete_reasons.h"
#include "symbolizer/runtime/runtime.h"
#include "symbolizer/worker/runtime_slots.h"

enum {
	ATTACH_TRIES = 4,
	/* As symbolizer/worker/runtimes.c has them. */
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

/* A runtime in the process, as struct attachment of the worker. */
struct actor {
	unsigned int runtime; /* 0: there is none */
	struct case_runtime *from;
	void *image;
	struct memory memory;
	struct runtime_process process;
	bool attached;
	int block;
};

struct scene {
	struct case_file *file;
	struct foreign *foreign;
	struct scene_text *text;
	struct bh_runtime_table runtimes;
	struct runtime_slots slots;
	struct runtime_slot_range ranges[CASE_RUNTIMES_MAX * RUNTIME_RANGES_MAX];
	struct actor actors[CASE_RUNTIMES_MAX];
	struct runtime_frames frames;
};

const struct runtime_ops *scene_runtime_ops(unsigned int runtime)
{
	return runtime < BH_RUNTIME_COUNT ? all_ops[runtime] : NULL;
}

const char *scene_runtime_name(unsigned int runtime)
{
	return runtime < BH_RUNTIME_COUNT && all_names[runtime] ? all_names[runtime] : "";
}

static void text_add(struct scene_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void text_add(struct scene_text *text, const char *format, ...)
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

/* ---- Attaching, as the worker does it ---- */

static int actor_recognise(struct actor *actor)
{
	struct runtime_file file;
	struct runtime_refusal refusal = {0};
	int r = runtime_file_init(&file, actor->from->file.fd, actor->from->path);

	if (r < 0)
		return r;
	r = all_ops[actor->runtime]->recognise(&file, &actor->image, &refusal);
	runtime_file_fini(&file);
	return r;
}

static int actor_attach(struct scene *scene, struct actor *actor)
{
	struct foreign *foreign = scene->foreign;
	int r;

	foreign->file = &actor->from->file;
	r = actor_recognise(actor);
	foreign->file = NULL;
	if (r < 0)
		return r;
	actor->memory = (struct memory){.fd = -1, .pid = (pid_t)scene->file->tgid};
	actor->process = (struct runtime_process){.ops = all_ops[actor->runtime],
						  .tgid = scene->file->tgid,
						  .image = actor->image,
						  .path = actor->from->path,
						  .bias = actor->from->bias,
						  .memory = &actor->memory};
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
	const struct scene *scene = context;

	for (unsigned int i = 0; i < scene->file->runtime_count; i++) {
		const struct actor *actor = &scene->actors[i];

		if (actor->attached)
			table->blocks[actor->block] = actor->process.layout.block;
	}
}

static void scene_publish(struct scene *scene)
{
	size_t count = 0;

	scene->slots.table = &scene->runtimes;
	for (unsigned int i = 0; i < scene->file->runtime_count; i++) {
		struct actor *actor = &scene->actors[i];
		const struct runtime_layout *layout = &actor->process.layout;

		if (!actor->attached)
			continue;
		actor->block = runtime_slots_take_block(&scene->slots);
		for (unsigned int j = 0; j < layout->range_count && j < RUNTIME_RANGES_MAX; j++) {
			const struct runtime_range *from = &layout->ranges[j];

			scene->ranges[count++] = (struct runtime_slot_range){
			    .range = {.start = from->start,
				      .end = from->end,
				      .runtime = (uint16_t)actor->runtime,
				      .block = (uint16_t)actor->block,
				      .data = from->data},
			    .in_file = from->in_file};
		}
	}
	runtime_slots_publish(&scene->slots, scene->file->tgid, scene->ranges, count, blocks_fill,
			      scene);
}

static void scene_attach(struct scene *scene)
{
	for (unsigned int i = 0; i < scene->file->runtime_count; i++) {
		struct actor *actor = &scene->actors[i];

		actor->from = &scene->file->runtimes[i];
		for (unsigned int j = 1; j < BH_RUNTIME_COUNT; j++) {
			if (!strcmp(all_names[j], actor->from->name))
				actor->runtime = j;
		}
		const int r = actor->runtime ? actor_attach(scene, actor) : -ENOENT;
		if (r < 0)
			text_add(scene->text, "%s is not attached: %s %s\n", actor->from->name,
				 strerror(-r), actor->process.refusal.text);
	}
	scene_publish(scene);
}

static void scene_detach(struct scene *scene)
{
	for (unsigned int i = 0; i < scene->file->runtime_count; i++) {
		struct actor *actor = &scene->actors[i];

		if (actor->process.ops)
			actor->process.ops->detach(&actor->process);
		if (actor->image)
			all_ops[actor->runtime]->release(actor->image);
	}
}

/* ---- Text ---- */

static void text_managed(struct scene *scene, const uint64_t *words)
{
	const unsigned int runtime = bh_frame_runtime(words[0]);
	struct runtime_frames *frames = &scene->frames;
	struct actor *actor = NULL;
	int r = -ESRCH;

	frames->count = 0;
	frames->used = 0;
	for (unsigned int i = 0; i < scene->file->runtime_count && !actor; i++) {
		if (scene->actors[i].attached && scene->actors[i].runtime == runtime)
			actor = &scene->actors[i];
	}
	if (actor) {
		memory_allow(&actor->memory, FRAME_READS, FRAME_BYTES);
		r = actor->process.ops->symbolize(&actor->process, words, frames);
	}
	if (r < 0 || !frames->count)
		text_add(scene->text, "%s [%s]\n", scene_runtime_name(runtime), strerror(-r));
	for (unsigned int i = 0; r == 0 && i < frames->count && i < RUNTIME_INLINED_MAX; i++) {
		const struct runtime_frame *f = &frames->frames[i];

		text_add(scene->text, "%s %s %s:%u (%u)%s\n", scene_runtime_name(runtime),
			 f->function, f->file, f->line, f->start_line,
			 i + 1 < frames->count ? " inlined" : "");
	}
}

static void text_native(struct scene *scene, uint64_t frame)
{
	const uint64_t number = frame >> BH_FRAME_OFFSET_BITS;

	if (frame & BH_FRAME_RAW)
		text_add(scene->text, "memory %#llx\n",
			 (unsigned long long)(frame & BH_ADDRESS_MASK));
	else
		text_add(scene->text, "native %s+%#llx\n",
			 number < scene->file->module_count ? scene->file->modules[number].name
							    : "?",
			 (unsigned long long)(frame & BH_FRAME_OFFSET_MASK));
}

static void scene_print(struct scene *scene, const struct user_walk_result *result)
{
	for (unsigned int i = 0; i < result->count;) {
		const unsigned int words = bh_frame_words(result->frames[i]);

		if (words > result->count - i) {
			text_add(scene->text, "a frame without its words\n");
			break;
		}
		if (bh_frame_is_managed(result->frames[i]))
			text_managed(scene, &result->frames[i]);
		else
			text_native(scene, result->frames[i]);
		i += words;
	}
	text_add(scene->text, "end %s\n",
		 result->reason < BH_REASON_COUNT ? incomplete_reason_names[result->reason] : "?");
}

void scene_run(struct case_file *file, struct foreign *foreign, const struct scene_tables *tables,
	       struct user_walk_result *result, struct scene_text *text)
{
	struct scene *scene = calloc(1, sizeof(*scene));

	if (!scene)
		abort();
	scene->file = file;
	scene->foreign = foreign;
	scene->text = text;
	foreign_use(foreign);
	const struct foreign_faults faults = foreign->faults;
	if (faults.late)
		foreign->faults = (struct foreign_faults){0};
	scene_attach(scene);
	foreign->faults = faults;
	const struct user_walk walk = {.tables = &tables->tables,
				       .runtimes = &scene->runtimes,
				       .tgid = file->tgid,
				       .mapping_slab = tables->mapping_slab,
				       .mapping_offset = tables->mapping_offset,
				       .mapping_count = tables->mapping_count,
				       .thread_pointer = file->thread_pointer,
				       .read = foreign_read_around,
				       .context = foreign};
	user_walk_run(&walk, &file->registers, result);
	scene_print(scene, result);
	scene_detach(scene);
	foreign_use(NULL);
	free(scene);
}
