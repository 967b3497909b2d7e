/* SPDX-License-Identifier: Apache-2.0 */
/*
 * musl SECONDS: spends its time in a C library without unwind tables: as a leaf, in a function that
 * calls back, and in threads. Its frames can only be unwound by the analysis of its code.
 */
#include <pthread.h>

#include "chain.h"

CHAIN_GLOBALS;

KEEP int compare(const void *a, const void *b)
{
	const int x = *(const int *)a, y = *(const int *)b;

	for (int i = 0; i < 300; i++)
		chain_sink++;
	return x < y ? -1 : x > y;
}

KEEP void sort(long n)
{
	static int numbers[5000];

	for (int i = 0; i < 5000; i++)
		numbers[i] = (int)((i * 7919 + n) % 5003);
	qsort(numbers, 5000, sizeof(numbers[0]), compare);
}

KEEP void *sorter(void *unused)
{
	for (long n = 0;; n++)
		sort(n);
	return unused;
}

KEEP void print(long n)
{
	char text[400];

	chain_sink += (unsigned long)snprintf(text, sizeof(text), "%ld %s %.17g %-20d|%Lf", n, "words of some length",
					      (double)n * 1.1, (int)n, (long double)n / 3);
	chain_sink += (unsigned long)strtod(text + 20, NULL);
}

KEEP void *printer(void *unused)
{
	for (long n = 0;; n++)
		print(n);
	return unused;
}

KEEP void move(long n)
{
	static char from[1 << 16], to[1 << 16];
	char *more = malloc(100 + (size_t)n % 5000);

	memcpy(to, from, (size_t)n % sizeof(to));
	memset(from, (int)n, (size_t)n % 3000);
	chain_sink += strlen(to) + (size_t)strcmp(from, to);
	free(more);
}

KEEP void *mover(void *unused)
{
	for (long n = 0;; n += 17)
		move(n);
	return unused;
}

KEEP long leaf(long n)
{
	CHAIN_BURN();
	return n;
}

KEEP long descend(long n)
{
	return (n == 1 ? leaf(n) : descend(n - 1)) + n;
}

#define INSIDE "{'re': '(?!(?:%s)$).+', 'min': 0, 'max': 12}, "

int main(int argc, char **argv)
{
	static void *(*const runs[])(void *) = { sorter, printer, mover };
	static const char *const names[] = { "sorter", "printer", "mover" };

	chain_start(argc, argv, 0);
	for (int i = 0; i < 3; i++) {
		pthread_t thread;

		pthread_create(&thread, NULL, runs[i], NULL);
		pthread_setname_np(thread, names[i]);
	}
	chain_say("{'chains': [['leaf', {'name': 'descend', 'times': 30}, 'main', " CHAIN_START "]], 'threads': {"
		  "'sorter': [['compare', " INSIDE "'sort', 'sorter', '@musl_thread'], [" INSIDE "'sort', 'sorter', '@musl_thread'], ['sorter', '@musl_thread']],"
		  "'printer': [[" INSIDE "'print', 'printer', '@musl_thread'], ['printer', '@musl_thread']],"
		  "'mover': [[" INSIDE "'move', 'mover', '@musl_thread'], ['mover', '@musl_thread']]}}",
		  "compare|sort|sorter", "compare|sort|sorter", "print|printer", "move|mover");
	return (int)descend(30);
}
