/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions, files and lines by debug information (symbolizer/namer/dwarf.c), compared with what
 * libdw says about each byte of the code of fixture_inlined.cpp: by gcc and clang, in DWARF 4 and
 * 5, compressed, also where that is too large to be kept in memory, and as an index that is built
 * in many parts; and with a part in an alternate file of dwz.
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <dwarf.h>
#include <elf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/file_read.h"
#include "parse/debug_link.h"
#include "tests/unit/symbolizer/dwarf_names_fixture.h"

enum {
	CALLS_MAX = 64,
	BLOCKS = 10 << 20,
	HEADER_BYTES = 38,	  /* of a unit, its first entry and a function */
	PART_BYTES_MAX = 1 << 20, /* that may be read for a part of a lookup */
	/* Of memory for sections that have 29 MiB: 16 MiB of them, and their indexes. */
	LARGE_MOST_BYTES = 28 << 20,
};

struct variant {
	char name[32];
};

static void path_of(const char *name, char *path)
{
	snprintf(path, TEXT_BYTES, "%s/fixture_inlined_%s", FIXTURES, name);
}

/* Adds the alternate file of a file, PATH.alternate. */
static void add_alternate(struct opened *opened, const char *path)
{
	char alternate_path[TEXT_BYTES + sizeof(".alternate")];
	struct elf_image image;
	int fd;

	snprintf(alternate_path, sizeof(alternate_path), "%s.alternate", path);
	const struct elf_source source = source_of(&fd, alternate_path);
	cr_assert_eq(elf_image_init(&image, &source), -ENOEXEC, "nobody can map it");
	cr_assert_eq(elf_image_init_sections(&image, &source), 0);
	const struct namer_wanted *wanted = namer_wanted(&opened->namer);
	cr_assert_not_null(wanted, "%s", path);
	cr_assert_eq(wanted->kind, NAMER_WANTS_ALTERNATE);
	cr_expect(debug_alternate_is(&wanted->alternate, &image));
	struct debug_alternate other = wanted->alternate;
	other.build_id[other.build_id_length - 1] ^= 1;
	cr_expect_not(debug_alternate_is(&other, &image));
	other = wanted->alternate;
	other.build_id_length--;
	cr_expect_not(debug_alternate_is(&other, &image));
	cr_expect_str_eq(wanted->alternate.name, strrchr(alternate_path, '/') + 1);
	close(fd);
	cr_assert_eq(add_further(opened, path), -ESTALE, "it is not the alternate file");
	cr_assert_eq(add_further(opened, alternate_path), 0);
	cr_expect_null(namer_wanted(&opened->namer), "it is there");
	elf_image_fini(&image);
}

/* --- what libdw says --- */

static const char *libdw_function(Dwarf_Die *die)
{
	Dwarf_Attribute attribute;
	const char *linkage =
	    dwarf_formstring(dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute));

	return linkage ? linkage : dwarf_diename(die);
}

static Dwarf_Word libdw_number(Dwarf_Die *die, unsigned int name)
{
	Dwarf_Attribute attribute;
	Dwarf_Word number = 0;

	if (dwarf_attr(die, name, &attribute))
		dwarf_formudata(&attribute, &number);
	return number;
}

/* Finds the entries below `parent` that have the address, from the function to the innermost
 * inlined call. (dwarf_getscopes() does not look into namespaces.) Returns their number. */
static unsigned int libdw_find(Dwarf_Die *parent, Dwarf_Addr vaddr, Dwarf_Die *found,
			       unsigned int count)
{
	Dwarf_Die die;

	if (dwarf_child(parent, &die))
		return count;
	do {
		const int tag = dwarf_tag(&die);
		const bool is_call = tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine;
		unsigned int now = count;

		if (tag != DW_TAG_namespace && dwarf_haspc(&die, vaddr) != 1)
			continue;
		cr_assert_lt(count, CALLS_MAX);
		if (is_call)
			found[now++] = die;
		now = libdw_find(&die, vaddr, found, now);
		if (now > count)
			return now;
	} while (dwarf_siblingof(&die, &die) == 0);
	return count;
}

