# SPDX-License-Identifier: Apache-2.0
"""JavaScript stacks: a program that knows its chains (node/known_chain.js), in every Node of this machine and in each of V8's tiers.

BULKHEAD_NODES: more programs "node", separated by colons; "only:" in front: no others.
"""
import collections
import contextlib
import os
import re
import shutil
import subprocess

import lib
import otlp_decode

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "node/known_chain.js")
VERSIONS = (20, 22, 24, 26)  # those that are supported
INTERPRETER = ["--no-opt", "--no-sparkplug", "--no-maglev"]
BASELINE = ["--no-opt", "--no-maglev", "--always-sparkplug"]
MAGLEV = ["--maglev", "--no-turbofan"]
MODES = [[], INTERPRETER, BASELINE, MAGLEV]
LEAST_SHARE = 0.99
WARM_UP_SECONDS = 1.5  # of CPU time: until V8 has compiled what is called often
BEFORE_MAX = 0.15  # of samples that were taken before the process was attached

with open(PROGRAM, encoding="ascii") as source:
    LINES = source.read().split("\n")


def line(text):
    """The number of the only line that contains this."""
    found = [number for number, content in enumerate(LINES, 1) if text in content]
    assert len(found) == 1, (text, found)
    return found[0]


SPIN = ("spin", range(line("function spin"), line("function spin") + 5))


def frame(name, text):
    return (name, [line(text)])


RECURSE = frame("recurse", "function recurse")
# Innermost first, up to main.
CHAINS = {
    "plain": [SPIN, frame("inlinedThree", "function inlinedThree"), frame("inlinedTwo", "function inlinedTwo"), frame("plain", "function plain")],
    "closure": [SPIN, frame("(anonymous)", "const closure")],
    "class": [SPIN, frame("area", "area() {"), frame("of", "static of")],
    "generator": [SPIN, frame("values", "function* values"), frame("generator", "function generator")],
    "mapped": [SPIN, frame("(anonymous)", "function mapped"), frame("mapped", "function mapped")],
    "replaced": [SPIN, frame("(anonymous)", "function replaced"), frame("replaced", "function replaced")],
    "depth 20": [SPIN, *[RECURSE] * 20, frame("depth20", "function depth20")],
    "depth 300": [SPIN, *[RECURSE] * 300, frame("depth300", "function depth300")],
}
MAIN = frame("async main", "part(3000)")
# Maglev's own table of positions may keep the position of an earlier statement of a loop (seen in V8 13.6 and 14.6).
MAIN_IN_MAGLEV = (MAIN[0], range(line("async function main"), line("part(3000)") + 2))
AWAITED = [SPIN, frame("async awaited", "async function awaited")]  # main has returned meanwhile


def version_of(node):
    with contextlib.suppress(OSError, subprocess.SubprocessError, ValueError):
        said = subprocess.run([node, "-p", "process.versions.node"], capture_output=True, text=True, timeout=60, check=True).stdout
        return int(said.split(".")[0])
    return None


def machines():
    """{program: version} of each supported Node here."""
    more = os.environ.get("BULKHEAD_NODES", "")
    programs = [program for program in more.removeprefix("only:").split(":") if program]
    if not more.startswith("only:") and shutil.which("node"):
        programs.append(os.path.realpath(shutil.which("node")))
    found = {program: version_of(program) for program in programs}
    return {program: version for program, version in sorted(found.items()) if version in VERSIONS}


def javascript(sample):
    """[(function, file, line)] of a decoded sample, innermost first."""
    return [(entry["name"], entry["filename"], entry["line"])
            for location in sample["stack"] if location["frame_type"] == "v8js" for entry in location["lines"]]


def is_chain(frames, chain):
    return len(frames) == len(chain) and all(
        name == wanted and file == PROGRAM and at in lines for (name, file, at), (wanted, lines) in zip(frames, chain))


def verdict(sample, main):
    """The name of the part whose chain the sample has exactly, or what it has instead. None: spin was not running."""
    frames = javascript(sample)
    if not frames or frames[0][0] != "spin":
        return None
    names = [name for name, _, _ in frames]
    if MAIN[0] not in names:
        return "awaited" if is_chain(frames[:2], AWAITED) and names[2:] in ([], ["processTicksAndRejections"]) else f"no main: {frames[:4]}"
    at = names.index(MAIN[0])
    for part, chain in CHAINS.items():
        if is_chain(frames[:at + 1], [*chain, main]):
            return part
    return f"{at} frames to main: {frames[:4]} ... {frames[max(at - 2, 0):at + 1]}"


def is_before(sample):
    """Whether the process was not attached yet: the interpreter's own builtins are shown."""
    names = [entry["name"] for location in sample["stack"] for entry in location["lines"]]
    return not javascript(sample) and any(re.search("Interpreter|Handler|anonymous code", name) for name in names)


class Node(lib.Case):
    @classmethod
    def setUpClass(cls):
        cls.machines = machines()
        for node, version in cls.machines.items():
            print(f"Node {version}: {node}", flush=True)
        missing = [str(version) for version in VERSIONS if version not in cls.machines.values()]
        if missing:
            print(f"NOT TESTED: no Node {', '.join(missing)} on this machine", flush=True)

    @contextlib.contextmanager
    def program(self, node, options):
        seconds = str((WARM_UP_SECONDS + 4) * lib.STRETCH + lib.PATIENCE)
        command = [node, *options, "--stack-size=4000", PROGRAM, seconds]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            try:
                self.assertEqual(process.stdout.readline(), "started\n")
                with lib.Process(process.pid) as busy:
                    self.wait_for_cpu_time(busy, WARM_UP_SECONDS)
                    yield process
            finally:
                process.kill()

    def check(self, node, options):
        with self.program(node, options) as process:
            recording = self.record("-p", process.pid, seconds=3, freq=499, outputs=("out.folded", "out.otlp"))
        with open(recording.path("out.otlp"), "rb") as f:
            samples = otlp_decode.decode(otlp_decode.request(f.read()))
        verdicts, before = collections.Counter(), 0
        for sample in samples:
            count = max(1, len(sample["timestamps"]))
            before += count * is_before(sample)
            verdicts[verdict(sample, MAIN_IN_MAGLEV if options is MAGLEV else MAIN)] += count
        del verdicts[None]
        total, right = sum(verdicts.values()), sum(verdicts[part] for part in [*CHAINS, "awaited"])
        print(f"  {' '.join(options) or 'all tiers'}: {right} of {total} samples have the known chain", flush=True)
        self.assertLess(before, BEFORE_MAX * (total + before), recording.describe())
        faults = [f"{count} x {what}" for what, count in verdicts.most_common() if what not in (*CHAINS, "awaited")]
        if total < 50 or right < LEAST_SHARE * total:
            self.assert_none([f"{right} of {total} right", *faults[:5]], recording)
        for part in [*CHAINS, "awaited"]:
            self.assertGreater(verdicts[part], 0, f"samples of {part}")

    def test_known_chains(self):
        if not self.machines:
            self.skip("no Node on this machine")
        for node, version in self.machines.items():
            for options in MODES:
                if options is MAGLEV and version < 22:
                    continue
                with self.subTest(node=node, options=options):
                    self.check(node, options)


if __name__ == "__main__":
    lib.main()
