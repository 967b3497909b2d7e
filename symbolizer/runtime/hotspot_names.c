/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/runtime/hotspot_names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bpf/runtime/hotspot.h"
#include "common/cleanup.h"

enum {
	SYMBOL_BYTES = 1024, /* of a name; longer ones are cut */
	NAME_BYTES = 3 * SYMBOL_BYTES,
	POOL_BYTES_MAX = 256,
	LINE_BYTES_MAX = 64 << 10,
	LINES_MAX = 16 << 10,
	FLAG_HAS_LINES = 1,	  /* ConstMethod::_has_linenumber_table, in every version */
	LENGTH_SHIFT = 16,	  /* of Symbol::_length_and_refcount */
	REFERENCES_MASK = 0xffff, /* of Symbol::_hash_and_refcount and those before it */
	POINTER_TAG = 1,	  /* of what is not resolved, in some versions */
	WORD = 8,
	/* Of which one is looked for. */
	LOADERS_MAX = 1024,
	CLASSES_MAX = 32,
	OLD_CLASSES_MAX = 256,
	NUMBERS_MAX = 4096, /* of a method in its class, that are tried */
	NUMBER_SHIFT = 48,  /* of _method_idnum in hotspot_sizes(), in every version */
	METHODS_MAX = 65535,
	METHODS_A_READ = 64,
};

/* While a method is read. */
struct reader {
	const struct hotspot_vm *vm;
	struct memory *memory;
	uint64_t const_method, constants;
	uint64_t words[HOTSPOT_CONST_METHOD_BYTES / 8];
	uint8_t pool[POOL_BYTES_MAX];
	uint64_t sizes; /* hotspot_sizes() */
	uint32_t identity;
	struct hotspot_loaders *loaders;
};

static uint64_t pick(const struct reader *r, enum hotspot_field_name name)
{
	return hotspot_vm_pick(r->vm, name, r->words, sizeof(r->words));
}

/* A Symbol's text, cut. Its length. */
static int read_symbol(const struct reader *r, uint64_t address, char text[SYMBOL_BYTES])
{
	uint64_t length = 0, references = 0;
	int e = address ? hotspot_vm_get(r->vm, r->memory, HOTSPOT_SYMBOL_LENGTH, address, &length)
			: -ESTALE;

	if (e < 0)
		return e;
	if (r->vm->fields[HOTSPOT_SYMBOL_LENGTH].other_name)
		length >>= LENGTH_SHIFT;
	/* Classes go, and with them the names that nobody else has. */
	if (hotspot_vm_get(r->vm, r->memory, HOTSPOT_SYMBOL_REFERENCES, address, &references) ==
		0 &&
	    !(references & REFERENCES_MASK))
		return -ESTALE;
	if (length > UINT16_MAX)
		return -ESTALE;
	if (length > SYMBOL_BYTES)
		length = SYMBOL_BYTES;
	e = memory_read(r->memory, address + r->vm->fields[HOTSPOT_SYMBOL_BODY].offset, text,
			(size_t)length);
	if (e < 0)
		return e;
	return hotspot_is_name(text, (size_t)length) ? (int)length : -ESTALE;
}

/* An entry of the constant pool that is a Symbol. */
static int read_constant(const struct reader *r, uint64_t index, char text[SYMBOL_BYTES])
{
	const uint64_t count =
	    hotspot_vm_pick(r->vm, HOTSPOT_POOL_LENGTH, r->pool, sizeof(r->pool));
	uint64_t symbol = 0;

	if (!index || index >= count)
		return -ESTALE;
	int e = memory_read_u64(
	    r->memory, r->constants + r->vm->sizes[HOTSPOT_SIZEOF_CONSTANT_POOL] + WORD * index,
	    &symbol);
	return e < 0 ? e : read_symbol(r, symbol & ~(uint64_t)POINTER_TAG, text);
}

static int read_const_method(struct reader *r, uint64_t method)
{
	int e = hotspot_vm_get(r->vm, r->memory, HOTSPOT_CONST_METHOD, method, &r->const_method);

	if (e < 0)
		return e;
	if (!r->const_method)
		return -ESTALE;
	e = memory_read(r->memory, r->const_method, r->words, sizeof(r->words));
	if (e < 0)
		return e;
	r->constants = r->words[1];
	r->sizes = hotspot_sizes(r->words, r->vm->fields[HOTSPOT_CM_CODE_SIZE].offset);
	r->identity = hotspot_identity(r->const_method, r->constants, r->sizes);
	return 0;
}

