# SPDX-License-Identifier: Apache-2.0
"""Java's stacks: a program that knows its chains (java/KnownChain.java), in every JDK of this machine and every way of running it.

BULKHEAD_JAVA_COUNT: how many JDKs, the oldest first (all). BULKHEAD_JAVA_WAYS: in how many ways each is run (all).
"""
import bisect
import collections
import contextlib
import os
import re
import shutil
import subprocess
import zipfile

import javas
import lib
import otlp_decode
import pythons

HERE = os.path.dirname(os.path.abspath(__file__))
VERSIONS = (8, 11, 17, 21, 25)  # the releases with long-term support
INTERPRETED = ["-Xint"]
MODES = [[], INTERPRETED, ["-XX:TieredStopAtLevel=1"], ["-XX:-TieredCompilation"], ["-XX:+UseParallelGC"], ["-XX:-UseCompressedOops"],
         ["-XX:ReservedCodeCacheSize=64m"]]
MODES_SINCE = {17: [["-XX:+UseZGC"]]}
COUNT = int(os.environ.get("BULKHEAD_JAVA_COUNT", "100"))
WAYS = int(os.environ.get("BULKHEAD_JAVA_WAYS", "100"))
LEAST_SHARE = 0.99
WARM_UP_SECONDS = 3  # CPU time after which the VM has compiled what is called often

WORK = "KnownChain.work(long)"
RECURSION = {"name": "KnownChain.recurse(int, long)", "times": 301}
THROWING = {"name": "KnownChain.throwing(int, long)", "times": 4}
NATIVE = {"re": r"[^(]*|.*::.*", "min": 1, "max": 12}
# The frames of each part from its own method on, outermost first.
PARTS = {
    "static": ["KnownChain.runStatic(long)", "KnownChain.staticOuter(long, String)", "KnownChain.staticInner(long[], String)", WORK],
    "virtual": ["KnownChain.runVirtual(long)", "KnownChain$Derived.size(long)", WORK],
    "interface": ["KnownChain.runInterface(long)", "KnownChain$Derived.area(long)", WORK],
    "lambda": ["KnownChain.runLambda(long)", {"re": r"KnownChain\$\$Lambda(\$\d+)?\.applyAsLong\(long\)"},
               {"re": r"KnownChain\.lambda\$runLambda\$\d\(long\)"}, WORK],
    "inlined": ["KnownChain.runInlined(long)", "KnownChain.inlinedOne(long)", "KnownChain.inlinedTwo(long)", "KnownChain.inlinedThree(long)"],
    "recursion": ["KnownChain.runRecursion(long)", RECURSION, WORK],
    "exception": ["KnownChain.runException(long)", THROWING, WORK],
    "native": ["KnownChain.runNative(long)", "KnownChain.callBack(long)", "Java_KnownChain_callBack", NATIVE, "[call_stub]",
               "KnownChain.calledBack(long)", WORK],
}
RUN = ["KnownChain.loop(String[], long)", "KnownChain.run(String, long)"]
THREAD = [NATIVE, "[call_stub]", {"re": r"java\.lang\.Thread\.run(With)?\(.*\)", "max": 2}, {"re": r"KnownChain\$\$Lambda(\$\d+)?\.run\(\)"},
          {"re": r"KnownChain\.lambda\$main\$\d\(.*\)"}]
CARRIERS = ("ForkJoinPool-1-", "ForkJoi..rker-1")  # comm of the carrier thread: up to JDK 25, and from 26 on
CARRIER = [NATIVE, "[call_stub]", {"re": r"java\.util\.concurrent\..*", "max": 12}, {"re": r"java\.lang\.VirtualThread.*", "max": 3},
           {"re": r"jdk\.internal\.vm\.Continuation\.run\(\)"}]
# The outer frames of a virtual thread are on the carrier's stack, or one frame stands for all of them.
MOUNTED = [{"re": r"\[frozen frames\]|jdk\.internal\.vm\..*|java\.lang\..*|KnownChain\$\$Lambda.*|KnownChain\.lambda.*", "max": 10}]
# The code around the work at the ends of chains: the loop over the parts, calls of the library, exceptions and calls from C that begin or end.
LIBRARY = {"re": r"java\.lang\..*", "min": 0, "max": 8}
AROUND = [
    [RUN[0], LIBRARY],
    [*RUN, LIBRARY],
    [*RUN, "KnownChain.runException(long)", {"name": "KnownChain.throwing(int, long)", "min": 0, "max": 4}, LIBRARY],
    [*RUN, "KnownChain.runNative(long)", "KnownChain.callBack(long)", {"name": "Java_KnownChain_callBack", "min": 0}],
]
AROUND_MAX = 0.05  # the share of samples there: about 1 % of the time, depending on the machine
# What the VM may do at the end of a chain: a safepoint, a signal.
END = [{"re": r"\[.*\]", "min": 0, "max": 1}, {"re": r"[^(]*|.*::.*", "min": 0, "max": 40}]


