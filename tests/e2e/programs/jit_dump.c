/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jit_dump SECONDS MODE: runs generated code, three functions that call each other, and writes their
 * names and lines to $JITDUMPDIR/jit-PID.dump, which it maps executable.
 * MODE 0: before the code runs, after records that do not count and names that are replaced.
 * MODE 1: the same, with lines whose addresses are as LLVM and V8 write them.
 * MODE 2: upon SIGUSR1 the code is moved, and other code is where it was.
 * MODE 3: upon SIGUSR1 other functions are at the same addresses.
 * MODE 4: hostile: another process writes names at full speed and truncates the file now and then.
 * MODE 5: hostile: the sizes of the records are not true.
 * MODE 6: the names are in the file, and a child that was forked runs the code.
 */
#include <limits.h>
#include <time.h>

#include "jit_code.h"

enum {
	LOAD = 0,
	MOVE = 1,
	DEBUG_INFO = 2,
	CLOSE = 3,
	UNWINDING_INFO = 4,
	FLOOD_BYTES_MAX = 32 << 20,
	ELF_HEADER_BYTES = 0x40,
};

struct prefix {
	uint32_t kind, bytes;
	uint64_t time_ns;
};

#define CHAIN(before) "['" before "inner', 'Shape::" before "middle', 'LazyCompile:~" before "outer page.js:12', 'enters', 'main', '@start']"

/* Samples whose stacks were completed in user space cannot wait for the file. */
#define UNNAMED_CHAIN "[{'re': '.anonymous code.', 'min': 3, 'max': 3}, 'enters', 'main', '@start']"

static FILE *dump;
static uint64_t line_shift;
static uint64_t last_index;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void write_prefix(uint32_t kind, size_t bytes)
{
	const struct prefix prefix = {kind, (uint32_t)(sizeof(prefix) + bytes), now_ns()};

	fwrite(&prefix, sizeof(prefix), 1, dump);
}

static void write_u32(uint32_t value)
{
	fwrite(&value, sizeof(value), 1, dump);
}

static void write_u64(uint64_t value)
{
	fwrite(&value, sizeof(value), 1, dump);
}

/* The fields that a load and a move have in common. */
static void write_ids(void)
{
	write_u32((uint32_t)getpid());
	write_u32((uint32_t)getpid());
}

static void write_load(const unsigned char *code, size_t bytes, const char *name)
{
	const uint64_t address = (uint64_t)(uintptr_t)code;

	write_prefix(LOAD, 40 + strlen(name) + 1 + bytes);
	write_ids();
	write_u64(address);
	write_u64(address);
	write_u64(bytes);
	write_u64(++last_index);
	fwrite(name, strlen(name) + 1, 1, dump);
	fwrite(code, bytes, 1, dump);
}

static void write_move(const unsigned char *from, const unsigned char *to, uint64_t index)
{
	write_prefix(MOVE, 48);
	write_ids();
	write_u64((uint64_t)(uintptr_t)to);
	write_u64((uint64_t)(uintptr_t)from);
	write_u64((uint64_t)(uintptr_t)to);
	write_u64(FUNCTION_BYTES);
	write_u64(index);
}

static void write_line(const unsigned char *code, size_t offset, uint32_t line, const char *file)
{
	write_u64((uint64_t)(uintptr_t)code + offset + line_shift);
	write_u32(line);
	write_u32(0);
	fwrite(file, strlen(file) + 1, 1, dump);
}

/* The lines of a function: it starts at the first one and is sampled in the second one. */
static void write_lines(const unsigned char *code, size_t rest_offset, uint32_t line, const char *file)
{
	write_prefix(DEBUG_INFO, 16 + 3 * 16 + strlen(file) + 1 + 2 + 2 + 5);
	write_u64((uint64_t)(uintptr_t)code);
	write_u64(3);
	write_line(code, 0, line, file);
	write_line(code, INSIDE_OFFSET, line + 1, "\xff");
	write_line(code, rest_offset, line + 2, "\xff");
	fwrite("\0\0\0\0", 5, 1, dump);
}

static void write_functions(const unsigned char *code, const char *outer, const char *middle, const char *inner)
{
	write_lines(code, CALLER_REST_OFFSET, 12, "page.js");
	write_load(code, FUNCTION_BYTES, outer);
	write_lines(code + FUNCTION_BYTES, CALLER_REST_OFFSET, 70, "lib/shape.cpp");
	write_load(code + FUNCTION_BYTES, FUNCTION_BYTES, middle);
	write_lines(code + 2 * FUNCTION_BYTES, LEAF_REST_OFFSET, 100, "page.js");
	write_load(code + 2 * FUNCTION_BYTES, FUNCTION_BYTES, inner);
}

