# SPDX-License-Identifier: Apache-2.0
"""Programs with large debug information, up to 1 GiB: their functions and inlined ones have names, nobody else's come later, and no role needs more memory than it may have."""
import os
import subprocess

import lib
from attack import AttackCase

MOST_BYTES = 1 << 30
COMPRESSED_BYTES = 48 << 20  # three times what is kept in memory (symbolizer/namer/dwarf_files.c)
FUNCTIONS = 300
HEADER = """#include <stdint.h>
#include <stdio.h>
volatile uint64_t sink;
"""
# Each has a part that the compiler copies into it twice.
FUNCTION = """
static inline __attribute__((always_inline)) uint64_t inlined{0}(uint64_t x)
{{
	for (int i = 0; i < 50; i++)
		sink = x = x * 31 + {0} + (x * {0}u >> 7);
	return x;
}}
__attribute__((noinline)) uint64_t large{0}(uint64_t x, int a, long b)
{{
	return inlined{0}(inlined{0}(x) + a) + b;
}}
"""


class LargeDebug(AttackCase):
    def build(self, least_bytes, is_compressed):
        """A program whose .debug_info has the units of a small one thousands of times, and which is searched from its beginning: no section says which unit has an address."""
        calls = "".join(f"\t\tlarge{i}(sink, 1, 2);\n" for i in range(FUNCTIONS))
        with open(f"{self.directory}/large.c", "w", encoding="ascii") as file:
            file.write(HEADER + "".join(map(FUNCTION.format, range(FUNCTIONS))) + f'int main(void)\n{{\n\tputs("begun");\n\tfflush(stdout);\n\tfor (;;) {{\n{calls}\t}}\n}}\n')
        self.compile("-O2", "-g", "large.c", "-o", "small")
        self.objcopy("--dump-section", ".debug_info=units", "small")
        with open(f"{self.directory}/units", "rb") as file:
            units = file.read()
        with open(f"{self.directory}/units", "wb") as file:
            for _ in range(0, least_bytes, len(units)):
                file.write(units)
        self.objcopy("--remove-section", ".debug_aranges", "--update-section", ".debug_info=units", "small", "large")
        os.unlink(f"{self.directory}/units")
        if is_compressed:
            self.objcopy("--compress-debug-sections=zlib", "large")
        return f"{self.directory}/large"

    def objcopy(self, *arguments):
        subprocess.run(["objcopy", *arguments], cwd=self.directory, check=True)

    def record(self, least_bytes, is_compressed):
        """A recording of such a program. Returns which share of the samples in its functions say which one is inlined."""
        recording = self.record_attack(self.build(least_bytes, is_compressed))
        samples = [s for s in recording.of("large") if "main" in s.frames]
        total = sum(s.count for s in samples)
        named = sum(s.count for s in samples if any(frame.startswith("large") for frame in s.frames))
        inlined = sum(s.count for s in samples if any(frame.startswith("inlined") for frame in s.frames))
        print(f"  of {total} samples {named} have names, and {inlined} those of inlined functions")
        self.assertGreater(total, lib.PATIENCE)
        self.assertGreater(named, 0.9 * total)
        return inlined / total

    def test_plain(self):
        self.assertGreater(self.record(MOST_BYTES, False), 0.9)

    def test_compressed(self):
        """All of it is decompressed once, for which there is a fourth of the time. So the first stacks lack what is inlined."""
        self.assertGreater(self.record(COMPRESSED_BYTES, True), 0.1)

    def test_too_large_to_decompress(self):
        self.assertEqual(self.record(MOST_BYTES, True), 0)


if __name__ == "__main__":
    lib.main()
