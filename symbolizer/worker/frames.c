/* SPDX-License-Identifier: Apache-2.0 */
/* From a frame as sampled to a numbered record with a name. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/frame_kind.h"
#include "common/incomplete_reasons.h"
#include "common/limits.h"
#include "symbolizer/worker/runtimes.h"
#include "symbolizer/worker/symbol_name.h"
#include "symbolizer/worker/worker.h"

static bool frame_is_kernel(uint64_t frame)
{
	return frame >> 48 == 0xffff;
}

/* The number of the function that starts at `start` of `module`, defined if it is new. `generated`:
 * it has no symbol, and the name was made from its address. */
static int define_function(struct worker *worker, uint32_t module, uint64_t start, const char *name,
			   bool generated, uint32_t *number)
{
	XXH128_hash_t key = XXH3_128bits_withSeed(name, strlen(name), module);

	key.high64 ^= start * 0x9e3779b97f4a7c15u;
	if (id_map_get(&worker->numbers.functions, key, number))
		return 0;
	*number = ++worker->numbers.next_function;
	records_add_function(worker->batch,
			     &(struct record_function){
				 .number = *number, .name = name, .name_is_generated = generated});
	return id_map_put(&worker->numbers.functions, key, *number);
}

static int function_number(struct worker *worker, uint32_t module, uint64_t start, const char *name,
			   uint32_t *number)
{
	return define_function(worker, module, start, name, false, number);
}

/* Define the function without a symbol that starts at `start` (as linked) of a module:
 * "cc1+0xb1f000". All its frames share it, so that a flame graph is not split by instruction. */
static int unnamed_function_number(struct worker *worker, const struct worker_module *module,
				   uint32_t module_number, uint64_t start, uint32_t *number)
{
	const char *slash = strrchr(module->path, '/');
	const char *file = slash && slash[1] ? slash + 1 : module->path;
	char name[sizeof(module->path) + sizeof("+0x") + 2 * sizeof(start)];

	snprintf(name, sizeof(name), "%s+0x%" PRIx64, file, start);
	return define_function(worker, module_number, start, name, true, number);
}

/* A module is known to the exporter by a number of ours, dense, whatever the manager's is. */
static int define_module(struct worker *worker, XXH128_hash_t key, const char *path,
			 const struct symbols_ids *ids, uint32_t *number)
{
	if (id_map_get(&worker->numbers.modules, key, number))
		return 0;
	*number = ++worker->numbers.next_module;
	records_add_module(worker->batch,
			   &(struct record_module){.number = *number,
						   .path = path,
						   .gnu_build_id = ids ? ids->gnu_build_id : "",
						   .htlhash = ids ? ids->htlhash : "",
						   .go_build_id = ids ? ids->go_build_id : ""});
	return id_map_put(&worker->numbers.modules, key, *number);
}

/* The kernel's own text is "vmlinux"; its modules and BPF programs are known by name. */
static int kernel_module_number(struct worker *worker, const char *name, uint32_t *number)
{
	return define_module(worker, XXH3_128bits_withSeed(name, strlen(name), FRAME_KIND_KERNEL),
			     name, NULL, number);
}

/* Kernel frames are known by name alone: addresses of the kernel do not leave the host. */
static int describe_kernel(struct worker *worker, uint64_t address, struct record_frame *record)
{
	struct kernel_symbol symbol;

	record->kind = FRAME_KIND_KERNEL;
	if (!worker->kernel || !kernel_symbols_find(worker->kernel, address, &symbol)) {
		snprintf(symbol.name, sizeof(symbol.name), "[unknown]");
		snprintf(symbol.module, sizeof(symbol.module), "vmlinux");
		symbol.start = 0;
	}
	int r = kernel_module_number(worker, symbol.module, &record->module);
	if (!r)
		r = function_number(worker, record->module, symbol.start, symbol.name,
				    &record->function);
	return r;
}

static int describe_native(struct worker *worker, uint64_t frame, struct record_frame *record)
{
	const uint32_t number = (uint32_t)(frame >> BH_FRAME_OFFSET_BITS);
	const uint64_t offset = frame & BH_FRAME_OFFSET_MASK;
	struct worker_module *module = modules_find(worker, number);
	static const char unknown[] = "[unknown module]";
	struct symbol symbol;

	record->kind = FRAME_KIND_NATIVE;
	record->address = offset;
	const struct symbols *symbols = module ? modules_symbols(worker, module) : NULL;
	int r = define_module(worker, XXH3_128bits(&number, sizeof(number)),
			      module ? module->path : unknown, module ? &module->ids : NULL,
			      &record->module);
	if (r < 0 || !symbols)
		return r;
	symbols_offset_to_vaddr(symbols, offset, &record->address);
	if (symbols_find(symbols, offset, &symbol))
		return function_number(worker, record->module, symbol.start_vaddr, symbol.name,
				       &record->function);
	if (modules_function_start(worker, module, offset, &symbol.start_vaddr))
		return unnamed_function_number(worker, module, record->module, symbol.start_vaddr,
					       &record->function);
	return 0;
}

