/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HotSpot (JDK 8 and later): recognises libjvm.so, attaches to a process, and names the frames that
 * the walker (bpf/runtime/hotspot.bpf.c) pushes.
 *
 * How this works. libjvm.so exports gHotSpotVMStructs and its relatives: tables in which the VM
 * describes its own fields and types for debuggers. A file that exports them is HotSpot. To attach,
 * hotspot_vm.c reads these tables from the process, and hotspot_code.c finds the code heaps and how
 * interpreted and compiled code is recognised in them; this fills the block that the walker reads.
 * While the VM starts, the tables are incomplete, so that attaching is repeated.
 *
 * The walker pushes words: the method and bytecode index of an interpreted frame, the nmethod and
 * pc of a compiled one, or the blob of a stub. hotspot_nmethod.c finds the methods that are inlined
 * at a pc, leaf first, and hotspot_method.c reads class, name and line of a method. Before a name
 * is used, it is checked that the object was not freed since the sample (hotspot_liveness.c).
 *
 * Example: a sample in compiled code of Main.run with List.add inlined is one frame of the stack,
 * {nmethod 0x7f10a400, pc + 0x94}. It becomes two named frames: the method add, and Main.run, which
 * called it.
 */
#include "bpf/runtime/hotspot.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/runtime/hotspot_code.h"
#include "symbolizer/runtime/hotspot_method.h"
#include "symbolizer/runtime/hotspot_nmethod.h"
#include "symbolizer/runtime/hotspot_vm.h"
#include "symbolizer/runtime/recognise.h"
#include "symbolizer/runtime/runtime.h"

enum {
	/* How often the VM is examined again while something is still missing: stubs and codelets
	 * of the first moments (20 times 100 ms), and later the first compiled method, which may
	 * never come. */
	REFRESH_FIRST_MS = 100,
	REFRESH_LATER_MS = 5000,
	REFRESH_FIRST_COUNT = 20,
	/* A field must be missing this many times in a row before the VM is refused: ld.so may be
	 * relocating the tables at this moment, which takes it milliseconds. */
	REFUSALS_MIN = 10,
	STUB_NAME_BYTES = 96, /* of a stub's name; a longer one is cut */
	RUNTIME_BYTES = 32,   /* "HotSpot 21" */
	WHY_BYTES = 80,
	/* Outermost frames that are shown if more methods are inlined than NAMED_FRAMES_MAX. */
	OUTER_SHOWN = 4,
};

/* The VM of one process. */
struct hotspot {
	struct hotspot_vm vm;
	bool described;		    /* `vm` is final: it was read while the VM was running */
	unsigned int attach_count;  /* successful calls of `attach` */
	unsigned int refusal_count; /* refusals in a row */
	struct hotspot_methods methods;
	struct hotspot_nmethods nmethods;
};

static int hotspot_recognise(const struct runtime_file *file, void **image,
			     struct runtime_refusal *refusal)
{
	struct hotspot_image found;

	(void)refusal;
	if (hotspot_image_init(&found, file) < 0)
		return -ENOENT;
	struct hotspot_image *copy = malloc(sizeof(*copy));
	if (!copy)
		return -ENOMEM;
	*copy = found;
	*image = copy;
	return 0;
}

static void hotspot_release(void *image)
{
	free(image);
}

/* Writes the refusal: what the VM does not describe, and in which file. */
static void refuse(struct runtime_process *process, const struct hotspot_vm *vm)
{
	char runtime[RUNTIME_BYTES], why[WHY_BYTES];

	snprintf(runtime, sizeof(runtime), "HotSpot %u", vm->version % 1000);
	snprintf(why, sizeof(why), "the VM does not describe %.40s", vm->missing);
	recognise_refuse(&process->refusal, process->path, runtime, "Java frames", why);
	for (char *c = process->refusal.text; *c; c++) {
		if ((unsigned char)*c < ' ' || (unsigned char)*c > '~')
			*c = '?';
	}
}

/* Reads the VM's tables and finds the code. The attach after the first successful one reads the
 * tables again, because the first may have met a VM that was still starting; later ones do not.
 * `*complete` is set to false if code may still be added that the walker has to know. */
static int find_all(struct hotspot *hotspot, struct runtime_process *process, bool *complete)
{
	struct hotspot_vm vm = hotspot->vm;
	int r = 0;

	if (!hotspot->described)
		r = hotspot_vm_read(&vm, process->image, process->bias, process->memory);
	if (r == 0)
		r = hotspot_code_find(&vm, process->memory, &process->layout, complete);
	if (r == -ENOTSUP && ++hotspot->refusal_count < REFUSALS_MIN)
		r = -EAGAIN;
	else if (r == -ENOTSUP)
		refuse(process, &vm);
	else
		hotspot->refusal_count = 0;
	if (r < 0)
		return r;
	hotspot->vm = vm;
	hotspot->described |= hotspot->attach_count > 0;
	return 0;
}

static int hotspot_attach(struct runtime_process *process)
{
	struct hotspot *hotspot = process->state;
	bool complete = false;

	if (!hotspot) {
		hotspot = calloc(1, sizeof(*hotspot));
		if (!hotspot)
			return -ENOMEM;
		process->state = hotspot;
	}
	int r = find_all(hotspot, process, &complete);
	if (r < 0)
		return r;
	hotspot->attach_count++;
	/* After the first success it is called once more in any case: the VM may have been
	 * starting. */
	if (complete && hotspot->attach_count > 1)
		process->refresh_ms = 0;
	else if (hotspot->attach_count < REFRESH_FIRST_COUNT)
		process->refresh_ms = REFRESH_FIRST_MS;
	else
		process->refresh_ms = REFRESH_LATER_MS;
	return 0;
}

