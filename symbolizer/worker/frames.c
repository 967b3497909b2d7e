/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/worker/frames.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/escape.h"
#include "common/frame_kind.h"
#include "common/incomplete_reasons.h"
#include "symbolizer/worker/debug_files.h"
#include "symbolizer/worker/kallsyms_file.h"
#include "symbolizer/worker/limits.h"
#include "symbolizer/worker/runtimes.h"
#include "symbolizer/worker/symbol_name.h"
#include "symbolizer/worker/worker.h"

enum {
	NAMED_TEXT_MAX =
	    2048, /* bytes of a name or a path with file and line as they are passed on */
	LABEL_TEXT_MAX = 512, /* bytes of a key or value */
};
_Static_assert((int)NAMED_LABELS_MAX <= (int)RECORD_LABELS_MAX, "labels fit a record");
_Static_assert(LIMIT_WORKER_FRAMES < (1ll << FRAME_IDS_COUNT_SHIFT) / NAMED_FRAMES_MAX / 2,
	       "ids fit");
_Static_assert(NAMED_FRAMES_MAX < 1 << (32 - FRAME_IDS_COUNT_SHIFT), "counts fit");
_Static_assert(FRAME_KIND_ABORT + BH_RUNTIME_COUNT == FRAME_KIND_COUNT, "kinds of runtimes follow");

/* --- modules and functions --- */

/* Finds the id of a module. It is not the manager's: the exporter wants dense ids. `ids` may be
 * NULL. */
static int module_get_id(struct worker *worker, XXH128_hash_t key, const char *path,
			 const struct symbols_ids *ids, uint32_t *id)
{
	if (id_map_get(&worker->ids.modules, key, id))
		return 0;
	*id = ++worker->ids.module;
	records_add_module(worker->batch.records,
			   &(struct record_module){.id = *id,
						   .path = path,
						   .gnu_build_id = ids ? ids->gnu_build_id : "",
						   .htlhash = ids ? ids->htlhash : "",
						   .go_build_id = ids ? ids->go_build_id : ""});
	return id_map_put(&worker->ids.modules, key, *id);
}

/* Finds the id of the function that starts at `start` of a module. `generated` says that it has no
 * symbol, and that its name was made from its address. */
static int function_define(struct worker *worker, uint32_t module, uint64_t start, const char *name,
			   const char *system_name, bool generated, uint32_t *id)
{
	const XXH128_hash_t text = id_key_of_text(&worker->id_secret, name);
	/* Several functions of a module may have one name: the start distinguishes them. */
	const uint64_t identity[] = {text.low64, text.high64, module, start};
	const XXH128_hash_t key = id_key(&worker->id_secret, identity, sizeof(identity));

	if (id_map_get(&worker->ids.functions, key, id))
		return 0;
	*id = ++worker->ids.function;
	records_add_function(worker->batch.records,
			     &(struct record_function){.id = *id,
						       .name = name,
						       .system_name = system_name,
						       .name_is_generated = generated});
	return id_map_put(&worker->ids.functions, key, *id);
}

static int function_get_id(struct worker *worker, uint32_t module, uint64_t start, const char *name,
			   uint32_t *id)
{
	return function_define(worker, module, start, name, "", false, id);
}

/* Finds the id of the function without a symbol that starts at `start` (as linked) of a module:
 * "cc1+0xb1f000". All its frames share it, so that a flame graph is not split by instruction. */
static int nameless_function_get_id(struct worker *worker, const struct module *module,
				    uint32_t module_id, uint64_t start, uint32_t *id)
{
	const char *slash = strrchr(module->path, '/');
	const char *file = slash && slash[1] ? slash + 1 : module->path;
	char name[sizeof(module->path) + sizeof("+0x") + 2 * sizeof(start)];

	snprintf(name, sizeof(name), "%s+0x%" PRIx64, file, start);
	return function_define(worker, module_id, start, name, "", true, id);
}

/* --- functions with files and lines --- */

/* Finds the id of a function that a runtime or a namer has named. `kind` and `module` (0: none) say
 * where it belongs. */
