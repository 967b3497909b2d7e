/* SPDX-License-Identifier: Apache-2.0 */
#include "bpf/runtime/hotspot.h"

#include <errno.h>

#include "symbolizer/runtime/runtime.h"

static int hotspot_recognise(const struct runtime_file *file, void **image,
			     char refusal[RUNTIME_REFUSAL_BYTES])
{
	(void)file;
	(void)image;
	(void)refusal;
	return -ENOENT;
}

static void hotspot_release(void *image)
{
	(void)image;
}

static int hotspot_attach(struct runtime_process *process)
{
	(void)process;
	return -EAGAIN;
}

static int hotspot_symbolize(struct runtime_process *process, const uint64_t *words,
			     struct runtime_frames *frames)
{
	(void)process;
	(void)words;
	(void)frames;
	return -ESTALE;
}

static void hotspot_detach(struct runtime_process *process)
{
	(void)process;
}

const struct runtime_ops runtime_hotspot = {
    .recognise = hotspot_recognise,
    .release = hotspot_release,
    .attach = hotspot_attach,
    .symbolize = hotspot_symbolize,
    .detach = hotspot_detach,
};
