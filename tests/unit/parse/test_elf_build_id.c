/* SPDX-License-Identifier: Apache-2.0 */
/* Tests how the build ids of the GNU linker and of Go are found. */
#include "elf_fixture.h"

Test(elf_image, the_gnu_build_id_is_found)
{
	struct elf_image image;
	struct file f = file_make();
	struct elf_buffer buffer = {&f, sizeof(f)};

	f.note.note.n_descsz = 8;
	cr_assert_eq(init_bytes(&image, &buffer), 0);
	cr_assert_eq(image.build_id_length, 8);
	elf_image_fini(&image);

	f.note.note.n_descsz = 0xfffffff0;
	cr_assert_eq(init_bytes(&image, &buffer), 0);
	cr_assert_eq(image.build_id_length, 0, "longer than its segment");
	elf_image_fini(&image);

	f = file_make();
	f.note.other.n_namesz = 0xffffffff;
	cr_assert_eq(init_bytes(&image, &buffer), 0);
	cr_assert_eq(image.build_id_length, 0);
	elf_image_fini(&image);

	/* Longer than what is stored: 24 bytes, which extend into the padding. */
	f = file_make();
	f.note.note.n_descsz = 24;
	f.segments[1].p_filesz = 60;
	cr_assert_eq(init_bytes(&image, &buffer), 0);
	cr_assert_eq(image.build_id_length, 20);
	elf_image_fini(&image);

	/* No segment has the note, only a section. */
	f = file_make();
	f.segments[1].p_type = PT_NULL;
	memcpy(f.names + sizeof(SECTION_NAMES_TEXT), ".note.gnu.build-id", 19);
	f.sections[SECTION_NAMES].sh_size = sizeof(SECTION_NAMES_TEXT) + 19;
	f.sections[SECTION_BSS] = (Elf64_Shdr){.sh_name = sizeof(SECTION_NAMES_TEXT),
					       .sh_type = SHT_NOTE,
					       .sh_offset = offsetof(struct file, note),
					       .sh_size = 56};
	cr_assert_eq(init_bytes(&image, &buffer), 0);
	cr_assert_eq(image.build_id_length, 20);
	cr_assert_eq(image.build_id[19], 20);
	elf_image_fini(&image);
}

Test(elf_image, the_go_build_id_is_found)
{
	static const char id[] = "ab/cd-ef_gh/ij";
	struct elf_image image;
	struct file f = file_make();
	struct elf_buffer buffer = {&f, sizeof(f)};

	cr_assert_eq(init_bytes(&image, &buffer), 0);
	cr_assert_str_eq(image.go_build_id, "");
	elf_image_fini(&image);

	/* Instead of the GNU build id. */
	memcpy(f.note.name, "Go\0", 4);
	f.note.note.n_type = 4;
	f.note.note.n_descsz = sizeof(id) - 1;
	memcpy(f.note.id, id, sizeof(id));
	cr_assert_eq(init_bytes(&image, &buffer), 0);
	cr_assert_str_eq(image.go_build_id, id);
	cr_assert_eq(image.build_id_length, 0);
	elf_image_fini(&image);

	f.note.id[3] = '\n';
	cr_assert_eq(init_bytes(&image, &buffer), 0);
	cr_assert_str_eq(image.go_build_id, "", "not printable");
	elf_image_fini(&image);

	f.note.id[3] = 'c';
	f.note.note.n_type = 3;
	cr_assert_eq(init_bytes(&image, &buffer), 0);
	cr_assert_str_eq(image.go_build_id, "", "another type");
	elf_image_fini(&image);

	/* Longer than what can be stored. */
	f.note.note.n_type = 4;
	f.note.note.n_descsz = ELF_IMAGE_GO_BUILD_ID_BYTES;
	f.segments[1].p_filesz = 36 + ELF_IMAGE_GO_BUILD_ID_BYTES;
	memset(f.note.id, 'x', offsetof(struct file, packed) - offsetof(struct file, note.id));
	cr_assert_eq(init_bytes(&image, &buffer), 0);
	cr_assert_str_eq(image.go_build_id, "", "too long");
	elf_image_fini(&image);
	f.note.note.n_descsz--;
	cr_assert_eq(init_bytes(&image, &buffer), 0);
	cr_assert_eq(strlen(image.go_build_id), ELF_IMAGE_GO_BUILD_ID_BYTES - 1);
	elf_image_fini(&image);
}

/* Both ids are in one segment, in two, or one of them only in a section. */
Test(elf_image, both_build_ids_are_found)
{
	struct elf_image image;
	struct file f = file_make();
	struct elf_buffer buffer = {&f, sizeof(f)};

	f.note.other = (Elf64_Nhdr){4, 1, 4};
	memcpy(f.note.other_name, "Go\0", 4);
	f.note.other_bytes[0] = 'i';
	cr_assert_eq(init_bytes(&image, &buffer), 0);
	cr_assert_str_eq(image.go_build_id, "i");
	cr_assert_eq(image.build_id_length, 20);
	elf_image_fini(&image);

	/* In two segments, the GNU build id first. */
	f.segments[1].p_offset += 20;
	f.segments[1].p_filesz -= 20;
	f.segments[2] = f.segments[1];
	f.segments[2].p_offset = offsetof(struct file, note);
	f.segments[2].p_filesz = 20;
	cr_assert_eq(init_bytes(&image, &buffer), 0);
	cr_assert_str_eq(image.go_build_id, "i");
	cr_assert_eq(image.build_id_length, 20);
	elf_image_fini(&image);

	/* The segment has only the GNU build id. */
	f.segments[2].p_type = PT_NULL;
	memcpy(f.names + sizeof(SECTION_NAMES_TEXT), ".note.go.buildid", 17);
	f.sections[SECTION_NAMES].sh_size = sizeof(SECTION_NAMES_TEXT) + 17;
	f.sections[SECTION_BSS] = (Elf64_Shdr){.sh_name = sizeof(SECTION_NAMES_TEXT),
					       .sh_type = SHT_NOTE,
					       .sh_offset = offsetof(struct file, note),
					       .sh_size = 20};
	cr_assert_eq(init_bytes(&image, &buffer), 0);
	cr_assert_str_eq(image.go_build_id, "i");
	cr_assert_eq(image.build_id_length, 20);
	elf_image_fini(&image);
}
