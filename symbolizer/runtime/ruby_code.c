/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds places in Ruby's file by the machine code of its exported functions.
 *
 * How this works: distributions strip the names of what the walker needs. But exported functions
 * use it:
 *
 * - rb_profile_frames() starts with reading the thread's execution context. In a library its code
 *   passes the address of a tls_index to __tls_get_addr(). In a program it has the distance from
 *   the thread pointer. In 2.7 it reads a variable that is for the thread which executes Ruby code
 *   (ruby_current_execution_context_ptr). Every thread has a key, which ruby_native_thread_p()
 *   passes to pthread_getspecific().
 * - rb_during_gc() returns a bit of the flags of the collector.
 * - rb_id2str(), or the function that it jumps to, compares with the last id
 *   (global_symbols.last_id; in 4.0 with the one after that, which it loads first). The table of
 *   names is 16 bytes after that (symbol.h, rb_symbols_t).
 * - The loop over instructions has an indirect jump at the end of the code of most instructions, so
 *   it is among the functions with most of them in a block of code. rb_vm_exec is the only function
 *   that calls it.
 *
 * Example: Debian's libruby 3.3.8 has 129 indirect jumps in 0x278fd0 - 0x27df8f, and the calls of
 * that function are in 0x27dfa0 - 0x27e1f5.
 */
#include "symbolizer/runtime/ruby_code.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/cursor.h"
#include "common/slices.h"
#include "symbolizer/runtime/limits.h"
#include "symbolizer/runtime/thread_keys.h"

enum {
	START_BYTES = 128,  /* of a function: enough for what is looked for */
	BLOCK_BYTES = 4096, /* in which indirect jumps are counted */
	LOOP_BYTES_MIN = 8192,
	LOOP_BYTES_MAX = 1 << 18,
	LOOP_JUMPS_MIN = 64, /* 3.1 has 124, and the matcher of regular expressions 48 */
	LOOP_BLOCKS = 32,    /* at most; in 4.0 the parser has fewer jumps, but in fewer blocks */
	EXEC_BYTES_MAX = 16384,
	CALL_BYTES = 5,
	LEAVE_BYTES_MAX = 256,
	IDS_BYTES = 256, /* of a function: enough for the comparison with the last id */
	IDS_OFFSET = 16, /* in rb_symbols_t, from last_id */
};

bool ruby_code_context(const uint8_t *code, size_t length, uint64_t vaddr,
		       struct ruby_thread_local *context)
{
	/* data16 lea index(%rip), %rdi; and mov %fs:offset, %reg. */
	static const uint8_t lea[] = {0x66, 0x48, 0x8d, 0x3d};
	static const uint8_t load[] = {0x64, 0x48, 0x8b};
	/* lea offset(%rax), %rax: what the linker makes of the first one in a program. */
	static const uint8_t add[] = {0x48, 0x8d, 0x80};

	for (size_t i = 0; i + 16 <= length; i++) {
		const uint8_t *at = code + i;

		if (!memcmp(at, lea, sizeof(lea))) {
			context->index = vaddr + i + 8 + cursor_displacement(at + 4);
			context->offset = 0;
			return true;
		}
		if (memcmp(at, load, sizeof(load)) || (at[3] & 0xc7) != 0x04 || at[4] != 0x25)
			continue;
		int32_t offset = (int32_t)cursor_u32_at(at + 5);
		if (!offset && !memcmp(at + 9, add, sizeof(add)))
			offset = (int32_t)cursor_u32_at(at + 12);
		/* What a program has is below the thread pointer. */
		if (offset < 0) {
			context->index = 0;
			context->offset = offset;
			return true;
		}
	}
	return false;
}

bool ruby_code_collector(const uint8_t *code, size_t length, uint64_t vaddr,
			 struct ruby_collector *collector)
{
	static const uint8_t endbr[] = {0xf3, 0x0f, 0x1e, 0xfa};
	size_t i = length >= sizeof(endbr) && !memcmp(code, endbr, sizeof(endbr)) ? 4 : 0;

