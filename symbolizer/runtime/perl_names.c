/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names Perl frames from what is in the process's memory.
 *
 * How this works: a frame of a sub has the address of its first op, which is mostly the statement
 * (COP) with the file and the first line, and the glob by which it was defined, with name and
 * package. Frames without a sub have the address of the name of their file. The names are read
 * later, when the code may have been freed. So the identity (perl_sub_identity(),
 * perl_text_identity()) is computed from memory again, before and after the names are read; if it
 * is another one, the frame is reported as stale (-ESTALE). Then the caller may try again with the
 * copy that the kernel side made when the code was sampled for the first time (perl_copy_code() in
 * bpf/runtime/perl.bpf.c).
 *
 * Names are those of `caller`: Package::name, "(eval)" for both kinds of eval. A sub without a name
 * has the place of its definition in addition, since all of them are called __ANON__. Perl gives
 * the texts that it evaluates numbers, "(eval 17)"; they are left out, because a program may
 * evaluate millions.
 *
 * Example: words are the op 0x55d0c0, identity << 32 | 12, the glob 0x55e2f8. The glob has the name
 * "total" and the stash "Cart", the COP at 0x55d0c0 line 10 of "/srv/Cart.pm". The frame is
 * Cart::total at /srv/Cart.pm:12, which starts at line 10. perl_line.c finds the line of a call in
 * a statement with several lines.
 */
#include "symbolizer/runtime/perl_names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/runtime/limits.h"
#include "symbolizer/runtime/perl_line.h"

enum {
	TEXT_BYTES = PERL_NAME_BYTES_MAX + 1,
	ANONYMOUS_BYTES = 2 * TEXT_BYTES + 32, /* a name with file and line */
};

/* --- reading --- */

/* Reads a HEK. Of a longer text than PERL_NAME_BYTES_MAX the start is kept. Returns its length, or
 * an error of memory_read(). */
static ssize_t read_hek(struct memory *memory, uint64_t hek, char text[static TEXT_BYTES])
{
	uint32_t length = 0;
	int r = memory_read_u32(memory, hek + PERL_HEK_LENGTH, &length);

	if (!r && length > INT32_MAX)
		return -ESTALE;
	if (length > PERL_NAME_BYTES_MAX)
		length = PERL_NAME_BYTES_MAX;
	if (!r)
		r = memory_read(memory, hek + PERL_HEK_TEXT, text, length);
	text[r ? 0 : length] = 0;
	return r ? r : (ssize_t)length;
}

/* Finds the HEK with the name of a package. Returns 0; -ESTALE: it is no stash; or an error of
 * memory_read(). */
static int find_package(const struct perl_image *image, struct memory *memory, uint64_t stash,
			uint64_t *hek)
{
	uint64_t head[3], most = 0, aux[PERL_AUX_BYTES / 8];
	int r = memory_read(memory, stash, head, sizeof(head));

	if (!r && (head[PERL_SV_FLAGS / 8] >> 32 & 0xff) != PERL_TYPE_STASH)
		r = -ESTALE;
	if (r)
		return r;
	uint64_t at = head[PERL_SV_BODY] + PERL_STASH_AUX;
	if (image->offsets->version < PERL_AUX_IN_BODY_SINCE) {
		r = memory_read_u64(memory, head[PERL_SV_BODY] + PERL_STASH_MOST, &most);
		at = head[PERL_SV_POINTER / 8] + (most + 1) * 8;
	}
	if (!r)
		r = memory_read(memory, at, aux, sizeof(aux));
	*hek = r ? 0 : aux[PERL_AUX_NAME / 8];
	if (!r && aux[PERL_AUX_NAME_COUNT / 8] >> 32)
		r = memory_read_u64(memory, *hek, hek);
	return r ? r : *hek ? 0 : -ESTALE;
}

