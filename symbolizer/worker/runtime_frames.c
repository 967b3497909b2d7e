/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of managed frames: for symbolizer/runtime/NAME.c, which declares them in runtime.h. */
#include <stdarg.h>
#include <stdio.h>

#include "symbolizer/runtime/runtime.h"
#include "symbolizer/worker/symbol_name.h"

const char *runtime_frames_keep(struct runtime_frames *frames, const char *text, size_t length)
{
	const size_t room = sizeof(frames->text) - frames->used;

	if (room < 2)
		return "";
	/* Control characters and what is not UTF-8 become visible. */
	char *to = frames->text + frames->used;
	frames->used += symbol_name_escape(text, length, to, room) + 1;
	return to;
}

const char *runtime_frames_format(struct runtime_frames *frames, const char *format, ...)
{
	char text[2048];
	va_list args;

	va_start(args, format);
	const int n = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return runtime_frames_keep(frames, text,
				   n < 0		      ? 0
				   : (size_t)n < sizeof(text) ? (size_t)n
							      : sizeof(text) - 1);
}
