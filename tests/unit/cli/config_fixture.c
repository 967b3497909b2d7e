/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/cli/config_fixture.h"

#include <ftw.h>
#include <stdarg.h>
#include <sys/mman.h>

enum {
	ARGUMENTS_MAX = 32,
};

static char directory[] = "/tmp/bulkhead-config-XXXXXX";
static int streams[2]; /* memfds that replace stdout and stderr */

char *no_environment[] = {NULL};
char output[OUTPUT_BYTES], messages[OUTPUT_BYTES];
struct config config;

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *where)
{
	(void)status, (void)kind, (void)where;
	return remove(path);
}

void config_set_up(void)
{
	cr_assert_not_null(mkdtemp(directory));
	cr_assert_eq(chdir(directory), 0);
	umask(022);
	for (int i = 0; i < 2; i++) {
		streams[i] = memfd_create("output", 0);
		cr_assert_geq(streams[i], 0);
	}
}

void config_tear_down(void)
{
	nftw(directory, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

void write_bytes(const char *path, const void *text, size_t length)
{
	FILE *f = fopen(path, "w");

	cr_assert_not_null(f, "%s", path);
	cr_assert_eq(fwrite(text, 1, length, f), length);
	fclose(f);
	cr_assert_eq(chmod(path, 0600), 0);
}

void write_file(const char *path, const char *text)
{
	write_bytes(path, text, strlen(text));
}

static void read_stream(int fd, char *text)
{
	ssize_t n = pread(fd, text, OUTPUT_BYTES - 1, 0);

	cr_assert_geq(n, 0);
	text[n] = 0;
	cr_assert_eq(ftruncate(fd, 0), 0);
	cr_assert_eq(lseek(fd, 0, SEEK_SET), 0);
}

int load_with(char *const environment[], int argc, char **argv)
{
	const int saved[2] = {dup(STDOUT_FILENO), dup(STDERR_FILENO)};
	int r;

	fflush(NULL);
	dup2(streams[0], STDOUT_FILENO);
	dup2(streams[1], STDERR_FILENO);
	r = config_load(argc, argv, environment, &config);
	fflush(NULL);
	for (int i = 0; i < 2; i++) {
		dup2(saved[i], STDOUT_FILENO + i);
		close(saved[i]);
	}
	read_stream(streams[0], output);
	read_stream(streams[1], messages);
	return r;
}

int load(char *const environment[], ...)
{
	char *argv[ARGUMENTS_MAX] = {(char *)(uintptr_t) "run", (char *)(uintptr_t) "--config",
				     (char *)(uintptr_t)MAIN_FILE};
	int argc = 3;
	va_list args;

	va_start(args, environment);
	while (argc < ARGUMENTS_MAX && (argv[argc] = va_arg(args, char *)))
		argc++;
	va_end(args);
	cr_assert_lt(argc, ARGUMENTS_MAX);
	return load_with(environment, argc, argv);
}

size_t lines_of(const char *text)
{
	size_t count = 0;

	for (; *text; text++)
		count += *text == '\n';
	return count;
}
