/* SPDX-License-Identifier: Apache-2.0 */
/* Walks the fields of a protobuf message from an untrusted source, one after the other. */
#ifndef EXPORTER_OTLP_PROTO_IN_H
#define EXPORTER_OTLP_PROTO_IN_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/cursor.h"

enum {
	PROTO_VARINT,
	PROTO_FIXED64,
	PROTO_BYTES,
	PROTO_FIXED32 = 5
};

struct proto_field {
	uint32_t number;
	uint32_t wire_type;
	uint64_t value;	     /* of a varint or a fixed-width number */
	struct cursor bytes; /* of a length-delimited field */
};

/* Reads the next field. Returns 1, 0 at the end, or -EBADMSG if the message is malformed. Groups
 * (wire types 3 and 4) are obsolete and count as malformed. */
static inline int proto_next(struct cursor *at, struct proto_field *field)
{
	if (at->failed)
		return -EBADMSG;
	if (!cursor_left(at))
		return 0;
	uint64_t tag = cursor_uleb128(at);

	*field = (struct proto_field){.number = (uint32_t)(tag >> 3), .wire_type = tag & 7};
	if (tag > UINT32_MAX || !field->number)
		return -EBADMSG;
	switch (field->wire_type) {
	case PROTO_VARINT:
		field->value = cursor_uleb128(at);
		break;
	case PROTO_FIXED64:
		field->value = cursor_u64(at);
		break;
	case PROTO_BYTES:
		field->bytes = cursor_sub(at, cursor_uleb128(at));
		break;
	case PROTO_FIXED32:
		field->value = cursor_u32(at);
		break;
	default:
		return -EBADMSG;
	}
	return at->failed ? -EBADMSG : 1;
}

/* Returns whether this is field `number` with this wire type. A known number with another type
 * comes from another schema, and is ignored like an unknown field. */
static inline bool proto_is(const struct proto_field *field, uint32_t number, uint32_t wire_type)
{
	return field->number == number && field->wire_type == wire_type;
}

#endif
