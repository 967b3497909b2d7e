# SPDX-License-Identifier: Apache-2.0
"""Python in processes that live for milliseconds, and from the first sample of a recording on: nearly all samples have names, and no sample has a wrong one.

BULKHEAD_SHORT_RUNS: how many scripts of 20 ms each interpreter runs (60).
"""
import collections
import os
import subprocess
import time

import lib
import pythons
import short_programs

RUNS = int(os.environ.get("BULKHEAD_SHORT_RUNS", "60"))
# {CPU time of a script's work in ms: (scripts of each interpreter, the least share of its samples inside the interpreter that have names)}
LENGTHS = {20: (RUNS, 0.95), 50: (RUNS // 2, 0.99)}
RUNNING_SHARE = 0.99
ONE_INTERPRETER = 0.05  # by how much less a single interpreter may have

SCRIPT = """\
import time; began = time.monotonic(); cpu = time.process_time
until = cpu() + {ms} / 1000
def leaf(n):
    return sum([i * i for i in range(n)])
def inner(n):
    total = 0
    while cpu() < until:
        total += leaf(n)
    return total
def outer():
    return inner(200)
outer()
print(int(began * 1e9), int(time.monotonic() * 1e9), flush=True)
"""
LINES = {"<string>": {"leaf": [3, 4], "leaf.<locals>.<listcomp>": [4], "<listcomp>": [4], "inner": range(5, 10), "outer": [10, 11], "<module>": range(1, 14)}}
CHAIN = ["inner", "outer", "<module>"]


def verdict(sample):
    """"named"; or why a sample that was taken inside an interpreter is not. None: it was not taken there."""
    found = pythons.python_frames(sample)
    unnamed = [frame.name for frame in found if frame.name.startswith(pythons.UNNAMED)]
    if unnamed:
        return unnamed[0]
    if any(frame.python != "python" and pythons.EVALUATOR.match(frame.name) for frame in sample.frames):
        return "native"
    return "named" if found else None


class Short(short_programs.ShortPrograms):
    def setUp(self):
        super().setUp()
        if not pythons.interpreters():
            self.skip("no CPython on this machine")

    def judge_all(self, name, verdicts, least_share, others, programs=None):
        """Judges {interpreter: verdicts}: each interpreter, and all together. `programs` is how many programs each has run."""
        for interpreter, counts in verdicts.items():
            self.judge(f"{interpreter.name}, {name}", counts, least_share - ONE_INTERPRETER, others, programs)
        self.judge(f"all, {name}", sum(verdicts.values(), collections.Counter()), least_share, others, programs and programs * len(verdicts))
        self.say_whether_judged(name, others)

    def test_short_scripts(self):
        def work():
            return {(i, ms): self.run_programs([i.path, "-c", SCRIPT.format(ms=ms)], count) for ms, (count, _) in LENGTHS.items() for i in pythons.interpreters()}

        ran, samples, others, recording = self.recorded(work)
        print()
        verdicts = {ms: {} for ms in LENGTHS}
        for (interpreter, ms), processes in ran.items():
            counts, chains, right = collections.Counter(), 0, 0
            for pid, (began, ended) in processes.items():
                counts.update(filter(None, map(verdict, samples[pid])))
                named = [s for s in samples[pid] if began <= s.ns <= ended and verdict(s) == "named"]
                chains += len(named)
                right += sum([frame.name for frame in pythons.python_frames(s)][-3:] == CHAIN for s in named)
                self.faults += [f"{interpreter.name}, {ms} ms: {fault}" for fault in pythons.impossible(samples[pid], LINES)]
            verdicts[ms][interpreter] = counts
            # the first and the last instructions of a script are in <module> alone
            if right < 0.98 * chains:
                self.faults.append(f"{interpreter.name}, {ms} ms: only {right} of {chains} samples have the chain of the script")
        for ms, (count, least_share) in LENGTHS.items():
            self.judge_all(f"scripts of {ms} ms", verdicts[ms], least_share, others, count)
        self.assert_none(self.faults, recording)

    def test_from_the_first_sample(self):
        """Interpreters that were running before the recording are named in its first sample."""
        script = SCRIPT.format(ms=lib.PATIENCE * 1000)
        running = {i: subprocess.Popen([i.path, "-c", script], stdout=subprocess.DEVNULL, start_new_session=True) for i in pythons.interpreters()}
        for process in running.values():
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
        with lib.Process(next(iter(running.values())).pid) as first:
            self.wait_for("the scripts", lambda: first.cpu_seconds() > 0.1)
        _, samples, _, recording = self.recorded(lambda: time.sleep(1))
        print()
        verdicts = {i: collections.Counter(filter(None, map(verdict, samples[p.pid]))) for i, p in running.items()}
        if not self.began_late(recording):
            self.judge_all("from the first sample on", verdicts, RUNNING_SHARE, others=0)
        for interpreter, process in running.items():
            self.faults += [f"{interpreter.name}: {fault}" for fault in pythons.impossible(samples[process.pid], LINES)]
        self.assert_none(self.faults, recording)


if __name__ == "__main__":
    lib.main()
