# SPDX-License-Identifier: Apache-2.0
"""JavaScript stacks: a program that knows its chains (node/known_chain.js), in every Node of this machine and in each of V8's tiers.

BULKHEAD_NODES: more programs "node", separated by colons; "only:" in front: no others.
"""
import collections
import contextlib
import json
import os
import re
import subprocess

import lib
import otlp_decode

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "node/known_chain.js")
VERSIONS = (20, 22, 24, 26)  # those that are supported
INTERPRETER = ["--no-opt", "--no-sparkplug", "--no-maglev"]
BASELINE = ["--no-opt", "--no-maglev", "--always-sparkplug"]
MAGLEV = ["--maglev", "--no-turbofan"]
# Where %GetOptimizationStatus says that a function has code of the tier (OptimizationStatus in src/runtime/runtime.h; V8 14 lacks
# kAlwaysOptimize, the third).
TIERS = {
    "TurboFan": {20: 6, 22: 6, 24: 6, 26: 5},
    "the interpreter": {20: 7, 22: 7, 24: 7, 26: 6},
    "Sparkplug": {20: 15, 22: 15, 24: 15, 26: 14},
    "Maglev": {24: 5, 26: 4},  # earlier Nodes are built without it
}
# Options of Node, arguments of the program, the tier that its functions reach.
MODES = {
    "all tiers": ([], [], "TurboFan"),
    "interpreter": (INTERPRETER, [], "the interpreter"),
    "baseline": (BASELINE, [], "Sparkplug"),
    "Maglev": (MAGLEV, [], "Maglev"),
    "worker thread": ([], ["worker"], "TurboFan"),
    # With less than 2 GiB V8 does not map its builtins a second time.
    "small heap": (["--max-old-space-size=512"], [], "TurboFan"),
    "worker thread, small heap": (["--max-old-space-size=512"], ["worker"], "TurboFan"),
}
LEAST_SHARE = 0.99
GC_STRESS = ["--stress-compaction", "--gc-interval=2000"]
GC_SAMPLES = int(os.environ.get("BULKHEAD_GC_SAMPLES", "500"))
GC_LEAST_SHARE = 0.5  # code that was moved before it was read has no inlined functions: 64 to 81 % in Node 26, above 92 % in the others
REAL = os.path.join(HERE, "node/real_programs.js")
ACORN = "node:internal/deps/acorn/acorn/dist/acorn"
# Of each part of REAL, which JavaScript frames are in it, innermost first, and in which share of the samples. None: not known.
REAL_INNER = {"parsed": None, "matched": ["[regular expression]"], "revived": ["heavy", "(anonymous)"], "written": ["heavy", "toJSON"]}
REAL_LEAST = {"parsed": 0.99, "matched": 0.95, "revived": 0.8, "written": 0.9}
WARM_UP_SECONDS = 1.5  # of CPU time: until V8 has compiled what is called often

with open(PROGRAM, encoding="ascii") as source:
    LINES = source.read().split("\n")


def line(text):
    return lib.only_line(LINES, text)


SPIN = ("spin", range(line("function spin"), line("function spin") + 6))


def frame(name, text):
    return (name, [line(text)])


RECURSE = frame("recurse", "function recurse")
WASM = ("[WebAssembly]", [0])  # some frames: V8 inlines functions of WebAssembly, too
# Innermost first, up to main.
CHAINS = {
    "plain": [SPIN, frame("inlinedThree", "function inlinedThree"), frame("inlinedTwo", "function inlinedTwo"), frame("plain", "function plain")],
    "inlined 20": [SPIN, *[frame(f"n{i}", f"function n{i}(") for i in range(1, 21)]],
    "closure": [SPIN, frame("(anonymous)", "const closure")],
    "class": [SPIN, frame("Shape.area", "area() {"), frame("Shape.of", "static of")],
    "getter": [SPIN, frame("Shape.get size", "get size"), frame("sized", "function sized")],
    "private": [SPIN, frame("Shape.#hidden", "#hidden() {"), frame("Shape.shown", "shown() {"), frame("hidden", "function hidden")],
    "constructor": [SPIN, frame("new Cube", "constructor(rounds) { super"), frame("built", "function built")],
    "async method": [SPIN, frame("async Cube.load", "async load"), frame("loaded", "function loaded")],
    "generator": [SPIN, frame("values", "function* values"), frame("generator", "function generator")],
    "mapped": [SPIN, frame("(anonymous)", "function mapped"), frame("mapped", "function mapped")],
    "replaced": [SPIN, frame("(anonymous)", "function replaced"), frame("replaced", "function replaced")],
    "depth 20": [SPIN, *[RECURSE] * 20, frame("depth20", "function depth20")],
    "depth 300": [SPIN, *[RECURSE] * 300, frame("depth300", "function depth300")],
    "wasm 20": [SPIN, frame("fromWasm", "function fromWasm"), WASM, frame("wasm20", "function wasm20")],
    "wasm 300": [SPIN, frame("fromWasm", "function fromWasm"), WASM, frame("wasm300", "function wasm300")],
}
PARTS = list(CHAINS)  # in the order of the program
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
    found = {program: version_of(program) for program in lib.programs("BULKHEAD_NODES", "node")}
    return {program: version for program, version in sorted(found.items()) if version in VERSIONS}


