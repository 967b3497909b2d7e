#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A CPython of a version that nobody knows yet: refused with one line, its native stacks complete."""
import os
import re
import shutil
import struct
import subprocess
import sys
import unittest

import lib
import pythons

SPIN = "import time\nend = time.time() + 60\nwhile time.time() < end: pass\n"
FUTURE = 0x03630000  # 3.99


def versions_in(data, interpreter):
    """Where the file says its version: Py_Version, and in _Py_DebugOffsets."""
    release = subprocess.run([interpreter, "-c", "import sys; print(sys.hexversion)"], stdout=subprocess.PIPE, check=True, text=True).stdout
    word = struct.pack("<Q", int(release))
    at = data.find(word)
    while at >= 0:
        yield at
        at = data.find(word, at + 1)


class Refused(lib.Case):
    def test_a_version_of_the_future(self):
        found = [i for i in pythons.interpreters() if i.version >= (3, 11) and os.path.basename(os.path.realpath(i.path)) == "python3.11" and i.path.startswith("/usr/")]
        if not found:
            self.skipTest("no statically linked CPython 3.11 under /usr on this machine")
        program = self.forge(found[0].path)
        process = subprocess.Popen([program, "-c", SPIN])
        try:
            recording = self.record("-p", str(process.pid), seconds=2, freq=199)
        finally:
            process.kill()
            process.wait()
        lines = [line for line in recording.stderr.splitlines() if "CPython 3.99" in line]
        self.assertEqual(len(lines), 1, recording.describe())
        self.assertIn(program, lines[0])
        self.assertRegex(lines[0], "not known")
        samples = [s for s in recording.samples if s.comm == os.path.basename(program)[:15]]
        self.assertGreater(sum(s.count for s in samples), 100, recording.describe())
        complete = sum(s.count for s in samples if s.frames[-1] == "_start" and any(re.match("_PyEval_EvalFrameDefault", f) for f in s.frames))
        self.assertGreater(complete, 0.99 * sum(s.count for s in samples), recording.describe())
        print(f"{lines[0]}\n{complete} complete native stacks of {sum(s.count for s in samples)}", flush=True)

    def forge(self, path):
        program = os.path.join(self.directory, "python3.99")
        shutil.copy(path, program)
        with open(program, "r+b") as f:
            data = f.read()
            at = list(versions_in(data, path))
            self.assertTrue(at, "the file does not say its version")
            for offset in at:
                f.seek(offset)
                f.write(struct.pack("<Q", FUTURE))
        os.chmod(self.directory, 0o755)
        return program


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
