# SPDX-License-Identifier: Apache-2.0
"""Names of generated code, from the maps that processes write: programs that know their chain, and real ones."""
import contextlib
import os
import shutil

import jits
import lib
import pythons

WORK = """
def leaf():
    n = 0
    for i in range(20000):
        n += i
    return n
print("started", flush=True)
while True:
    leaf()
"""


class JitMaps(lib.Case):
    def program(self, mode, **kwargs):
        program = lib.Program("jit_map", mode, **kwargs)
        self.addCleanup(self.remove_map, program)
        return program

    @staticmethod
    def remove_map(program):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"/tmp/perf-{program.pid}.map")

    def check(self, mode, seconds=3, least_share=0.99):
        with self.program(mode) as program:
            recording = self.record("-p", program.pid, seconds=seconds, freq=jits.FREQUENCY)
        self.assert_stacks(recording, recording.samples, program.expectation, least_share)
        self.assert_accounted(recording)

    def test_names_that_are_there_before(self):
        """Broken lines are skipped, later lines count, and names of C++ are shown as elsewhere."""
        self.check(0)

    def test_names_of_code_in_a_file_in_memory(self):
        self.check(6)

    def test_names_in_a_large_map(self):
        self.check(3)

    def test_names_that_come_while_the_code_runs(self):
        self.check(1, seconds=5)

    def test_names_of_code_that_is_replaced(self):
        with self.program(2) as program:
            recording = jits.record_two_parts(self, program, 3)
        self.assert_stacks(recording, recording.samples, program.expectation, 0.99)
        self.assert_accounted(recording)

    def test_hostile_maps_concern_only_their_processes(self):
        """Next to maps that grow at full speed and are truncated, and to one that is a FIFO, a program has its names."""
        hostile = shutil.copy(os.path.join(lib.PROGRAMS, "jit_map"), os.path.join(self.directory, "jit_hostile"))
        with contextlib.ExitStack() as stack:
            others = [stack.enter_context(self.program(mode, path=hostile)) for mode in (4, 4, 5)]
            good = stack.enter_context(self.program(0))
            recording = self.record("-p", ",".join(str(program.pid) for program in [good, *others]), seconds=8, freq=jits.FREQUENCY)
        self.assert_stacks(recording, recording.of("jit_map"), good.expectation, 0.99)
        self.assertTrue(recording.of("jit_hostile"), recording.describe())
        self.assert_accounted(recording)

    def test_cpython(self):
        """CPython names the stubs that call functions. They have no frame pointer, so only the innermost one is in the stack."""
        found = [python for python in pythons.interpreters() if python.version >= (3, 12)]
        if not found:
            self.skip("there is no CPython 3.12 or later")
        with self.started(found[-1].path, "-X", "perf", "-c", WORK) as program:
            self.addCleanup(os.unlink, f"/tmp/perf-{program.pid}.map")
            recording = self.record("-p", program.pid, seconds=3)
        inside = [s for s in recording.samples if "leaf" in s.frames]
        named = [s for s in inside if "py::leaf:<string>" in s.frames]
        self.assertGreater(sum(s.count for s in inside), 300, recording.describe())
        self.assertGreaterEqual(sum(s.count for s in named), 0.95 * sum(s.count for s in inside), recording.describe())


if __name__ == "__main__":
    lib.main()
