/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/worker/kernel_symbols.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>

#include "common/cleanup.h"

static struct kernel_symbols *read_text(const char *text)
{
	_cleanup_close_ int fd = memfd_create("kallsyms", MFD_CLOEXEC);
	struct kernel_symbols *symbols = NULL;

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	cr_assert_eq(kernel_symbols_new(fd, &symbols), 0);
	return symbols;
}

static void check(const struct kernel_symbols *symbols, uint64_t address, const char *name,
		  const char *module)
{
	struct kernel_symbol found;

	cr_assert(kernel_symbols_find(symbols, address, &found), "%llx",
		  (unsigned long long)address);
	cr_assert_str_eq(found.name, name);
	cr_assert_str_eq(found.module, module);
	cr_assert_leq(found.start, address);
}

static void check_none(const struct kernel_symbols *symbols, uint64_t address)
{
	struct kernel_symbol found;

	cr_assert_not(kernel_symbols_find(symbols, address, &found), "%llx is %s",
		      (unsigned long long)address, found.name);
}

static const char text[] = "ffffffff81000000 T _text\n"
			   "ffffffff81000000 T startup_64\n"
			   "ffffffff81000000 T _stext\n"
			   "ffffffff81000100 t __pfx_schedule\n"
			   "ffffffff81000110 T schedule\n"
			   "ffffffff81000200 W weak_one\n"
			   "ffffffff81000200 T strong_one_with_a_longer_name\n"
			   "ffffffff81000280 D jiffies\n"
			   "ffffffff81000300 t _RNvNtCs1234_6kernel4sync4wait\n"
			   "ffffffff81000400 T _etext\n"
			   "ffffffff82000000 t boot_only\n"
			   "ffffffffc0300000 t second\t[zfs]\n"
			   "ffffffffc0300010 t third\t[zfs]\n"
			   "garbage\n"
			   "ffffffffc0200000 t first\t[ext4]\n"
			   "ffffffffc0200020 d data\t[ext4]\n"
			   "ffffffffc0500000 t bpf_prog_old\t[bpf]\n";

Test(kernel_symbols, an_address_belongs_to_the_last_symbol_before_it)
{
	struct kernel_symbols *symbols = read_text(text);

	check(symbols, 0xffffffff81000000, "startup_64", "vmlinux");
	check(symbols, 0xffffffff81000105, "__pfx_schedule", "vmlinux");
	check(symbols, 0xffffffff81000110, "schedule", "vmlinux");
	check(symbols, 0xffffffff810001ff, "schedule", "vmlinux");
	check(symbols, 0xffffffff810002ff, "strong_one_with_a_longer_name", "vmlinux");
	check(symbols, 0xffffffff81000310, "kernel::sync::wait", "vmlinux");
	check(symbols, 0xffffffff810003ff, "kernel::sync::wait", "vmlinux");
	check_none(symbols, 0xffffffff81000400);
	check_none(symbols, 0xffffffff82000010);
	check_none(symbols, 0xffffffff80ffffff);
	check_none(symbols, 0x401000);
	check_none(symbols, 0);
	check_none(symbols, UINT64_MAX);
	check(symbols, 0xffffffffc0200040, "first", "ext4");
	check(symbols, 0xffffffffc030000f, "second", "zfs");
	check(symbols, 0xffffffffc0300010, "third", "zfs");
	check(symbols, 0xffffffffc030000f + 1024 * 1024, "third", "zfs");
	check_none(symbols, 0xffffffffc0300010 + 1024 * 1024);
	kernel_symbols_free(symbols);
	kernel_symbols_free(NULL);
}

Test(kernel_symbols, hidden_addresses_are_refused)
{
	_cleanup_close_ int fd = memfd_create("kallsyms", MFD_CLOEXEC);
	struct kernel_symbols *symbols = NULL;
	static const char zeros[] = "0000000000000000 T _stext\n0000000000000000 t foo\n";

	cr_assert_eq(write(fd, zeros, sizeof(zeros) - 1), sizeof(zeros) - 1);
	cr_assert_eq(kernel_symbols_new(fd, &symbols), -EPERM);
	cr_assert_null(symbols);
	cr_assert_eq(kernel_symbols_new(-1, &symbols), -EBADF);
	symbols = read_text("");
	check_none(symbols, 0xffffffff81000000);
	kernel_symbols_free(symbols);
}

