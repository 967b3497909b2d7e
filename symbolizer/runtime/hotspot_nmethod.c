/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names a pc in compiled Java code.
 *
 * How this works: an nmethod has three tables. PcDescs map offsets in its code to scopes; scopes
 * say which method runs there, at which bytecode, and in which scope it was inlined; metadata is an
 * array of pointers to Methods, which scopes refer to by index. The tables are copied once and
 * cached, so that later frames of the nmethod need no access to memory.
 *
 * Where the tables are depends on the version:
 *	- up to JDK 22: all in the nmethod itself: metadata, scopes, PcDescs, in this order;
 *	- from JDK 23: scopes and PcDescs in separate memory (_immutable_data);
 *	- from JDK 25: the metadata too (_mutable_data).
 * The VM describes the fields, so their presence decides, not the version number.
 *
 * The VM frees an nmethod at any time and reuses its memory. Therefore the HeapBlock's `used` flag
 * and the _compile_id, which is never reused, are checked before and after the tables are read. And
 * the inlined methods are named at once (name_inlined_early()), because their Methods may be
 * unloaded together with the nmethod.
 *
 * Example: pc is at code offset 0x5c. The first PcDesc at or after 0x5c is {0x60, scope 20}. Scope
 * 20 is method 2 at bytecode 9, inlined into method 1 at bytecode 20. metadata[1] is the Method
 * HashMap.hash(Object), metadata[0] is HashMap.get(Object): the frame stands for both.
 */
#include "symbolizer/runtime/hotspot_nmethod.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bpf/runtime/hotspot.h"
#include "common/cleanup.h"
#include "common/hash.h"
#include "symbolizer/runtime/limits.h"

enum {
	WORD = 8,
};

struct hotspot_nmethod {
	uint64_t address;
	uint32_t compile_id;
	struct hotspot_method *root; /* the method that was compiled */
	size_t desc_count, scope_bytes, method_count;
	struct hotspot_pc_desc *descs;
	uint8_t *scopes;
	uint64_t *metadata;		 /* method_count addresses, of Methods and other things */
	struct hotspot_method **methods; /* of the same length; NULL: not read yet */
};

/* A range of the process's memory. */
struct span {
	uint64_t start, end;
};

/* Where the tables are. */
struct tables {
	struct span descs, scopes, metadata;
	uint64_t root; /* the Method that was compiled */
};

/* What all functions need. */
struct context {
	struct hotspot_methods *methods;
	const struct hotspot_vm *vm;
	struct memory *memory;
};

static void nmethod_free(struct hotspot_nmethod *n)
{
	if (!n)
		return;
	for (size_t i = 0; n->methods && i < n->method_count; i++)
		hotspot_method_put(n->methods[i]);
	hotspot_method_put(n->root);
	free(n->descs);
	free(n->scopes);
	free(n->metadata);
	free(n->methods);
	free(n);
}

static void cleanup_nmethod(struct hotspot_nmethod **n)
{
	nmethod_free(*n);
}

static size_t nmethod_bytes(const struct hotspot_nmethod *n)
{
	return sizeof(*n) + n->desc_count * sizeof(*n->descs) + n->scope_bytes +
	       n->method_count * (sizeof(*n->metadata) + sizeof(*n->methods)) +
	       hotspot_method_bytes(n->root);
}

/* Reads the header of the nmethod. Returns -ESTALE if it was freed, or another one is in its
 * place. */
static int read_header(const struct context *c, uint64_t address, uint32_t compile_id,
		       uint8_t header[HOTSPOT_BLOB_BYTES])
{
	const size_t before = c->vm->sizes[HOTSPOT_SIZEOF_HEAP_BLOCK],
		     size = c->vm->sizes[HOTSPOT_SIZEOF_NMETHOD];
	uint8_t bytes[2 * HOTSPOT_BLOB_BYTES];

	if (before > HOTSPOT_BLOB_BYTES || size > HOTSPOT_BLOB_BYTES)
		return -ENOTSUP;
	int r = memory_read(c->memory, address - before, bytes, before + size);
	if (r < 0)
		return r == -EFAULT ? -ESTALE : r;
	memset(header, 0, HOTSPOT_BLOB_BYTES);
	memcpy(header, bytes + before, size);
	if (hotspot_vm_pick(c->vm, HOTSPOT_BLOCK_USED, bytes, before) != 1 ||
	    hotspot_vm_pick(c->vm, HOTSPOT_COMPILE_ID, header, size) != compile_id)
		return -ESTALE;
	return 0;
}

