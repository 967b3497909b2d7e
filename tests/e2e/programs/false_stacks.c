/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that use CPU time while their stack pointer or frame pointer points to what is no stack. Each is
 * named after what its stack is:
 *
 *	unmapped	memory that does not exist any more
 *	prot_none	memory that may not be read
 *	noncanonical	an address that no memory can have
 *	kernel		memory of the kernel
 *	wraps		the last bytes of the address space
 *	endless		8 MiB of return addresses
 *	itself		a frame pointer that points to itself
 *	cycle		two frame pointers that point to each other
 *	descends	frame pointers that point to lower and lower frames
 *
 * The first six are in a function whose call frame information says that the return address is at the
 * stack pointer. The code of the last three is in memory without a file, where frame pointers are followed.
 */
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "attack.h"

enum {
	STACK_BYTES = 8 << 20,
	NICE = 10, /* nine threads shall leave CPU time for others */
};

/* spin_on(stack pointer, frame pointer): never returns. */
void spin_on(uintptr_t stack, uintptr_t frame);
extern const char spin_on_end[], endless_return[];

__asm__(".pushsection .text\n"
	".globl spin_on, spin_on_end, endless_return\n"
	".type spin_on, @function\n"
	"spin_on:\n"
	".cfi_startproc\n"
	"	mov %rdi, %rsp\n"
	"	mov %rsi, %rbp\n"
	"1:	add $1, %rcx\n"
	"endless_return:\n"
	"	jmp 1b\n"
	".cfi_endproc\n"
	"spin_on_end:\n"
	".size spin_on, . - spin_on\n"
	".popsection\n");

struct attack {
	const char *name;
	void (*spin)(uintptr_t stack, uintptr_t frame);
	uintptr_t stack, frame;
};

static uintptr_t map(int protection)
{
	void *memory = mmap(NULL, STACK_BYTES, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		attack_fail("stack");
	return (uintptr_t)memory;
}

static uintptr_t map_unmapped(void)
{
	const uintptr_t stack = map(PROT_READ | PROT_WRITE);

	munmap((void *)stack, STACK_BYTES);
	return stack + STACK_BYTES / 2;
}

static uintptr_t map_endless(void)
{
	uintptr_t *stack = (uintptr_t *)map(PROT_READ | PROT_WRITE);

	for (size_t i = 0; i < STACK_BYTES / sizeof(*stack); i++)
		stack[i] = (uintptr_t)endless_return;
	return (uintptr_t)stack;
}

/* `count` frames whose frame pointers point `step` frames on, and the last one to the first one. */
static uintptr_t map_frames(int count, int step, uintptr_t code)
{
	uintptr_t (*frames)[2] = (void *)(map(PROT_READ | PROT_WRITE) + STACK_BYTES / 2);

	for (int i = 0; i < count; i++) {
		frames[step * i][0] = (uintptr_t)frames[i + 1 < count ? step * (i + 1) : 0];
		frames[step * i][1] = code;
	}
	return (uintptr_t)frames[0];
}

static void *run(void *argument)
{
	const struct attack *attack = argument;

	setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE);
	prctl(PR_SET_NAME, attack->name);
	attack->spin(attack->stack, attack->frame);
	return NULL;
}

int main(void)
{
	void *code = (void *)map(PROT_READ | PROT_WRITE | PROT_EXEC);
	void (*spin)(uintptr_t, uintptr_t) = (void (*)(uintptr_t, uintptr_t))code;
	const uintptr_t here = (uintptr_t)code + 16, readable = map(PROT_READ | PROT_WRITE) + STACK_BYTES / 2;
	struct attack attacks[] = {
	    {"unmapped", spin_on, map_unmapped(), 0},
	    {"prot_none", spin_on, map(PROT_NONE) + STACK_BYTES / 2, 0},
	    {"noncanonical", spin_on, 0x8000000000001000, 0x8000000000001000},
	    {"kernel", spin_on, 0xffffffff81000000, 0xffffffff81000000},
	    {"wraps", spin_on, UINTPTR_MAX - 7, UINTPTR_MAX - 7},
	    {"endless", spin_on, map_endless(), 0},
	    {"itself", spin, readable, map_frames(1, 0, here)},
	    {"cycle", spin, readable, map_frames(2, 1, here)},
	    {"descends", spin, readable, map_frames(1000, -1, here)},
	};

	attack_contain();
	attack_drop_privileges();
	memcpy(code, (const void *)spin_on, (size_t)(spin_on_end - (const char *)spin_on));
	for (size_t i = 0; i < sizeof(attacks) / sizeof(attacks[0]); i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, run, &attacks[i]))
			attack_fail("thread");
	}
	attack_say_ready();
	for (;;)
		pause();
}
