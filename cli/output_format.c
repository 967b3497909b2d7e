/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output_format.h"

#include <stddef.h>
#include <string.h>

/* The first extension of a format is the one that new files get. */
static const struct {
	const char *extension, *format;
} extensions[] = {
    {".html", "html"},
    {".htm", "html"},
    {".folded", "folded"},
    {".collapsed", "folded"},
    {".txt", "tree"},
    {".pb.gz", "pprof"},
    {".pprof", "pprof"},
    {".speedscope.json", "speedscope"},
    {".speedscope", "speedscope"},
    {".otlp", "otlp"},
};

const char *output_format_from_path(const char *path)
{
	const size_t length = strlen(path);

	for (size_t i = 0; i < sizeof(extensions) / sizeof(extensions[0]); i++) {
		const size_t n = strlen(extensions[i].extension);

		if (length > n && !strcmp(path + length - n, extensions[i].extension))
			return extensions[i].format;
	}
	return NULL;
}

bool output_format_exists(const char *format)
{
	return output_format_extension(format) != NULL;
}

const char *output_format_extension(const char *format)
{
	for (size_t i = 0; i < sizeof(extensions) / sizeof(extensions[0]); i++) {
		if (!strcmp(format, extensions[i].format))
			return extensions[i].extension;
	}
	return NULL;
}