static uint64_t pick(const struct context *c, enum hotspot_field_name name, const uint8_t *header)
{
	return hotspot_vm_pick(c->vm, name, header, HOTSPOT_BLOB_BYTES);
}

/* Locates the tables from JDK 23 on, where they are in memory of their own. */
static void locate_separate(const struct context *c, uint64_t address, const uint8_t *header,
			    struct tables *t)
{
	const uint64_t fixed = pick(c, HOTSPOT_IMMUTABLE_DATA, header),
		       scopes = pick(c, HOTSPOT_SCOPES_OFFSET, header);

	t->descs = (struct span){fixed + pick(c, HOTSPOT_PCS_OFFSET, header), fixed + scopes};
	t->scopes = (struct span){fixed + scopes, fixed + pick(c, HOTSPOT_IMMUTABLE_SIZE, header)};
	if (c->vm->fields[HOTSPOT_BLOB_MUTABLE_DATA].known) {
		const uint64_t mutable = pick(c, HOTSPOT_BLOB_MUTABLE_DATA, header);

		t->metadata = (struct span){mutable + pick(c, HOTSPOT_BLOB_RELOCATION_SIZE, header),
					    mutable + pick(c, HOTSPOT_BLOB_MUTABLE_SIZE, header)};
	} else {
		t->metadata = (struct span){address + pick(c, HOTSPOT_BLOB_DATA_OFFSET, header) +
						pick(c, HOTSPOT_METADATA_OFFSET, header),
					    address + pick(c, HOTSPOT_BLOB_SIZE, header)};
	}
}

/* Locates the tables of the nmethod at `address`. Forged offsets are only found by
 * read_span(), as forged lengths or unreadable memory. */
static void locate(const struct context *c, uint64_t address, const uint8_t *header,
		   struct tables *t)
{
	t->root = pick(c, HOTSPOT_METHOD, header);
	if (c->vm->fields[HOTSPOT_IMMUTABLE_DATA].known) {
		locate_separate(c, address, header, t);
		return;
	}
	const uint64_t scopes = c->vm->fields[HOTSPOT_SCOPES_BEGIN].known
				    ? pick(c, HOTSPOT_SCOPES_BEGIN, header)
				    : address + pick(c, HOTSPOT_SCOPES_OFFSET, header);

	t->descs = (struct span){address + pick(c, HOTSPOT_PCS_OFFSET, header),
				 address + pick(c, HOTSPOT_DEPENDENCIES_OFFSET, header)};
	t->scopes = (struct span){scopes, t->descs.start};
	t->metadata = (struct span){address + pick(c, HOTSPOT_METADATA_OFFSET, header), scopes};
}

/* Copies a table. Returns -ENODATA if it is empty or longer than `max` bytes. The caller frees
 * `*bytes`. */
static int read_span(const struct context *c, const struct span *span, size_t max, void **bytes,
		     size_t *length)
{
	if (span->end <= span->start || span->end - span->start > max)
		return -ENODATA;
	const size_t n = (size_t)(span->end - span->start);
	_cleanup_free_ void *read = malloc(n);
	if (!read)
		return -ENOMEM;
	int r = memory_read(c->memory, span->start, read, n);
	if (r < 0)
		return r;
	*bytes = TAKE_PTR(read);
	*length = n;
	return 0;
}

static int read_descs(const struct context *c, const struct span *span, struct hotspot_nmethod *n)
{
	const size_t size = c->vm->sizes[HOTSPOT_SIZEOF_PC_DESC];
	_cleanup_free_ void *bytes = NULL;
	size_t length = 0;
	int r = size > HOTSPOT_PC_DESC_BYTES_MAX
		    ? -ENODATA
		    : read_span(c, span, HOTSPOT_PC_DESCS_BYTES_MAX, &bytes, &length);

	if (r < 0)
		return r;
	n->descs = calloc(length / size + 1, sizeof(*n->descs));
	if (!n->descs)
		return -ENOMEM;
	for (size_t i = 0; i < length / size; i++) {
		const uint8_t *at = (const uint8_t *)bytes + i * size;

		n->descs[i].code_offset =
		    (int32_t)hotspot_vm_pick(c->vm, HOTSPOT_PC_OFFSET, at, size);
		n->descs[i].scope = (int32_t)hotspot_vm_pick(c->vm, HOTSPOT_PC_SCOPE, at, size);
	}
	n->desc_count = length / size;
	return 0;
}