def javascript(sample):
    """[(function, file, line)] of a decoded sample, innermost first. Successive frames of WebAssembly are one."""
    frames = [(entry["name"], entry["filename"], entry["line"])
              for location in sample["stack"] if location["frame_type"] == "v8js" for entry in location["lines"]]
    return [one for one, before in zip(frames, [None, *frames]) if one[0] != WASM[0] or one != before]


def is_chain(frames, chain):
    return len(frames) == len(chain) and all(
        name == wanted and file == ("" if wanted == WASM[0] else PROGRAM) and at in lines
        for (name, file, at), (wanted, lines) in zip(frames, chain))


def verdict(sample, main):
    """The name of the part whose chain the sample has exactly, or what it has instead. None: spin was not running."""
    frames = javascript(sample)
    if not frames or frames[0][0] != "spin":
        return None
    names = [name for name, _, _ in frames]
    if "async tell" in names:
        return None
    if MAIN[0] not in names:
        return "awaited" if is_chain(frames[:2], AWAITED) and names[2:] in ([], ["processTicksAndRejections"]) else f"no main: {frames[:4]}"
    at = names.index(MAIN[0])
    for part, chain in CHAINS.items():
        if is_chain(frames[:at + 1], [*chain, main]):
            return part
    return f"{at} frames to main: {frames[:4]} ... {frames[max(at - 2, 0):at + 1]}"


def stack_of_error(text):
    """[(function, line)] of an Error.stack, innermost first, up to tell(). Functions of V8 itself have no line."""
    found = []
    for entry in text.split("\n")[1:]:
        match = re.fullmatch(r" +at (?:(.*) \()?(.*?):(\d+):\d+\)?", entry)
        # "async f" waits for the function before; it is not on the stack.
        if match and match[1] and (match[1] == "tell" or match[1].startswith("async ")):
            break
        if match and match[2] == PROGRAM:
            found.append((re.sub(r" \[as .*\]$", "", match[1] or "(anonymous)"), int(match[3])))
    return found


def agrees(name, said):
    """Whether a name is the one that Error.stack has, which leaves out "async", and the class of getters and private and static methods."""
    name = name.removeprefix("async ")
    return name == said or name.endswith(f".{said}")


def is_before(sample):
    """Whether the process was not attached yet: the interpreter's own builtins are shown."""
    names = [entry["name"] for location in sample["stack"] for entry in location["lines"]]
    return not javascript(sample) and any(re.search("Interpreter|Handler|anonymous code", name) for name in names)


def short_names(name):
    """The parts of a name that a call of the function contains."""
    return [part for part in re.split(r"[. ]", name) if part not in ("async", "new", "get", "set", "")]


def calls(frames, sources):
    """(pairs whose caller's line contains the name of the callee, pairs) of a stack, where both are in these sources."""
    right = total = 0
    for (callee, callee_file, _), (_, file, at) in zip(frames, frames[1:]):
        if file not in sources or callee_file not in sources or callee == "(anonymous)":
            continue
        total += 1
        text = sources[file][at - 1] if 0 < at <= len(sources[file]) else ""
        right += any(part in text for part in short_names(callee))
    return right, total


