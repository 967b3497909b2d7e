/* SPDX-License-Identifier: Apache-2.0 */
/* Names of Ruby frames, from structures in this process that are laid out as those of Ruby 3.3. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/runtime/ruby_class.h"
#include "symbolizer/runtime/ruby_names.h"

enum {
	READS = 1000,
	BYTES = 1 << 20,
	TEXT = 24,
	LINES = 112,
	CLASS_WORD = 24,
	CLASS_OBJECT = 128,
	CLASS_HAS_PATH = 149,
	CLASS_PATH = 152,
	SINGLETON = 1 << 12,
	SERIAL = 4711,
};

struct string {
	uint64_t flags, class, length;
	char text[1100];
};

static struct {
	uint64_t body[40];
	uint64_t instructions[8];
	uint64_t definition[RUBY_DEFINITION_WORDS];
	uint64_t class[24], singleton[24];
	uint32_t entry[3];
	struct string label, base, path, class_name;
} ruby;

static const struct ruby_offsets offsets = {.version = 303,
					    .text = TEXT,
					    .lines = LINES,
					    .class_word = CLASS_WORD,
					    .class_object = CLASS_OBJECT,
					    .class_has_path = CLASS_HAS_PATH,
					    .class_path = CLASS_PATH,
					    .singleton = SINGLETON};
static const struct ruby_image image = {.offsets = &offsets};
static struct memory memory;
static struct ruby_names *names;
static struct named_frames frames;
static const uint64_t *method_class; /* of the method of the next frame */

static uint64_t at(const void *object)
{
	return (uint64_t)(uintptr_t)object;
}

static void set_string(struct string *string, const char *text)
{
	string->flags = RUBY_OBJECT_STRING;
	string->length = strlen(text);
	snprintf(string->text, sizeof(string->text), "%s", text);
}

static uint32_t hash_of(const struct string *string)
{
	uint64_t start, end[TEXT_END_BYTES / 8];

	memcpy(&start, string->text, sizeof(start));
	memcpy(end, string->text + text_end_of(string->length), sizeof(end));
	return (uint32_t)text_hash(string->length, start, end);
}

/* Cart#total in /srv/cart.rb, which starts at line 10, and is at line 12. */
static void setup(void)
{
	memory = (struct memory){.fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC)};
	cr_assert_geq(memory.fd, 0);
	memory_allow(&memory, READS, BYTES);
	names = ruby_names_new();
	cr_assert_not_null(names);
	set_string(&ruby.label, "total");
	set_string(&ruby.base, "total");
	set_string(&ruby.path, "/srv/cart.rb");
	set_string(&ruby.class_name, "Cart");
	ruby.body[RUBY_BODY_SIZE] = 8ull << 32 | 1;
	ruby.body[RUBY_BODY_START] = at(ruby.instructions);
	ruby.body[RUBY_BODY_PATH] = at(&ruby.path);
	ruby.body[RUBY_BODY_BASE] = at(&ruby.base);
	ruby.body[RUBY_BODY_LABEL] = at(&ruby.label);
	ruby.body[RUBY_BODY_LINE] = 10;
	ruby.body[LINES / 8] = at(ruby.entry);
	ruby.body[LINES / 8 + 2] = 1;
	ruby.entry[0] = 12;
	method_class = ruby.class;
	ruby.definition[RUBY_DEFINITION_SERIAL / 8] = SERIAL;
	ruby.class[0] = RUBY_OBJECT_CLASS;
	ruby.class[CLASS_WORD / 8] = 77;
	ruby.class[CLASS_PATH / 8] = at(&ruby.class_name);
	((uint8_t *)ruby.class)[CLASS_HAS_PATH] = 1;
	ruby.singleton[0] = RUBY_OBJECT_CLASS | SINGLETON;
	ruby.singleton[CLASS_WORD / 8] = 78;
	ruby.singleton[CLASS_OBJECT / 8] = at(ruby.class);
}

static void teardown(void)
{
	free(names);
}

TestSuite(ruby_names, .init = setup, .fini = teardown);

