#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Three languages in one stack: a Python program starts a JVM in its own process, and Java methods call back into Python (python/mixed.py)."""
import glob
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest

import lib

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON_FRAMES = ["<module>", "main", "call"]
JAVA_FRAMES = ["Mixed.run()", "Mixed.descend(int)", "Mixed.descend(int)", "Mixed.descend(int)", "Mixed.descend(int)"]


def machines():
    """libjvm.so and javac of each JDK on this machine."""
    for javac in sorted(glob.glob("/usr/lib/jvm/*/bin/javac")):
        home = os.path.dirname(os.path.dirname(javac))
        library = os.path.join(home, "lib/server/libjvm.so")
        if not os.path.islink(home) and os.path.exists(library):
            yield javac, library


def in_order(frames, wanted):
    """Whether the frames occur in this order, possibly with others in between."""
    rest = iter(reversed(frames))  # the outermost first
    return all(any(frame == name or frame.endswith("." + name) for frame in rest) for name in wanted)


class Mixed(lib.Case):
    def test_python_c_java_c_python(self):
        found = list(machines())
        if not found:
            print("NOT TESTED: no JDK under /usr/lib/jvm on this machine", flush=True)
        for javac, library in found:
            with self.subTest(library), tempfile.TemporaryDirectory(prefix="e2e-") as classes:
                self.record_one(javac, library, classes)

    def test_many_changes_of_language(self):
        """Each level changes the language twice. 14 levels are complete; of 30 levels, the innermost 30 changes are right, and the reason is named."""
        for javac, library in list(machines())[:1]:
            with tempfile.TemporaryDirectory(prefix="e2e-") as classes:
                for levels, complete in ((14, True), (30, False)):
                    with self.subTest(levels):
                        samples = self.recorded(javac, library, classes, str(levels)).samples
                        self.check_levels([s for s in samples if any("Mixed.spin(int)" in frame for frame in s.frames)], levels, complete)

    def check_levels(self, samples, levels, complete):
        right = other = 0
        for sample in samples:
            named = [frame for frame in sample.frames if frame.endswith(("Mixed.alternate(int)", "in_python"))]
            cut = any("[stack cut: runtime_changes]" in frame for frame in sample.frames)
            alternate = all(("Mixed" in a) != ("Mixed" in b) for a, b in zip(named, named[1:]))
            # The leaf is in Java, and the program of Java or Python began: 30 or 31 languages are shown.
            if alternate and cut != complete and (len(named) == 2 * levels + 1 if complete else 30 <= len(named) <= 31):
                right += sample.count
            else:
                other += sample.count
        print(f"{levels} levels: {right} samples as expected, {other} not", flush=True)
        self.assertGreater(right, 100)
        self.assertGreater(right, 0.97 * (right + other))

    def recorded(self, javac, library, classes, *arguments):
        subprocess.run([javac, "-d", classes, os.path.join(HERE, "java/Mixed.java")], check=True)
        program = subprocess.Popen([sys.executable, os.path.join(HERE, "python/mixed.py"), library, classes, *arguments],
                                   stdout=subprocess.PIPE, text=True)
        try:
            self.assertEqual(program.stdout.readline(), "ready\n")
            with lib.Process(program.pid):
                return self.record("-p", str(program.pid), seconds=4, freq=199, outputs=("out.folded", "out.html"))
        finally:
            program.send_signal(signal.SIGKILL)
            program.wait()
            program.stdout.close()

    def record_one(self, javac, library, classes):
        recording = self.recorded(javac, library, classes)
        samples = [s for s in recording.samples if any(re.search(r"Mixed\.", frame) for frame in s.frames)]
        total = sum(s.count for s in samples)
        entered = [*PYTHON_FRAMES, "jni_CallStaticVoidMethod", *JAVA_FRAMES]
        java = sum(s.count for s in samples if in_order(s.frames, [*entered, "Mixed.spin(int)"]))
        python = sum(s.count for s in samples if in_order(s.frames, [*entered, "Mixed.callBack()", "called_back", "spin_in_python"]))
        print(f"{library}: {total} samples with Java in them; {java} end in Java, {python} in the Python that Java called", flush=True)
        self.assertGreater(java, 50)
        self.assertGreater(python, 50)
        self.assertGreater(java + python, 0.97 * total)


if __name__ == "__main__":
    unittest.main(verbosity=2)