def has_agents(home):
    """Whether this JDK can run agents. A JRE may lack the module."""
    java = os.path.join(home, "bin/java")
    return javas.version_of(java) == 8 or b"java.instrument" in subprocess.run([java, "--list-modules"], capture_output=True, timeout=60, check=True).stdout


class Version:
    """The version `number` of Changing.java. Its code follows line 100 * (number + 1). All methods differ in length: otherwise a method could not be
    distinguished from one with the same numbers that was at its address before."""
    COUNT = 4

    def __init__(self, number):
        self.number = number
        with open(os.path.join(HERE, "java/Changing.java"), encoding="ascii") as f:
            head, *methods, tail = f.read().split("\t//@ order\n")
        turn = number % len(methods)
        extra = "".join(f"sink += {number * 1000003 + i}L; " for i in range(number))
        methods = [method.replace("//@ extra", extra) for method in methods[turn:] + methods[:turn]]
        self.text = "\n" * (100 * (number + 1)) + "".join([head, *methods, tail])
        self.calls, self.lines = {}, {}
        method = None
        for line, text in enumerate(self.text.split("\n"), 1):
            begun, call = re.match(r"\tstatic void (\w+)", text), re.match(r"\t\t([\w.]+)\(.*\);", text)
            method = begun[1] if begun else method
            if method:
                self.lines.setdefault(method, set()).add(line)
            if call:
                self.calls[call[1].replace("Redefined.", "")] = line

    @staticmethod
    def of(frame):
        return frame.line // 100 - 1

    def fault(self, frame, callee):
        """The fault of a frame of this version that has called the method `callee` (None: it is the innermost frame), or None."""
        method = frame.method.rpartition(".")[2]
        if frame.file != "Changing.java" or (self.calls.get(callee) != frame.line if callee else frame.line not in self.lines[method]):
            return f"{frame.file}:{frame.line} of {method} calls {callee}"
        return None


class Redefinitions:
    """The output of Redefined.java, and which stacks are possible at which time."""

    def __init__(self, said, versions):
        self.versions = versions
        self.done = [tuple(map(int, line.split())) for line in re.findall(r"^\d+ \d+ \d+$", said, flags=re.MULTILINE)]
        self.ends = [end for _, _, end in self.done]

    def verdict(self, ns, error_ns, stack):
        """The verdict on a sample: "right"; "not named", if a name is missing; None, if it does not concern the class; or its fault."""
        methods = [frame.method for frame in stack]
        if not any(method.startswith("Changing") for method in methods):
            return "not named" if any(method.startswith("[Java: ") for method in methods) else None
        first, last = (bisect.bisect_right(self.ends, ns + error) - 1 for error in (-error_ns, error_ns))
        if first < 1 or last + 1 >= len(self.done):
            return None
        faults = [self.fault(at, stack) for at in range(first, last + 1)]
        return faults[0] if all(faults) else "not named" if any(frame.method.startswith("[") for frame in stack) else "right"

    def fault(self, at, stack):
        """The fault of a stack after redefinition number `at`, or None. A method that was running then continues as its old version."""
        (before, _, _), (now, _, _) = self.done[at - 1:at + 1]
        callee = None
        for frame in stack:
            name = frame.method.rpartition(".")[2]
            if not frame.method.startswith("Changing."):
                callee = name
                continue
            version = Version.of(frame)
            if version not in ({now} if name in ("before", "after") or callee == "before" else {before} if callee == "after" else {before, now}):
                return f"{name} of version {version} calls {callee}, at version {now} after {before}"
            fault = self.versions[version].fault(frame, None if callee and callee.startswith("[") else callee)
            if fault:
                return f"version {version}: {fault}"
            callee = name
        return None


# The threads of Dumped.java, and of each the method whose callers stay the same.
DUMPED = {"interpreted": "Dumped.spin", "compiled": "Dumped.spin", "parking": "Dumped.park"}
# For some places in inlined code the VM only knows the outer method. So this method, from which the comparison starts, is not inlined.
APART = ["-XX:CompileCommand=quiet", "-XX:CompileCommand=dontinline,Dumped::spin"]
Frame = collections.namedtuple("Frame", "method file line")  # file: or the word that a dump has instead; line: 0 if there is none


