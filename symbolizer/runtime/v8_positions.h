/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes V8's tables of source positions, the mapping from baseline code to bytecodes, and the
 * ends of lines. Pure: it reads bytes that were copied before, which may hold anything.
 */
#ifndef SYMBOLIZER_RUNTIME_V8_POSITIONS_H
#define SYMBOLIZER_RUNTIME_V8_POSITIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A position in the source: the offset of a character in the script, and the inlined function it
 * is in. */
struct v8_position {
	int32_t offset;	     /* -1: unknown */
	int32_t inlining_id; /* index in the table of inlined functions; -1: not inlined */
};

/* Unpacks a SourcePosition (src/codegen/source-position.h). */
struct v8_position v8_position_unpack(uint64_t packed);

/* A table of source positions. `offset_shift` is 1 if the lowest bit of an offset in it says
 * whether a debugger may stop there (V8 14), and 0 otherwise. */
struct v8_position_table {
	const uint8_t *bytes;
	size_t length;
	unsigned int offset_shift;
};

/* Returns the source position of an offset in code or bytecode. */
struct v8_position v8_position_find(const struct v8_position_table *table, uint32_t offset);

/* What the table of baseline code refers to. `sizes` has 3 * `count` sizes of bytecodes. */
struct v8_bytecodes {
	const uint8_t *bytes;
	size_t length;
	const uint8_t *sizes;
	unsigned int count;
};

/* Returns the offset of the bytecode from which the instruction at `offset` of baseline code was
 * made, or -1. */
int32_t v8_position_baseline(const uint8_t *table, size_t length, uint32_t offset,
			     const struct v8_bytecodes *bytecodes);

/* Returns the line, from 0 on, of the character at `offset`. `ends` are the offsets of the last
 * character of each line, in ascending order. */
uint32_t v8_position_line(const uint32_t *ends, size_t count, uint32_t offset);

#endif
