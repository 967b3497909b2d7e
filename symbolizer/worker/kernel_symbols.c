/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/worker/kernel_symbols.h"

#include <assert.h>
#include <errno.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/escape.h"
#include "common/file_read.h"
#include "common/search.h"
#include "parse/kallsyms.h"
#include "symbolizer/worker/symbol_name.h"

enum {
	READ_BYTES = 64 * 1024,
	FIRST_CAPACITY = 64,	       /* items of a table at first */
	SYMBOLS_MAX = 4 * 1000 * 1000, /* 20 times what a distribution's kernel has */
	POOL_BYTES_MAX = 128 * 1024 * 1024,
	MODULES_MAX = 8192,
	MODULE_NAME_MAX = 64,
	RANGES_MAX = 4096,
	/* A symbol of a module, or of a BPF program that was loaded before the recording, covers at
	 * most this much: where its text ends is not in kallsyms. */
	REACH_MAX_BYTES = 1024 * 1024,
	RELATIVE_BITS = 47,
	NAME_GONE = 0,	 /* offset in the pool of "": the text was unregistered */
	MODULE_CORE = 0, /* "vmlinux" */
};

/* 12 bytes. The address is base + high:low, 48 bits. */
struct entry {
	uint32_t low, name;
	uint16_t high;
	uint16_t module : 14;
	uint16_t weak : 1;
	uint16_t global : 1;
};
static_assert(sizeof(struct entry) == 12, "the table is meant to be compact");
static_assert(MODULES_MAX <= 1 << 14, "ids of modules have 14 bits");

/* Text that was registered after kallsyms was read. */
struct range {
	uint64_t start;
	uint64_t sequence; /* order of registration */
	char *name;
	uint32_t length;
	bool is_bpf;
};

struct kernel_symbols {
	uint64_t base;	       /* all entries are relative to it */
	uint64_t core_start;   /* _text, or 0 if unknown */
	uint64_t core_end;     /* _etext, or 0 if unknown */
	struct entry *entries; /* sorted by address, one each */
	char *pool;	       /* names, each NUL-terminated; some start within another */
	char (*modules)[MODULE_NAME_MAX];
	struct range *ranges; /* sorted by address, apart from each other */
	uint64_t next_sequence;
	uint32_t entry_count, pool_length, module_count, range_count;
	size_t entry_capacity, pool_capacity, module_capacity;
};

/* --- reading --- */

struct reading {
	struct kernel_symbols *symbols;
	uint32_t last_name; /* in the pool */
	uint32_t last_name_length;
	uint32_t last_module;
	bool sorted, any, any_address;
	uint64_t previous;
};

/* Finds the offset of a name in the pool, to which it is added unless it is there. Half of a
 * kernel's symbols are __pfx_NAME, __cfi_NAME or the like and precede NAME. So a name that is the
 * end of the name before shares its bytes. */
static int intern_name(struct reading *reading, const char *name, size_t length, uint32_t *offset)
{
	struct kernel_symbols *symbols = reading->symbols;
	uint32_t size = (uint32_t)length + 1; /* below KALLSYMS_LINE_MAX */
	int r;

	if (length <= reading->last_name_length) {
		uint32_t at = reading->last_name + reading->last_name_length - (uint32_t)length;

		if (memcmp(symbols->pool + at, name, length) == 0) {
			*offset = at;
			return 0;
		}
	}
	r = ARRAY_RESERVE(symbols->pool, symbols->pool_capacity, symbols->pool_length + size,
			  FIRST_CAPACITY, POOL_BYTES_MAX);
	if (r)
		return r;
	*offset = symbols->pool_length;
	memcpy(symbols->pool + *offset, name, length);
	symbols->pool[*offset + length] = '\0';
	symbols->pool_length += size;
	reading->last_name = *offset;
	reading->last_name_length = (uint32_t)length;
	return 0;
}

static int intern_module(struct reading *reading, const char *name, size_t length, uint32_t *id)
{
	struct kernel_symbols *symbols = reading->symbols;
	char printable[MODULE_NAME_MAX];
	int r;

	escape_text(printable, sizeof(printable), name, length, ESCAPE_KEEP_PRINTABLE, NULL);
	/* The symbols of a module follow each other. */
	if (strcmp(symbols->modules[reading->last_module], printable) == 0) {
		*id = reading->last_module;
		return 0;
	}
	for (*id = 0; *id < symbols->module_count; ++*id) {
		if (strcmp(symbols->modules[*id], printable) == 0) {
			reading->last_module = *id;
			return 0;
		}
	}
	r = ARRAY_RESERVE(symbols->modules, symbols->module_capacity, symbols->module_count + 1,
			  FIRST_CAPACITY, MODULES_MAX);
	if (r)
		return r;
	memcpy(symbols->modules[symbols->module_count], printable, sizeof(printable));
	reading->last_module = symbols->module_count;
	*id = symbols->module_count++;
	return 0;
}

