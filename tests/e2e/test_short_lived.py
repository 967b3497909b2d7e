# SPDX-License-Identifier: Apache-2.0
"""Short processes, which end before a role can read their files, have complete stacks with names."""
import re
import signal
import subprocess
import sys
import threading

import lib

CHAIN = lib.Expectation({"chains": [[{"re": r"\[?vdso.*|.*clock_gettime.*|libc\.so\.6.*", "min": 0, "max": 3},
                                     "short5", "short4", "short3", "short2", "short1", "main", "@start"]]})
# Stacks before main (in ld.so, whose functions have no names), in main, and during exit.
OUTSIDE = lib.Expectation({"chains": [
    [{"re": r"(?!main$|short\d).+", "min": 0, "max": 20}, {"re": r"_start|_dl_start_user|ld-linux.*"}],
    [{"re": r"(?!short\d).+", "min": 0, "max": 20}, "main", "@start"],
]})
# Kernel functions in which a process has no user stack of its own: during exec and exit.
NO_STACK = re.compile(r"(.*execve.*|.*bprm.*|begin_new_exec|load_elf_binary|do_exit|do_group_exit|make_task_dead|ret_from_fork.*|schedule_tail)_\[k\]")


def complete(sample):
    frames = lib.user_frames(sample.frames)
    if not frames or len(frames) == 1 and frames[0].startswith(lib.CUT):
        return any(NO_STACK.fullmatch(f) for f in sample.frames)
    return CHAIN.matches(sample) or OUTSIDE.matches(sample)


def run_lanes(count, ms):
    """Runs two at a time, so that both CPUs are busy."""
    def lane():
        for _ in range(count // 2):
            subprocess.run([f"{lib.PROGRAMS}/short", str(ms)], check=True)
    lanes = [threading.Thread(target=lane) for _ in range(2)]
    for thread in lanes:
        thread.start()
    for thread in lanes:
        thread.join()


class ShortLived(lib.Case):
    def check(self, recording, what, least_share, least_samples):
        self.assert_accounted(recording)
        samples = recording.of("short")  # selected by comm, so from exec to exit
        total = sum(s.count for s in samples)
        good = sum(s.count for s in samples if complete(s))
        burning = [s for s in samples if any(f.startswith("short") for f in lib.user_frames(s.frames))]
        print(f"{what}: {total} samples, {good} complete, {sum(s.count for s in burning)} of them in the chain")
        faults = lib.compare(burning, CHAIN, least_share, least_samples)
        if good < least_share * total:
            faults.append(f"{good} of {total} samples complete, expected {100 * least_share:.0f} %")
            faults += [f"  incomplete {s.count} x {lib.show(s.frames)}" for s in sorted(samples, key=lambda s: -s.count) if not complete(s)][:8]
        self.assert_none(faults, recording)

    def whole_machine(self, ms, *bounds):
        process = self.start(seconds=120, freq=99)
        self.wait_until_recording(process)
        run_lanes(200, ms)
        process.send_signal(signal.SIGINT)
        self.check(self.finish(process), f"200 x {ms} ms", *bounds)

    def test_20_ms(self):
        self.whole_machine(20, 0.95, 200)

    def test_5_ms(self):
        self.whole_machine(5, 0.90, 40)

    def test_20_ms_children_of_the_command(self):
        recording = self.record(seconds=None, freq=99, command=["/usr/bin/python3", "-B", __file__, "lanes", "200", "20"])
        self.check(recording, "200 x 20 ms below the command", 0.95, 200)


if __name__ == "__main__":
    if sys.argv[1:2] == ["lanes"]:
        run_lanes(*map(int, sys.argv[2:]))
    else:
        lib.main()
