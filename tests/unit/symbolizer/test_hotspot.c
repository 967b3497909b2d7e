/* SPDX-License-Identifier: Apache-2.0 */
/* Tests how HotSpot's tables, methods and compiled methods are read. A file stands for the
 * process's memory; it is filled as three builds of the VM would fill it, or with random words. */
#include <criterion/criterion.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bpf/runtime/hotspot.h"
#include "symbolizer/runtime/hotspot_code.h"
#include "symbolizer/runtime/hotspot_encoding.h"
#include "symbolizer/runtime/hotspot_method.h"
#include "symbolizer/runtime/hotspot_nmethod.h"
#include "symbolizer/runtime/hotspot_vm.h"
#include "symbolizer/runtime/runtime.h"

struct table_row {
	const char *type, *field, *type_string;
	int offset;
};

struct table_size {
	const char *type;
	int size;
};

#include "hotspot_tables.h"
#include "hotspot_write.h"

static const struct build {
	unsigned int version;
	const struct table_row *rows;
	const struct table_size *sizes;
} builds[] = {{8, rows_8, sizes_8}, {17, rows_17, sizes_17}, {25, rows_25, sizes_25}};

enum {
	BUILDS = sizeof(builds) / sizeof(builds[0]),
	BIAS = 0x10000,
	STRUCTS_VARIABLE = 0x100,
	TYPES_VARIABLE = 0x108,
	STATICS = 0x1000, /* 16 bytes each */
	STRINGS = 0x20000,
	STRUCTS = 0x40000,
	TYPES = 0x60000,
};

/* A process: its memory, and where the next string and the next static field go. */
struct fixture {
	struct memory memory;
	struct hotspot_vm vm;
	uint64_t strings;
	uint64_t statics;
};

static void put(struct fixture *f, uint64_t address, const void *bytes, size_t length)
{
	cr_assert_eq(pwrite(f->memory.fd, bytes, length, (off_t)address), (ssize_t)length);
}

static void put_u64(struct fixture *f, uint64_t address, uint64_t value)
{
	put(f, address, &value, sizeof(value));
}

static uint64_t put_string(struct fixture *f, const char *text)
{
	const uint64_t at = f->strings;

	put(f, at, text, strlen(text) + 1);
	f->strings += strlen(text) + 1;
	return at;
}

/* Writes a field with the size that this VM describes; of a static one if `address` is 0. */
static void put_field(struct fixture *f, enum hotspot_field_name name, uint64_t address,
		      uint64_t value)
{
	const struct hotspot_field *field = &f->vm.fields[name];

	cr_assert(field->known && field->bytes, "%d", name);
	put(f, address ? address + field->offset : field->address, &value, field->bytes);
}

/* Writes the tables of `build`, without the row of the field `without`. */
static void put_tables(struct fixture *f, const struct build *build, const char *without)
{
	uint64_t at = STRUCTS;

	for (const struct table_row *row = build->rows; row->type; row++) {
		if (without && strcmp(row->field, without) == 0)
			continue;
		const bool is_static = row->offset < 0;
		const uint64_t entry[6] = {put_string(f, row->type),
					   put_string(f, row->field),
					   *row->type_string ? put_string(f, row->type_string) : 0,
					   is_static,
					   is_static ? 0 : (uint64_t)row->offset,
					   is_static ? f->statics : 0};
		f->statics += 16 * is_static;
		put(f, at, entry, sizeof(entry));
		at += sizeof(entry);
	}
	put_u64(f, BIAS + STRUCTS_VARIABLE, STRUCTS);
	at = TYPES;
	for (const struct table_size *size = build->sizes; size->type; size++) {
		const uint64_t entry[5] = {put_string(f, size->type), 0, 0, 0,
					   (uint64_t)size->size};

		put(f, at, entry, sizeof(entry));
		at += sizeof(entry);
	}
	put_u64(f, BIAS + TYPES_VARIABLE, TYPES);
}

