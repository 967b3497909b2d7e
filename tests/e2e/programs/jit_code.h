/* SPDX-License-Identifier: Apache-2.0 */
/* Generated code of the programs that name it: three functions that call each other, each in
 * FUNCTION_BYTES. Needs chain.h. */
#ifndef JIT_CODE_H
#define JIT_CODE_H

#include <stdint.h>
#include <sys/mman.h>

#include "chain.h"

enum {
	FUNCTION_BYTES = 64,
	CODE_BYTES = 4096,
	/* Where the instructions start that samples are in: of a caller its call, of the leaf its loop. */
	INSIDE_OFFSET = 4,
	/* Those after them. */
	CALLER_REST_OFFSET = 9,
	LEAF_REST_OFFSET = 11,
};

/* A caller: push %rbp; mov %rsp, %rbp; call the next function; pop %rbp; ret. */
static const unsigned char caller[] = {0x55, 0x48, 0x89, 0xe5, 0xe8, FUNCTION_BYTES - 9,
				       0,    0,	   0,	 0x5d, 0xc3};

/* The leaf: push %rbp; mov %rsp, %rbp; again: pause; cmpl $0, (%rdi); je again; pop %rbp; ret. */
static const unsigned char leaf[] = {0x55, 0x48, 0x89, 0xe5, 0xf3, 0x90, 0x83,
				     0x3f, 0x00, 0x74, 0xf9, 0x5d, 0xc3};

static volatile int stop;

/* Makes the code in memory that belongs to no file. */
static inline unsigned char *make_code(void)
{
	unsigned char *code = mmap(NULL, CODE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memcpy(code, caller, sizeof(caller));
	memcpy(code + FUNCTION_BYTES, caller, sizeof(caller));
	memcpy(code + 2 * FUNCTION_BYTES, leaf, sizeof(leaf));
	mprotect(code, CODE_BYTES, PROT_READ | PROT_EXEC);
	return code;
}

/* Makes the loop of the leaf end after a while. */
static inline void start_timer(long ms)
{
	if (fork())
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	usleep((unsigned)ms * 1000);
	kill(getppid(), SIGUSR1);
	_exit(0);
}

static void on_signal(int signal)
{
	(void)signal;
	stop = 1;
}

/* Runs the code: for these many ms, or until SIGUSR1. */
KEEP void enters(const unsigned char *code, long ms)
{
	signal(SIGUSR1, on_signal);
	if (ms)
		start_timer(ms);
	((void (*)(volatile int *))(uintptr_t)code)(&stop);
	stop = 0;
}

#endif
