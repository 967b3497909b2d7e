#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A CPython of an unknown version and a free-threaded one are refused with one log line, and their native stacks are complete."""
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
DESCRIPTION = re.compile(rb"xdebugpy..[\x0d-\x20]\x03\0{4}", re.DOTALL)  # from 3.13 on _Py_DebugOffsets starts with this cookie and the version
FREE_THREADED = 16


def versions_in(data, interpreter):
    """The places in the file that hold its version: Py_Version, and one in _Py_DebugOffsets."""
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
        with open(found[0].path, "rb") as f:
            at = list(versions_in(f.read(), found[0].path))
        self.assertTrue(at, "the file does not say its version")
        program = self.forge(found[0].path, "python3.99", at, FUTURE)
        self.check([program], {}, program, "CPython 3.99 in .*: this version is not supported; its Python frames are not shown, its native stacks are complete")

    def test_free_threaded(self):
        """An ordinary build whose description is changed to say that it is free-threaded."""
        for interpreter in pythons.interpreters():
            file = interpreter.version >= (3, 13) and self.described(interpreter.path)
            if file:
                break
        else:
            self.skipTest("no CPython from 3.13 on, on this machine")
        with open(file, "rb") as f:
            at = DESCRIPTION.search(f.read()).start() + FREE_THREADED
        forged = self.forge(file, os.path.basename(file), [at], 1)
        if file == os.path.realpath(interpreter.path):
            command, env = [forged], {"PYTHONHOME": os.path.dirname(os.path.dirname(file))}
        else:
            command, env = [interpreter.path], {"LD_LIBRARY_PATH": self.directory}
        self.check(command, env, forged, f"CPython 3.{interpreter.version[1]} in .*: free-threaded builds are not supported; its Python frames are not shown, its native stacks are complete")

    def described(self, path):
        """The file of an interpreter that contains _Py_DebugOffsets: its library, or the program."""
        for file in [os.path.realpath(path), *(file for file in pythons.mapped_files(path) if "libpython" in file)]:
            with open(file, "rb") as f:
                if DESCRIPTION.search(f.read()):
                    return file
        return None

    def check(self, command, env, file, expected):
        process = subprocess.Popen([*command, "-c", SPIN], env={**os.environ, **env})
        try:
            with lib.Process(process.pid):
                recording = self.record("-p", str(process.pid), seconds=2, freq=199)
        finally:
            process.kill()
            process.wait()
        lines = [line for line in recording.stderr.splitlines() if "CPython" in line]
        self.assertEqual(len(lines), 1, recording.describe())
        self.assertIn(file, lines[0])
        self.assertRegex(lines[0], expected)
        samples = [s for s in recording.samples if s.comm == os.path.basename(command[0])[:15]]
        self.assertGreater(sum(s.count for s in samples), 100, recording.describe())
        complete = sum(s.count for s in samples if s.frames[-1] == "_start" and any(re.match("_PyEval_EvalFrameDefault", f) for f in s.frames))
        self.assertGreater(complete, 0.99 * sum(s.count for s in samples), recording.describe())
        print(f"{lines[0]}\n{complete} complete native stacks of {sum(s.count for s in samples)}", flush=True)

    def forge(self, path, name, places, word):
        program = os.path.join(self.directory, name)
        shutil.copy(path, program)
        with open(program, "r+b") as f:
            for offset in places:
                f.seek(offset)
                f.write(struct.pack("<Q", word))
        os.chmod(self.directory, 0o755)
        return program


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
