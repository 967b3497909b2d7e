/* SPDX-License-Identifier: Apache-2.0 */
/* The formats of outputs, their file name extensions, and how outputs group processes. */
#ifndef CLI_OUTPUT_FORMAT_H
#define CLI_OUTPUT_FORMAT_H

#include <stdbool.h>

#include "ipc/messages.h"

/* The format that the extension of `path` stands for: "otlp" for "x.otlp". NULL if the extension is
 * unknown, and for "-". */
const char *output_format_from_path(const char *path);

/* Whether a format of this name exists: html, folded, pprof, speedscope, otlp or tree. */
bool output_format_exists(const char *format);

/* The extension for files of an existing format, with its dot: ".html". */
const char *output_format_extension(const char *format);

/* The names of enum group_by in --group-by: "name", "pid" and "thread". */
const char *output_group_by_name(enum group_by group_by);

/* Sets `group_by` and returns true if `text` is one of these names. */
bool output_group_by_parse(const char *text, enum group_by *group_by);

#endif
