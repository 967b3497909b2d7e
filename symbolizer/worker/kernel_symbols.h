/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of kernel functions, including those of loadable modules and BPF programs.
 *
 * How this works:
 * - /proc/kallsyms is read once. The loader has opened it with CAP_SYSLOG, without which all
 *   addresses are zero. Symbols take 12 bytes each, sorted by address; names are in a pool, where a
 *   name that ends the one before it shares its bytes (__pfx_schedule, schedule).
 * - Text that is registered or unregistered later (KSYMBOL records of the perf sideband) is kept in
 *   a second table, which is searched first.
 * - A lookup finds the last symbol at or below the address. Where the text of a module or of a BPF
 *   program ends is not in kallsyms, so a symbol there covers at most 1 MiB.
 *
 * Example: 0xffffffff81000100 is between schedule (...0080) and io_schedule (...0200): "schedule"
 * in "vmlinux". A BPF program is loaded at 0xffffffffc0001000 with 200 bytes: addresses in these
 * 200 bytes have its name from the record of its registration to the record of its removal.
 */
#ifndef SYMBOLIZER_WORKER_KERNEL_SYMBOLS_H
#define SYMBOLIZER_WORKER_KERNEL_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kernel_symbols;

struct kernel_symbol {
	char name[256];
	char module[64]; /* "vmlinux", a module's name, or "bpf" */
	uint64_t start;
};

/* Reads all of `kallsyms_fd` (from offset 0, by pread). Returns 0; -EPERM if all addresses read as
 * zero; -ENOMEM; or a negative errno of pread(2). The caller frees `*symbols`. */
int kernel_symbols_new(int kallsyms_fd, struct kernel_symbols **symbols);
void kernel_symbols_free(struct kernel_symbols *symbols);

/* Returns the memory that the tables and names hold, in bytes. */
size_t kernel_symbols_bytes(const struct kernel_symbols *symbols);

/* Record that a range of text was registered (name as in PERF_RECORD_KSYMBOL) or unregistered.
 * Beyond 4,096 ranges the oldest is evicted. Names are made printable. Returns 0; -ENOMEM; or
 * -EINVAL if the range is empty or exceeds the address space. */
int kernel_symbols_register(struct kernel_symbols *symbols, uint64_t address, uint32_t length,
			    const char *name, bool is_bpf);
void kernel_symbols_unregister(struct kernel_symbols *symbols, uint64_t address);

/* Returns the address of _text, where the kernel itself starts, or 0 if it is unknown. */
uint64_t kernel_symbols_text(const struct kernel_symbols *symbols);

/* Finds the last symbol at or below `address`. Returns false if no text is recorded there. */
bool kernel_symbols_find(const struct kernel_symbols *symbols, uint64_t address,
			 struct kernel_symbol *symbol);

#endif
