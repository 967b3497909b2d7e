/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proves that addresses of a real, stripped program of Go are named as the Go runtime in that
 * program names them: fixture_go prints what runtime.FuncForPC says about its own code.
 *
 * Three differences are systematic. They are applied exactly, not tolerated:
 *
 *	"[...]"		FuncForPC prints this for the type arguments of a generic function. The
 *			table has them, and go_functions.h delivers them
 *	"?", line 0	is what FuncForPC prints where a list has no value, as it is in padding
 *	no name		FuncForPC takes a name at the offset 0 for none. The linker puts the name of
 *			a function there, and go_functions.h delivers it
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file_read.h"
#include "parse/go_functions.h"

/* FIXTURE_GO_STRIPPED is the program, FIXTURE_GO_SOURCE its source. */

enum {
	TEXT_BYTES = 4096,
	LINES_MIN = 10000, /* the program has some 50,000 lines */
};

/* A Go program, or what is left of it. */
struct program {
	int fd;
	uint64_t limit; /* bytes that can be read */
	struct elf_source source;
	struct elf_image image;
	struct go_module module;
};

static int read_limited(void *context, uint64_t offset, void *buffer, size_t length)
{
	struct program *program = context;

	if (offset > program->limit || length > program->limit - offset)
		return -ENODATA;
	return file_read_from(&program->fd, offset, buffer, length);
}

static void program_open(struct program *program, const char *path)
{
	struct stat st;

	*program = (struct program){.fd = open(path, O_RDONLY | O_CLOEXEC), .limit = UINT64_MAX};
	cr_assert_geq(program->fd, 0, "%s", path);
	cr_assert_eq(fstat(program->fd, &st), 0);
	program->source = (struct elf_source){read_limited, program, (uint64_t)st.st_size};
	cr_assert_eq(elf_image_init(&program->image, &program->source), 0, "%s", path);
}

static void program_close(struct program *program)
{
	elf_image_fini(&program->image);
	close(program->fd);
}

static void text_of(const struct program *program, const struct go_part *part, uint32_t offset,
		    char *text)
{
	go_functions_text(part, &program->source, offset, text, TEXT_BYTES);
}

static bool find(const struct program *program, uint64_t vaddr, struct go_position *position)
{
	return go_functions_find(&program->module, &program->source, vaddr, position);
}

/* A line that the program printed. */
struct said {
	uint64_t address, entry;
	uint32_t line;
	char *name, *file; /* in the text of the line */
};

static bool said_read(FILE *from, char *text, struct said *said)
{
	if (!fgets(text, 2 * TEXT_BYTES, from))
		return false;
	said->address = strtoull(strsep(&text, "|"), NULL, 16);
	said->name = strsep(&text, "|");
	said->file = strsep(&text, "|");
	said->line = (uint32_t)strtoul(strsep(&text, "|"), NULL, 10);
	cr_assert_not_null(text);
	said->entry = strtoull(text, NULL, 16);
	return true;
}

/* Does with a name what FuncForPC does. */
static void shorten(char *name)
{
	char *first = strchr(name, '[');
	const char *last = strrchr(name, ']');

	if (!first || !last || last < first)
		return;
	char *rest = strdup(last);
	cr_assert_not_null(rest);
	snprintf(first, TEXT_BYTES - (size_t)(first - name), "[...%s", rest);
	free(rest);
}

static void check_call(const struct program *program, const struct go_call *call,
		       const struct said *said)
{
	char text[TEXT_BYTES];

	text_of(program, &program->module.names, call->name, text);
	cr_assert_neq(text[0], 0, "%#lx: no name", said->address);
	shorten(text);
	if (said->name[0])
		cr_assert_str_eq(text, said->name, "%#lx: %s, not %s", said->address, text,
				 said->name);
	else
		cr_assert_eq(call->name, 0, "%#lx: %s", said->address, text);
	text_of(program, &program->module.files, call->file, text);
	cr_assert_str_eq(call->has_file ? text : "?", said->file, "%#lx: %s", said->address,
			 said->name);
	cr_assert_eq(call->line, said->line, "%#lx: %s: %u, not %u", said->address, said->name,
		     call->line, said->line);
}