	if (length < START_BYTES || code[i] != 0x48 ||
	    (code[i + 1] != 0x8b && code[i + 1] != 0x8d) || code[i + 2] != 0x05)
		return false;
	const bool is_load = code[i + 1] == 0x8b;
	struct ruby_collector found = {.variable =
					   vaddr + i + 7 + cursor_displacement(code + i + 3)};
	i += 7;
	/* mov (%rax), %rax */
	const bool is_second = code[i] == 0x48 && code[i + 1] == 0x8b && code[i + 2] == 0x00;
	if (is_second)
		i += 3;
	if (!is_load && !is_second)
		return false;
	found.is_indirect = is_load && is_second;
	/* test %rax, %rax; je */
	if (code[i] == 0x48 && code[i + 1] == 0x85 && code[i + 2] == 0xc0 && code[i + 3] == 0x74)
		i += 5;
	/* mov space(%rax), %rax; movzbl flags(%rax), %eax; shr $bit, %al or %eax */
	if (code[i] != 0x48 || code[i + 1] != 0x8b || code[i + 2] != 0x80)
		return false;
	found.space = cursor_u32_at(code + i + 3);
	i += 7;
	if (code[i] != 0x0f || code[i + 1] != 0xb6 || code[i + 2] != 0x40)
		return false;
	found.flags = code[i + 3];
	i += 4;
	if ((code[i] != 0xc0 && code[i] != 0xc1) || code[i + 1] != 0xe8 || code[i + 2] > 7)
		return false;
	found.mask = 1u << code[i + 2];
	*collector = found;
	return true;
}

/* Returns the length of test %REGISTER, %REGISTER; je at `i`, and where that leads to; 0: there is
 * something else. */
static size_t branch_at(const uint8_t *code, size_t length, size_t i, size_t *target)
{
	const uint8_t *at = code + i;

	if (i + 8 > length || at[0] != 0x85 || at[1] >> 6 != 3 || (at[1] >> 3 & 7) != (at[1] & 7))
		return 0;
	if (at[2] == 0x74) {
		*target = i + 4 + (size_t)(int8_t)at[3];
		return 4;
	}
	*target = i + 8 + (size_t)cursor_displacement(at + 4);
	return at[2] == 0x0f && at[3] == 0x84 ? 8 : 0;
}

/* Returns whether a ret is at `i`, after a pop of a register or an addition to %rsp. Otherwise the
 * byte may be a part of something else. */
static bool is_return(const uint8_t *code, size_t start, size_t i)
{
	static const uint8_t add_8[] = {0x48, 0x83, 0xc4}, add_32[] = {0x48, 0x81, 0xc4};
	const size_t before = i - start;

	return code[i] == 0xc3 && ((before >= 1 && code[i - 1] >= 0x58 && code[i - 1] <= 0x5f) ||
				   (before >= 4 && !memcmp(code + i - 4, add_8, sizeof(add_8))) ||
				   (before >= 7 && !memcmp(code + i - 7, add_32, sizeof(add_32))));
}

bool ruby_code_leave(const uint8_t *code, size_t length, uint64_t vaddr, size_t call,
		     struct function_range leave[static RUBY_LEAVE_PARTS])
{
	size_t at = call + CALL_BYTES, part = 0, target;

	if (at + CALL_BYTES > length)
		return false;
	if (code[at] == 0xe9)
		at += 5 + (size_t)cursor_displacement(code + at + 1);
	else if (code[at] == 0xeb)
		at += 2 + (size_t)(int8_t)code[at + 1];
	for (size_t i = at; i < length && i - at < LEAVE_BYTES_MAX; i++) {
		/* Whether there was an exception. */
		const size_t branch = part ? 0 : branch_at(code, length, i, &target);

		if (branch) {
			leave[part++] = (struct function_range){vaddr + at, vaddr + i + branch};
			at = i = target;
			if (at >= length)
				return false;
		}
		if (is_return(code, at, i)) {
			leave[part] = (struct function_range){vaddr + at, vaddr + i + 1};
			return true;
		}
	}
	return false;
}

/* Returns whether there is mov last_id(%rip), %register; cmp %register, %register. */
static bool is_load_of_id(const uint8_t *code)
{
	const uint8_t reg = code[1] >> 3 & 7;

	return code[0] == 0x8b && (code[1] & 0xc7) == 0x05 &&
	       ((code[6] == 0x39 && code[7] >> 6 == 3 && (code[7] >> 3 & 7) == reg) ||
		(code[6] == 0x3b && code[7] >> 6 == 3 && (code[7] & 7) == reg));
}

bool ruby_code_ids(const uint8_t *code, size_t length, uint64_t vaddr, uint64_t *ids)
{
	for (size_t i = 0; i + 8 <= length; i++) {
		/* cmp %register, last_id(%rip); or the other way round */
		const bool is_compared =
		    (code[i] == 0x39 || code[i] == 0x3b) && (code[i + 1] & 0xc7) == 0x05;

		if (is_compared || is_load_of_id(code + i)) {
			*ids = vaddr + i + 6 + cursor_displacement(code + i + 2) + IDS_OFFSET;
			return true;
		}
	}
	return false;
}

