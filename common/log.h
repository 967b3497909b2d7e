/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages to stderr, one line each: time, level, role, message with key=value pairs. What comes
 * from a profiled process goes through log_escape first.
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

/* Name of this role in each line, and the level from BULKHEAD_LOG (error, warning, info, debug;
 * warning if unset). */
void log_init(const char *role);

void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)
#define log_warning(...) log_write(LOG_WARNING, __VA_ARGS__)
#define log_info(...) log_write(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_write(LOG_DEBUG, __VA_ARGS__)

/* `text` with control characters and bytes that are not ASCII escaped, cut to `size`; returns
 * `buffer`. */
const char *log_escape(const char *text, char *buffer, size_t size);

#endif
