/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the entries of .eh_frame and .debug_frame.
 *
 * How this works: a section is a sequence of entries, each with its length and an id. An entry is a
 * CIE or an FDE. An FDE describes one function: its address range, and a program whose instructions
 * say how the frame changes along the code. What many functions have in common is in a CIE, to
 * which FDEs refer: alignment factors, the encoding of pointers, and a program that sets the state
 * at the start of a function. cfi_program.c runs the programs.
 *
 * Entries are read in the order of the section, through a window (elf_window.h). A CIE is run when
 * an FDE refers to it, and the state in which it ended is cached; the cache is small, since files
 * have few CIEs. FDEs refer backwards in .eh_frame (by a distance) and anywhere in .debug_frame (by
 * an offset), so a CIE is copied from wherever it is without moving the window.
 *
 * Example, bytes of .eh_frame at 0x2000:
 *
 *	0x00: 14 00 00 00  00 00 00 00  01 'zR' ...      length 20, id 0: a CIE. Its program says
 *	                                                  CFA = rsp + 8, return address at CFA - 8
 *	0x18: 18 00 00 00  1c 00 00 00  e0 ef ff ff ...  length 24; 0x1c - 0x1c = 0: an FDE with the
 *	                                                  CIE at 0. Start 0x2020 - 0x1020 = 0x1000
 *	0x34: 00 00 00 00                                 length 0: the end
 *
 * Nothing is allocated per FDE. A malformed entry is counted and skipped by its length. A section
 * that ends inside an entry ends the parse.
 */
#include "parse/cfi.h"

#include <errno.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/hash.h"
#include "parse/cfi_program.h"

enum {
	AUGMENTATION_MAX = 16,	/* bytes; the longest that compilers write is "zPLRSB" */
	SELECTOR_BYTES_MAX = 8, /* segment selectors of .debug_frame version 4 */
	/* A power of two. A collision only costs another run of a CIE, which the budget covers. */
	CIE_CACHE_SLOTS = 256,
	CIE_BYTES_MAX = 1024, /* compilers write 20 to 40 bytes; the rest of a longer one is cut */
	/* Length, id, segment selector, two addresses and augmentation data of an FDE: 4 + 4 + 8 +
	 * 16 + 9 bytes, rounded up. */
	FDE_HEAD_BYTES = 64,
	LENGTH_BYTES = 4,
	LENGTH_BYTES_WIDE = 12, /* UINT32_MAX, then a length of 64 bits */
};

enum cie_status {
	CIE_NONE, /* the slot is empty */
	CIE_GOOD,
	CIE_BAD /* it cannot be used, and neither can its FDEs */
};

struct cie_slot {
	uint64_t offset; /* in the section; the key of the cache */
	enum cie_status status;
	struct cfi_cie cie;
};

/* A CIE or FDE: its id, and the bytes after it. */
struct entry {
	struct cursor body;
	uint64_t id, id_offset;
	bool is_cie;
	/* The length in total. If the entry is cut off: the bytes that are needed to read on. */
	uint64_t bytes;
};

struct parser;

/* What to do with the programs. Functions that take a runner are inlined, so that its calls are
 * direct, and that a role that only needs address ranges is not linked with cfi_program.c. */
#define inline_for_runner inline __attribute__((always_inline))
struct program_runner {
	/* Runs the initial instructions of a CIE, the body of `entry`. NULL: they are not
	 * needed. */
	int (*run_cie)(struct parser *parser, struct cfi_cie *cie, const struct entry *entry);
	/* Receives an FDE with its address range; the body of `entry` is its instructions. */
	int (*run_fde)(struct parser *parser, const struct cfi_cie *cie, const struct entry *entry,
		       struct cfi_fde *fde);
};

struct parser {
	const struct cfi_section *section;
	struct cfi_budget left;
	struct cfi_stats *stats;
	struct cie_slot cies[CIE_CACHE_SLOTS];
	/* For cfi_visit_ranges(). */
	cfi_visit_range *visit;
	void *visit_context;
	/* For cfi_parse(). */
	const struct cfi_sink *sink;
	struct cfi_shapes shapes;
	struct cfi_rows rows;
	struct cfi_program program;
};

/* ---- Entries ---- */