static int read_vm(struct fixture *f)
{
	const struct hotspot_image image = {.structs = STRUCTS_VARIABLE, .types = TYPES_VARIABLE};

	memory_allow(&f->memory, 100000, 64 << 20);
	return hotspot_vm_read(&f->vm, &image, BIAS, &f->memory);
}

static void open_fixture(struct fixture *f)
{
	*f = (struct fixture){.memory = {.fd = memfd_create("memory", 0)},
			      .strings = STRINGS,
			      .statics = BIAS + STATICS};
	cr_assert_geq(f->memory.fd, 0);
	cr_assert_eq(ftruncate(f->memory.fd, 1ll << 40), 0);
}

/* Writes complete tables and the version, and reads them. */
static void make_vm(struct fixture *f, const struct build *build)
{
	open_fixture(f);
	put_tables(f, build, NULL);
	cr_assert_eq(read_vm(f), -EAGAIN, "not started yet");
	put_field(f, HOTSPOT_VERSION_NEWER, 0, 25);
	if (f->vm.fields[HOTSPOT_VERSION].known)
		put_u64(f, f->vm.fields[HOTSPOT_VERSION].address, build->version);
	cr_assert_eq(read_vm(f), 0, "%s", f->vm.missing);
	cr_assert_eq(f->vm.version, build->version);
}

Test(hotspot_vm, tables_of_three_versions_are_read)
{
	for (int i = 0; i < BUILDS; i++) {
		struct fixture f;

		make_vm(&f, &builds[i]);
		cr_expect_eq(f.vm.sizes[HOTSPOT_SIZEOF_HEAP_BLOCK], i == 2 ? 8 : 16);
		cr_expect_eq(f.vm.fields[HOTSPOT_CM_CODE_SIZE].bytes, 2);
		cr_expect_eq(f.vm.fields[HOTSPOT_BLOB_FRAME_COMPLETE].bytes, i == 2 ? 2 : 4);
		cr_expect_eq(f.vm.fields[HOTSPOT_SOURCE_FILE].other_name, i == 0);
		close(f.memory.fd);
	}
}

Test(hotspot_vm, a_table_may_end_at_the_end_of_mapped_memory)
{
	uint64_t table[100][6];
	const size_t rows = sizeof(rows_17) / sizeof(rows_17[0]), bytes = rows * sizeof(table[0]);
	const uint64_t at = 0x100000 - bytes;
	struct fixture f;

	make_vm(&f, &builds[1]);
	cr_assert_leq(bytes, sizeof(table));
	cr_assert_eq(pread(f.memory.fd, table, bytes, STRUCTS), (ssize_t)bytes);
	cr_assert_eq(ftruncate(f.memory.fd, (off_t)at), 0);
	put(&f, at, table, bytes);
	put_u64(&f, BIAS + STRUCTS_VARIABLE, at);
	cr_expect_eq(read_vm(&f), 0, "%s", f.vm.missing);
	close(f.memory.fd);
}

Test(hotspot_vm, a_missing_field_is_named)
{
	static const char *const needed[] = {"_frame_size", "_constMethod", "_segmap"};

	for (size_t i = 0; i < 3; i++) {
		struct fixture f;

		open_fixture(&f);
		put_tables(&f, &builds[1], needed[i]);
		for (uint64_t at = 0; at < 64; at++)
			put_u64(&f, BIAS + STATICS + 16 * at, 17);
		cr_expect_eq(read_vm(&f), -ENOTSUP);
		cr_expect(strstr(f.vm.missing, needed[i]), "%s", f.vm.missing);
		close(f.memory.fd);
	}
}

