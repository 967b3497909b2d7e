/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protobuf written piece by piece, so that a message of any size needs memory only for its smallest
 * parts. A message that holds others needs its length in front: the code that writes its fields is
 * run twice, first into a counter. Messages of bounded size are put together in a proto_small.
 */
#ifndef EXPORTER_OTLP_PROTO_OUT_H
#define EXPORTER_OTLP_PROTO_OUT_H

#include <protobuf-c/protobuf-c.h>
#include <stdint.h>

struct proto_out {
	ProtobufCBuffer base; /* what protobuf-c packs into */
	/* Where bytes go; NULL only counts them. */
	void (*put)(void *context, const uint8_t *data, size_t length);
	void *context;
	uint64_t bytes; /* so far */
};

struct proto_out proto_out_init(void (*put)(void *, const uint8_t *, size_t), void *context);

/* Bytes as they are. */
void proto_out_raw(struct proto_out *out, const void *data, size_t length);
/* Tag and length of a field that `length` bytes follow. */
void proto_out_head(struct proto_out *out, uint32_t field, uint64_t length);
/* Bytes that the head of such a field takes, and all of it. */
uint64_t proto_head_bytes(uint32_t field, uint64_t length);
static inline uint64_t proto_field_bytes(uint32_t field, uint64_t length)
{
	return proto_head_bytes(field, length) + length;
}
/* A number as a varint, also if it is 0. */
void proto_out_number(struct proto_out *out, uint32_t field, uint64_t value);
uint64_t proto_varint_bytes(uint64_t value);
/* A packed field of varints; nothing if there are none. */
void proto_out_packed(struct proto_out *out, uint32_t field, const uint32_t *values, size_t count);
/* A message as a field. */
void proto_out_message(struct proto_out *out, uint32_t field, const void *message);
/* A message's own fields, without tag and length. */
void proto_out_fields(struct proto_out *out, const void *message);
/* A string or bytes. */
void proto_out_bytes(struct proto_out *out, uint32_t field, const void *data, size_t length);

enum {
	PROTO_SMALL_FIELD_BYTES = 12, /* tag (of a field below 2,048) and the longest varint */
	PROTO_SMALL_BYTES = 10 * PROTO_SMALL_FIELD_BYTES
};

/* A message of at most ten numbers, those in messages within it included. */
struct proto_small {
	uint8_t bytes[PROTO_SMALL_BYTES];
	size_t length;
};

/* A field that is not written if it is 0, as proto3 has it. */
void proto_small_number(struct proto_small *small, uint32_t field, uint64_t value);
void proto_small_fixed64(struct proto_small *small, uint32_t field, uint64_t value);
void proto_small_packed(struct proto_small *small, uint32_t field, const uint64_t *values,
			size_t count);
void proto_small_message(struct proto_small *small, uint32_t field,
			 const struct proto_small *message);
void proto_out_small(struct proto_out *out, uint32_t field, const struct proto_small *small);

#endif
