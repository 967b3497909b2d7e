/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds HotSpot's code, and fills in the block that the walker reads.
 *
 * How this works: all code is in the code cache, which has one or more heaps (CodeHeap). A heap is
 * divided into segments; a map has one byte per segment, with which the walker finds the start of
 * the block that a pc is in. A block starts with a HeapBlock header and holds a CodeBlob: an
 * nmethod (compiled method), the interpreter, or a stub. Three things are found here:
 *
 * 1. The offsets of the fields that the walker reads in a CodeBlob. Some versions have pointers
 *    where others have offsets from the blob, in 2, 4 or 8 bytes: flags say which.
 * 2. The heaps, the interpreter's code, and in it the codelets by which methods are entered: there
 *    the interpreted frame is not complete.
 * 3. How nmethods are distinguished from other blobs. Newer versions have CodeBlob::_kind. Older
 *    ones have only the pointer to the blob's name, so one blob named "nmethod" and one named
 *    "native nmethod" are searched for, and the walker compares pointers.
 *
 * Example (JDK 17): CodeCache::_heaps has three heaps, 0x7f80000000 - 0x7f8f000000 in total, with
 * segments of 128 bytes. The first blobs of a heap are the VM's own; then comes one whose _name
 * points to "nmethod" at 0x7fa1234. From then on every blob with _name 0x7fa1234 is an nmethod.
 */
#include "symbolizer/runtime/hotspot_code.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "bpf/runtime/hotspot.h"
#include "symbolizer/runtime/limits.h"

enum {
	NAME_BYTES = 64, /* of the names of blobs and codelets that we compare */
	/* log2 of a segment's size. It is 6 or 7 by default (CodeCacheSegmentSize is 64 or 128
	 * bytes); values far from that are forged. */
	SEGMENT_SHIFT_MIN = 5,
	SEGMENT_SHIFT_MAX = 16,
	FIRST_WITH_VIRTUAL_THREADS = 21, /* JDK 21, JEP 444 */
	/* From JDK 9 on an interpreted frame has one more slot, for the mirror, before the bytecode
	 * pointer (interpreter_frame_mirror_offset, cpu/x86/frame_x86.hpp). */
	FIRST_WITH_MIRROR = 9,
	BCP_SLOT = 8,
	BCP_SLOT_WITHOUT_MIRROR = 7,
	HEAP_BLOCK_BYTES_MAX = 64,  /* observed: 16 in JDK 8 and 17, 8 in JDK 25 */
	CONST_METHOD_CONSTANTS = 8, /* the offset of _constants: hotspot_identity() relies on it */
	NATIVE_PREFIX = sizeof("native ") - 1,
};

/* User space ends here on x86-64 (Linux, Documentation/arch/x86/x86_64/mm.rst). */
#define ADDRESS_MAX (1ull << 47)

struct finder {
	struct hotspot_vm *vm;
	struct memory *memory;
	struct hotspot_block *block;
	/* Addresses of names that were read and are none of those searched for. */
	uint64_t names[HOTSPOT_BLOB_NAMES_MAX];
	unsigned int name_count;
};

/* Refuses the VM because `what` does not have the expected form. */
static int unexpected(struct hotspot_vm *vm, const char *what)
{
	snprintf(vm->missing, sizeof(vm->missing), "%s", what);
	return -ENOTSUP;
}

/* Returns the offset of a CodeBlob's field from the start of its HeapBlock. Returns
 * HOTSPOT_NO_FIELD if the VM does not describe it, if its size is neither `bytes` nor `other`, if
 * it is not aligned, or if it is after the HOTSPOT_BLOB_BYTES that the walker reads. */
