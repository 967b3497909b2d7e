/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the ELF reader with a small file that is changed in one place, and with this program. */
#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "common/cleanup.h"
#include "parse/elf_window.h"

#include "elf_fixture.h"

enum {
	CAP = 1 << 20
};

/* Reads the file after one change to it. */
static int init_changed(const struct file *f)
{
	struct elf_buffer buffer = {f, sizeof(*f)};
	struct elf_image image;
	int rc = init_bytes(&image, &buffer);

	if (rc == 0)
		elf_image_fini(&image);
	return rc;
}

Test(elf_image, a_valid_file_is_read)
{
	struct file f = file_make();
	struct elf_buffer buffer = {&f, sizeof(f)};
	struct elf_image image;

	cr_assert_eq(init_bytes(&image, &buffer), 0);
	cr_assert_eq(image.type, ET_DYN);
	cr_assert_eq(image.machine, EM_X86_64);
	cr_assert_eq(image.entry, 0x1140);
	cr_assert_eq(image.segment_count, 1);
	cr_assert(image.segments[0].executable);
	cr_assert_eq(image.segments[0].memory_size, 0x200);
	cr_assert_eq(image.section_count, SECTIONS);
	cr_assert_eq(image.eh_frame_hdr_vaddr, 0x1150);
	cr_assert_eq(image.eh_frame_hdr_size, 0x10);
	cr_assert_eq(image.build_id_length, 20);
	cr_assert_arr_eq(image.build_id, f.note.id, 20);
	cr_assert_not(image.truncated);

	const struct elf_section *text = elf_image_find_section(&image, ".text");
	cr_assert_not_null(text);
	cr_assert_eq(text, &image.sections[SECTION_TEXT]);
	cr_assert_eq(text->vaddr, 0x1140);
	cr_assert_eq(text->flags, SHF_ALLOC | SHF_EXECINSTR);
	cr_assert_null(elf_image_find_section(&image, ".data"));
	elf_image_fini(&image);
}

Test(elf_image, other_files_are_refused)
{
	struct file f = file_make();

	f.header.e_ident[1] = 'e';
	cr_assert_eq(init_changed(&f), -ENOEXEC, "magic");
	f = file_make();
	f.header.e_ident[EI_CLASS] = ELFCLASS32;
	cr_assert_eq(init_changed(&f), -ENOEXEC, "32 bits");
	f = file_make();
	f.header.e_ident[EI_DATA] = ELFDATA2MSB;
	cr_assert_eq(init_changed(&f), -ENOEXEC, "big-endian");
	f = file_make();
	f.header.e_machine = EM_RISCV;
	cr_assert_eq(init_changed(&f), -ENOEXEC, "machine");
	f.header.e_machine = EM_AARCH64;
	cr_assert_eq(init_changed(&f), 0, "arm64");
	f.header.e_type = ET_CORE;
	cr_assert_eq(init_changed(&f), -ENOEXEC, "type");
	f = file_make();
	f.header.e_phoff = sizeof(f) - sizeof(Elf64_Phdr);
	cr_assert_eq(init_changed(&f), -ENOEXEC, "program headers beyond the end");
	f.header.e_phoff = UINT64_MAX - 8;
	cr_assert_eq(init_changed(&f), -ENOEXEC, "program headers that wrap");
	f = file_make();
	f.header.e_phentsize = 55;
	cr_assert_eq(init_changed(&f), -ENOEXEC, "program headers of an unknown size");
}

Test(elf_image, survives_every_length)
{
	struct file f = file_make();

	for (size_t length = 0; length < sizeof(f); length++) {
		/* In a block of its own, so that the sanitizer detects a read past its end. */
		_cleanup_free_ uint8_t *copy = malloc(length ? length : 1);
		struct elf_buffer buffer = {copy, length};
		struct elf_image image;

		memcpy(copy, &f, length);
		int rc = init_bytes(&image, &buffer);
		if (length < offsetof(struct file, pad))
			cr_assert_eq(rc, -ENOEXEC, "%zu bytes", length);
		else
			cr_assert_eq(rc, 0, "%zu bytes", length);
		if (rc == 0)
			elf_image_fini(&image);
	}
}

Test(elf_image, survives_every_changed_byte)
{
	const struct file good = file_make();

	for (size_t i = 0; i < sizeof(good); i++) {
		for (unsigned int bit = 0; bit < 8; bit++) {
			struct file f = good;
			struct elf_buffer buffer = {&f, sizeof(f)};
			struct elf_image image;

			((uint8_t *)&f)[i] ^= (uint8_t)(1 << bit);
			if (init_bytes(&image, &buffer) < 0)
				continue;
			for (unsigned int s = 0; s < image.section_count; s++) {
				_cleanup_free_ uint8_t *data = NULL;
				size_t length;

				elf_image_read_section(&image, &image.sections[s], CAP, &data,
						       &length);
			}
			elf_image_fini(&image);
		}
	}
}

