/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code that tests load into memory like a JIT compiler, and whose object file they keep for
 * debuggers. It is compiled with debug information and never linked, so nothing has applied its
 * relocations. The code needs none: its functions are in one section. That starts at a page of the
 * file, so that the file can also be mapped as a whole.
 *
 * Tests look for the lines with a comment.
 */
#ifdef __clang__
#define noipa noinline
#endif
#ifdef NEXT
#define inner next_inner
#define middle next_middle
#define outer next_outer
#endif

__asm__(".text\n.p2align 12\n");

static inline __attribute__((always_inline)) void spin(volatile int *stop)
{
	while (!*stop)
		__asm__ volatile(""); /* line of spin */
}

static __attribute__((noinline, noipa)) void inner(volatile int *stop)
{
	/* Without this, gcc gives a function that calls nothing no frame pointer. */
	__asm__ volatile("" : : "r"(__builtin_frame_address(0)));
	spin(stop); /* line of inner */
}

static __attribute__((noinline, noipa)) void middle(volatile int *stop)
{
	inner(stop); /* line of middle */
}

void outer(volatile int *stop);

void outer(volatile int *stop)
{
	middle(stop); /* line of outer */
}

#ifdef MAIN
int puts(const char *text);
int fflush(void *stream);

/* As a program for LLVM's interpreter. */
int main(void)
{
	static volatile int stop;

	puts("started");
	fflush((void *)0);
	outer(&stop);
	return 0;
}
#endif
