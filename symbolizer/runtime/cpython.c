/* SPDX-License-Identifier: Apache-2.0 */
#include "bpf/runtime/cpython.h"

#include <errno.h>

#include "symbolizer/runtime/runtime.h"

static int cpython_recognise(const struct runtime_file *file, void **image, char refusal[192])
{
	(void)file;
	(void)image;
	(void)refusal;
	return -ENOENT;
}

static void cpython_release(void *image)
{
	(void)image;
}

static int cpython_attach(struct runtime_process *process)
{
	(void)process;
	return -EAGAIN;
}

static int cpython_symbolize(struct runtime_process *process, const uint64_t *words,
			     struct runtime_frames *frames)
{
	(void)process;
	(void)words;
	(void)frames;
	return -ESTALE;
}

static void cpython_detach(struct runtime_process *process)
{
	(void)process;
}

const struct runtime_ops runtime_cpython = {
    .recognise = cpython_recognise,
    .release = cpython_release,
    .attach = cpython_attach,
    .symbolize = cpython_symbolize,
    .detach = cpython_detach,
};