/* ld.so may be relocating the tables, so a missing field does not refuse the VM at once. */
Test(hotspot, attach_waits_before_it_refuses)
{
	static const struct hotspot_image image = {.structs = STRUCTS_VARIABLE,
						   .types = TYPES_VARIABLE};
	char path[PATH_MAX];

	/* The start of a long path is cut off; the rest of the message stays complete. */
	memset(path, '/', sizeof(path) - 1);
	memcpy(path + sizeof(path) - sizeof("lib/libjvm.so"), "lib/libjvm.so",
	       sizeof("lib/libjvm.so"));
	for (int complete = 0; complete < 2; complete++) {
		struct fixture f;
		struct runtime_process process = {.ops = &runtime_hotspot,
						  .image = &image,
						  .path = path,
						  .bias = BIAS,
						  .memory = &f.memory};
		int r = -EAGAIN, tries = 0;

		open_fixture(&f);
		put_tables(&f, &builds[1], "_frame_size");
		for (uint64_t at = 0; at < 64; at++)
			put_u64(&f, BIAS + STATICS + 16 * at, 17);
		for (; tries < 20 && r == -EAGAIN; tries++) {
			memory_allow(&f.memory, 100000, 64 << 20);
			r = process.ops->attach(&process);
			if (tries == 2 && complete)
				put_tables(&f, &builds[1], NULL);
		}
		cr_expect_eq(tries >= 5, true);
		cr_expect_eq(r == -ENOTSUP && strstr(process.refusal.text, "_frame_size"),
			     !complete, "%d %s", r, process.refusal.text);
		cr_expect_eq(strstr(process.refusal.text, "lib/libjvm.so: ") &&
				 strstr(process.refusal.text, "native stacks are complete"),
			     !complete, "%s", process.refusal.text);
		process.ops->detach(&process);
		close(f.memory.fd);
	}
}

Test(hotspot_vm, tables_that_are_not_relocated_yet_are_retried)
{
	struct fixture f;

	open_fixture(&f);
	cr_expect_eq(read_vm(&f), -EAGAIN);
	put_u64(&f, BIAS + STRUCTS_VARIABLE, 1ull << 50);
	put_u64(&f, BIAS + TYPES_VARIABLE, 1ull << 50);
	cr_expect_lt(read_vm(&f), 0);
	close(f.memory.fd);
}

/* A class with one method, at fixed addresses. */
enum {
	METHOD = 0x100000,
	CONST_METHOD = 0x101000,
	POOL = 0x102000,
	CLASS = 0x104000,
	LOADER = 0x105000,
	METHODS = 0x106000,
	OLD_CLASS = 0x106800, /* the scratch class after a redefinition */
	NEW_METHODS = 0x106f00,
	SYMBOLS = 0x107000, /* 0x100 bytes each */
	NMETHOD = 0x110000,
	DATA = 0x120000,
};

static uint64_t put_symbol(struct fixture *f, int index, const char *text)
{
	const uint64_t at = SYMBOLS + 0x100 * (uint64_t)index;
	const bool shared = f->vm.fields[HOTSPOT_SYMBOL_LENGTH].other_name;

	cr_assert(!shared);
	put_field(f, HOTSPOT_SYMBOL_REFERENCES, at, 1);
	put_field(f, HOTSPOT_SYMBOL_LENGTH, at, strlen(text));
	put(f, at + f->vm.fields[HOTSPOT_SYMBOL_BODY].offset, text, strlen(text));
	return at;
}

static void put_constant(struct fixture *f, int index, uint64_t symbol)
{
	put_u64(f, POOL + f->vm.sizes[HOTSPOT_SIZEOF_CONSTANT_POOL] + 8 * (uint64_t)index, symbol);
}