Test(elf_image, broken_section_headers_leave_segments)
{
	struct elf_image image;
	struct file f = file_make();
	struct elf_buffer buffer = {&f, sizeof(f)};

	f.header.e_shoff = UINT64_MAX - 64;
	cr_assert_eq(init_bytes(&image, &buffer), 0);
	cr_assert_eq(image.section_count, 0);
	cr_assert_eq(image.segment_count, 1);
	elf_image_fini(&image);

	f = file_make();
	f.header.e_shnum = SECTIONS + 1;
	cr_assert_eq(init_bytes(&image, &buffer), 0);
	cr_assert_eq(image.section_count, SECTIONS);
	cr_assert(image.truncated);
	elf_image_fini(&image);

	f = file_make();
	f.header.e_shstrndx = SECTION_TEXT;
	cr_assert_eq(init_bytes(&image, &buffer), 0);
	cr_assert_str_eq(image.sections[SECTION_TEXT].name, "");
	elf_image_fini(&image);
}

Test(elf_image, counts_beyond_16_bits_are_read)
{
	struct elf_image image;
	struct file f = file_make();
	struct elf_buffer buffer = {&f, sizeof(f)};

	f.header.e_shnum = 0;
	f.header.e_phnum = PN_XNUM;
	f.header.e_shstrndx = SHN_XINDEX;
	f.sections[0].sh_size = SECTIONS;
	f.sections[0].sh_info = 3;
	f.sections[0].sh_link = SECTION_NAMES;
	cr_assert_eq(init_bytes(&image, &buffer), 0);
	cr_assert_eq(image.section_count, SECTIONS);
	cr_assert_eq(image.segment_count, 1);
	cr_assert_not_null(elf_image_find_section(&image, ".debug_str"));
	elf_image_fini(&image);

	f.sections[0].sh_size = UINT64_MAX / 2;
	cr_assert_eq(init_bytes(&image, &buffer), 0);
	cr_assert_eq(image.section_count, SECTIONS, "no more than the file has room for");
	cr_assert(image.truncated);
	elf_image_fini(&image);
}

Test(elf_image, names_end_in_their_table)
{
	struct elf_image image;
	struct file f = file_make();
	struct elf_buffer buffer = {&f, sizeof(f)};

	f.sections[SECTION_NAMES].sh_size = NAME_NAMES + 4; /* in the middle of ".shstrtab" */
	f.sections[SECTION_TEXT].sh_name = UINT32_MAX;
	cr_assert_eq(init_bytes(&image, &buffer), 0);
	cr_assert_str_eq(image.sections[SECTION_NAMES].name, "");
	cr_assert_str_eq(image.sections[SECTION_TEXT].name, "");
	cr_assert_str_eq(image.sections[SECTION_BSS].name, ".bss");
	elf_image_fini(&image);
}

Test(elf_image, limits_set_truncated)
{
	enum {
		MANY = 600
	};
	size_t size = sizeof(Elf64_Ehdr) + MANY * (sizeof(Elf64_Phdr) + sizeof(Elf64_Shdr));
	_cleanup_free_ uint8_t *bytes = calloc(1, size);
	Elf64_Ehdr *header = (Elf64_Ehdr *)bytes;
	Elf64_Phdr *segments = (Elf64_Phdr *)(header + 1);
	struct elf_buffer buffer = {bytes, size};
	struct elf_image image;

	*header = file_make().header;
	header->e_phoff = sizeof(*header);
	header->e_phnum = MANY;
	header->e_shoff = header->e_phoff + MANY * sizeof(Elf64_Phdr);
	header->e_shnum = MANY;
	for (unsigned int i = 0; i < MANY; i++)
		segments[i] = (Elf64_Phdr){.p_type = PT_LOAD, .p_vaddr = i * 4096, .p_filesz = 1};
	cr_assert_eq(init_bytes(&image, &buffer), 0);
	cr_assert_eq(image.segment_count, ELF_IMAGE_SEGMENTS_MAX);
	cr_assert_eq(image.section_count, ELF_IMAGE_SECTIONS_MAX);
	cr_assert(image.truncated);
	elf_image_fini(&image);
}

