/* SPDX-License-Identifier: Apache-2.0 */
/* A C program that uses the library of library.go. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void Work(int n);

__attribute__((noinline)) static void from_c(int n)
{
	Work(n);
	__asm__ volatile("");
}

int main(int argc, char **argv)
{
	alarm((unsigned int)atoi(argc > 1 ? argv[1] : "0"));
	puts("started");
	fflush(stdout);
	for (;;)
		from_c(1000000);
}
