# SPDX-License-Identifier: Apache-2.0
"""Language runtimes as users see them: selection, privileges, counters, messages, and managed frames in each format."""
import base64
import contextlib
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import zlib

import agent
import lib
import scripted_server as scripted

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs", "named_chain.py")
CHAIN = {True: ["innermost", "Middle.step", "outermost", "<module>"], False: ["innermost", "step", "outermost", "<module>"]}  # by whether names are qualified
CAP = {"DAC_READ_SEARCH": 2, "SYS_PTRACE": 19, "CHECKPOINT_RESTORE": 40}


def runtimes():
    """[(name, frame type, title, hue, saturation)] of the language runtimes."""
    with open(os.path.join(lib.SOURCE, "common/runtimes.def"), encoding="ascii") as f:
        found = re.findall(r'^RUNTIME\((\w+), (\w+), "([^"]+)", "([^"]+)"\)', f.read(), re.M)
    with open(os.path.join(lib.SOURCE, "exporter/sinks/flamegraph/runtime_colours.def"), encoding="ascii") as f:
        colours = {i: (int(h), int(s)) for i, h, s in re.findall(r"^RUNTIME_COLOUR\((\w+), (\d+), (\d+)\)", f.read(), re.M)}
    return [(name, kind, title, *colours[identifier]) for identifier, name, kind, title in found]


def python_frames(sample):
    """The frames from the leaf on that can only be those of the script."""
    return [f for f in lib.user_frames(sample.frames) if f in ("<module>", "innermost", "Middle.step", "step", "outermost")]


class RuntimeCase(lib.Case):
    PYTHON = os.path.realpath(sys.executable)

    def command(self, seconds=2, *more):
        return [self.PYTHON, SCRIPT, str(seconds), *more]

    def share_named(self, recording):
        """How many samples of the interpreter have the whole chain from <module> on, or are outside of it."""
        samples = recording.samples
        chain = CHAIN[sys.version_info >= (3, 11)]
        whole = sum(s.count for s in samples if python_frames(s) in (chain, chain[1:], chain[2:]))
        return whole / max(1, sum(s.count for s in samples))

    def assert_named(self, recording):
        self.assert_accounted(recording)
        self.assertGreater(sum(s.count for s in recording.samples), 200, recording.describe())
        self.assertGreater(self.share_named(recording), 0.9, recording.describe() + "\n" + "\n".join(map(lib.show, (s.frames for s in recording.samples[:3]))))

    def assert_not_named(self, recording):
        self.assertGreater(sum(s.count for s in recording.samples), 200, recording.describe())
        self.assertEqual([s for s in recording.samples if python_frames(s)], [])


