/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/otlp/otlp_reader.h"

#include <stdlib.h>

#include "exporter/otlp/proto_in.h"

static void *allocate(void *context, size_t size)
{
	struct reader *r = context;

	if (size > r->unpack_bytes_left)
		return NULL;
	r->unpack_bytes_left -= size;
	void *memory = malloc(size ? size : 1);
	if (!memory)
		r->unpack_error = -ENOMEM;
	return memory;
}

static void release(void *context, void *memory)
{
	(void)context;
	free(memory);
}

struct reader *reader_new(const uint8_t *data, size_t length, struct profile *profile)
{
	struct reader *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->profile = profile;
	r->file = cursor_init(data, length);
	r->allocator = (ProtobufCAllocator){allocate, release, r};
	r->sample_count = profile->sample_count;
	return r;
}

void reader_free(struct reader **reader)
{
	struct reader *r = *reader;

	if (!r)
		return;
	free(r->strings);
	free(r->attributes);
	free(r->functions);
	free(r->mappings);
	free(r->locations);
	free(r->location_ids);
	free(r->stacks);
	free(r);
}

int reader_for_each(struct reader *r, struct cursor message, uint32_t number, reader_fn *fn,
		    void *context)
{
	struct proto_field field;
	int got;

	while ((got = proto_next(&message, &field)) > 0) {
		if (field.number != number)
			continue;
		if (field.wire_type != PROTO_BYTES)
			return -EBADMSG;
		int result = fn(r, field.bytes, context);
		if (result < 0)
			return result;
	}
	return got;
}

void *reader_unpack(struct reader *r, const ProtobufCMessageDescriptor *descriptor,
		    struct cursor bytes)
{
	r->unpack_bytes_left = OTLP_READ_UNPACK_BYTES_MAX;
	r->unpack_error = -EBADMSG;
	return protobuf_c_message_unpack(descriptor, &r->allocator, cursor_left(&bytes), bytes.at);
}
