/* SPDX-License-Identifier: Apache-2.0 */
/* Which files can be a language runtime, by their symbols: files of this machine, and some that are made for the test. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <glob.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file_read.h"
#include "common/runtimes.h"
#include "tests/unit/parse/go_fixture.h"
#include "unwinder-mgr/runtime_check.h"

enum {
	PYTHON = 1 << RUNTIME_ID_CPYTHON,
	JAVA = 1 << RUNTIME_ID_HOTSPOT,
	JIT_DEBUG = 1 << RUNTIME_ID_JIT_DEBUG,
	GO = 1 << RUNTIME_ID_GO
};

static bool is_runtime(const char *path, uint32_t wanted)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	cr_assert(fd >= 0 && fstat(fd, &st) == 0, "%s", path);
	const struct elf_source source = {.read = file_read_from, .context = &fd, .size = (uint64_t)st.st_size};
	const enum runtime_access access = runtime_check_file(&source, wanted);
	close(fd);
	cr_expect_neq(access, RUNTIME_ACCESS_WALK, "%s", path);
	return access == RUNTIME_ACCESS_READ;
}

/* Checks all files that match the pattern. Returns how many. */
static size_t expect_all(const char *pattern, bool expected, uint32_t wanted)
{
	glob_t found;

	if (glob(pattern, 0, NULL, &found))
		return 0;
	for (size_t i = 0; i < found.gl_pathc; i++)
		cr_expect_eq(is_runtime(found.gl_pathv[i], wanted), expected, "%s", found.gl_pathv[i]);
	const size_t count = found.gl_pathc;
	globfree(&found);
	return count;
}

/* Debian's interpreter contains CPython, and is stripped. */
Test(runtime_check, python_is_a_runtime)
{
	cr_expect(is_runtime("/usr/bin/python3", RUNTIME_SET_ALL));
	cr_expect(is_runtime("/usr/bin/python3", PYTHON));
	cr_expect_not(is_runtime("/usr/bin/python3", JAVA));
	cr_expect_not(is_runtime("/usr/bin/python3", 0));
}

Test(runtime_check, python_libraries_are_runtimes)
{
	size_t count = expect_all("/usr/lib/*/libpython3.*.so.1.0", true, PYTHON);

	count += expect_all("/root/.pyenv/versions/3.*/lib/libpython3.*.so.1.0", true, PYTHON);
	count += expect_all("/usr/local/lib/libpython3.*.so.1.0", true, PYTHON);
	if (!count)
		cr_skip_test("there is no libpython");
}

Test(runtime_check, virtual_machines_are_runtimes)
{
	if (!expect_all("/usr/lib/jvm/*/lib/server/libjvm.so", true, JAVA))
		cr_skip_test("there is no JDK");
	expect_all("/usr/lib/jvm/*/lib/server/libjvm.so", false, PYTHON);
	expect_all("/usr/lib/jvm/*/lib/*.so", false, RUNTIME_SET_ALL);
}

/* What every process maps, and what uses a runtime without being one. */
Test(runtime_check, other_files_are_not)
{
	Dl_info libc;

	cr_assert(dladdr((void *)(uintptr_t)read, &libc));
	cr_expect_not(is_runtime(libc.dli_fname, RUNTIME_SET_ALL), "%s", libc.dli_fname);
	cr_expect_not(is_runtime("/proc/self/exe", RUNTIME_SET_ALL));
	cr_expect_not(is_runtime("/bin/sh", RUNTIME_SET_ALL));
	cr_expect_not(is_runtime("/etc/passwd", RUNTIME_SET_ALL));
	expect_all("/usr/lib/python3*/lib-dynload/*.so", false, RUNTIME_SET_ALL);
	cr_expect_not(is_runtime(FIXTURE_USER, RUNTIME_SET_ALL));
}

Test(runtime_check, one_of_the_symbols_is_not_enough)
{
	cr_expect_not(is_runtime(FIXTURE_PART, RUNTIME_SET_ALL));
}

/* Only if it is stripped, a statically linked interpreter cannot be recognised; nor can the worker use it. */
Test(runtime_check, a_static_program_is_recognised_by_its_symbol_table)
{
	cr_expect(is_runtime(FIXTURE_STATIC, PYTHON));
	cr_expect_not(is_runtime(FIXTURE_STATIC, JAVA));
	cr_expect_not(is_runtime(FIXTURE_STRIPPED, RUNTIME_SET_ALL));
}

/* The symbols of this runtime need not be exported, and those of the others do. */
Test(runtime_check, symbols_that_are_not_exported)
{
	cr_expect(is_runtime(FIXTURE_JIT, RUNTIME_SET_ALL));
	cr_expect(is_runtime(FIXTURE_JIT, JIT_DEBUG));
	cr_expect_not(is_runtime(FIXTURE_JIT, RUNTIME_SET_ALL & ~(uint32_t)JIT_DEBUG));
	cr_expect_not(is_runtime(FIXTURE_JIT_STRIPPED, RUNTIME_SET_ALL));
}

/* --- programs of Go, which need no symbols --- */

static const char with_all[] = "runtime.goexit\0runtime.systemstack\0runtime.morestack";
static const char with_others[] = "runtime.goexit\0runtime.systemstack\0runtime.morestacks";

static struct go_fixture go;

static bool is_go_with(const char *names, size_t length, uint32_t wanted)
{
	struct elf_buffer buffer = {&go.file, sizeof(go.file)};
	const struct elf_source source = elf_source_from_buffer(&buffer);

	memset(go.file.names, 0, sizeof(go.file.names));
	memcpy(go.file.names, names, length);
	const enum runtime_access access = runtime_check_file(&source, wanted);
	cr_expect_neq(access, RUNTIME_ACCESS_READ, "no memory is handed out");
	return access == RUNTIME_ACCESS_WALK;
}

Test(runtime_check, a_program_of_go_is_recognised_by_its_functions)
{
	for (enum go_format format = GO_1_18; format <= GO_PIE; format++) {
		go_fixture_init(&go, format);
		cr_expect(is_go_with(with_all, sizeof(with_all), GO), "%d", format);
		cr_expect(is_go_with(with_all, sizeof(with_all), RUNTIME_SET_ALL), "%d", format);
		cr_expect_not(is_go_with(with_all, sizeof(with_all), RUNTIME_SET_ALL & ~(uint32_t)GO), "%d", format);
		cr_expect_not(is_go_with(with_others, sizeof(with_others), GO), "%d", format);
	}
}

/* The file may change while it is read, or be cut. */
Test(runtime_check, forged_programs_of_go_are_not_recognised)
{
	go_fixture_init(&go, GO_1_20);
	/* The names begin after the end of the table, or end before their start. */
	go.file.table.names_at = sizeof(go.file);
	cr_expect_not(is_go_with(with_all, sizeof(with_all), GO));
	go_fixture_init(&go, GO_1_20);
	go.file.table.units_at = go.file.table.names_at - 1;
	cr_expect_not(is_go_with(with_all, sizeof(with_all), GO));
	go_fixture_init(&go, GO_1_20);
	go.file.table.units_at = go.file.table.names_at + sizeof(with_all) - 2;
	cr_expect_not(is_go_with(with_all, sizeof(with_all), GO), "the last name is cut");
	go_fixture_init(&go, GO_1_20);
	go.file.table.magic++;
	cr_expect_not(is_go_with(with_all, sizeof(with_all), GO));
}