static uint16_t blob_offset(struct finder *f, enum hotspot_field_name name, uint8_t bytes,
			    uint8_t other)
{
	const struct hotspot_field *field = &f->vm->fields[name];
	const uint32_t offset = field->offset + f->vm->sizes[HOTSPOT_SIZEOF_HEAP_BLOCK];

	if (!field->known || !field->bytes || (field->bytes != bytes && field->bytes != other) ||
	    offset % field->bytes || offset + 8 > HOTSPOT_BLOB_BYTES)
		return HOTSPOT_NO_FIELD;
	if (f->block->blob_bytes < offset + 8)
		f->block->blob_bytes = (uint16_t)(offset + 8);
	return (uint16_t)offset;
}

/* Fills in the offsets of the fields of CodeBlob and nmethod. */
static int describe_blob(struct finder *f)
{
	const struct hotspot_vm *vm = f->vm;
	struct hotspot_block *b = f->block;

	if (vm->fields[HOTSPOT_BLOB_CODE_BEGIN].known) {
		b->code_begin = blob_offset(f, HOTSPOT_BLOB_CODE_BEGIN, 8, 8);
		b->code_end = blob_offset(f, HOTSPOT_BLOB_CODE_END, 8, 8);
	} else {
		b->flags |= HOTSPOT_CODE_RELATIVE;
		b->code_begin = blob_offset(f, HOTSPOT_BLOB_CODE_OFFSET, 4, 4);
		b->code_end = blob_offset(f, HOTSPOT_BLOB_DATA_OFFSET, 4, 4);
	}
	b->name = blob_offset(f, HOTSPOT_BLOB_NAME, 8, 8);
	b->kind = blob_offset(f, HOTSPOT_BLOB_KIND, 1, 1);
	b->frame_size = blob_offset(f, HOTSPOT_BLOB_FRAME_SIZE, 4, 4);
	b->frame_complete = blob_offset(f, HOTSPOT_BLOB_FRAME_COMPLETE, 2, 4);
	if (vm->fields[HOTSPOT_BLOB_FRAME_COMPLETE].bytes == 2)
		b->flags |= HOTSPOT_FRAME_COMPLETE_SHORT;
	b->verified_entry = blob_offset(f, HOTSPOT_ENTRY, 2, 8);
	if (vm->fields[HOTSPOT_ENTRY].bytes == 2)
		b->flags |= HOTSPOT_ENTRY_RELATIVE;
	b->compile_id = blob_offset(f, HOTSPOT_COMPILE_ID, 4, 4);
	b->original_pc = blob_offset(f, HOTSPOT_ORIGINAL_PC, 4, 4);
	b->deopt = blob_offset(f, HOTSPOT_DEOPT, 4, 8);
	b->deopt_method_handle = blob_offset(f, HOTSPOT_DEOPT_METHOD_HANDLE, 4, 8);
	if (vm->fields[HOTSPOT_DEOPT].bytes == 4)
		b->flags |= HOTSPOT_DEOPT_RELATIVE;
	if (b->original_pc == HOTSPOT_NO_FIELD)
		b->deopt = HOTSPOT_NO_FIELD;
	if (b->deopt == HOTSPOT_NO_FIELD ||
	    vm->fields[HOTSPOT_DEOPT_METHOD_HANDLE].bytes != vm->fields[HOTSPOT_DEOPT].bytes)
		b->deopt_method_handle = HOTSPOT_NO_FIELD;
	if (b->code_begin == HOTSPOT_NO_FIELD || b->code_end == HOTSPOT_NO_FIELD ||
	    b->name == HOTSPOT_NO_FIELD || b->frame_size == HOTSPOT_NO_FIELD ||
	    b->frame_complete == HOTSPOT_NO_FIELD || b->verified_entry == HOTSPOT_NO_FIELD ||
	    b->compile_id == HOTSPOT_NO_FIELD)
		return unexpected(f->vm, "CodeBlob");
	return 0;
}