static bool is_text(char type)
{
	return type == 't' || type == 'T' || type == 'w' || type == 'W';
}

/* Returns whether it is a symbol of the kernel's linker script. */
static bool is_mark(const struct kallsyms_symbol *symbol, const char *name)
{
	return !symbol->module && symbol->name_length == strlen(name) &&
	       memcmp(symbol->name, name, strlen(name)) == 0;
}

static int visit_symbol(void *context, const struct kallsyms_symbol *symbol)
{
	struct reading *reading = context;
	struct kernel_symbols *symbols = reading->symbols;
	uint32_t module = MODULE_CORE, name;
	uint64_t relative;
	int r = 0;

	if (!is_text(symbol->type))
		return 0;
	reading->any = true;
	if (symbol->address == 0)
		return 0;
	reading->any_address = true;
	if (is_mark(symbol, "_text"))
		symbols->core_start = symbol->address;
	if (is_mark(symbol, "_etext"))
		symbols->core_end = symbol->address;
	/* Code that is only used at boot follows _etext. */
	if (!symbol->module && symbols->core_end && symbol->address >= symbols->core_end)
		return 0;
	/* Text, modules and JITs lie within one half (2^47 bytes) of the address space. */
	if (symbols->entry_count == 0)
		symbols->base = symbol->address & ~((1ull << RELATIVE_BITS) - 1);
	relative = symbol->address - symbols->base;
	if (relative >> RELATIVE_BITS)
		return 0;
	if (symbol->module)
		r = intern_module(reading, symbol->module, symbol->module_length, &module);
	if (r == 0)
		r = intern_name(reading, symbol->name, symbol->name_length, &name);
	if (r == 0)
		r = ARRAY_RESERVE(symbols->entries, symbols->entry_capacity,
				  symbols->entry_count + 1, FIRST_CAPACITY, SYMBOLS_MAX);
	/* A symbol beyond a limit is left out. */
	if (r)
		return r == -E2BIG ? 0 : r;
	reading->sorted = reading->sorted && symbol->address >= reading->previous;
	reading->previous = symbol->address;
	symbols->entries[symbols->entry_count++] = (struct entry){
	    .low = (uint32_t)relative,
	    .high = (uint16_t)(relative >> 32),
	    .name = name,
	    .module = module & (MODULES_MAX - 1),
	    .weak = (symbol->type | 0x20) == 'w',
	    .global = symbol->type == 'T',
	};
	return 0;
}

static uint64_t entry_relative(const struct entry *entry)
{
	return (uint64_t)entry->high << 32 | entry->low;
}

static int compare_entries(const void *a, const void *b)
{
	uint64_t x = entry_relative(a), y = entry_relative(b);

	return (x > y) - (x < y);
}

/* Returns whether `a` is the better one of two names of one address. The marks of the linker script
 * (_text, __irqentry_text_start) are global, while the functions that start there often are not. So
 * leading underscores count before the binding. */
static bool is_better(const struct kernel_symbols *symbols, const struct entry *a,
		      const struct entry *b)
{
	const char *a_name = symbols->pool + a->name, *b_name = symbols->pool + b->name;
	size_t a_underscores = strspn(a_name, "_"), b_underscores = strspn(b_name, "_");

	if ((a_underscores > 0) != (b_underscores > 0))
		return a_underscores == 0;
	if (a->weak != b->weak)
		return !a->weak;
	if (a->global != b->global)
		return a->global;
	return strlen(a_name) < strlen(b_name);
}

static void finish_entries(struct kernel_symbols *symbols, bool sorted)
{
	struct entry *entries = symbols->entries;
	uint32_t kept = 0;

	if (symbols->entry_count == 0)
		return;
	if (!sorted)
		qsort(entries, symbols->entry_count, sizeof(*entries), compare_entries);
	for (uint32_t i = 1; i < symbols->entry_count; i++) {
		if (entry_relative(&entries[i]) != entry_relative(&entries[kept]))
			entries[++kept] = entries[i];
		else if (is_better(symbols, &entries[i], &entries[kept]))
			entries[kept] = entries[i];
	}
	symbols->entry_count = kept + 1;

	ARRAY_FIT(symbols->entries, symbols->entry_capacity, symbols->entry_count);
	ARRAY_FIT(symbols->pool, symbols->pool_capacity, symbols->pool_length);
}