/* Writes the functions at an address: "FUNCTION FILE:LINE\n" for each, the innermost first. */
static void libdw_describe(Dwarf_Die *unit, Dwarf_Addr vaddr, FILE *out)
{
	Dwarf_Line *row = dwarf_getsrc_die(unit, vaddr);
	const char *file = row ? dwarf_linesrc(row, NULL, NULL) : NULL;
	Dwarf_Die found[CALLS_MAX];
	Dwarf_Files *files;
	int line = 0;

	if (row)
		dwarf_lineno(row, &line);
	cr_assert_eq(dwarf_getsrcfiles(unit, &files, NULL), 0);
	for (unsigned int i = libdw_find(unit, vaddr, found, 0); i-- > 0;) {
		Dwarf_Die *die = &found[i];

		fprintf(out, "%s %s:%d\n", libdw_function(die), file ? file : "", line);
		file = dwarf_filesrc(files, libdw_number(die, DW_AT_call_file), NULL, NULL);
		line = (int)libdw_number(die, DW_AT_call_line);
	}
}

/* Compares all addresses of a range. Returns how many were described. */
static unsigned int compare_range(struct opened *opened, Dwarf_Die *unit, Dwarf_Addr start,
				  Dwarf_Addr end)
{
	static struct named_frames frames;
	unsigned int described = 0;

	for (Dwarf_Addr vaddr = start; vaddr < end; vaddr++) {
		char ours[8192] = "", theirs[8192] = "";
		FILE *out = fmemopen(theirs, sizeof(theirs), "w");

		libdw_describe(unit, vaddr, out);
		fclose(out);
		out = fmemopen(ours, sizeof(ours), "w");
		if (name(opened, vaddr, &frames) == 0)
			describe(&frames, out);
		fclose(out);
		cr_assert_str_eq(ours, theirs, "0x%lx\nours:\n%s\nlibdw:\n%s", vaddr, ours, theirs);
		described += theirs[0] != 0;
	}
	return described;
}

static unsigned int compare_file(struct opened *opened)
{
	Dwarf *dwarf = dwarf_begin(opened->fd, DWARF_C_READ);
	unsigned int described = 0;
	Dwarf_CU *cu = NULL;
	Dwarf_Die unit;

	cr_assert_not_null(dwarf);
	while (dwarf_get_units(dwarf, cu, &cu, NULL, NULL, &unit, NULL) == 0) {
		Dwarf_Addr base, start, end;
		ptrdiff_t at = 0;

		while ((at = dwarf_ranges(&unit, at, &base, &start, &end)) > 0)
			described += compare_range(opened, &unit, start, end);
	}
	dwarf_end(dwarf);
	return described;
}

ParameterizedTestParameters(dwarf_names, are_those_of_libdw)
{
	static struct variant variants[] = {{"gcc_5"},	 {"gcc_4"},   {"gcc_z"}, {"gcc_lto"},
					    {"clang_5"}, {"clang_4"}, {"dwz_4"}, {"dwz_5"}};

	return cr_make_param_array(struct variant, variants,
				   sizeof(variants) / sizeof(variants[0]));
}

ParameterizedTest(struct variant *variant, dwarf_names, are_those_of_libdw)
{
	struct opened opened;
	char path[TEXT_BYTES];

	path_of(variant->name, path);
	open_file(&opened, path);
	if (strncmp(variant->name, "dwz", 3) == 0)
		add_alternate(&opened, path);
	else
		cr_expect_null(namer_wanted(&opened.namer));
	cr_expect_gt(compare_file(&opened), CODE_LEAST_BYTES, "%s", path);
	close_file(&opened);
}

/* Parts of the sections are decompressed when they are read. */
Test(dwarf_names, of_large_compressed_sections_are_those_of_the_file_before)
{
	struct opened opened, original;
	char path[TEXT_BYTES];

	path_of("large", path);
	open_file(&opened, path);
	path_of("gcc_5", path);
	open_file(&original, path);
	cr_expect_gt(compare_with_original(&opened, &original, true), CODE_LEAST_BYTES);
	cr_expect_lt(namer_bytes(&opened.namer), LARGE_MOST_BYTES);
	close_file(&opened);
	close_file(&original);
}

/* --- alternate files --- */

/* libdw of Debian 12 does not read the sections and forms of DWARF 5 for this. */
Test(dwarf_names, of_supplementary_files_are_those_of_the_file_before)
{
	struct opened opened, original;
	char path[TEXT_BYTES], original_path[TEXT_BYTES];

	path_of("dwz_sup", path);
	path_of("gcc_5", original_path);
	open_file(&opened, path);
	open_file(&original, original_path);
	const unsigned int without = compare_with_original(&opened, &original, false);
	add_alternate(&opened, path);
	const unsigned int with = compare_with_original(&opened, &original, true);
	cr_expect_gt(with, CODE_LEAST_BYTES, "%u", with);
	cr_expect_lt(without, with / 2, "%u", without);
	close_file(&opened);
	close_file(&original);
}