/* Fills in everything but addresses. */
static int describe(struct finder *f)
{
	const struct hotspot_vm *vm = f->vm;
	struct hotspot_block *b = f->block;
	const uint32_t block_bytes = vm->sizes[HOTSPOT_SIZEOF_HEAP_BLOCK];
	const struct hotspot_field *used = &vm->fields[HOTSPOT_BLOCK_USED],
				   *sizes = &vm->fields[HOTSPOT_CM_CODE_SIZE],
				   *constants = &vm->fields[HOTSPOT_CM_CONSTANTS];

	if (block_bytes > HEAP_BLOCK_BYTES_MAX || block_bytes % 8 || used->offset >= block_bytes ||
	    used->bytes != 1)
		return unexpected(f->vm, "HeapBlock");
	/* The fields that hotspot_identity() uses. */
	if (sizes->bytes != 2 || sizes->offset + 8 > HOTSPOT_CONST_METHOD_BYTES ||
	    constants->offset != CONST_METHOD_CONSTANTS)
		return unexpected(f->vm, "ConstMethod");
	b->heap_block_bytes = (uint8_t)block_bytes;
	b->heap_block_used = (uint8_t)used->offset;
	b->bcp_slot = vm->version < FIRST_WITH_MIRROR ? BCP_SLOT_WITHOUT_MIRROR : BCP_SLOT;
	b->const_method = (uint16_t)vm->fields[HOTSPOT_CONST_METHOD].offset;
	b->const_method_bytes = (uint16_t)vm->sizes[HOTSPOT_SIZEOF_CONST_METHOD];
	b->code_size = (uint16_t)sizes->offset;
	return describe_blob(f);
}

static int get(struct finder *f, enum hotspot_field_name name, uint64_t address, uint64_t *value)
{
	return hotspot_vm_get(f->vm, f->memory, name, address, value);
}

static bool overlaps(const struct finder *f, const struct hotspot_heap *heap, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		if (heap->start < f->block->heaps[i].end && f->block->heaps[i].start < heap->end)
			return true;
	}
	return false;
}

/* Adds one CodeHeap. A heap that is not reserved or has no segments yet is left out, and so are
 * those after the first HOTSPOT_HEAPS_MAX. */
static int find_heap(struct finder *f, uint64_t heap, unsigned int *count)
{
	const uint64_t space = heap + f->vm->fields[HOTSPOT_HEAP_MEMORY].offset,
		       map = heap + f->vm->fields[HOTSPOT_HEAP_SEGMENTS].offset;
	struct hotspot_heap found = {0};
	uint64_t shift = 0;
	int r;

	if (!heap)
		return -EAGAIN;
	if ((r = get(f, HOTSPOT_SPACE_START, space, &found.start)) < 0 ||
	    (r = get(f, HOTSPOT_SPACE_END, space, &found.end)) < 0 ||
	    (r = get(f, HOTSPOT_SPACE_LOW, map, &found.segments)) < 0 ||
	    (r = get(f, HOTSPOT_HEAP_SHIFT, heap, &shift)) < 0)
		return r;
	if (!found.start || !found.segments || *count >= HOTSPOT_HEAPS_MAX)
		return 0;
	if (found.end <= found.start || found.end > ADDRESS_MAX || overlaps(f, &found, *count))
		return unexpected(f->vm, "CodeHeap._memory");
	if (shift < SEGMENT_SHIFT_MIN || shift > SEGMENT_SHIFT_MAX ||
	    (*count && shift != f->block->segment_shift))
		return unexpected(f->vm, "CodeHeap._log2_segment_size");
	f->block->segment_shift = (uint8_t)shift;
	f->block->heaps[(*count)++] = found;
	return 0;
}

