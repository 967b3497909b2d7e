/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of a unit, and the calls that the compiler inlined into them.
 *
 * How this works. A function with code is an entry with the tag DW_TAG_subprogram and addresses. An
 * index of them is built when the unit is first needed. Below a function are blocks and inlined
 * calls. The inlined calls of a function are read when it is first needed, and kept in the order of
 * their entries, with the addresses of their code, and with the index of the next one that is not
 * inside: those that have the address in question lead from the function to the innermost inlined
 * one, and what is in others is passed over. An inlined call has no name, but refers to an entry
 * that has one, and says where the call was.
 *
 * Example: main() calls run() in line 20, and that calls add() in line 9; both were inlined.
 *
 *	DW_TAG_subprogram           main  0x1000 - 0x1080
 *	  DW_TAG_inlined_subroutine run   0x1010 - 0x1060   called in line 20
 *	    DW_TAG_lexical_block          0x1020 - 0x1050
 *	      DW_TAG_inlined_subroutine add 0x1024 - 0x1030 called in line 9
 *
 * main has two inlined calls, run with the index 0 and add with the index 1. For 0x1070, run does
 * not have the address, so that add is passed over, and main remains. For 0x1028, the calls are
 * add, called in line 9; run, called in line 20; and main.
 */
#ifndef PARSE_DWARF_FUNCTIONS_H
#define PARSE_DWARF_FUNCTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "parse/dwarf_name_sources.h"
#include "parse/dwarf_unit.h"

enum {
	/* Functions at one address; beyond it, the outermost are shown. clang inlines chains of
	 * some 30 small functions in C++ with templates. */
	DWARF_CALLS_MAX = 48,
};

#define DWARF_INLINED_UNKNOWN UINT32_MAX

struct dwarf_function {
	uint64_t start, end;
	uint64_t entry; /* in .debug_info */
	/* Its inlined calls, or DWARF_INLINED_UNKNOWN. */
	uint32_t first_inlined, inlined_count;
};

/* Addresses, less the start of the file's code. */
struct dwarf_inlined_range {
	uint32_t start, end;
};

/* Where the code of an inlined call is. A lookup goes through those of a function, so they are
 * apart from the rest. */
struct dwarf_inlined_span {
	struct dwarf_inlined_range code; /* all of its ranges, and what is between them */
	uint32_t after;			 /* index of the next call that is not in it */
};

/* The rest of an inlined call. There may be hundreds of thousands of them. */
struct dwarf_inlined {
	/* From the start of the unit: the entry of the function as it was written, which all calls
	 * of it share, and which may be in another unit before or after this one; or that of the
	 * call, if the other one is in another file, or too far away. */
	int32_t entry;
	uint32_t call_file, call_line; /* 0: unknown */
	uint32_t first_range;	       /* if there is more than one */
	uint16_t range_count;
};

struct dwarf_inlined_calls {
	/* Of each call, with the same index. */
	struct dwarf_inlined *items;
	struct dwarf_inlined_span *spans;
	size_t count, capacity, span_capacity;
	struct dwarf_inlined_range *ranges;
	size_t range_count, range_capacity;
	struct dwarf_function *reading; /* whose calls are at the end; NULL: all were read */
	/* The next entry to read, how deep it is, and how deep the last block or inlined call was
	 * that is not over: children of others are of no interest. */
	uint64_t at;
	uint32_t depth, inside;
	/* The inlined calls that are not over: their indexes, and how deep their entries are. */
	uint32_t open_count;
	struct {
		uint32_t index, depth;
	} open[DWARF_CALLS_MAX];
};

struct dwarf_functions {
	struct dwarf_function *items; /* sorted by start */
	size_t count, capacity;
	uint64_t at; /* the next entry to read; 0: none was read */
	bool complete;
	struct dwarf_name_sources names; /* of the functions, and of those that are inlined */
	struct dwarf_inlined_calls inlined;
};

/* A function at an address. */
struct dwarf_call {
	uint64_t entry;		       /* whose name is that of the function */
	uint64_t call_file, call_line; /* where it was called, if it is inlined; 0 if unknown */
};

struct dwarf_calls {
	unsigned int count; /* at least 1; the innermost inlined function comes first */
	struct dwarf_call items[DWARF_CALLS_MAX];
};

/* Reads entries until all are read or the reader's account is used up, which functions->complete
 * tells. A malformed entry ends the index. Returns 0; -E2BIG: there are too many; or -ENOMEM. */
int dwarf_functions_read(struct dwarf_functions *functions, struct dwarf_reader *reader,
			 const struct dwarf_unit *unit, const struct dwarf_abbrevs *abbrevs);
void dwarf_functions_free(struct dwarf_functions *functions);
size_t dwarf_functions_bytes(const struct dwarf_functions *functions);

/* Gives back the memory of what is inlined into functions, which is read again when needed, and of
 * where names are: they are read from their entries then. */
void dwarf_functions_strip(struct dwarf_functions *functions);

/* Reads what is inlined into the function at an address, unless that was done or there is none, in
 * a complete index. A malformed entry ends it. Returns 0; or -EAGAIN: the reader's account is used
 * up, and the next call for the address goes on. */
int dwarf_functions_read_inlined(struct dwarf_functions *functions, struct dwarf_reader *reader,
				 const struct dwarf_unit *unit, const struct dwarf_abbrevs *abbrevs,
				 uint64_t vaddr);

/* Finds the functions of a unit at an address, of which that was read. `file` has their code.
 * Returns false, with `calls` undefined, if there is none. */
bool dwarf_functions_find(const struct dwarf_functions *functions, const struct dwarf_file *file,
			  const struct dwarf_unit *unit, uint64_t vaddr, struct dwarf_calls *calls);

#endif
