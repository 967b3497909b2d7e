/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the builtins of V8 in a file that need not have symbols.
 *
 * How this works. V8 writes its builtins (the interpreter, and functions such as Array.map) into
 * the program as one block of code, and next to its data a table that says where in the block each
 * builtin is. Both have only local symbols, which `strip` removes. They are found by their form:
 *
 * - The table begins after three hashes of 8 bytes. Builtin 0 is at offset 0 of the block, and each
 *   further one where the previous one ends, rounded up to 64 bytes with at least one byte of
 *   padding. No other data of two thousand entries obeys this rule.
 * - The block starts at a page, because V8 maps it a second time near the code that it compiles. It
 *   is where all bytes between two builtins are int3 instructions (0xcc).
 * - InterpreterEntryTrampoline, which makes the frame of an interpreted function, is the first
 *   builtin with its instructions. The handlers of bytecodes are the last builtins.
 * - The table with the sizes of bytecodes has three rows, which begin with the sizes of the first
 *   bytecodes (Wide, ExtraWide, three of DebugBreak, ...) for operands of one, two and four bytes.
 *
 * Example (Debian's libnode.so.137, V8 13.6): the words 0, 1016, 0; 1024, 1020, 0; 2048, 2860, 0
 * are at 0x40d8060, and go on for 2,384 entries. So the block has 2,116,992 bytes, and it is at
 * 0x9bb000: there bytes 1016 to 1023 are int3, byte 2044 to 2047, and so on.
 *
 * Sources: EmbeddedData in src/snapshot/embedded/embedded-data.h and .cc (LayoutDescription,
 * PadAndAlignCode) and Bytecodes::kBytecodeSizes in src/interpreter/bytecodes.cc of V8 11.3 to
 * 14.6. Pure: bytes come through an elf_source, and may be forged or change at any moment.
 */
#ifndef PARSE_V8_BUILTINS_H
#define PARSE_V8_BUILTINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "parse/elf_image.h"

enum {
	/* V8 11.3 to 14.6 have 2,182 to 2,415 builtins with 1.6 to 2.2 MiB of code. */
	V8_BUILTINS_LEAST = 1000,
	V8_BUILTINS_MAX = 4096,
	V8_BUILTINS_CODE_BYTES_MAX = 8 << 20,
	/* Words of 4 bytes in an entry of the table of builtins. */
	V8_BUILTINS_ENTRY_WORDS_MAX = 8,
	/* InterpreterEntryTrampoline has 876, 876, 524 and 564 bytes in V8 11.3, 12.4, 13.6 and
	 * 14.6. */
	V8_ENTRY_BYTES_MAX = 4096,
	/* Bytes that each search covers: for the table, the code, the sizes, and for names
	 * (v8_names.h). Official builds and Debian's need up to 22 MiB. The first three take at
	 * most some 80 ms together, unless the disk is slow. */
	V8_SEARCH_BYTES_MAX = 64 << 20,
	/* The scales of the operands of bytecodes: one, two and four bytes. */
	V8_BYTECODE_SCALES = 3,
};

/* What the table of builtins looks like, which depends on the version of V8 alone. */
struct v8_builtins_form {
	unsigned int entry_words; /* words of 4 bytes in an entry */
	unsigned int handlers;	  /* the last builtins are this many handlers of bytecodes */
};

/* The table of builtins, in the order of V8's ids, which is that of the code. */
struct v8_builtins_table {
	unsigned int entry_words; /* words of 4 bytes in an entry */
	unsigned int count;
	uint32_t code_bytes;
	struct v8_builtin {
		uint32_t offset, bytes; /* in the block of code */
	} builtins[V8_BUILTINS_MAX];
};

/* Where builtins are, as virtual addresses in the file. */
struct v8_builtins {
	uint64_t start, end;	   /* of all */
	uint64_t entry, entry_end; /* of InterpreterEntryTrampoline */
	uint64_t handlers;	   /* the start of the handlers of bytecodes, up to `end` */
};

/* Where InterpreterEntryTrampoline makes and removes the frame of a function: offsets in it. */
struct v8_entry {
	uint16_t push;	  /* the instruction that pushes rbp */
	uint16_t call;	  /* the call of the first handler */
	uint16_t leave;	  /* the instruction "leave" */
	uint16_t removed; /* "push rcx" after it; before that, the arguments are removed: */
	uint16_t shift;	  /* rbx << shift bytes */
};

/* Finds the table with `table->entry_words`, and the block of code that obeys it, which starts at
 * the virtual address `*start`. Returns 0; -ENOENT if the file has none; -ENOMEM; or the source's
 * error. */
int v8_builtins_find_table(struct v8_builtins_table *table, const struct elf_image *image,
			   uint64_t *start);

/* Finds the builtins. Returns 0; -ENOENT if the file has none of this form; -ENOMEM; or the
 * source's error. */
int v8_builtins_find(struct v8_builtins *builtins, const struct elf_image *image,
		     const struct v8_builtins_form *form);

/* Examines the code of a builtin. Returns whether it is InterpreterEntryTrampoline. */
bool v8_entry_examine(struct v8_entry *entry, const uint8_t *code, size_t length);

/* Finds the sizes of bytecodes, of which this version of V8 has `count`: `count` bytes for each
 * scale, at a virtual address. Returns 0, or an error as above. */
int v8_bytecode_sizes_find(uint64_t *vaddr, const struct elf_image *image, unsigned int count);

#endif