/* Without the alternate file, a name is missing and never another one. */
Test(dwarf_names, without_the_alternate_file_are_not_wrong)
{
	static struct named_frames frames, expected;
	struct opened opened, whole;
	unsigned int missing = 0;
	char path[TEXT_BYTES];

	path_of("dwz_5", path);
	open_file(&opened, path);
	open_file(&whole, path);
	add_alternate(&whole, path);
	for (unsigned int i = 0; i < whole.image.segment_count; i++) {
		const struct elf_segment *segment = &whole.image.segments[i];

		for (uint64_t at = 0; segment->executable && at < segment->file_size; at++) {
			if (name(&whole, segment->vaddr + at, &expected) < 0)
				continue;
			if (name(&opened, segment->vaddr + at, &frames) < 0) {
				missing++;
				continue;
			}
			cr_assert_eq(frames.count, expected.count);
			for (unsigned int j = 0; j < frames.count; j++) {
				const char *function = frames.frames[j].function;

				cr_expect_eq(frames.frames[j].line, expected.frames[j].line);
				cr_expect(!*function
					      ? j + 1 == frames.count
					      : !strcmp(function, expected.frames[j].function));
			}
		}
	}
	cr_expect_gt(missing, 100, "%u", missing);
	close_file(&opened);
	close_file(&whole);
}

/* --- one file --- */

/* Returns the address of a function, by its name in libdw. */
static uint64_t address_of(const struct opened *opened, const char *wanted)
{
	Dwarf *dwarf = dwarf_begin(opened->fd, DWARF_C_READ);
	Dwarf_CU *cu = NULL;
	Dwarf_Addr base, end, found = 0;
	Dwarf_Die unit, die;

	while (!found && dwarf_get_units(dwarf, cu, &cu, NULL, NULL, &unit, NULL) == 0) {
		if (dwarf_child(&unit, &die))
			continue;
		do {
			if (dwarf_tag(&die) == DW_TAG_subprogram && dwarf_diename(&die) &&
			    strcmp(dwarf_diename(&die), wanted) == 0)
				dwarf_ranges(&die, 0, &base, &found, &end);
		} while (!found && dwarf_siblingof(&die, &die) == 0);
	}
	dwarf_end(dwarf);
	cr_assert_neq(found, 0, "%s", wanted);
	return found;
}

Test(dwarf_names, what_is_known_of_a_function)
{
	struct opened opened;
	struct named_frames frames;
	char path[TEXT_BYTES];

	path_of("gcc_5", path);
	open_file(&opened, path);
	cr_assert_eq(name(&opened, address_of(&opened, "count_words"), &frames), 0);
	const struct named_frame *outermost = &frames.frames[frames.count - 1];
	cr_expect_str_eq(outermost->function, "count_words");
	cr_expect_not(outermost->mangled);
	cr_expect_str_eq(outermost->file, SOURCE);
	cr_expect_gt(outermost->start_line, 0);
	cr_expect_geq(outermost->line, outermost->start_line);
	cr_expect_eq(frames.kind, FRAME_KIND_NATIVE);

	cr_assert_eq(name(&opened, address_of(&opened, "hidden"), &frames), 0);
	cr_assert_eq(name(&opened, address_of(&opened, "main"), &frames), 0);
	cr_expect_eq(name(&opened, 1, &frames), -ENOENT);
	cr_expect_eq(name(&opened, UINT64_MAX, &frames), -ENOENT);
	close_file(&opened);
}

/* The memory that is accounted for is what a file may evict others for. */
Test(dwarf_names, memory_grows_with_what_is_read_and_is_bounded)
{
	struct opened opened;
	struct named_frames frames;
	char path[TEXT_BYTES];

	path_of("gcc_5", path);
	open_file(&opened, path);
	const size_t before = namer_bytes(&opened.namer);
	cr_assert_eq(name(&opened, address_of(&opened, "main"), &frames), 0);
	const size_t after = namer_bytes(&opened.namer);
	cr_expect_gt(after, before);
	cr_assert_eq(name(&opened, address_of(&opened, "main"), &frames), 0);
	cr_expect_eq(namer_bytes(&opened.namer), after, "the unit is open");
	close_file(&opened);

	path_of("gcc_z", path);
	open_file(&opened, path);
	cr_expect_gt(namer_bytes(&opened.namer), before, "sections that were decompressed");
	close_file(&opened);
}