Test(elf_image, sections_are_read_within_the_cap)
{
	struct file f = file_make();
	struct elf_buffer buffer = {&f, sizeof(f)};
	struct elf_image image;
	_cleanup_free_ uint8_t *data = NULL;
	size_t length = 7;

	cr_assert_eq(init_bytes(&image, &buffer), 0);
	struct elf_section text = image.sections[SECTION_TEXT];
	cr_assert_eq(elf_image_read_section(&image, &text, 63, &data, &length), -EFBIG);
	cr_assert_eq(
	    elf_image_read_section(&image, &image.sections[SECTION_BSS], CAP, &data, &length),
	    -ENOENT);
	text.size = 0;
	cr_assert_eq(elf_image_read_section(&image, &text, CAP, &data, &length), -ENOENT);
	text.size = sizeof(f.text);
	text.offset = sizeof(f) - 1;
	cr_assert_eq(elf_image_read_section(&image, &text, CAP, &data, &length), -ENODATA);
	text.offset = UINT64_MAX;
	cr_assert_eq(elf_image_read_section(&image, &text, CAP, &data, &length), -ENODATA);
	cr_assert_null(data);
	cr_assert_eq(length, 7, "outputs are untouched on failure");

	text.offset = offsetof(struct file, text);
	cr_assert_eq(elf_image_read_section(&image, &text, 64, &data, &length), 0);
	cr_assert_eq(length, sizeof(f.text));
	cr_assert_arr_eq(data, f.text, sizeof(f.text));
	elf_image_fini(&image);
}

static int read_packed(const struct file *f, size_t cap)
{
	struct elf_buffer buffer = {f, sizeof(*f)};
	struct elf_image image;
	_cleanup_free_ uint8_t *data = NULL;
	size_t length = 0;

	cr_assert_eq(init_bytes(&image, &buffer), 0);
	int rc =
	    elf_image_read_section(&image, &image.sections[SECTION_DEBUG], cap, &data, &length);
	if (rc == 0) {
		cr_assert_eq(length, INFLATED);
		for (size_t i = 0; i < length; i++)
			cr_assert_eq(data[i], 'x');
	}
	/* A window has the same bytes. */
	struct elf_window window;
	struct cursor c;
	cr_assert_eq(elf_window_init_section(&window, &image, &image.sections[SECTION_DEBUG], cap),
		     rc);
	if (rc == 0) {
		cr_assert_eq(elf_window_get(&window, 0, length, &c), 0);
		cr_assert_eq(memcmp(c.at, data, length), 0);
		cr_assert_eq(elf_window_get(&window, 0, length + 1, &c), -ENODATA);
	}
	elf_window_fini(&window);
	elf_image_fini(&image);
	return rc;
}

Test(elf_image, compressed_sections_are_decompressed)
{
	struct file f = file_make();

	cr_assert_eq(read_packed(&f, CAP), 0);
	cr_assert_eq(read_packed(&f, INFLATED), 0);
	cr_assert_eq(read_packed(&f, INFLATED - 1), -EFBIG);
	f.packed.ch_size = INFLATED + 1;
	cr_assert_eq(read_packed(&f, CAP), -EBADMSG, "less than it claims");
	f.packed.ch_size = INFLATED - 1;
	cr_assert_eq(read_packed(&f, CAP), -EBADMSG, "more than it claims");
	f.packed.ch_size = CAP;
	cr_assert_eq(read_packed(&f, CAP), -EBADMSG, "more than DEFLATE can do");
	f = file_make();
	f.packed.ch_type = ELFCOMPRESS_ZLIB + 2;
	cr_assert_eq(read_packed(&f, CAP), -EBADMSG, "another method");
	f = file_make();
	f.stream[4] ^= 0x55;
	cr_assert_eq(read_packed(&f, CAP), -EBADMSG, "broken stream");
	f = file_make();
	f.sections[SECTION_DEBUG].sh_size -= 5;
	cr_assert_eq(read_packed(&f, CAP), -EBADMSG, "cut stream");
	f.sections[SECTION_DEBUG].sh_size = sizeof(Elf64_Chdr) - 1;
	cr_assert_eq(read_packed(&f, CAP), -EBADMSG, "cut header");
}

Test(elf_image, addresses_and_offsets_are_converted)
{
	struct file f = file_make();
	struct elf_buffer buffer = {&f, sizeof(f)};
	struct elf_image image;
	uint64_t to = 7;

	cr_assert_eq(init_bytes(&image, &buffer), 0);
	cr_assert(elf_image_vaddr_to_offset(&image, 0x1100, &to));
	cr_assert_eq(to, 0x100);
	cr_assert(elf_image_vaddr_to_offset(&image, 0x117f, &to));
	cr_assert_eq(to, 0x17f);
	cr_assert_not(elf_image_vaddr_to_offset(&image, 0x1180, &to), "in memory only");
	cr_assert_not(elf_image_vaddr_to_offset(&image, 0x10ff, &to));
	elf_image_fini(&image);

	f.segments[0].p_vaddr = UINT64_MAX - 8;
	cr_assert_eq(init_bytes(&image, &buffer), 0);
	cr_assert_eq(image.segment_count, 0, "one that wraps is left out");
	elf_image_fini(&image);
}

