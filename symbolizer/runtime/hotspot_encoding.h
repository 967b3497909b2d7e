/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes HotSpot's formats from bytes that were read: compressed numbers, line tables, scopes of
 * inlined methods, names and signatures. The bytes may be anything. The functions are pure. */
#ifndef SYMBOLIZER_RUNTIME_HOTSPOT_ENCODING_H
#define SYMBOLIZER_RUNTIME_HOTSPOT_ENCODING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	/* From JDK 20 on UNSIGNED5 never writes a byte of 0: every byte is one more than before
	 * (src/hotspot/share/utilities/unsigned5.hpp). */
	HOTSPOT_ZERO_EXCLUDED_SINCE = 20,
	/* InvocationEntryBci (enum MethodCompilation): before the method's first bytecode. */
	HOTSPOT_NO_BYTECODE = -1,
	/* Methods that are inlined into each other at one place. MaxInlineLevel is 9 to 15, but
	 * Graal and flags allow more. */
	HOTSPOT_SCOPES_MAX = 64,
};

/* Compressed numbers. */
struct hotspot_stream {
	const uint8_t *bytes;
	size_t length, at;
	bool zero_excluded; /* since JDK 20 */
	bool failed;	    /* a number was cut off by the end; every later one is 0 */
};

/* Returns the next number; 0, with `failed` set, if it is cut off. */
uint32_t hotspot_unsigned5(struct hotspot_stream *stream);

/* An entry of a method's line table (CompressedLineNumberReadStream): from this bytecode index on,
 * this line. Entries are in no order. */
struct hotspot_line {
	uint32_t bci, line;
};

/* Reads the next entry. `entry` must hold the one before it, {0, 0} at first, because entries are
 * differences. Returns false at the end of the table, or if the stream fails. */
bool hotspot_next_line(struct hotspot_stream *stream, struct hotspot_line *entry);

/* Returns the line of bytecode `bci`: that of the entry with the greatest index up to it, of
 * several the last one. Returns 0 if there is none. */
uint32_t hotspot_line_of(const struct hotspot_line *lines, size_t count, uint32_t bci);

/* HotSpot's PcDesc: at this offset in a compiled method's code, this scope is being executed. They
 * are sorted by offset; the first and the last one are sentinels. */
struct hotspot_pc_desc {
	int32_t code_offset;
	int32_t scope; /* offset of the innermost scope in the scopes' bytes; 0: none */
};

/* Returns the PcDesc of a return address, or the first one after an interrupted pc: the VM
 * describes the places at which it can stop, and code belongs to the next one. If there is none
 * after it, returns the last one before it; NULL if there is none at all. */
const struct hotspot_pc_desc *hotspot_find_pc_desc(const struct hotspot_pc_desc *descs,
						   size_t count, uint32_t code_offset);

/* A scope (ScopeDesc): a method, and where in it. */
struct hotspot_scope {
	uint32_t method; /* index in the nmethod's metadata, starting at 1; 0: none */
	int32_t bci;	 /* bytecode index, or HOTSPOT_NO_BYTECODE */
};

/* Decodes the scope at offset `scope` and its callers: the innermost method first, then those into
 * which it was inlined. Returns their number, at most HOTSPOT_SCOPES_MAX (the outer ones are left
 * out), or -EBADMSG. */
int hotspot_decode_scopes(const uint8_t *bytes, size_t length, bool zero_excluded, uint32_t scope,
			  struct hotspot_scope scopes[HOTSPOT_SCOPES_MAX]);

/* Returns whether the text is a name in modified UTF-8 (JVMS 4.4.7) without control characters.
 * Memory that was freed and reused rarely is. A name that was cut inside a character passes. */
bool hotspot_is_name(const char *name, size_t length);

/* Writes the parameters of a method signature as "(int, String[])", cut at `size` - 1 bytes and
 * NUL-terminated. Returns the length, 0 if it is no signature. */
size_t hotspot_parameters(const char *signature, size_t length, char *text, size_t size);

/* Writes the name of a class as in Java's source, java.util.Map$Entry for "java/util/Map$Entry",
 * without the address or number that the name of a hidden class ends in. Cut at `size` - 1 bytes
 * and NUL-terminated. Returns the length. */
size_t hotspot_class_name(const char *name, size_t length, char *text, size_t size);

#endif
