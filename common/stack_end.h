/* SPDX-License-Identifier: Apache-2.0 */
/* The outermost function of a stack that a role has made itself. */
#ifndef COMMON_STACK_END_H
#define COMMON_STACK_END_H

/* Says in the call frame information that the function which calls this has no caller (DWARF 5,
 * 6.4.1: the return address is undefined). Otherwise profilers and debuggers would follow what
 * makecontext(3) has left in its place, which is no return address of a call. */
static inline __attribute__((always_inline)) void stack_ends_here(void)
{
#ifdef __x86_64__
	__asm__ volatile(".cfi_undefined rip");
#endif
}

#endif
