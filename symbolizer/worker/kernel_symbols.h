/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel text symbols, modules and BPF programs included, from /proc/kallsyms (opened by the loader
 * with CAP_SYSLOG, read here once) and from the KSYMBOL records of the perf sideband afterwards.
 * Compact: about 12 bytes a symbol beside its name.
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

/* Read all of `kallsyms_fd` (from offset 0, by pread). 0; -EPERM if all addresses read as zero;
 * -ENOMEM; or what reading gave. */
int kernel_symbols_new(int kallsyms_fd, struct kernel_symbols **symbols);
void kernel_symbols_free(struct kernel_symbols *symbols);
size_t kernel_symbols_bytes(const struct kernel_symbols *symbols);

/* A text range was registered (name as in PERF_RECORD_KSYMBOL) or unregistered. Bounded: beyond
 * 4,096 live ranges the oldest is forgotten. Names are made printable. */
int kernel_symbols_register(struct kernel_symbols *symbols, uint64_t address, uint32_t length,
			    const char *name, bool is_bpf);
void kernel_symbols_unregister(struct kernel_symbols *symbols, uint64_t address);

/* The symbol at or below `address`; false if it lies in no known text. */
bool kernel_symbols_find(const struct kernel_symbols *symbols, uint64_t address,
			 struct kernel_symbol *symbol);

#endif