/* Reads the text of a file's name, without the number of an evaluated text. */
static int read_file(struct memory *memory, uint64_t address, char text[static TEXT_BYTES])
{
	static const char evaluated[] = "(eval ";
	const ssize_t n = memory_read_string(memory, address, text, TEXT_BYTES);

	if (n < 0)
		return (int)n;
	if (!strncmp(text, evaluated, sizeof(evaluated) - 1))
		memcpy(text, "(eval)", sizeof("(eval)"));
	return 0;
}

/* What identifies a sub in memory. */
struct sub {
	uint64_t name, package; /* HEKs; 0: it is in no package */
	uint64_t file;		/* a text or a glob; 0: its first op is no statement */
	uint32_t first_line;
	uint32_t identity;
};

/* Reads what identifies the sub of a frame. Returns 0 or an error of memory_read(). */
static int read_sub(const struct perl_image *image, struct memory *memory, const uint64_t *words,
		    struct sub *sub)
{
	const uint64_t start = words[0] & BH_ADDRESS_MASK;
	/* A frame has as many words as its kind says (perl_names_find()). */
	const bool has_package = frame_word_kind(words[1]) == PERL_FRAME_NAMED_SUB;
	uint64_t cop[3], glob, body[2] = {words[2], has_package ? words[3] : 0};
	uint32_t name_hash = 0, package_hash = 0;
	int r = memory_read(memory, start + PERL_OP_TYPE, cop, sizeof(cop));

	if (!r && frame_word_kind(words[1]) == PERL_FRAME_SUB) {
		r = memory_read_u64(memory, words[2] + PERL_SV_BODY, &glob);
		if (!r)
			r = memory_read(memory, glob + PERL_GLOB_NAME, body, sizeof(body));
	}
	sub->name = body[0];
	if (!r)
		r = memory_read_u32(memory, sub->name, &name_hash);
	sub->package = 0;
	if (!r && frame_word_kind(words[1]) != PERL_FRAME_LEXICAL_SUB) {
		r = find_package(image, memory, body[1], &sub->package);
		if (!r)
			r = memory_read_u32(memory, sub->package, &package_hash);
	}
	if (r)
		return r;
	const bool is_statement = perl_is_statement(image->offsets, cop[0] & PERL_OP_TYPE_MASK);
	sub->identity =
	    perl_sub_identity(words[2], name_hash, package_hash, (uint32_t)(cop[0] >> 32), cop[2]);
	sub->file = is_statement ? cop[2] : 0;
	sub->first_line = is_statement ? (uint32_t)(cop[0] >> 32) : 0;
	return 0;
}

/* Reads the names of a sub. Returns 0 or an error of memory_read(). */
static int read_names(const struct perl_image *image, struct memory *memory, const struct sub *sub,
		      char function[static ANONYMOUS_BYTES], char file[static TEXT_BYTES])
{
	char name[TEXT_BYTES], package[TEXT_BYTES];
	uint64_t text = sub->file, glob;
	int r = (int)read_hek(memory, sub->name, name);

	*package = 0;
	if (r >= 0 && sub->package)
		r = (int)read_hek(memory, sub->package, package);
	if (r >= 0 && text && !image->key.vaddr) {
		r = memory_read_u64(memory, text + PERL_SV_BODY, &glob);
		if (!r)
			r = memory_read_u64(memory, glob + PERL_GLOB_NAME, &text);
		text += PERL_HEK_TEXT + PERL_FILE_PREFIX;
	}
	*file = 0;
	if (r >= 0 && text)
		r = read_file(memory, text, file);
	if (r < 0)
		return r;
	const bool is_anonymous = !strcmp(name, "__ANON__") && *file;
	if (is_anonymous)
		snprintf(function, ANONYMOUS_BYTES, "%s::%s[%s:%u]", package, name, file,
			 sub->first_line);
	else
		snprintf(function, ANONYMOUS_BYTES, "%s%s%s", package, *package ? "::" : "", name);
	return 0;
}