static int named_function_get_id(struct worker *worker, const struct named_frame *frame,
				 unsigned int kind, uint32_t module, uint32_t *id)
{
	const XXH128_hash_t file_text = id_key_of_text(&worker->id_secret, frame->file);
	const XXH128_hash_t function = id_key_of_text(&worker->id_secret, frame->function);
	/* It is longer than that of a function with a symbol. */
	const uint64_t identity[] = {file_text.low64,
				     file_text.high64,
				     function.low64,
				     function.high64,
				     kind | (uint64_t)frame->start_line << 32,
				     module};
	const XXH128_hash_t key = id_key(&worker->id_secret, identity, sizeof(identity));
	const char *linker_name = frame->mangled ? frame->function : frame->system_name;
	char name[NAMED_TEXT_MAX], file[NAMED_TEXT_MAX], system_name[NAMED_TEXT_MAX] = "";

	if (id_map_get(&worker->ids.functions, key, id))
		return 0;
	if (frame->mangled)
		symbol_name_format(frame->function, name, sizeof(name));
	else
		escape_text(name, sizeof(name), frame->function, strlen(frame->function),
			    ESCAPE_KEEP_PRINTABLE, NULL);
	escape_text(file, sizeof(file), frame->file, strlen(frame->file), ESCAPE_KEEP_PRINTABLE,
		    NULL);
	if (linker_name)
		escape_text(system_name, sizeof(system_name), linker_name, strlen(linker_name),
			    ESCAPE_KEEP_PRINTABLE, NULL);
	*id = ++worker->ids.function;
	records_add_function(
	    worker->batch.records,
	    &(struct record_function){.id = *id,
				      .name = name,
				      .system_name = strcmp(system_name, name) ? system_name : "",
				      .file = file,
				      .start_line = frame->start_line});
	return id_map_put(&worker->ids.functions, key, *id);
}

/* Adds a frame for each of the functions that `names` has, the outermost first. Each is a copy of
 * `record`, with its own function and line. Those that have an address say into which they were
 * inlined. */
static int named_frames_add(struct worker *worker, const struct named_frames *names,
			    struct record_frame record, uint32_t *ids)
{
	const uint32_t first = worker->ids.frame + 1;

	*ids = names->count ? first | names->count << FRAME_IDS_COUNT_SHIFT : 0;
	for (unsigned int i = names->count; i-- > 0;) {
		const struct named_frame *frame = &names->frames[i];
		const int r = named_function_get_id(worker, frame, record.kind, record.module,
						    &record.function);

		if (r < 0)
			return r;
		record.line = frame->line;
		record.caller = record.module && worker->ids.frame >= first ? worker->ids.frame : 0;
		record.id = ++worker->ids.frame;
		records_add_frame(worker->batch.records, &record);
	}
	return 0;
}

/* --- kernel and native frames --- */

/* Has the sample wait for symbols that are being read, if it can. */
static int sample_wait_for_reading(struct worker *worker)
{
	if (!worker->naming_until_ns)
		return NAMES_SOON;
	worker->naming_waits = true;
	return -EAGAIN;
}

static bool frame_is_kernel(uint64_t frame)
{
	return frame >> 48 == 0xffff;
}

/* Describes a kernel frame by its name: addresses of the kernel do not leave the host, because they
 * would reveal where it is in memory. If the kernel's debug file is there, what that says goes to
 * `names`. The kernel itself is the module "vmlinux"; loadable modules and BPF programs are modules
 * of their own. Returns an enum names_due or a negative errno, of which -EAGAIN means that the
 * sample should wait. */
static int kernel_describe(struct worker *worker, uint64_t address, struct record_frame *record,
			   struct named_frames *names)
{
	struct kernel_symbol symbol;
	int due = NAMES_FINAL;

	record->kind = FRAME_KIND_KERNEL;
	if (!kallsyms_file_is_read(worker))
		due = sample_wait_for_reading(worker);
	if (due < 0)
		return due;
	if (!worker->kernel || !kernel_symbols_find(worker->kernel, address, &symbol)) {
		snprintf(symbol.name, sizeof(symbol.name), "[unknown]");
		snprintf(symbol.module, sizeof(symbol.module), "vmlinux");
		symbol.start = 0;
	}
	const XXH128_hash_t text = id_key_of_text(&worker->id_secret, symbol.module);
	const uint64_t identity[] = {FRAME_KIND_KERNEL, text.low64, text.high64};
	const XXH128_hash_t key = id_key(&worker->id_secret, identity, sizeof(identity));
	const bool is_core = !strcmp(symbol.module, "vmlinux");
	int r = module_get_id(worker, key, symbol.module,
			      is_core ? &worker->kernel_debug.ids : NULL, &record->module);
	if (r < 0)
		return r;
	if (is_core && symbol.start)
		due = kernel_debug_find_frames(worker, address, &symbol, &record->address, names);
	if (due == -EINPROGRESS)
		due = sample_wait_for_reading(worker);
	if (due >= 0 && !names->count)
		r = function_get_id(worker, record->module, symbol.start, symbol.name,
				    &record->function);
	return r < 0 ? r : due;
}

