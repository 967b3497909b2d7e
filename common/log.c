/* SPDX-License-Identifier: Apache-2.0 */
#include "common/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/escape.h"
#include "common/time_units.h"

/* The only mutable variables at file scope in the project. */
static const char *log_role = "bulkhead";
static enum log_level log_threshold = LOG_WARNING;

void log_init(const char *role)
{
	static const struct {
		const char *name;
		enum log_level level;
	} levels[] = {
	    {"error", LOG_ERROR},
	    {"warning", LOG_WARNING},
	    {"info", LOG_INFO},
	    {"debug", LOG_DEBUG},
	};
	const char *wanted = getenv("BULKHEAD_LOG");

	log_role = role;
	for (size_t i = 0; wanted && i < sizeof(levels) / sizeof(levels[0]); i++) {
		if (!strcmp(wanted, levels[i].name))
			log_threshold = levels[i].level;
	}
}

static const char *log_level_name(enum log_level level)
{
	return level <= LOG_ERROR     ? "error"
	       : level == LOG_WARNING ? "warning"
	       : level == LOG_INFO    ? "info"
				      : "debug";
}

void log_write(enum log_level level, const char *format, ...)
{
	char line[1024];
	struct timespec now;
	va_list args;

	if (level > log_threshold)
		return;
	clock_gettime(CLOCK_REALTIME, &now);
	/* gmtime_r would read /etc/localtime, which no sandboxed role may open. */
	const int second = (int)(now.tv_sec % 86400);
	int used = snprintf(line, sizeof(line), "%02d:%02d:%02d.%03ldZ %s %s: ", second / 3600,
			    second / 60 % 60, second % 60, now.tv_nsec / (long)NS_PER_MS,
			    log_level_name(level), log_role);
	va_start(args, format);
	int more = vsnprintf(line + used, sizeof(line) - (size_t)used, format, args);
	va_end(args);
	size_t length = (size_t)(used + more);
	if (length > sizeof(line) - 2)
		length = sizeof(line) - 2;
	line[length] = '\n';
	/* A single write keeps the lines of several roles apart. */
	if (write(STDERR_FILENO, line, length + 1) < 0)
		return;
}

const char *log_escape(const char *text, char *buffer, size_t size)
{
	escape_text(buffer, size, text, strlen(text), ESCAPE_KEEP_ASCII, NULL);
	return buffer;
}
