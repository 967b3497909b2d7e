/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A system call that does not touch errno. For threads that share their thread-local storage
 * (role/process_work.h), of which errno is a part.
 */
#ifndef COMMON_RAW_SYSCALL_H
#define COMMON_RAW_SYSCALL_H

/* Makes the system call `number`, with six arguments. Returns its result, or a negative errno. The
 * registers are those of Linux, see syscall(2). */
static inline long raw_syscall(long number, const long arguments[static 6])
{
#if defined(__x86_64__)
	register long fourth __asm__("r10") = arguments[3];
	register long fifth __asm__("r8") = arguments[4];
	register long sixth __asm__("r9") = arguments[5];
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(arguments[0]), "S"(arguments[1]), "d"(arguments[2]),
			   "r"(fourth), "r"(fifth), "r"(sixth)
			 : "rcx", "r11", "memory");
	return result;
#elif defined(__aarch64__)
	register long call __asm__("x8") = number;
	register long first __asm__("x0") = arguments[0];
	register long second __asm__("x1") = arguments[1];
	register long third __asm__("x2") = arguments[2];
	register long fourth __asm__("x3") = arguments[3];
	register long fifth __asm__("x4") = arguments[4];
	register long sixth __asm__("x5") = arguments[5];

	__asm__ volatile("svc #0"
			 : "+r"(first)
			 : "r"(call), "r"(second), "r"(third), "r"(fourth), "r"(fifth), "r"(sixth)
			 : "memory");
	return first;
#else
#error "the registers of system calls on this architecture are not known"
#endif
}

/* Makes a system call with up to six arguments, numbers or pointers. */
#define RAW_SYSCALL(number, ...) raw_syscall(number, (const long[6]){__VA_ARGS__})

#endif
