/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/worker/unnamed_frame.h"

#include <errno.h>

#include "bpf/shared.h"
#include "common/runtimes.h"
#include "symbolizer/worker/runtime_images.h"

static const char *error_reason(int error)
{
	switch (error) {
	case -ESRCH:
		return "process ended";
	case -ESTALE:
	case -EFAULT:
		return "no longer in memory";
	case -EBUSY:
		return "name not read in time";
	case -ECANCELED:
		return "process left alone";
	default:
		return "not readable";
	}
}

void unnamed_frame_set(struct named_frames *frames, unsigned int runtime, int error)
{
	frames->used = 0;
	frames->label_count = 0;
	frames->count = 0;
	if (runtime_images_are_labels(runtime))
		return;
	frames->count = 1;
	frames->frames[0] = (struct named_frame){
	    .function = named_frames_format(
		frames, "[%s: %s]",
		runtime > 0 && runtime < RUNTIME_ID_COUNT ? runtime_titles[runtime] : "unknown",
		error_reason(error)),
	    .file = ""};
}
