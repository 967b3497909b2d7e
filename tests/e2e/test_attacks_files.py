# SPDX-License-Identifier: Apache-2.0
"""Attacks by files that are mapped as code, next to well-behaved programs, whose stacks stay right (attack.py).

The code of each file is at the start of its second page and is right, so that there are samples of it.
"""
import os
import random
import re
import struct
import subprocess

import lib
from attack import NOBODY, AttackCase, write_elf

PAGE = 4096
MUTATIONS = 200
# Bytes of call frame information. The manager builds a table in one go, and with LIMIT_CFI_BYTES this takes it more than a second
# (docs/threat-model.md), so that the tables of other programs come late.
ENTRIES_BYTES = 1 << 20
PROGRAM_BYTES = 8 << 20
LIBC_BYTES = 2 << 20
SPARSE_BYTES = 1 << 30
CODE = bytes([0x48, 0xff, 0xcf, 0x75, 0xfb, 0xc3])  # dec %rdi; jnz; ret

# A shared library as compilers make it, with the code at the start of its text.
LIBRARY = """
__asm__(".text\\n.globl {name}\\n.type {name},@function\\n{name}: .cfi_startproc\\n"
	"dec %rdi\\njnz {name}\\nret\\n.skip {skip}\\n.cfi_endproc\\n.size {name},.-{name}\\n");
int value;
int add(int a, int b);
int add(int a, int b) {{ volatile char room[999]; room[0] = (char)a; return room[b] + value; }}
int twice(int a);
int twice(int a) {{ return add(a, a) + add(a, a + 1); }}
"""


def mutate(content, ranges, chance):
    """The bytes, of which up to 20 in these ranges are others."""
    out = bytearray(content)
    for _ in range(chance.randint(1, 20)):
        start, end = chance.choice(ranges)
        at = chance.randrange(start, end)
        width = chance.choice((1, 2, 4, 8))
        value = chance.choice((0, 1, 0x7f, 0x80, (1 << 8 * width) - 1, (1 << 8 * width - 1) - 1, chance.getrandbits(8 * width), len(content)))
        changed = (value & (1 << 8 * width) - 1).to_bytes(width, "little")[:end - at]
        out[at:at + len(changed)] = changed
    return bytes(out)


def header_ranges(content):
    """What says how an ELF file is to be read: its headers and every section but its text."""
    table, = struct.unpack_from("<Q", content, 40)
    count, = struct.unpack_from("<H", content, 60)
    ranges = [(4, 64), (64, 64 + 56 * 8), (table, table + 64 * count)]
    for i in range(1, count):
        kind, flags, _, offset, size = struct.unpack_from("<IQQQQ", content, table + 64 * i + 4)
        if size and kind != 8 and not flags & 4:
            ranges.append((offset, offset + size))
    return ranges


def cie(instructions=b"\x0c\x07\x08\x90\x01"):
    """Absolute addresses of 4 bytes; the CFA is rsp + 8 and the return address below it."""
    body = bytes([1]) + b"zR\0" + bytes([1, 0x78, 16, 1, 0x0b]) + instructions
    body += bytes(-len(body) % 4)
    return struct.pack("<II", 4 + len(body), 0) + body


def fde(at, of, start, length, instructions=b""):
    """An FDE at this offset of the section, of the CIE at `of`."""
    body = struct.pack("<II", start, length) + b"\0" + instructions
    body += bytes(-len(body) % 4)
    return struct.pack("<II", 4 + len(body), at + 4 - of) + body


