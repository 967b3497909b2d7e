/* SPDX-License-Identifier: Apache-2.0 */
/* The formats of outputs, and their file name extensions. */
#ifndef CLI_OUTPUT_FORMAT_H
#define CLI_OUTPUT_FORMAT_H

#include <stdbool.h>

/* Returns the format that the extension of `path` stands for: "otlp" for "x.otlp". Returns NULL for
 * an extension of no format, and for "-". */
const char *output_format_from_path(const char *path);

/* Returns whether a format of this name exists: html, folded, pprof, speedscope, otlp or tree. */
bool output_format_exists(const char *format);

/* Returns the extension for files of an existing format, with its dot: ".html". */
const char *output_format_extension(const char *format);

#endif
