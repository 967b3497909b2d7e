/* SPDX-License-Identifier: Apache-2.0 */
#include "parse/proc_maps.h"

#include <string.h>

enum {
	STAT_STARTTIME = 22 /* the number of the field in proc_pid_stat(5), counted from 1 */
};

/* Parses the number at *at. Returns false if there is no digit or it overflows. */
static bool parse_number(const char **at, const char *end, unsigned int base, uint64_t *value)
{
	uint64_t v = 0;
	const char *p = *at;

	for (; p < end; p++) {
		unsigned int digit;

		if (*p >= '0' && *p <= '9')
			digit = (unsigned int)(*p - '0');
		else if (base == 16 && *p >= 'a' && *p <= 'f')
			digit = (unsigned int)(*p - 'a' + 10);
		else
			break;
		if (v > (UINT64_MAX - digit) / base)
			return false;
		v = v * base + digit;
	}
	if (p == *at)
		return false;
	*at = p;
	*value = v;
	return true;
}

static bool parse_char(const char **at, const char *end, char wanted)
{
	if (*at == end || **at != wanted)
		return false;
	(*at)++;
	return true;
}

static bool parse_line(const char *at, const char *end, struct proc_mapping *m)
{
	uint64_t major, minor;

	if (!parse_number(&at, end, 16, &m->start) || !parse_char(&at, end, '-') ||
	    !parse_number(&at, end, 16, &m->end) || !parse_char(&at, end, ' '))
		return false;
	if (end - at < 5 || at[4] != ' ')
		return false;
	m->writable = at[1] == 'w';
	m->executable = at[2] == 'x';
	at += 5;
	if (!parse_number(&at, end, 16, &m->file_offset) || !parse_char(&at, end, ' ') ||
	    !parse_number(&at, end, 16, &major) || !parse_char(&at, end, ':') ||
	    !parse_number(&at, end, 16, &minor) || !parse_char(&at, end, ' ') ||
	    !parse_number(&at, end, 10, &m->inode))
		return false;
	if (major > UINT32_MAX || minor > UINT32_MAX || m->start >= m->end)
		return false;
	m->device_major = (uint32_t)major;
	m->device_minor = (uint32_t)minor;
	while (at < end && *at == ' ')
		at++;
	m->path = at;
	m->path_length = (size_t)(end - at);
	return true;
}

unsigned int proc_maps_parse(const char *text, size_t length, proc_mapping_fn fn, void *context)
{
	const char *at = text, *end = text + length;
	unsigned int skipped = 0;

	while (at < end) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		const char *line_end = newline ? newline : end;
		struct proc_mapping mapping;

		if (parse_line(at, line_end, &mapping))
			fn(context, &mapping);
		else
			skipped++;
		at = line_end + 1;
	}
	return skipped;
}

bool proc_stat_comm(const char *text, size_t length, char *comm, size_t size)
{
	const char *open = memchr(text, '(', length);
	const char *close = memrchr(text, ')', length);

	if (!open || !close || close < open || !size)
		return false;
	size_t n = (size_t)(close - open - 1);
	if (n >= size)
		n = size - 1;
	memcpy(comm, open + 1, n);
	comm[n] = 0;
	return true;
}

bool proc_stat_leader_ended(const char *text, size_t length)
{
	const char *close = memrchr(text, ')', length);

	/* ") Z ": field 3 is the state (proc_pid_stat(5)). */
	return close && text + length - close >= 3 && close[1] == ' ' &&
	       (close[2] == 'Z' || close[2] == 'X');
}

bool proc_stat_start(const char *text, size_t length, uint64_t *ticks)
{
	const char *at = memrchr(text, ')', length), *end = text + length;

	/* The name is field 2; skip fields 3 to 21. */
	for (int field = 2; at && field < STAT_STARTTIME; field++) {
		at = memchr(at, ' ', (size_t)(end - at));
		at = at ? at + 1 : NULL;
	}
	/* At the end of the text the number may be cut off. */
	return at && parse_number(&at, end, 10, ticks) && at < end;
}
