/* SPDX-License-Identifier: Apache-2.0 */
/* State of reading one OTLP file, and functions that walk and unpack its messages. Private to
 * otlp_read*.c. */
#ifndef EXPORTER_OTLP_OTLP_READER_H
#define EXPORTER_OTLP_OTLP_READER_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/cursor.h"
#include "exporter/model/profile.h"
#include "exporter/otlp/otlp_limits.h"
#include "exporter/otlp/otlp_names.h"

/* The keys of attributes that the reader uses. */
enum key {
	KEY_OTHER,
	KEY_FRAME_TYPE,
	KEY_GENERATED_NAME,
	KEY_GNU_BUILD_ID,
	KEY_GO_BUILD_ID,
	KEY_HTLHASH,
	KEY_THREAD_NAME,
	KEY_THREAD_ID,
	KEY_CPU,
	KEY_SERVICE_NAME,
	KEY_CONTAINER_ID,
	KEY_PROCESS_PID,
	KEY_PROCESS_NAME,
	KEY_PROCESS_COMM,
	KEY_PROCESS_PATH,
	KEY_PROCESS_START,
	KEY_PROCESS_VARIABLE,
	KEY_LABEL,
};

/* A text in the file, without a NUL at its end. */
struct text {
	const char *at;
	size_t length;
};

/* An attribute of the file. Its value is a string of the profile, or a number. */
struct attribute {
	enum key key;
	bool is_string;
	struct text variable; /* KEY_PROCESS_VARIABLE, KEY_LABEL: what follows the prefix */
	uint32_t string;
	uint64_t number;
};

/* A location of the file becomes one location of the profile for each function that was inlined
 * there: location_ids[first] to location_ids[first + count - 1]. */
struct span {
	uint32_t first, count;
};

#define READER_TABLE(type, name)                                                                   \
	type *name;                                                                                \
	size_t name##_count, name##_capacity

struct reader {
	struct profile *profile;
	struct cursor file;
	ProtobufCAllocator allocator;
	size_t unpack_bytes_left;
	int unpack_error; /* why reader_unpack() has returned NULL: -EBADMSG or -ENOMEM */
	/* By index in the file: the texts, and the ids that the entries have in the profile. */
	READER_TABLE(struct text, strings);
	READER_TABLE(struct attribute, attributes);
	READER_TABLE(uint32_t, functions);
	READER_TABLE(uint32_t, mappings);
	READER_TABLE(struct span, locations);
	READER_TABLE(uint32_t, location_ids); /* `locations` are spans of it */
	READER_TABLE(uint32_t, stacks);
	uint32_t links_count;
	uint32_t frames[OTLP_READ_FRAMES_MAX]; /* of the stack that is being read */
	bool adding;			       /* the second pass: samples are added */
	uint64_t sample_count; /* samples of the profile, and those that the first pass found */
};

/* Returns a reader that adds a file to `profile`, or NULL if memory runs out. The caller frees it,
 * and keeps the file and the profile until then. */
struct reader *reader_new(const uint8_t *data, size_t length, struct profile *profile);

void reader_free(struct reader **reader);

/* Handles one length-delimited field. Returns 0, or a negative errno that ends the walk. */
typedef int reader_fn(struct reader *reader, struct cursor bytes, void *context);

/* Appends an item to a table of the reader. Returns 0, -EBADMSG if there are more than an index of
 * the format can refer to, or -ENOMEM. */
#define READER_APPEND(reader, name, item)                                                          \
	({                                                                                         \
		int _r = ARRAY_RESERVE((reader)->name, (reader)->name##_capacity,                  \
				       (reader)->name##_count + 1, 64, INT32_MAX);                 \
		if (_r == 0)                                                                       \
			(reader)->name[(reader)->name##_count++] = (item);                         \
		_r == -E2BIG ? -EBADMSG : _r;                                                      \
	})

/* Returns whether a table of the file has this index. */
static inline bool reader_has(int32_t index, size_t count)
{
	return index >= 0 && (size_t)index < count;
}

/* Calls `fn` for each length-delimited field with this number, in the order of the file. Returns 0,
 * -EBADMSG if the message is malformed or the field has another wire type, or what `fn`
 * returned. */
int reader_for_each(struct reader *reader, struct cursor message, uint32_t number, reader_fn *fn,
		    void *context);

/* Unpacks one message. The caller frees it: see _cleanup_message_. Returns NULL, and sets
 * reader->unpack_error, if the message is malformed or would take more than
 * OTLP_READ_UNPACK_BYTES_MAX of memory (-EBADMSG), or if memory runs out (-ENOMEM). */
void *reader_unpack(struct reader *reader, const ProtobufCMessageDescriptor *descriptor,
		    struct cursor bytes);

static inline void reader_free_message(void *message)
{
	/* All memory of the message came from malloc(), so the system's allocator can free it. */
	ProtobufCMessage **m = message;

	if (*m)
		protobuf_c_message_free_unpacked(*m, NULL);
}

#define _cleanup_message_ _cleanup_(reader_free_message)

#endif