class Which(RuntimeCase):
    """--runtimes"""

    def test_all_by_default(self):
        recording = self.record(command=self.command(), seconds=None)
        self.assert_named(recording)
        counters = recording.stats["runtimes"]
        self.assertEqual(set(counters), {*(name for name, *_ in runtimes()), "jit_debug"})  # the last one has no walker
        self.assertGreaterEqual(counters["cpython"]["attached"], 1)
        self.assertGreaterEqual(counters["cpython"]["named"], 4)

    def test_by_name(self):
        self.assert_named(self.record("--runtimes", "hotspot,cpython", command=self.command(), seconds=None))

    def test_none(self):
        recording = self.record("--runtimes", "none", command=self.command(), seconds=None)
        self.assert_not_named(recording)
        for counters in recording.stats["runtimes"].values():
            self.assertEqual(counters, {"attached": 0, "refused": 0, "named": 0, "unnamed": 0, "no_room": 0})

    def test_another(self):
        recording = self.record("--runtimes=hotspot", command=self.command(), seconds=None)
        self.assert_not_named(recording)
        self.assertEqual(recording.stats["runtimes"]["cpython"], {"attached": 0, "refused": 0, "named": 0, "unnamed": 0, "no_room": 0})

    def test_kernel_stacks_only(self):
        recording = self.record("-K", command=self.command(), seconds=None)
        self.assertEqual(recording.stats["runtimes"]["cpython"]["attached"], 0)

    def test_unknown(self):
        for names in ("python", "cpython,java", "", "all,python"):
            done = subprocess.run([lib.BULKHEAD, "record", "-d", "1", "-o", os.path.join(self.directory, "x.folded"), "--runtimes", names], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            for name, *_ in runtimes():
                self.assertIn(name, done.stderr)
            self.assertFalse(os.path.exists(os.path.join(self.directory, "x.folded")))


class Strict(RuntimeCase):
    """--strict-memory"""

    def setUp(self):
        super().setUp()
        # Everybody may read it. The opener has no right beyond that.
        status = os.stat(self.PYTHON)
        if not status.st_mode & 0o004 or self.PYTHON.startswith("/root/"):
            self.skip(f"{self.PYTHON} is not for everyone to read")

    def test_names(self):
        recording = self.record("--strict-memory", command=self.command(), seconds=None)
        self.assert_named(recording)
        self.assertGreaterEqual(recording.stats["runtimes"]["cpython"]["attached"], 1)

    def test_native_stacks(self):
        with lib.Program("recursion", 28) as program, lib.Program("pingpong") as libraries:
            recording = self.record("--strict-memory", "-p", f"{program.pid},{libraries.pid}")
        self.assert_accounted(recording)
        self.assert_stacks(recording, recording.of("recursion"), program.expectation)
        self.assert_stacks(recording, recording.of("pingpong"), libraries.expectation)

    def test_capabilities(self):
        process = self.start("--strict-memory", seconds=4, freq=49)
        pids = self.wait_until_recording(process)
        for role, names in (("opener", ["SYS_PTRACE"]), ("worker", ["SYS_PTRACE"]), ("manager", []), ("exporter", [])):
            status = lib.proc_status(pids[role])
            wanted = sum(1 << CAP[name] for name in names)
            self.assertEqual([int(status[key], 16) for key in ("CapPrm", "CapEff", "CapBnd", "CapInh", "CapAmb")], [wanted, wanted, 0, 0, 0], role)
            self.assertEqual((status["Seccomp"], status["NoNewPrivs"]), ("2", "1"))
        links = [os.readlink(f"/proc/{pids['worker']}/fd/{fd}") for fd in os.listdir(f"/proc/{pids['worker']}/fd")]
        self.assertEqual([link for link in links if link.endswith("/mem")], [])
        self.finish(process)

    def test_usual_mode_holds_memory_by_descriptor(self):
        """Without --strict-memory the descriptors exist whose absence the test above shows."""
        with contextlib.ExitStack() as stack:
            python = stack.enter_context(subprocess.Popen(self.command(60)))
            stack.callback(python.kill)
            process = self.start(seconds=4, freq=49)
            pids = self.wait_until_recording(process)
            self.assertEqual(int(lib.proc_status(pids["worker"])["CapPrm"], 16), 0)
            self.wait_for("its memory", lambda: any(os.readlink(f"/proc/{pids['worker']}/fd/{fd}") == f"/proc/{python.pid}/mem" for fd in os.listdir(f"/proc/{pids['worker']}/fd")))
            self.finish(process)

    def test_another_program_under_the_same_pid(self):
        """exec replaces Python by another program, whose memory is not taken for Python's."""
        program = os.path.join(lib.PROGRAMS, "recursion")
        recording = self.record("--strict-memory", command=self.command(1, program, "2", "28"), seconds=None, status=128 + signal.SIGALRM)
        self.assert_accounted(recording)
        after = recording.of("recursion")
        self.assertGreater(sum(s.count for s in after), 200, recording.describe())
        self.assertEqual([s for s in after if python_frames(s)], [])
        self.assertGreater(self.share_named_of(recording, "python"), 0.8)

    def share_named_of(self, recording, comm):
        chain = CHAIN[sys.version_info >= (3, 11)]
        mine = [s for s in recording.samples if s.comm.startswith(comm)]
        return sum(s.count for s in mine if python_frames(s) in (chain, chain[1:], chain[2:])) / max(1, sum(s.count for s in mine))

    def test_without_the_capabilities(self):
        """Strict mode works in a container without these capabilities."""
        drop = "-dac_read_search,-checkpoint_restore"
        line = ["setpriv", "--bounding-set", drop, "--inh-caps", drop, lib.BULKHEAD, "record", "-F", "997", "-o", os.path.join(self.directory, "out.folded")]
        without = subprocess.run([*line, "--", "true"], capture_output=True, text=True, check=False, timeout=lib.PATIENCE)
        self.assertEqual(without.returncode, 4, without.stderr)
        self.assertRegex(without.stderr, "missing capabilities: CAP_DAC_READ_SEARCH, CAP_CHECKPOINT_RESTORE;.*--strict-memory")
        done = subprocess.run([*line, "--strict-memory", "--", *self.command()], capture_output=True, text=True, check=False, timeout=lib.PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(self.share_named(lib.Recording(line, self.directory)), 0.9, done.stderr)


def symbol(path, name):
    """The offset in the file of a dynamic symbol (ELF64, little endian), or None."""
    with open(path, "rb") as f:
        data = f.read()
    phoff, = struct.unpack_from("<Q", data, 32)
    shoff, = struct.unpack_from("<Q", data, 40)
    phnum, = struct.unpack_from("<H", data, 56)
    shnum, = struct.unpack_from("<H", data, 60)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, shoff + 64 * i) for i in range(shnum)]
    for section in sections:
        if section[1] != 11:  # SHT_DYNSYM
            continue
        strings = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], 24):
            text, _, _, index, value, _ = struct.unpack_from("<IBBHQQ", data, at)
            if not index or data[strings + text:data.index(b"\0", strings + text)] != name:
                continue
            for i in range(phnum):
                kind, _, offset, vaddr, _, size = struct.unpack_from("<IIQQQQ", data, phoff + 56 * i)
                if kind == 1 and vaddr <= value < vaddr + size:
                    return value - vaddr + offset
    return None