/* Reads the entry at the cursor, whose base is the offset `base` in the section. Returns 1: an
 * entry; 0: a terminator; -EAGAIN: padding; -EBADMSG: an entry without an id, which was skipped;
 * -ENODATA: an entry that is cut off. */
static inline __attribute__((always_inline)) int
entry_read(const struct cfi_section *section, struct cursor *c, uint64_t base, struct entry *entry)
{
	entry->bytes = LENGTH_BYTES;
	uint64_t length = cursor_u32(c);
	bool wide = length == UINT32_MAX;
	if (wide) {
		entry->bytes = LENGTH_BYTES_WIDE;
		length = cursor_u64(c);
	}
	if (c->failed)
		return -ENODATA;
	/* A length of 0 ends .eh_frame; in .debug_frame it is padding. */
	if (length == 0)
		return section->debug_frame ? -EAGAIN : 0;

	entry->id_offset = base + cursor_offset(c);
	if (__builtin_add_overflow(entry->bytes, length, &entry->bytes))
		entry->bytes = UINT64_MAX;
	entry->body = cursor_sub(c, length);
	if (entry->body.failed)
		return -ENODATA;
	if (section->debug_frame && wide) {
		entry->id = cursor_u64(&entry->body);
		entry->is_cie = entry->id == UINT64_MAX;
	} else {
		entry->id = cursor_u32(&entry->body);
		entry->is_cie = entry->id == (section->debug_frame ? UINT32_MAX : 0);
	}
	return entry->body.failed ? -EBADMSG : 1;
}

/* Returns the virtual address of an entry's id, which is also the base of its cursor. */
static inline uint64_t entry_vaddr(const struct cfi_section *section, const struct entry *entry)
{
	return section->vaddr + entry->id_offset;
}

/* Moves the window until the entry at `at` is in it as a whole, and reads it. Returns what
 * entry_read() returns, 0 also at the end of the section, or -ENOMEM. */
static __attribute__((noinline)) int entry_read_moving(const struct cfi_section *section,
						       uint64_t at, struct cursor *c,
						       uint64_t *base, struct entry *entry)
{
	int rc = -ENODATA;

	if (at == section->window->length)
		return 0;
	while (rc == -ENODATA) {
		rc = elf_window_get(section->window, at, entry->bytes, c);
		if (rc < 0)
			return rc == -ENOMEM ? rc : -ENODATA;
		*base = at;
		rc = entry_read(section, c, at, entry);
	}
	return rc;
}

/* ---- CIEs ---- */

/* Parses the data that the augmentation string announces. An unknown letter ends it; the rest is
 * skipped by its length, which only 'z' provides. `vaddr` is the address of the cursor's base. */
static bool cie_parse_augmentation(struct cfi_cie *cie, const char *string, struct cursor *c,
				   uint64_t vaddr)
{
	if (string[0] == '\0' || strcmp(string, "eh") == 0)
		return true;
	if (string[0] != 'z')
		return false;
	cie->augmented = true;
	const uint64_t length = cfi_read_uleb(c);
	vaddr += cursor_offset(c);
	struct cursor data = cursor_sub(c, length);
	for (string++; *string && !data.failed; string++) {
		struct cfi_pointers personality = cie->pointers;
		uint64_t ignored;

		switch (*string) {
		case 'R':
			cie->pointers.encoding = cursor_u8(&data);
			break;
		case 'L':
			cursor_u8(&data);
			break;
		case 'P':
			/* The pointer is only skipped, so it may be an indirect one. */
			personality.encoding = cursor_u8(&data) & (uint8_t)~PE_INDIRECT;
			if (!cfi_read_pointer(&data, vaddr, &personality, &(uint64_t){0}, &ignored))
				return false;
			break;
		case 'S':
			cie->signal_frame = true;
			break;
		case 'B': /* arm64: pointers are signed with key B */
		case 'G': /* arm64: frames are tagged */
			break;
		default:
			return !data.failed;
		}
	}
	return !data.failed;
}

