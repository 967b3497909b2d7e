/* SPDX-License-Identifier: Apache-2.0 */
/* The fields of a protobuf message from anyone, one after the other, over the cursor. */
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
	uint64_t value;	     /* of a varint or a fixed number */
	struct cursor bytes; /* of a length-delimited field */
};

/* 1 and the next field, 0 at the end, or -EBADMSG. Groups (3, 4) have been gone for long and are a
 * fault. */
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

/* Whether this is field `number` of that wire type. Schemas only grow: a known number with another
 * type is another schema, and passed over as an unknown field is. */
static inline bool proto_is(const struct proto_field *field, uint32_t number, uint32_t wire_type)
{
	return field->number == number && field->wire_type == wire_type;
}

#endif