static int read_all(int fd, struct kallsyms_parser *parser)
{
	_cleanup_free_ char *buffer = malloc(READ_BYTES);
	uint64_t offset = 0;
	int r = 0;

	if (!buffer)
		return -ENOMEM;
	while (r == 0) {
		const ssize_t n = file_read_fully_at(fd, offset, buffer, READ_BYTES);

		if (n < 0)
			return (int)n;
		if (n == 0)
			return kallsyms_finish(parser);
		offset += (uint64_t)n;
		r = kallsyms_feed(parser, buffer, (size_t)n);
	}
	return r;
}

static void cleanup_kernel_symbols(struct kernel_symbols **symbols)
{
	kernel_symbols_free(*symbols);
}

/* Starts the tables with their reserved entries: the empty name and the core kernel. */
static int start_tables(struct kernel_symbols *symbols)
{
	int r =
	    ARRAY_RESERVE(symbols->pool, symbols->pool_capacity, 1, FIRST_CAPACITY, POOL_BYTES_MAX);

	if (r == 0)
		r = ARRAY_RESERVE(symbols->modules, symbols->module_capacity, 1, FIRST_CAPACITY,
				  MODULES_MAX);
	if (r)
		return r;
	symbols->pool[NAME_GONE] = '\0';
	symbols->pool_length = 1;
	memcpy(symbols->modules[MODULE_CORE], "vmlinux", sizeof("vmlinux"));
	symbols->module_count = 1;
	return 0;
}

int kernel_symbols_new(int kallsyms_fd, struct kernel_symbols **symbols)
{
	_cleanup_(cleanup_kernel_symbols) struct kernel_symbols *made = calloc(1, sizeof(*made));
	_cleanup_free_ struct kallsyms_parser *parser = malloc(sizeof(*parser));
	struct reading reading = {.symbols = made, .sorted = true};
	int r;

	if (!made || !parser)
		return -ENOMEM;
	r = start_tables(made);
	if (r)
		return r;
	kallsyms_init(parser, visit_symbol, &reading);
	r = read_all(kallsyms_fd, parser);
	if (r)
		return r;
	if (reading.any && !reading.any_address)
		return -EPERM;
	finish_entries(made, reading.sorted);
	*symbols = TAKE_PTR(made);
	return 0;
}

void kernel_symbols_free(struct kernel_symbols *symbols)
{
	if (!symbols)
		return;
	for (uint32_t i = 0; i < symbols->range_count; i++)
		free(symbols->ranges[i].name);
	free(symbols->ranges);
	free(symbols->entries);
	free(symbols->pool);
	free(symbols->modules);
	free(symbols);
}

size_t kernel_symbols_bytes(const struct kernel_symbols *symbols)
{
	size_t bytes = sizeof(*symbols) + symbols->entry_capacity * sizeof(struct entry) +
		       symbols->pool_capacity + symbols->module_capacity * MODULE_NAME_MAX;

	if (symbols->ranges)
		bytes += RANGES_MAX * sizeof(struct range);
	for (uint32_t i = 0; i < symbols->range_count; i++)
		bytes += strlen(symbols->ranges[i].name) + 1;
	return bytes;
}

/* --- ranges that are registered and unregistered --- */

/* Returns the number of ranges that start at or below `address`. */
static uint32_t ranges_up_to(const struct kernel_symbols *symbols, uint64_t address)
{
	return (uint32_t)SEARCH_LOWER_BOUND(i, symbols->range_count,
					    symbols->ranges[i].start <= address);
}

static void range_remove(struct kernel_symbols *symbols, uint32_t index)
{
	struct range *ranges = symbols->ranges;

	free(ranges[index].name);
	symbols->range_count--;
	memmove(&ranges[index], &ranges[index + 1],
		(symbols->range_count - index) * sizeof(ranges[0]));
}

/* Removes the ranges that overlap new text. They were unregistered, and the record of that was
 * lost: two texts cannot be at one address. */
