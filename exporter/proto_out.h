/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protobuf written piece by piece, so that a message of any size needs memory only for its smallest
 * parts. A message that holds others needs its length in front: the code that writes its fields is
 * run twice, first into a counter.
 */
#ifndef EXPORTER_PROTO_OUT_H
#define EXPORTER_PROTO_OUT_H

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

/* Tag and length of a field that `length` bytes follow. */
void proto_out_head(struct proto_out *out, uint32_t field, uint64_t length);
/* A message as a field. */
void proto_out_message(struct proto_out *out, uint32_t field, const void *message);
/* A message's own fields, without tag and length. */
void proto_out_fields(struct proto_out *out, const void *message);
/* A string or bytes. */
void proto_out_bytes(struct proto_out *out, uint32_t field, const void *data, size_t length);

#endif
