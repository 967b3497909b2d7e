# SPDX-License-Identifier: Apache-2.0
"""Names and lines of generated code, from the jitdump files that processes write: programs that know their chain, and real ones."""
import collections
import contextlib
import os
import shutil

import jits
import lib
import otlp_decode
import pythons

LINES = {"LazyCompile:~outer page.js:12": ("page.js", 13), "Shape::middle": ("lib/shape.cpp", 71), "inner": ("page.js", 101)}

# CPython writes to the file when it has a block of 4 KiB, so some functions must follow.
PYTHON_WORK = """
def leaf():
    n = 0
    for i in range(20000):
        n += i
    return n
leaf()
for i in range(100):
    exec(f"def function{i}(): pass")
    exec(f"function{i}()")
print("started", flush=True)
while True:
    leaf()
"""

# The same for V8: whatever is optimised late is in the file when some more functions were.
NODE_WORK = """
function leaf(n) {
    let sum = 0;
    for (let i = 0; i < n; i++)
        sum += i * i % 7;
    return sum;
}
function compiled(number) {
    const made = new Function("n", `let sum = ${number}; for (let i = 0; i < n; i++) sum += i; return sum;`);
    for (let i = 0; i < 2000; i++)
        made(10);
}
function work(ms) {
    const end = Date.now() + ms;
    for (let number = 0; Date.now() < end; number++) {
        for (let i = 0; i < 20; i++)
            leaf(300000);
        compiled(number);
    }
}
"""

# Node 20 writes the name of a file that it has loaded itself from memory that it has freed.
NODE_MAIN = """
const vm = require("vm"), fs = require("fs");
vm.runInThisContext(fs.readFileSync("work.js", "utf8"), {filename: "work.js"});
work(1500);
console.log("started");
for (;;)
    work(100);
"""


def native_lines(sample):
    return [(entry["name"], entry["filename"], entry["line"])
            for location in sample["stack"] if location["frame_type"] == "native" for entry in location["lines"]]