/* Finds the table of names, from rb_id2str(). Returns whether it was found. */
static bool find_ids(const struct runtime_file *file, struct ruby_code *code)
{
	struct runtime_symbol symbol;
	uint8_t bytes[IDS_BYTES];

	if (runtime_file_exported(file, "rb_id2str", &symbol) < 0 ||
	    runtime_file_read(file, symbol.vaddr, bytes, sizeof(bytes)) < 0)
		return false;
	const size_t length = symbol.size < sizeof(bytes) ? symbol.size : sizeof(bytes);
	if (ruby_code_ids(bytes, length, symbol.vaddr, &code->ids))
		return true;
	uint64_t target = 0;
	for (size_t i = 0; i + CALL_BYTES <= length; i++) {
		if (bytes[i] == 0xe9)
			target = symbol.vaddr + i + CALL_BYTES + cursor_displacement(bytes + i + 1);
	}
	return target && runtime_file_read(file, target, bytes, sizeof(bytes)) == 0 &&
	       ruby_code_ids(bytes, sizeof(bytes), target, &code->ids);
}

/* Executable bytes of the file. */
struct text {
	uint8_t *bytes;
	size_t length;
	uint64_t vaddr;
};

static bool text_read(const struct runtime_file *file, struct text *text)
{
	struct runtime_symbol symbol;

	if (runtime_file_exported(file, "rb_profile_frames", &symbol) < 0)
		return false;
	const struct elf_segment *segment = elf_image_find_code(&file->image, symbol.vaddr);
	if (!segment || elf_image_read_vaddr(&file->image, segment->vaddr, segment->file_size,
					     RUBY_TEXT_BYTES_MAX, &text->bytes, &text->length) < 0)
		return false;
	text->vaddr = segment->vaddr;
	return true;
}

/* Whether there may be an indirect jump by a register, or by a word that it refers to or that is a
 * little after that. `code` starts with 0xff. Bytes after another 0xff mostly follow a
 * displacement. */
static bool is_indirect_jump(const uint8_t *code)
{
	const uint8_t operand = code[1], mode = operand >> 6;
	/* By r12, there is a further byte. */
	const bool is_long = mode != 3 && (operand & 7) == 4;

	if (code[-1] == 0xff || (operand & 0x38) != 0x20 || operand == 0x25 || mode == 2 ||
	    (is_long && code[2] != 0x24))
		return false;
	return mode != 1 || !(code[2 + is_long] & 0x87);
}

/* Counts indirect jumps in a part of the text. */
static unsigned int count_jumps(const struct text *text, size_t start, size_t end)
{
	unsigned int count = 0;

	if (text->length < 3)
		return 0;
	const uint8_t *at = text->bytes + (start ? start : 1);
	const uint8_t *last = text->bytes + (end < text->length - 3 ? end : text->length - 3);
	while (at < last && (at = memchr(at, 0xff, (size_t)(last - at))))
		count += is_indirect_jump(at++);
	return count;
}

/* Returns the offset of the first call of the loop from `start` on, or the length. */
static size_t find_call(const struct text *text, const struct ruby_code *code, size_t start)
{
	size_t i = start;

	while (i + CALL_BYTES <= text->length) {
		const size_t last = text->length - CALL_BYTES + 1;
		const size_t next = i - i % BLOCK_BYTES + BLOCK_BYTES,
			     end = next < last ? next : last;
		const uint8_t *at = memchr(text->bytes + i, 0xe8, end - i);

		if (!at) {
			slices_pause_when_due();
			i = end;
			continue;
		}
		i = (size_t)(at - text->bytes);
		if (text->vaddr + i + CALL_BYTES + cursor_displacement(at + 1) == code->loop.start)
			return i;
		i++;
	}
	return text->length;
}

/* Finds the one function that calls the loop, and its end. */
static bool find_exec(const struct runtime_file *file, const struct function_ranges *ranges,
		      const struct text *text, struct ruby_code *code)
{
	const size_t first = find_call(text, code, 0);
	struct function_range leave[RUBY_LEAVE_PARTS] = {0};

	if (first == text->length ||
	    !function_ranges_find(ranges, &file->image.source, text->vaddr + first, &code->exec) ||
	    code->exec.end - code->exec.start > EXEC_BYTES_MAX)
		return false;
	for (size_t i = first; i < text->length; i = find_call(text, code, i + 1)) {
		if (text->vaddr + i < code->exec.start || text->vaddr + i >= code->exec.end)
			return false;
	}
	if (!ruby_code_leave(text->bytes, text->length, text->vaddr, first, leave))
		return true;
	for (int i = 0; i < RUBY_LEAVE_PARTS; i++) {
		if (leave[i].start >= code->exec.start && leave[i].end <= code->exec.end)
			code->leave[i] = leave[i];
	}
	return true;
}