/* Parses the fields of a CIE, up to its initial instructions. */
static bool cie_parse_header(struct cfi_cie *cie, struct cursor *c, uint64_t vaddr)
{
	cie->pointers.address_bytes = sizeof(uint64_t);
	cie->pointers.encoding = PE_ABSPTR;
	uint8_t version = cursor_u8(c);
	if (version != 1 && version != 3 && version != 4)
		return false;

	size_t left = cursor_left(c);
	struct cursor bounded =
	    cursor_init(c->at, left < AUGMENTATION_MAX ? left : AUGMENTATION_MAX);
	const char *augmentation = cursor_string(&bounded);
	if (!augmentation)
		return false;
	cursor_skip(c, cursor_offset(&bounded));
	if (version == 4) {
		cie->pointers.address_bytes = cursor_u8(c);
		cie->selector_bytes = cursor_u8(c);
	}
	const uint8_t address_bytes = cie->pointers.address_bytes;
	if (strcmp(augmentation, "eh") == 0)
		cursor_skip(c, address_bytes); /* the exception table of gcc 2 */
	const uint64_t code_align = cfi_read_uleb(c);
	cie->code_align = code_align < UINT32_MAX ? (uint32_t)code_align : UINT32_MAX;
	cie->data_align = cfi_read_sleb(c);
	uint64_t ra = version == 1 ? cursor_u8(c) : cfi_read_uleb(c);
	return !c->failed && ra == REGISTER_RA &&
	       (address_bytes == sizeof(uint64_t) || address_bytes == sizeof(uint32_t)) &&
	       cie->selector_bytes <= SELECTOR_BYTES_MAX &&
	       cie_parse_augmentation(cie, augmentation, c, vaddr);
}

/* Reads the CIE at `offset` of the section into `bytes` and parses its header. Afterwards the body
 * of `entry` is a cursor over its initial instructions. Returns 0, or -EBADMSG if it is not a CIE
 * that this parser supports. */
static int cie_read(const struct cfi_section *section, uint64_t offset,
		    uint8_t bytes[CIE_BYTES_MAX], struct cfi_cie *cie, struct entry *entry)
{
	const int length = elf_window_copy(section->window, offset, bytes, CIE_BYTES_MAX);

	if (length < 0)
		return -EBADMSG;
	struct cursor c = cursor_init(bytes, (size_t)length);
	*cie = (struct cfi_cie){.pointers.text_vaddr = section->text_vaddr,
				.pointers.data_vaddr = section->data_vaddr};
	if (entry_read(section, &c, offset, entry) != 1 || !entry->is_cie ||
	    !cie_parse_header(cie, &entry->body, entry_vaddr(section, entry)))
		return -EBADMSG;
	return 0;
}

/* Parses and runs a CIE. Returns -EBADMSG: it cannot be used. Other errors end the parse. */
static inline_for_runner int cie_parse(struct parser *parser, const struct program_runner *runner,
				       uint64_t offset, struct cfi_cie *cie)
{
	uint8_t bytes[CIE_BYTES_MAX];
	struct entry entry;

	if (cie_read(parser->section, offset, bytes, cie, &entry) < 0)
		return -EBADMSG;
	return runner->run_cie ? runner->run_cie(parser, cie, &entry) : 0;
}

/* Finds the CIE at an offset in the cache, or parses it. CIEs that cannot be used are cached
 * too. */
static inline_for_runner int cie_get(struct parser *parser, const struct program_runner *runner,
				     uint64_t offset, const struct cfi_cie **found)
{
	const uint64_t hash = hash_spread(offset) >> 32;
	struct cie_slot *slot = &parser->cies[hash % CIE_CACHE_SLOTS];

	if (slot->status == CIE_NONE || slot->offset != offset) {
		slot->status = CIE_NONE;
		int rc = cie_parse(parser, runner, offset, &slot->cie);
		if (rc < 0 && rc != -EBADMSG)
			return rc;
		slot->offset = offset;
		slot->status = rc == 0 ? CIE_GOOD : CIE_BAD;
	}
	if (slot->status == CIE_BAD)
		return -EBADMSG;
	*found = &slot->cie;
	return 0;
}

/* ---- FDEs ---- */

/* Reads an FDE's address range and skips to its instructions. Returns 0; 1: it covers no code,
 * because the linker has dropped its function; -EBADMSG. */