/* Finds the heaps: JDK 8 has one, later versions have an array (GrowableArray<CodeHeap*>). */
static int find_heaps(struct finder *f)
{
	uint64_t list = 0, data = 0, length = 1, heap = 0;
	unsigned int count = 0;
	int r;

	if (f->vm->fields[HOTSPOT_CACHE_HEAPS].known) {
		if ((r = get(f, HOTSPOT_CACHE_HEAPS, 0, &list)) < 0)
			return r;
		if (!list)
			return -EAGAIN;
		if ((r = get(f, HOTSPOT_ARRAY_LENGTH, list, &length)) < 0 ||
		    (r = get(f, HOTSPOT_ARRAY_DATA, list, &data)) < 0)
			return r;
		if (length > HOTSPOT_HEAPS_LISTED_MAX)
			return unexpected(f->vm, "CodeCache._heaps");
	} else {
		data = f->vm->fields[HOTSPOT_CACHE_HEAP].address;
	}
	for (uint64_t i = 0; i < length; i++) {
		if ((r = memory_read_u64(f->memory, data + 8 * i, &heap)) < 0 ||
		    (r = find_heap(f, heap, &count)) < 0)
			return r;
	}
	f->block->cache_start = UINT64_MAX;
	for (unsigned int i = 0; i < count; i++) {
		const struct hotspot_heap *h = &f->block->heaps[i];

		if (h->start < f->block->cache_start)
			f->block->cache_start = h->start;
		if (h->end > f->block->cache_end)
			f->block->cache_end = h->end;
	}
	return count ? 0 : -EAGAIN;
}

/* Finds the codelets by which methods are entered. They follow each other in the interpreter's
 * code, so one range from the first to the last is enough. */
static int find_entries(struct finder *f, uint64_t buffer, uint64_t bytes)
{
	struct hotspot_block *b = f->block;
	char text[NAME_BYTES];

	if (!f->vm->fields[HOTSPOT_CODELET_SIZE].known ||
	    !f->vm->fields[HOTSPOT_CODELET_NAME].known)
		return 0;
	for (uint64_t at = 0, i = 0; at < bytes && i < HOTSPOT_CODELETS_MAX; i++) {
		uint64_t size = 0, name = 0;
		int r;

		if ((r = get(f, HOTSPOT_CODELET_SIZE, buffer + at, &size)) < 0 ||
		    (r = get(f, HOTSPOT_CODELET_NAME, buffer + at, &name)) < 0)
			return r;
		if (!size || size > HOTSPOT_CODELET_BYTES_MAX)
			break;
		if (name && memory_read_string(f->memory, name, text, sizeof(text)) > 0 &&
		    strstr(text, "method entry point")) {
			if (!b->entries_start)
				b->entries_start = buffer + at;
			b->entries_end = buffer + at + size;
		}
		at += size;
	}
	return b->entries_start ? 0 : -EAGAIN;
}

/* Finds the interpreter (a StubQueue) and the return address of the call stub, by which native code
 * calls Java. */
static int find_interpreter(struct finder *f)
{
	uint64_t queue = 0, buffer = 0, limit = 0, end = 0;
	int r;

	if ((r = get(f, HOTSPOT_INTERPRETER, 0, &queue)) < 0 ||
	    (r = get(f, HOTSPOT_CALL_STUB_RETURN, 0, &f->block->call_stub_return)) < 0)
		return r;
	if (!queue || !f->block->call_stub_return)
		return -EAGAIN;
	if ((r = get(f, HOTSPOT_QUEUE_BUFFER, queue, &buffer)) < 0 ||
	    (r = get(f, HOTSPOT_QUEUE_LIMIT, queue, &limit)) < 0 ||
	    (r = get(f, HOTSPOT_QUEUE_END, queue, &end)) < 0)
		return r;
	if (!buffer || !limit || !end)
		return -EAGAIN;
	f->block->interpreter_start = buffer;
	f->block->interpreter_end = buffer + limit;
	return find_entries(f, buffer, end < limit ? end : limit);
}

static bool name_was_read(const struct finder *f, uint64_t name)
{
	if (!name || name == f->block->nmethod_name || name == f->block->native_name)
		return true;
	for (unsigned int i = 0; i < f->name_count; i++) {
		if (f->names[i] == name)
			return true;
	}
	return false;
}

/* Records the blob's name if it is one of those searched for. The stubs of virtual threads are one
 * blob, named "StubRoutines (continuation ...". */