/* What an agent replaces gets another number among the methods of its class, and nothing else. */
static bool has_another_number(const struct reader *r, uint32_t wanted)
{
	const uint64_t sizes = r->sizes & ((1ull << NUMBER_SHIFT) - 1);

	for (uint64_t number = 0; number < NUMBERS_MAX; number++) {
		if (hotspot_identity(r->const_method, r->constants,
				     sizes | number << NUMBER_SHIFT) == wanted)
			return true;
	}
	return false;
}

/* The file's name; "" if it is not known. */
static void read_file(const struct reader *r, uint64_t holder, char text[SYMBOL_BYTES + 1])
{
	uint64_t index = 0;
	int length = 0;

	if (r->vm->fields[HOTSPOT_SOURCE_FILE].other_name)
		hotspot_vm_get(r->vm, r->memory, HOTSPOT_SOURCE_FILE, holder, &index);
	else
		index = hotspot_vm_pick(r->vm, HOTSPOT_SOURCE_FILE, r->pool, sizeof(r->pool));
	if (index)
		length = read_constant(r, index, text);
	text[length > 0 ? length : 0] = 0;
}

/* Class, method and parameters into `text`: the length. */
static int read_name(struct reader *r, uint64_t holder, char text[NAME_BYTES])
{
	char symbol[SYMBOL_BYTES];
	uint64_t class_name = 0;
	size_t used;
	int n = hotspot_vm_get(r->vm, r->memory, HOTSPOT_CLASS_NAME, holder, &class_name);

	if (n == 0)
		n = read_symbol(r, class_name, symbol);
	if (n < 0)
		return n;
	used = hotspot_class_name(symbol, (size_t)n, text, SYMBOL_BYTES);
	text[used++] = '.';
	n = read_constant(r, pick(r, HOTSPOT_CM_NAME), symbol);
	if (n < 0)
		return n;
	memcpy(text + used, symbol, (size_t)n);
	used += (size_t)n;
	n = read_constant(r, pick(r, HOTSPOT_CM_SIGNATURE), symbol);
	if (n < 0)
		return n;
	const size_t parameters =
	    hotspot_parameters(symbol, (size_t)n, text + used, NAME_BYTES - used);
	return parameters ? (int)(used + parameters) : -ESTALE;
}

/* Lines follow the bytecodes. None is no error. */
static void read_lines(struct reader *r, struct hotspot_method *method)
{
	const uint64_t start =
	    r->vm->sizes[HOTSPOT_SIZEOF_CONST_METHOD] + pick(r, HOTSPOT_CM_CODE_SIZE);
	const uint64_t end = (uint32_t)pick(r, HOTSPOT_CM_SIZE) * (uint64_t)WORD;
	struct hotspot_line entry = {0};
	size_t count = 0;

	if (!(pick(r, HOTSPOT_CM_FLAGS) & FLAG_HAS_LINES) || end <= start)
		return;
	const size_t length = end - start < LINE_BYTES_MAX ? (size_t)(end - start) : LINE_BYTES_MAX;
	_cleanup_free_ uint8_t *bytes = malloc(length);
	if (!bytes || memory_read(r->memory, r->const_method + start, bytes, length) < 0)
		return;
	struct hotspot_stream stream = {
	    .bytes = bytes, .length = length, .excluded = r->vm->version >= HOTSPOT_EXCLUDED_SINCE};
	while (count < LINES_MAX && hotspot_next_line(&stream, &entry))
		count++;
	if (!count)
		return;
	method->lines = calloc(count, sizeof(*method->lines));
	if (!method->lines)
		return;
	stream.at = 0;
	stream.failed = false;
	entry = (struct hotspot_line){0};
	while (method->line_count < count && hotspot_next_line(&stream, &entry))
		method->lines[method->line_count++] = entry;
	method->start_line = method->lines[0].line;
}

void hotspot_methods_begin(struct hotspot_methods *methods)
{
	methods->loaders.count = 0;
}

static bool loader_is_known(const struct hotspot_loaders *loaders, uint64_t loader)
{
	for (unsigned int i = 0; i < loaders->count; i++) {
		if (loaders->alive[i] == loader)
			return true;
	}
	return loader == loaders->boot;
}

/* A field that is a pointer; 0 if there is none. */
static uint64_t follow(const struct reader *r, enum hotspot_field_name name, uint64_t address)
{
	uint64_t to = 0;

	return hotspot_vm_get(r->vm, r->memory, name, address, &to) < 0 ? 0 : to;
}

