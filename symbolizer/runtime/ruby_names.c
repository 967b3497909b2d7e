/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names Ruby frames from what is in the process's memory.
 *
 * How this works: a frame has the address of the body of its code, or of the definition of a method
 * that is written in C, and an identity, which the walker has computed of what is there
 * (ruby_identity()). They are read later, when the code may have been freed, and other code may be
 * in its place. So the identity is computed again, of what was read. If it is another one, the
 * frame is reported as stale (-ESTALE).
 *
 * Names are those of Ruby 3.4's backtraces: Class#method, Class.method for a singleton method of a
 * class, and "block in Class#method". Before, backtraces have no classes. A method of an anonymous
 * class has its own name only. The name of the method in the label ends it, and the class is
 * inserted before it.
 *
 * Example: words are the body 0x55e7c0a8, identity << 32 | the lower bits of the pc's word, and the
 * class 0x7f12a8. The label is "block in total", the name of the method "total", and the class has
 * the name "Cart". The instructions start at 0x55e7d000, and the pc is 0x55e7d028: that is position
 * 5, which is after the instruction of position 4. So its line is the one of position 4.
 */
#include "symbolizer/runtime/ruby_names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/runtime/ruby_class.h"
#include "symbolizer/runtime/ruby_lines.h"

enum {
	PARENTS_MAX = 16,			     /* texts that evaluate texts */
	METHOD_BYTES = 2 * RUBY_TEXT_BYTES + 2,	     /* class and method */
	NAME_BYTES = METHOD_BYTES + RUBY_TEXT_BYTES, /* and the start of a label */
};

/* What is read of code. */
struct code {
	uint64_t body[RUBY_BODY_WORDS];
	uint64_t lines[RUBY_LINES_WORDS];
	uint64_t class; /* of the method that it belongs to; 0: there is none */
	uint64_t owner; /* what distinguishes the class */
	struct ruby_text label, base, path;
};

struct ruby_names *ruby_names_new(void)
{
	return calloc(1, sizeof(struct ruby_names));
}

/* Reads what distinguishes a class from another one at its address later. Returns 0 or an error of
 * memory_read(). */
static int read_owner(const struct ruby_process *process, uint64_t class, uint64_t *owner)
{
	uint64_t word = 0;
	int r =
	    memory_read_u64(process->memory, class + process->image->offsets->class_word, &word);

	*owner = class ^ word;
	return r;
}

/* Writes the name of a method with that of its class, as it is known. Returns 0 or an error of
 * memory_read(). */
static int format_method(const struct ruby_process *process, uint64_t class, const char *base,
			 char name[static METHOD_BYTES])
{
	struct ruby_text path = {0};
	bool is_singleton = false;
	int r = ruby_class_name(process, class, &path, &is_singleton);

	/* The copy of what is needed for a name does not always have that of the class. */
	if (r == -ESTALE && process->memory->copy)
		path.text[0] = 0;
	else if (r)
		return r;
	snprintf(name, METHOD_BYTES, "%s%s%s", path.text,
		 !path.text[0]	? ""
		 : is_singleton ? "."
				: "#",
		 base);
	return 0;
}

static void set_frame(struct named_frames *frames, const char *name, const char *file,
		      uint32_t line, uint32_t first_line)
{
	frames->count = 1;
	frames->frames[0] =
	    (struct named_frame){.function = named_frames_keep(frames, name, strlen(name)),
				 .file = named_frames_keep(frames, file, strlen(file)),
				 .line = line,
				 .start_line = first_line};
}

/* Names a method that is written in C. */
static int name_c(const struct ruby_process *process, const uint64_t *words,
		  struct named_frames *frames)
{
	uint64_t definition[RUBY_DEFINITION_WORDS], owner;
	struct ruby_text text;
	char name[METHOD_BYTES];

	if (bh_frame_words(words[0]) != 3)
		return -ESTALE;
	int r = memory_read(process->memory, words[0] & BH_ADDRESS_MASK, definition,
			    sizeof(definition));
	if (!r)
		r = read_owner(process, words[2], &owner);
	if (!r && ruby_c_identity(definition[RUBY_DEFINITION_SERIAL / 8], owner) !=
		      frame_word_identity(words[1]))
		r = -ESTALE;
	if (!r)
		r = ruby_text_of_id(process, definition[RUBY_DEFINITION_ID / 8], &text);
	if (!r && !text.text[0])
		r = -ESTALE;
	if (!r)
		r = format_method(process, words[2], text.text, name);
	if (!r)
		set_frame(frames, name, "", 0, 0);
	return r;
}

/* Returns whether code is what the frame's identity says. */
static bool is_same_code(const struct ruby_process *process, const struct code *code,
			 const uint64_t *words)
{
	uint64_t body[RUBY_BODY_WORDS];

	if (!code->label.hash || !code->path.hash)
		return false;
	memcpy(body, code->body, sizeof(body));
	if (!process->image->offsets->line_is_object)
		body[RUBY_BODY_LINE] = (uint32_t)body[RUBY_BODY_LINE];
	return ruby_identity(code->owner, body, code->label.hash, code->path.hash) ==
	       frame_word_identity(words[1]);
}

/* In the place of the label of an evaluated text, reads that of the code that evaluates it. Returns
 * 0 or an error of memory_read(). */
