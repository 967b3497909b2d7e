/* SPDX-License-Identifier: Apache-2.0 */
/* Go: where goroutines have what is read, by the runtime's code, and which labels a copy has. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "symbolizer/runtime/go_file.h"
#include "symbolizer/runtime/runtime.h"

/* --- code --- */

/* The starts of runtime.systemstack as Go 1.21 and, position-independent, Go 1.26 have it, and of
 * runtime/pprof.runtime_setProfLabel, up to what is read. */
static const uint8_t stack_1_21[] = {
    0x55, 0x48, 0x89, 0xe5, 0x48, 0x8b, 0x7c, 0x24, 0x10, 0x64, 0x48, 0x8b, 0x04, 0x25, 0xf8,
    0xff, 0xff, 0xff, 0x48, 0x8b, 0x58, 0x30, 0x48, 0x3b, 0x43, 0x50, 0x74, 0x65, 0x48, 0x8b,
    0x13, 0x48, 0x39, 0xd0, 0x74, 0x5d, 0x48, 0x3b, 0x83, 0xc0, 0,    0,    0,	  0x75, 0x5d};
static const uint8_t stack_1_26[] = {
    0x55, 0x48, 0x89, 0xe5, 0x48, 0x8b, 0x7c, 0x24, 0x10, 0x48, 0xc7, 0xc1, 0xf0, 0xff, 0xff,
    0xff, 0x64, 0x48, 0x8b, 0x01, 0x48, 0x8b, 0x58, 0x30, 0x48, 0x3b, 0x43, 0x48, 0x74, 0x5d,
    0x48, 0x8b, 0x13, 0x48, 0x39, 0xd0, 0x74, 0x55, 0x48, 0x3b, 0x83, 0xb8, 0,	  0,	0};
static const uint8_t set_rcx[] = {0x49, 0x3b, 0x66, 0x10, 0x49, 0x8b, 0x8e, 0x58, 0x01, 0, 0};
static const uint8_t set_rax[] = {0x90, 0x49, 0x8b, 0x86, 0x60, 0x01, 0, 0, 0xc3};

static struct go_block block;

static int decode(const uint8_t *stack, size_t stack_length, const uint8_t *set, size_t set_length)
{
	block = (struct go_block){0};
	const int r = go_file_decode_user(stack, stack_length, &block);

	return r ? r : go_file_decode_labels(set, set_length, &block);
}

Test(go, offsets_are_those_of_the_code)
{
	cr_assert_eq(decode(stack_1_21, sizeof(stack_1_21), set_rcx, sizeof(set_rcx)), 0);
	cr_expect_eq(block.current, -8);
	cr_expect_eq(block.thread, 0x30);
	cr_expect_eq(block.user, 0xc0);
	cr_expect_eq(block.labels, 0x158);
	cr_assert_eq(decode(stack_1_26, sizeof(stack_1_26), set_rax, sizeof(set_rax)), 0);
	cr_expect_eq(block.current, -16);
	cr_expect_eq(block.user, 0xb8);
	cr_expect_eq(block.labels, 0x160);
}

Test(go, code_that_is_cut_is_refused)
{
	for (size_t i = 0; i < sizeof(stack_1_26); i++)
		cr_expect_eq(decode(stack_1_26, i, set_rcx, sizeof(set_rcx)), -ENOTSUP, "%zu", i);
	for (size_t i = 0; i < 43; i++)
		cr_expect_eq(decode(stack_1_21, i, set_rcx, sizeof(set_rcx)), -ENOTSUP, "%zu", i);
	for (size_t i = 0; i < sizeof(set_rcx); i++)
		cr_expect_eq(decode(stack_1_21, sizeof(stack_1_21), set_rcx, i), -ENOTSUP, "%zu",
			     i);
}

Test(go, offsets_beyond_the_structures_are_refused)
{
	uint8_t set[sizeof(set_rcx)];

	memcpy(set, set_rcx, sizeof(set));
	set[sizeof(set) - 1] = 0x7f;
	cr_expect_eq(decode(stack_1_21, sizeof(stack_1_21), set, sizeof(set)), -ENOTSUP);
	set[sizeof(set) - 1] = 0xff;
	cr_expect_eq(decode(stack_1_21, sizeof(stack_1_21), set, sizeof(set)), -ENOTSUP);
	memcpy(set, set_rcx, sizeof(set));
	set[7] |= 1;
	cr_expect_eq(decode(stack_1_21, sizeof(stack_1_21), set, sizeof(set)), -ENOTSUP);
}

/* Of runtime.morestack as Go 1.21 and 1.26 have it, the part that is read. */
static const uint8_t grow_1_21[] = {0x48, 0x89, 0x73, 0x18, 0x48, 0x8b, 0x04, 0x24, 0x48,
				    0x89, 0x46, 0x40, 0x48, 0x8d, 0x44, 0x24, 0x08, 0x48,
				    0x89, 0x46, 0x38, 0x48, 0x89, 0x6e, 0x68};
