# SPDX-License-Identifier: Apache-2.0
"""Python in processes that live for milliseconds: their samples have names, too, and never wrong ones."""
import collections
import os
import signal
import subprocess
import threading

import lib
import pythons

FREQ = 499
COUNTS = {20: 120, 50: 60, 200: 20}  # scripts of each interpreter, by the CPU time of their work in ms
EVALUATOR = pythons.EVALUATOR

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
    """How a sample that was taken in an interpreter is shown: "named", or why it is not."""
    found = pythons.python_frames(sample)
    unnamed = [frame.name for frame in found if frame.name.startswith(pythons.UNNAMED)]
    if unnamed:
        return unnamed[0]
    if any(frame.python != "python" and EVALUATOR.match(frame.name) for frame in sample.frames):
        return "native"
    return "named"


def inside(sample):
    return any(frame.python == "python" or EVALUATOR.match(frame.name) for frame in sample.frames)


class Short(lib.Case):
    def run_scripts(self, interpreter, ms, count):
        """Runs the scripts, two at a time. Returns {pid: (start and end of the script's own code)}."""
        ran, lock, left = {}, threading.Lock(), [count]

        def lane():
            while True:
                with lock:
                    if not left[0]:
                        return
                    left[0] -= 1
                with subprocess.Popen([interpreter.path, "-c", SCRIPT.format(ms=ms)], stdout=subprocess.PIPE) as child:
                    said = child.communicate(timeout=lib.PATIENCE)[0].split()
                with lock:
                    ran[child.pid] = int(said[0]), int(said[1])

        lanes = [threading.Thread(target=lane) for _ in range(2)]
        for thread in lanes:
            thread.start()
        for thread in lanes:
            thread.join()
        return ran

    def test_names(self):
        if not pythons.interpreters():
            self.skip("no CPython on this machine")
        ran = collections.defaultdict(dict)
        with pythons.Clocks() as clocks:
            process = self.start(seconds=None, freq=FREQ, outputs=("out.folded", "out.otlp"))
            self.wait_until_recording(process)
            for interpreter in pythons.interpreters():
                for ms, count in COUNTS.items():
                    ran[interpreter, ms] = self.run_scripts(interpreter, ms, count)
            process.send_signal(signal.SIGINT)
            recording = self.finish(process)
        samples = pythons.samples_of(recording.path("out.otlp"), clocks)
        faults = []
        print()
        for (interpreter, ms), processes in ran.items():
            verdicts, right, whole, first = collections.Counter(), 0, 0, collections.Counter()
            for pid, (began, ended) in processes.items():
                own = [s for s in samples[pid] if inside(s)]
                verdicts.update(map(verdict, own))
                first.update(f"{verdict(s)} {'before' if s.ns < began else 'after' if s.ns > ended else 'in'}" for s in own)
                for s in own:
                    if began <= s.ns <= ended and verdict(s) == "named":
                        whole += 1
                        right += [f.name for f in pythons.python_frames(s)][-3:] == CHAIN
                faults += [f"{interpreter.name} {ms} ms: {fault}" for fault in pythons.impossible(samples[pid], LINES)]
            total = sum(verdicts.values())
            print(f"  {interpreter.name}, {len(processes)} x {ms} ms: {verdicts['named']} of {total} = {100 * verdicts['named'] / max(total, 1):.1f} % named, "
                  f"{right} of {whole} with the chain; {dict(first)}")
        self.assert_none(faults, recording)


if __name__ == "__main__":
    lib.main()