/* --- forged files --- */

/* A file in memory that counts how much of it is read, and its namer. */
struct forged {
	uint8_t *bytes;
	size_t size, read;
	struct elf_source source;
	struct namer_sources sources;
	struct elf_image image;
	struct namer namer;
};

static int forged_read(void *context, uint64_t offset, void *buffer, size_t length)
{
	struct forged *forged = context;

	if (offset > forged->size || length > forged->size - offset)
		return -ENODATA;
	forged->read += length;
	memcpy(buffer, forged->bytes + offset, length);
	return 0;
}

/* Makes a copy of the file in which two sections have other contents, and opens its namer. */
static void forge(struct forged *forged, const struct opened *opened, const void *abbreviations,
		  size_t abbreviations_length, const void *info, size_t info_length)
{
	const size_t size = (size_t)opened->source.size;
	Elf64_Ehdr header;
	Elf64_Shdr section;

	forged->size = size + abbreviations_length + info_length;
	forged->bytes = malloc(forged->size);
	cr_assert_not_null(forged->bytes);
	cr_assert_eq(opened->source.read(opened->source.context, 0, forged->bytes, size), 0);
	memcpy(forged->bytes + size, abbreviations, abbreviations_length);
	memcpy(forged->bytes + size + abbreviations_length, info, info_length);
	memcpy(&header, forged->bytes, sizeof(header));
	for (unsigned int i = 0; i < header.e_shnum; i++) {
		uint8_t *at = forged->bytes + header.e_shoff + i * sizeof(section);
		const char *name = opened->image.sections[i].name;

		memcpy(&section, at, sizeof(section));
		if (strcmp(name, ".debug_abbrev") == 0) {
			section.sh_offset = size;
			section.sh_size = abbreviations_length;
		} else if (strcmp(name, ".debug_info") == 0) {
			section.sh_offset = size + abbreviations_length;
			section.sh_size = info_length;
		}
		memcpy(at, &section, sizeof(section));
	}
	forged->source = (struct elf_source){forged_read, forged, forged->size};
	forged->sources = (struct namer_sources){.file = &forged->source};
	cr_assert_eq(elf_image_init(&forged->image, &forged->source), 0);
	cr_assert_eq(namer_open(&forged->namer, &forged->image), 0);
	cr_assert_eq(forged->namer.ops, &namer_dwarf);
}

static void close_forged(struct forged *forged)
{
	namer_close(&forged->namer);
	elf_image_fini(&forged->image);
	free(forged->bytes);
}

/* Appends to .debug_info. */
static uint8_t *put(uint8_t *to, const void *bytes, size_t length)
{
	memcpy(to, bytes, length);
	return to + length;
}

/* Appends an entry with code: its abbreviation, and where the code is. */
static uint8_t *put_code(uint8_t *to, uint8_t code, uint64_t start, uint32_t length)
{
	to = put(to, &code, 1);
	to = put(to, &start, sizeof(start));
	return put(to, &length, sizeof(length));
}

/* A function with millions of blocks, each in the one before. */
Test(dwarf_names, a_lookup_is_done_in_parts_and_reads_only_so_far)
{
	/* 1: a unit with code; 2: a function with code and children; 3: a block with children. */
	static const uint8_t abbreviations[] = {1, 0x11, 1, 0x11, 1, 0x12, 6, 0, 0, /* unit */
						2, 0x2e, 1, 0x11, 1, 0x12, 6, 0, 0,
						3, 0x0b, 1, 0,	  0, 0};
	const uint32_t code_bytes = 64, length = BLOCKS + HEADER_BYTES - 4;
	uint8_t *info = malloc(BLOCKS + HEADER_BYTES), *to = info;
	struct named_frames frames;
	struct opened opened;
	struct forged forged = {0};
	char path[TEXT_BYTES];

	path_of("gcc_5", path);
	open_file(&opened, path);
	const uint64_t start = address_of(&opened, "count_words");
	static const uint8_t rest[] = {5, 0, 1, 8, 0, 0, 0, 0}; /* version, type, address size */
	to = put(put(to, &length, sizeof(length)), rest, sizeof(rest));
	for (uint8_t code = 1; code <= 2; code++)
		to = put_code(to, code, start, code_bytes);
	cr_assert_eq(to - info, HEADER_BYTES);
	memset(to, 3, BLOCKS);
	forge(&forged, &opened, abbreviations, sizeof(abbreviations), info, BLOCKS + HEADER_BYTES);
	close_file(&opened);

	int r = -EAGAIN;
	unsigned int parts = 0;
	for (; r == -EAGAIN && parts < PARTS_MAX; parts++) {
		forged.read = 0;
		r = namer_name(&forged.namer, &forged.sources, start, &frames);
		cr_assert_leq(forged.read, PART_BYTES_MAX, "part %u: %zu", parts, forged.read);
	}
	cr_expect_neq(r, -EAGAIN);
	cr_expect_geq(parts, BLOCKS / PART_BYTES_MAX, "%u", parts);
	close_forged(&forged);
	free(info);
}