static int read_parent(const struct ruby_process *process, uint64_t body, struct code *code)
{
	const uint32_t offset = process->image->offsets->parent;
	uint64_t words[RUBY_BODY_WORDS], parent;
	int r = 0;

	memcpy(words, code->body, sizeof(words));
	if (!offset || (uint32_t)words[0] != RUBY_BODY_EVALUATED)
		return 0;
	for (int i = 0; i < PARENTS_MAX && !r && (uint32_t)words[0] == RUBY_BODY_EVALUATED; i++) {
		r = memory_read_u64(process->memory, body + offset, &parent);
		if (!r)
			r = memory_read_u64(process->memory, parent + RUBY_CODE_BODY, &body);
		if (!r)
			r = memory_read(process->memory, body, words, sizeof(words));
	}
	if (!r)
		r = ruby_text_read(process, words[RUBY_BODY_LABEL], &code->label);
	if (!r)
		r = ruby_text_read(process, words[RUBY_BODY_BASE], &code->base);
	/* The copy of what is needed for a name does not have the parent. */
	return r == -ESTALE && process->memory->copy ? 0 : r;
}

/* Reads the code of a frame. Returns 0; -ESTALE: it is other code; or an error of memory_read(). */
static int read_code(const struct ruby_process *process, const uint64_t *words, struct code *code)
{
	const uint64_t address = words[0] & BH_ADDRESS_MASK;
	struct memory *memory = process->memory;
	uint64_t again[RUBY_BODY_WORDS];
	int r = memory_read(memory, address, code->body, sizeof(code->body));

	if (!r)
		r = memory_read(memory, address + process->image->offsets->lines, code->lines,
				sizeof(code->lines));
	code->class = bh_frame_words(words[0]) == 3 ? words[2] : 0;
	if (!r && code->class)
		r = read_owner(process, code->class, &code->owner);
	if (!r)
		r = ruby_text_read(process, code->body[RUBY_BODY_LABEL], &code->label);
	if (!r)
		r = ruby_text_read(process, code->body[RUBY_BODY_BASE], &code->base);
	if (!r)
		r = ruby_text_read(process, code->body[RUBY_BODY_PATH], &code->path);
	if (r)
		return r;
	if (!is_same_code(process, code, words))
		return -ESTALE;
	r = read_parent(process, address, code);
	if (r)
		return r;
	/* What the strings were read of must be there still. */
	r = memory_read(memory, address, again, sizeof(again));
	return r ? r : memcmp(again, code->body, sizeof(again)) ? -ESTALE : 0;
}

/* Returns whether this is the name of a file, a class or a module in a label, such as "<main>" and
 * "<class:Cart>". Operators start like that, too. */
static bool is_no_method(const char *base)
{
	return (base[0] == '<' && base[1] >= 'a' && base[1] <= 'z') ||
	       !strcmp(base, "singleton class");
}

/* Writes the name of code. Returns 0 or an error of memory_read(). */
static int format_code(const struct ruby_process *process, const struct code *code,
		       char name[static NAME_BYTES])
{
	const char *label = code->label.text, *base = code->base.text;
	const size_t length = strlen(label), suffix = strlen(base);
	char method[METHOD_BYTES];

	snprintf(name, NAME_BYTES, "%s", label);
	if (!code->class || !suffix || is_no_method(base) || suffix > length ||
	    strcmp(label + length - suffix, base) != 0)
		return 0;
	int r = format_method(process, code->class, base, method);
	if (!r)
		snprintf(name, NAME_BYTES, "%.*s%s", (int)(length - suffix), label, method);
	return r;
}

/* Reads the line of a frame. */
static int find_line(const struct ruby_process *process, const struct code *code,
		     const uint64_t *words, uint32_t *line)
{
	const uint32_t size = (uint32_t)(code->body[RUBY_BODY_SIZE] >> 32);
	uint32_t position =
	    (frame_word_position(words[1]) - (uint32_t)(code->body[RUBY_BODY_START] >> 3)) &
	    FRAME_WORD_POSITION_MASK;

	if (position > size)
		return -ESTALE;
	/* The pc is mostly after the instruction that is executed. */
	if (position)
		position--;
	int r = ruby_lines_find(process->memory, code->lines, process->image->offsets->line_bytes,
				position, line);

	/* The copy of what is needed for a name does not have all of a long table. */
	return r == -ESTALE && process->memory->copy ? 0 : r;
}

/* Names code. */
static int name_code(const struct ruby_process *process, const uint64_t *words,
		     struct named_frames *frames)
{
	struct code code = {0};
	char name[NAME_BYTES];
	uint32_t line = 0;
	int r = read_code(process, words, &code);

	if (!r)
		r = format_code(process, &code, name);
	if (!r)
		r = find_line(process, &code, words, &line);
	if (r)
		return r;
	uint32_t first = (uint32_t)code.body[RUBY_BODY_LINE];
	if (process->image->offsets->line_is_object)
		first >>= 1;
	set_frame(frames, name, code.path.text, line, first);
	return 0;
}

int ruby_names_find(struct ruby_names *names, const struct ruby_image *image, uint64_t bias,
		    struct memory *memory, const uint64_t *words, struct named_frames *frames)
{
	const struct ruby_process process = {
	    .names = names, .image = image, .bias = bias, .memory = memory};

	if (bh_frame_words(words[0]) < 2)
		return -ESTALE;
	switch (frame_word_kind(words[1])) {
	case RUBY_FRAME_BODY:
		return name_code(&process, words, frames);
	case RUBY_FRAME_C:
		return name_c(&process, words, frames);
	case RUBY_FRAME_COLLECT:
		set_frame(frames, "(garbage collection)", "", 0, 0);
		return 0;
	default:
		return -ESTALE;
	}
}