/* Is `item` in the list that begins with `at`, or does that have more than `max`? The last one that
 * was looked at into `*last`. */
static bool in_list(const struct reader *r, enum hotspot_field_name next, uint64_t at,
		    uint64_t item, int max, uint64_t *last)
{
	for (int i = 0; at && at != item; i++) {
		if (i == max)
			return true;
		*last = at;
		at = follow(r, next, at);
	}
	return at != 0;
}

/* One that lies behind a great many is old, and taken to be alive. */
static bool loader_is_alive(const struct reader *r, uint64_t loader)
{
	struct hotspot_loaders *loaders = r->loaders;
	uint64_t last = 0;

	if (loader_is_known(loaders, loader))
		return true;
	if (!in_list(r, HOTSPOT_LOADER_NEXT, follow(r, HOTSPOT_LOADERS, 0), loader, LOADERS_MAX,
		     &last)) {
		loaders->boot = last;
		return false;
	}
	if (!follow(r, HOTSPOT_LOADER_NEXT, loader))
		loaders->boot = loader;
	if (loaders->count < HOTSPOT_LOADERS_KNOWN)
		loaders->alive[loaders->count++] = loader;
	return true;
}

/* Is the method among the class's? */
static bool class_has(const struct reader *r, uint64_t holder, uint64_t method)
{
	uint64_t methods[METHODS_A_READ];
	uint64_t at = follow(r, HOTSPOT_CLASS_METHODS, holder);
	uint32_t count = 0;

	if (!at || memory_read_u32(r->memory, at, &count) < 0 || count > METHODS_MAX)
		return false;
	at += r->vm->fields[HOTSPOT_METHODS_DATA].offset;
	while (count) {
		const uint32_t n = count < METHODS_A_READ ? count : METHODS_A_READ;

		if (memory_read(r->memory, at, methods, n * sizeof(methods[0])) < 0)
			return false;
		for (uint32_t i = 0; i < n; i++) {
			if (methods[i] == method)
				return true;
		}
		at += n * sizeof(methods[0]);
		count -= n;
	}
	return false;
}

/*
 * Is it a method of a class as that was before an agent replaced it? As long as such methods may be
 * running they are kept, with their constants, in a class that is in the loader's list too, but has
 * no other use (the scratch class of VM_RedefineClasses, with which the new one has swapped them).
 */
static bool is_of_old_class(const struct reader *r, uint64_t loader, uint64_t method)
{
	const struct hotspot_field *f = r->vm->fields;

	if (!f[HOTSPOT_LOADER_CLASSES].known || !f[HOTSPOT_CLASS_NEXT].known ||
	    !f[HOTSPOT_CLASS_METHODS].known || !f[HOTSPOT_METHODS_DATA].known)
		return false;
	uint64_t at = follow(r, HOTSPOT_LOADER_CLASSES, loader);
	for (int i = 0; at && i < OLD_CLASSES_MAX; i++) {
		if (follow(r, HOTSPOT_CLASS_CONSTANTS, at) == r->constants)
			return class_has(r, at, method);
		at = follow(r, HOTSPOT_CLASS_NEXT, at);
	}
	return false;
}

/*
 * Was all that was read of `method` and its class still theirs? What was unloaded stays in memory
 * for a while, whole or in parts, and some of its addresses are soon those of others: so the loader
 * has to be in the list of loaders, the class in the loader's, the method in the class's. 0 or
 * -ESTALE.
 */
static int check_alive(const struct reader *r, uint64_t holder, uint64_t method)
{
	const struct hotspot_field *f = r->vm->fields;
	uint64_t last = 0;

	if (!f[HOTSPOT_LOADERS].known || !f[HOTSPOT_LOADER_NEXT].known ||
	    !f[HOTSPOT_CLASS_LOADER].known)
		return 0;
	const uint64_t loader = follow(r, HOTSPOT_CLASS_LOADER, holder);
	if (!loader || !loader_is_alive(r, loader))
		return -ESTALE;
	/* Its classes stay, and methods that the VM makes are in no class's list. */
	if (loader == r->loaders->boot)
		return 0;
	/* JDK 8 does not tell where the list begins. */
	if (f[HOTSPOT_LOADER_CLASSES].known && f[HOTSPOT_CLASS_NEXT].known &&
	    !in_list(r, HOTSPOT_CLASS_NEXT, follow(r, HOTSPOT_LOADER_CLASSES, loader), holder,
		     CLASSES_MAX, &last))
		return -ESTALE;
	if (f[HOTSPOT_CLASS_CONSTANTS].known &&
	    follow(r, HOTSPOT_CLASS_CONSTANTS, holder) != r->constants)
		return is_of_old_class(r, loader, method) ? 0 : -ESTALE;
	if (f[HOTSPOT_CLASS_METHODS].known && f[HOTSPOT_METHODS_DATA].known &&
	    !class_has(r, holder, method))
		return -ESTALE;
	return 0;
}

