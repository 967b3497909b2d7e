# SPDX-License-Identifier: Apache-2.0
"""For tests of programs that run for milliseconds during a recording: how many of their samples have names."""
import collections
import math
import os
import signal
import subprocess
import threading
import time

import lib
import pythons

FREQ = 499
# Names depend on when the roles run. So the shares are only judged if other processes used less than this share of the CPUs.
OTHERS_MAX = 0.1
# Messages of `bulkhead record`.
LATE = ("the language runtimes of some processes are not found yet", "the files of some programs are not read yet")


class OtherLoad:
    """The share of all CPUs that was used by processes which are neither below this one nor idle, or by other virtual machines on the same host."""

    def __enter__(self):
        self.before = self._read()
        return self

    def __exit__(self, *_):
        busy, own, seconds = (after - before for after, before in zip(self._read(), self.before))
        self.share = (busy - own) / (seconds * os.cpu_count())

    @staticmethod
    def _read():
        user, nice, system, _, _, irq, softirq, steal, *_ = map(int, lib.read("/proc/stat").split("\n", 1)[0].split()[1:])
        times = os.times()
        own = times.user + times.system + times.children_user + times.children_system
        return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK"), own, time.monotonic()


class ShortPrograms(lib.Case):
    def setUp(self):
        super().setUp()
        self.faults = []

    @staticmethod
    def run_programs(command, count):
        """Runs a command this many times, two at a time. It prints two times in ns of CLOCK_MONOTONIC: the start and the end of its own code. Returns
        {pid: the two times}."""
        ran, lock, left = {}, threading.Lock(), [count]

        def lane():
            while True:
                with lock:
                    if not left[0]:
                        return
                    left[0] -= 1
                with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
                    said = child.communicate(timeout=lib.PATIENCE)[0].split()
                with lock:
                    ran[child.pid] = int(said[0]), int(said[1])

        lanes = [threading.Thread(target=lane) for _ in range(2)]
        for thread in lanes:
            thread.start()
        for thread in lanes:
            thread.join()
        return ran

    def recorded(self, work):
        """Runs `work` during a recording. Returns its result, the samples by process, the share of the CPUs that others used, and the recording."""
        with pythons.Clocks() as clocks, OtherLoad() as load:
            process = self.start(seconds=None, freq=FREQ, outputs=("out.folded", "out.otlp"))
            self.wait_until_recording(process)
            result = work()
            process.send_signal(signal.SIGINT)
            recording = self.finish(process)
        return result, pythons.samples_of(recording.path("out.otlp"), clocks), load.share, recording

    def judge(self, what, verdicts, least_share, others, programs=None):
        """Prints the share of "named" among the verdicts, a Counter. Adds a fault if it is smaller than chance explains. `programs` is how many programs have the
        samples, if those of one program are named all or not at all: when the CPU of the worker stands still for 20 ms, a program of 20 ms has no names."""
        total = sum(verdicts.values())
        share = verdicts["named"] / max(total, 1)
        print(f"  {what}: {100 * share:.1f} % of {total} samples are named; {dict(verdicts)}")
        chance = 3 * math.sqrt(least_share * (1 - least_share) / (programs or max(total, 1)))
        if others < OTHERS_MAX and share < least_share - chance:
            self.faults.append(f"{what}: {100 * share:.1f} % of {total} samples are named, expected {100 * least_share:.0f} %: {dict(verdicts)}")

    @staticmethod
    def say_whether_judged(what, others):
        if others >= OTHERS_MAX:
            print(f"SKIP the share of named samples, {what}: other processes used {100 * others:.0f} % of the CPUs")

    @staticmethod
    def began_late(recording):
        """Whether the recording began before all runtimes were found, so that the first samples cannot be judged."""
        late = [message for message in LATE if message in recording.stderr]
        if late:
            print(f"SKIP the share of named samples from the first one on: the recording said that {late[0]}")
        return bool(late)

    def check_scripts(self, machines, command_of, lengths, verdict_of, language):
        """Runs scripts of the `machines`, {program: version}, and judges the names of their samples. command_of(program, seconds) is the command of a script
        that works for that time, `lengths` {CPU time in ms: (scripts, the least share of named samples)}, verdict_of(sample) "named", another text, or None if
        the sample does not count."""
        if not machines:
            self.skip(f"no {language} on this machine")

        def work():
            for program in machines:  # these are not judged: a walker is loaded when the first process of its language is found
                self.run_programs(command_of(program, 0.02), 10)
            return {(program, ms): self.run_programs(command_of(program, ms / 1000), count) for ms, (count, _) in lengths.items() for program in machines}

        ran, samples, others, recording = self.recorded(work)
        print()
        for (program, ms), processes in ran.items():
            verdicts = collections.Counter(filter(None, (verdict_of(s) for pid in processes for s in samples[pid])))
            self.judge(f"{machines[program]}, scripts of {ms} ms", verdicts, lengths[ms][1], others, len(processes))
            if sum(verdicts.values()) < 100:
                self.faults.append(f"too few samples: {dict(verdicts)}")
        self.say_whether_judged("scripts", others)
        self.assert_none(self.faults, recording)