/* Returns whether the function may be the loop. */
static bool is_loop(const struct text *text, const struct function_range *range)
{
	const uint64_t bytes = range->end - range->start, start = range->start - text->vaddr;

	return bytes >= LOOP_BYTES_MIN && bytes <= LOOP_BYTES_MAX && start < text->length &&
	       bytes <= text->length - start &&
	       count_jumps(text, start, start + bytes) >= LOOP_JUMPS_MIN;
}

/* Finds the loop and the function that calls it, by the blocks with most indirect jumps. `counts`
 * are those of all blocks, and are changed. */
static bool find_loop_in(const struct runtime_file *file, const struct function_ranges *ranges,
			 const struct text *text, uint16_t *counts, struct ruby_code *code)
{
	const size_t blocks = text->length / BLOCK_BYTES;
	struct function_range refused = {0};

	for (int turn = 0; turn < LOOP_BLOCKS; turn++) {
		size_t best = 0;

		for (size_t i = 0; i < blocks; i++) {
			if (counts[i] > counts[best])
				best = i;
		}
		const uint64_t vaddr = text->vaddr + best * BLOCK_BYTES + BLOCK_BYTES / 2;
		if (!counts[best])
			return false;
		counts[best] = 0;
		if (vaddr - refused.start < refused.end - refused.start ||
		    !function_ranges_find(ranges, &file->image.source, vaddr, &code->loop))
			continue;
		if (is_loop(text, &code->loop) && find_exec(file, ranges, text, code))
			return true;
		refused = code->loop;
	}
	return false;
}

static bool find_loop(const struct runtime_file *file, const struct function_ranges *ranges,
		      const struct text *text, struct ruby_code *code)
{
	const size_t blocks = text->length / BLOCK_BYTES;
	_cleanup_free_ uint16_t *counts = calloc(blocks + 1, sizeof(*counts));

	for (size_t i = 0; counts && i < blocks; i++) {
		slices_pause_when_due();
		counts[i] = (uint16_t)count_jumps(text, i * BLOCK_BYTES, (i + 1) * BLOCK_BYTES);
	}
	return counts && find_loop_in(file, ranges, text, counts, code);
}

/* Finds the part of a function that the compiler split off. */
static void find_unlikely(const struct runtime_file *file, const struct text *text,
			  const struct function_range *range, struct split_part *part)
{
	const uint64_t at = range->start - text->vaddr, bytes = range->end - range->start;

	*part = (struct split_part){0};
	if (at < text->length && bytes <= text->length - at &&
	    !split_part_find(file, range->start, text->bytes + at, bytes, part))
		*part = (struct split_part){0};
}

/* Reads the start of an exported function. Returns whether it is there. */
static bool read_start(const struct runtime_file *file, const char *name,
		       struct runtime_symbol *symbol, uint8_t bytes[static START_BYTES])
{
	return runtime_file_exported(file, name, symbol) == 0 &&
	       runtime_file_read(file, symbol->vaddr, bytes, START_BYTES) == 0;
}

/* Finds where a thread keeps its context. Returns whether it was found. */
static bool find_context(const struct runtime_file *file, struct ruby_code *code)
{
	struct runtime_symbol symbol;
	uint8_t start[START_BYTES];

	if (runtime_file_exported(file, "ruby_current_execution_context_ptr", &symbol) == 0) {
		code->key.current = symbol.vaddr;
		return read_start(file, "ruby_native_thread_p", &symbol, start) &&
		       thread_key_in_code(start, sizeof(start), symbol.vaddr, &code->key.number);
	}
	return read_start(file, "rb_profile_frames", &symbol, start) &&
	       ruby_code_context(start, sizeof(start), symbol.vaddr, &code->context);
}

int ruby_code_find(const struct runtime_file *file, struct ruby_code *code)
{
	struct text text = {0};
	struct function_ranges ranges;
	struct runtime_symbol symbol;
	uint8_t start[START_BYTES];
	bool found = false;

	*code = (struct ruby_code){0};
	if (!find_context(file, code) || !find_ids(file, code))
		return -ENOENT;
	if (read_start(file, "rb_during_gc", &symbol, start))
		ruby_code_collector(start, sizeof(start), symbol.vaddr, &code->collector);
	int r = function_ranges_init(&ranges, &file->image, RUBY_RANGES_BYTES_MAX);
	if (r < 0)
		return r;
	found = text_read(file, &text) && find_loop(file, &ranges, &text, code);
	if (found) {
		find_unlikely(file, &text, &code->loop, &code->loop_unlikely);
		find_unlikely(file, &text, &code->exec, &code->exec_unlikely);
	}
	function_ranges_fini(&ranges);
	free(text.bytes);
	return found ? 0 : -ENOENT;
}
