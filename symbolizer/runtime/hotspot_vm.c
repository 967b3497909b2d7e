/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the tables in which HotSpot describes its structures.
 *
 * How this works: libjvm.so exports two pointers. gHotSpotVMStructs points to an array of
 * VMStructEntry, each with the name of a type, the name of a field, the name of the field's type,
 * whether it is static, and its offset or address. gHotSpotVMTypes points to an array of
 * VMTypeEntry with names and sizes of types. An entry without a name ends an array. All names are
 * strings in the process's memory.
 *
 * The arrays have thousands of entries, of which about 70 are needed. Entries of one type follow
 * each other with the same pointer to its name, so the name is read when the pointer changes, and
 * the field names are read only for the types that HOTSPOT_FIELDS names.
 *
 * Example: the entry {"nmethod", "_compile_id", "int", 0, 0xd4, 0} sets the field COMPILE_ID to
 * offset 0xd4, 4 bytes. In another build the offset is 0xe0, and nothing else changes.
 *
 * A field has another name or is in another structure in some versions (HOTSPOT_OTHER_NAMES). The
 * main name has precedence. After both arrays were read, check() determines what is missing. While
 * ld.so relocates the library the pointers hold file offsets, which are below the load address:
 * -EAGAIN.
 */
#include "symbolizer/runtime/hotspot_vm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/cursor.h"
#include "symbolizer/runtime/limits.h"

enum {
	/* The layouts of VMStructEntry and VMTypeEntry, as indexes of words: the same since JDK 6.
	 * The VM also exports their offsets, none of which has ever changed. */
	STRUCT_TYPE = 0,
	STRUCT_FIELD = 1,
	STRUCT_TYPE_STRING = 2,
	STRUCT_IS_STATIC = 3,
	STRUCT_OFFSET = 4,
	STRUCT_ADDRESS = 5,
	STRUCT_WORDS = 6,
	TYPE_NAME = 0,
	TYPE_SIZE = 4,
	TYPE_WORDS = 5,
	ENTRIES_PER_READ = 64, /* 3 KB on the stack */
	NAME_BYTES = 80,       /* of the names that we compare; a longer name is cut */
	JDK_VERSION_MAX = 255, /* a greater version is shown as this one */
};

static const struct hotspot_row {
	const char *type, *field;
	enum hotspot_field_name name;
	bool needed, other;
} rows[] = {
#define FIELD(name, type, field, needed) {type, field, HOTSPOT_##name, needed, false},
    HOTSPOT_FIELDS(FIELD)
#undef FIELD
#define FIELD(name, type, field) {type, field, HOTSPOT_##name, false, true},
	HOTSPOT_OTHER_NAMES(FIELD)
#undef FIELD
};

static const char *const size_names[HOTSPOT_SIZE_COUNT] = {
#define SIZE(name, type) [HOTSPOT_SIZEOF_##name] = type,
    HOTSPOT_SIZES(SIZE)
#undef SIZE
};

enum {
	ROW_COUNT = sizeof(rows) / sizeof(rows[0])
};

int hotspot_image_init(struct hotspot_image *image, const struct runtime_file *file)
{
	struct runtime_symbol structs, types;

	if (runtime_file_exported(file, "gHotSpotVMStructs", &structs) < 0 ||
	    runtime_file_exported(file, "gHotSpotVMTypes", &types) < 0)
		return -ENOENT;
	image->structs = structs.vaddr;
	image->types = types.vaddr;
	return 0;
}

/* Returns the size of a C++ type in bytes, 0 if it is unknown. */
static uint8_t type_bytes(const char *type)
{
	static const struct {
		const char *name;
		uint8_t bytes;
	} types[] = {
	    {"bool", 1},	 {"u1", 1},
	    {"jbyte", 1},	 {"uint8_t", 1},
	    {"int8_t", 1},	 {"unsigned char", 1},
	    {"signed char", 1},	 {"CodeBlobKind", 1},
	    {"u2", 2},		 {"unsigned short", 2},
	    {"short", 2},	 {"uint16_t", 2},
	    {"int16_t", 2},	 {"int", 4},
	    {"unsigned int", 4}, {"u4", 4},
	    {"uint32_t", 4},	 {"int32_t", 4},
	    {"jint", 4},	 {"uint", 4},
	    {"size_t", 8},	 {"address", 8},
	    {"uint64_t", 8},	 {"u8", 8},
	    {"long", 8},	 {"intptr_t", 8},
	    {"uintptr_t", 8},	 {"jlong", 8},
	};

	if (strncmp(type, "volatile ", 9) == 0)
		type += 9;
	if (strncmp(type, "const ", 6) == 0 && !strchr(type, '*'))
		type += 6;
	if (strchr(type, '*'))
		return 8;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		if (strcmp(type, types[i].name) == 0)
			return types[i].bytes;
	}
	return 0;
}