static const uint8_t grow_1_26[] = {0x48, 0x8b, 0x04, 0x24, 0x48, 0x89, 0x47, 0x40,
				    0x48, 0x8d, 0x44, 0x24, 0x08, 0x48, 0x89, 0x47,
				    0x38, 0x48, 0x89, 0x6f, 0x60, 0x48};

static int decode_saved(const uint8_t *code, size_t length)
{
	block = (struct go_block){0};
	return go_file_decode_saved(code, length, &block);
}

Test(go, what_a_goroutine_saves_is_where_the_code_has_it)
{
	uint8_t other[sizeof(grow_1_26)];

	cr_assert_eq(decode_saved(grow_1_21, sizeof(grow_1_21)), 0);
	cr_expect_eq(block.saved_pc, 0x40);
	cr_expect_eq(block.saved_sp, 0x38);
	cr_expect_eq(block.saved_fp, 0x68);
	cr_assert_eq(decode_saved(grow_1_26, sizeof(grow_1_26)), 0);
	cr_expect_eq(block.saved_fp, 0x60);
	for (size_t i = 0; i < 21; i++)
		cr_expect_eq(decode_saved(grow_1_26, i), -ENOTSUP, "%zu", i);
	/* One of the registers is another one, or memory is addressed in another way. */
	static const size_t registers[] = {6, 15, 19};

	for (size_t i = 0; i < sizeof(registers) / sizeof(registers[0]); i++) {
		memcpy(other, grow_1_26, sizeof(other));
		other[registers[i]] ^= 1;
		cr_expect_eq(decode_saved(other, sizeof(other)), -ENOTSUP, "%zu", i);
		other[registers[i]] ^= 0xc1;
		cr_expect_eq(decode_saved(other, sizeof(other)), -ENOTSUP, "%zu", i);
	}
}

/* Of runtime.casgstatus and runtime.goroutineheader as Go 1.23 has them, the parts that are read,
 * with something like them before. */
static const uint8_t change[] = {0x0f, 0xb1, 0x8f, 1,	 2,    3, 4,	0xf0, 0x0f,
				 0xb1, 0x8f, 0x98, 0x00, 0x00, 0, 0x0f, 0x94};
static const uint8_t print[] = {0x8b, 0x88, 0xa0, 0, 0, 0, 0x48, 0x8b, 0x90, 0xa0, 0, 0, 0, 0x48};

static int decode_id(const uint8_t *code, size_t length, const uint8_t *header,
		     size_t header_length)
{
	block = (struct go_block){0};
	return go_file_decode_id(code, length, header, header_length, &block);
}

Test(go, the_id_is_where_the_code_has_it)
{
	uint8_t other[sizeof(change)];

	cr_assert_eq(decode_id(change, sizeof(change), print, sizeof(print)), 0);
	cr_expect_eq(block.id, 0xa0);
	for (size_t i = 0; i < 15; i++)
		cr_expect_eq(decode_id(change, i, print, sizeof(print)), -ENOTSUP, "%zu", i);
	for (size_t i = 0; i < 13; i++)
		cr_expect_eq(decode_id(change, sizeof(change), print, i), -ENOTSUP, "%zu", i);
	/* The second function must agree. */
	memcpy(other, change, sizeof(other));
	other[11] = 0x90;
	cr_expect_eq(decode_id(other, sizeof(other), print, sizeof(print)), -ENOTSUP);
	/* Another kind of address. */
	memcpy(other, change, sizeof(other));
	other[10] = 0x8c;
	cr_expect_eq(decode_id(other, sizeof(other), print, sizeof(print)), -ENOTSUP);
	cr_expect_eq(block.id, 0);
}

/* --- copies --- */

enum {
	LIST = 0xc000010000,
	TEXT = 0xc000020000,
};

/* A copy as the kernel side makes it, without its head: the list, and then the texts. */
static struct {
	struct bh_memory_part list_part;
	uint64_t list[GO_LIST_WORDS];
	struct {
		struct bh_memory_part part;
		char text[GO_LABEL_BYTES];
	} texts[GO_LABELS_MAX * 2];
} copy;
static unsigned int texts;
static uint64_t hash;
static struct go_image image;
static struct memory memory;
static struct runtime_process process;
static struct named_frames frames;

static void setup(void)
{
	memset(&copy, 0, sizeof(copy));
	texts = 0;
	hash = 0;
	copy.list_part = (struct bh_memory_part){LIST, 0, sizeof(copy.list)};
	for (unsigned int i = 0; i < GO_LABELS_MAX * 2; i++)
		copy.texts[i].part.room = GO_LABEL_BYTES;
	process = (struct runtime_process){.ops = &runtime_go, .image = &image, .memory = &memory};
	memory =
	    (struct memory){.fd = -1, .copy = (const uint8_t *)&copy, .copy_bytes = sizeof(copy)};
}

TestSuite(go_copies, .init = setup);