enum {
	INLINING_FUNCTIONS = 8,
	INLINED = 30000,
	INLINING_CODE = 16, /* bytes of each function */
	/* Bytes of a location, which make that a function is not read in one part. */
	LOCATION_BYTES = 64,
};

/* Writes functions into which the same one is inlined many times. The last call has the last byte
 * of the code. Returns the length of .debug_info, which the caller frees. */
static size_t put_inlining_functions(uint64_t start, uint8_t **info)
{
	const uint8_t header[] = {0, 0, 0, 0, 5, 0, 1, 8, 0, 0, 0, 0};
	static const uint8_t location[LOCATION_BYTES] = {LOCATION_BYTES - 1};
	const size_t room = 64 + INLINING_FUNCTIONS * (16 + INLINED * (20 + LOCATION_BYTES));
	uint8_t *to = *info = malloc(room);

	to =
	    put_code(put(to, header, sizeof(header)), 1, start, INLINING_FUNCTIONS * INLINING_CODE);
	const uint32_t called = (uint32_t)(to - *info);
	to = put(to, "\3called", sizeof("\3called"));
	for (unsigned int i = 0; i < INLINING_FUNCTIONS; i++) {
		const uint64_t code = start + i * INLINING_CODE;

		to = put_code(to, 2, code, INLINING_CODE);
		for (unsigned int j = 0; j < INLINED; j++) {
			to = put_code(to, 4, code + (j + 1 == INLINED ? INLINING_CODE - 1 : 0), 1);
			to = put(put(to, &called, sizeof(called)), location, sizeof(location));
			to = put(to, "", 1);
		}
		to = put(to, "", 1);
	}
	to = put(to, "", 1);
	cr_assert_leq((size_t)(to - *info), room);
	const uint32_t length = (uint32_t)(to - *info) - 4;
	memcpy(*info, &length, sizeof(length));
	return (size_t)(to - *info);
}

/* More is inlined into the functions than is kept in memory. */
Test(dwarf_names, much_that_is_inlined_is_read_again)
{
	/* 1: a unit with code; 2: a function with code and children; 3: a name; 4: an inlined call
	 * with code, whose name is a reference, with a location, and with children. */
	static const uint8_t abbreviations[] = {
	    1, 0x11, 1, 0x11, 1, 0x12, 6, 0,	0, /* unit */
	    2, 0x2e, 1, 0x11, 1, 0x12, 6, 0,	0, /* function */
	    3, 0x2e, 0, 0x03, 8, 0,    0,	   /* name */
	    4, 0x1d, 1, 0x11, 1, 0x12, 6, 0x31, 0x13, 0x02, 0x0a, 0, 0, 0};
	struct forged forged = {0};
	struct opened opened;
	char path[TEXT_BYTES];
	uint8_t *info;

	path_of("gcc_5", path);
	open_file(&opened, path);
	const uint64_t start = address_of(&opened, "count_words");
	const size_t length = put_inlining_functions(start, &info);
	forge(&forged, &opened, abbreviations, sizeof(abbreviations), info, length);
	close_file(&opened);

	struct named_frames frames;
	for (unsigned int i = 0; i < 3 * INLINING_FUNCTIONS; i++) {
		const uint64_t code = start + i % INLINING_FUNCTIONS * INLINING_CODE;
		int r;

		do
			r = namer_name(&forged.namer, &forged.sources, code + INLINING_CODE - 1,
				       &frames);
		while (r == -EAGAIN);
		cr_assert_eq(r, 0);
		cr_assert_eq(frames.count, 2);
		cr_expect_str_eq(frames.frames[0].function, "called");
		cr_assert_eq(namer_name(&forged.namer, &forged.sources, code + 1, &frames), 0);
		cr_assert_eq(frames.count, 1, "nothing is inlined there");
		cr_expect_lt(namer_bytes(&forged.namer), 8u << 20);
	}
	close_forged(&forged);
	free(info);
}