static void examine_blob(struct finder *f, uint64_t blob, const uint8_t *bytes, size_t length)
{
	const uint64_t name = hotspot_vm_pick(f->vm, HOTSPOT_BLOB_NAME, bytes, length),
		       size = hotspot_vm_pick(f->vm, HOTSPOT_BLOB_SIZE, bytes, length);
	char text[NAME_BYTES];

	if (name_was_read(f, name) || memory_read_string(f->memory, name, text, sizeof(text)) < 0)
		return;
	if (strcmp(text, "nmethod") == 0) {
		f->block->nmethod_name = name;
	} else if (strcmp(text, "native nmethod") == 0) {
		f->block->native_name = name;
	} else if (strncmp(text, "StubRoutines (continuation", 26) == 0) {
		f->block->continuation_start = blob;
		f->block->continuation_end = blob + size;
	}
	if (f->name_count < HOTSPOT_BLOB_NAMES_MAX)
		f->names[f->name_count++] = name;
}

/* Returns whether all names that are searched for were found. */
static bool have_names(const struct finder *f)
{
	const struct hotspot_block *b = f->block;

	return (b->kind != HOTSPOT_NO_FIELD || (b->nmethod_name && b->native_name)) &&
	       (f->vm->version < FIRST_WITH_VIRTUAL_THREADS || b->continuation_start);
}

/* Examines the first blocks of a heap, until all names are found. */
static void examine_heap(struct finder *f, const struct hotspot_heap *heap)
{
	const uint64_t shift = f->block->segment_shift, head = f->block->heap_block_bytes;
	uint8_t bytes[HOTSPOT_BLOB_BYTES];
	uint64_t at = heap->start;

	for (unsigned int i = 0; i < HOTSPOT_BLOBS_MAX && at < heap->end && !have_names(f); i++) {
		memset(bytes, 0, sizeof(bytes));
		if (memory_read(f->memory, at, bytes, f->block->blob_bytes) < 0)
			return;
		const uint64_t length =
		    hotspot_vm_pick(f->vm, HOTSPOT_BLOCK_LENGTH, bytes, (size_t)head);
		if (!length || length > (heap->end - at) >> shift)
			return;
		if (bytes[f->block->heap_block_used] == 1)
			examine_blob(f, at + head, bytes + head, sizeof(bytes) - (size_t)head);
		at += length << shift;
	}
}

/* If only one of the names was found, derives the other: linkers merge strings with a common end,
 * so "nmethod" is the end of "native nmethod" in all known builds. */
static void complete_names(struct finder *f)
{
	struct hotspot_block *b = f->block;
	char text[NAME_BYTES];

	if (b->native_name && !b->nmethod_name) {
		b->nmethod_name = b->native_name + NATIVE_PREFIX;
	} else if (b->nmethod_name && !b->native_name &&
		   memory_read_string(f->memory, b->nmethod_name - NATIVE_PREFIX, text,
				      sizeof(text)) > 0 &&
		   strcmp(text, "native nmethod") == 0) {
		b->native_name = b->nmethod_name - NATIVE_PREFIX;
	}
}

int hotspot_code_find(struct hotspot_vm *vm, struct memory *memory, struct runtime_layout *layout,
		      bool *complete)
{
	struct hotspot_block block = {0};
	struct finder f = {.vm = vm, .memory = memory, .block = &block};
	int r = describe(&f);

	if (r == 0)
		r = find_heaps(&f);
	if (r == 0)
		r = find_interpreter(&f);
	if (r < 0)
		return r;
	for (int i = 0; i < HOTSPOT_HEAPS_MAX && block.heaps[i].start; i++)
		examine_heap(&f, &block.heaps[i]);
	*complete = have_names(&f);
	complete_names(&f);
	memset(layout, 0, sizeof(*layout));
	memcpy(&layout->block, &block, sizeof(block));
	for (int i = 0; i < HOTSPOT_HEAPS_MAX && block.heaps[i].start; i++)
		layout->ranges[layout->range_count++] = (struct runtime_range){
		    .start = block.heaps[i].start, .end = block.heaps[i].end};
	return 0;
}
