/* SPDX-License-Identifier: Apache-2.0 */
/* From a frame as sampled to a numbered record with a name. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/frame_kind.h"
#include "symbolizer/worker/worker.h"

static const char *const reason_names[] = {
#define REASON(name, text) text,
    BH_REASONS(REASON)
#undef REASON
};

static bool frame_is_kernel(uint64_t frame)
{
	return frame >> 48 == 0xffff;
}

static int function_number(struct worker *worker, uint32_t module, uint64_t start, const char *name,
			   uint32_t *number)
{
	XXH128_hash_t key = XXH3_128bits_withSeed(name, strlen(name), module);

	key.high64 ^= start * 0x9e3779b97f4a7c15u;
	if (table_get(&worker->numbers.functions, key, number))
		return 0;
	*number = ++worker->numbers.next_function;
	records_add_function(worker->batch,
			     &(struct record_function){.number = *number, .name = name});
	return table_put(&worker->numbers.functions, key, *number);
}

/* A module is known to the exporter by a number of ours, dense, whatever the manager's is. */
static int define_module(struct worker *worker, XXH128_hash_t key, const char *path,
			 const struct symbols_ids *ids, uint32_t *number)
{
	if (table_get(&worker->numbers.modules, key, number))
		return 0;
	*number = ++worker->numbers.next_module;
	records_add_module(worker->batch,
			   &(struct record_module){.number = *number,
						   .path = path,
						   .gnu_build_id = ids ? ids->gnu_build_id : "",
						   .htlhash = ids ? ids->htlhash : "",
						   .go_build_id = ids ? ids->go_build_id : ""});
	return table_put(&worker->numbers.modules, key, *number);
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
	if (!symbols_find(symbols, offset, &symbol))
		return 0;
	return function_number(worker, record->module, symbol.start_vaddr, symbol.name,
			       &record->function);
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

	if (table_get(&worker->numbers.frames, key, number))
		return 0;
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
	return table_put(&worker->numbers.frames, key, *number);
}

int frames_abort_marker(struct worker *worker, unsigned int reason, uint32_t *number)
{
	const XXH128_hash_t key = XXH3_128bits_withSeed(&reason, sizeof(reason), FRAME_KIND_ABORT);
	struct record_frame record = {.kind = FRAME_KIND_ABORT};
	char name[64];

	if (table_get(&worker->numbers.frames, key, number))
		return 0;
	snprintf(name, sizeof(name), "[stack cut: %s]",
		 reason < BH_REASON_COUNT ? reason_names[reason] : "unknown");
	int r = function_number(worker, 0, reason, name, &record.function);
	if (r < 0)
		return r;
	*number = record.number = ++worker->numbers.next_frame;
	records_add_frame(worker->batch, &record);
	return table_put(&worker->numbers.frames, key, *number);
}