static void make_class(struct fixture *f)
{
	const bool excluded = f->vm.version >= HOTSPOT_ZERO_EXCLUDED_SINCE;
	const uint64_t code = f->vm.sizes[HOTSPOT_SIZEOF_CONST_METHOD];
	uint8_t lines[16] = {0xff};
	size_t n = 1;

	put_field(f, HOTSPOT_CONST_METHOD, METHOD, CONST_METHOD);
	put_field(f, HOTSPOT_CM_CONSTANTS, CONST_METHOD, POOL);
	put_field(f, HOTSPOT_CM_CODE_SIZE, CONST_METHOD, 100);
	put_field(f, HOTSPOT_CM_NAME, CONST_METHOD, 1);
	put_field(f, HOTSPOT_CM_SIGNATURE, CONST_METHOD, 2);
	put_field(f, HOTSPOT_CM_FLAGS, CONST_METHOD, 1);
	put_field(f, HOTSPOT_CM_SIZE, CONST_METHOD, (code + 100 + 16) / 8 + 1);
	n += write_unsigned5(lines + n, 0, excluded);
	n += write_unsigned5(lines + n, 40 << 1, excluded);
	lines[n++] = 10 << 3 | 3;
	put(f, CONST_METHOD + code + 100, lines, sizeof(lines));
	put_field(f, HOTSPOT_POOL_HOLDER, POOL, CLASS);
	put_field(f, HOTSPOT_POOL_LENGTH, POOL, 8);
	put_constant(f, 1, put_symbol(f, 1, "get"));
	put_constant(f, 2, put_symbol(f, 2, "(Ljava/lang/Object;I)V"));
	put_constant(f, 3, put_symbol(f, 3, "Cache.java"));
	put_field(f, HOTSPOT_SOURCE_FILE,
		  f->vm.fields[HOTSPOT_SOURCE_FILE].other_name ? CLASS : POOL, 3);
	put_field(f, HOTSPOT_CLASS_NAME, CLASS, put_symbol(f, 4, "org/example/Cache$Shard"));
	put_field(f, HOTSPOT_CLASS_LOADER, CLASS, LOADER);
	put_field(f, HOTSPOT_CLASS_CONSTANTS, CLASS, POOL);
	put_field(f, HOTSPOT_CLASS_METHODS, CLASS, METHODS);
	put_u64(f, METHODS, 2);
	put_u64(f, METHODS + f->vm.fields[HOTSPOT_METHODS_DATA].offset + 8, METHOD);
	put_field(f, HOTSPOT_LOADERS, 0, LOADER);
	put_field(f, HOTSPOT_LOADER_NEXT, LOADER, LOADER + 0x200);
	if (f->vm.fields[HOTSPOT_LOADER_CLASSES].known)
		put_field(f, HOTSPOT_LOADER_CLASSES, LOADER, CLASS);
}

static int get_method(struct fixture *f, struct hotspot_methods *methods, const uint32_t *wanted,
		      struct hotspot_method **method)
{
	memory_allow(&f->memory, 2000, 1 << 20);
	hotspot_methods_begin(methods);
	return hotspot_method_get(methods, &f->vm, &f->memory, METHOD, wanted, method);
}

Test(hotspot_method, a_method_has_name_file_and_lines)
{
	for (int i = 0; i < BUILDS; i++) {
		struct hotspot_methods *methods = calloc(1, sizeof(*methods));
		struct hotspot_method *m = NULL;
		struct fixture f;

		make_vm(&f, &builds[i]);
		make_class(&f);
		cr_assert_eq(get_method(&f, methods, NULL, &m), 0);
		cr_expect_str_eq(m->name, "org.example.Cache$Shard.get(Object, int)");
		cr_expect_str_eq(m->file, "Cache.java");
		cr_expect_eq(m->start_line, 40);
		cr_expect_eq(hotspot_line_of(m->lines, m->line_count, 12), 43);
		/* Another method takes its place: the cached one is still found. */
		const uint32_t identity = m->identity, other = identity + 1;
		struct hotspot_method *again = NULL;

		cr_expect_eq(get_method(&f, methods, &other, &again), -ESTALE);
		put_field(&f, HOTSPOT_CM_NAME, CONST_METHOD, 3);
		cr_assert_eq(get_method(&f, methods, &identity, &again), 0);
		cr_expect_eq(again, m);
		hotspot_method_put(again);
		hotspot_method_put(m);
		hotspot_methods_fini(methods);
		free(methods);
		close(f.memory.fd);
	}
}

