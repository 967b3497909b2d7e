/* SPDX-License-Identifier: Apache-2.0 */
/* The object files of jit_image_code.c as parts of the program that includes this header (once), and
 * the interface of GDB for JIT compilers. */
#ifndef JIT_IMAGE_OBJECT_H
#define JIT_IMAGE_OBJECT_H

#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* JIT_IMAGE_OBJECT and JIT_IMAGE_NEXT_OBJECT are their paths. */
__asm__(".pushsection .rodata\n"
	".balign 8\njit_object: .incbin \"" JIT_IMAGE_OBJECT "\"\njit_object_end:\n"
	".balign 8\njit_next: .incbin \"" JIT_IMAGE_NEXT_OBJECT "\"\njit_next_end:\n"
	".popsection\n");
extern const char jit_object[], jit_object_end[], jit_next[], jit_next_end[];

/* "JIT Compilation Interface" in the GDB manual. */
struct jit_code_entry {
	struct jit_code_entry *next_entry, *prev_entry;
	const char *symfile_addr;
	uint64_t symfile_size;
};

struct jit_descriptor {
	uint32_t version, action_flag;
	struct jit_code_entry *relevant_entry, *first_entry;
};

extern struct jit_descriptor __jit_debug_descriptor;
struct jit_descriptor __jit_debug_descriptor = {.version = 1};

void __jit_debug_register_code(void);
__attribute__((noinline)) void __jit_debug_register_code(void)
{
	__asm__ volatile("");
}

/* Returns the header of the section with the code. */
static inline Elf64_Shdr *jit_text(char *object)
{
	const Elf64_Ehdr *elf = (const Elf64_Ehdr *)object;
	Elf64_Shdr *sections = (Elf64_Shdr *)(object + elf->e_shoff);
	unsigned int i = 0;

	while (i + 1 < elf->e_shnum && !(sections[i].sh_flags & SHF_EXECINSTR && sections[i].sh_size))
		i++;
	return &sections[i];
}

/* Returns where the outermost function is in the code: the only one that is global. */
static inline uint64_t jit_entry_offset(const char *object)
{
	const Elf64_Ehdr *elf = (const Elf64_Ehdr *)object;
	const Elf64_Shdr *sections = (const Elf64_Shdr *)(object + elf->e_shoff);

	for (unsigned int i = 0; i < elf->e_shnum; i++) {
		const Elf64_Sym *symbols = (const Elf64_Sym *)(object + sections[i].sh_offset);

		for (size_t j = 0; sections[i].sh_type == SHT_SYMTAB && j < sections[i].sh_size / sizeof(*symbols); j++) {
			if (symbols[j].st_info == ELF64_ST_INFO(STB_GLOBAL, STT_FUNC))
				return symbols[j].st_value;
		}
	}
	abort();
}

/* Copies an object file, and sets the address of its code. */
static inline char *jit_copy(const char *object, const char *end, const void *code)
{
	char *copy = malloc((size_t)(end - object));

	memcpy(copy, object, (size_t)(end - object));
	jit_text(copy)->sh_addr = (uint64_t)(uintptr_t)code;
	return copy;
}

#endif