def java_stacks(path):
    """The Java frames of an OTLP file: {name of the thread: {tuple of Frame, leaf first: [Unix time in ns]}}."""
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    for sample in otlp_decode.read(path):
        stack = tuple(Frame(line["name"].split("(")[0], line["filename"], line["line"])
                      for location in sample["stack"] if location["frame_type"] == "jvm" for line in location["lines"] if line["name"] != "[call_stub]")
        found[sample["attributes"].get("thread.name", "")][stack] += sample["timestamps"]
    return found


def dumped_stacks(text):
    """The output of jstack as {name of the thread: tuple of Frame}, without the addresses of hidden classes and without modules."""
    found = {}
    for thread in re.split(r"^(?=\")", text, flags=re.MULTILINE):
        stack = []
        for where, at in re.findall(r"\tat (\S+)\((.*?)\)", thread):
            file, _, line = at.rsplit("/", 1)[-1].partition(":")
            stack.append(Frame(re.sub(r"/(0x[0-9a-f]+|\d+)(?=\.)", "", where).rsplit("/", 1)[-1], file, int(line or 0)))
        if thread.startswith('"'):
            found[thread[1:].split('"')[0]] = tuple(stack)
    return found


def outside_of(method, stack):
    """The frames outside of the innermost call of a method: its callers."""
    at = [frame.method for frame in stack].index(method)
    return stack[at + 1:]


def same_frame(ours, dumped):
    """Whether two frames are equal. A dump has other words where there is no line or no file."""
    return ours.method == dumped.method and ours.line == dumped.line and (ours.file == dumped.file or not dumped.line)


def chains(beginning, *ends):
    return lib.Expectation({"chains": [[*reversed(END), *reversed([*beginning, *end])] for end in ends]})


def is_anonymous(label):
    """Whether it is code of the VM that is not attached: nobody knows what is in its memory."""
    return label.startswith("[anonymous")


def lacks_names(sample):
    return any(is_anonymous(label) for frame in sample["stack"] for label in otlp_decode.folded_frames(frame))


def has_names(sample):
    return any(frame["frame_type"] == "jvm" for frame in sample["stack"])


