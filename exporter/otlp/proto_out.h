/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this works. These functions write protobuf in pieces, so that a message of any size needs
 * memory only for its smallest parts. The length of a message comes before its fields. Therefore
 * the code that writes the fields runs twice, the first time with an output that only counts bytes
 * (put is NULL). Messages of bounded size are built in a struct proto_small instead.
 *
 * Example: the field 1 with the string "hi" is the bytes 0x0a (field 1, length-delimited), 2, 'h',
 * 'i'.
 */
#ifndef EXPORTER_OTLP_PROTO_OUT_H
#define EXPORTER_OTLP_PROTO_OUT_H

#include <protobuf-c/protobuf-c.h>
#include <stdint.h>

struct proto_out {
	ProtobufCBuffer base; /* protobuf-c packs into this */
	/* Takes the bytes; NULL: they are only counted. */
	void (*put)(void *context, const uint8_t *data, size_t length);
	void *context;
	uint64_t bytes; /* bytes so far */
};

struct proto_out proto_out_init(void (*put)(void *, const uint8_t *, size_t), void *context);

/* Writes bytes unchanged. */
void proto_out_raw(struct proto_out *out, const void *data, size_t length);
/* Writes tag and length of a field that `length` bytes follow. */
void proto_out_head(struct proto_out *out, uint32_t field, uint64_t length);
/* These return the size of the head of such a field, and of the whole field. */
uint64_t proto_head_bytes(uint32_t field, uint64_t length);
static inline uint64_t proto_field_bytes(uint32_t field, uint64_t length)
{
	return proto_head_bytes(field, length) + length;
}
/* Writes a number as a varint, even if it is 0. */
void proto_out_number(struct proto_out *out, uint32_t field, uint64_t value);
uint64_t proto_varint_bytes(uint64_t value);
/* Writes a packed field of varints, or nothing if there are none. */
void proto_out_packed(struct proto_out *out, uint32_t field, const uint32_t *values, size_t count);
/* Writes a message as a field. */
void proto_out_message(struct proto_out *out, uint32_t field, const void *message);
/* Writes the fields of a message, without tag and length. */
void proto_out_fields(struct proto_out *out, const void *message);
/* Writes a string or bytes as a field. */
void proto_out_bytes(struct proto_out *out, uint32_t field, const void *data, size_t length);

enum {
	PROTO_SMALL_FIELD_BYTES = 12, /* the tag of a field below 2,048, and the longest varint */
	PROTO_SMALL_BYTES = 16 * PROTO_SMALL_FIELD_BYTES
};

/* A message under construction. It has at most 16 numbers, with those in messages inside it. */
struct proto_small {
	uint8_t bytes[PROTO_SMALL_BYTES];
	size_t length;
};

/* Appends a field, unless its value is 0, as in proto3. */
void proto_small_number(struct proto_small *small, uint32_t field, uint64_t value);
void proto_small_fixed64(struct proto_small *small, uint32_t field, uint64_t value);
void proto_small_packed(struct proto_small *small, uint32_t field, const uint64_t *values,
			size_t count);
void proto_small_message(struct proto_small *small, uint32_t field,
			 const struct proto_small *message);
/* Writes the message as a field. */
void proto_out_small(struct proto_out *out, uint32_t field, const struct proto_small *small);

#endif
