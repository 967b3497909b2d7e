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

    def record_one(self, javac, library, classes):
        subprocess.run([javac, "-d", classes, os.path.join(HERE, "java/Mixed.java")], check=True)
        program = subprocess.Popen([sys.executable, os.path.join(HERE, "python/mixed.py"), library, classes], stdout=subprocess.PIPE, text=True)
        try:
            self.assertEqual(program.stdout.readline(), "ready\n")
            with lib.Process(program.pid):
                recording = self.record("-p", str(program.pid), seconds=4, freq=199, outputs=("out.folded", "out.html"))
        finally:
            program.send_signal(signal.SIGKILL)
            program.wait()
            program.stdout.close()
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
