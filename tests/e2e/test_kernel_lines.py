# SPDX-License-Identifier: Apache-2.0
"""Lines and inlined functions of the kernel. Kernels with debug information are large, and not for every kernel there is one, so the test makes a vmlinux with the
build id and the functions of the running kernel: the second half of each function is inlined, and each half has a line of its own."""
import bisect
import collections
import os
import re
import shutil
import subprocess
import sys

import lib
import otlp_decode

LINKED = 0xffffffff81000000
FUNCTIONS_PER_UNIT = 4000
INLINED = "second_half"
LEAST_SHARE = 0.99
# In the kernel for most of the time. It ends by itself, if nobody ends it.
AT_WORK = f"""
import os, time
end = time.monotonic() + {lib.PATIENCE * 2}
print("started", flush=True)
while time.monotonic() < end:
    for _ in range(1000):
        os.stat("/proc/self/status")
        os.listdir("/proc/self")
"""
ABBREVIATIONS = """
	.section .debug_abbrev,"",@progbits
abbreviations:
	.uleb128 1, 0x11; .byte 1 # compile unit: name, stmt_list, low_pc, high_pc
	.uleb128 0x03, 0x08, 0x10, 0x17, 0x11, 0x01, 0x12, 0x07, 0, 0
	.uleb128 2, 0x2e; .byte 0 # the inlined function: name, inline
	.uleb128 0x03, 0x08, 0x20, 0x0b, 0, 0
	.uleb128 3, 0x2e; .byte 1 # function: name, low_pc, high_pc
	.uleb128 0x03, 0x08, 0x11, 0x01, 0x12, 0x06, 0, 0
	.uleb128 4, 0x1d; .byte 0 # inlined call: abstract_origin, low_pc, high_pc, call_file, call_line
	.uleb128 0x31, 0x13, 0x11, 0x01, 0x12, 0x06, 0x58, 0x0b, 0x59, 0x06, 0, 0
	.byte 0
"""


def lines_of(number):
    """Of the function with this number: the line of its first half, that of the call, and that in the inlined function."""
    return 10 * number + 1, 10 * number + 2, 10 * number + 3


class Kernel:
    """The functions of the running kernel, without modules and what is only used at boot."""

    def __init__(self):
        names, marks = collections.defaultdict(list), {}
        for line in lib.read("/proc/kallsyms").splitlines():
            address, kind, name, *module = line.split()
            if not module and name in ("_text", "_etext"):
                marks[name] = int(address, 16)
            if not module and kind in "tTwW":
                names[int(address, 16)].append(name)
        self.text, self.end = marks["_text"], marks["_etext"]
        self.starts = sorted(address for address in names if self.text <= address < self.end)
        self.names = [names[address] for address in self.starts]
        with open("/sys/kernel/notes", "rb") as notes:
            text = notes.read()
        note = re.search(rb"\x04\x00\x00\x00(.)\x00\x00\x00\x03\x00\x00\x00GNU\x00", text, re.DOTALL)
        self.build_id = text[note.end():note.end() + note[1][0]].hex()

    def size(self, number):
        return (self.starts[number + 1] if number + 1 < len(self.starts) else self.end) - self.starts[number]

    def frames(self, address):
        """What is at an address as linked: (names, line) of each function, innermost first."""
        number = bisect.bisect_right(self.starts, address - LINKED + self.text) - 1
        first, call, inlined = lines_of(number)
        if address - LINKED + self.text - self.starts[number] < self.size(number) // 2:
            return [(self.names[number], first)]
        return [([INLINED], inlined), (self.names[number], call)]

    def is_right(self, address, lines):
        expected = self.frames(address) if address else []
        return len(lines) == len(expected) and all(name in names and os.path.basename(file) == "kernel.c" and at == line
                                                   for (name, file, at), (names, line) in zip(lines, expected))


def nops(count):
    """These many bytes of code. A line needs an instruction."""
    return "nop\n" + (f".skip {count - 1}, 0x90" if count > 1 else "")