static void ranges_remove_overlapping(struct kernel_symbols *symbols, uint64_t start,
				      uint32_t length)
{
	uint32_t index = ranges_up_to(symbols, start);

	if (index > 0 &&
	    start - symbols->ranges[index - 1].start < symbols->ranges[index - 1].length)
		index--;
	while (index < symbols->range_count && (symbols->ranges[index].start <= start ||
						symbols->ranges[index].start - start < length))
		range_remove(symbols, index);
}

static void ranges_remove_oldest(struct kernel_symbols *symbols)
{
	uint32_t oldest = 0;

	for (uint32_t i = 1; i < symbols->range_count; i++) {
		if (symbols->ranges[i].sequence < symbols->ranges[oldest].sequence)
			oldest = i;
	}
	range_remove(symbols, oldest);
}

int kernel_symbols_register(struct kernel_symbols *symbols, uint64_t address, uint32_t length,
			    const char *name, bool is_bpf)
{
	char printable[sizeof(((struct kernel_symbol *)NULL)->name)];
	uint32_t index;
	char *copy;

	if (length == 0 || address > UINT64_MAX - length)
		return -EINVAL;
	symbol_name_format(name, printable, sizeof(printable));
	if (!symbols->ranges)
		symbols->ranges = calloc(RANGES_MAX, sizeof(symbols->ranges[0]));
	copy = symbols->ranges ? strdup(printable) : NULL;
	if (!copy)
		return -ENOMEM;
	ranges_remove_overlapping(symbols, address, length);
	if (symbols->range_count == RANGES_MAX)
		ranges_remove_oldest(symbols);
	index = ranges_up_to(symbols, address);
	memmove(&symbols->ranges[index + 1], &symbols->ranges[index],
		(symbols->range_count - index) * sizeof(symbols->ranges[0]));
	symbols->ranges[index] = (struct range){
	    .start = address,
	    .sequence = symbols->next_sequence++,
	    .name = copy,
	    .length = length,
	    .is_bpf = is_bpf,
	};
	symbols->range_count++;
	return 0;
}

/* --- lookup --- */

/* Returns the number of entries that start at or below `address`. */
static uint32_t entries_up_to(const struct kernel_symbols *symbols, uint64_t address)
{
	if (address < symbols->base)
		return 0;
	return (uint32_t)SEARCH_LOWER_BOUND(i, symbols->entry_count,
					    entry_relative(&symbols->entries[i]) <=
						address - symbols->base);
}

void kernel_symbols_unregister(struct kernel_symbols *symbols, uint64_t address)
{
	uint32_t index = ranges_up_to(symbols, address);

	if (index > 0 && symbols->ranges[index - 1].start == address)
		range_remove(symbols, index - 1);
	/* The text may have been registered before kallsyms was read, and then has an entry. Text
	 * of the core kernel is never removed. */
	index = entries_up_to(symbols, address);
	if (index > 0 && symbols->base + entry_relative(&symbols->entries[index - 1]) == address &&
	    symbols->entries[index - 1].module != MODULE_CORE)
		symbols->entries[index - 1].name = NAME_GONE;
}

static const struct range *range_find(const struct kernel_symbols *symbols, uint64_t address)
{
	uint32_t index = ranges_up_to(symbols, address);

	if (index == 0 ||
	    address - symbols->ranges[index - 1].start >= symbols->ranges[index - 1].length)
		return NULL;
	return &symbols->ranges[index - 1];
}

uint64_t kernel_symbols_text(const struct kernel_symbols *symbols)
{
	return symbols->core_start;
}

bool kernel_symbols_find(const struct kernel_symbols *symbols, uint64_t address,
			 struct kernel_symbol *symbol)
{
	const struct range *range = range_find(symbols, address);
	const struct entry *entry;
	uint32_t index;
	uint64_t start;

	if (range) {
		const char *module = range->is_bpf ? "bpf" : "vmlinux";

		memcpy(symbol->name, range->name, strlen(range->name) + 1);
		memcpy(symbol->module, module, strlen(module) + 1);
		symbol->start = range->start;
		return true;
	}
	index = entries_up_to(symbols, address);
	if (index == 0)
		return false;
	entry = &symbols->entries[index - 1];
	start = symbols->base + entry_relative(entry);
	if (entry->name == NAME_GONE || address - start >= REACH_MAX_BYTES ||
	    (entry->module == MODULE_CORE && symbols->core_end && address >= symbols->core_end))
		return false;
	symbol_name_format(symbols->pool + entry->name, symbol->name, sizeof(symbol->name));
	memcpy(symbol->module, symbols->modules[entry->module], MODULE_NAME_MAX);
	symbol->start = start;
	return true;
}