/* Reads the name of an entry's type, unless it is the one that was read last. */
static int entry_type(struct memory *memory, uint64_t address, uint64_t *last,
		      char text[NAME_BYTES])
{
	if (address == *last)
		return 0;
	const ssize_t n = memory_read_string(memory, address, text, NAME_BYTES);
	if (n < 0)
		return (int)n;
	*last = address;
	return 0;
}

static bool type_is_wanted(const char *type)
{
	for (size_t i = 0; i < ROW_COUNT; i++) {
		if (strcmp(rows[i].type, type) == 0)
			return true;
	}
	return false;
}

/* Records the field of an entry if it is one that HOTSPOT_FIELDS or HOTSPOT_OTHER_NAMES names. */
static int take_field(struct hotspot_vm *vm, struct memory *memory, const char *type,
		      const uint64_t *entry)
{
	char field[NAME_BYTES], type_string[NAME_BYTES];
	ssize_t n = memory_read_string(memory, entry[STRUCT_FIELD], field, sizeof(field));

	if (n < 0)
		return (int)n;
	for (size_t i = 0; i < ROW_COUNT; i++) {
		const struct hotspot_row *row = &rows[i];
		struct hotspot_field *to = &vm->fields[row->name];
		const bool is_static = (uint32_t)entry[STRUCT_IS_STATIC] != 0;

		if (strcmp(row->type, type) != 0 || strcmp(row->field, field) != 0 ||
		    (to->known && row->other) ||
		    (!is_static && entry[STRUCT_OFFSET] >= HOTSPOT_OFFSET_MAX))
			continue;
		*to = (struct hotspot_field){.known = true, .other_name = row->other};
		if (is_static)
			to->address = entry[STRUCT_ADDRESS];
		else
			to->offset = (uint32_t)entry[STRUCT_OFFSET];
		/* Nested structures and arrays have no type string. */
		if (entry[STRUCT_TYPE_STRING] &&
		    memory_read_string(memory, entry[STRUCT_TYPE_STRING], type_string,
				       sizeof(type_string)) >= 0)
			to->bytes = type_bytes(type_string);
	}
	return 0;
}

/* Reads the next entries of gHotSpotVMStructs and advances `*table`. If they are not all in mapped
 * memory, the table may end before its end, so one entry is read at a time. */
static int read_entries(struct memory *memory, uint64_t *table,
			uint64_t entries[ENTRIES_PER_READ][STRUCT_WORDS], unsigned int *count)
{
	const size_t bytes = sizeof(entries[0]);
	int r = memory_read(memory, *table, entries, ENTRIES_PER_READ * bytes);

	*count = ENTRIES_PER_READ;
	if (r < 0) {
		r = memory_read(memory, *table, entries[0], bytes);
		*count = 1;
	}
	*table += *count * bytes;
	return r;
}

static int read_structs(struct hotspot_vm *vm, uint64_t table, struct memory *memory)
{
	uint64_t entries[ENTRIES_PER_READ][STRUCT_WORDS], last = 0;
	unsigned int at = 0, count = 0;
	char type[NAME_BYTES] = "";
	bool wanted = false;

	for (unsigned int i = 0; i < HOTSPOT_TABLE_ENTRIES_MAX; i++, at++) {
		if (at == count) {
			int r = read_entries(memory, &table, entries, &count);

			if (r < 0)
				return r;
			at = 0;
		}
		if (!entries[at][STRUCT_TYPE])
			return 0;
		if (entries[at][STRUCT_TYPE] != last) {
			int r = entry_type(memory, entries[at][STRUCT_TYPE], &last, type);
			if (r < 0)
				return r;
			wanted = type_is_wanted(type);
		}
		int r = wanted ? take_field(vm, memory, type, entries[at]) : 0;
		if (r < 0)
			return r;
	}
	return -E2BIG;
}

static int read_types(struct hotspot_vm *vm, uint64_t table, struct memory *memory)
{
	uint64_t entry[TYPE_WORDS];
	char name[NAME_BYTES];

	for (unsigned int i = 0; i < HOTSPOT_TABLE_ENTRIES_MAX; i++, table += sizeof(entry)) {
		int r = memory_read(memory, table, entry, sizeof(entry));

		if (r < 0)
			return r;
		if (!entry[TYPE_NAME])
			return 0;
		const ssize_t n = memory_read_string(memory, entry[TYPE_NAME], name, sizeof(name));
		if (n < 0)
			return (int)n;
		for (int j = 0; j < HOTSPOT_SIZE_COUNT; j++) {
			if (strcmp(name, size_names[j]) == 0 &&
			    entry[TYPE_SIZE] < HOTSPOT_OFFSET_MAX)
				vm->sizes[j] = (uint32_t)entry[TYPE_SIZE];
		}
	}
	return -E2BIG;
}

