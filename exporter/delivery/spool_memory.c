/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/delivery/spool_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

/* The state as it is stored in the file. */
struct memory_state {
	uint32_t magic, version;
	uint64_t sequence, head, tail, number, mark;
	uint32_t check; /* XXH32 of the bytes before it */
	uint32_t reserved;
};
_Static_assert(sizeof(struct memory_state) == 56, "a format");

enum {
	STATE_MAGIC = 0x4d707342, /* "BspM" */
	STATE_VERSION = 1,
	STATE_SLOT_BYTES = 256,
};

static uint32_t state_check(const struct memory_state *state)
{
	return XXH32(state, offsetof(struct memory_state, check), 0);
}

static uint64_t page_start(uint64_t offset)
{
	return offset & ~(uint64_t)(SPOOL_MEMORY_START - 1);
}

/* Publishes the state with this head, tail, number and mark. */
static int state_write(struct spool_memory *m, uint64_t head, uint64_t tail, uint64_t number,
		       uint64_t mark)
{
	struct memory_state state = {.magic = STATE_MAGIC,
				     .version = STATE_VERSION,
				     .sequence = m->sequence + 1,
				     .head = head,
				     .tail = tail,
				     .number = number,
				     .mark = mark};
	unsigned int slot = !m->slot;

	state.check = state_check(&state);
	int r = spool_write(m->fd, &state, sizeof(state), slot * STATE_SLOT_BYTES);
	if (r)
		return r;
	m->slot = slot;
	m->sequence++;
	m->head = head;
	m->tail = tail;
	m->published = number;
	m->mark = mark;
	return 0;
}

static bool state_read(int fd, unsigned int slot, uint64_t file_bytes, uint64_t number_max,
		       struct memory_state *state)
{
	return spool_read(fd, state, sizeof(*state), slot * STATE_SLOT_BYTES) == sizeof(*state) &&
	       state->magic == STATE_MAGIC && state->version == STATE_VERSION &&
	       state->check == state_check(state) && state->head >= SPOOL_MEMORY_START &&
	       state->head <= state->tail && state->tail <= file_bytes &&
	       state->number <= number_max;
}

/* Takes the newer of the two valid copies. Returns false if there is none. Sequence numbers are
 * compared modulo 2^64, so that a forged one is overtaken as well. */
static bool state_find(struct spool_memory *m, uint64_t file_bytes, uint64_t number_max)
{
	struct memory_state states[2];
	bool sound[2];

	for (unsigned int i = 0; i < 2; i++)
		sound[i] = state_read(m->fd, i, file_bytes, number_max, &states[i]);
	if (!sound[0] && !sound[1])
		return false;
	m->slot = !sound[0] || (sound[1] && (int64_t)(states[1].sequence - states[0].sequence) > 0);
	const struct memory_state *state = &states[m->slot];
	m->sequence = state->sequence;
	m->head = state->head;
	m->tail = state->tail;
	m->published = state->number;
	m->mark = state->mark;
	return true;
}

/* Moves the head forward and gives the memory before it back. If the file becomes empty it starts
 * again at the beginning: first the state, then the truncation, since bytes after the tail do no
 * harm. If the state cannot be published, the next process delivers these records again. */
static void head_move(struct spool_memory *m, uint64_t head)
{
	const uint64_t from = page_start(m->head);

	if (head == m->end &&
	    !state_write(m, SPOOL_MEMORY_START, SPOOL_MEMORY_START, m->published, m->mark)) {
		m->end = SPOOL_MEMORY_START;
		/* If the truncation fails, the next records overwrite what is there. */
		if (ftruncate(m->fd, SPOOL_MEMORY_START) == 0)
			return;
	} else if (state_write(m, head, m->tail, m->published, m->mark)) {
		m->head = head;
	}
	if (page_start(head) > from)
		fallocate(m->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from,
			  (off_t)(page_start(head) - from));
}

/* Counts the records. The tail is moved back to the end of the last valid record, so that the next
 * record cannot complete a torn header. */