/* Adds the frame of a method at a bytecode index. */
static void add_frame(struct named_frames *frames, const struct hotspot_method *method, int32_t bci)
{
	struct named_frame *frame = &frames->frames[frames->count++];

	*frame = (struct named_frame){
	    .function = named_frames_keep(frames, method->name, strlen(method->name)),
	    .file = named_frames_keep(frames, method->file, strlen(method->file)),
	    .start_line = method->start_line};
	if (bci != HOTSPOT_BCI_UNKNOWN)
		frame->line =
		    hotspot_line_of(method->lines, method->line_count, bci < 0 ? 0 : (uint32_t)bci);
}

/* Adds a frame that is shown as a fixed name in brackets. */
static int name_constant(struct named_frames *frames, const char *name)
{
	frames->frames[frames->count++] = (struct named_frame){.function = name, .file = ""};
	return 0;
}

/* Adds the methods at a pc in compiled code. If there are more than NAMED_FRAMES_MAX, those in
 * the middle are replaced by one line. */
static int name_compiled(struct runtime_process *process, const uint64_t *words,
			 struct named_frames *frames)
{
	struct hotspot *hotspot = process->state;
	struct hotspot_inlined found[HOTSPOT_SCOPES_MAX];
	const int count = hotspot_nmethod_find(&hotspot->nmethods, &hotspot->methods, &hotspot->vm,
					       process->memory, words[0] & BH_ADDRESS_MASK,
					       frame_word_identity(words[1]),
					       frame_word_position(words[1]), found);

	if (count < 0)
		return count;
	for (int i = 0; i < count; i++) {
		if (count > NAMED_FRAMES_MAX && i == NAMED_FRAMES_MAX - OUTER_SHOWN - 1) {
			const int left_out = count - NAMED_FRAMES_MAX + 1;

			name_constant(frames,
				      named_frames_format(frames, "[%d inlined frames]", left_out));
			i += left_out - 1;
			continue;
		}
		add_frame(frames, found[i].method, found[i].bci);
	}
	return 0;
}

static int name_interpreted(struct runtime_process *process, const uint64_t *words,
			    struct named_frames *frames)
{
	struct hotspot *hotspot = process->state;
	const uint32_t identity = frame_word_identity(words[1]),
		       bci = frame_word_position(words[1]);
	struct hotspot_method *method = NULL;
	int r = hotspot_method_get(&hotspot->methods, &hotspot->vm, process->memory,
				   words[0] & BH_ADDRESS_MASK, &identity, &method);

	if (r < 0)
		return r;
	add_frame(frames, method, bci == HOTSPOT_NO_BCI ? HOTSPOT_BCI_UNKNOWN : (int32_t)bci);
	hotspot_method_put(method);
	return 0;
}

/* Adds the frame of a stub. Stubs are rarely freed; the address of its name shows whether the blob
 * is still the same one. */
static int name_stub(struct runtime_process *process, const uint64_t *words,
		     struct named_frames *frames)
{
	const struct hotspot *hotspot = process->state;
	char text[STUB_NAME_BYTES];
	uint64_t name = 0;
	int r = hotspot_vm_get(&hotspot->vm, process->memory, HOTSPOT_BLOB_NAME,
			       words[0] & BH_ADDRESS_MASK, &name);

	if (r < 0 || (uint32_t)name != frame_word_identity(words[1]))
		return r < 0 && r != -EFAULT ? r : -ESTALE;
	const ssize_t n = memory_read_string(process->memory, name, text, sizeof(text));
	if (n < 0)
		return n == -EFAULT ? -ESTALE : (int)n;
	return name_constant(frames, named_frames_format(frames, "[%s]", text));
}

static int name_frame(struct runtime_process *process, const uint64_t *words,
		      struct named_frames *frames)
{
	switch (frame_word_kind(words[1])) {
	case HOTSPOT_FRAME_INTERPRETED:
		return name_interpreted(process, words, frames);
	case HOTSPOT_FRAME_COMPILED:
	case HOTSPOT_FRAME_COMPILED_TOP:
		return name_compiled(process, words, frames);
	case HOTSPOT_FRAME_STUB:
		return name_stub(process, words, frames);
	case HOTSPOT_FRAME_CALL_STUB:
		return name_constant(frames, "[call_stub]");
	case HOTSPOT_FRAME_INTERPRETER:
		return name_constant(frames, "[Interpreter]");
	case HOTSPOT_FRAME_FROZEN:
		return name_constant(frames, "[frozen frames]");
	default:
		return -ESTALE;
	}
}

static int hotspot_symbolize(struct runtime_process *process, const uint64_t *words,
			     struct named_frames *frames)
{
	struct hotspot *hotspot = process->state;

	if (!hotspot || bh_frame_words(words[0]) != 2)
		return -ESTALE;
	hotspot_methods_begin(&hotspot->methods);
	int r = name_frame(process, words, frames);
	process->cached_bytes = hotspot->nmethods.bytes + hotspot->methods.bytes;
	return r;
}

static void hotspot_drop_cache(struct runtime_process *process)
{
	struct hotspot *hotspot = process->state;

	process->cached_bytes = 0;
	if (!hotspot)
		return;
	hotspot_nmethods_fini(&hotspot->nmethods);
	hotspot_methods_fini(&hotspot->methods);
}

static void hotspot_detach(struct runtime_process *process)
{
	struct hotspot *hotspot = process->state;

	if (!hotspot)
		return;
	hotspot_drop_cache(process);
	free(hotspot);
	process->state = NULL;
}

const struct runtime_ops runtime_hotspot = {
    .recognise = hotspot_recognise,
    .release = hotspot_release,
    .attach = hotspot_attach,
    .symbolize = hotspot_symbolize,
    .drop_cache = hotspot_drop_cache,
    .detach = hotspot_detach,
};
