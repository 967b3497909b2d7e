# SPDX-License-Identifier: Apache-2.0
"""CPython: at least 99 % of the samples of programs that know their chain have exactly that chain, with files, lines, and native frames in their places.

All interpreters run at the same time, in one recording of the whole machine; a sample belongs to a phase by its process, thread and time.
"""
import glob
import json
import os
import signal
import subprocess
import threading
import time
import unittest

import lib
import pythons

FREQ = 997


class Recorded(lib.Case):
    """One recording for all tests of a class: PROGRAM in all interpreters."""
    PROGRAM = None
    SECONDS = 1.2  # per phase
    PROCESSES = 1  # per interpreter
    SETTLED_NS = 100000000  # not judged after the start of a phase: code that is mapped for it is not walked at once

    @classmethod
    def setUpClass(cls):
        if not pythons.interpreters():
            raise unittest.SkipTest("no CPython on this machine")
        cls.shared = cls("record_once")
        cls.shared.setUp()
        cls.addClassCleanup(cls.shared.doCleanups)
        with pythons.Clocks() as clocks:
            cls.shared.record_once()
        cls.error_ns = clocks.error_ns()
        cls.samples = pythons.samples_of(cls.recording.path("out.otlp"), clocks)

    def record_once(self):
        with pythons.Running(self.PROGRAM, self.SECONDS) as running:
            process = self.start(seconds=None, freq=FREQ, outputs=("out.folded", "out.otlp"), debug=True)
            self.wait_until_recording(process)
            self.wait_until_attached(process, running.processes)
            running.go()
            self.wait_for("what the programs know", lambda: running.finished(self.PROCESSES), seconds=lib.PATIENCE + 120)
            process.send_signal(signal.SIGINT)
            cls = type(self)
            cls.recording = self.finish(process)
            cls.said = running.said()
            cls.processes = {pid: running.interpreter_of(pid) for pid in self.said}
            cls.processes = dict(sorted(self.processes.items(), key=lambda item: (item[1].version, item[1].path)))
            cls.more = {pid: self.more_of(os.path.join(running.directory, str(pid))) for pid in self.processes}

    @staticmethod
    def more_of(directory):
        """What the inner parts of a program wrote."""
        found = []
        for path in glob.glob(os.path.join(directory, "*.json")):
            with open(path, encoding="ascii") as f:
                found.append(json.load(f))
        return found

    def setUp(self):
        super().setUp()
        self.faults, self.lines = [], []

    def report(self):
        print("\n" + "\n".join(f"  {line}" for line in self.lines))
        self.assert_none(self.faults, self.recording)

    def check_phase(self, pid, interpreter, phase, expected, path, least_samples=40, **kwargs):
        """The chain that the runtime reported is the expected one, and the samples have it."""
        where = f"{interpreter.name} {phase['scenario']}"
        native = pythons.against_dump(expected, phase["chain"][1:], interpreter.version, path)
        if isinstance(native, str):
            self.faults.append(f"{where}: the runtime has another chain than expected: {native}")
            return
        fault = pythons.against_faulthandler(phase["faulthandler"], phase["chain"])
        if fault:
            self.faults.append(f"{where}: {fault}")
        self.judge(pythons.Phase(phase, interpreter, native, **kwargs), pid, where, least_samples)

    def judge(self, known, pid, where, least_samples):
        samples = [s for s in self.samples[pid] if known.covers(s, self.error_ns, self.SETTLED_NS + known.start)]
        right, total, details, faults = pythons.judge(known, samples, least_samples=least_samples)
        self.lines += [f"{where}: {right} of {total}", *(detail[:1200] for detail in details)]
        self.faults += [f"{where}: {fault}" for fault in faults]