/* States of a class that was unloaded while parts of it are still in memory. */
static void lose_loader(struct fixture *f)
{
	put_field(f, HOTSPOT_LOADERS, 0, LOADER + 0x200);
}
static void lose_method(struct fixture *f)
{
	put_u64(f, METHODS, 1);
}
static void lose_pool(struct fixture *f)
{
	put_field(f, HOTSPOT_CLASS_CONSTANTS, CLASS, POOL + 8);
}
static void lose_symbol(struct fixture *f)
{
	put_field(f, HOTSPOT_SYMBOL_REFERENCES, SYMBOLS + 0x100, 0);
}
static void lose_text(struct fixture *f)
{
	put_symbol(f, 1, "a\x01");
}
static void lose_signature(struct fixture *f)
{
	put_symbol(f, 2, "Cache.java");
}
static void lose_class(struct fixture *f)
{
	if (f->vm.fields[HOTSPOT_LOADER_CLASSES].known)
		put_field(f, HOTSPOT_LOADER_CLASSES, LOADER, CLASS + 0x500);
	else
		lose_loader(f);
}

Test(hotspot_liveness, an_unloaded_method_has_no_name)
{
	static void (*const ways[])(struct fixture *) = {lose_loader, lose_method, lose_pool,
							 lose_symbol, lose_text,   lose_signature,
							 lose_class};

	for (int i = 0; i < BUILDS; i++) {
		for (size_t j = 0; j < sizeof(ways) / sizeof(ways[0]); j++) {
			struct hotspot_methods *methods = calloc(1, sizeof(*methods));
			struct hotspot_method *m = NULL;
			struct fixture f;

			make_vm(&f, &builds[i]);
			make_class(&f);
			ways[j](&f);
			cr_expect_eq(get_method(&f, methods, NULL, &m), -ESTALE, "%d %zu", i, j);
			hotspot_methods_fini(methods);
			free(methods);
			close(f.memory.fd);
		}
	}
}

/* An agent has redefined the class: it has new methods and constants, and the old ones belong to a
 * scratch class in the same list. */
static void replace_class(struct fixture *f)
{
	put_field(f, HOTSPOT_CLASS_CONSTANTS, CLASS, POOL + 0x800);
	put_field(f, HOTSPOT_CLASS_METHODS, CLASS, NEW_METHODS);
	put_u64(f, NEW_METHODS, 0);
	put_field(f, HOTSPOT_CLASS_CONSTANTS, OLD_CLASS, POOL);
	put_field(f, HOTSPOT_CLASS_METHODS, OLD_CLASS, METHODS);
	/* JDK 8 does not describe the head of the list. */
	if (f->vm.fields[HOTSPOT_LOADER_CLASSES].known) {
		put_field(f, HOTSPOT_CLASS_NEXT, OLD_CLASS, CLASS);
		put_field(f, HOTSPOT_LOADER_CLASSES, LOADER, OLD_CLASS);
	}
}

Test(hotspot_liveness, a_redefined_method_keeps_its_old_name)
{
	for (int i = 0; i < BUILDS; i++) {
		struct hotspot_methods *methods = calloc(1, sizeof(*methods));
		struct hotspot_method *m = NULL;
		struct fixture f;

		make_vm(&f, &builds[i]);
		make_class(&f);
		replace_class(&f);
		const bool listed = f.vm.fields[HOTSPOT_LOADER_CLASSES].known;
		cr_expect_eq(get_method(&f, methods, NULL, &m), listed ? 0 : -ESTALE, "%d", i);
		if (m)
			cr_expect_str_eq(m->name, "org.example.Cache$Shard.get(Object, int)");
		const uint16_t idnum = 77;
		/* Its _method_idnum has changed since the walker saw it. */
		const uint32_t identity = m ? m->identity : 0, other = identity + 1;
		hotspot_method_put(m);
		m = NULL;
		hotspot_methods_fini(methods);
		put(&f, CONST_METHOD + f.vm.fields[HOTSPOT_CM_SIGNATURE].offset + 2, &idnum,
		    sizeof(idnum));
		cr_expect_eq(get_method(&f, methods, &other, &m), -ESTALE);
		cr_expect_eq(get_method(&f, methods, &identity, &m), listed ? 0 : -ESTALE);
		hotspot_method_put(m);
		m = NULL;
		hotspot_methods_fini(methods);
		lose_method(&f);
		cr_expect_eq(get_method(&f, methods, NULL, &m), -ESTALE, "%d", i);
		hotspot_methods_fini(methods);
		free(methods);
		close(f.memory.fd);
	}
}

