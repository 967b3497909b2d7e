/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jit_map SECONDS MODE: runs generated code, three functions that call each other, and writes their
 * names to /tmp/perf-PID.map.
 * MODE 0: before the code runs, after lines that are broken and names that are replaced.
 * MODE 1: a second after the code has started, in two parts of which the first ends within a line.
 * MODE 2: before the code runs; upon SIGUSR1 other functions are at the same addresses.
 * MODE 3: as 0, in a map that is large: 40,000 functions before.
 * MODE 4: hostile: another process writes names at full speed and truncates the map now and then.
 * MODE 5: hostile: in the place of the map is a FIFO.
 * MODE 6: as 0, and the code is in a file that exists in memory only, mapped once for writing and once
 * for running, as .NET and Erlang do it.
 */
#include <sys/stat.h>

#include "jit_code.h"

enum {
	FILLER = 40000,
	FLOOD_BYTES_MAX = 32 << 20,
};

#define FIRST_CHAIN "['inner', 'Shape::middle', 'LazyCompile:~outer page.js:12', 'enters', 'main', '@start']"

/* Samples whose stacks were completed in user space cannot wait for the map. */
#define UNNAMED_CHAIN "[{'re': '.anonymous code.', 'min': 3, 'max': 3}, 'enters', 'main', '@start']"

static FILE *map;
static unsigned char *code;

/* Copies the code into a file in memory, and maps that from its second page on. */
static unsigned char *in_memory_file(const unsigned char *from)
{
	const int fd = memfd_create("doublemapper", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, 2 * CODE_BYTES) < 0)
		exit(1);
	unsigned char *written = mmap(NULL, CODE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, CODE_BYTES);
	unsigned char *run = mmap(NULL, CODE_BYTES, PROT_READ | PROT_EXEC, MAP_SHARED, fd, CODE_BYTES);

	memcpy(written, from, CODE_BYTES);
	return run;
}

static void name(int function, const char *text)
{
	fprintf(map, "%lx %x %s\n", (unsigned long)(uintptr_t)(code + function * FUNCTION_BYTES),
		FUNCTION_BYTES, text);
}

static void write_first_names(void)
{
	name(0, "LazyCompile:~outer page.js:12");
	name(1, "_ZN5Shape6middleEv");
	name(2, "inner");
	fflush(map);
}

static void write_broken_lines(int filler)
{
	fprintf(map, "this is no line of a map\n0 ffffffffffff replaced\n\n%lx\n", (unsigned long)(uintptr_t)code);
	fprintf(map, "ffffffffffffffff ffffffffffffffff too large\n");
	for (int i = 0; i < filler; i++)
		fprintf(map, "%x 10 filler with a name of usual length %d\n", 0x1000 + 16 * i, i);
	name(0, "replaced, too");
}

/* Names for the same code, for others, and for everything, until the process ends. */
static void write_flood(void)
{
	if (fork())
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (unsigned int i = 0;; i++) {
		name((int)(i % 3), "flood");
		fprintf(map, "%x %x flood with a name that is rather long %u\n", i * 8, 1 + i % 4096, i);
		if (ftell(map) > FLOOD_BYTES_MAX) {
			rewind(map);
			if (ftruncate(fileno(map), 0) < 0)
				_exit(1);
		}
	}
}

static void say_chains(long mode)
{
	if (mode == 1)
		chain_say("{'chains': [" FIRST_CHAIN ", [{'re': '.anonymous code.', 'min': 2, 'max': 3}, "
			  "{'re': 'LazyCompile:~outer page.js:12', 'min': 0, 'max': 1}, 'enters', 'main', '@start']], 'need': {'^inner$': 0.3}}");
	else if (mode == 2)
		chain_say("{'chains': [" FIRST_CHAIN ", " UNNAMED_CHAIN ", ['next inner', 'next middle', 'next outer', 'enters', 'main', '@start']], "
			  "'need': {'^inner$': 0.02, '^next inner$': 0.2}}");
	else
		chain_say("{'chains': [" FIRST_CHAIN ", " UNNAMED_CHAIN "], 'need': {'^inner$': 0.8}}");
}

static void open_map(long mode)
{
	char path[64];

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	if (mode == 5 && mkfifo(path, 0600) < 0)
		exit(1);
	map = fopen(path, mode == 5 ? "r+" : "w");
	if (!map)
		exit(1);
}

int main(int argc, char **argv)
{
	const long mode = chain_start(argc, argv, 0);

	code = mode == 6 ? in_memory_file(make_code()) : make_code();
	open_map(mode);
	if (mode == 0 || mode == 3 || mode == 6)
		write_broken_lines(mode == 3 ? FILLER : 0);
	if (mode != 1)
		write_first_names();
	say_chains(mode);
	if (mode == 1) {
		enters(code, 1000);
		name(0, "LazyCompile:~outer page.js:12");
		fprintf(map, "%lx", (unsigned long)(uintptr_t)(code + FUNCTION_BYTES));
		fflush(map);
		enters(code, 500);
		fprintf(map, " %x _ZN5Shape6middleEv\n", FUNCTION_BYTES);
		name(2, "inner");
	} else if (mode == 2) {
		enters(code, 0);
		name(0, "next outer");
		name(1, "next middle");
		name(2, "next inner");
	}
	fflush(map);
	if (mode == 4)
		write_flood();
	enters(code, 0);
	return 0;
}