class Chains(Recorded):
    PROGRAM = "chains.py"

    def check(self, scenario, least_samples=40, thread=False):
        for pid, interpreter in self.processes.items():
            said = self.said[pid]
            expected = said["expected"][scenario]
            phases = [p for p in said["phases"] if p["scenario"] == scenario]
            self.assertTrue(phases, scenario)
            ends = [] if thread else said["ends"]
            for phase in phases:
                self.check_phase(pid, interpreter, phase, [*expected["chain"], *([name, line] for name, _, line in ends)], said["ends"][0][1],
                                 least_samples, plain=expected["plain"] and len(phase["chain"]) - 2, thread=thread)
        self.report()

    def test_threads(self):
        self.check("threads", 10, thread=True)


def add_scenarios():
    for name in ("recursion_20", "recursion_300", "generators", "lambdas", "comprehensions", "decorators", "methods", "exceptions", "mixed", "coroutines",
                 "made_code", "letters", "far_away", "imports", "finalizers", "signals"):
        setattr(Chains, f"test_{name}", lambda self, name=name: self.check(name))


add_scenarios()


class RealWork(Recorded):
    """json and re at work. sys.setprofile recorded the possible chains; the innermost function may be at any of its lines."""
    PROGRAM = "realwork.py"
    SECONDS = 8

    def test_json_and_re(self):
        for pid, interpreter in self.processes.items():
            known = pythons.KnownChains(self.said[pid], interpreter)
            self.lines.append(f"{interpreter.name}: {len(known.chains)} chains")
            self.judge(known, pid, f"{interpreter.name} json and re", 300)
        self.report()


class Children(Recorded):
    PROGRAM = "forks.py"
    SECONDS = 4
    PROCESSES = 5
    SETTLED_NS = 1000000000  # there are many more processes than CPUs, so attaching takes longer

    def check(self, scenario):
        for pid, interpreter in self.processes.items():
            said = self.said[pid]
            for phase in said["phases"]:
                if phase["scenario"] == scenario and phase["pid"] == pid:
                    self.check_phase(pid, interpreter, phase, said["expected"][scenario], said["path"], 20)
        self.assertTrue(self.lines)
        self.report()

    def test_fork(self):
        self.check("forked")

    def test_multiprocessing_fork(self):
        self.check("multiprocessing")

    def test_multiprocessing_spawn(self):
        self.check("spawned")

    def test_parent(self):
        self.check("parent")


class Subinterpreters(Recorded):
    """Frames of the outer interpreter need no names, because they belong to another thread state."""
    PROGRAM = "subinterpreters.py"
    NOT_NAMED = ((3, 6),)  # 3.6 does not say which state of a thread is running: no names, but no wrong ones either

    def test_inside(self):
        for pid, interpreter in self.processes.items():
            if not self.said[pid]["ran"]:
                self.lines.append(f"{interpreter.name}: has no way to make one")
                continue
            for phase in self.more[pid][0]["phases"]:
                samples = [s for s in self.samples[pid] if phase["start"] <= s.ns <= phase["end"]]
                if interpreter.version in self.NOT_NAMED and samples and not any(map(pythons.python_frames, samples)):
                    self.lines.append(f"{interpreter.name}: not named")
                    continue
                inner = [["inner", None]] * 4 + [["<module>", None]]
                self.check_phase(pid, interpreter, phase, inner, None, inner=True)
        self.report()

    def test_afterwards(self):
        for pid, interpreter in self.processes.items():
            for phase in self.said[pid]["phases"]:
                self.check_phase(pid, interpreter, phase, [["main", None], ["<module>", None]], None)
        self.report()


