/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jit SECONDS LEAF: runs code in anonymous memory, which no table describes and which has frame
 * pointers, as JIT compilers make it. LEAF 0: the code calls back into C, which uses rbp for other
 * values. LEAF 1: the time is spent in the code itself.
 */
#include <sys/mman.h>

#include "chain.h"

CHAIN_GLOBALS;

static const unsigned char code[] = {
	0x55,				/* push %rbp */
	0x48, 0x89, 0xe5,		/* mov %rsp, %rbp */
	0x48, 0x83, 0xec, 0x40,		/* sub $64, %rsp */
	0x48, 0x85, 0xff,		/* test %rdi, %rdi */
	0x74, 0x04,			/* jz the loop */
	0xff, 0xd7,			/* call *%rdi */
	0xc9,				/* leave */
	0xc3,				/* ret */
	0xf3, 0x90,			/* pause */
	0xeb, 0xfc,			/* jmp back */
};

KEEP long leaf(void)
{
	CHAIN_BURN();
	return 0;
}

KEEP long crowded(void)
{
	long a = 3, b = 5, c = 7, d = 11, e = 13, f = 17, n;

	__asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f));
	n = leaf();
	__asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f));
	return n + a + b + c + d + e + f;
}

KEEP long enters(long (*jit)(long (*)(void)), long (*callback)(void))
{
	return jit(callback) + 1;
}

int main(int argc, char **argv)
{
	long mode = chain_start(argc, argv, 0);
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memcpy(page, code, sizeof(code));
	mprotect(page, 4096, PROT_READ | PROT_EXEC);
	chain_say("{'chains': [[%s{'re': '(?!main|enters|crowded|leaf|_start).*'}, 'enters', 'main', '@start']]}", mode ? "" : "'leaf', 'crowded', ");
	return (int)enters((long (*)(long (*)(void)))page, mode ? NULL : crowded);
}
