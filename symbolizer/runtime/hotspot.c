/* SPDX-License-Identifier: Apache-2.0 */
#include "bpf/runtime/hotspot.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/runtime/hotspot_code.h"
#include "symbolizer/runtime/hotspot_names.h"
#include "symbolizer/runtime/hotspot_nmethod.h"
#include "symbolizer/runtime/hotspot_vm.h"
#include "symbolizer/runtime/runtime.h"

enum {
	/* While something may still come: stubs and codelets in the first moments, the first
	 * compiled method, which may never be. */
	REFRESH_FIRST_MS = 100,
	REFRESH_LATER_MS = 5000,
	REFRESH_FIRST_COUNT = 20,
	/* So often in a row something has to be missing before that is believed: ld.so may be
	 * relocating the tables right now, which takes it milliseconds. */
	REFUSALS = 10,
	STUB_NAME_BYTES = 96,
	SHOWN_PATH_BYTES = 51, /* its end */
	/* Outermost frames that are shown where more are inlined than there is room for. */
	OUTER_SHOWN = 4,
};

/* One VM. */
struct hotspot {
	struct hotspot_vm vm;
	bool described;	       /* by tables that were read when the VM was running already */
	unsigned int attached; /* so often */
	unsigned int refused;  /* so often in a row */
	struct hotspot_methods methods;
	struct hotspot_nmethods nmethods;
};

static int hotspot_recognise(const struct runtime_file *file, void **image, char refusal[192])
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

/* What is missing, and where. */
static void refuse(struct runtime_process *process, const struct hotspot_vm *vm)
{
	const size_t length = strlen(process->path);
	const bool cut = length > SHOWN_PATH_BYTES;

	snprintf(process->refusal, sizeof(process->refusal),
		 "HotSpot %u in %s%.51s: %.37s is not described; its Java frames are not unwound, "
		 "its native stacks are complete",
		 vm->version % 1000, cut ? "..." : "",
		 process->path + (cut ? length - SHOWN_PATH_BYTES + 3 : 0), vm->missing);
	for (char *c = process->refusal; *c; c++) {
		if ((unsigned char)*c < ' ' || (unsigned char)*c > '~')
			*c = '?';
	}
}

/* Where everything is, by tables that are read again as long as they may have been incomplete. */
static int find_all(struct hotspot *hotspot, struct runtime_process *process, bool *settled)
{
	struct hotspot_vm vm = hotspot->vm;
	int r = 0;

	if (!hotspot->described)
		r = hotspot_vm_read(&vm, process->image, process->bias, process->memory);
	if (r == 0)
		r = hotspot_code_find(&vm, process->memory, &process->layout, settled);
	if (r == -ENOTSUP && ++hotspot->refused < REFUSALS)
		r = -EAGAIN;
	else if (r == -ENOTSUP)
		refuse(process, &vm);
	else
		hotspot->refused = 0;
	if (r < 0)
		return r;
	hotspot->vm = vm;
	hotspot->described |= hotspot->attached > 0;
	return 0;
}

static int hotspot_attach(struct runtime_process *process)
{
	struct hotspot *hotspot = process->state;
	bool settled = false;

	if (!hotspot) {
		hotspot = calloc(1, sizeof(*hotspot));
		if (!hotspot)
			return -ENOMEM;
		process->state = hotspot;
	}
	int r = find_all(hotspot, process, &settled);
	if (r < 0)
		return r;
	hotspot->attached++;
	/* Once more in any case: the first time may have been while the VM was starting. */
	if (settled && hotspot->attached > 1)
		process->refresh_ms = 0;
	else if (hotspot->attached < REFRESH_FIRST_COUNT)
		process->refresh_ms = REFRESH_FIRST_MS;
	else
		process->refresh_ms = REFRESH_LATER_MS;
	return 0;
}

static void add_frame(struct runtime_frames *frames, const struct hotspot_method *method,
		      int32_t bci)
{
	struct runtime_frame *frame = &frames->frames[frames->count++];

	frame->function = runtime_frames_keep(frames, method->name, strlen(method->name));
	frame->file = runtime_frames_keep(frames, method->file, strlen(method->file));
	frame->start_line = method->start_line;
	frame->line = 0;
	if (bci != HOTSPOT_BCI_UNKNOWN)
		frame->line =
		    hotspot_line_of(method->lines, method->line_count, bci < 0 ? 0 : (uint32_t)bci);
}