/* Returns whether a debug file of the module may come while the sample waits, and remembers that
 * the sample does. */
static bool sample_must_wait(struct worker *worker, struct module *module)
{
	if (!debug_files_are_awaited(worker, module))
		return false;
	worker->naming_waits = true;
	return true;
}

/* Describes a frame at an offset of the file by the name of its symbol; else by the start of
 * its function; else only by module and address. Returns as native_describe(). */
static int symbol_describe(struct worker *worker, struct module *module,
			   const struct symbols *symbols, uint64_t offset,
			   struct record_frame *record)
{
	struct symbol symbol;

	if (symbols_find(symbols, offset, &symbol))
		return function_define(worker, record->module, symbol.start_vaddr, symbol.name,
				       symbol.system_name, false, &record->function);
	const int error = modules_find_start(&worker->modules, module, offset, &symbol.start_vaddr);
	if (error == -EINPROGRESS)
		return sample_wait_for_reading(worker);
	if (error)
		return error == -EAGAIN ? NAMES_SOON : NAMES_FINAL;
	return nameless_function_get_id(worker, module, record->module, symbol.start_vaddr,
					&record->function);
}

/* Describes a frame in a file by what the file's namer says, which goes to `names`; else by the
 * name of its symbol; else by the start of its function; else only by module and address. The
 * announcement of a module may be so late that samples do not wait for it any longer; then their
 * frames have no names until it comes (handlers.c). Returns an enum names_due or a negative errno,
 * of which -EAGAIN means that the sample should wait. */
static int native_describe(struct worker *worker, uint64_t frame, struct record_frame *record,
			   struct named_frames *names)
{
	const uint32_t module_id = (uint32_t)(frame >> BH_FRAME_OFFSET_BITS);
	const uint64_t offset = frame & BH_FRAME_OFFSET_MASK;
	struct module *module = modules_find(&worker->modules, module_id);

	record->kind = FRAME_KIND_NATIVE;
	record->address = offset;
	struct symbols *symbols;
	int error = module ? -EAGAIN : -ECANCELED;

	if (module)
		error = modules_get_symbols(&worker->modules, module, !worker_is_behind(worker),
					    &symbols);
	const int due = error == -EINPROGRESS ? sample_wait_for_reading(worker)
			: error == -EAGAIN    ? (int)NAMES_SOON
			: error == -ECANCELED ? (int)NAMES_LATER
					      : (int)NAMES_FINAL;
	if (due < 0)
		return due;
	/* The build ids are read with the symbols. */
	const bool without_ids = due != NAMES_FINAL && !(module && module->again_ns);
	const uint64_t identity[] = {FRAME_KIND_NATIVE, module_id,
				     modules_definition(&worker->modules, module_id), without_ids,
				     module == NULL};
	worker->modules.missed |= !module;
	const XXH128_hash_t key = id_key(&worker->id_secret, identity, sizeof(identity));
	int r = module_get_id(worker, key, module ? module->path : "[unknown module]",
			      module ? &module->ids : NULL, &record->module);
	if (r < 0 || error)
		return r < 0 ? r : due;
	if (sample_must_wait(worker, module))
		return -EAGAIN;
	const enum names_due better = debug_files_are_due(module);
	symbols_offset_to_vaddr(symbols, offset, &record->address);
	error = modules_find_frames(&worker->modules, module, offset, names);
	/* A further file of the debug information may be wanted since now. */
	if (error == -EINPROGRESS && sample_must_wait(worker, module))
		return -EAGAIN;
	/* As long as a further file may come, names may lack a part, so symbols are shown. */
	if (!error && better == NAMES_FINAL)
		return NAMES_FINAL;
	names->count = 0;
	const bool comes = error == -EAGAIN || error == -EINPROGRESS;
	r = symbol_describe(worker, module, symbols, offset, record);
	return r == NAMES_FINAL ? (int)(comes ? NAMES_SOON : better) : r;
}

/* Names a frame in code that was generated, by what its process has written for profilers, or keeps
 * for debuggers. Returns as native_describe(). */
