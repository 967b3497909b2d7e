/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/worker/runtime_stats.h"

#include "common/log.h"
#include "common/time_units.h"
#include "symbolizer/worker/limits.h"

enum {
	/* Per worker: a user could create many files that are refused. */
	LINES_MAX = 64,
	LINE_BYTES = 640
};

void runtime_stats_refuse(struct runtime_stats *stats, unsigned int runtime, const char *line)
{
	char text[LINE_BYTES];

	stats->by_runtime[runtime].refused++;
	if (!line || stats->lines > LINES_MAX)
		return;
	if (stats->lines++ == LINES_MAX)
		log_warning("many language runtimes are not supported; further ones are counted "
			    "but not logged");
	else
		log_warning("%s", log_escape(line, text, sizeof(text)));
}

void runtime_stats_frame(struct runtime_stats *stats, unsigned int runtime, bool named)
{
	if (runtime == RUNTIME_ID_NONE || runtime >= RUNTIME_ID_COUNT)
		return;
	stats->by_runtime[runtime].named += named;
	stats->by_runtime[runtime].unnamed += !named;
}

void runtime_stats_no_room(struct runtime_stats *stats, unsigned int runtime)
{
	stats->by_runtime[runtime].no_room++;
	if (!stats->no_room_logged)
		log_warning("too many processes with a language runtime: functions of those that "
			    "were idle for longest are shown as native code when they run again; "
			    "further cases are counted but not logged");
	stats->no_room_logged = true;
}

void runtime_stats_no_time(struct runtime_stats *stats, uint32_t tgid, uint64_t now_ns)
{
	if (stats->no_time_logged_ns &&
	    now_ns - stats->no_time_logged_ns < LIMIT_RUNTIMES_TIME_LOG_MS * NS_PER_MS)
		return;
	stats->no_time_logged_ns = now_ns;
	log_warning("naming the functions of a process takes too long, so some of them are shown "
		    "without names for a while; further processes are not logged for a minute: "
		    "pid=%u",
		    tgid);
}
