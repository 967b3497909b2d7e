# SPDX-License-Identifier: Apache-2.0
"""Names of generated code, from the images that processes keep for debuggers: programs that know their chain."""
import collections
import contextlib
import os
import re
import shutil
import subprocess

import jits
import lib
import otlp_decode

SOURCE = os.path.join(lib.SOURCE, "tests/support/jit_image_code.c")


def lines():
    """{function: its line} of the generated code."""
    with open(SOURCE, encoding="ascii") as f:
        return {found[1]: number for number, line in enumerate(f, 1) if (found := re.search(r"/\* line of (\w+) \*/", line))}


class JitDebug(lib.Case):
    def check(self, mode, seconds=3, least_share=0.99, **kwargs):
        with lib.Program("jit_debug", mode) as program:
            recording = self.record("-p", program.pid, seconds=seconds, freq=jits.FREQUENCY, **kwargs)
        self.assert_stacks(recording, recording.samples, program.expectation, least_share)
        self.assert_accounted(recording)
        return recording

    def test_names_lines_and_inlined_functions(self):
        recording = self.check(0, outputs=("out.folded", "out.otlp"))
        expected, seen = lines(), collections.Counter()
        for sample in otlp_decode.read(recording.path("out.otlp")):
            for location in sample["stack"]:
                for entry in location["lines"]:
                    if entry["name"] in expected and entry["filename"] == SOURCE:
                        seen[entry["name"], entry["line"] - expected[entry["name"]] if entry["name"] != "spin" else 0] += otlp_decode.count(sample)
        for name in expected:
            self.assertGreater(seen[name, 0], 300, seen)
            self.assertGreaterEqual(seen[name, 0], 0.99 * sum(n for (other, _), n in seen.items() if other == name), seen)

    def test_names_that_come_while_the_code_runs(self):
        self.check(1, seconds=5)

    def test_names_of_code_that_is_replaced(self):
        with lib.Program("jit_debug", 2) as program:
            recording = jits.record_two_parts(self, program, 3)
        self.assert_stacks(recording, recording.samples, program.expectation, 0.99)
        self.assert_accounted(recording)

    def test_code_that_is_a_part_of_its_image(self):
        self.check(3)

    def test_code_that_is_freed_soon(self):
        """The worker is woken for it, so nearly all samples have names: more than 95 % (say_chains())."""
        self.check(6, seconds=4, least_share=0.97)

    def test_a_list_that_leads_to_forged_images_and_in_a_circle(self):
        self.check(4)

    def test_llvm(self):
        """LLVM compiles a program in its intermediate language. It cannot write a jitdump, which would be asked first."""
        language = os.path.join(self.directory, "code.ll")
        subprocess.run(["clang-14", "-O1", "-g", "-fno-omit-frame-pointer", "-emit-llvm", "-S", "-DMAIN", "-o", language, SOURCE], check=True, timeout=lib.PATIENCE)
        with self.started("lli-14", "-jit-kind=mcjit", language, env={**os.environ, "JITDUMPDIR": "/proc/none"}) as program:
            recording = self.record("-p", program.pid, seconds=3)
        self.assertGreater(sum(s.count for s in recording.samples), 200, recording.describe())
        right = [s for s in recording.samples if lib.user_frames(s.frames)[:5] == ("spin", "inner", "middle", "outer", "main")]
        self.assertGreaterEqual(sum(s.count for s in right), 0.95 * sum(s.count for s in recording.samples), recording.describe())

    def test_without_the_interface_there_are_no_names(self):
        with lib.Program("jit_debug", 0) as program:
            recording = self.record("-p", program.pid, "--runtimes", "cpython")
        self.assertTrue(all("[anonymous code]" in s.frames for s in recording.samples), recording.describe())

    def test_hostile_processes_concern_only_themselves(self):
        """Next to processes that change lists and images at full speed, a program has its names."""
        hostile = shutil.copy(os.path.join(lib.PROGRAMS, "jit_debug"), os.path.join(self.directory, "jit_hostile"))
        with contextlib.ExitStack() as stack:
            others = [stack.enter_context(lib.Program("jit_debug", 5, path=hostile)) for _ in range(2)]
            good = stack.enter_context(lib.Program("jit_debug", 0))
            recording = self.record("-p", ",".join(str(program.pid) for program in [good, *others]), seconds=8, freq=jits.FREQUENCY)
        self.assert_stacks(recording, recording.of("jit_debug"), good.expectation, 0.99)
        self.assertTrue(recording.of("jit_hostile"), recording.describe())
        self.assert_accounted(recording)


if __name__ == "__main__":
    lib.main()