static int generated_describe(struct worker *worker, uint64_t frame, struct named_frames *names)
{
	struct jit_name name = {0};
	const int due = jit_maps_find(worker, frame & BH_ADDRESS_MASK, &name);

	if (name.name) {
		names->count = 1;
		names->kind = FRAME_KIND_NATIVE;
		names->frames[0] = (struct named_frame){
		    .function = name.name, .file = name.file, .line = name.line, .mangled = true};
	}
	if (due < 0 || name.name)
		return due;
	const int more = runtimes_name_code(worker, worker->jit_maps.process, frame, names);
	return more < 0 || names->count || more > due ? more : due;
}

/* Describes a frame in memory that belongs to no file: the vsyscall page, or code that was
 * generated. Returns as native_describe(). */
static int raw_describe(struct worker *worker, uint64_t frame, struct record_frame *record,
			struct named_frames *names)
{
	const uint64_t address = frame & BH_ADDRESS_MASK;
	const bool vsyscall = address >> 12 == (BH_VSYSCALL_PAGE & (BH_ADDRESS_MASK >> 12));
	const int due = vsyscall ? (int)NAMES_FINAL : generated_describe(worker, frame, names);

	record->kind = FRAME_KIND_NATIVE;
	if (due < 0 || names->count)
		return due;
	const int r = function_get_id(
	    worker, 0, vsyscall, vsyscall ? "[vsyscall]" : "[anonymous code]", &record->function);
	return r < 0 ? r : due;
}

/* Returns what the name of a frame depends on. A frame whose module has got its file since then is
 * defined again, and so is one in generated code to which the process has given another name. It is
 * kept out of frame_key(), whose usual case does not need it. */
__attribute__((noinline)) static uint64_t frame_definition(const struct worker *worker,
							   uint64_t frame)
{
	if (bh_frame_is_raw(frame))
		return jit_maps_name_id(&worker->jit_maps, frame & BH_ADDRESS_MASK);
	if (worker->modules.late_files && !(frame & BH_FRAME_RAW))
		return modules_definition(&worker->modules,
					  (uint32_t)(frame >> BH_FRAME_OFFSET_BITS));
	return 0;
}

/* Returns the key of a frame's id. */
static inline __attribute__((always_inline)) XXH128_hash_t frame_key(const struct worker *worker,
								     uint64_t frame)
{
	XXH128_hash_t key = id_key(&worker->id_secret, &frame, sizeof(frame));

	if (__builtin_expect(worker->modules.late_files || worker->jit_maps.sampled, false))
		key.high64 ^= frame_definition(worker, frame);
	return key;
}

/* A stack with several frames that have no names yet is due as soon as the first of them. */
static void stack_names_are_due(struct worker *worker, enum names_due due)
{
	if (worker->names_due < due)
		worker->names_due = due;
}

/* Adds a frame that stands for one function. */
static void frame_add(struct worker *worker, struct record_frame *record, uint32_t *ids)
{
	record->id = ++worker->ids.frame;
	records_add_frame(worker->batch.records, record);
	*ids = record->id | 1u << FRAME_IDS_COUNT_SHIFT;
}

/* Describes a frame in the batch, with the next ids. It is kept out of frames_get_ids(), whose
 * usual case, a frame that has an id, needs no room for names. */
__attribute__((noinline)) static int frame_define(struct worker *worker, uint64_t frame,
						  XXH128_hash_t key, uint32_t *ids)
{
	struct record_frame record = {0};
	struct named_frames names;
	int r;

	names.count = 0;
	batch_send_if_full(&worker->batch);
	if (frame_is_kernel(frame))
		r = kernel_describe(worker, frame, &record, &names);
	else if (frame & BH_FRAME_RAW)
		r = raw_describe(worker, frame, &record, &names);
	else
		r = native_describe(worker, frame, &record, &names);
	/* Its name may have been read just now. */
	if (bh_frame_is_raw(frame))
		key = frame_key(worker, frame);
	if (r > NAMES_FINAL) {
		stack_names_are_due(worker, (enum names_due)r);
		names.count = 0;
		key.high64 ^= 1ull << 63;
		if (id_map_get(&worker->ids.frames, key, ids))
			return 0;
	}
	if (r < 0)
		return r;
	if (names.count) {
		record.kind = names.kind;
		r = named_frames_add(worker, &names, record, ids);
	} else {
		frame_add(worker, &record, ids);
	}
	return r < 0 ? r : id_map_put(&worker->ids.frames, key, *ids);
}