/* Reads the tables. An nmethod whose tables are missing or too long is taken for one method without
 * inlined ones. */
static int read_tables(const struct context *c, const struct tables *t, struct hotspot_nmethod *n)
{
	void *scopes = NULL, *metadata = NULL;
	size_t bytes = 0;
	int r = read_descs(c, &t->descs, n);

	if (r == 0)
		r = read_span(c, &t->scopes, HOTSPOT_SCOPES_BYTES_MAX, &scopes, &n->scope_bytes);
	n->scopes = scopes;
	if (r == 0)
		r = read_span(c, &t->metadata, HOTSPOT_METADATA_BYTES_MAX, &metadata, &bytes);
	n->metadata = metadata;
	if (r == 0) {
		n->methods = calloc(bytes / WORD + 1, sizeof(*n->methods));
		n->method_count = n->methods ? bytes / WORD : 0;
		return n->methods ? 0 : -ENOMEM;
	}
	n->desc_count = 0;
	return r == -ENODATA ? 0 : r;
}

/* Finds the method with this index in the metadata, and reads it if it was not read yet. Returns
 * -ESTALE if there is none. */
static int nmethod_method(const struct context *c, struct hotspot_nmethod *n, uint32_t index,
			  const struct hotspot_method **method)
{
	/* Indexes start at 1; 0 means none. */
	if (!index || index > n->method_count)
		return -ESTALE;
	struct hotspot_method **at = &n->methods[index - 1];
	if (!*at && n->metadata[index - 1]) {
		int r = hotspot_method_get(c->methods, c->vm, c->memory, n->metadata[index - 1],
					   NULL, at);
		if (r < 0)
			return r;
	}
	if (!*at)
		return -ESTALE;
	*method = *at;
	return 0;
}

/* Names the inlined methods now, because they may be unloaded together with the nmethod. */
static void name_inlined_early(const struct context *c, struct hotspot_nmethod *n)
{
	struct hotspot_scope scopes[HOTSPOT_SCOPES_MAX];
	const struct hotspot_method *method;
	int32_t last = 0;

	for (size_t i = 0; i < n->desc_count && i < HOTSPOT_EAGER_PC_DESCS_MAX; i++) {
		if (n->descs[i].scope <= 0 || n->descs[i].scope == last)
			continue;
		last = n->descs[i].scope;
		const int count = hotspot_decode_scopes(
		    n->scopes, n->scope_bytes, c->vm->version >= HOTSPOT_ZERO_EXCLUDED_SINCE,
		    (uint32_t)last, scopes);
		for (int j = 0; j < count; j++) {
			if (c->memory->reads_left < HOTSPOT_EAGER_READS_LEFT)
				return;
			nmethod_method(c, n, scopes[j].method, &method);
		}
	}
}

/* Reads an nmethod with its tables. */
static int nmethod_load(const struct context *c, uint64_t address, uint32_t compile_id,
			struct hotspot_nmethod **loaded)
{
	_cleanup_(cleanup_nmethod) struct hotspot_nmethod *n = calloc(1, sizeof(*n));
	uint8_t header[HOTSPOT_BLOB_BYTES];
	struct tables tables = {0};

	if (!n)
		return -ENOMEM;
	n->address = address;
	n->compile_id = compile_id;
	int r = read_header(c, address, compile_id, header);
	if (r < 0)
		return r;
	locate(c, address, header, &tables);
	r = hotspot_method_get(c->methods, c->vm, c->memory, tables.root, NULL, &n->root);
	if (r == 0)
		r = read_tables(c, &tables, n);
	if (r < 0)
		return r == -EFAULT ? -ESTALE : r;
	name_inlined_early(c, n);
	/* Everything that was read belongs to the nmethod if it is still there. */
	r = read_header(c, address, compile_id, header);
	if (r == 0)
		*loaded = TAKE_PTR(n);
	return r;
}