static int name_constant(struct runtime_frames *frames, const char *name)
{
	frames->frames[frames->count++] = (struct runtime_frame){.function = name, .file = ""};
	return 0;
}

static int name_compiled(struct runtime_process *process, const uint64_t *words,
			 struct runtime_frames *frames)
{
	struct hotspot *hotspot = process->state;
	struct hotspot_inlined found[HOTSPOT_SCOPES_MAX];
	const int count = hotspot_nmethod_find(&hotspot->nmethods, &hotspot->methods, &hotspot->vm,
					       process->memory, words[0] & BH_ADDRESS_MASK,
					       (uint32_t)(words[1] >> 32),
					       (uint32_t)words[1] & HOTSPOT_POSITION_MASK, found);

	if (count < 0)
		return count;
	for (int i = 0; i < count; i++) {
		if (count > RUNTIME_INLINED_MAX && i == RUNTIME_INLINED_MAX - OUTER_SHOWN - 1) {
			const int left_out = count - RUNTIME_INLINED_MAX + 1;

			name_constant(
			    frames, runtime_frames_format(frames, "[%d inlined frames]", left_out));
			i += left_out - 1;
			continue;
		}
		add_frame(frames, found[i].method, found[i].bci);
	}
	return 0;
}

static int name_interpreted(struct runtime_process *process, const uint64_t *words,
			    struct runtime_frames *frames)
{
	struct hotspot *hotspot = process->state;
	const uint32_t identity = (uint32_t)(words[1] >> 32),
		       bci = (uint32_t)words[1] & HOTSPOT_POSITION_MASK;
	struct hotspot_method *method = NULL;
	int r = hotspot_method_get(&hotspot->methods, &hotspot->vm, process->memory,
				   words[0] & BH_ADDRESS_MASK, &identity, &method);

	if (r < 0)
		return r;
	add_frame(frames, method, bci == HOTSPOT_NO_BCI ? HOTSPOT_BCI_UNKNOWN : (int32_t)bci);
	hotspot_method_put(method);
	return 0;
}

/* Stubs are rarely thrown away; the name's address tells. */
static int name_stub(struct runtime_process *process, const uint64_t *words,
		     struct runtime_frames *frames)
{
	const struct hotspot *hotspot = process->state;
	char text[STUB_NAME_BYTES];
	uint64_t name = 0;
	int r = hotspot_vm_get(&hotspot->vm, process->memory, HOTSPOT_BLOB_NAME,
			       words[0] & BH_ADDRESS_MASK, &name);

	if (r < 0 || (uint32_t)name != (uint32_t)(words[1] >> 32))
		return r < 0 && r != -EFAULT ? r : -ESTALE;
	const ssize_t n = memory_read_string(process->memory, name, text, sizeof(text));
	if (n < 0)
		return n == -EFAULT ? -ESTALE : (int)n;
	return name_constant(frames, runtime_frames_format(frames, "[%s]", text));
}

static int name_frame(struct runtime_process *process, const uint64_t *words,
		      struct runtime_frames *frames)
{
	switch ((uint32_t)words[1] >> HOTSPOT_KIND_SHIFT) {
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
			     struct runtime_frames *frames)
{
	struct hotspot *hotspot = process->state;

	if (!hotspot || bh_frame_words(words[0]) != 2)
		return -ESTALE;
	hotspot_methods_begin(&hotspot->methods);
	int r = name_frame(process, words, frames);
	process->cached_bytes = hotspot->nmethods.bytes + hotspot->methods.bytes;
	return r;
}

static void hotspot_forget(struct runtime_process *process)
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
	hotspot_forget(process);
	free(hotspot);
	process->state = NULL;
}

const struct runtime_ops runtime_hotspot = {
    .recognise = hotspot_recognise,
    .release = hotspot_release,
    .attach = hotspot_attach,
    .symbolize = hotspot_symbolize,
    .forget = hotspot_forget,
    .detach = hotspot_detach,
};