def is_part_of(frames, chain):
    """Whether the frames are in the chain, in this order; nothing else is between them but what is not known."""
    rest = iter(chain)
    return all(any(name == wanted and file == PROGRAM and (not at or at in lines) for wanted, lines in rest)
               for name, file, at in frames if not name.startswith("["))


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
    def program(self, node, options, arguments, samples=1000, wrapper=()):
        seconds = str((WARM_UP_SECONDS + 4 + samples / 100) * lib.STRETCH + lib.PATIENCE)
        command = [*wrapper, node, *options, "--allow-natives-syntax", "--stack-size=4000", PROGRAM, seconds, self.told(), *arguments]
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.told())
        with self.started(*command, stderr=subprocess.DEVNULL) as process:
            self.wait_for_cpu_time(lib.Process(process.pid), WARM_UP_SECONDS)
            yield process

    def told(self):
        return os.path.join(self.directory, "told.json")

    def check_told(self, version, tier):
        """V8 itself: Error.stack of each part is the known chain, and the functions have code of the tier."""
        with open(self.told(), encoding="utf-8") as f:
            told = json.load(f)
        for part, text in zip([*PARTS, "awaited"], told["stacks"], strict=True):
            wanted = [one for one in CHAINS.get(part, AWAITED) if one is not WASM]
            said = stack_of_error(text)
            same = len(said) == len(wanted) and all(agrees(name, has) and at in lines for (name, lines), (has, at) in zip(wanted, said))
            self.assertTrue(same, f"{part}: Error.stack has {said[:6]}, not {wanted[:6]}")
        # tell() makes V8 compile spin() again, and it may be inlined wherever it is called.
        reached = {function for function, status in told["status"].items() if status >> TIERS[tier][version] & 1}
        self.assertTrue("recurse" in reached and reached & {"spin", "inlinedThree"}, f"not all in {tier}: {told['status']}")

    def samples(self, process):
        recording = self.record("-p", process.pid, seconds=3, freq=499, outputs=("out.folded", "out.otlp"))
        return recording, otlp_decode.read(recording.path("out.otlp"))

    def check(self, node, version, mode, wrapper=()):
        options, arguments, tier = MODES[mode]
        with self.program(node, options, arguments, wrapper=wrapper) as process:
            recording, samples = self.samples(process)
        self.check_told(version, tier)
        verdicts = collections.Counter()
        # Where all tiers are allowed, main may be in code of Maglev.
        main = MAIN_IN_MAGLEV if version in TIERS["Maglev"] and tier in ("Maglev", "TurboFan") else MAIN
        for sample in samples:
            verdicts[verdict(sample, main)] += max(1, len(sample["timestamps"]))
        del verdicts[None]
        total, right = sum(verdicts.values()), sum(verdicts[part] for part in [*CHAINS, "awaited"])
        print(f"  {version}, {mode}: {right} of {total} samples have the known chain", flush=True)
        self.assertLess(otlp_decode.lost_names(samples, javascript, is_before), (1 - LEAST_SHARE) * total, recording.describe())
        faults = [f"{count} x {what}" for what, count in verdicts.most_common() if what not in (*CHAINS, "awaited")]
        if total < 50 or right < LEAST_SHARE * total:
            self.assert_none([f"{right} of {total} right", *faults[:5]], recording)
        for part in [*CHAINS, "awaited"]:
            self.assertGreater(verdicts[part], 0, f"samples of {part}")
        return [sample for sample in samples if verdict(sample, main) == "mapped"]

    def test_known_chains(self):
        if not self.machines:
            self.skip("no Node on this machine")
        for node, version in self.machines.items():
            for mode in MODES:
                if version not in TIERS[MODES[mode][2]]:
                    continue
                with self.subTest(node=node, mode=mode):
                    self.check(node, version, mode)

    def test_stripped(self):
        """Without symbols, as in Debian's packages, V8 is found by its contents."""
        for node, version in self.machines.items():
            stripped = os.path.join(self.directory, "node")
            subprocess.run(["strip", "-o", stripped, node], check=True)
            for mode in ("baseline", "small heap"):
                with self.subTest(node=node, mode=mode):
                    mapped = self.check(stripped, version, mode)
                    # Code of the optimizing compilers has it inlined.
                    if mode == "baseline":
                        self.check_builtins(mapped)

    def test_copied_builtins(self):
        """Where a process has no /proc, V8 copies its builtins to memory without a file, once for each isolate."""
        wrapper = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh")
        for node, version in self.machines.items():
            for mode in ("all tiers", "worker thread"):
                with self.subTest(node=node, mode=mode):
                    self.check(node, version, mode, wrapper)

    def check_builtins(self, samples):
        """V8's own functions have their names: Array.prototype.map, from C++ to JavaScript, and all others."""
        for sample in samples:
            frames = [(location["frame_type"], location["lines"][0]["name"] if location["lines"] else "") for location in sample["stack"]]
            names = [name for _, name in frames]
            first, last = names.index("(anonymous)"), names.index("mapped")
            self.assertEqual(names[first + 1:last], ["Builtins_ArrayMap"], names)
            main = names.index(MAIN[0])
            builtins = [name for kind, name in frames[main + 1:] if kind == "native" and name.startswith("Builtins_")]
            self.assertEqual(builtins[-2:], ["Builtins_JSEntryTrampoline", "Builtins_JSEntry"], names)

    def check_real(self, node, version):
        source = os.path.join(self.directory, "acorn.js")
        command = [node, "--expose-internals", REAL, str((WARM_UP_SECONDS + 6) * lib.STRETCH + lib.PATIENCE), source]
        with self.started(*command, stderr=subprocess.DEVNULL) as process:
            self.wait_for_cpu_time(lib.Process(process.pid), 2 * WARM_UP_SECONDS)
            recording, samples = self.samples(process)
        sources = {}
        for name, path in ((REAL, REAL), (ACORN, source)):
            with open(path, encoding="utf-8") as f:
                sources[name] = f.read().split("\n")
        parts, good, faults = collections.Counter(), collections.Counter(), collections.Counter()
        right = total = 0
        for sample in samples:
            frames, count = javascript(sample), max(1, len(sample["timestamps"]))
            names = [name for name, _, _ in frames]
            if "main" not in names or names.index("main") == 0:
                continue
            part = names[names.index("main") - 1]
            inner = names[:names.index("main") - 1]
            parts[part] += count
            good[part] += count * (REAL_INNER[part] in (None, inner) if part in REAL_INNER else 0)
            faults[(part, *inner[:4])] += count * (part not in REAL_INNER or REAL_INNER[part] not in (None, inner))
            has, of = calls(frames[:names.index("main")], sources)
            right, total = right + has * count, total + of * count
        print(f"  {version}, real programs: {dict(parts)}, as expected {dict(good)}; {right} of {total} callers' lines contain the call", flush=True)
        self.assertEqual(set(parts), set(REAL_INNER), faults.most_common(5))
        for part, count in good.items():
            self.assertGreater(count, REAL_LEAST[part] * parts[part], (part, faults.most_common(5)))
        self.assertGreater(right, LEAST_SHARE * total, recording.describe())
        self.assertGreater(total, parts["parsed"], "calls in acorn")

    def test_real_programs(self):
        for node, version in self.machines.items():
            with self.subTest(node=node):
                self.check_real(node, version)

    def test_no_wrong_names_when_objects_move(self):
        """The collector runs all the time and moves all objects. Frames may be missing, but never be another function's."""
        for node, version in self.machines.items():
            with self.subTest(node=node), self.program(node, GC_STRESS, [], GC_SAMPLES) as process:
                right = total = 0
                wrong = collections.Counter()
                recording = None
                while total < GC_SAMPLES:
                    self.assertIsNone(process.poll(), f"node ended after {total} of {GC_SAMPLES} samples. {recording and recording.describe()}")
                    recording, samples = self.samples(process)
                    for sample in samples:
                        frames, count = javascript(sample), max(1, len(sample["timestamps"]))
                        names = [name for name, _, _ in frames]
                        if "spin" not in names[:2] or MAIN[0] not in names or "async tell" in names:
                            continue
                        total += count
                        frames = frames[:names.index(MAIN[0])]
                        right += count * any(is_chain(frames, chain) for chain in CHAINS.values())
                        if not any(is_part_of(frames, chain) for chain in CHAINS.values()):
                            wrong[str(frames[:6])] += count
                print(f"  {version}, stress of the collector: {right} of {total} samples have the known chain, {sum(wrong.values())} a wrong one", flush=True)
                self.assertFalse(wrong, wrong.most_common(5))
                self.assertGreater(right, GC_LEAST_SHARE * total)


if __name__ == "__main__":
    lib.main()