static inline __attribute__((always_inline)) int
fde_read_range(const struct cfi_cie *cie, struct cursor *c, uint64_t vaddr, struct cfi_fde *fde)
{
	const struct cfi_pointers *how = &cie->pointers;
	uint64_t size;

	cursor_skip(c, cie->selector_bytes);
	if (how->encoding == (PE_PCREL | PE_SDATA4)) {
		/* Nearly all linkers write this encoding. It gives what cfi_read_pointer() would
		 * give, but faster. */
		uint64_t base = vaddr + cursor_offset(c);
		uint64_t value = (uint64_t)(int32_t)cursor_u32(c);

		fde->start = value ? base + value : 0;
		size = (uint64_t)(int32_t)cursor_u32(c);
	} else if (!cfi_read_pointer(c, vaddr, how, NULL, &fde->start) ||
		   !cfi_read_format(c, how->encoding & PE_FORMAT_MASK, how->address_bytes, &size)) {
		return -EBADMSG;
	}
	if (cie->augmented)
		cursor_skip(c, cfi_read_uleb(c));
	if (c->failed)
		return -EBADMSG;
	if (fde->start == 0 || size == 0)
		return 1;
	if (__builtin_add_overflow(fde->start, size, &fde->end) || size > UINT32_MAX)
		return -EBADMSG;
	return 0;
}

/* Finds the offset of the CIE that an FDE refers to. In .eh_frame the id counts backwards from its
 * own position. Returns 0, or -EBADMSG if the CIE would lie before the section. */
static inline int fde_find_cie(const struct cfi_section *section, const struct entry *entry,
			       uint64_t *offset)
{
	if (section->debug_frame) {
		*offset = entry->id;
		return 0;
	}
	if (entry->id > entry->id_offset)
		return -EBADMSG;
	*offset = entry->id_offset - entry->id;
	return 0;
}

/* Parses one FDE. Returns 0, also if it covers no code; -EBADMSG: it is malformed. Other errors end
 * the parse. */
static inline_for_runner int fde_parse(struct parser *parser, const struct program_runner *runner,
				       struct entry *entry)
{
	const struct cfi_section *section = parser->section;
	const struct cfi_cie *cie;
	struct cfi_fde fde;
	uint64_t offset;

	int rc = fde_find_cie(section, entry, &offset);
	if (rc == 0)
		rc = cie_get(parser, runner, offset, &cie);
	if (rc < 0)
		return rc;
	rc = fde_read_range(cie, &entry->body, entry_vaddr(section, entry), &fde);
	if (rc != 0)
		return rc < 0 ? rc : 0;
	return runner->run_fde(parser, cie, entry, &fde);
}

/* ---- A section ---- */

/* Parses all entries. Returns what cfi_parse() returns. */
static inline_for_runner int section_parse(struct parser *parser,
					   const struct program_runner *runner)
{
	const struct cfi_section *section = parser->section;
	struct cursor c = cursor_init(NULL, 0);
	uint64_t base = 0; /* the offset of the cursor's base in the section */
	struct entry entry;

	for (;;) {
		const uint64_t at = base + cursor_offset(&c);
		int rc = entry_read(section, &c, base, &entry);
		if (rc == -ENODATA)
			rc = entry_read_moving(section, at, &c, &base, &entry);
		if (rc == -EAGAIN || (rc == 1 && entry.is_cie))
			continue;
		if (rc == -ENODATA) {
			parser->stats->truncated = true;
			return 0;
		}
		if (rc == 0 || rc == -ENOMEM)
			return rc;
		if (parser->left.fdes == 0)
			return -E2BIG;
		parser->left.fdes--;
		if (rc == 1)
			rc = fde_parse(parser, runner, &entry);
		if (rc == -EBADMSG)
			parser->stats->bad_fdes++;
		else if (rc < 0)
			return rc;
	}
}

/* ---- Rows ---- */

static int rows_run_cie(struct parser *parser, struct cfi_cie *cie, const struct entry *entry)
{
	struct cfi_program *program = &parser->program;
	const struct cfi_state blank = cfi_state_blank(cie->signal_frame);
	int rc = cfi_shapes_intern(&parser->shapes, &blank, &cie->initial);

	if (rc < 0)
		return rc;
	program->cie = cie;
	program->code_vaddr = entry_vaddr(parser->section, entry);
	program->start = program->size = 0;
	rc = cfi_program_run(program, &entry->body);
	cie->initial = program->end_state;
	return rc;
}

/* Delivers the rows that the program has made. */
static int rows_deliver(struct parser *parser, struct cfi_fde *fde)
{
	const struct cfi_rows *rows = &parser->rows;

	parser->left.rows -= rows->count;
	parser->stats->fdes++;
	parser->stats->rows += rows->count;
	fde->rows = rows->rows;
	fde->row_count = (unsigned int)rows->count;
	return parser->sink->fde(parser->sink->context, fde);
}

