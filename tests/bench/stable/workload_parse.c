/* SPDX-License-Identifier: Apache-2.0 */
/* Workloads: parsers, and the indexes that are built from their results. */
#include <string.h>
#include <unistd.h>

#include "parse/elf_image.h"
#include "parse/elf_symbols.h"
#include "parse/kallsyms.h"
#include "parse/proc_maps.h"
#include "symbolizer/worker/kernel_symbols.h"
#include "symbolizer/worker/symbol_name.h"
#include "symbolizer/worker/symbols.h"
#include "tests/bench/stable/inputs.h"
#include "tests/bench/stable/measure.h"
#include "tests/bench/stable/workloads.h"

enum {
	ROUNDS = 100,
	LOOKUPS = 4096,
	NAMES = 4096,
	KERNEL_SYMBOLS = 16384,
	MAPS_LINES = 4096,
	PIECE_BYTES = 4096,
	CAP_BYTES = 64 << 20,
};

/* ---- Files ---- */

void workload_elf_image(void)
{
	struct input_elf *elf = input_elf_new();
	struct elf_buffer buffer = {elf->data, elf->length};
	const struct elf_source source = elf_source_from_buffer(&buffer);

	measure_begin();
	for (int i = 0; i < ROUNDS; i++) {
		struct elf_image image;
		uint8_t *data;
		size_t length;

		NEED(!elf_image_init(&image, &source));
		const struct elf_section *section = elf_image_find_section(&image, ".eh_frame");
		NEED(section &&
		     !elf_image_read_section(&image, section, CAP_BYTES, &data, &length));
		NEED(length == elf->eh_frame_length);
		free(data);
		elf_image_fini(&image);
	}
	measure_end(ROUNDS);
}

static int count_functions(void *context, const struct elf_symbol *symbol)
{
	*(uint32_t *)context += elf_symbol_is_function(symbol, true) && elf_symbol_rank(symbol);
	return 0;
}

void workload_elf_symbols(void)
{
	struct input_elf *elf = input_elf_new();
	struct elf_buffer buffer = {elf->data, elf->length};
	const struct elf_source source = elf_source_from_buffer(&buffer);
	struct elf_image image;
	uint32_t functions = 0;
	uint8_t *data;
	size_t length;

	NEED(!elf_image_init(&image, &source));
	const struct elf_section *section = elf_image_find_section(&image, ".symtab");
	NEED(section && !elf_image_read_section(&image, section, CAP_BYTES, &data, &length));
	measure_begin();
	NEED(!elf_symbols_each(data, length, count_functions, &functions));
	measure_end(INPUT_FUNCTIONS);
	NEED(functions == INPUT_FUNCTIONS);
}

void workload_symbols_index(void)
{
	struct input_elf *elf = input_elf_new();
	const int fd = input_file(elf->data, elf->length);
	struct symbols *symbols;

	measure_begin();
	NEED(!symbols_new(fd, CAP_BYTES, &symbols));
	measure_end(INPUT_FUNCTIONS);
	measure_figure("bytes.symbols_index", (double)symbols_bytes(symbols) / INPUT_FUNCTIONS,
		       "bytes/symbol");
}

/* Names of functions, and sometimes of an entry of the procedure linkage table. */
void workload_symbols_find(void)
{
	struct input_elf *elf = input_elf_new();
	const int fd = input_file(elf->data, elf->length);
	struct symbols *symbols;
	struct symbol symbol;

	NEED(!symbols_new(fd, CAP_BYTES, &symbols));
	measure_begin();
	for (uint32_t i = 0; i < LOOKUPS; i++) {
		const struct input_function *f = &elf->functions[input_random(i) % INPUT_FUNCTIONS];
		const bool plt = i % 64 == 0;

		NEED(symbols_find(symbols, plt ? elf->plt + 16u * (i / 64) : f->start + f->size / 2,
				  &symbol));
		NEED(plt ? !strncmp(symbol.name, "import_", 7) : symbol.start_vaddr == f->start);
	}
	measure_end(LOOKUPS);
}

void workload_symbol_name(void)
{
	static char raw[NAMES][INPUT_NAME_BYTES];
	char name[512];
	uint32_t demangled = 0;

	for (uint32_t i = 0; i < NAMES; i++)
		input_name(i, raw[i]);
	measure_begin();
	for (uint32_t i = 0; i < NAMES; i++) {
		NEED(symbol_name_format(raw[i], name, sizeof(name)));
		demangled += strcmp(raw[i], name) != 0;
	}
	measure_end(NAMES);
	NEED(demangled == NAMES / 8 * 5);
}

/* ---- Texts ---- */

static int count_symbols(void *context, const struct kallsyms_symbol *symbol)
{
	*(uint64_t *)context += symbol->name_length > 0;
	return 0;
}

void workload_kallsyms(void)
{
	const struct input_text text = input_kallsyms(KERNEL_SYMBOLS);
	struct kallsyms_parser parser;
	uint64_t count = 0;

	measure_begin();
	kallsyms_init(&parser, count_symbols, &count);
	for (size_t at = 0; at < text.length; at += PIECE_BYTES)
		NEED(!kallsyms_feed(&parser, text.text + at,
				    text.length - at < PIECE_BYTES ? text.length - at
								   : PIECE_BYTES));
	NEED(!kallsyms_finish(&parser));
	measure_end(parser.lines);
	NEED(count == KERNEL_SYMBOLS + 1 && !parser.skipped);
}

void workload_kernel_symbols_index(void)
{
	const struct input_text text = input_kallsyms(KERNEL_SYMBOLS);
	const int fd = input_file(text.text, text.length);
	struct kernel_symbols *symbols;

	measure_begin();
	NEED(!kernel_symbols_new(fd, &symbols));
	measure_end(KERNEL_SYMBOLS);
	measure_figure("bytes.kernel_symbols_index",
		       (double)kernel_symbols_bytes(symbols) / KERNEL_SYMBOLS, "bytes/line");
}

void workload_kernel_symbols_find(void)
{
	const struct input_text text = input_kallsyms(KERNEL_SYMBOLS);
	const int fd = input_file(text.text, text.length);
	struct kernel_symbols *symbols;
	struct kernel_symbol symbol;

	NEED(!kernel_symbols_new(fd, &symbols));
	measure_begin();
	for (uint32_t i = 0; i < LOOKUPS; i++) {
		const uint64_t at =
		    input_kernel_address(input_random(i) % (KERNEL_SYMBOLS / 4 * 3)) + 8;

		NEED(kernel_symbols_find(symbols, at, &symbol) && symbol.start <= at);
	}
	measure_end(LOOKUPS);
}

static void count_mappings(void *context, const struct proc_mapping *mapping)
{
	*(uint32_t *)context += mapping->executable;
}

void workload_proc_maps(void)
{
	const struct input_text text = input_proc_maps(MAPS_LINES);
	uint32_t executable = 0;

	measure_begin();
	NEED(!proc_maps_parse(text.text, text.length, count_mappings, &executable));
	measure_end(MAPS_LINES);
	NEED(executable == MAPS_LINES / 2);
}