Test(kernel_symbols, registered_text_is_found_until_it_is_unregistered)
{
	struct kernel_symbols *symbols = read_text(text);

	cr_assert_eq(
	    kernel_symbols_register(symbols, 0xffffffffd0600000, 0x100, "bpf_prog_1\n", true), 0);
	cr_assert_eq(
	    kernel_symbols_register(symbols, 0xffffffffd0600100, 0x10, "kprobe_insn", false), 0);
	check(symbols, 0xffffffffd0600000, "bpf_prog_1\\x0a", "bpf");
	check(symbols, 0xffffffffd06000ff, "bpf_prog_1\\x0a", "bpf");
	check(symbols, 0xffffffffd060010f, "kprobe_insn", "vmlinux");
	check_none(symbols, 0xffffffffd0600110);
	/* Ranges that overlap a new one are dropped. */
	cr_assert_eq(kernel_symbols_register(symbols, 0xffffffffd06000f0, 0x18, "bpf_prog_2", true),
		     0);
	check_none(symbols, 0xffffffffd0600000);
	check_none(symbols, 0xffffffffd0600108);
	check(symbols, 0xffffffffd0600100, "bpf_prog_2", "bpf");
	kernel_symbols_unregister(symbols, 0xffffffffd06000f1);
	check(symbols, 0xffffffffd0600100, "bpf_prog_2", "bpf");
	kernel_symbols_unregister(symbols, 0xffffffffd06000f0);
	check_none(symbols, 0xffffffffd0600100);
	/* Text that kallsyms listed can be unregistered too, but not text of the core kernel. */
	check(symbols, 0xffffffffc0500010, "bpf_prog_old", "bpf");
	kernel_symbols_unregister(symbols, 0xffffffffc0500000);
	check_none(symbols, 0xffffffffc0500010);
	kernel_symbols_unregister(symbols, 0xffffffff81000110);
	check(symbols, 0xffffffff81000111, "schedule", "vmlinux");
	/* Other text may be registered at the same address. */
	cr_assert_eq(
	    kernel_symbols_register(symbols, 0xffffffffc0500000, 0x20, "bpf_prog_new", true), 0);
	check(symbols, 0xffffffffc0500010, "bpf_prog_new", "bpf");
	cr_assert_eq(kernel_symbols_register(symbols, 0x1000, 0, "x", true), -EINVAL);
	cr_assert_eq(kernel_symbols_register(symbols, UINT64_MAX - 1, 16, "x", true), -EINVAL);
	kernel_symbols_free(symbols);
}

Test(kernel_symbols, the_oldest_range_is_evicted)
{
	struct kernel_symbols *symbols = read_text("");
	size_t full;

	/* Register from high to low addresses, so that the oldest range is not the first one. */
	for (uint64_t i = 0; i < 4096; i++)
		kernel_symbols_register(symbols, 0x10000000 - i * 64, 64, "bpf_prog", true);
	full = kernel_symbols_bytes(symbols);
	check(symbols, 0x10000000, "bpf_prog", "bpf");
	kernel_symbols_register(symbols, 0x20000000, 64, "bpf_prog", true);
	check_none(symbols, 0x10000000);
	check(symbols, 0x10000000 - 64, "bpf_prog", "bpf");
	check(symbols, 0x20000000, "bpf_prog", "bpf");
	cr_assert_eq(kernel_symbols_bytes(symbols), full);
	/* One range replaces all those that it covers. */
	kernel_symbols_register(symbols, 0x1000, 0x7fffffff, "giant", true);
	check(symbols, 0x10000000 - 64, "giant", "bpf");
	cr_assert_lt(kernel_symbols_bytes(symbols), full);
	kernel_symbols_free(symbols);
}

/* Returns a copy of /proc/kallsyms, so that both readers of the test see the same BPF programs,
 * which others may load and unload meanwhile. NULL: there is none. */
static FILE *copy_of_kallsyms(void)
{
	_cleanup_fclose_ FILE *kallsyms = fopen("/proc/kallsyms", "re");
	FILE *copy = kallsyms ? fdopen(memfd_create("kallsyms", MFD_CLOEXEC), "r+") : NULL;
	char block[65536];
	size_t n;

	while (copy && (n = fread(block, 1, sizeof(block), kallsyms)) > 0)
		cr_assert_eq(fwrite(block, 1, n, copy), n);
	if (copy)
		rewind(copy);
	return copy;
}

/* The same text is read a second time, with getline() and strtoull(). For each text symbol a lookup
 * must find its address, with one of the names of that address. */
Test(kernel_symbols, every_symbol_of_the_running_kernel_is_found)
{
	_cleanup_fclose_ FILE *file = copy_of_kallsyms();
	_cleanup_free_ char *line = NULL;
	struct kernel_symbols *symbols = NULL;
	struct kernel_symbol found;
	struct timespec before, after;
	size_t size = 0, checked = 0, named = 0;
	uint64_t etext = 0, previous = 0;
	int r;

	if (!file)
		cr_skip("no /proc/kallsyms");
	clock_gettime(CLOCK_MONOTONIC, &before);
	r = kernel_symbols_new(fileno(file), &symbols);
	clock_gettime(CLOCK_MONOTONIC, &after);
	if (r == -EPERM)
		cr_skip("addresses are hidden");
	cr_assert_eq(r, 0);
	rewind(file);
	while (getline(&line, &size, file) > 0) {
		char *end, *name, type;
		uint64_t address = strtoull(line, &end, 16);

		type = end[1];
		name = strtok(end + 3, " \t\n");
		if (!strchr("tTwW", type))
			continue;
		if (strcmp(name, "_etext") == 0)
			etext = address;
		if (etext && address >= etext && !strtok(NULL, " \t\n"))
			continue;
		cr_assert(kernel_symbols_find(symbols, address, &found), "%s", name);
		cr_assert_eq(found.start, address, "%s: %s", name, found.name);
		/* Each address has one name in the index. Count the lines that have this name. */
		if (strncmp(found.name, name, sizeof(found.name) - 1) == 0 ||
		    strncmp(name, "_R", 2) == 0)
			named++;
		if (address != previous)
			checked++;
		previous = address;
	}
	/* Aliases that have the same name twice make `named` the larger one. */
	cr_assert_geq(named, checked);
	cr_assert_gt(checked, 1000);
	cr_log_info("%zu addresses, %zu bytes, %.1f ms", checked, kernel_symbols_bytes(symbols),
		    (double)(after.tv_sec - before.tv_sec) * 1e3 +
			(double)(after.tv_nsec - before.tv_nsec) / 1e6);
	kernel_symbols_free(symbols);
}