/* What `r` has begun to read. */
static int read_method(struct reader *r, uint64_t address, struct hotspot_method **method)
{
	const size_t pool_bytes = r->vm->sizes[HOTSPOT_SIZEOF_CONSTANT_POOL];
	char name[NAME_BYTES], file[SYMBOL_BYTES + 1];
	const uint32_t identity = r->identity;

	if (!r->constants || pool_bytes > sizeof(r->pool))
		return -ESTALE;
	int e = memory_read(r->memory, r->constants, r->pool, pool_bytes);
	if (e < 0)
		return e;
	const uint64_t holder = hotspot_vm_pick(r->vm, HOTSPOT_POOL_HOLDER, r->pool, pool_bytes);
	if (!holder)
		return -ESTALE;
	const int length = read_name(r, holder, name);
	if (length < 0)
		return length;
	read_file(r, holder, file);
	const size_t name_bytes = (size_t)length + 1, file_bytes = strlen(file) + 1;
	struct hotspot_method *m = calloc(1, sizeof(*m) + name_bytes + file_bytes);
	if (!m)
		return -ENOMEM;
	m->users = 1;
	m->address = address;
	m->identity = identity;
	memcpy(m->name, name, (size_t)length);
	memcpy(m->name + name_bytes, file, file_bytes);
	m->file = m->name + name_bytes;
	read_lines(r, m);
	/* Was it that all the time? */
	e = check_alive(r, holder, address);
	if (e == 0)
		e = read_const_method(r, address);
	if (e == 0 && r->identity == identity) {
		*method = m;
		return 0;
	}
	hotspot_method_put(m);
	return e < 0 ? e : -ESTALE;
}

void hotspot_method_put(struct hotspot_method *method)
{
	if (!method || --method->users)
		return;
	free(method->lines);
	free(method);
}

static struct hotspot_method **slot_of(struct hotspot_methods *methods, uint64_t address)
{
	return &methods->slots[(address * 0x9e3779b97f4a7c15ull >> 32) % HOTSPOT_METHOD_SLOTS];
}

static void slot_empty(struct hotspot_methods *methods, struct hotspot_method **slot)
{
	if (*slot)
		methods->bytes -= hotspot_method_bytes(*slot);
	hotspot_method_put(*slot);
	*slot = NULL;
}

int hotspot_method_get(struct hotspot_methods *methods, const struct hotspot_vm *vm,
		       struct memory *memory, uint64_t address, const uint32_t *wanted,
		       struct hotspot_method **method)
{
	struct hotspot_method **slot = slot_of(methods, address), *found = NULL;
	struct reader r = {.vm = vm, .memory = memory, .loaders = &methods->loaders};
	int e = read_const_method(&r, address);

	if (e == 0 && wanted && r.identity != *wanted && !has_another_number(&r, *wanted))
		e = -ESTALE;
	if (e == 0)
		e = read_method(&r, address, &found);
	if (e == 0 && wanted)
		found->identity = *wanted;
	/* It may be that it was unloaded. */
	if (e < 0 && wanted && *slot && (*slot)->address == address &&
	    (*slot)->identity == *wanted) {
		found = *slot;
		found->users++;
		e = 0;
	}
	if (e < 0)
		return e == -EFAULT ? -ESTALE : e;
	if (*slot != found) {
		/* Of two that are the same, the one that is shared. */
		if (*slot && (*slot)->address == address && (*slot)->identity == found->identity &&
		    strcmp((*slot)->name, found->name) == 0) {
			hotspot_method_put(found);
			found = *slot;
		} else {
			slot_empty(methods, slot);
			methods->bytes += hotspot_method_bytes(found);
			*slot = found;
		}
		found->users++;
	}
	*method = found;
	return 0;
}

void hotspot_methods_fini(struct hotspot_methods *methods)
{
	for (int i = 0; i < HOTSPOT_METHOD_SLOTS; i++)
		slot_empty(methods, &methods->slots[i]);
}

size_t hotspot_method_bytes(const struct hotspot_method *method)
{
	return sizeof(*method) + strlen(method->name) + strlen(method->file) + 2 +
	       method->line_count * sizeof(*method->lines);
}