/* Names the frame that the walker would push now. */
static void make_words(uint64_t words[3], enum ruby_frame kind)
{
	const uint64_t owner = at(method_class) ^ method_class[CLASS_WORD / 8];
	const uint32_t identity =
	    ruby_identity(owner, ruby.body, hash_of(&ruby.label), hash_of(&ruby.path));

	words[0] = bh_frame_managed(BH_RUNTIME_RUBY, at(ruby.body), 2);
	words[1] = frame_word(identity, kind, ruby_position(at(ruby.instructions + 3)));
	words[2] = at(method_class);
}

static int find(const uint64_t words[3])
{
	frames = (struct named_frames){0};
	return ruby_names_find(names, &image, 0, &memory, words, &frames);
}

static void expect(const char *name)
{
	uint64_t words[3];

	make_words(words, RUBY_FRAME_BODY);
	cr_assert_eq(find(words), 0);
	cr_assert_str_eq(frames.frames[0].function, name);
}

Test(ruby_names, a_method_has_class_file_and_lines)
{
	uint64_t words[3];

	make_words(words, RUBY_FRAME_BODY);
	cr_assert_eq(find(words), 0);
	cr_assert_eq(frames.count, 1);
	cr_assert_str_eq(frames.frames[0].function, "Cart#total");
	cr_assert_str_eq(frames.frames[0].file, "/srv/cart.rb");
	cr_assert_eq(frames.frames[0].line, 12);
	cr_assert_eq(frames.frames[0].start_line, 10);
}

Test(ruby_names, the_class_is_before_the_name_of_the_method)
{
	set_string(&ruby.label, "block (2 levels) in total");
	expect("block (2 levels) in Cart#total");
	method_class = ruby.singleton;
	expect("block (2 levels) in Cart.total");
	set_string(&ruby.label, "<");
	set_string(&ruby.base, "<");
	expect("Cart.<");
}

Test(ruby_names, what_is_no_method_has_no_class)
{
	set_string(&ruby.label, "block in <main>");
	set_string(&ruby.base, "<main>");
	expect("block in <main>");
	set_string(&ruby.label, "singleton class");
	set_string(&ruby.base, "singleton class");
	expect("singleton class");
}

Test(ruby_names, a_class_without_a_name_is_not_shown)
{
	((uint8_t *)ruby.class)[CLASS_HAS_PATH] = 0;
	expect("total");
	/* The singleton class of an object that is no class. */
	method_class = ruby.singleton;
	ruby.singleton[CLASS_OBJECT / 8] = at(&ruby.path);
	expect("total");
	ruby.singleton[CLASS_OBJECT / 8] = at(ruby.singleton);
	expect("total");
}

/* In 3.2 the name is among the variables of the class, and shapes say where. */
Test(ruby_names, a_class_has_its_name_where_its_shape_says)
{
	enum {
		VALUES = 32,
		SHAPES = 376,
		IS_ROOT = 0,
		IS_VARIABLE = 1,
		OTHER_ID = 0x511,
		PATH_ID = 0x521
	};
	/* Edges, name, number of variables; parent and type. */
	uint64_t shapes[][4] = {
	    {0, 0, 0, IS_ROOT},
	    {0, OTHER_ID, 1, IS_VARIABLE},
	    {0, PATH_ID, 2, IS_VARIABLE | 1ull << 32},
	    {0, OTHER_ID, 3, IS_VARIABLE | 2ull << 32},
	};
	uint64_t values[] = {0, at(&ruby.class_name), 0}, vm[SHAPES / 8 + 1] = {0},
		 current = at(vm);
	const struct ruby_offsets with_shapes = {.version = 302,
						 .text = TEXT,
						 .lines = LINES,
						 .class_word = CLASS_WORD,
						 .singleton = SINGLETON,
						 .class_values = VALUES,
						 .shapes = SHAPES};
	const struct ruby_image of_shapes = {.offsets = &with_shapes,
					     .code.collector.variable = at(&current)};
	uint64_t words[3];

	vm[SHAPES / 8] = at(shapes);
	ruby.class[VALUES / 8] = at(values);
	ruby.class[0] |= 3ull << 32;
	names->class_path = PATH_ID;
	make_words(words, RUBY_FRAME_BODY);
	cr_assert_eq(ruby_names_find(names, &of_shapes, 0, &memory, words, &frames), 0);
	cr_assert_str_eq(frames.frames[0].function, "Cart#total");
	/* It has none. */
	frames = (struct named_frames){0};
	shapes[2][1] = OTHER_ID;
	cr_assert_eq(ruby_names_find(names, &of_shapes, 0, &memory, words, &frames), 0);
	cr_assert_str_eq(frames.frames[0].function, "total");
	/* A forged circle. */
	frames = (struct named_frames){0};
	shapes[1][3] |= 3ull << 32;
	cr_assert_eq(ruby_names_find(names, &of_shapes, 0, &memory, words, &frames), 0);
	cr_assert_str_eq(frames.frames[0].function, "total");
}

