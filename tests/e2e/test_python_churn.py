# SPDX-License-Identifier: Apache-2.0
"""Never a wrong name: functions are created, called once and dropped, in the memory of their predecessors. No sample shows one that did not run at that time.
If a function ran for seconds, its name may remain for a moment (bpf/runtime/method_cache.h)."""
import bisect
import collections
import os
import signal

import lib
import pythons

SECONDS = int(os.environ.get("BULKHEAD_CHURN_SECONDS", "20"))
FREQ = 997
EACH, EACH_SECONDS = 3.2, 10  # how long a function runs until the method cache trusts it, and all together
MOMENT_NS = 1000000000
NOT_NAMED_MAX = 0.02  # names of code that is freed soon are copied when it is sampled (bpf/sample/new_code.h)


class Calls:
    """What a process of churn.py was doing at which time."""

    def __init__(self, said):
        self.calls = sorted(tuple(call) for call in said["calls"])
        self.starts = [call[0] for call in self.calls]
        self.tail = [tuple(frame) for frame in said["tail"]]
        self.first, self.last = self.calls[0][0], self.calls[-1][1]

    def at(self, ns, error_ns):
        """The calls in which a sample of this time may be: one, or two consecutive ones."""
        low = max(bisect.bisect_right(self.starts, ns - error_ns) - 1, 0)
        high = bisect.bisect_right(self.starts, ns + error_ns)
        return [call for call in self.calls[low:high] if call[0] - error_ns <= ns <= call[1] + error_ns]

    @staticmethod
    def frames(sample):
        found = pythons.python_frames(sample)
        return found[1:] if found and found[0].file == "<wait>" else found

    def during(self, samples, error_ns):
        return [s for s in samples if self.first + error_ns <= s.ns <= self.last - error_ns]

    def since_before(self, sample, error_ns):
        """For a sample that shows the previous function: for how many ns that function had not been running. None for any other sample."""
        at = bisect.bisect_right(self.starts, sample.ns + error_ns) - 1
        frame = self.frames(sample)[0]
        return sample.ns - self.calls[at][0] if at and (frame.name, frame.file) == self.calls[at - 1][2:4] else None

    def verdict(self, sample, error_ns):
        """"right", "not named", or the fault. "between": the sample is in no call of a created function."""
        found = self.frames(sample)
        if any(f.python == "cut" for f in sample.frames):
            return "cut"
        if not found:
            return "no Python frames"
        # The outermost functions are not what is tested here: one without a name is taken for the one that must be there.
        for at, known in enumerate(self.tail[::-1], start=1):
            if at <= len(found) and found[-at].name.startswith(pythons.UNNAMED):
                found[-at] = pythons.Frame("python", *known)
        own = next((at for at, f in enumerate(found) if f.file == self.tail[0][1]), len(found))
        made, tail = found[:own], [(f.name, f.file, f.line) for f in found[own:]]
        said = f"wrong: {pythons.show(found)}"
        if made and all(frame.name.startswith(pythons.UNNAMED) for frame in made):
            return "not named"
        if len(made) > 1 and made[-1].name != "<module>":
            return said
        if tail[-2:] != self.tail[-2:]:
            names = [name for name, _, _ in tail]
            return "without its outermost frames" if names in (["churn", "main"], ["shape", "churn", "main"], ["shape", "churn"]) else said
        calls = self.at(sample.ns, error_ns)
        if not made:
            # in the rest of the loop, or at the call
            return "between" if [name for name, _, _ in tail] in (["churn", "main", "<module>"], ["shape", "churn", "main", "<module>"]) else said
        frame = made[0]
        if frame.name.startswith(pythons.UNNAMED):
            return "not named"
        if made[-1].name == "<module>":
            # in the code that creates the next function
            after = self.calls[bisect.bisect_right(self.starts, sample.ns - error_ns):][:2]
            return "between" if any(frame.file == file for _, _, _, file, _ in after) else f"{said} before {after[:1]}"
        if tail != self.tail:
            return said
        for _, _, name, file, line in calls:
            if (frame.name, frame.file) == (name, file) and line <= frame.line <= line + 3:
                return "right"
        return f"wrong: {frame.name} {frame.file}:{frame.line} instead of {[call[2:] for call in calls]}"