class JitDumps(lib.Case):
    def program(self, mode, **kwargs):
        return lib.Program("jit_dump", mode, env={"JITDUMPDIR": self.directory}, **kwargs)

    def decoded(self, recording):
        return otlp_decode.read(recording.path("out.otlp"))

    def check(self, mode, seconds=3, least_share=0.99):
        with self.program(mode) as program:
            recording = self.record("-p", program.pid, seconds=seconds, freq=jits.FREQUENCY, outputs=("out.folded", "out.otlp"))
        self.assert_stacks(recording, recording.samples, program.expectation, least_share)
        self.assert_accounted(recording)
        return recording

    def check_in_two_parts(self, mode):
        """The program does something else upon a signal, while it is recorded."""
        with self.program(mode) as program:
            recording = jits.record_two_parts(self, program, 3, outputs=("out.folded", "out.otlp"))
        self.assert_stacks(recording, recording.samples, program.expectation, 0.99)
        self.assert_accounted(recording)
        return recording

    def check_lines(self, recording):
        """Every frame with one of the names has its file and line; the leaf has those of its first instructions in few samples."""
        seen = collections.Counter()
        for sample in self.decoded(recording):
            for name, *position in native_lines(sample):
                if name in LINES:
                    seen[name, tuple(position) == LINES[name]] += otlp_decode.count(sample)
        for name in LINES:
            total = seen[name, True] + seen[name, False]
            self.assertGreater(total, 300, seen)
            self.assertGreaterEqual(seen[name, True], 0.99 * total, seen)

    def test_names_and_lines(self):
        """Records of other kinds are skipped, later names count, and names of C++ are shown as elsewhere."""
        self.check_lines(self.check(0))

    def test_lines_with_the_addresses_of_llvm(self):
        self.check_lines(self.check(1))

    def test_code_that_is_moved(self):
        self.check_lines(self.check_in_two_parts(2))

    def test_code_that_is_replaced(self):
        self.check_in_two_parts(3)

    def test_a_child_has_not_the_file_of_its_parent(self):
        with self.program(6) as program:
            recording = self.record("-p", program.tids["child"], freq=jits.FREQUENCY)
        self.assert_stacks(recording, recording.samples, program.expectation, 0.99)

    def test_a_file_that_was_deleted(self):
        with self.program(0) as program:
            os.unlink(os.path.join(self.directory, f"jit-{program.pid}.dump"))
            recording = self.record("-p", program.pid, freq=jits.FREQUENCY)
        if "--strict-memory" not in lib.RECORD_OPTIONS:
            self.assert_stacks(recording, recording.samples, program.expectation, 0.99)

    def test_hostile_files_concern_only_their_processes(self):
        """Next to files that grow at full speed and are truncated, and to one with forged sizes, a program has its names."""
        hostile = shutil.copy(os.path.join(lib.PROGRAMS, "jit_dump"), os.path.join(self.directory, "jit_hostile"))
        with contextlib.ExitStack() as stack:
            others = [stack.enter_context(self.program(mode, path=hostile)) for mode in (4, 4, 5)]
            good = stack.enter_context(self.program(0))
            recording = self.record("-p", ",".join(str(program.pid) for program in [good, *others]), seconds=8, freq=jits.FREQUENCY)
        self.assert_stacks(recording, recording.of("jit_dump"), good.expectation, 0.99)
        self.assertTrue(recording.of("jit_hostile"), recording.describe())
        self.assert_accounted(recording)

    def test_cpython(self):
        """CPython names the stubs that call functions, and describes how they are unwound. Only the innermost one is in the stack."""
        found = [python for python in pythons.interpreters() if python.version >= (3, 13)]
        if not found:
            self.skip("there is no CPython 3.13 or later")
        with self.started(found[-1].path, "-X", "perf_jit", "-c", PYTHON_WORK) as program:
            self.addCleanup(os.unlink, f"/tmp/jit-{program.pid}.dump")
            recording = self.record("-p", program.pid, seconds=3)
        inside = [s for s in recording.samples if "leaf" in s.frames]
        named = [s for s in inside if "py::leaf:<string>" in s.frames]
        self.assertGreater(sum(s.count for s in inside), 300, recording.describe())
        self.assertGreaterEqual(sum(s.count for s in named), 0.95 * sum(s.count for s in inside), recording.describe())

    def test_node(self):
        """V8's own names, with the walker of V8 switched off."""
        node = self.need_tool("node")
        for name, text in (("work.js", NODE_WORK), ("main.js", NODE_MAIN)):
            with open(os.path.join(self.directory, name), "w", encoding="ascii") as f:
                f.write(text)
        lines = NODE_WORK.split("\n")
        loop = [lib.only_line(lines, "sum += i * i % 7") - 1, lib.only_line(lines, "sum += i * i % 7")]
        with self.started(node, "--perf-prof", "main.js", cwd=self.directory) as program:
            recording = self.record("-p", program.pid, "--runtimes", "none", seconds=3, outputs=("out.folded", "out.otlp"))
        seen = collections.Counter()
        for sample in self.decoded(recording):
            name, *position = (native_lines(sample) or [("", "", 0)])[0]
            kind = "named" if name.startswith("JS:*leaf ") else "unnamed" if name == "[anonymous code]" else "other"
            seen[kind] += otlp_decode.count(sample)
            if kind == "named":
                right = position[0] == "work.js" and position[1] in loop
                seen["right" if right else f"wrong: {position}"] += otlp_decode.count(sample)
        # Samples whose stacks were completed in user space cannot wait for the file.
        self.assertGreater(seen["named"], 300, f"{seen} {recording.describe()}")
        self.assertGreater(seen["named"], 0.9 * (seen["named"] + seen["other"]), seen)
        self.assertGreater(seen["named"], 0.3 * seen["unnamed"], seen)
        self.assertGreater(seen["right"], 0.95 * seen["named"], seen)


if __name__ == "__main__":
    lib.main()