/* What the lines have shown, so that a test of little does not look like one of everything. */
struct covered {
	unsigned int lines, inlined, padding, generic;
};

static void check_position(const struct program *program, const struct said *said,
			   struct covered *covered)
{
	static struct go_position position, at_entry;

	cr_assert(find(program, said->address, &position), "%#lx", said->address);
	check_call(program, &position.calls[0], said);
	cr_assert(find(program, said->entry, &at_entry), "%#lx", said->entry);
	cr_assert_eq(position.calls[position.count - 1].name,
		     at_entry.calls[at_entry.count - 1].name, "%#lx is not in the function at %#lx",
		     said->address, said->entry);
	covered->lines++;
	covered->inlined += position.count > 1;
	covered->padding += !position.calls[0].has_file;
	covered->generic += strstr(said->name, "[...]") != NULL;
}

Test(go_functions, are_those_that_the_runtime_finds, .timeout = 300)
{
	static char text[2 * TEXT_BYTES];
	struct program program;
	struct covered covered = {0};
	struct said said = {0};

	program_open(&program, FIXTURE_GO_STRIPPED);
	cr_assert_null(elf_image_find_section(&program.image, ".symtab"));
	cr_assert_eq(go_module_find(&program.module, &program.image), 0);
	FILE *from = popen("'" FIXTURE_GO_STRIPPED "'", "r");
	cr_assert_not_null(from);
	cr_assert(said_read(from, text, &said));
	cr_expect_eq(said.address, program.module.text_vaddr, "the code starts at its start");
	do
		check_position(&program, &said, &covered);
	while (said_read(from, text, &said));
	cr_assert_eq(pclose(from), 0);
	cr_log_info("%u lines, %u inlined, %u of padding, %u of generic functions", covered.lines,
		    covered.inlined, covered.padding, covered.generic);
	cr_expect_gt(covered.lines, LINES_MIN);
	cr_expect_gt(covered.inlined, LINES_MIN / 20);
	cr_expect_gt(covered.padding, LINES_MIN / 100);
	cr_expect_gt(covered.generic, 10);
	program_close(&program);
}

Test(go_functions, are_not_outside_of_the_code)
{
	struct program program;
	struct go_position position;

	program_open(&program, FIXTURE_GO_STRIPPED);
	cr_assert_eq(go_module_find(&program.module, &program.image), 0);
	const struct elf_section *code = elf_image_find_section(&program.image, ".text");
	cr_assert_not_null(code);
	cr_expect_eq(program.module.text_vaddr, code->vaddr);
	cr_expect(find(&program, code->vaddr, &position));
	cr_expect_not(find(&program, code->vaddr - 1, &position));
	cr_expect_not(find(&program, code->vaddr + code->size, &position));
	cr_expect_not(find(&program, 0, &position));
	cr_expect_not(find(&program, UINT64_MAX, &position));
	cr_expect_not(find(&program, program.module.text_vaddr + (1ull << 32), &position));
	program_close(&program);
}

/* Returns the number of the first line of the source that contains the text; 0 if none does. */
static uint32_t line_of_source(const char *text)
{
	_cleanup_fclose_ FILE *source = fopen(FIXTURE_GO_SOURCE, "r");
	char line[1024];

	cr_assert_not_null(source);
	for (uint32_t number = 1; fgets(line, sizeof(line), source); number++) {
		if (strstr(line, text))
			return number;
	}
	return 0;
}

/* A chain of inlined calls, the innermost first, and the lines of the source that make it. */
static const struct {
	const char *name, *start, *line;
} chain[] = {{"main.innermost", "func innermost(", "return capture()"},
	     {"main.middle", "func middle(", "return innermost()"},
	     {"main.outer", "func outer(", "return middle()"},
	     {"main.printChain", "func printChain(", "count := outer()"}};

