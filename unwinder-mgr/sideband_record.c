/* SPDX-License-Identifier: Apache-2.0 */
/* Each field is read by a statement of its own, because C does not order reads within one
 * initialiser list (tests/lint/evaluation_order.py). */
#include "unwinder-mgr/sideband_record.h"

#include <linux/perf_event.h>
#include <string.h>

uint64_t sideband_record_time(const uint8_t *record, size_t size)
{
	struct perf_event_header header;
	struct sideband_ksymbol symbol;
	uint64_t time_ns;
	size_t at = size - SIDEBAND_TRAILER_BYTES;

	memcpy(&header, record, sizeof(header));
	struct cursor c = cursor_init(record + sizeof(header), at - sizeof(header));
	if (header.type == PERF_RECORD_KSYMBOL && sideband_ksymbol_read(&c, &symbol)) {
		const char *end = symbol.name + strlen(symbol.name) + 1;
		const size_t written = (size_t)(end - (const char *)record);

		/* The name is padded to a multiple of 8 bytes. */
		at = (written + 7) & ~(size_t)7;
	}
	memcpy(&time_ns, record + at, sizeof(time_ns));
	return time_ns;
}

bool sideband_mmap_read(struct cursor *c, struct sideband_mmap *record)
{
	record->tgid = cursor_u32(c);
	record->tid = cursor_u32(c);
	record->start = cursor_u64(c);
	record->length = cursor_u64(c);
	record->file_offset = cursor_u64(c);
	record->device_major = cursor_u32(c);
	record->device_minor = cursor_u32(c);
	record->inode = cursor_u64(c);
	record->generation = cursor_u64(c);
	record->protection = cursor_u32(c);
	record->flags = cursor_u32(c);
	record->path = cursor_string(c);
	return !c->failed;
}

bool sideband_comm_read(struct cursor *c, struct sideband_comm *record)
{
	record->tgid = cursor_u32(c);
	record->tid = cursor_u32(c);
	record->comm = cursor_string(c);
	return !c->failed;
}

bool sideband_task_read(struct cursor *c, struct sideband_task *record)
{
	record->tgid = cursor_u32(c);
	record->parent_tgid = cursor_u32(c);
	record->tid = cursor_u32(c);
	record->parent_tid = cursor_u32(c);
	return !c->failed;
}

bool sideband_ksymbol_read(struct cursor *c, struct sideband_ksymbol *record)
{
	record->address = cursor_u64(c);
	record->length = cursor_u32(c);
	record->type = cursor_u16(c);
	record->flags = cursor_u16(c);
	record->name = cursor_string(c);
	return !c->failed;
}
