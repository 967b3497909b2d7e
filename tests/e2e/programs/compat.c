/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A 64-bit process that makes system calls of 32 bits, and one that executes code of 32 bits with a stack
 * below 4 GiB that says nothing true. Both threads are named after what they do: "int80" and "code32".
 */
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "attack.h"

enum {
	GETPID_32 = 20,	  /* arch/x86/entry/syscalls/syscall_32.tbl of Linux */
	USER_CS_32 = 0x23, /* __USER32_CS in arch/x86/include/asm/segment.h */
};

/* mov $20, %eax; int $0x80; mov $10000000, %ecx; 1: dec %ecx; jnz 1b; jmp to the start */
static const unsigned char code_32[] = {0xb8, GETPID_32, 0, 0, 0, 0xcd, 0x80, 0xb9, 0x80, 0x96, 0x98, 0, 0x49, 0x75, 0xfd, 0xeb, 0xef};

static void *make_system_calls(void *name)
{
	prctl(PR_SET_NAME, name);
	for (;;) {
		long result = GETPID_32;

		__asm__ volatile("int $0x80" : "+a"(result) : : "r8", "r9", "r10", "r11", "memory");
		if (result != getpid())
			attack_fail("system call of 32 bits");
	}
	return NULL;
}

static void *execute_code_32(void *name)
{
	unsigned char *memory = mmap(NULL, 2 * ATTACK_PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);

	if (memory == MAP_FAILED)
		attack_fail("memory");
	prctl(PR_SET_NAME, name);
	memcpy(memory, code_32, sizeof(code_32));
	memset(memory + ATTACK_PAGE, 1, ATTACK_PAGE);
	__asm__ volatile("mov %0, %%rsp\n"
			 "pushq %1\n"
			 "pushq %2\n"
			 "lretq\n"
			 :
			 : "r"(memory + ATTACK_PAGE + ATTACK_PAGE / 2), "r"((uint64_t)USER_CS_32), "r"((uint64_t)(uintptr_t)memory));
	return NULL;
}

int main(void)
{
	pthread_t threads[2];

	attack_contain();
	attack_drop_privileges();
	if (pthread_create(&threads[0], NULL, make_system_calls, "int80") || pthread_create(&threads[1], NULL, execute_code_32, "code32"))
		attack_fail("threads");
	usleep(100000);
	attack_say_ready();
	for (;;)
		pause();
}