def overlapping():
    """FDEs that cover each other, each with another length and rule."""
    first = cie()
    # The distance to the CIE grows with each FDE, so each block has a CIE of its own.
    block = first
    for i in range(4096):
        block += fde(len(block), 0, PAGE + i % 64, 4096 - i % 61, bytes([0x0e, 8 + 8 * (i % 15)]))
    return block * (ENTRIES_BYTES // len(block))


def endless_entries():
    """Pairs of a CIE and an FDE that covers nothing new."""
    pair = cie()
    pair += fde(len(pair), 0, PAGE, 1)
    return pair * (ENTRIES_BYTES // len(pair))


def endless_program():
    """One FDE whose program changes the CFA at each byte of code, and goes on far beyond it."""
    first = cie()
    return first + fde(len(first), 0, PAGE, 1 << 30, bytes([0x41, 0x0e, 16, 0x41, 0x0e, 24]) * (PROGRAM_BYTES // 6))


def go_table(count, flags, values):
    """A .gopclntab of functions that cover the code again and again. Their stack sizes, files and lines are one list."""
    names, units, files = b"\0forged\0", struct.pack("<I", 0), b"forged.go\0"
    starts = b"".join(struct.pack("<II", PAGE * (i % 2), 8 * count + 4) for i in range(count)) + struct.pack("<I", PAGE)
    function = struct.pack("<IiiIIIIIIi", 0, 1, 0, 0, 1, 1, 1, 0, 0, 1) + bytes([0, flags, 0, 0])
    parts = (names, units, files, b"\0" + values, starts + function)
    at = [72 + sum(map(len, parts[:i])) for i in range(len(parts))]
    return struct.pack("<IHBBQQQ5Q", 0xfffffff1, 0, 1, 8, count, 1, PAGE, *at) + b"".join(parts)


def go_list_without_end():
    """Stack sizes that change, and never hold for any byte."""
    return go_table(1024, 0, bytes([2, 0]) + bytes([16, 0, 15, 0]) * (PROGRAM_BYTES // 4))


def go_functions_that_overlap():
    return go_table(100000, 0, bytes([2, 1]) + bytes([16, 1, 15, 1]) * (PAGE // 2))


def go_switches():
    """Functions whose instructions have to be followed."""
    return go_table(100000, 2, bytes([2, 1]))


DEBUG_BYTES = 32 << 20
# 1: a unit with code and a line table; 2: an entry without anything; 3: a function with code; 4: the same, with children; 5: a block.
ABBREVIATIONS = (bytes([1, 0x11, 1, 0x11, 1, 0x12, 6, 0x10, 0x17, 0, 0]) + bytes([2, 0x24, 0, 0, 0]) + bytes([3, 0x2e, 0, 0x11, 1, 0x12, 6, 0, 0]) +
                 bytes([4, 0x2e, 1, 0x11, 1, 0x12, 6, 0, 0]) + bytes([5, 0x0b, 1, 0, 0]) + b"\0")
CODE_RANGE = struct.pack("<QI", PAGE, PAGE)


def debug_unit(entries):
    body = struct.pack("<HBBI", 5, 1, 8, 0) + b"\1" + CODE_RANGE + struct.pack("<I", 0) + entries
    return struct.pack("<I", len(body)) + body


def debug_information(info, line=b""):
    return {b".debug_info": info, b".debug_abbrev": ABBREVIATIONS, b".debug_line": line}


def debug_entries_without_end():
    return debug_information(debug_unit(b"\2" * DEBUG_BYTES))


def debug_functions_that_overlap():
    return debug_information(debug_unit((b"\3" + CODE_RANGE) * 100000))


def debug_blocks_in_blocks():
    return debug_information(debug_unit(b"\4" + CODE_RANGE + b"\5" * DEBUG_BYTES))


def debug_units_that_overlap():
    unit = debug_unit(b"\2")
    return debug_information(unit * (DEBUG_BYTES // len(unit)))


def debug_lines_in_disorder():
    """Sequences of one row, none of them in order."""
    chance = random.Random(18)
    program = b"".join(b"\0\x09\2" + struct.pack("<Q", PAGE + chance.randrange(PAGE)) + b"\1\0\1\1" for _ in range(250000))
    rest = bytes([1, 1, 1, 0xfb, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1]) + bytes(4)
    body = struct.pack("<HBBI", 5, 8, 0, len(rest)) + rest + program
    return debug_information(debug_unit(b"\3" + CODE_RANGE), struct.pack("<I", len(body)) + body)


def write_with_sections(path, sections):
    """An ELF file with the code, and with these sections: {name: content}."""
    names = b"\0.text\0.shstrtab\0"
    content = bytes(PAGE - 64 - 56) + CODE.ljust(PAGE, b"\x90")
    headers = []
    for name, data in sections.items():
        headers.append((len(names), 1, 2, 2 * PAGE, 64 + 56 + len(content), len(data), 0, 0, 8, 0))
        names += name + b"\0"
        content += data
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, 2 * PAGE, 2 * PAGE, PAGE)
    write_elf(path, 3, load, content + names, [(0,) * 10, (1, 1, 6, PAGE, PAGE, PAGE, 0, 0, 16, 0), *headers,
                                                              (7, 3, 0, 0, 64 + 56 + len(content), len(names), 0, 0, 1, 0)])


def write_sparse(path):
    """An ELF file whose text is 1 GiB, of which two pages exist."""
    names = b"\0.text\0.shstrtab\0"
    strings = 64 + 56
    sections = 512
    with open(path, "wb") as file:
        file.write(struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 3, 62, 1, 0, 64, sections, 0, 64, 56, 1, 64, 3, 2))
        file.write(struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, SPARSE_BYTES, SPARSE_BYTES, PAGE) + names)
        file.seek(sections)
        for section in ((0,) * 10, (1, 1, 6, PAGE, PAGE, SPARSE_BYTES - PAGE, 0, 0, 16, 0), (7, 3, 0, 0, strings, len(names), 0, 0, 1, 0)):
            file.write(struct.pack("<IIQQQQIIQQ", *section))
        file.seek(PAGE)
        file.write(CODE)
        file.truncate(SPARSE_BYTES)


class Files(AttackCase):
    def build_library(self, name, *options, skip=16):
        with open(f"{self.directory}/{name}.c", "w", encoding="ascii") as file:
            file.write(LIBRARY.format(name=name, skip=skip))
        self.compile("-shared", "-fPIC", "-O2", "-fvisibility=hidden", "-nostdlib", *options, f"{name}.c", "-o", f"{name}.so")
        return f"{self.directory}/{name}.so"

    def record_files(self, *writers):
        """A recording next to a program that uses the files that these functions write to a path."""
        directory = f"{self.directory}/forged"
        os.mkdir(directory)
        for number, write in enumerate(writers):
            write(f"{directory}/{number}")
            os.chown(f"{directory}/{number}", NOBODY, NOBODY)
        recording = self.record_attack(f"{lib.PROGRAMS}/forged_files", directory, str(len(writers)))
        self.assertTrue(recording.of("forged_files"))
        return recording

    def assert_most_pass_through(self, samples, function):
        through = sum(s.count for s in samples if function in s.frames)
        self.assertGreater(through, 0.8 * sum(s.count for s in samples), function)

    def test_forged_headers(self):
        with open(self.build_library("forged"), "rb") as file:
            content = file.read()
        chance = random.Random(16)
        ranges = header_ranges(content)

        def writer(mutation):
            def write(path):
                with open(path, "wb") as file:
                    file.write(mutation)
            return write
        self.record_files(*(writer(mutate(content, ranges, chance)) for _ in range(MUTATIONS)))

    def test_call_frame_information_without_end(self):
        self.record_files(*(lambda path, make=make: write_with_sections(path, {b".eh_frame": make()}) for make in (overlapping, endless_entries, endless_program)))

    def test_tables_of_go_without_end(self):
        tables = (go_list_without_end, go_functions_that_overlap, go_switches)
        self.record_files(*(lambda path, make=make: write_with_sections(path, {b".gopclntab": make()}) for make in tables))

    def test_debug_information_without_end(self):
        tables = (debug_entries_without_end, debug_functions_that_overlap, debug_blocks_in_blocks, debug_units_that_overlap, debug_lines_in_disorder)
        self.record_files(*(lambda path, make=make: write_with_sections(path, make()) for make in tables))

    def test_text_of_1_gib_without_content(self):
        self.record_files(write_sparse)

    def test_file_that_is_truncated_all_the_time(self):
        path = self.build_library("shrinking")
        os.chown(path, NOBODY, NOBODY)
        recording = self.record_attack(f"{lib.PROGRAMS}/shrinking_file", path)
        self.assertTrue(recording.of("shrinking_file"))

    def test_build_id_of_libc(self):
        """Its names are shown in its own process, and in no other that has libc."""
        libc = re.search(r"(/\S+/libc\.so\.6)$", lib.read("/proc/self/maps"), re.MULTILINE)[1]
        notes = subprocess.run(["readelf", "-n", libc], capture_output=True, text=True, check=True).stdout
        build_id = re.search(r"Build ID: ([0-9a-f]+)", notes)[1]
        path = self.build_library("forged_libc", f"-Wl,--build-id=0x{build_id}", skip=LIBC_BYTES)
        recording = self.record_files(lambda to: os.rename(path, to))
        self.assert_most_pass_through(recording.of("forged_files"), "forged_libc")
        self.assertEqual({s.comm for s in recording.samples if "forged_libc" in s.frames}, {"forged_files"})

    def record_replaced(self, *options):
        path = self.build_library("replaced")
        os.mkdir(f"{self.directory}/here")
        recording = self.record_attack(f"{lib.PROGRAMS}/replaced_files", f"{self.directory}/here", path, options=options)
        self.assertTrue(recording.of("replaced_files"))
        return recording

    def test_files_whose_names_become_those_of_others(self):
        """The mapped file itself is read."""
        self.assert_most_pass_through(self.record_replaced().of("replaced_files"), "replaced")

    def test_files_whose_names_become_those_of_others_in_strict_mode(self):
        """Files are opened by name, but none that is not the mapped one."""
        self.record_replaced("--strict-memory")


if __name__ == "__main__":
    lib.main()
