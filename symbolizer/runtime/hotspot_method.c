/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads names and line tables of Java methods from the process's memory.
 *
 * How this works: a Method refers to a ConstMethod (bytecode, line table, indexes of name and
 * signature), that to a ConstantPool (names, as pointers to Symbols), and that to the class that
 * holds it. The class has the name of its own, and in older versions the index of the file name.
 *
 *	Method -> ConstMethod -> ConstantPool -> holder (InstanceKlass) -> class name (Symbol)
 *	                         ConstantPool[name index], [signature index], [file index] (Symbols)
 *
 * The VM may unload or redefine the class at any moment. So, as for CPython, the identity that the
 * walker computed from the ConstMethod (hotspot_identity()) is checked before and after everything
 * else is read, and hotspot_liveness.c checks that the method can still be reached. All offsets are
 * those that the VM describes (hotspot_vm.h).
 *
 * Example: Method 0x7f10 -> ConstMethod 0x7e20 with name index 12, signature index 13. The pool's
 * entries 12 and 13 are the Symbols "put" and "(Ljava/lang/Object;I)V". The holder's name is
 * "java/util/HashMap$Node". The method is java.util.HashMap$Node.put(Object, int).
 *
 * A method that was unloaded after it was cached keeps its name: its frames were sampled while it
 * was alive.
 */
#include "symbolizer/runtime/hotspot_method.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bpf/runtime/hotspot.h"
#include "common/cleanup.h"
#include "common/hash.h"
#include "symbolizer/runtime/limits.h"

enum {
	NAME_BYTES = 3 * HOTSPOT_SYMBOL_BYTES, /* class, method and parameters */
	/* ConstMethod::_has_linenumber_table, in JDK 8 - 26 (oops/constMethod.hpp,
	 * oops/constMethodFlags.hpp). */
	FLAG_HAS_LINES = 1,
	/* Symbol (oops/symbol.hpp): the length is in the upper half of _length_and_refcount, where
	 * a version has that field; the reference count is in the lower half of that field, of
	 * _hash_and_refcount, and of _refcount. */
	LENGTH_SHIFT = 16,
	REFERENCES_MASK = 0xffff,
	/* Some versions set the lowest bit of a pool entry that is not resolved. */
	POINTER_TAG = 1,
	WORD = 8,
	/* The place of _method_idnum in hotspot_sizes(): the last 2 of its 8 bytes, in every
	 * version. */
	IDNUM_SHIFT = 48,
};

/* The state while a method is read. */
struct reader {
	const struct hotspot_vm *vm;
	struct memory *memory;
	uint64_t const_method, constants;
	uint64_t words[HOTSPOT_CONST_METHOD_BYTES / 8];
	uint8_t pool[HOTSPOT_POOL_BYTES_MAX]; /* the ConstantPool, before its entries */
	uint64_t sizes;			      /* hotspot_sizes() */
	uint32_t identity;
};

static uint64_t pick(const struct reader *r, enum hotspot_field_name name)
{
	return hotspot_vm_pick(r->vm, name, r->words, sizeof(r->words));
}

/* Reads a Symbol's text, cut at HOTSPOT_SYMBOL_BYTES and without a NUL. Returns its length;
 * -ESTALE: it is not a Symbol that is in use; or an error of memory_read(). */
static int read_symbol(const struct reader *r, uint64_t address, char text[HOTSPOT_SYMBOL_BYTES])
{
	uint64_t length = 0, references = 0;
	int e = address ? hotspot_vm_get(r->vm, r->memory, HOTSPOT_SYMBOL_LENGTH, address, &length)
			: -ESTALE;

	if (e < 0)
		return e;
	if (r->vm->fields[HOTSPOT_SYMBOL_LENGTH].other_name)
		length >>= LENGTH_SHIFT;
	/* When a class is unloaded, names that no other class uses lose their last reference. */
	if (hotspot_vm_get(r->vm, r->memory, HOTSPOT_SYMBOL_REFERENCES, address, &references) ==
		0 &&
	    !(references & REFERENCES_MASK))
		return -ESTALE;
	if (length > UINT16_MAX)
		return -ESTALE;
	if (length > HOTSPOT_SYMBOL_BYTES)
		length = HOTSPOT_SYMBOL_BYTES;
	e = memory_read(r->memory, address + r->vm->fields[HOTSPOT_SYMBOL_BODY].offset, text,
			(size_t)length);
	if (e < 0)
		return e;
	return hotspot_is_name(text, (size_t)length) ? (int)length : -ESTALE;
}