static int rows_run_fde(struct parser *parser, const struct cfi_cie *cie, const struct entry *entry,
			struct cfi_fde *fde)
{
	const struct cfi_sink *sink = parser->sink;
	struct cfi_program *program = &parser->program;

	if (sink->want && !sink->want(sink->context, fde->start, fde->end))
		return 0;
	program->cie = cie;
	program->code_vaddr = entry_vaddr(parser->section, entry);
	program->start = fde->start;
	program->size = fde->end - fde->start;
	int rc = cfi_program_run(program, &entry->body);
	return rc < 0 ? rc : rows_deliver(parser, fde);
}

static const struct program_runner rows_runner = {.run_cie = rows_run_cie, .run_fde = rows_run_fde};

int cfi_parse(const struct cfi_section *section, const struct cfi_budget *budget,
	      const struct cfi_sink *sink, struct cfi_stats *stats)
{
	_cleanup_free_ struct parser *parser = calloc(1, sizeof(*parser));

	*stats = (struct cfi_stats){0};
	if (!parser)
		return -ENOMEM;
	parser->section = section;
	parser->sink = sink;
	parser->stats = stats;
	parser->left = *budget;
	parser->program.shapes = &parser->shapes;
	parser->program.rows = &parser->rows;
	parser->program.left = &parser->left;
	int rc = cfi_shapes_init(&parser->shapes, sink, budget->instructions);
	if (rc == 0)
		rc = cfi_rows_init(&parser->rows);
	if (rc == 0)
		rc = section_parse(parser, &rows_runner);
	if (rc == -E2BIG)
		stats->truncated = true;
	cfi_shapes_fini(&parser->shapes);
	cfi_rows_fini(&parser->rows);
	return rc;
}

/* ---- Address ranges ---- */

static int ranges_run_fde(struct parser *parser, const struct cfi_cie *cie,
			  const struct entry *entry, struct cfi_fde *fde)
{
	(void)cie;
	(void)entry;
	return parser->visit(parser->visit_context, fde->start, fde->end);
}

static const struct program_runner ranges_runner = {.run_fde = ranges_run_fde};

int cfi_visit_ranges(const struct cfi_section *section, uint64_t fdes_max, cfi_visit_range *visit,
		     void *context)
{
	_cleanup_free_ struct parser *parser = calloc(1, sizeof(*parser));
	struct cfi_stats stats = {0};

	if (!parser)
		return -ENOMEM;
	parser->section = section;
	parser->stats = &stats;
	parser->left.fdes = fdes_max;
	parser->visit = visit;
	parser->visit_context = context;
	return section_parse(parser, &ranges_runner);
}

int cfi_read_range(const struct cfi_section *section, uint64_t offset, uint64_t *start,
		   uint64_t *end)
{
	uint8_t fde_bytes[FDE_HEAD_BYTES], cie_bytes[CIE_BYTES_MAX];
	struct entry entry, cie_entry;
	struct cfi_cie cie;
	struct cfi_fde fde;
	uint64_t cie_offset;
	uint32_t length;

	int rc = elf_window_copy(section->window, offset, fde_bytes, sizeof(fde_bytes));
	if (rc < LENGTH_BYTES)
		return rc < 0 ? rc : -EBADMSG;
	/* An FDE that is longer than the buffer only has more instructions, which are not needed:
	 * it is read as if it ended here. A length of UINT32_MAX announces a 64-bit length. */
	memcpy(&length, fde_bytes, sizeof(length));
	if (length != UINT32_MAX && length > (uint32_t)rc - LENGTH_BYTES)
		length = (uint32_t)rc - LENGTH_BYTES;
	memcpy(fde_bytes, &length, sizeof(length));

	struct cursor c = cursor_init(fde_bytes, (size_t)rc);
	if (entry_read(section, &c, offset, &entry) != 1 || entry.is_cie ||
	    fde_find_cie(section, &entry, &cie_offset) < 0 ||
	    cie_read(section, cie_offset, cie_bytes, &cie, &cie_entry) < 0 ||
	    fde_read_range(&cie, &entry.body, entry_vaddr(section, &entry), &fde) != 0)
		return -EBADMSG;
	*start = fde.start;
	*end = fde.end;
	return 0;
}
