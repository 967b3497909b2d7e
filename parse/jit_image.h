/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ELF image that describes code which a process generated: names, and often debug information.
 * A JIT compiler makes it for debuggers, in the memory of the process, or has its code as a part of
 * it. Pure.
 *
 * Such an image differs from a file in three ways:
 * - It may be an object file (ET_REL), without segments. Its sections are at the addresses of their
 *   headers, where LLVM writes them when it loads the code; or it was mapped as it is, as those of
 *   Wasmtime are, and its headers have no addresses. Symbols are relative to their section.
 * - The debug information of an object file has relocations, which nobody has applied. Without them
 *   it has no addresses, and all its strings are the first one.
 * - It is in the memory of the process, which may change or free it at any moment. So it is copied
 *   before it is used: its tables, without the code, since only they are needed to name an address.
 *
 * The copy is a struct elf_image, from which namers (symbolizer/namer/namer.h) read like from that
 * of a file. Its executable sections are its segments.
 *
 * Relocations: System V ABI, AMD64 supplement, 4.4 (R_X86_64_64, _32, _32S, _PC32), and ELF for the
 * Arm 64-bit Architecture, 5.7.5 (R_AARCH64_ABS64, _ABS32, _PREL32).
 *
 * Example: LLVM compiles a module with one function, "evalexpr_0_1", to 300 bytes at
 * 0x7f36bd882000. Its image has 4,880 bytes: .text with that address, .symtab, in which the
 * function has the value 0 of section .text, and .debug_info, whose relocation 0 says that the unit
 * starts at .text + 0. The copy has 3,600 bytes, and the address 0x7f36bd882010 is in
 * "evalexpr_0_1".
 */
#ifndef PARSE_JIT_IMAGE_H
#define PARSE_JIT_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "parse/elf_image.h"

enum {
	JIT_IMAGE_HEADER_BYTES = 64,
};

struct jit_image {
	struct elf_image elf;	  /* its source is the copy */
	struct elf_buffer buffer; /* owned */
	uint64_t base;
};

/* Addresses of code, [start, end). */
struct jit_image_code {
	uint64_t start, end;
	/* Where the image has an address of it, 8 bytes, so that somebody who knows the image can
	 * tell by a single read whether it still describes this code. 0: nowhere. */
	uint64_t address_at, address;
};

/* Finds where the code is that an image describes, gaps included, with two reads. `base` is where
 * the image is if its code is a part of it, and otherwise 0. Returns 0; -ENOENT: there is none;
 * -ENOEXEC: it is no such image; -ENOMEM; or an error of the source. */
int jit_image_find_code(const struct elf_source *source, uint64_t base,
			struct jit_image_code *code);

/* Returns the size of an image that is mapped with its code, by its header: Wasmtime has the
 * headers of sections at the end. 0: it is no such image. */
uint64_t jit_image_size(const uint8_t header[static JIT_IMAGE_HEADER_BYTES]);

/* Copies the tables of an image, at most `cap` bytes, and applies their relocations. Returns 0;
 * -ENOENT: it describes no code; -EFBIG: there is more than that; or an error of elf_image_init().
 * After success the caller frees it, and must not move it until then. */
int jit_image_init(struct jit_image *image, const struct elf_source *source, uint64_t base,
		   size_t cap);
void jit_image_fini(struct jit_image *image);

/* Returns the memory that it takes, in bytes. */
size_t jit_image_bytes(const struct jit_image *image);

/* Returns whether the image of `source` is still the one that was copied: the headers of its
 * sections, and the names of its symbols. */
bool jit_image_is_same(const struct jit_image *image, const struct elf_source *source);

/* Finds the name of the function with an address: the nearest symbol at or below it in its
 * section, if the address is inside of its size, or it has none. Returns NULL if there is none. The
 * name lives as long as the image. */
const char *jit_image_find_name(const struct jit_image *image, uint64_t address);

#endif
