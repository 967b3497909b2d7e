/* SPDX-License-Identifier: Apache-2.0 */
/* Small text files of the host, most of them in /proc and /sys. A container may have mounted
 * anything in their place, so they are read with a bound and without waiting. */
#ifndef CLI_HOST_TEXT_H
#define CLI_HOST_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Reads the file `path` below the directory `root` into `text`, at most `size` - 1 bytes and a NUL.
 * Returns the number of bytes or a negative errno, after which `text` is empty. */
ssize_t host_text_read(const char *root, const char *path, char *text, size_t size);

/* Reads a decimal number, as the files of sysctls hold. Returns 0, -EINVAL for something else, or
 * another negative errno. */
int host_text_read_number(const char *root, const char *path, int64_t *value);

/* Returns whether a list that is separated by commas, spaces or newlines has this word. */
bool host_text_has_word(const char *list, const char *word);

#endif