enum {
	CHAIN = sizeof(chain) / sizeof(chain[0])
};

static void check_chain(const struct program *program, const struct go_position *position)
{
	char text[TEXT_BYTES];

	cr_assert_eq(position->count, CHAIN);
	for (unsigned int i = 0; i < CHAIN; i++) {
		const struct go_call *call = &position->calls[i];

		text_of(program, &program->module.names, call->name, text);
		cr_expect_str_eq(text, chain[i].name);
		text_of(program, &program->module.files, call->file, text);
		cr_expect(call->has_file && strstr(text, "main.go"), "%s", text);
		cr_expect_eq(call->line, line_of_source(chain[i].line), "%s: %u", chain[i].name,
			     call->line);
		if (program->module.has_start_lines)
			cr_expect_eq(call->start_line, line_of_source(chain[i].start), "%s: %u",
				     chain[i].name, call->start_line);
	}
}

/* The program prints its chain as runtime.CallersFrames finds it. Three functions are inlined. */
Test(go_functions, a_chain_of_inlined_calls_has_all_functions_and_lines)
{
	static char text[2 * TEXT_BYTES];
	struct program program;
	struct go_position position;
	struct said said = {0};
	unsigned int count = 0;

	program_open(&program, FIXTURE_GO_STRIPPED);
	cr_assert_eq(go_module_find(&program.module, &program.image), 0);
	FILE *from = popen("'" FIXTURE_GO_STRIPPED "' chain", "r");
	cr_assert_not_null(from);
	while (said_read(from, text, &said)) {
		cr_assert(find(&program, said.address, &position));
		cr_assert_lt(count, position.count);
		check_call(&program, &position.calls[count++], &said);
	}
	cr_assert_eq(pclose(from), 0);
	cr_assert_eq(count, CHAIN);
	check_chain(&program, &position);
	/* Other addresses of the same function have no chain, and are not in the other lines. */
	cr_assert(find(&program, said.entry, &position));
	cr_expect_eq(position.count, 1);
	unsigned int found = 0;
	for (uint64_t at = said.entry; at <= said.address; at++) {
		cr_assert(find(&program, at, &position));
		if (position.count != CHAIN)
			continue;
		check_chain(&program, &position);
		found++;
	}
	cr_expect_gt(found, 1);
	program_close(&program);
}

Test(go_functions, a_file_that_is_cut_off_is_survived, .timeout = 120)
{
	struct program program;
	struct go_position position;
	char text[TEXT_BYTES];
	unsigned int found = 0, opened = 0;

	program_open(&program, FIXTURE_GO_STRIPPED);
	cr_assert_eq(go_module_find(&program.module, &program.image), 0);
	const struct go_module whole = program.module;
	for (program.limit = 0; program.limit < program.source.size; program.limit += 4001) {
		program.module = whole;
		for (unsigned int i = 0; i < 16; i++) {
			if (!find(&program, whole.text_vaddr + i * 32771, &position))
				continue;
			text_of(&program, &whole.names, position.calls[0].name, text);
			found++;
		}
		const int r = go_module_find(&program.module, &program.image);
		cr_assert(!r || r == -ENOENT || r == -ENODATA, "%d", r);
		opened += !r;
	}
	cr_log_info("%u files opened, %u addresses found", opened, found);
	/* Each is possible with a part of the file, and impossible with another. */
	cr_expect(found > 0 && found < 16 * (program.source.size / 4001));
	cr_expect(opened > 0 && opened < program.source.size / 4001);
	program_close(&program);
}

Test(go_functions, a_program_in_c_has_no_tables)
{
	struct program program;

	program_open(&program, "/proc/self/exe");
	cr_expect_eq(go_module_find(&program.module, &program.image), -ENOENT);
	program_close(&program);
}
