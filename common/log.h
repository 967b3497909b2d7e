/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log messages on stderr, one line each: time, level, role, and a message with key=value pairs.
 * Text from a profiled process or a peer must go through log_escape first.
 */
#ifndef COMMON_LOG_H
#define COMMON_LOG_H

#include <stddef.h>

enum log_level {
	LOG_ERROR = 3,
	LOG_WARNING = 4,
	LOG_INFO = 6,
	LOG_DEBUG = 7
};

/* Sets the name of this role in each line, and takes the level from the environment variable
 * BULKHEAD_LOG: error, warning, info or debug. The default is warning. */
void log_init(const char *role);

/* Writes one line, cut at 1 KiB. The macros below are shorter. */
void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)
#define log_warning(...) log_write(LOG_WARNING, __VA_ARGS__)
#define log_info(...) log_write(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_write(LOG_DEBUG, __VA_ARGS__)

/* Copies `text` to `buffer`, with everything but printable ASCII as \xNN, cut to `size` bytes with
 * the NUL. Returns `buffer`. */
const char *log_escape(const char *text, char *buffer, size_t size);

#endif
