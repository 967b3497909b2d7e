# SPDX-License-Identifier: Apache-2.0
"""Java's stacks: a program that knows its chains (java/KnownChain.java), in every JDK of this machine and every way of running it."""
import contextlib
import glob
import os
import re
import shutil
import subprocess
import time

import lib

HERE = os.path.dirname(os.path.abspath(__file__))
VERSIONS = (8, 11, 17, 21, 25)  # those that are supported for a long time
INTERPRETED = ["-Xint"]
MODES = [[], INTERPRETED, ["-XX:TieredStopAtLevel=1"], ["-XX:-TieredCompilation"], ["-XX:+UseParallelGC"], ["-XX:-UseCompressedOops"],
         ["-XX:ReservedCodeCacheSize=64m"]]
MODES_SINCE = {17: [["-XX:+UseZGC"]]}
LEAST_SHARE = 0.99
BEFORE_MAX = 0.15  # of samples that were taken before the VM was looked at

WORK = "KnownChain.work(long)"
RECURSION = {"name": "KnownChain.recurse(int, long)", "times": 301}
THROWING = {"name": "KnownChain.throwing(int, long)", "times": 4}
NATIVE = {"re": r"[^(]*|.*::.*", "min": 1, "max": 12}
# From the part's own method on, outermost first.
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
CARRIER = [NATIVE, "[call_stub]", {"re": r"java\.util\.concurrent\..*", "max": 12}, {"re": r"java\.lang\.VirtualThread.*", "max": 3},
           {"re": r"jdk\.internal\.vm\.Continuation\.run\(\)"}]
# What of a thread is not on the stack is a frame of its own, or it is there.
MOUNTED = [{"re": r"\[frozen frames\]|jdk\.internal\.vm\..*|java\.lang\..*|KnownChain\$\$Lambda.*|KnownChain\.lambda.*", "max": 10}]
# What the VM may do at the end of a chain: a safepoint, a signal.
END = [{"re": r"\[.*\]", "min": 0, "max": 1}, {"re": r"[^(]*|.*::.*", "min": 0, "max": 40}]


def version_of(java):
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True).stderr
        found = re.search(r'version "(?:1\.)?(\d+)', said)
        if found and re.search(r"HotSpot|OpenJDK", said):
            return int(found.group(1))
    return None


def machines():
    """{home: version} of each JDK here."""
    javas = glob.glob("/usr/lib/jvm/*/bin/java") + [shutil.which("java") or ""]
    homes = {os.path.dirname(os.path.dirname(os.path.realpath(java))) for java in javas if java}
    found = {home: version_of(os.path.join(home, "bin/java")) for home in homes}
    return {home: version for home, version in sorted(found.items()) if version}


def chains(parts, beginning):
    return {"chains": [[*reversed(END), *reversed([*beginning, *RUN, *PARTS[part]])] for part in parts]}


class Java(lib.Case):
    @classmethod
    def setUpClass(cls):
        cls.machines = machines()
        missing = [str(v) for v in VERSIONS if v not in cls.machines.values()]
        for home, version in cls.machines.items():
            print(f"JDK {version}: {home}", flush=True)
        if missing:
            print(f"NOT TESTED: no JDK {', '.join(missing)} on this machine", flush=True)

    def build(self, home):
        """Where the classes are, and the library (None without a compiler)."""
        classes = os.path.join(self.directory, "classes")
        os.makedirs(classes, exist_ok=True)
        javac = os.path.join(home, "bin/javac")
        if not os.path.exists(javac):
            javac = shutil.which("javac") or self.skip(f"no javac for {home}")
        sources = [os.path.join(HERE, "java", name) for name in ("KnownChain.java", "ShortLived.java")]
        subprocess.run([javac, "-d", classes, *sources], check=True, capture_output=True)
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
    def program(self, home, options, parts, library, classes):
        rounds = 500_000 if INTERPRETED[0] in options else 10_000_000
        command = [os.path.join(home, "bin/java"), *options, "-Xss4m", "-Xmx128m", "-cp", classes]
        if library:
            command += [f"-Dlibrary={library}"]
        process = subprocess.Popen([*command, "KnownChain", "120", str(rounds), *parts], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            if not any(line == "started\n" for line in process.stdout):
                self.fail(f"ended at once: {' '.join(command)}")
            time.sleep(3)  # until what is called often is compiled
            yield process
        finally:
            process.kill()
            process.wait()
            process.stdout.close()

    def samples_of(self, home, options, parts, library, classes, thread):
        """Those of the thread, without what was taken before the VM was looked at."""
        with self.program(home, options, parts, library, classes) as process:
            recording = self.record("-p", process.pid, seconds=3, freq=499)
        samples = recording.of(thread)
        before = [s for s in samples if any(frame.startswith("[anonymous") for frame in s.frames)]
        # What the loop itself does now and then.
        rest = [s for s in samples if s not in before and not any(re.match(r"java\.lang\.(System\.gc|Thread\.yield)", f) for f in s.frames)]
        self.assertLess(sum(s.count for s in before), BEFORE_MAX * sum(s.count for s in samples), recording.describe())
        return recording, rest

    def check(self, home, options, beginning=tuple(THREAD), thread="chain"):
        classes, library = self.build(home)
        parts = [part for part in PARTS if library or part != "native"]
        recording, samples = self.samples_of(home, options, parts, library, classes, thread)
        self.assert_stacks(recording, samples, lib.Expectation(chains(parts, beginning)), LEAST_SHARE)
        for part in parts:
            found = sum(s.count for s in samples if PARTS[part][0] in s.frames)
            self.assertGreater(found, 10, f"samples of {part}")

    def test_known_chains(self):
        if not self.machines:
            self.skip("no JDK on this machine")
        for home, version in self.machines.items():
            for options in [*MODES, *(m for since, more in MODES_SINCE.items() if version >= since for m in more)]:
                with self.subTest(home=home, options=options):
                    self.check(home, options)

    def test_virtual_threads(self):
        homes = [home for home, version in self.machines.items() if version >= 21]
        if not homes:
            self.skip("no JDK from 21 on on this machine")
        for home in homes:
            with self.subTest(home=home):
                self.check(home, ["-Dvirtual=true", "-Djdk.virtualThreadScheduler.parallelism=1"], [*CARRIER, *MOUNTED], "ForkJoinPool-1-")

    def test_unloaded_classes(self):
        """A class's method has its name, or is said to be gone; it never has another's."""
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


if __name__ == "__main__":
    lib.main()