Test(ruby_names, what_has_moved_is_followed)
{
	static uint64_t moved[RUBY_OBJECT_WORDS];

	moved[0] = RUBY_OBJECT_MOVED;
	moved[RUBY_MOVED_TO] = at(&ruby.path);
	ruby.body[RUBY_BODY_PATH] = at(moved);
	expect("Cart#total");
	cr_assert_str_eq(frames.frames[0].file, "/srv/cart.rb");
}

Test(ruby_names, anything_else_in_its_place_is_stale)
{
	uint64_t words[3];

	make_words(words, RUBY_FRAME_BODY);
	ruby.path.text[5] = 'C';
	cr_assert_eq(find(words), -ESTALE, "another file");
	ruby.path.text[5] = 'c';
	cr_assert_eq(find(words), 0);
	ruby.label.flags = 0;
	cr_assert_eq(find(words), -ESTALE, "a freed label");
	ruby.label.flags = RUBY_OBJECT_STRING;
	ruby.class[CLASS_WORD / 8]++;
	cr_assert_eq(find(words), -ESTALE, "another class");
	ruby.class[CLASS_WORD / 8]--;
	ruby.body[RUBY_BODY_START]++;
	cr_assert_eq(find(words), -ESTALE, "other instructions");
}

/* A method that is written in C has the definition and the class, and its name is in the table of
 * names. */
Test(ruby_names, another_method_written_in_c_is_stale)
{
	const uint64_t owner = at(ruby.class) ^ ruby.class[CLASS_WORD / 8];
	const uint64_t words[3] = {bh_frame_managed(BH_RUNTIME_RUBY, at(ruby.definition), 2),
				   frame_word(ruby_c_identity(SERIAL + 1, owner), RUBY_FRAME_C, 0),
				   at(ruby.class)};

	cr_assert_eq(find(words), -ESTALE);
}

Test(ruby_names, a_string_without_an_end_is_refused)
{
	uint64_t words[3];

	make_words(words, RUBY_FRAME_BODY);
	ruby.label.length = UINT64_MAX;
	cr_assert_neq(find(words), 0);
	ruby.label.length = 1ull << 40;
	cr_assert_neq(find(words), 0);
}

Test(ruby_names, the_collector_has_a_name)
{
	const uint64_t words[3] = {bh_frame_managed(BH_RUNTIME_RUBY, 0, 1),
				   frame_word(0, RUBY_FRAME_COLLECT, 0)};

	cr_assert_eq(find(words), 0);
	cr_assert_str_eq(frames.frames[0].function, "(garbage collection)");
}

Test(ruby_names, forged_frames_are_stale)
{
	uint64_t words[3];

	make_words(words, RUBY_FRAMES);
	cr_assert_eq(find(words), -ESTALE);
	words[0] = bh_frame_managed(BH_RUNTIME_RUBY, at(ruby.body), 0);
	cr_assert_eq(find(words), -ESTALE);
	/* A pc that is outside of the code. */
	make_words(words, RUBY_FRAME_BODY);
	words[1] += 100;
	cr_assert_eq(find(words), -ESTALE);
}