class Reported(RuntimeCase):
    """Counters, and the one log line of a refusal."""

    def falsified(self):
        """A Python whose version is changed to one that does not exist."""
        at = symbol(self.PYTHON, b"Py_Version")
        if at is None:
            self.skip(f"{self.PYTHON} does not say its version in a dynamic symbol")
        path = os.path.join(self.directory, "python3.99")
        shutil.copy(self.PYTHON, path)
        with open(path, "r+b") as f:
            f.seek(at)
            f.write(struct.pack("<I", 0x036300f0))
        return path

    def test_a_refusal_is_logged_once(self):
        python = self.falsified()
        with contextlib.ExitStack() as stack:
            for _ in range(2):  # the file is refused once, not each of its processes
                process = stack.enter_context(subprocess.Popen([python, SCRIPT, "60"]))
                stack.callback(process.kill)
            stack.enter_context(lib.Process(process.pid))
            recording = self.record("-p", process.pid, seconds=2)
        lines = [line for line in recording.stderr.splitlines() if "CPython 3.99" in line]
        self.assertEqual(len(lines), 1, recording.stderr)
        self.assertIn("warning", lines[0])
        self.assertIn(python, lines[0])
        self.assert_not_named(recording)
        self.assertEqual(recording.stats["runtimes"]["cpython"]["refused"], 1)
        self.assertRegex(recording.stderr, re.compile(r"^Python: .*1 refused \(see the log\)$", re.M))
        # Native stacks of that process stay complete.
        self.assertEqual([s for s in recording.samples if any(f.startswith(lib.CUT) for f in s.frames)], [])

    def test_nothing_is_logged_without_a_refusal(self):
        with subprocess.Popen(self.command(60)) as python, lib.Process(python.pid) as busy:
            self.addCleanup(python.kill)
            self.wait_for_cpu_time(busy, 1)  # until its imports have been mapped and unmapped
            recording = self.record("-p", python.pid)
            python.kill()
        if recording.stats["runtimes"]["cpython"]["refused"]:
            self.skip("something else on this machine was refused")
        self.assertEqual(recording.stats["runtimes"]["cpython"]["unnamed"], 0, recording.describe())
        self.assertNotIn("Python:", recording.stderr)

    def test_unnamed_frames_are_counted(self):
        """Processes that have ended when their samples are named: `python -c` with a new stack each time."""
        burst = "for i in range(40): __import__('subprocess').run([__import__('sys').executable, '-S', '-c', 'for i in range(300000): pass'])"
        recording = self.record(command=[self.PYTHON, "-c", burst], seconds=None)
        counters = recording.stats["runtimes"]["cpython"]
        unnamed = {f for s in recording.samples for f in s.frames if f.startswith("[Python: ")}
        self.assertEqual(bool(counters["unnamed"]), bool(unnamed), recording.describe())
        said = re.search(r"^Python: (\d+) of (\d+) frames have no name", recording.stderr, re.M)
        self.assertEqual(bool(counters["unnamed"]), bool(said), recording.stderr)
        if said:
            self.assertEqual((int(said[1]), int(said[2])), (counters["unnamed"], counters["unnamed"] + counters["named"]))

    def test_status(self):
        python = self.falsified()
        with contextlib.ExitStack() as stack:
            for path in (self.PYTHON, python):
                process = stack.enter_context(subprocess.Popen([path, SCRIPT, "100"]))
                stack.callback(process.kill)
            server = stack.enter_context(scripted.Server())
            running = stack.enter_context(agent.Agent(self, f"http://{server.target}"))
            seen = {}

            def named():
                seen.update(running.status() or {})
                counters = seen.get("runtimes", {}).get("cpython", {})
                return counters.get("attached") and counters.get("refused") and counters.get("named", 0) >= 4
            self.wait_for("names", named)
            values = agent.metrics(running.ask("--metrics").stdout)
            for name, *_ in runtimes():
                for metric in ("processes", "refused_total", "frames_named_total", "frames_unnamed_total"):
                    self.assertIn(f'bulkhead_runtime_{metric}{{runtime="{name}"}}', values)
            self.assertGreaterEqual(values['bulkhead_runtime_processes{runtime="cpython"}'], 1)
            self.assertGreaterEqual(values['bulkhead_runtime_refused_total{runtime="cpython"}'], 1)
            self.assertGreaterEqual(values['bulkhead_runtime_frames_named_total{runtime="cpython"}'], 4)
            self.assertRegex(running.ask().stdout, re.compile(r"^runtimes  Python: [1-9]\d* processes.* [1-9]\d* refused \(see the log\)$", re.M))
            self.assertEqual(running.said().count("CPython 3.99 in"), 1, running.said())
            running.stop()

    def test_agent_configuration(self):
        with scripted.Server() as server, subprocess.Popen(self.command(100)) as python:
            self.addCleanup(python.kill)
            with agent.Agent(self, f"http://{server.target}", {"runtimes.enabled": "none", "runtimes.strict_memory": "true"}) as running:
                self.wait_for("samples", lambda: (running.status() or {}).get("delivered", 0) > 100)
                self.assertEqual(running.status()["runtimes"]["cpython"]["attached"], 0)
                for role in ("opener", "worker"):
                    self.assertEqual(int(lib.proc_status(running.pid(role))["CapPrm"], 16), 1 << CAP["SYS_PTRACE"])
                running.stop()
            python.kill()