int frames_get_ids(struct worker *worker, uint64_t frame, uint32_t *ids)
{
	const XXH128_hash_t key = frame_key(worker, frame);

	return id_map_get(&worker->ids.frames, key, ids) ? 0
							 : frame_define(worker, frame, key, ids);
}

/* --- managed frames --- */

/* Returns the key of all frames of a runtime that have no names yet for the same reason, which
 * their text says: they look the same. */
static XXH128_hash_t unnamed_key(const struct worker *worker, unsigned int runtime,
				 const struct named_frames *names)
{
	const uint64_t identity[] = {FRAME_KIND_ABORT + runtime, 0};

	return names->count ? id_key_of_text(&worker->id_secret, names->frames[0].function)
			    : id_key(&worker->id_secret, identity, sizeof(identity));
}

/* Defines a set of labels. */
static uint32_t label_set_define(struct worker *worker, const struct named_frames *names)
{
	struct record_label labels[NAMED_LABELS_MAX];
	char texts[NAMED_LABELS_MAX][2][LABEL_TEXT_MAX];

	for (unsigned int i = 0; i < names->label_count; i++) {
		const struct named_label *label = &names->labels[i];

		escape_text(texts[i][0], LABEL_TEXT_MAX, label->key, strlen(label->key),
			    ESCAPE_KEEP_PRINTABLE, NULL);
		escape_text(texts[i][1], LABEL_TEXT_MAX, label->value, strlen(label->value),
			    ESCAPE_KEEP_PRINTABLE, NULL);
		labels[i] = (struct record_label){.key = texts[i][0], .value = texts[i][1]};
	}
	const uint32_t id = ++worker->ids.label_set;

	records_add_label_set(
	    worker->batch.records,
	    &(struct record_label_set){.id = id, .labels = labels, .count = names->label_count});
	return id;
}

int frames_get_managed_ids(struct worker *worker, struct managed_process *process,
			   const uint64_t *words, uint32_t *ids)
{
	uint64_t identity[2 + BH_MANAGED_EXTRA_MAX] = {runtimes_names_generation(process)};
	const size_t bytes = bh_frame_words(words[0]) * sizeof(words[0]);
	memcpy(&identity[1], words, bytes);
	XXH128_hash_t key = id_key(&worker->id_secret, identity, sizeof(identity[0]) + bytes);
	const unsigned int runtime = bh_frame_runtime(words[0]);
	struct named_frames names;

	if (id_map_get(&worker->ids.frames, key, ids))
		return 0;
	if (worker->naming_paused)
		return -EAGAIN;
	batch_send_if_full(&worker->batch);
	const enum names_due due = runtimes_symbolize(worker, process, words, &names);
	if (due != NAMES_FINAL) {
		stack_names_are_due(worker, due);
		key = unnamed_key(worker, runtime, &names);
		if (id_map_get(&worker->ids.frames, key, ids))
			return 0;
	}
	worker->naming_paused =
	    worker->naming_until_ns && clock_monotonic_ns() >= worker->naming_until_ns;
	const struct record_frame record = {.kind = (uint8_t)(FRAME_KIND_ABORT + runtime)};
	int r = 0;

	if (names.label_count)
		*ids = label_set_define(worker, &names);
	else
		r = named_frames_add(worker, &names, record, ids);
	return r < 0 ? r : id_map_put(&worker->ids.frames, key, *ids);
}

/* --- the end of an incomplete stack --- */

int frames_get_abort_ids(struct worker *worker, unsigned int reason, uint32_t *ids)
{
	const uint64_t identity[] = {FRAME_KIND_ABORT, reason};
	const XXH128_hash_t key = id_key(&worker->id_secret, identity, sizeof(identity));
	struct record_frame record = {.kind = FRAME_KIND_ABORT};
	char name[64];

	if (id_map_get(&worker->ids.frames, key, ids))
		return 0;
	snprintf(name, sizeof(name), "[stack cut: %s]",
		 reason < INCOMPLETE_COUNT ? incomplete_reason_names[reason] : "unknown");
	int r = function_get_id(worker, 0, reason, name, &record.function);
	if (r < 0)
		return r;
	frame_add(worker, &record, ids);
	return id_map_put(&worker->ids.frames, key, *ids);
}