static struct hotspot_nmethod **slot_of(struct hotspot_nmethods *nmethods, uint64_t address,
					uint32_t compile_id)
{
	const uint64_t hash = hash_spread(address ^ (uint64_t)compile_id << 40);

	return &nmethods->slots[(hash >> 32) % HOTSPOT_NMETHOD_SLOTS];
}

static void slot_empty(struct hotspot_nmethods *nmethods, struct hotspot_nmethod **slot)
{
	if (!*slot)
		return;
	nmethods->bytes -= nmethod_bytes(*slot);
	nmethod_free(*slot);
	*slot = NULL;
}

/* Finds the nmethod in the cache, or reads it and adds it. */
static int nmethod_get(struct hotspot_nmethods *nmethods, const struct context *c, uint64_t address,
		       uint32_t compile_id, struct hotspot_nmethod **nmethod)
{
	struct hotspot_nmethod **slot = slot_of(nmethods, address, compile_id), *loaded = NULL;

	if (*slot && (*slot)->address == address && (*slot)->compile_id == compile_id) {
		*nmethod = *slot;
		return 0;
	}
	int r = nmethod_load(c, address, compile_id, &loaded);
	if (r < 0)
		return r;
	slot_empty(nmethods, slot);
	const size_t bytes = nmethod_bytes(loaded);
	for (unsigned int i = 0;
	     i < HOTSPOT_NMETHOD_SLOTS && nmethods->bytes + bytes > HOTSPOT_NMETHOD_CACHE_BYTES_MAX;
	     i++)
		slot_empty(nmethods, &nmethods->slots[nmethods->hand++ % HOTSPOT_NMETHOD_SLOTS]);
	nmethods->bytes += bytes;
	*nmethod = *slot = loaded;
	return 0;
}

/* Finds the methods of the scopes, and reads those that were not read yet. */
static int resolve(const struct context *c, struct hotspot_nmethod *n,
		   const struct hotspot_scope *scopes, int count, struct hotspot_inlined *found)
{
	for (int i = 0; i < count; i++) {
		int r = nmethod_method(c, n, scopes[i].method, &found[i].method);

		if (r < 0)
			return r;
		found[i].bci = scopes[i].bci;
	}
	return 0;
}

/* Drops the methods that were read, because one of them may not belong to the nmethod. */
static void drop_methods(struct hotspot_nmethod *n)
{
	for (size_t i = 0; i < n->method_count; i++) {
		hotspot_method_put(n->methods[i]);
		n->methods[i] = NULL;
	}
}

int hotspot_nmethod_find(struct hotspot_nmethods *nmethods, struct hotspot_methods *methods,
			 const struct hotspot_vm *vm, struct memory *memory, uint64_t address,
			 uint32_t compile_id, uint32_t code_offset,
			 struct hotspot_inlined found[HOTSPOT_SCOPES_MAX])
{
	const struct context c = {.methods = methods, .vm = vm, .memory = memory};
	struct hotspot_scope scopes[HOTSPOT_SCOPES_MAX];
	uint8_t header[HOTSPOT_BLOB_BYTES];
	struct hotspot_nmethod *n = NULL;
	int r = nmethod_get(nmethods, &c, address, compile_id, &n);

	if (r < 0)
		return r;
	const struct hotspot_pc_desc *desc =
	    hotspot_find_pc_desc(n->descs, n->desc_count, code_offset);
	if (!desc) {
		found[0] = (struct hotspot_inlined){.method = n->root, .bci = HOTSPOT_BCI_UNKNOWN};
		return 1;
	}
	const int count = hotspot_decode_scopes(n->scopes, n->scope_bytes,
						vm->version >= HOTSPOT_ZERO_EXCLUDED_SINCE,
						(uint32_t)desc->scope, scopes);
	if (count <= 0)
		return -ESTALE;
	const unsigned int reads = memory->reads_left;
	r = resolve(&c, n, scopes, count, found);
	/* Methods that were read just now belong to the nmethod if it is still there. */
	if (r == 0 && memory->reads_left != reads) {
		r = read_header(&c, address, compile_id, header);
		if (r < 0)
			drop_methods(n);
	}
	return r < 0 ? r : count;
}

void hotspot_nmethods_fini(struct hotspot_nmethods *nmethods)
{
	for (int i = 0; i < HOTSPOT_NMETHOD_SLOTS; i++)
		slot_empty(nmethods, &nmethods->slots[i]);
}
