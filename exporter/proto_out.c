/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/proto_out.h"

#define WIRE_LENGTH_DELIMITED 2

static void append(ProtobufCBuffer *buffer, size_t length, const uint8_t *data)
{
	struct proto_out *out = (struct proto_out *)buffer; /* its first member */

	out->bytes += length;
	if (out->put && length)
		out->put(out->context, data, length);
}

struct proto_out proto_out_init(void (*put)(void *, const uint8_t *, size_t), void *context)
{
	return (struct proto_out){.base = {.append = append}, .put = put, .context = context};
}

static size_t varint(uint8_t *at, uint64_t value)
{
	size_t length = 0;

	for (; value >= 0x80; value >>= 7)
		at[length++] = (uint8_t)(value | 0x80);
	at[length++] = (uint8_t)value;
	return length;
}

void proto_out_head(struct proto_out *out, uint32_t field, uint64_t length)
{
	uint8_t head[20];
	size_t used = varint(head, (uint64_t)field << 3 | WIRE_LENGTH_DELIMITED);

	used += varint(head + used, length);
	append(&out->base, used, head);
}

void proto_out_fields(struct proto_out *out, const void *message)
{
	protobuf_c_message_pack_to_buffer(message, &out->base);
}

void proto_out_message(struct proto_out *out, uint32_t field, const void *message)
{
	proto_out_head(out, field, protobuf_c_message_get_packed_size(message));
	proto_out_fields(out, message);
}

void proto_out_bytes(struct proto_out *out, uint32_t field, const void *data, size_t length)
{
	proto_out_head(out, field, length);
	append(&out->base, length, data);
}