class Java(lib.Case):
    @classmethod
    def setUpClass(cls):
        cls.machines = dict(sorted(javas.machines().items(), key=lambda found: found[1])[:COUNT])
        missing = [str(v) for v in VERSIONS if v not in cls.machines.values()]
        for home, version in cls.machines.items():
            print(f"JDK {version}: {home}", flush=True)
        if missing:
            print(f"NOT TESTED: no JDK {', '.join(missing)} on this machine", flush=True)

    def compile(self, home, classes, *sources):
        javas.compile_sources(self, home, self.machines[home], classes, *sources)

    def build(self, home):
        """Builds the programs. Returns the directory of the classes, and the path of the library (None without a compiler)."""
        classes = os.path.join(self.directory, "classes")
        self.compile(home, classes, "KnownChain.java", "ShortLived.java")
        library = os.path.join(self.directory, "libcallback.so")
        headers = os.path.join(home, "include")
        compiler = shutil.which("cc") or shutil.which("gcc")
        if not compiler or not os.path.exists(os.path.join(headers, "jni.h")):
            print(f"NOT TESTED: calls from C in {home}: no compiler, or no jni.h", flush=True)
            return classes, None
        subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-fomit-frame-pointer", f"-I{headers}", f"-I{headers}/linux",
                        os.path.join(HERE, "java/callback.c"), "-o", library], check=True)
        return classes, library

    @contextlib.contextmanager
    def started(self, command, *lines):
        """A running command, once it has printed these lines."""
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            missing = {f"{line}\n" for line in lines}
            for said in process.stdout:
                missing -= {said}
                if not missing:
                    break
            if missing:
                self.fail(f"ended at once: {' '.join(command)}")
            yield process
        finally:
            process.kill()
            process.wait()
            process.stdout.close()

    @contextlib.contextmanager
    def program(self, home, options, parts, library, classes, threads=("chain",)):
        """KnownChain, once the VM has compiled what is called often. Recordings wait for the CPU time of the threads with these names."""
        rounds = 500_000 if INTERPRETED[0] in options else 10_000_000
        command = [os.path.join(home, "bin/java"), *options, "-Xss4m", "-Xmx128m", "-cp", classes]
        if library:
            command += [f"-Dlibrary={library}"]
        seconds = str(WARM_UP_SECONDS * lib.STRETCH + 4 * lib.STRETCH + lib.PATIENCE)
        with self.started([*command, "KnownChain", seconds, str(rounds), *parts], "started") as process:
            with lib.Process(process.pid, *threads) as chain:
                self.wait_for_cpu_time(chain, WARM_UP_SECONDS)
                yield process

    def samples_of(self, home, options, parts, library, classes, threads):
        """A recording, and the samples of the threads with these names without those that were taken before the VM was attached."""
        with self.program(home, options, parts, library, classes, threads) as process:
            recording = self.record("-p", process.pid, seconds=3, freq=499, outputs=("out.folded", "out.otlp"))
        samples = recording.of(*threads)
        decoded = [s for s in otlp_decode.read(recording.path("out.otlp")) if s["attributes"].get("thread.name") in threads]
        before = [s for s in samples if any(map(is_anonymous, s.frames))]
        # The loop itself calls these now and then.
        rest = [s for s in samples if s not in before and not any(re.match(r"java\.lang\.(System\.gc|Thread\.yield)", f) for f in s.frames)]
        self.assertLess(otlp_decode.lost_names(decoded, has_names, lacks_names), (1 - LEAST_SHARE) * sum(s.count for s in samples), recording.describe())
        return recording, rest

    def check(self, home, options, beginning=tuple(THREAD), threads=("chain",)):
        classes, library = self.build(home)
        parts = [part for part in PARTS if library or part != "native"]
        recording, samples = self.samples_of(home, options, parts, library, classes, threads)
        self.assert_stacks(recording, samples, chains(beginning, *([*RUN, *PARTS[part]] for part in parts), *AROUND), LEAST_SHARE)
        around = chains(beginning, *AROUND)
        self.assertLess(sum(s.count for s in samples if around.matches(s)), AROUND_MAX * sum(s.count for s in samples), recording.describe())
        for part in parts:
            found = sum(s.count for s in samples if PARTS[part][0] in s.frames)
            self.assertGreater(found, 10, f"samples of {part}")

    def test_known_chains(self):
        if not self.machines:
            self.skip("no JDK on this machine")
        for home, version in self.machines.items():
            for options in [*MODES, *(m for since, more in MODES_SINCE.items() if version >= since for m in more)][:WAYS]:
                with self.subTest(home=home, options=options):
                    self.check(home, options)

    def test_virtual_threads(self):
        homes = [home for home, version in self.machines.items() if version >= 21]
        if not homes:
            self.skip("no JDK from 21 on on this machine")
        for home in homes:
            with self.subTest(home=home):
                self.check(home, ["-Dvirtual=true", "-Djdk.virtualThreadScheduler.parallelism=1"], [*CARRIER, *MOUNTED], CARRIERS)

    def test_unloaded_classes(self):
        """A method of an unloaded class has its own name or is reported as gone; it never has the name of another one."""
        if not self.machines:
            self.skip("no JDK on this machine")
        allowed = {"ShortLived.spend(long)", "ShortLived.spendInner(long)"}
        for home in self.machines:
            with self.subTest(home=home):
                classes, _ = self.build(home)
                with self.program(home, [], ["unloading"], None, classes) as process:
                    recording = self.record("-p", process.pid, seconds=4, freq=499)
                names = {frame for s in recording.of("chain") for frame in s.frames if frame.startswith("ShortLived")}
                self.assertLessEqual(names, allowed, recording.describe())
                self.assertIn("ShortLived.spendInner(long)", names, recording.describe())

    def test_same_as_a_thread_dump(self):
        """jstack finds the same class, method, file and line for all frames outside of the method in which a thread spends its time."""
        homes = [home for home in self.machines if os.path.exists(os.path.join(home, "bin/jstack"))]
        if not homes:
            self.skip("no JDK with a jstack on this machine")
        for home in homes:
            with self.subTest(home=home):
                self.check_dump(home)

    def check_dump(self, home):
        classes = os.path.join(self.directory, "classes")
        self.compile(home, classes, "Dumped.java")
        with self.started([os.path.join(home, "bin/java"), *APART, "-Xmx128m", "-cp", classes, "Dumped", "120"], *DUMPED) as process, lib.Process(process.pid):
            recording = self.record("-p", process.pid, seconds=3, freq=997, outputs=("out.folded", "out.otlp"))
            said = subprocess.run([os.path.join(home, "bin/jstack"), str(process.pid)], capture_output=True, text=True, timeout=lib.PATIENCE, check=True).stdout
        dumped, stacks, faults = dumped_stacks(said), java_stacks(recording.path("out.otlp")), []
        for thread, inner in DUMPED.items():
            faults += self.differences(thread, outside_of(inner, dumped[thread]), {
                stack: len(times) for stack, times in stacks[thread].items() if any(frame.method == inner for frame in stack)})
        self.assert_none(faults, recording)

    @staticmethod
    def differences(thread, dumped, stacks):
        """The differences between a thread's dump and its sampled stacks whose innermost method is the one in DUMPED."""
        inner, total, faults = DUMPED[thread], sum(stacks.values()), []
        if len(dumped) < 20 or total < 5:
            return [f"{thread}: {total} samples in {inner}, {len(dumped)} frames dumped"]
        wrong = 0
        for stack, n in sorted(stacks.items(), key=lambda item: -item[1]):
            outer = outside_of(inner, stack)
            if len(outer) == len(dumped) and all(map(same_frame, outer, dumped)):
                continue
            wrong += n
            at = next((at for at, (a, b) in enumerate(zip(outer, dumped)) if not same_frame(a, b)), min(len(outer), len(dumped)))
            faults.append(f"{thread}: {n} x {len(outer)} frames, dumped {len(dumped)}; at {at} {outer[at:at + 2]}, dumped {dumped[at:at + 2]}")
        print(f"  {thread}: {total - wrong} of {total} samples have all {len(dumped)} frames of the dump", flush=True)
        return faults[:5] if wrong > (1 - LEAST_SHARE) * total else []

    def test_redefined_classes(self):
        """If an agent replaces a class, all its frames are of the version that ran, or are reported as unknown."""
        homes = [home for home in self.machines if has_agents(home)]
        if not homes:
            self.skip("no JDK on this machine")
        for home in homes:
            versions = [Version(number) for number in range(Version.COUNT)]
            files = [self.compile_version(home, version) for version in versions]
            classes = os.path.dirname(files[0])
            # The class belongs to the application, or is loaded as a class of the VM.
            for options in [["-cp", classes], [*INTERPRETED, f"-Xbootclasspath/a:{classes}"]][:WAYS // 2]:
                with self.subTest(home=home, options=options):
                    self.check_redefined(home, options, versions, files)

    def check_redefined(self, home, options, versions, files):
        agent = os.path.join(self.directory, "agent.jar")
        with zipfile.ZipFile(agent, "w") as jar:
            jar.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\nPremain-Class: Redefined\nCan-Redefine-Classes: true\n")
        rounds = "200000" if INTERPRETED[0] in options else "2000000"
        command = [os.path.join(home, "bin/java"), f"-javaagent:{agent}", *options, "Redefined", "120", rounds, *files]
        with pythons.Clocks() as clocks, self.started(command, "started") as process, lib.Process(process.pid, "chain"):
            recording = self.record("-p", process.pid, seconds=4, freq=997, outputs=("out.folded", "out.otlp"))
            process.kill()
            redefinitions = Redefinitions(process.stdout.read(), versions)
        verdicts = collections.Counter()
        for stack, times in java_stacks(recording.path("out.otlp"))["chain"].items():
            verdicts.update(redefinitions.verdict(clocks.monotonic(ns), clocks.error_ns(), stack) for ns in times)
        del verdicts[None]
        wrong = {verdict: n for verdict, n in verdicts.items() if verdict not in ("right", "not named")}
        right, not_named = verdicts["right"], verdicts["not named"]
        print(f"  {len(redefinitions.done)} redefinitions: {right} samples right, {not_named} not named, {sum(wrong.values())} wrong", flush=True)
        faults = [f"{n} x {verdict}" for verdict, n in sorted(wrong.items(), key=lambda item: -item[1])[:10]]
        least = 0.7 if self.machines[home] > 8 else 0.01  # JDK 8 does not describe where it keeps replaced methods
        if len(redefinitions.done) < 5 or verdicts["right"] < max(20, least * sum(verdicts.values())):
            faults.append(f"{len(redefinitions.done)} redefinitions, {verdicts}")
        self.assert_none(faults, recording)

    def compile_version(self, home, version):
        directory = os.path.join(self.directory, f"version{version.number}")
        os.makedirs(directory, exist_ok=True)
        source = os.path.join(directory, "Changing.java")
        with open(source, "w", encoding="ascii") as f:
            f.write(version.text)
        self.compile(home, directory, source, "Redefined.java")
        return os.path.join(directory, "Changing.class")


if __name__ == "__main__":
    lib.main()