static void write_first_functions(const unsigned char *code)
{
	write_functions(code, "LazyCompile:~outer page.js:12", "_ZN5Shape6middleEv", "inner");
}

/* Records of other kinds, and names that do not last. */
static void write_others(const unsigned char *code)
{
	write_prefix(UNWINDING_INFO, 24 + 30);
	for (int i = 0; i < 54; i++)
		fputc(i, dump);
	write_prefix(77, 3);
	fwrite("abc", 3, 1, dump);
	write_load(code, CODE_BYTES, "replaced");
	write_lines(code + 5, 1, 5, "of code that is never loaded");
	write_prefix(UNWINDING_INFO, 24);
	for (int i = 0; i < 24; i++)
		fputc(i, dump);
}

static void write_header(void)
{
	const uint32_t words[] = {0x4a695444, 1, 40, 62, 0, (uint32_t)getpid()};

	fwrite(words, sizeof(words), 1, dump);
	write_u64(now_ns());
	write_u64(0);
}

static void open_dump(void)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/jit-%d.dump", getenv("JITDUMPDIR"), (int)getpid());
	dump = fopen(path, "w+");
	if (!dump || mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(dump), 0) == MAP_FAILED)
		exit(1);
	write_header();
}

/* Code at the addresses of this code and everywhere else, until the process ends. */
static void write_flood(const unsigned char *code)
{
	if (fork())
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (unsigned int i = 0;; i++) {
		write_lines(code, CALLER_REST_OFFSET, i, "a file with a name that is rather long");
		write_load(code + i % 3 * FUNCTION_BYTES, 1 + i % 4, "flood");
		write_move(code, code + i % 4096, 1);
		if (ftell(dump) > FLOOD_BYTES_MAX) {
			rewind(dump);
			if (ftruncate(fileno(dump), 0) < 0)
				_exit(1);
			write_header();
		}
	}
}

static void write_sizes_that_are_not_true(const unsigned char *code)
{
	write_prefix(DEBUG_INFO, 16 + 20);
	write_u64((uint64_t)(uintptr_t)code);
	write_u64(UINT64_MAX);
	write_line(code, 0, 1, "abc");
	write_prefix(LOAD, UINT_MAX - 100);
	write_ids();
	for (int i = 0; i < 4; i++)
		write_u64(UINT64_MAX);
	for (int i = 0; i < 10000; i++)
		write_load(code, FUNCTION_BYTES, "hostile");
}

static void say_chains(long mode)
{
	if (mode == 3)
		chain_say("{'chains': [" CHAIN("") ", " CHAIN("next ") ", " UNNAMED_CHAIN "], 'need': {'^inner$': 0.02, '^next inner$': 0.2}}");
	else if (mode == 6)
		chain_say("{'chains': [" UNNAMED_CHAIN "], 'tids': {'child': %d}}", (int)getpid());
	else
		chain_say("{'chains': [" CHAIN("") ", " UNNAMED_CHAIN "], 'need': {'^inner$': 0.8}}");
}

/* Runs the code, then the same code at another place. */
static void run_and_move(const unsigned char *code)
{
	enters(code, 0);
	const unsigned char *moved = make_code();
	for (size_t i = 0; i < 3; i++)
		write_move(code + i * FUNCTION_BYTES, moved + i * FUNCTION_BYTES, last_index - 2 + i);
	write_load(code, 3 * FUNCTION_BYTES, "other code");
	fflush(dump);
	enters(moved, 0);
}

int main(int argc, char **argv)
{
	const long mode = chain_start(argc, argv, 0);
	const unsigned char *code = make_code();

	open_dump();
	line_shift = mode == 1 ? ELF_HEADER_BYTES : 0;
	write_others(code);
	write_first_functions(code);
	if (mode < 2)
		write_prefix(CLOSE, 0);
	if (mode == 5)
		write_sizes_that_are_not_true(code);
	fflush(dump);
	if (mode == 6 && fork()) {
		pause();
		return 0;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	say_chains(mode);
	if (mode == 2) {
		run_and_move(code);
	} else if (mode == 3) {
		enters(code, 0);
		write_functions(code, "LazyCompile:~next outer page.js:12", "Shape::next middle", "next inner");
		fflush(dump);
	} else if (mode == 4) {
		write_flood(code);
	}
	enters(code, 0);
	return 0;
}