/* Makes an nmethod whose method is inlined into itself. */
static void make_nmethod(struct fixture *f, uint32_t compile_id)
{
	const bool excluded = f->vm.version >= HOTSPOT_ZERO_EXCLUDED_SINCE;
	const bool separate = f->vm.fields[HOTSPOT_IMMUTABLE_DATA].known;
	const int32_t descs[4][4] = {{-1, 0}, {0x20, 1}, {0x40, 0}, {0x7fffffff, 0}};
	const uint64_t base = separate ? DATA : NMETHOD, metadata = 0x400, pcs = 0x600;
	const uint64_t scopes = separate ? pcs + sizeof(descs) : 0x500;
	uint8_t bytes[32] = {0};
	size_t n = 1;

	n += write_scope(bytes + n, 0, 2, 11, excluded);
	const int32_t inner = (int32_t)n;
	write_scope(bytes + n, 1, 2, 3, excluded);
	put_field(f, HOTSPOT_BLOCK_USED, NMETHOD - f->vm.sizes[HOTSPOT_SIZEOF_HEAP_BLOCK], 1);
	put_field(f, HOTSPOT_COMPILE_ID, NMETHOD, compile_id);
	put_field(f, HOTSPOT_METHOD, NMETHOD, METHOD);
	put_field(f, HOTSPOT_PCS_OFFSET, NMETHOD, pcs);
	if (separate) {
		put_field(f, HOTSPOT_IMMUTABLE_DATA, NMETHOD, DATA);
		put_field(f, HOTSPOT_SCOPES_OFFSET, NMETHOD, scopes);
		put_field(f, HOTSPOT_IMMUTABLE_SIZE, NMETHOD, scopes + sizeof(bytes));
		put_field(f, HOTSPOT_BLOB_MUTABLE_DATA, NMETHOD, DATA);
		put_field(f, HOTSPOT_BLOB_RELOCATION_SIZE, NMETHOD, metadata);
		put_field(f, HOTSPOT_BLOB_MUTABLE_SIZE, NMETHOD, metadata + 32);
	} else {
		put_field(f, HOTSPOT_METADATA_OFFSET, NMETHOD, metadata);
		put_field(f, HOTSPOT_DEPENDENCIES_OFFSET, NMETHOD, pcs + sizeof(descs));
		if (f->vm.fields[HOTSPOT_SCOPES_BEGIN].known)
			put_field(f, HOTSPOT_SCOPES_BEGIN, NMETHOD, NMETHOD + scopes);
		else
			put_field(f, HOTSPOT_SCOPES_OFFSET, NMETHOD, scopes);
	}
	put_u64(f, base + metadata + 8, METHOD);
	put(f, base + pcs, descs, sizeof(descs));
	put(f, base + pcs + 2 * sizeof(descs[0]) + 4, &inner, sizeof(inner));
	put(f, base + scopes, bytes, sizeof(bytes));
}

static int find_nmethod(struct fixture *f, struct hotspot_nmethods *nmethods,
			struct hotspot_methods *methods, uint32_t compile_id, uint32_t offset,
			struct hotspot_inlined *found)
{
	memory_allow(&f->memory, 5000, 4 << 20);
	hotspot_methods_begin(methods);
	return hotspot_nmethod_find(nmethods, methods, &f->vm, &f->memory, NMETHOD, compile_id,
				    offset, found);
}