class FromStart(lib.Case):
    """Processes that start during a recording."""

    def test_time_to_the_first_name(self):
        """The time between the first bytecode of a program and its first sample with names. No sample before has wrong names."""
        faults = []
        ran = {}
        with pythons.Clocks() as clocks:
            process = self.start(seconds=None, freq=FREQ, outputs=("out.folded", "out.otlp"))
            self.wait_until_recording(process)
            for interpreter in pythons.interpreters():
                with pythons.Running("startup.py", 0.5, only=[interpreter]) as running:
                    self.wait_for("its end", running.finished)
                    time.sleep(0.3)  # the process lives until the worker has read its memory
                    ran.update((pid, (interpreter, said)) for pid, said in running.said().items())
            process.send_signal(signal.SIGINT)
            recording = self.finish(process)
        samples = pythons.samples_of(recording.path("out.otlp"), clocks)
        print()
        for pid, (interpreter, said) in ran.items():
            own = sorted((s for s in samples[pid]), key=lambda s: s.ns)
            named = [s for s in own if pythons.python_frames(s)]
            self.assertTrue(named, f"{interpreter.name}: none of {len(own)} samples has a Python frame\n{recording.describe()}")
            after = (named[0].ns - said["began"]) / 1e6
            before = sum(s.ns < named[0].ns and s.ns > said["began"] for s in own)
            left = sum(s.ns > named[0].ns and not pythons.python_frames(s) and any(pythons.EVALUATOR.match(f.name) for f in s.frames) for s in own)
            print(f"  {interpreter.name}: named {after:.1f} ms after the first bytecode; {before} samples until then, {left} of {len(own)} without names later")
            if after > 2000:
                faults.append(f"{interpreter.name}: the first name comes {after:.0f} ms after the first bytecode")
            faults += [f"{interpreter.name}: {fault}" for fault in pythons.impossible(own, said["lines"])]
        self.assert_none(faults, recording)

    SHORT = """\
import time; began = time.monotonic()
def spin():
    while time.monotonic() < began + 0.15:
        pass
def outer():
    spin()
outer()
print(int(began * 1e9), int(time.monotonic() * 1e9))
"""
    SHORT_LINES = {"<string>": {"spin": [2, 3, 4], "outer": [5, 6], "<module>": list(range(1, 9))}}

    def test_short_scripts(self):
        """Many runs of python3 -c, 150 ms each."""
        ran, lock = {}, threading.Lock()
        todo = [i for i in pythons.interpreters() for _ in range(8)]

        def lane():
            while True:
                with lock:
                    if not todo:
                        return
                    interpreter = todo.pop()
                with subprocess.Popen([interpreter.path, "-c", self.SHORT], stdout=subprocess.PIPE) as child:
                    said = child.communicate(timeout=lib.PATIENCE)[0].split()
                with lock:
                    ran[child.pid] = interpreter, int(said[0]), int(said[1])

        with pythons.Clocks() as clocks:
            process = self.start(seconds=None, freq=FREQ, outputs=("out.folded", "out.otlp"))
            self.wait_until_recording(process)
            lanes = [threading.Thread(target=lane) for _ in range(2)]
            for thread in lanes:
                thread.start()
            for thread in lanes:
                thread.join()
            process.send_signal(signal.SIGINT)
            recording = self.finish(process)
        samples = pythons.samples_of(recording.path("out.otlp"), clocks)
        faults, counts = [], {}
        for pid, (interpreter, began, ended) in ran.items():
            inside = [s for s in samples[pid] if began <= s.ns <= ended]
            named = [s for s in inside if any(f.file == "<string>" for f in pythons.python_frames(s))]
            right = [s for s in named if [f.name for f in pythons.python_frames(s)] == ["spin", "outer", "<module>"]]
            counts.setdefault(interpreter, []).append((len(inside), len(named), len(right)))
            # A .pth file of an installed package may run other code of a file "<string>" before.
            faults += [f"{interpreter.name}: {fault}" for fault in pythons.impossible(inside, self.SHORT_LINES)]
        print()
        for interpreter, numbers in counts.items():
            total, named, right = map(sum, zip(*numbers))
            print(f"  {interpreter.name}: {named} of {total} samples in the script are named, {right} with the whole chain; "
                  f"of {len(numbers)} scripts {sum(n[1] == 0 for n in numbers)} not at all")
            if named < 0.5 * total or right < 0.95 * named:
                faults.append(f"{interpreter.name}: {named} of {total} samples named, {right} right")
        self.assert_none(faults, recording)


if __name__ == "__main__":
    lib.main()