static void memory_count(struct spool_memory *m, struct spool_losses *losses)
{
	struct spool_scan scan;
	int r;

	spool_memory_scan(m, &scan);
	m->tail = m->head;
	do {
		r = spool_scan_next(&scan);
		losses->damaged_records += r < 0 || scan.skipped;
		losses->damaged_samples += scan.torn_samples;
		if (r == 1) {
			m->records++;
			m->samples += scan.header.samples;
			m->tail = scan.offset;
		}
	} while (r == 1);
	m->end = m->tail;
}

int spool_memory_open(struct spool_memory *m, int fd, size_t record_bytes_max, uint64_t number_max,
		      struct spool_losses *losses)
{
	struct stat st;

	*m = (struct spool_memory){.fd = fd, .record_bytes_max = record_bytes_max};
	if (fstat(fd, &st))
		return -errno;
	if (!state_find(m, st.st_size > 0 ? (uint64_t)st.st_size : 0, number_max)) {
		if (ftruncate(fd, 0) || ftruncate(fd, SPOOL_MEMORY_START))
			return -errno;
		int r = state_write(m, SPOOL_MEMORY_START, SPOOL_MEMORY_START, 0, 0);
		if (r)
			return r;
	}
	m->number = m->published;
	memory_count(m, losses);
	/* The memory before the head may not have been given back. */
	const uint64_t head = m->records ? m->head : m->end;
	m->head = SPOOL_MEMORY_START;
	head_move(m, head);
	/* A group that was never ended is cut off, too, now that no state includes it. */
	return ftruncate(fd, (off_t)m->end) ? -errno : 0;
}

/* The records of the open group are published now. */
static void count_group(struct spool_memory *m)
{
	m->records += m->group_records;
	m->samples += m->group_samples;
	m->group_records = 0;
	m->group_samples = 0;
}

int spool_memory_append(struct spool_memory *m, struct spool_header *header, uint8_t *record,
			bool ends_group)
{
	header->number = m->number + 1;
	header->flags = ends_group ? SPOOL_ENDS_GROUP : 0;
	spool_record_seal(header, m->end);
	memcpy(record, header, sizeof(*header));

	const uint64_t end = m->end + spool_record_bytes(header);
	int r = spool_write(m->fd, record, (size_t)(end - m->end), m->end);
	if (!r && ends_group)
		r = state_write(m, m->head, end, header->number, header->mark);
	if (r)
		return r;
	m->end = end;
	m->number = header->number;
	m->group_records++;
	m->group_samples += header->samples;
	if (ends_group)
		count_group(m);
	return 0;
}

int spool_memory_end_group(struct spool_memory *m, uint64_t mark)
{
	const int r = m->group_records ? state_write(m, m->head, m->end, m->number, mark) : 0;

	if (!r)
		count_group(m);
	return r;
}

void spool_memory_scan(const struct spool_memory *m, struct spool_scan *scan)
{
	*scan = (struct spool_scan){.fd = m->fd,
				    .offset = m->head,
				    .end = m->tail,
				    .number_max = m->published,
				    .record_bytes_max = m->record_bytes_max};
}

bool spool_memory_front(struct spool_memory *m, struct spool_scan *scan,
			struct spool_losses *losses)
{
	if (!m->records)
		return false;
	spool_memory_scan(m, scan);
	if (spool_scan_next(scan) == 1)
		return true;
	/* These records existed when they were counted, so they are damaged now. */
	losses->damaged_records += m->records;
	losses->damaged_samples += m->samples;
	spool_memory_remove(m, m->tail, m->records, m->samples);
	return false;
}

void spool_memory_remove(struct spool_memory *m, uint64_t offset, uint64_t records,
			 uint64_t samples)
{
	m->records -= records < m->records ? records : m->records;
	m->samples -= samples < m->samples ? samples : m->samples;
	/* Without records there can only be damage before the tail. */
	head_move(m, m->records ? offset : m->tail);
}
