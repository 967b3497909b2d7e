/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of the x32 ABI, which has the registers and instructions of 64 bits and addresses of 32 bits. Its file is an ELF file of 32 bits. It has no libc,
 * because no x32 libc is needed to build it, and spends its time in the innermost of some calls until it is killed. tests/kernels runs it.
 */
#define KEEP __attribute__((noinline, noclone))

static volatile long sink;

KEEP static long descend(int depth)
{
	if (depth)
		return descend(depth - 1) + 1;
	for (;;)
		sink++;
}

void _start(void);

void _start(void)
{
	descend(5);
}
