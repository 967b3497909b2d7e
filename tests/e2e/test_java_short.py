# SPDX-License-Identifier: Apache-2.0
"""Java in programs whose main() takes milliseconds, and from the first sample of a recording on: nearly all samples of the thread that runs main() have names,
and no sample has a wrong one.

BULKHEAD_SHORT_RUNS: how many programs of 20 ms each JDK runs (40).
"""
import collections
import os
import subprocess
import time

import javas
import lib
import short_programs

RUNS = int(os.environ.get("BULKHEAD_SHORT_RUNS", "40"))
# {time in main() in ms: (programs of each JDK, the least share of their samples that have names)}
LENGTHS = {20: (RUNS, 0.95), 50: (RUNS // 2, 0.99)}
RUNNING_SHARE = 0.99
CHAIN = ["Brief.leaf(long)", "Brief.inner(long)", "Brief.outer(long)", "Brief.main(String[])"]
LAUNCHER = "libjli.so"  # its JavaMain() is the outermost function of the thread that runs main()


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


class Short(short_programs.ShortPrograms):
    def setUp(self):
        super().setUp()
        self.machines = javas.machines()
        if not self.machines:
            self.skip("no JDK on this machine")
        self.classes = {}
        for i, (home, version) in enumerate(self.machines.items()):
            self.classes[home] = os.path.join(self.directory, f"classes{i}")
            javas.compile_sources(self, home, version, self.classes[home], "Brief.java")

    def command(self, home, ms):
        return [os.path.join(home, "bin/java"), "-Xmx64m", "-cp", self.classes[home], "Brief", str(ms)]

    def judge(self, what, verdicts, least_share, others, programs=None):
        if verdicts["wrong"]:
            self.faults.append(f"{what}: {verdicts['wrong']} samples have a chain that does not exist")
        super().judge(what, verdicts, least_share, others, programs)

    def test_short_programs(self):
        def work():
            return {(home, ms): self.run_programs(self.command(home, ms), count) for ms, (count, _) in LENGTHS.items() for home in self.machines}

        ran, samples, others, recording = self.recorded(work)
        print()
        for (home, ms), processes in ran.items():
            verdicts = sum((verdicts_of(samples[pid], *times) for pid, times in processes.items()), collections.Counter())
            self.judge(f"Java {self.machines[home]}, programs of {ms} ms", verdicts, LENGTHS[ms][1], others, len(processes))
            if sum(verdicts.values()) < 20:
                self.faults.append(f"Java {self.machines[home]}: too few samples of {len(processes)} programs of {ms} ms: {dict(verdicts)}")
        for ms in LENGTHS:
            self.say_whether_judged(f"programs of {ms} ms", others)
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
        late = self.began_late(recording)
        for home, process in running.items():
            verdicts = verdicts_of(samples[process.pid], 0, float("inf"))
            self.judge(f"Java {self.machines[home]}, from the first sample on", verdicts, RUNNING_SHARE, others=short_programs.OTHERS_MAX if late else 0)
            if sum(verdicts.values()) < 20:
                self.faults.append(f"Java {self.machines[home]}: too few samples: {dict(verdicts)}")
        self.assert_none(self.faults, recording)


if __name__ == "__main__":
    lib.main()
