/* SPDX-License-Identifier: Apache-2.0 */
/* A program stands for the kernel: /proc/kallsyms has its functions, but somewhere else in memory,
 * and the program itself is the debug file. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/frame_kind.h"
#include "common/time_units.h"
#include "symbolizer/namer/named_frames.h"
#include "symbolizer/worker/limits.h"
#include "symbolizer/worker/worker.h"
#include "tests/support/fake_peer.h"
#include "tests/support/timespec_add.h"

enum {
	FUNCTIONS_MAX = 256,
	CODE_LEAST_BYTES = 1000,
};

static const uint64_t KERNEL_TEXT = 0xffffffff9e400000;

static struct worker worker;
static struct msg_open_debug asked; /* the last request */
static int refusal;
static uint64_t later_ns; /* how much later it is than it really is */
/* Of the program: where its code starts as linked and in the file, and its functions. */
static uint64_t code_vaddr, code_offset;
static struct {
	uint64_t vaddr, size;
} functions[FUNCTIONS_MAX];
static unsigned int function_count;

static int on_send(enum message_type type, const void *payload, size_t length)
{
	if (type == MESSAGE_OPEN_DEBUG)
		memcpy(&asked, payload, length);
	return refusal;
}

FAKE_PEER(on_send);

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	const int r = __real_clock_gettime(clock, now);

	timespec_add(now, later_ns);
	return r;
}

static int open_program(const char *path)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC);

	cr_assert_geq(fd, 0, "%s: %m", path);
	return fd;
}

/* --- the program, by libelf --- */

static void find_code(Elf *elf)
{
	GElf_Phdr header;

	for (int i = 0; gelf_getphdr(elf, i, &header); i++) {
		if (header.p_type == PT_LOAD && header.p_flags & PF_X) {
			code_vaddr = header.p_vaddr;
			code_offset = header.p_offset;
			return;
		}
	}
	cr_assert_fail("no code");
}

/* Writes lines of /proc/kallsyms for the functions, each `further` bytes away. */
static void write_functions(Elf *elf, uint64_t further, FILE *to)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	GElf_Sym symbol;

	while ((section = elf_nextscn(elf, section))) {
		gelf_getshdr(section, &header);
		if (header.sh_type != SHT_SYMTAB)
			continue;
		Elf_Data *data = elf_getdata(section, NULL);

		for (int i = 0; gelf_getsym(data, i, &symbol); i++) {
			if (GELF_ST_TYPE(symbol.st_info) != STT_FUNC || !symbol.st_size ||
			    function_count == FUNCTIONS_MAX)
				continue;
			fprintf(to, "%016lx T %s\n",
				KERNEL_TEXT + symbol.st_value - code_vaddr + further,
				elf_strptr(elf, header.sh_link, symbol.st_name));
			functions[function_count].vaddr = symbol.st_value;
			functions[function_count++].size = symbol.st_size;
		}
	}
}

/* Reads the program, and gives the worker the kernel that it stands for. */
static void read_kernel(uint64_t further)
{
	const int program = open_program(FIXTURE), list = memfd_create("kallsyms", MFD_CLOEXEC);
	FILE *file = fdopen(dup(list), "w");
	struct symbols *symbols;

	cr_assert(elf_version(EV_CURRENT) != EV_NONE && file);
	Elf *elf = elf_begin(program, ELF_C_READ, NULL);
	cr_assert_not_null(elf);
	find_code(elf);
	fprintf(file, "%016lx T _text\n", KERNEL_TEXT);
	write_functions(elf, further, file);
	fprintf(file, "%016lx T _etext\n", KERNEL_TEXT + (1 << 30));
	fclose(file);
	elf_end(elf);
	cr_assert_eq(kernel_symbols_new(list, &worker.kernel), 0);
	close(list);

	cr_assert_eq(symbols_new(program, SIZE_MAX, &symbols), 0);
	const uint8_t *id;
	char note[64];
	struct kernel_debug *debug = &worker.kernel_debug;
	debug->ids = *symbols_get_ids(symbols);
	for (id = (const uint8_t *)debug->ids.gnu_build_id; *id; id += 2) {
		snprintf(note, sizeof(note), "%.2s", (const char *)id);
		debug->build_id[debug->build_id_length++] = (uint8_t)strtoul(note, NULL, 16);
	}
	symbols_free(symbols);
	close(program);
}

