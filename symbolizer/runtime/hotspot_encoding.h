/* SPDX-License-Identifier: Apache-2.0 */
/* HotSpot's encodings, of bytes that were read: compressed numbers, line tables, scopes of inlined
 * methods, signatures. Any bytes may come. */
#ifndef SYMBOLIZER_RUNTIME_HOTSPOT_ENCODING_H
#define SYMBOLIZER_RUNTIME_HOTSPOT_ENCODING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Before JDK 20, UNSIGNED5 used bytes of 0; since then 0 is none that it writes, and all are one
 * more (src/hotspot/share/utilities/unsigned5.hpp). */
enum {
	HOTSPOT_EXCLUDED_SINCE = 20,
	HOTSPOT_NO_BYTECODE = -1, /* InvocationEntryBci: before the method's first bytecode */
	HOTSPOT_SCOPES_MAX = 64,
};

struct hotspot_stream {
	const uint8_t *bytes;
	size_t length, at;
	bool excluded; /* since JDK 20 */
	bool failed;   /* it ended; all that follows is 0 */
};

uint32_t hotspot_unsigned5(struct hotspot_stream *stream);

/* A method's lines (CompressedLineNumberReadStream): entries of bytecode index and line, in no
 * order. */
struct hotspot_line {
	uint32_t bci, line;
};

/* The next entry; false at the end, or if the stream fails. `entry` holds the one before, 0, 0 at
 * first. */
bool hotspot_next_line(struct hotspot_stream *stream, struct hotspot_line *entry);

/* The line of bytecode `bci`: that of the last entry with the greatest index up to it. 0: none. */
uint32_t hotspot_line_of(const struct hotspot_line *lines, size_t count, uint32_t bci);

/* A place in a compiled method's code, with what was going on there (PcDesc). Sorted by code
 * offset; the first and the last are sentinels. */
struct hotspot_place {
	int32_t code_offset;
	int32_t scope; /* in the scopes' stream; 0: none */
};

/* The place of a return address (it has one of its own), or the next one behind what was
 * interrupted: code belongs to the place that it leads to. NULL: none. */
const struct hotspot_place *hotspot_find_place(const struct hotspot_place *places, size_t count,
					       uint32_t code_offset);

/* A method in which the place is: index in the metadata, from 1 on, 0 for none, and bytecode. */
struct hotspot_scope {
	uint32_t method;
	int32_t bci; /* or HOTSPOT_NO_BYTECODE */
};

/* The innermost method first, then those that it was inlined into. How many, at most
 * HOTSPOT_SCOPES_MAX (then the outer ones are missing); or -EBADMSG. */
int hotspot_decode_scopes(const uint8_t *bytes, size_t length, bool excluded, uint32_t scope,
			  struct hotspot_scope scopes[HOTSPOT_SCOPES_MAX]);

/* Is it a name as class files have them (modified UTF-8), not what memory holds after it was freed?
 */
bool hotspot_is_name(const char *name, size_t length);

/* The parameters of a signature, as "(int, String[])", into `text`, cut at `size` - 1 bytes. The
 * length, 0 if it is no signature. */
size_t hotspot_parameters(const char *signature, size_t length, char *text, size_t size);

/* A class's name as in Java's source, of "java/util/Map$Entry": with dots, and without the address
 * that hidden classes have in theirs. */
size_t hotspot_class_name(const char *name, size_t length, char *text, size_t size);

#endif
