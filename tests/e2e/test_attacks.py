# SPDX-License-Identifier: Apache-2.0
"""Attacks by files that are expensive, and by file systems that do not answer, next to well-behaved programs, whose stacks stay right.

Each attack is a program whose damage was seen without the defence.
"""
import os
import re
import secrets
import struct

import containers
import lib
from attack import NOBODY, AttackCase, write_elf

CALLS = 1000  # of each of the two files
FILLERS = 2500000  # functions of each file: two indexes of symbols do not fit into memory at the same time
HOARDED_FILES = 4500  # more than the limit on modules
RULES = 1 << 16  # that there is room for
RULES_OF_FILE = 256  # of most of them. Without shares, a file for which there is no room gets nothing, so small files take the rest
SMALL_FILES = 1000


def write_chain(path, name, following):
    """Assembler for functions NAME0 to NAME999 that call what `following` says."""
    with open(path, "w", encoding="ascii") as file:
        file.write('.section .note.GNU-stack,"",@progbits\n.text\n')
        for i in range(CALLS):
            file.write(f".globl {name}{i}\n.type {name}{i},@function\n{name}{i}:\n.cfi_startproc\n")
            file.write(f"sub $8,%rsp\n.cfi_adjust_cfa_offset 8\ncall {following(i)}@PLT\nadd $8,%rsp\n.cfi_adjust_cfa_offset -8\nret\n")
            file.write(f".cfi_endproc\n.size {name}{i},.-{name}{i}\n")


def write_fillers(path):
    """An object file with millions of functions of one byte. The assembler would need minutes."""
    symbol = struct.Struct("<IBBHQQ")
    strings = b"\0filler\0.text\0.symtab\0.strtab\0"
    parts = [bytes(FILLERS), bytes(symbol.size) + b"".join(symbol.pack(1, 2, 0, 1, i, 1) for i in range(FILLERS)), strings]
    at = [64]
    for part in parts:
        at.append(at[-1] + len(part))
    sections = [(0,) * 10,
                (strings.index(b".text"), 1, 6, 0, at[0], len(parts[0]), 0, 0, 1, 0),
                (strings.index(b".symtab"), 2, 0, 0, at[1], len(parts[1]), 3, FILLERS + 1, 1, symbol.size),
                (strings.index(b".strtab"), 3, 0, 0, at[2], len(parts[2]), 0, 0, 1, 0)]
    write_elf(path, 1, b"", b"".join(parts), sections)


def write_rules(path, first, count):
    """An ELF file with one function, in which each of `count` instructions has another CFA: from `first` words above rsp on.

    rbx is saved below a word that no register is saved in, which distinguishes the rules from those of compiled functions.
    """
    cie = bytes([1]) + b"zR\0" + bytes([1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0x83, 3])
    cie = struct.pack("<II", 4 + len(cie), 0) + cie
    text, eh_frame = 0x1000, 0x1000 + 4 * (count + 1)
    rows = b""
    for i in range(count):
        offset = 8 * (first + i)
        rows += bytes([0x44, 0x0e, offset & 0x7f | 0x80, offset >> 7 & 0x7f | 0x80, offset >> 14])  # advance by 4, def_cfa_offset
    at = eh_frame + len(cie)
    fde = struct.pack("<Iii", len(cie) + 4, text - (at + 8), 4 * (count + 1)) + b"\0" + rows
    frames = cie + struct.pack("<I", len(fde)) + fde + bytes(4)
    names = b"\0.text\0.eh_frame\0.shstrtab\0"
    strings = eh_frame + len(frames)
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, strings, strings, 4096)
    write_elf(path, 3, load, bytes(eh_frame - 64 - len(load)) + frames + names,
              [(0,) * 10, (1, 1, 6, text, text, eh_frame - text, 0, 0, 16, 0),
               (7, 1, 2, eh_frame, eh_frame, len(frames), 0, 0, 8, 0), (17, 3, 0, 0, strings, len(names), 0, 0, 1, 0)])