static void setup(void)
{
	cr_assert_eq(loop_init(&worker.role.loop), 0);
	cr_assert_eq(worker_init(&worker, false), 0);
	read_kernel(0);
	cr_assert_eq(worker.kernel_debug.build_id_length, 20);
}

static void teardown(void)
{
	worker_fini(&worker);
	loop_fini(&worker.role.loop);
}

TestSuite(kernel_debug, .init = setup, .fini = teardown);

/* --- what is asked, and what the opener says --- */

static bool answer(uint32_t path, int fd, uint32_t error)
{
	struct msg_debug_file file = {.module = MODULES_KERNEL,
				      .place = MSG_DEBUG_KERNEL_OF_HOST,
				      .path = path,
				      .error = error};
	struct message message = {.type = MESSAGE_DEBUG_FILE,
				  .payload = (void *)&file,
				  .length = sizeof(file),
				  .fd_count = fd >= 0,
				  .fds = {fd}};

	const bool better = kernel_debug_on_answer(&worker, &message);
	if (message.fd_count && message.fds[0] >= 0)
		close(message.fds[0]);
	return better;
}

static void expect_asked(unsigned int times)
{
	cr_expect_eq(fake_peer.attempts[MESSAGE_OPEN_DEBUG], times);
}

/* Names an address of the kernel that is at this place of the program. */
static int name(uint64_t vaddr_in_program, uint64_t *vaddr, struct named_frames *names)
{
	const uint64_t address = KERNEL_TEXT + vaddr_in_program - code_vaddr;
	struct kernel_symbol symbol;
	int r;

	do {
		*vaddr = 0;
		names->count = 0;
		cr_assert(kernel_symbols_find(worker.kernel, address, &symbol));
		r = kernel_debug_find_frames(&worker, address, &symbol, vaddr, names);
		later_ns += NS_PER_S; /* so that there is time for more */
	} while (r == NAMES_SOON);
	return r;
}

static void expect_no_names(void)
{
	struct named_frames names;
	uint64_t vaddr;

	cr_expect_eq(name(functions[0].vaddr, &vaddr, &names), NAMES_FINAL);
	cr_expect_eq(names.count, 0);
	cr_expect_eq(vaddr, 0);
}

/* Compares what is said of an address of the kernel with what is said of the program. Returns the
 * number of functions. */
static unsigned int compare(struct symbols *program, uint64_t at)
{
	struct named_frames expected, names;
	uint64_t vaddr;
	int r;

	do
		r = symbols_find_frames(program, NULL, at - code_vaddr + code_offset, &expected);
	while (r == -EAGAIN);
	cr_expect_eq(name(at, &vaddr, &names), NAMES_FINAL);
	cr_expect_eq(vaddr, at);
	if (r < 0) {
		cr_expect_eq(names.count, 0);
		return 0;
	}
	cr_assert_eq(names.count, expected.count, "%#lx", at);
	cr_expect_eq(names.kind, FRAME_KIND_KERNEL);
	for (unsigned int i = 0; i < names.count; i++) {
		cr_expect_str_eq(names.frames[i].function, expected.frames[i].function);
		cr_expect_str_eq(names.frames[i].file, expected.frames[i].file);
		cr_expect_eq(names.frames[i].line, expected.frames[i].line);
	}
	return names.count;
}

Test(kernel_debug, names_inlined_functions_and_lines)
{
	unsigned int named = 0, inlined = 0;
	struct symbols *program;
	int fd = open_program(FIXTURE);

	cr_assert_eq(symbols_new(fd, SIZE_MAX, &program), 0);
	kernel_debug_ask(&worker);
	cr_expect_eq(asked.module, MODULES_KERNEL);
	cr_expect_eq(asked.place, MSG_DEBUG_KERNEL_OF_HOST);
	cr_expect_eq(asked.length, 20);
	cr_expect_eq(memcmp(asked.build_id, worker.kernel_debug.build_id, 20), 0);
	cr_expect_not(answer(2, open_program(FIXTURE), 0), "it is there in time");
	for (unsigned int i = 0; i < function_count; i++) {
		for (uint64_t into = 0; into < functions[i].size; into++) {
			const unsigned int count = compare(program, functions[i].vaddr + into);

			named += count > 0;
			inlined += count > 1;
		}
	}
	cr_expect_gt(named, CODE_LEAST_BYTES);
	cr_expect_gt(inlined, CODE_LEAST_BYTES / 4);
	expect_asked(1);
	symbols_free(program);
	close(fd);
}