def leb128(data):
    numbers, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            numbers.append(value)
            value = shift = 0
    return numbers


class Formats(RuntimeCase):
    """Name, file and line of a managed frame in each format that has room for them."""
    OUTPUTS = ("out.folded", "out.txt", "out.html", "out.pb.gz", "out.speedscope.json", "out.otlp")

    @classmethod
    def setUpClass(cls):
        cls.shared = cls("record_once")
        cls.shared.setUp()
        cls.addClassCleanup(cls.shared.doCleanups)
        cls.recording = cls.shared.record(command=cls.shared.command(), seconds=None, outputs=cls.OUTPUTS)
        cls.chain = CHAIN[sys.version_info >= (3, 11)]
        with open(SCRIPT, encoding="utf-8") as f:
            cls.lines = f.read().splitlines()

    def record_once(self):
        """An empty test, because setUpClass needs an instance."""

    def read(self, name):
        with open(self.recording.path(name), "rb") as f:
            return f.read()

    def test_text_has_names_only(self):
        for name in ("out.folded", "out.txt"):
            text = self.read(name).decode()
            for function in self.chain:
                self.assertIn(function, text)
            self.assertNotIn(os.path.basename(SCRIPT), text, name)

    def test_speedscope(self):
        frames = {f["name"]: f for f in json.loads(self.read("out.speedscope.json"))["shared"]["frames"]}
        begins = {"innermost": "def innermost", "Middle.step": "    def step", "step": "    def step", "outermost": "def outermost"}
        for function in self.chain[:3]:
            first = next(i for i, line in enumerate(self.lines, 1) if line.startswith(begins[function]))
            self.assertEqual((frames[function]["file"], frames[function]["line"]), (SCRIPT, first))

    def test_html(self):
        page = self.read("out.html").decode()
        data = json.loads(re.search(r'<script type="application/json" id="profile">(.*?)</script>', page, re.S)[1])
        numbers = leb128(zlib.decompress(base64.b64decode(data["frames"])))
        # Name, kind, module, source file, line, first line of the function, whether it is inlined (exporter/sinks/sink_html.c).
        frames = {data["strings"][numbers[i]]: [data["strings"][n] for n in numbers[i + 1:i + 4]] for i in range(0, len(numbers), 7)}
        for function in self.chain[:3]:
            self.assertEqual(frames[function], ["cpython", "", SCRIPT])

    def test_colours(self):
        """The flame graph takes the kinds, titles and colours of language runtimes from the two tables, and from nowhere else."""
        page = self.read("out.html").decode()
        kinds = json.loads(re.sub(r",(\s*\})", r"\1", re.search(r"const RUNTIME_KINDS = (\{.*?\n\});", page, re.S)[1]))
        self.assertEqual(kinds, {kind: [title, hue, saturation] for _, kind, title, hue, saturation in runtimes()})
        for table in ("COLOURS", "TITLES"):
            fixed = re.search(rf"const {table} = \{{(.*?)\n\}};", page, re.S)[1]
            for kind in kinds:
                self.assertNotRegex(fixed, rf"(?m)^\t'?{kind}'?:", kind)

    def test_pprof(self):
        self.need_tool("go")
        done = subprocess.run(["go", "tool", "pprof", "-raw", self.recording.path("out.pb.gz")], capture_output=True, text=True, check=False,
                              env={**os.environ, "PPROF_TMPDIR": self.directory, "HOME": self.directory})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.check_lines(re.findall(rf" (\S+) {re.escape(SCRIPT)}:(\d+)", done.stdout))

    def check_lines(self, found):
        """The lines of each function are within its own text."""
        begins = {"innermost": "def innermost", "Middle.step": "    def step", "step": "    def step", "outermost": "def outermost"}
        for function in self.chain[:3]:
            first = next(i for i, line in enumerate(self.lines, 1) if line.startswith(begins[function]))
            at = {int(line) for name, line in found if name == function}
            self.assertTrue(at, (function, found))
            self.assertTrue(all(first <= line <= first + 6 for line in at), (function, at, first))
        self.assertIn((self.chain[1], str(self.lines.index("        return innermost(5000)") + 1)), found)


if __name__ == "__main__":
    lib.main()