class Attacks(AttackCase):
    def test_stack_that_alternates_between_two_files_of_millions_of_functions(self):
        """Not all symbols of both files fit into memory, so each frame makes the other file's be dropped."""
        write_fillers(f"{self.directory}/fillers.o")
        for name, following in (("a", lambda i: f"b{i}"), ("b", lambda i: f"a{i + 1}")):
            write_chain(f"{self.directory}/{name}.s", name, following)
            self.compile("-shared", f"{name}.s", "fillers.o", "-o", f"lib{name}.so", "-Wl,-z,noexecstack", "-Wl,--allow-shlib-undefined")
        with open(f"{self.directory}/attack.c", "w", encoding="ascii") as file:
            file.write(f'#include "attack.h"\nvoid a0(void);\nvoid a{CALLS}(void) {{ for (;;) ; }}\nint main(void) {{ attack_say_ready(); a0(); }}\n')
        self.compile("-D_GNU_SOURCE", "-I", f"{lib.SOURCE}/tests/e2e/programs", "attack.c", "-o", "attack", "-rdynamic", "-L.", "-la", "-lb", "-Wl,-rpath,.", "-Wl,--allow-shlib-undefined")
        recording = self.record_attack("./attack")
        self.assertIn("reading the symbols of files takes too long", recording.stderr)
        deep = [s for s in recording.of("attack") if len(s.frames) > CALLS]
        self.assertTrue(deep, recording.describe())
        self.assertTrue(any("a999" in s.frames for s in deep), "one of the two files has names")

    def record_hoarder(self, count, write, container=None):
        """A recording of processes that map `count` files, which `write` makes from a path and a number. They are of another user, or of root in a container."""
        os.mkdir(f"{self.directory}/hoard")
        for i in range(count):
            write(f"{self.directory}/hoard/{i}", i)
        os.chmod(self.directory, 0o755)
        hoard = (f"{lib.PROGRAMS}/hoard", str(count))
        if container:
            recording = self.record_attack(*containers.wrapper(self, container), *hoard)
        else:
            recording = self.record_attack(*hoard, uid=NOBODY)
        uid, shown = (0, container[:12]) if container else (NOBODY, "none")
        self.assertRegex(recording.stderr, f"a user has used up the share .* uid={uid} container={shown} ")

    @staticmethod
    def write_number(path, number):
        with open(path, "wb") as file:
            file.write(number.to_bytes(4096, "little"))

    def test_more_files_than_there_may_be_modules(self):
        """Without shares, the files of programs that start later count as memory without a file."""
        self.record_hoarder(HOARDED_FILES, self.write_number)

    def test_more_files_of_root_in_a_container(self):
        """The well-behaved programs are of the same user, but outside of it."""
        self.record_hoarder(HOARDED_FILES, self.write_number, container=secrets.token_hex(32))

    def test_more_rules_than_there_is_room_for(self):
        """Without shares, files that need a rule which no other file has get no table."""
        large = RULES // RULES_OF_FILE - 3

        def write(path, number):
            count = RULES_OF_FILE if number < large else 1
            write_rules(path, 5 + number * RULES_OF_FILE if number < large else 5 + RULES + number, count)
        self.record_hoarder(large + SMALL_FILES, write)

    def record_withheld(self, request):
        """A recording next to a program whose code is in an overlay over a FUSE mount that does not answer this request."""
        os.mkdir(f"{self.directory}/withheld")
        os.chmod(self.directory, 0o755)
        recording = self.record_attack(f"{lib.PROGRAMS}/withheld", f"{self.directory}/withheld", request)
        # A frame that is sampled before it is known that the file cannot be opened has not even the name of the file.
        inner = {frame for s in recording.of("withheld") for frame in s.frames[:1]}
        self.assertTrue(any(re.match(r"code\+0x|\[unknown module\]", frame) for frame in inner), recording.describe())
        return recording

    def test_file_that_cannot_be_opened(self):
        """Without helpers the opener waits for the FUSE server, and not even SIGKILL ends it."""
        recording = self.record_withheld("open")
        self.assertRegex(recording.stderr, f"could not be opened in time.* uid={NOBODY} ")

    def test_file_system_that_does_not_say_what_it_is(self):
        """The same already when the opener asks for the kind of the file system."""
        recording = self.record_withheld("statfs")
        self.assertRegex(recording.stderr, f"could not be opened in time.* uid={NOBODY} ")

    def test_file_that_cannot_be_read(self):
        """The file can be opened. Without the check of its layer, the manager waits for the FUSE server when it reads it."""
        self.record_withheld("read")

    def record_locked(self, *options):
        """A recording next to two processes that hold the locks of their address spaces, one of them from the start."""
        os.mkdir(f"{self.directory}/locked")
        os.chmod(self.directory, 0o755)
        recording = self.record_attack(f"{lib.PROGRAMS}/withheld", f"{self.directory}/locked", "lock", "/usr/bin/python3", "-c",
                                       lib.read(f"{lib.SOURCE}/tests/e2e/programs/locked_memory.py"), options=options)
        self.assertRegex(recording.stderr, f"could not be (opened|read) in time.* uid={NOBODY} ")
        self.assertTrue(recording.of("python3"), recording.describe())

    def test_address_spaces_that_are_locked(self):
        """Without helpers the manager waits for the mappings, and without its second thread the worker for the memory, as long as the attack lasts."""
        self.record_locked()

    def test_address_spaces_that_are_locked_in_strict_mode(self):
        """The same where the worker has no descriptor of the memory."""
        self.record_locked("--strict-memory")


if __name__ == "__main__":
    lib.main()