/* Stacks that have no lines yet get them soon. */
Test(kernel_debug, that_comes_late_makes_names_better)
{
	expect_no_names();
	expect_asked(1);
	expect_no_names();
	expect_asked(1);
	cr_expect_not(answer(0, open_program("/proc/self/exe"), 0), "it is of another kernel");
	cr_expect(answer(1, open_program(FIXTURE), 0));
}

Test(kernel_debug, of_another_kernel_is_not_used)
{
	struct named_frames names;
	uint64_t vaddr;

	kernel_debug_ask(&worker);
	answer(3, open_program("/proc/self/exe"), 0);
	expect_no_names();
	expect_asked(2);
	cr_expect_eq(asked.first, 4, "the next path");
	answer(5, open_program(FIXTURE), 0);
	cr_expect_eq(name(functions[0].vaddr, &vaddr, &names), NAMES_FINAL);
	cr_expect_gt(names.count, 0);
	cr_expect_eq(vaddr, functions[0].vaddr);
	expect_asked(2);
}

/* Samples of the first moment would lack lines otherwise. */
Test(kernel_debug, is_waited_for)
{
	struct named_frames names;
	uint64_t vaddr;

	worker.naming_until_ns = 1;
	cr_expect_eq(name(functions[0].vaddr, &vaddr, &names), -EINPROGRESS);
	cr_expect_not(answer(3, open_program("/proc/self/exe"), 0), "it is of another kernel");
	expect_asked(2);
	cr_expect_eq(name(functions[0].vaddr, &vaddr, &names), -EINPROGRESS);
	cr_expect_not(answer(5, open_program(FIXTURE), 0), "no stack lacks names");
	int r;
	while ((r = name(functions[0].vaddr, &vaddr, &names)) == -EINPROGRESS)
		modules_read_on(&worker.modules);
	cr_expect_eq(r, NAMES_FINAL);
	cr_expect_gt(names.count, 0);
	expect_asked(2);
}

Test(kernel_debug, that_does_not_come_is_waited_for_a_moment)
{
	struct named_frames names;
	uint64_t vaddr;

	worker.naming_until_ns = 1;
	for (int i = 0; i < HOLD_TRIES; i++)
		cr_expect_eq(name(functions[0].vaddr, &vaddr, &names), -EINPROGRESS);
	expect_no_names();
	expect_no_names();
	expect_asked(1);
}

/* A kernel may put its functions in another order each time it starts. */
Test(kernel_debug, is_not_asked_about_functions_that_are_elsewhere)
{
	kernel_symbols_free(worker.kernel);
	function_count = 0;
	worker.kernel_debug.build_id_length = 0;
	read_kernel(8);
	for (unsigned int i = 0; i < function_count; i++)
		functions[i].vaddr += 8;
	kernel_debug_ask(&worker);
	answer(0, open_program(FIXTURE), 0);
	expect_no_names();
}

Test(kernel_debug, is_asked_for_once)
{
	kernel_debug_ask(&worker);
	answer(0, -1, ENOENT);
	later_ns = 100 * LIMIT_DEBUG_RETRY_MS * NS_PER_MS;
	expect_no_names();
	expect_asked(1);
	/* Nobody asked for this. */
	answer(0, open_program(FIXTURE), 0);
	expect_no_names();
}

static void expect_asked_later(unsigned int times)
{
	later_ns += LIMIT_DEBUG_RETRY_MS * NS_PER_MS;
	expect_no_names();
	expect_asked(times);
}

Test(kernel_debug, is_asked_for_again_after_an_error)
{
	refusal = -ENOBUFS;
	kernel_debug_ask(&worker);
	refusal = 0;
	expect_no_names();
	expect_asked(1);
	expect_asked_later(2);
	answer(0, -1, ETIMEDOUT);
	expect_no_names();
	expect_asked(2);
	expect_asked_later(3);
	answer(0, -1, ENOENT);
	expect_asked_later(3);
}

Test(kernel_debug, without_a_build_id_is_not_asked_for)
{
	worker.kernel_debug.build_id_length = 0;
	kernel_debug_ask(&worker);
	expect_no_names();
	expect_asked(0);
}

/* A file that cannot be read is as good as none. */
Test(kernel_debug, may_be_any_bytes)
{
	const int fd = memfd_create("vmlinux", MFD_CLOEXEC);

	kernel_debug_ask(&worker);
	cr_assert_eq(write(fd,
			   "\x7f"
			   "ELF",
			   4),
		     4);
	answer(0, fd, 0);
	expect_no_names();
}