/* Reads the sub of a frame into the cache. */
static int read_sub_entry(struct name_cache *names, const struct perl_image *image,
			  struct memory *memory, const uint64_t *words,
			  const struct name_cache_entry **entry)
{
	char function[ANONYMOUS_BYTES], file[TEXT_BYTES];
	const uint32_t identity = frame_word_identity(words[1]);
	struct sub sub, again;

	int r = read_sub(image, memory, words, &sub);
	if (!r && sub.identity != identity)
		r = -ESTALE;
	if (!r)
		r = read_names(image, memory, &sub, function, file);
	if (!r)
		r = read_sub(image, memory, words, &again);
	if (!r && again.identity != identity)
		r = -ESTALE;
	if (r)
		return r;
	*entry = name_cache_keep(names, words[0] & BH_ADDRESS_MASK, identity, function, file,
				 sub.first_line);
	return *entry ? 0 : -ENOMEM;
}

/* Reads the name of a frame's file into the cache. */
static int read_file_entry(struct name_cache *names, struct memory *memory, const uint64_t *words,
			   const struct name_cache_entry **entry)
{
	const uint64_t address = words[0] & BH_ADDRESS_MASK;
	const uint32_t identity = frame_word_identity(words[1]);
	uint64_t start[PERL_TEXT_BYTES / 8];
	char file[TEXT_BYTES];
	int r = read_file(memory, address, file);

	if (r < 0)
		return r;
	/* Near to the end of a mapping the walker could not read as much, and had no identity. */
	r = memory_read(memory, address, start, sizeof(start));
	if ((r ? 0 : perl_text_identity(start)) != identity)
		return -ESTALE;
	*entry = name_cache_keep(names, address, identity, NULL, file, 0);
	return *entry ? 0 : -ENOMEM;
}

int perl_names_find(struct name_cache *names, const struct perl_image *image, struct memory *memory,
		    const uint64_t *words, struct named_frames *frames)
{
	static const char *const functions[] = {
	    [PERL_FRAME_EVAL] = "(eval)",
	    [PERL_FRAME_SORT] = "(sort)",
	    [PERL_FRAME_MAIN] = "(main)",
	};
	static const unsigned int lengths[] = {
	    [PERL_FRAME_SUB] = 4,  [PERL_FRAME_NAMED_SUB] = 5, [PERL_FRAME_LEXICAL_SUB] = 4,
	    [PERL_FRAME_EVAL] = 3, [PERL_FRAME_REQUIRE] = 3,   [PERL_FRAME_SORT] = 3,
	    [PERL_FRAME_MAIN] = 3,
	};
	const uint32_t kind = frame_word_kind(words[1]);
	const uint64_t address = words[0] & BH_ADDRESS_MASK;
	const uint32_t identity = frame_word_identity(words[1]);
	const bool is_sub = perl_frame_has_sub(kind);

	if (kind > PERL_FRAME_MAIN || bh_frame_words(words[0]) != lengths[kind])
		return -ESTALE;
	const struct name_cache_entry *entry = name_cache_find(names, address, identity);
	if (!entry || is_sub != (entry->function != NULL)) {
		const int r = is_sub ? read_sub_entry(names, image, memory, words, &entry)
				     : read_file_entry(names, memory, words, &entry);
		if (r < 0)
			return r;
	}
	frames->count = 1;
	frames->frames[0] = (struct named_frame){
	    .function = is_sub ? named_frames_keep(frames, entry->function, strlen(entry->function))
			: kind == PERL_FRAME_REQUIRE
			    ? named_frames_format(frames, "require %s", entry->file)
			    : functions[kind],
	    .file = named_frames_keep(frames, entry->file, strlen(entry->file)),
	    .line = perl_line_of_call(image->offsets, memory, address, words[lengths[kind] - 1],
				      frame_word_position(words[1])),
	    .start_line = is_sub ? entry->first_line : 0};
	return 0;
}