/* Records what is missing. Returns -ENOTSUP. */
static int missing(struct hotspot_vm *vm, const char *type, const char *field)
{
	snprintf(vm->missing, sizeof(vm->missing), "%s.%s", type, field);
	return -ENOTSUP;
}

/* Determines whether everything that is needed is described. */
static int check(struct hotspot_vm *vm)
{
	const struct hotspot_field *f = vm->fields;

	for (size_t i = 0; i < ROW_COUNT; i++) {
		if (rows[i].needed && !f[rows[i].name].known)
			return missing(vm, rows[i].type, rows[i].field);
	}
	for (int i = 0; i < HOTSPOT_SIZE_COUNT; i++) {
		if (!vm->sizes[i])
			return missing(vm, size_names[i], "(size)");
	}
	if (!f[HOTSPOT_CACHE_HEAP].known && !f[HOTSPOT_CACHE_HEAPS].known)
		return missing(vm, "CodeCache", "_heaps");
	if (!f[HOTSPOT_BLOB_CODE_OFFSET].known &&
	    !(f[HOTSPOT_BLOB_CODE_BEGIN].known && f[HOTSPOT_BLOB_CODE_END].known))
		return missing(vm, "CodeBlob", "_code_begin");
	return 0;
}

/* Reads the JDK version. JDK 8 - 21 describe JDK_Version::_current. Later ones describe only the
 * VM's own version, which is the same number there (in JDK 8 it was another one). */
static int read_version(struct hotspot_vm *vm, struct memory *memory)
{
	uint64_t version = 0;
	uint8_t major = 0;
	int r;

	if (vm->fields[HOTSPOT_VERSION].known) {
		r = memory_read_u8(memory, vm->fields[HOTSPOT_VERSION].address, &major);
		version = major;
	} else {
		r = hotspot_vm_get(vm, memory, HOTSPOT_VERSION_NEWER, 0, &version);
	}
	if (r < 0)
		return r == -ENOTSUP ? missing(vm, "Abstract_VM_Version", "_vm_major_version") : r;
	/* It is written while the VM starts. */
	if (!version)
		return -EAGAIN;
	vm->version = version > JDK_VERSION_MAX ? JDK_VERSION_MAX : (unsigned int)version;
	return 0;
}

/* Reads both tables, through memory->cache. */
static int read_tables(struct hotspot_vm *vm, const struct hotspot_image *image, uint64_t bias,
		       struct memory *memory)
{
	uint64_t structs = 0, types = 0, first = 0;
	int r = memory_read_u64(memory, bias + image->structs, &structs);

	if (r == 0)
		r = memory_read_u64(memory, bias + image->types, &types);
	if (r < 0)
		return r;
	if (structs <= bias || types <= bias)
		return -EAGAIN;
	r = memory_read_u64(memory, structs, &first);
	if (r < 0)
		return r;
	if (first <= bias)
		return -EAGAIN;
	r = read_structs(vm, structs, memory);
	return r < 0 ? r : read_types(vm, types, memory);
}

int hotspot_vm_read(struct hotspot_vm *vm, const struct hotspot_image *image, uint64_t bias,
		    struct memory *memory)
{
	_cleanup_free_ struct memory_cache *cache = calloc(1, sizeof(*cache));

	if (!cache)
		return -ENOMEM;
	*vm = (struct hotspot_vm){0};
	memory->cache = cache;
	int r = read_tables(vm, image, bias, memory);
	memory->cache = NULL;
	if (r == 0)
		r = read_version(vm, memory);
	return r < 0 ? r : check(vm);
}

uint64_t hotspot_vm_pick(const struct hotspot_vm *vm, enum hotspot_field_name name,
			 const void *bytes, size_t length)
{
	const struct hotspot_field *f = &vm->fields[name];
	struct cursor c = cursor_init(bytes, length);

	if (!f->known)
		return 0;
	cursor_seek(&c, f->offset);
	switch (f->bytes) {
	case 1:
		return cursor_u8(&c);
	case 2:
		return cursor_u16(&c);
	case 4:
		return cursor_u32(&c);
	case 8:
		return cursor_u64(&c);
	default:
		return 0;
	}
}

int hotspot_vm_get(const struct hotspot_vm *vm, struct memory *memory, enum hotspot_field_name name,
		   uint64_t address, uint64_t *value)
{
	const struct hotspot_field *f = &vm->fields[name];
	uint64_t read = 0;

	if (!f->known || !f->bytes || f->bytes > sizeof(read))
		return -ENOTSUP;
	int r = memory_read(memory, address ? address + f->offset : f->address, &read, f->bytes);
	if (r == 0)
		*value = read;
	return r;
}
