/* SPDX-License-Identifier: Apache-2.0 */
/* Builds sections of call frame information by hand, parses them, and checks the rows. */
#ifndef TESTS_CFI_FIXTURE_H
#define TESTS_CFI_FIXTURE_H

#include <criterion/criterion.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/cleanup.h"
#include "parse/cfi.h"
#include "tests/support/cfi_rules.h"

enum {
	VADDR = 0x10000,
	CODE = 0x40000,
	CODE_SIZE = 0x1000
};

struct bytes {
	uint8_t data[8192];
	size_t length;
};

struct code {
	const uint8_t *bytes;
	size_t length;
};
#define CODE(...)                                                                                  \
	((struct code){(const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})})
#define NONE ((struct code){NULL, 0})

/* The program that nearly every CIE on x86-64 has: CFA = rsp + 8, return address at CFA - 8. */
#define USUAL CODE(0x0c, 7, 8, 0x90, 1)

enum {
	FDES_MAX = 8,
	ROWS_MAX = 64
};

struct result {
	int rc;
	struct cfi_stats stats;
	uint64_t unknown_rows; /* with CFI_CFA_UNKNOWN */
	struct {
		uint64_t start, end;
		unsigned int row_count;
		uint64_t starts[ROWS_MAX];
		struct cfi_rule rules[ROWS_MAX];
	} fdes[FDES_MAX];
	unsigned int count;
	struct cfi_rules rule_ids;
};

/* The bytes of a section in memory, and the size of the window over them (0: the usual one). */
struct input {
	struct elf_buffer buffer;
	struct elf_source source;
	struct elf_window window;
};

/* A budget that is never used up. */
extern const struct cfi_budget plenty;

extern const struct cfi_section usual_section;

/* The rule of the usual CIE, with the fields that differ. Later initialisers override it. */
#pragma GCC diagnostic ignored "-Woverride-init"
#define RULE(...)                                                                                  \
	((struct cfi_rule){.cfa_kind = CFI_CFA_REGISTER,                                           \
			   .cfa_register = 7,                                                      \
			   .cfa_offset = 8,                                                        \
			   .ra_kind = CFI_SAVE_CFA,                                                \
			   .ra_offset = -8,                                                        \
			   __VA_ARGS__})

void put(struct bytes *b, const void *from, size_t length);
void put_int(struct bytes *b, uint64_t value, size_t size);
size_t entry_start(struct bytes *b);
void entry_end(struct bytes *b, size_t at_body);
/* Appends a CIE of version 1 and returns its offset. `data` is the augmentation data with its
 * length. */
size_t put_cie(struct bytes *b, const char *augmentation, struct code data, struct code code);

size_t put_usual_cie(struct bytes *b);
size_t fde_start(struct bytes *b, size_t cie);
/* Appends an FDE for a CIE with pcrel sdata4 and 'z'. */
void put_fde(struct bytes *b, size_t cie, uint64_t start, uint32_t size, struct code code);

int collect_rule(void *context, const struct cfi_rule *rule, uint32_t *id);
int collect(void *context, const struct cfi_fde *fde);
struct elf_window *input_window(struct input *input, const void *data, size_t length, size_t step);
/* Parses the bytes; all fields of `section` but the window are set. */
struct result parse_with(const struct bytes *b, struct cfi_section section,
			 const struct cfi_budget *budget, size_t step);

struct result parse(const struct bytes *b);
struct result parse_debug(const struct bytes *b);
/* Parses one FDE with this program and the usual CIE. */
struct result run(struct code code);

void check_row(const struct result *r, unsigned int i, uint64_t start, struct cfi_rule want);
/* Checks that the program makes its FDE invalid, and no other. */
void check_bad(struct code code);

/* Checks that the program makes one row, at the start of the function. */
#define CHECK_ONE(code, ...)                                                                       \
	do {                                                                                       \
		struct result r_ = run(code);                                                      \
		check_row(&r_, 0, CODE, RULE(__VA_ARGS__));                                        \
		cr_assert_eq(r_.fdes[0].row_count, 1);                                             \
	} while (0)

#endif
