/* SPDX-License-Identifier: Apache-2.0 */
/* The line of a call in Perl, from ops in this process that are laid out as those of Perl. */
#include <criterion/criterion.h>
#include <fcntl.h>

#include "symbolizer/runtime/perl_line.h"

enum {
	READS = 2048,
	BYTES = 1 << 20,
	NEXTSTATE = 195,
	SCOPE = NEXTSTATE + 5,
	OTHER = 100,
	HAS_OPS = 4 << 16,
	HAS_SIBLING = 1 << 14,
};

struct op {
	struct op *next, *sibling;
	uint64_t unused, target, bits;
	struct op *first;
};

/*
 * 4  if ($on) {
 * 5      run(); }
 */
static struct op statement, condition, block, was_statement, call, after, elsewhere;
static const struct perl_offsets offsets = {.op_nextstate = NEXTSTATE, .op_dbstate = NEXTSTATE + 1};
static struct memory memory;

static uint64_t at(const struct op *op)
{
	return (uint64_t)(uintptr_t)op;
}

/* Makes an op, which has others from `first` on, and is followed by `sibling`. */
static void make(struct op *op, uint32_t type, uint32_t line, struct op *first, struct op *sibling)
{
	*op = (struct op){.sibling = sibling,
			  .bits = type | (sibling ? HAS_SIBLING : 0) | (first ? HAS_OPS : 0) |
				  (uint64_t)line << 32,
			  .first = first};
}

static void setup(void)
{
	static struct op whole;

	memory = (struct memory){.fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC)};
	cr_assert_geq(memory.fd, 0);
	memory_allow(&memory, READS, BYTES);
	make(&statement, NEXTSTATE, 4, NULL, &whole);
	make(&whole, OTHER, 0, &condition, &elsewhere);
	make(&condition, OTHER, 0, NULL, &block);
	make(&block, SCOPE, 0, &was_statement, NULL);
	make(&was_statement, 0, 5, NULL, &call);
	was_statement.target = NEXTSTATE;
	make(&call, OTHER, 0, NULL, NULL);
	call.next = &after;
	make(&after, NEXTSTATE, 7, NULL, NULL);
	make(&elsewhere, OTHER, 0, NULL, NULL);
}

TestSuite(perl_line, .init = setup);

static uint32_t find(const struct op *next)
{
	return perl_line_of_call(&offsets, &memory, at(&condition),
				 perl_place(at(&condition), at(&statement), at(next)), 4);
}

Test(perl_line, a_former_statement_has_the_line)
{
	cr_expect_eq(find(&after), 5);
}

Test(perl_line, a_scope_is_no_call)
{
	/* It goes on where the last op in it does. */
	block.next = &after;
	cr_expect_eq(find(&after), 5);
}

Test(perl_line, what_is_not_in_a_block_is_in_the_line_of_the_statement)
{
	condition.next = &block;
	cr_expect_eq(find(&block), 4);
}

Test(perl_line, other_statements_are_not_searched)
{
	elsewhere.next = &was_statement;
	cr_expect_eq(find(&was_statement), 4, "it is not found");
}

Test(perl_line, an_op_that_is_not_known_leads_to_the_line_of_the_statement)
{
	cr_expect_eq(find(NULL), 4);
	cr_expect_eq(perl_place(at(&condition), at(&statement), at(&after) + (1ull << 35)), 0,
		     "it is too far away");
}

/* The memory of code that was freed. */
Test(perl_line, anything_else_in_the_place_of_the_statement_is_not_followed)
{
	statement.bits += 1ull << 32;
	cr_expect_eq(find(&after), 4, "another line");
	statement.bits -= 1ull << 32;
	statement.bits++;
	cr_expect_eq(find(&after), 5, "a statement of a debugger");
	statement.bits++;
	cr_expect_eq(find(&after), 4, "no statement");
}

Test(perl_line, forged_circles_end)
{
	make(&was_statement, OTHER, 0, NULL, &was_statement);
	cr_expect_eq(find(&after), 4);
	cr_expect_eq(memory.reads_left, 0);
	memory_allow(&memory, READS, BYTES);
	make(&was_statement, OTHER, 0, &was_statement, NULL);
	cr_expect_eq(find(&after), 4);
	cr_expect_gt(memory.reads_left, 0, "they are too deep");
}

Test(perl_line, ops_that_cannot_be_read_lead_to_the_line_of_the_statement)
{
	block.first = (struct op *)8;
	cr_expect_eq(find(&after), 4);
}
