# SPDX-License-Identifier: Apache-2.0
"""Java in programs whose main() takes milliseconds, and from the first sample of a recording on: nearly all samples of the thread that runs main() have names,
and no sample has a wrong one.

BULKHEAD_SHORT_RUNS: how many programs of 20 ms each JDK runs (40).
"""
import collections
import os
import signal
import subprocess
import threading
import time

import javas
import lib
import pythons

FREQ = 499
RUNS = int(os.environ.get("BULKHEAD_SHORT_RUNS", "40"))
# {time in main() in ms: (programs of each JDK, the least share of their samples that have names)}
LENGTHS = {20: (RUNS, 0.95), 50: (RUNS // 2, 0.99)}
RUNNING_SHARE = 0.99
CHAIN = ["Brief.leaf(long)", "Brief.inner(long)", "Brief.outer(long)", "Brief.main(String[])"]
LAUNCHER = "libjli.so"  # its JavaMain() is the outermost function of the thread that runs main()
LATE = "the language runtimes of some processes are not found yet"  # a message of `bulkhead record`


def is_main(sample):
    """Whether the stack shows that the thread runs main()."""
    return any(frame.name in CHAIN or (frame.file or "").endswith("/" + LAUNCHER) for frame in sample.frames)


def verdict(sample):
    """"named", "wrong", or what is shown instead of the names."""
    names = [frame.name for frame in sample.frames]
    unnamed = [name for name in names if name.startswith("[Java: ")]
    own = [name for name in names if name.startswith("Brief.")]
    if own and own != CHAIN[-len(own):]:
        return "wrong"
    if unnamed:
        return unnamed[0]
    return "named" if own else names[-1] if names[-1].startswith(lib.CUT) else "native"


def verdicts_of(samples, began, ended):
    """The verdicts on the samples of the thread that ran main() between these times."""
    inside = [s for s in samples if began <= s.ns <= ended]
    threads = {s.tid for s in inside if is_main(s)}
    return collections.Counter(verdict(s) for s in inside if s.tid in threads)


class Short(lib.Case):
    def setUp(self):
        super().setUp()
        self.machines = javas.machines()
        if not self.machines:
            self.skip("no JDK on this machine")
        self.faults, self.classes = [], {}
        for i, (home, version) in enumerate(self.machines.items()):
            self.classes[home] = os.path.join(self.directory, f"classes{i}")
            javas.compile_sources(self, home, version, self.classes[home], "Brief.java")

    def command(self, home, ms):
        return [os.path.join(home, "bin/java"), "-Xmx64m", "-cp", self.classes[home], "Brief", str(ms)]

    def run_programs(self, home, ms, count):
        """Runs the programs, two at a time. Returns {pid: when main() began and ended}."""
        ran = {}

        def lane():
            for _ in range(count // 2):
                with subprocess.Popen(self.command(home, ms), stdout=subprocess.PIPE) as child:
                    said = child.communicate(timeout=lib.PATIENCE)[0].split()
                ran[child.pid] = int(said[0]), int(said[1])

        lanes = [threading.Thread(target=lane) for _ in range(2)]
        for thread in lanes:
            thread.start()
        for thread in lanes:
            thread.join()
        return ran

    def recorded(self, work):
        """Runs `work` during a recording. Returns its result, the samples by process, the share of the CPUs that others used, and the recording."""
        with pythons.Clocks() as clocks, lib.OtherLoad() as load:
            process = self.start(seconds=None, freq=FREQ, outputs=("out.folded", "out.otlp"))
            self.wait_until_recording(process)
            result = work()
            process.send_signal(signal.SIGINT)
            recording = self.finish(process)
        return result, pythons.samples_of(recording.path("out.otlp"), clocks), load.share, recording

    def judge(self, what, verdicts, least_share, others):
        if verdicts["wrong"]:
            self.faults.append(f"{what}: {verdicts['wrong']} samples have a chain that does not exist")
        self.faults += lib.judge_share(what, verdicts, least_share, others)

    def test_short_programs(self):
        def work():
            return {(home, ms): self.run_programs(home, ms, count) for ms, (count, _) in LENGTHS.items() for home in self.machines}

        ran, samples, others, recording = self.recorded(work)
        print()
        for (home, ms), processes in ran.items():
            verdicts = sum((verdicts_of(samples[pid], *times) for pid, times in processes.items()), collections.Counter())
            self.judge(f"Java {self.machines[home]}, programs of {ms} ms", verdicts, LENGTHS[ms][1], others)
            if sum(verdicts.values()) < 20:
                self.faults.append(f"Java {self.machines[home]}: too few samples of {len(processes)} programs of {ms} ms: {dict(verdicts)}")
        if others >= lib.OTHERS_MAX:
            print(f"SKIP the share of named samples: other processes used {100 * others:.0f} % of the CPUs")
        self.assert_none(self.faults, recording)

    def test_from_the_first_sample(self):
        """Programs that were running before the recording are named in its first sample."""
        running = {home: subprocess.Popen(self.command(home, lib.PATIENCE * 1000), stdout=subprocess.DEVNULL, start_new_session=True) for home in self.machines}
        for process in running.values():
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            with lib.Process(process.pid) as program:
                self.wait_for_cpu_time(program, 1)
        _, samples, _, recording = self.recorded(lambda: time.sleep(1))
        print()
        for home, process in running.items():
            verdicts = verdicts_of(samples[process.pid], 0, float("inf"))
            self.judge(f"Java {self.machines[home]}, from the first sample on", verdicts, RUNNING_SHARE, others=lib.OTHERS_MAX if LATE in recording.stderr else 0)
            if sum(verdicts.values()) < 20:
                self.faults.append(f"Java {self.machines[home]}: too few samples: {dict(verdicts)}")
        if LATE in recording.stderr:
            print(f"SKIP the share of named samples from the first one on: the recording said that {LATE}")
        self.assert_none(self.faults, recording)


if __name__ == "__main__":
    lib.main()