/* Reads an entry of the constant pool that is a Symbol. Returns what read_symbol() returns. */
static int read_constant(const struct reader *r, uint64_t index, char text[HOTSPOT_SYMBOL_BYTES])
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

/* Reads the ConstMethod and computes the identity. */
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

/* Returns whether the method has the identity `wanted`, but for its _method_idnum: when an agent
 * redefines a class, nothing else changes in a method that stays the same. */
static bool has_other_idnum(const struct reader *r, uint32_t wanted)
{
	const uint64_t sizes = r->sizes & ((1ull << IDNUM_SHIFT) - 1);

	for (uint64_t idnum = 0; idnum < HOTSPOT_METHOD_IDNUMS_MAX; idnum++) {
		if (hotspot_identity(r->const_method, r->constants, sizes | idnum << IDNUM_SHIFT) ==
		    wanted)
			return true;
	}
	return false;
}

/* Reads the source file's name; "" if it is unknown. */
static void read_file(const struct reader *r, uint64_t holder, char text[HOTSPOT_SYMBOL_BYTES + 1])
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

/* Writes class, method and parameters to `text`. Returns the length; -ESTALE: one of them is not a
 * name; or an error of memory_read(). */
static int read_name(struct reader *r, uint64_t holder, char text[NAME_BYTES])
{
	char symbol[HOTSPOT_SYMBOL_BYTES];
	uint64_t class_name = 0;
	size_t used;
	int n = hotspot_vm_get(r->vm, r->memory, HOTSPOT_CLASS_NAME, holder, &class_name);

	if (n == 0)
		n = read_symbol(r, class_name, symbol);
	if (n < 0)
		return n;
	used = hotspot_class_name(symbol, (size_t)n, text, HOTSPOT_SYMBOL_BYTES);
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

/* Reads the compressed line table, which follows the bytecode in the ConstMethod. If there is none
 * or it cannot be read, the method has no lines. */
static void read_lines(struct reader *r, struct hotspot_method *method)
{
	const uint64_t start =
	    r->vm->sizes[HOTSPOT_SIZEOF_CONST_METHOD] + pick(r, HOTSPOT_CM_CODE_SIZE);
	const uint64_t end = (uint32_t)pick(r, HOTSPOT_CM_SIZE) * (uint64_t)WORD;
	struct hotspot_line entry = {0};
	size_t count = 0;

	if (!(pick(r, HOTSPOT_CM_FLAGS) & FLAG_HAS_LINES) || end <= start)
		return;
	const size_t length =
	    end - start < HOTSPOT_LINE_BYTES_MAX ? (size_t)(end - start) : HOTSPOT_LINE_BYTES_MAX;
	_cleanup_free_ uint8_t *bytes = malloc(length);
	if (!bytes || memory_read(r->memory, r->const_method + start, bytes, length) < 0)
		return;
	struct hotspot_stream stream = {.bytes = bytes,
					.length = length,
					.zero_excluded =
					    r->vm->version >= HOTSPOT_ZERO_EXCLUDED_SINCE};
	while (count < HOTSPOT_LINES_MAX && hotspot_next_line(&stream, &entry))
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
	hotspot_loaders_expire(&methods->loaders);
}

/* Reads the rest of the method, after read_const_method(). */
static int read_method(struct reader *r, struct hotspot_loaders *loaders, uint64_t address,
		       struct hotspot_method **method)
{
	const size_t pool_bytes = r->vm->sizes[HOTSPOT_SIZEOF_CONSTANT_POOL];
	char name[NAME_BYTES], file[HOTSPOT_SYMBOL_BYTES + 1];
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
	/* Only if it is alive and unchanged did everything that was read belong to it. */
	e = hotspot_liveness_check(loaders, r->vm, r->memory, holder, address, r->constants);
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
	return &methods->slots[(hash_spread(address) >> 32) % HOTSPOT_METHOD_SLOTS];
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
	struct reader r = {.vm = vm, .memory = memory};
	int e = read_const_method(&r, address);

	if (e == 0 && wanted && r.identity != *wanted && !has_other_idnum(&r, *wanted))
		e = -ESTALE;
	if (e == 0)
		e = read_method(&r, &methods->loaders, address, &found);
	if (e == 0 && wanted)
		found->identity = *wanted;
	/* It may have been unloaded since it was cached. */
	if (e < 0 && wanted && *slot && (*slot)->address == address &&
	    (*slot)->identity == *wanted) {
		found = *slot;
		found->users++;
		e = 0;
	}
	if (e < 0)
		return e == -EFAULT ? -ESTALE : e;
	if (*slot != found) {
		/* If it is cached already, share that copy and drop the new one. */
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