Test(hotspot_nmethod, inlined_methods_are_found)
{
	for (int i = 0; i < BUILDS; i++) {
		struct hotspot_methods *methods = calloc(1, sizeof(*methods));
		struct hotspot_nmethods *nmethods = calloc(1, sizeof(*nmethods));
		struct hotspot_inlined found[HOTSPOT_SCOPES_MAX];
		struct fixture f;

		make_vm(&f, &builds[i]);
		make_class(&f);
		make_nmethod(&f, 7);
		cr_assert_eq(find_nmethod(&f, nmethods, methods, 8, 0x20, found), -ESTALE);
		cr_assert_eq(find_nmethod(&f, nmethods, methods, 7, 0x20, found), 1, "%d", i);
		cr_expect_eq(found[0].bci, 11);
		cr_assert_eq(find_nmethod(&f, nmethods, methods, 7, 0x40, found), 2);
		cr_expect(found[0].bci == 3 && found[1].bci == 11);
		cr_expect_str_eq(found[1].method->name, "org.example.Cache$Shard.get(Object, int)");
		/* The nmethod is replaced: the cached one is still found. */
		make_nmethod(&f, 9);
		cr_expect_eq(find_nmethod(&f, nmethods, methods, 7, 0x40, found), 2);
		hotspot_nmethods_fini(nmethods);
		hotspot_methods_fini(methods);
		free(nmethods);
		free(methods);
		close(f.memory.fd);
	}
}

/* Fills memory with small numbers, and with pointers into the same memory. */
static void scribble(struct fixture *f, uint64_t from, size_t length)
{
	for (size_t i = 0; i < length; i += 8) {
		const uint64_t random = (uint64_t)rand() << 16 ^ (uint64_t)rand();
		const uint64_t word = random & 3 ? from + random % length : random & 0xff00ff;

		put_u64(f, from + i, word);
	}
}

Test(hotspot, random_memory_is_survived)
{
	enum {
		FROM = 0x200000,
		BYTES = 32 << 10,
	};
	struct hotspot_inlined found[HOTSPOT_SCOPES_MAX];

	srand(1);
	for (int i = 0; i < 12; i++) {
		struct hotspot_methods *methods = calloc(1, sizeof(*methods));
		struct hotspot_nmethods *nmethods = calloc(1, sizeof(*nmethods));
		struct runtime_layout *layout = calloc(1, sizeof(*layout));
		struct hotspot_method *m = NULL;
		struct fixture f;
		bool complete;

		make_vm(&f, &builds[i % BUILDS]);
		scribble(&f, FROM, BYTES);
		scribble(&f, BIAS + STATICS, 0x400);
		for (uint64_t at = FROM; at < FROM + BYTES; at += 24) {
			uint64_t id = 0;

			memory_allow(&f.memory, 2000, 4 << 20);
			hotspot_methods_begin(methods);
			if (hotspot_method_get(methods, &f.vm, &f.memory, at, NULL, &m) == 0)
				hotspot_method_put(m);
			hotspot_vm_get(&f.vm, &f.memory, HOTSPOT_COMPILE_ID, at, &id);
			put_field(&f, HOTSPOT_BLOCK_USED,
				  at - f.vm.sizes[HOTSPOT_SIZEOF_HEAP_BLOCK], 1);
			hotspot_nmethod_find(nmethods, methods, &f.vm, &f.memory, at, (uint32_t)id,
					     (uint32_t)rand() & 0xfff, found);
		}
		for (int j = 0; j < 50; j++) {
			for (uint64_t k = 0; k < 64; k++)
				put_u64(&f, BIAS + STATICS + 16 * k,
					FROM + (uint64_t)(rand() % BYTES & ~7));
			memory_allow(&f.memory, 5000, 4 << 20);
			hotspot_code_find(&f.vm, &f.memory, layout, &complete);
		}
		hotspot_nmethods_fini(nmethods);
		hotspot_methods_fini(methods);
		free(layout);
		free(nmethods);
		free(methods);
		close(f.memory.fd);
	}
}