def unit(kernel, numbers):
    """A unit of the fake kernel in assembler, with the debug information of DWARF 5."""
    code, entries = [], []
    for number in numbers:
        first, call, inlined = lines_of(number)
        half, name = kernel.size(number) // 2, kernel.names[number][0]
        code.append(f"f{number}:\n.type f{number}, @function\n.size f{number}, {kernel.size(number)}")
        if half:
            code.append(f".loc 1 {first}\n{nops(half)}")
        code.append(f"i{number}:\n.loc 1 {inlined}\n{nops(kernel.size(number) - half)}")
        entries.append(f'.uleb128 3; .string "{name}"; .quad f{number}; .long {kernel.size(number)}\n'
                       f".uleb128 4; .long inlined - unit; .quad i{number}; .long {kernel.size(number) - half}; .byte 1; .long {call}\n.byte 0")
    return "\n".join([
        '.file 0 "kernel.c"', '.file 1 "kernel.c"', ".text", "begin:", *code, "end:", '.section .debug_line,"",@progbits', "lines:", ABBREVIATIONS,
        '.section .debug_info,"",@progbits', "unit:", ".long unit_end - unit_start", "unit_start:", ".short 5; .byte 1, 8; .long abbreviations",
        '.uleb128 1; .string "kernel.c"; .long lines; .quad begin, end - begin', f'inlined: .uleb128 2; .string "{INLINED}"; .byte 1', *entries,
        ".byte 0", "unit_end:", ""])


class KernelLines(lib.Case):
    def setUp(self):
        super().setUp()
        self.need_tool("as", "ld")
        self.kernel = Kernel()

    def make_kernel(self, path):
        objects = []
        for first in range(0, len(self.kernel.starts), FUNCTIONS_PER_UNIT):
            numbers = range(first, min(first + FUNCTIONS_PER_UNIT, len(self.kernel.starts)))
            objects.append(os.path.join(self.directory, f"{first}.o"))
            subprocess.run(["as", "--gdwarf-5", "-o", objects[-1]], input=unit(self.kernel, numbers), text=True, check=True)
        script = os.path.join(self.directory, "script")
        with open(script, "w", encoding="ascii") as file:
            file.write(f"PHDRS {{ text PT_LOAD FLAGS(5); }} SECTIONS {{ .text {LINKED + self.kernel.starts[0] - self.kernel.text:#x} : {{ *(.text) }} :text "
                       ".note.gnu.build-id : { *(.note.gnu.build-id) } :text }")
        subprocess.run(["ld", "-o", path, "-T", script, f"--build-id=0x{self.kernel.build_id}", *objects], check=True)

    def record_kernel(self, *options):
        """The locations in the kernel itself, with their numbers of samples."""
        with self.started(sys.executable, "-c", AT_WORK) as process:
            recording = self.record("-p", process.pid, *options, seconds=2, freq=997, outputs=("out.otlp", "out.folded"))
        found = collections.Counter()
        for sample in otlp_decode.read(recording.path("out.otlp")):
            for location in sample["stack"]:
                if location["frame_type"] == "kernel" and location["mapping"] == "vmlinux":
                    lines = tuple((line["name"], line["filename"], line["line"]) for line in location["lines"])
                    found[location["address"], lines] += otlp_decode.count(sample)
        self.assertGreater(sum(found.values()), 500, recording.describe())
        return found, recording

    def check(self, what, *options):
        found, recording = self.record_kernel(*options)
        verdicts = collections.Counter()
        for (address, lines), count in found.items():
            verdicts["right" if self.kernel.is_right(address, lines) else f"{address:#x} {lines} instead of {self.kernel.frames(address)}"] += count
        total = sum(verdicts.values())
        inlined = sum(count for (_, lines), count in found.items() if len(lines) > 1)
        print(f"  {what}: {verdicts['right']} of {total} frames of the kernel are right, {inlined} have an inlined function", flush=True)
        if verdicts["right"] < LEAST_SHARE * total or not inlined:
            self.assert_none([f"{count} x {verdict}" for verdict, count in verdicts.most_common(5)], recording)

    def test_lines(self):
        directory = os.path.join(self.directory, "debug")
        boot = os.path.join(directory, "boot", f"vmlinux-{os.uname().release}")
        os.makedirs(os.path.dirname(boot))
        self.make_kernel(boot)
        self.check("by version", "--debug-dir", directory)

        by_id = os.path.join(directory, ".build-id", self.kernel.build_id[:2], f"{self.kernel.build_id[2:]}.debug")
        os.makedirs(os.path.dirname(by_id))
        shutil.move(boot, by_id)
        self.check("by build id", "--debug-dir", directory)

        # The right one comes after another kernel and a file that is none.
        shutil.move(by_id, os.path.join(directory, "vmlinux"))
        shutil.copy(os.path.join(lib.BIN, "bulkhead"), boot)
        with open(by_id, "wb") as file:
            file.write(os.urandom(4096))
        self.check("after two others", "--debug-dir", directory)

    def test_without_a_debug_file(self):
        """Addresses do not say where the kernel is."""
        found, _ = self.record_kernel("--debug-dir", self.directory)
        self.assertEqual({(address, len(lines), lines[0][1:]) for address, lines in found}, {(0, 1, ("", 0))})


if __name__ == "__main__":
    lib.main()