Test(elf_image, bytes_are_read_by_virtual_address)
{
	struct file f = file_make();
	struct elf_buffer buffer = {&f, sizeof(f)};
	struct elf_image image;
	_cleanup_free_ uint8_t *data = NULL;
	size_t length;

	cr_assert_eq(init_bytes(&image, &buffer), 0);
	cr_assert_eq(elf_image_read_vaddr(&image, 0x1140, 0x41, CAP, &data, &length), -ENOENT);
	cr_assert_eq(elf_image_read_vaddr(&image, 0x1140, UINT64_MAX, SIZE_MAX, &data, &length),
		     -ENOENT);
	cr_assert_eq(elf_image_read_vaddr(&image, 0x1140, 0x40, 0x3f, &data, &length), -EFBIG);
	cr_assert_eq(elf_image_read_vaddr(&image, 0x1140, 0x40, CAP, &data, &length), 0);
	cr_assert_eq(length, 0x40);
	cr_assert_arr_eq(data, f.text, 0x40);
	elf_image_fini(&image);
}

static int failing_read(void *context, uint64_t offset, void *buffer, size_t length)
{
	(void)context, (void)offset, (void)buffer, (void)length;
	return -EIO;
}

Test(elf_image, errors_of_the_source_are_returned)
{
	struct elf_source source = {.read = failing_read, .size = 4096};
	struct elf_image image;

	cr_assert_eq(elf_image_init(&image, &source), -EIO);
}

static int fd_read(void *context, uint64_t offset, void *buffer, size_t length)
{
	ssize_t n = pread(*(int *)context, buffer, length, (off_t)offset);

	return n == (ssize_t)length ? 0 : -ENODATA;
}

/* Compares this program with what libelf reads. */
Test(elf_image, agrees_with_libelf)
{
	_cleanup_close_ int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct elf_image image;
	struct stat st;
	size_t phnum, shnum, names_index;
	unsigned int loads = 0;

	cr_assert_eq(fstat(fd, &st), 0);
	struct elf_source source = {.read = fd_read, .context = &fd, .size = (uint64_t)st.st_size};
	cr_assert_eq(elf_image_init(&image, &source), 0);
	elf_version(EV_CURRENT);
	Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
	cr_assert_eq(elf_getphdrnum(elf, &phnum), 0);
	for (size_t i = 0; i < phnum; i++) {
		GElf_Phdr p;

		gelf_getphdr(elf, (int)i, &p);
		if (p.p_type == PT_GNU_EH_FRAME)
			cr_assert_eq(image.eh_frame_hdr_vaddr, p.p_vaddr);
		if (p.p_type != PT_LOAD)
			continue;
		cr_assert_eq(image.segments[loads].offset, p.p_offset);
		cr_assert_eq(image.segments[loads].vaddr, p.p_vaddr);
		cr_assert_eq(image.segments[loads].file_size, p.p_filesz);
		cr_assert_eq(image.segments[loads].executable, (p.p_flags & PF_X) != 0);
		loads++;
	}
	cr_assert_eq(image.segment_count, loads);
	cr_assert_eq(elf_getshdrnum(elf, &shnum), 0);
	cr_assert_eq(elf_getshdrstrndx(elf, &names_index), 0);
	cr_assert_eq(image.section_count, shnum);
	for (size_t i = 1; i < shnum; i++) {
		Elf_Scn *scn = elf_getscn(elf, i);
		GElf_Shdr s;

		gelf_getshdr(scn, &s);
		cr_assert_str_eq(image.sections[i].name, elf_strptr(elf, names_index, s.sh_name));
		cr_assert_eq(image.sections[i].type, s.sh_type);
		cr_assert_eq(image.sections[i].vaddr, s.sh_addr);
		cr_assert_eq(image.sections[i].offset, s.sh_offset);
		cr_assert_eq(image.sections[i].size, s.sh_size);
		cr_assert_eq(image.sections[i].link, s.sh_link);
		cr_assert_eq(image.sections[i].info, s.sh_info);
		cr_assert_eq(image.sections[i].entry_size, s.sh_entsize);
	}
	elf_end(elf);
	elf_image_fini(&image);
}
