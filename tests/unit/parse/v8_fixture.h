/* SPDX-License-Identifier: Apache-2.0 */
/* A small file with V8's builtins, that the tests of v8_builtins.h read and change. */
#ifndef TESTS_V8_FIXTURE_H
#define TESTS_V8_FIXTURE_H

#include <elf.h>
#include <stdint.h>

#include "parse/v8_builtins.h"

/* The file has data and then code. Neither segment starts at a multiple of what is searched. */
enum {
	BUILTINS = 1100,
	HANDLERS = 300,
	ENTRY = 11,	 /* InterpreterEntryTrampoline */
	SECOND = 40,	 /* another builtin with its instructions */
	COMPARED = 8,	 /* as in v8_builtins.c */
	CANDIDATES = 16, /* as in v8_builtins.c */
	HASHES_BYTES = 24,
	PAGE = 4096,
	INT3 = 0xcc,
	OTHER_CODE = 0x90,
	BYTECODES = 208,

	DATA_VADDR = 0x400104,
	SIZES_AT = 0x20c,
	TABLE_AT = 0xfffc, /* its first entries are in two buffers of an elf_window */
	TABLE_VADDR = DATA_VADDR + TABLE_AT,
	DATA_BYTES = 0x20000,

	TEXT_VADDR = 0x800f40,
	BLOCK_AT = 0x120c0,
	BLOCK_VADDR = TEXT_VADDR + BLOCK_AT,
	BLOCK_ROOM = 0x28000,
	TEXT_BYTES = BLOCK_AT + 2 * BLOCK_ROOM + 0x123,
};
_Static_assert(TABLE_VADDR % 8 == 0 && (DATA_VADDR + SIZES_AT) % 16 == 0, "as compilers align");
_Static_assert(BLOCK_VADDR % PAGE == 0 && BLOCK_ROOM % PAGE == 0, "as V8 aligns it");

struct v8_file {
	Elf64_Ehdr header;
	Elf64_Phdr data_segment, text_segment;
	uint8_t data[DATA_BYTES], text[TEXT_BYTES];
};

/* What a file is made of. A test changes `bytes`, and puts the table and the code again. */
struct v8_fixture {
	struct v8_file *file;
	unsigned int entry_words;
	uint32_t bytes[BUILTINS];	/* of each builtin */
	uint32_t offsets[BUILTINS + 1]; /* of each builtin in the block, and of its end */
};

/* What is examined of InterpreterEntryTrampoline until V8 12.4, and after it. */
extern const uint8_t v8_entry_code[20], v8_entry_slots_code[17];

/* Makes a file with valid builtins, whose table has entries of `entry_words` words. */
void v8_fixture_init(struct v8_fixture *fixture, unsigned int entry_words);
void v8_fixture_fini(struct v8_fixture *fixture);

/* Writes the table and the code of builtins with the sizes in `bytes`. */
void v8_fixture_put(struct v8_fixture *fixture);

/* Writes a table of the first builtins, after its hashes. */
void v8_fixture_put_table(const struct v8_fixture *fixture, uint8_t *at, unsigned int count);

/* Writes the block of code. */
void v8_fixture_put_code(const struct v8_fixture *fixture, uint8_t *at);

/* Writes the sizes of the first bytecodes for each scale. */
void v8_fixture_put_sizes(uint8_t *at, unsigned int bytecodes);

/* A source that counts, and that fails after some reads. */
struct v8_counted {
	struct elf_buffer buffer;
	uint64_t reads, bytes;
	uint64_t good; /* reads that succeed */
	int error;     /* of the further ones */
};

/* Returns a source of the file that has counted nothing yet, and whose reads all succeed. */
struct v8_counted v8_counted_init(const struct v8_fixture *fixture);
int v8_read_counted(void *context, uint64_t offset, void *buffer, size_t length);

/* Opens a file. Reads are counted from now on. */
void v8_open_image(struct elf_image *image, const struct v8_fixture *fixture,
		   struct v8_counted *counted);

/* Call the functions of v8_builtins.h with a source that counts, and return what they return. */
int v8_find_counted(const struct v8_fixture *fixture, unsigned int handlers,
		    struct v8_counted *counted, struct v8_builtins *builtins);
int v8_find_sizes(const struct v8_fixture *fixture, unsigned int count, struct v8_counted *counted,
		  uint64_t *vaddr);

int v8_find(const struct v8_fixture *fixture, struct v8_builtins *builtins);

/* Checks what is found if the block with `count` builtins is at `start`. */
void v8_check_found(const struct v8_fixture *fixture, uint64_t start, unsigned int count);

void v8_check_not_found(const struct v8_fixture *fixture, const char *why);

/* Returns the entry of a builtin in the table. */
uint8_t *v8_table_entry(const struct v8_fixture *fixture, unsigned int index);

/* Makes a builtin larger, in the table only, and moves those after it. */
void v8_enlarge(struct v8_fixture *fixture, unsigned int index, uint32_t more);

#endif
