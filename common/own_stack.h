/* SPDX-License-Identifier: Apache-2.0 */
/* What stacks have in common that a role makes itself, for work that is left in the middle
 * (slices.h, role/process_work.h). */
#ifndef COMMON_OWN_STACK_H
#define COMMON_OWN_STACK_H

#include <stddef.h>
#include <sys/mman.h>

enum {
	/* Below a stack, which grows down, and never accessible. */
	OWN_STACK_GUARD_BYTES = 4096,
};

/* Maps `bytes` of memory for a struct that begins with the guard of a stack and the stack. Returns
 * NULL if there is no memory. The caller unmaps it. */
static inline void *own_stack_map(size_t bytes)
{
	void *stack = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (stack == MAP_FAILED)
		return NULL;
	mmap(stack, OWN_STACK_GUARD_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
	     0);
	return stack;
}

/* Says in the call frame information that the function which calls this has no caller (DWARF 5,
 * 6.4.1: the return address is undefined). Otherwise profilers and debuggers would follow what
 * makecontext(3) has left in its place, which is no return address of a call. */
static inline __attribute__((always_inline)) void own_stack_ends_here(void)
{
#ifdef __x86_64__
	__asm__ volatile(".cfi_undefined rip");
#endif
}

#endif
