/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/namer/named_frames.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *named_frames_keep(struct named_frames *frames, const char *text, size_t length)
{
	const size_t room = sizeof(frames->text) - frames->used;

	if (room < 2)
		return "";
	char *to = frames->text + frames->used;
	length = strnlen(text, length < room - 1 ? length : room - 1);
	memcpy(to, text, length);
	to[length] = 0;
	frames->used += length + 1;
	return to;
}

const char *named_frames_format(struct named_frames *frames, const char *format, ...)
{
	char text[2048];
	va_list args;

	va_start(args, format);
	const int n = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return named_frames_keep(frames, text, n < 0 ? 0 : sizeof(text));
}
