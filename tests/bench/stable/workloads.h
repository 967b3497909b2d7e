/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_BENCH_STABLE_WORKLOADS_H
#define TESTS_BENCH_STABLE_WORKLOADS_H

/* WORKLOAD(name, item): a workload, and the item that its instructions are divided by. */
#define WORKLOADS(X)                                                                               \
	/* workload_parse.c */                                                                     \
	X(elf_image, "file")                                                                       \
	X(elf_symbols, "symbol")                                                                   \
	X(symbols_index, "symbol")                                                                 \
	X(symbols_find, "look-up")                                                                 \
	X(symbol_name, "name")                                                                     \
	X(kallsyms, "line")                                                                        \
	X(kernel_symbols_index, "line")                                                            \
	X(kernel_symbols_find, "look-up")                                                          \
	X(proc_maps, "line")                                                                       \
	/* workload_unwind.c */                                                                    \
	X(cfi, "row")                                                                              \
	X(table_build, "function")                                                                 \
	X(table_place, "function")                                                                 \
	X(walker, "frame")                                                                         \
	/* workload_records.c */                                                                   \
	X(worker_new_names, "frame")                                                               \
	X(worker_new_stacks, "sample")                                                             \
	X(worker_known_stacks, "sample")                                                           \
	X(exporter_new_names, "frame")                                                             \
	X(exporter_new_stacks, "sample")                                                           \
	X(exporter_known_stacks, "sample")                                                         \
	X(sink_otlp, "stack")                                                                      \
	X(sink_pprof, "stack")                                                                     \
	X(sink_html, "stack")                                                                      \
	X(sink_folded, "stack")                                                                    \
	X(sink_speedscope, "stack")                                                                \
	X(sink_tree, "stack")                                                                      \
	X(otlp_read, "stack")

#define WORKLOAD_DECLARE(name, item) void workload_##name(void);
WORKLOADS(WORKLOAD_DECLARE)
#undef WORKLOAD_DECLARE

#endif
