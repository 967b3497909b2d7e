/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/otlp/proto_out.h"

#include <endian.h>
#include <string.h>

enum {
	WIRE_VARINT,
	WIRE_FIXED64,
	WIRE_LENGTH_DELIMITED
};

/* Values of a packed field that are collected before they are passed on. */
#define PACKED_AT_ONCE 64
#define VARINT_BYTES_MAX 10

static void append(ProtobufCBuffer *buffer, size_t length, const uint8_t *data)
{
	struct proto_out *out = (struct proto_out *)buffer; /* `base` is the first member */

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

static size_t tag(uint8_t *at, uint32_t field, unsigned int wire)
{
	return varint(at, (uint64_t)field << 3 | wire);
}

uint64_t proto_varint_bytes(uint64_t value)
{
	/* A byte holds seven bits, and 0 takes one byte as well. */
	return (uint64_t)(63 - __builtin_clzll(value | 1)) / 7 + 1;
}

uint64_t proto_head_bytes(uint32_t field, uint64_t length)
{
	return proto_varint_bytes((uint64_t)field << 3) + proto_varint_bytes(length);
}

void proto_out_raw(struct proto_out *out, const void *data, size_t length)
{
	append(&out->base, length, data);
}

void proto_out_head(struct proto_out *out, uint32_t field, uint64_t length)
{
	uint8_t head[2 * VARINT_BYTES_MAX];
	size_t used = tag(head, field, WIRE_LENGTH_DELIMITED);

	used += varint(head + used, length);
	append(&out->base, used, head);
}

void proto_out_number(struct proto_out *out, uint32_t field, uint64_t value)
{
	uint8_t bytes[2 * VARINT_BYTES_MAX];
	size_t used = tag(bytes, field, WIRE_VARINT);

	used += varint(bytes + used, value);
	append(&out->base, used, bytes);
}

void proto_out_packed(struct proto_out *out, uint32_t field, const uint32_t *values, size_t count)
{
	uint8_t bytes[PACKED_AT_ONCE * VARINT_BYTES_MAX];
	uint64_t length = 0;

	if (!count)
		return;
	for (size_t i = 0; i < count; i++)
		length += proto_varint_bytes(values[i]);
	proto_out_head(out, field, length);
	if (!out->put) {
		out->bytes += length;
		return;
	}
	for (size_t i = 0; i < count;) {
		size_t used = 0;
		for (size_t end = i + PACKED_AT_ONCE; i < count && i < end; i++)
			used += varint(bytes + used, values[i]);
		append(&out->base, used, bytes);
	}
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

void proto_small_number(struct proto_small *small, uint32_t field, uint64_t value)
{
	if (!value)
		return;
	small->length += tag(small->bytes + small->length, field, WIRE_VARINT);
	small->length += varint(small->bytes + small->length, value);
}

void proto_small_fixed64(struct proto_small *small, uint32_t field, uint64_t value)
{
	uint64_t little = htole64(value);

	if (!value)
		return;
	small->length += tag(small->bytes + small->length, field, WIRE_FIXED64);
	memcpy(small->bytes + small->length, &little, sizeof(little));
	small->length += sizeof(little);
}

void proto_small_packed(struct proto_small *small, uint32_t field, const uint64_t *values,
			size_t count)
{
	uint64_t length = 0;

	if (!count)
		return;
	for (size_t i = 0; i < count; i++)
		length += proto_varint_bytes(values[i]);
	small->length += tag(small->bytes + small->length, field, WIRE_LENGTH_DELIMITED);
	small->length += varint(small->bytes + small->length, length);
	for (size_t i = 0; i < count; i++)
		small->length += varint(small->bytes + small->length, values[i]);
}

void proto_small_message(struct proto_small *small, uint32_t field,
			 const struct proto_small *message)
{
	small->length += tag(small->bytes + small->length, field, WIRE_LENGTH_DELIMITED);
	small->length += varint(small->bytes + small->length, message->length);
	memcpy(small->bytes + small->length, message->bytes, message->length);
	small->length += message->length;
}

void proto_out_small(struct proto_out *out, uint32_t field, const struct proto_small *small)
{
	proto_out_bytes(out, field, small->bytes, small->length);
}
