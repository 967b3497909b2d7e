# SPDX-License-Identifier: Apache-2.0
"""Programs that try to keep the profiler busy, next to well-behaved programs, whose stacks stay right.

Each attack is a program whose damage was seen without the defence. The well-behaved programs know their call chains; one of
them starts during the attack.
"""
import contextlib
import struct
import subprocess
import time

import lib

FREQ = 99
X86_64 = 62  # e_machine
CALLS = 1000  # of each of the two files
FILLERS = 1000000  # functions of each file: two indexes of symbols do not fit into memory at the same time


def write_chain(path, name, following):
    """Assembler for functions NAME0 to NAME999 that call what `following` says."""
    with open(path, "w", encoding="ascii") as file:
        file.write('.section .note.GNU-stack,"",@progbits\n.text\n')
        for i in range(CALLS):
            file.write(f".globl {name}{i}\n.type {name}{i},@function\n{name}{i}:\n.cfi_startproc\n")
            file.write(f"sub $8,%rsp\n.cfi_adjust_cfa_offset 8\ncall {following(i)}@PLT\nadd $8,%rsp\n.cfi_adjust_cfa_offset -8\nret\n")
            file.write(f".cfi_endproc\n.size {name}{i},.-{name}{i}\n")


def write_fillers(path):
    """An object file with a million functions of one byte. The assembler would need a minute."""
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
    with open(path, "wb") as file:
        file.write(struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 1, X86_64, 1, 0, 0, at[3], 0, 64, 0, 0, 64, len(sections), 3))
        for part in parts:
            file.write(part)
        for section in sections:
            file.write(struct.pack("<IIQQQQIIQQ", *section))


class Attacks(lib.Case):
    def compile(self, *args):
        subprocess.run(["cc", *args], cwd=self.directory, check=True)

    @contextlib.contextmanager
    def attack(self, *command):
        process = subprocess.Popen(command, cwd=self.directory, stdin=subprocess.DEVNULL)
        try:
            time.sleep(0.5)
            self.assertIsNone(process.poll(), "the attack ended")
            yield process.pid
        finally:
            process.kill()
            process.wait()

    def record_attack(self, *command):
        """A recording of an attack and of two well-behaved programs. Checks the samples of the latter, and returns the recording."""
        with lib.Program("recursion", 28) as before, self.attack(*command):
            process = self.start(seconds=None, freq=FREQ)
            self.wait_until_recording(process)
            with lib.Program("recursion", 60) as later:
                self.give_cpu_time(5, process)
                expected = lib.Expectation({"chains": before.expectation.said["chains"] + later.expectation.said["chains"]})
            process.terminate()
            recording = self.finish(process)
        self.assert_accounted(recording)
        samples = recording.of("recursion")
        right = sum(s.count for s in samples if expected.matches(s))
        lost, taken = sum(recording.stats["lost"].values()), recording.stats["taken"]
        print(f"  {right} of {sum(s.count for s in samples)} samples of the well-behaved programs are right, {lost} of {taken} are lost")
        self.assert_stacks(recording, samples, expected, 0.99, 5 * FREQ)
        self.assertLessEqual(lost, 0.01 * taken, recording.describe())
        return recording

    def test_stack_that_alternates_between_two_files_of_a_million_functions(self):
        """Not all symbols of both files fit into memory, so each frame makes the other file's be dropped."""
        write_fillers(f"{self.directory}/fillers.o")
        for name, following in (("a", lambda i: f"b{i}"), ("b", lambda i: f"a{i + 1}")):
            write_chain(f"{self.directory}/{name}.s", name, following)
            self.compile("-shared", f"{name}.s", "fillers.o", "-o", f"lib{name}.so", "-Wl,-z,noexecstack", "-Wl,--allow-shlib-undefined")
        with open(f"{self.directory}/attack.c", "w", encoding="ascii") as file:
            file.write(f"void a0(void);\nvoid a{CALLS}(void) {{ for (;;) ; }}\nint main(void) {{ a0(); return 0; }}\n")
        self.compile("attack.c", "-o", "attack", "-rdynamic", "-L.", "-la", "-lb", "-Wl,-rpath,.", "-Wl,--allow-shlib-undefined")
        recording = self.record_attack("./attack")
        self.assertIn("reading the symbols of files takes too long", recording.stderr)
        deep = [s for s in recording.of("attack") if len(s.frames) > CALLS]
        self.assertTrue(deep, recording.describe())
        self.assertTrue(any("a999" in s.frames for s in deep), "one of the two files has names")


if __name__ == "__main__":
    lib.main()