class Churn(lib.Case):
    def churn(self, seconds, *args):
        """(samples by process, what the programs wrote, their interpreters, the error of times, the recording)"""
        with pythons.Clocks() as clocks, pythons.Running("churn.py", seconds, *args) as running:
            if not running.interpreters:
                self.skip("no CPython on this machine")
            process = self.start(seconds=None, freq=FREQ, outputs=("out.folded", "out.otlp"), debug=True)
            self.wait_until_recording(process)
            self.wait_until_attached(process, running.processes)
            running.go()
            self.wait_for("what the programs know", running.finished, seconds=lib.PATIENCE + seconds)
            process.send_signal(signal.SIGINT)
            recording = self.finish(process)
            said = running.said()
            interpreters = {pid: i for pid, (i, _) in running.processes.items()}
        samples = pythons.samples_of(recording.path("out.otlp"), clocks)
        error_ns = clocks.error_ns()
        print(f"\n  times are known to {error_ns / 1000:.0f} us")
        return samples, said, interpreters, error_ns, recording

    def test_no_wrong_name(self):
        samples, said, interpreters, error_ns, recording = self.churn(SECONDS)
        faults, all_of_them = [], collections.Counter()
        for pid, interpreter in interpreters.items():
            calls = Calls(said[pid])
            inside = calls.during(samples[pid], error_ns)
            verdicts = collections.Counter(calls.verdict(s, error_ns) for s in inside)
            wrong = {verdict: n for verdict, n in verdicts.items() if verdict.startswith("wrong")}
            counts = collections.Counter({verdict: n for verdict, n in verdicts.items() if verdict not in wrong})
            counts["wrong"] = sum(wrong.values())
            all_of_them += counts
            print(f"  {interpreter.name}: {len(calls.calls)} functions, {len(inside)} samples: " + ", ".join(f"{n} {v}" for v, n in sorted(counts.items())))
            faults += [f"{interpreter.name}: {n} x {verdict}" for verdict, n in sorted(wrong.items(), key=lambda item: -item[1])[:5]]
            if counts["not named"] > NOT_NAMED_MAX * len(inside):
                faults.append(f"{interpreter.name}: {counts['not named']} of {len(inside)} samples are not named")
            if counts["right"] + counts["not named"] + counts["between"] < 0.99 * len(inside):
                faults.append(f"{interpreter.name}: less than 99 % of the stacks are complete")
            # otherwise the test would prove nothing
            if counts["right"] < 20:
                faults.append(f"{interpreter.name}: only {counts['right']} samples are named")
        print(f"  together {sum(all_of_them.values())} samples, {all_of_them['wrong']} wrong")
        self.assert_none(faults, recording)

    def test_old_name_is_soon_gone(self):
        samples, said, interpreters, error_ns, recording = self.churn(EACH_SECONDS, EACH)
        faults = []
        for pid, interpreter in interpreters.items():
            calls = Calls(said[pid])
            inside = calls.during(samples[pid], error_ns)
            verdicts = [calls.verdict(s, error_ns) for s in inside]
            right = verdicts.count("right")
            wrong = [(verdict, calls.since_before(s, error_ns)) for s, verdict in zip(inside, verdicts) if verdict.startswith("wrong")]
            longest_ms = max((age or 0 for _, age in wrong), default=0) / 1e6
            print(f"  {interpreter.name}: {len(calls.calls)} functions, {len(inside)} samples: {right} right, {len(wrong)} with the name before, for {longest_ms:.0f} ms")
            faults += [f"{interpreter.name}: {verdict}, {age}" for verdict, age in wrong if age is None or age > MOMENT_NS][:5]
            if right < 0.8 * len(inside) or len(calls.calls) < 3:
                faults.append(f"{interpreter.name}: only {right} of {len(inside)} samples are right, of {len(calls.calls)} functions")
        self.assert_none(faults, recording)


if __name__ == "__main__":
    lib.main()
