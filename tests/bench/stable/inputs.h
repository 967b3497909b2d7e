/* SPDX-License-Identifier: Apache-2.0 */
/* The inputs of the workloads. They are computed, so they are the same on every machine. */
#ifndef TESTS_BENCH_STABLE_INPUTS_H
#define TESTS_BENCH_STABLE_INPUTS_H

#include <stddef.h>
#include <stdint.h>

#include "bpf/shared.h"

enum {
	INPUT_FUNCTIONS = 4096,
	INPUT_IMPORTS = 128, /* imported functions, each with an entry in .plt */
	INPUT_MODULE = 5,    /* the module id of the file */
	INPUT_WALK_FRAMES = 400,
	INPUT_STACK_BYTES = 1 << 17,
	INPUT_NAME_BYTES = 128,
};

struct input_text {
	char *text; /* owned */
	size_t length;
};

/* An ELF file: functions of several shapes with call frame information, symbols in C, C++ and Rust,
 * a procedure linkage table. File offsets are virtual addresses. */
struct input_elf {
	uint8_t *data; /* owned */
	size_t length, eh_frame, eh_frame_length;
	struct input_function {
		uint32_t start, size;
		uint32_t frame_bytes; /* of locals */
		uint8_t shape, pushes;
	} functions[INPUT_FUNCTIONS];
	uint32_t plt;
};

/* The memory and registers of a thread that is this deep in functions of the file, and the frames
 * that the walker should find. */
struct input_stack {
	uint64_t start;
	uint8_t bytes[INPUT_STACK_BYTES];
	struct bh_registers registers;
	uint64_t frames[INPUT_WALK_FRAMES]; /* leaf first */
};

/* Maps a number to another one with well-mixed bits. */
uint32_t input_random(uint32_t i);

/* Writes the linker name of function i. All kinds of names occur in turn. */
void input_name(uint32_t i, char name[INPUT_NAME_BYTES]);

struct input_elf *input_elf_new(void);
struct input_stack *input_stack_new(const struct input_elf *elf);
struct input_text input_kallsyms(uint32_t symbols);
struct input_text input_proc_maps(uint32_t lines);

/* Returns the address of symbol i in kallsyms. */
uint64_t input_kernel_address(uint32_t i);

/* Returns a descriptor of a file in memory with these contents. */
int input_file(const void *data, size_t length);

#endif