static int describe_raw(struct worker *worker, uint64_t frame, struct record_frame *record)
{
	const bool vsyscall =
	    (frame & BH_ADDRESS_MASK) >> 12 == (BH_VSYSCALL_PAGE & (BH_ADDRESS_MASK >> 12));

	record->kind = FRAME_KIND_NATIVE;
	return function_number(worker, 0, vsyscall, vsyscall ? "[vsyscall]" : "[anonymous code]",
			       &record->function);
}

int frames_number(struct worker *worker, uint64_t frame, uint32_t *number)
{
	const XXH128_hash_t key = XXH3_128bits(&frame, sizeof(frame));
	struct record_frame record = {0};
	int r;

	if (id_map_get(&worker->numbers.frames, key, number))
		return 0;
	samples_make_room(worker);
	if (frame_is_kernel(frame))
		r = describe_kernel(worker, frame, &record);
	else if (frame & BH_FRAME_RAW)
		r = describe_raw(worker, frame, &record);
	else
		r = describe_native(worker, frame, &record);
	if (r < 0)
		return r;
	*number = record.number = ++worker->numbers.next_frame;
	records_add_frame(worker->batch, &record);
	return id_map_put(&worker->numbers.frames, key, *number);
}

enum {
	/* In a table's value: how many numbers it stands for, above the first. */
	COUNT_SHIFT = 27,
};
_Static_assert(LIMIT_WORKER_FRAMES < (1ll << COUNT_SHIFT) / RUNTIME_INLINED_MAX / 2, "numbers fit");
_Static_assert(RUNTIME_INLINED_MAX < 1 << (32 - COUNT_SHIFT), "counts fit");
_Static_assert(FRAME_KIND_ABORT + BH_RUNTIME_COUNT == FRAME_KIND_COUNT, "kinds of runtimes follow");

enum {
	MANAGED_TEXT_MAX = 2048, /* bytes of a name or a path as they are passed on */
};

static int managed_function_number(struct worker *worker, const struct runtime_frame *frame,
				   unsigned int runtime, uint32_t *number)
{
	const XXH64_hash_t seed = XXH3_64bits_withSeed(frame->file, strlen(frame->file),
						       runtime | (uint64_t)frame->start_line << 32);
	const XXH128_hash_t key =
	    XXH3_128bits_withSeed(frame->function, strlen(frame->function), seed | 1ull << 63);
	char name[MANAGED_TEXT_MAX], file[MANAGED_TEXT_MAX];

	if (id_map_get(&worker->numbers.functions, key, number))
		return 0;
	symbol_name_escape(frame->function, strlen(frame->function), name, sizeof(name));
	symbol_name_escape(frame->file, strlen(frame->file), file, sizeof(file));
	*number = ++worker->numbers.next_function;
	records_add_function(
	    worker->batch,
	    &(struct record_function){
		.number = *number, .name = name, .file = file, .start_line = frame->start_line});
	return id_map_put(&worker->numbers.functions, key, *number);
}

int frames_number_managed(struct worker *worker, struct managed_process *process,
			  const uint64_t *words, uint32_t *number, uint32_t *count)
{
	/* Not as a seed: for inputs as short as this, another seed and other words may have the
	 * same hash. */
	uint64_t id[2 + BH_MANAGED_EXTRA_MAX] = {runtimes_incarnation(process)};
	memcpy(&id[1], words, bh_frame_words(words[0]) * sizeof(words[0]));
	const XXH128_hash_t key = XXH3_128bits(id, sizeof(id));
	const unsigned int runtime = bh_frame_runtime(words[0]);
	struct runtime_frames names;
	uint32_t value;

	if (id_map_get(&worker->numbers.frames, key, &value)) {
		*number = value & ((1u << COUNT_SHIFT) - 1);
		*count = value >> COUNT_SHIFT;
		return 0;
	}
	samples_make_room(worker);
	runtimes_symbolize(worker, process, words, &names);
	*number = worker->numbers.next_frame + 1;
	*count = names.count;
	for (unsigned int i = 0; i < names.count; i++) {
		struct record_frame record = {.kind = (uint8_t)(FRAME_KIND_ABORT + runtime),
					      .line = names.frames[i].line};
		int r =
		    managed_function_number(worker, &names.frames[i], runtime, &record.function);

		if (r < 0)
			return r;
		record.number = ++worker->numbers.next_frame;
		records_add_frame(worker->batch, &record);
	}
	return id_map_put(&worker->numbers.frames, key, *number | *count << COUNT_SHIFT);
}

int frames_abort_marker(struct worker *worker, unsigned int reason, uint32_t *number)
{
	const XXH128_hash_t key = XXH3_128bits_withSeed(&reason, sizeof(reason), FRAME_KIND_ABORT);
	struct record_frame record = {.kind = FRAME_KIND_ABORT};
	char name[64];

	if (id_map_get(&worker->numbers.frames, key, number))
		return 0;
	snprintf(name, sizeof(name), "[stack cut: %s]",
		 reason < BH_REASON_COUNT ? incomplete_reason_names[reason] : "unknown");
	int r = function_number(worker, 0, reason, name, &record.function);
	if (r < 0)
		return r;
	*number = record.number = ++worker->numbers.next_frame;
	records_add_frame(worker->batch, &record);
	return id_map_put(&worker->numbers.frames, key, *number);
}