/* Adds a text to the copy, at a word of the list. */
static void put_text(uint32_t word, const char *text)
{
	const uint64_t length = strlen(text);
	const uint32_t bytes = length < GO_LABEL_BYTES ? (uint32_t)length : GO_LABEL_BYTES;
	uint64_t words[GO_LABEL_WORDS] = {0};

	copy.list[word] = bytes ? TEXT + texts * 64 : 0;
	copy.list[word + 1] = length;
	copy.texts[texts].part = (struct bh_memory_part){TEXT + texts * 64, bytes, GO_LABEL_BYTES};
	memcpy(copy.texts[texts++].text, text, bytes);
	memcpy(words, text, bytes);
	hash = go_hash(hash, bytes);
	for (int i = 0; i < GO_LABEL_WORDS; i++)
		hash = go_hash(hash, words[i]);
}

static void put_label(uint32_t label, const char *key, const char *value)
{
	put_text(go_text_word(image.block.is_map, label, 0), key);
	put_text(go_text_word(image.block.is_map, label, 1), value);
	if (image.block.is_map)
		copy.list[0] |= (uint64_t)GO_BUCKET_FILLED << 8 * label;
	copy.list_part.bytes =
	    image.block.is_map ? (uint32_t)GO_BUCKET_BYTES : (label + 1) * GO_LABEL_SIZE;
}

static uint64_t other_identity; /* bits in which the frame differs from its labels */

static int symbolize(void)
{
	const uint64_t words[] = {bh_frame_managed(BH_RUNTIME_GO, go_frame_payload(hash), 1),
				  go_frame_word(hash) ^ other_identity};

	frames.used = 0;
	frames.count = 0;
	memory_allow(&memory, 64, 1 << 16);
	return runtime_go.symbolize(&process, words, &frames);
}

static const char long_text[] = "a text of more than forty-eight bytes, of which those are shown";

Test(go_copies, of_a_slice)
{
	put_label(0, "request", "checkout");
	put_label(1, "empty", "");
	put_label(2, "long", long_text);
	cr_assert_eq(symbolize(), 0);
	cr_assert_eq(frames.label_count, 3);
	cr_expect_eq(frames.count, 0);
	cr_expect_str_eq(frames.labels[0].key, "request");
	cr_expect_str_eq(frames.labels[0].value, "checkout");
	cr_expect_str_eq(frames.labels[1].value, "");
	cr_expect_eq(strlen(frames.labels[2].value), GO_LABEL_BYTES);
	cr_expect_eq(strncmp(frames.labels[2].value, long_text, GO_LABEL_BYTES), 0);
}

Test(go_copies, of_a_map)
{
	image.block.is_map = 1;
	put_label(1, "request", "checkout");
	put_label(7, "user", "alice");
	cr_assert_eq(symbolize(), 0);
	cr_assert_eq(frames.label_count, 2);
	cr_expect_str_eq(frames.labels[0].key, "request");
	cr_expect_str_eq(frames.labels[1].value, "alice");
	/* Part of a bucket is none. */
	copy.list_part.bytes = GO_BUCKET_BYTES - 8;
	cr_expect_eq(symbolize(), -ESTALE);
	cr_expect_eq(frames.label_count, 0);
}

Test(go_copies, as_many_as_there_may_be)
{
	for (uint32_t i = 0; i < GO_LABELS_MAX; i++)
		put_label(i, long_text, long_text);
	cr_assert_eq(symbolize(), 0);
	cr_expect_eq(frames.label_count, GO_LABELS_MAX);
}

/* Other labels than those that were sampled are not shown, whatever the memory says. */
Test(go_copies, must_have_the_hash_of_the_frame)
{
	put_label(0, "request", "checkout");
	copy.texts[1].text[0]++;
	cr_expect_eq(symbolize(), -ESTALE);
	copy.texts[1].text[0]--;
	cr_expect_eq(symbolize(), 0);
	copy.list[3]--;
	cr_expect_eq(symbolize(), -ESTALE);
	copy.list[3]++;
	other_identity = 1ull << 63;
	cr_expect_eq(symbolize(), -ESTALE);
	other_identity = 0;
	hash++;
	cr_expect_eq(symbolize(), -ESTALE);
	cr_expect_eq(frames.label_count, 0);
}

Test(go_copies, forged_ones)
{
	put_label(0, "request", "checkout");
	copy.list[1] = UINT64_MAX;
	cr_expect_lt(symbolize(), 0);
	copy.list[0] = LIST;
	cr_expect_lt(symbolize(), 0);
	copy.list_part.bytes = UINT32_MAX;
	cr_expect_eq(symbolize(), -ESTALE);
	copy.list_part.bytes = 0;
	cr_expect_eq(symbolize(), -ESTALE);
	memory.copy_bytes = sizeof(struct bh_memory_part) - 1;
	cr_expect_eq(symbolize(), -ESTALE);
	/* Without a copy nothing says where they are. */
	memory.copy = NULL;
	cr_expect_eq(symbolize(), -ESTALE);
}
