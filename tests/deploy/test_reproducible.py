# SPDX-License-Identifier: Apache-2.0
"""The BPF objects do not depend on the directory in which the tree is: compiled again in a copy of it, each is the same, byte by byte."""
import os
import re
import shutil
import subprocess
import tempfile
import unittest

SOURCE = os.environ.get("BULKHEAD_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.dirname(os.path.abspath(os.environ.get("BULKHEAD_BIN") or os.path.join(SOURCE, "build/release/bin")))
DIRECTORIES = ("bpf", "common")


class Reproducible(unittest.TestCase):
    def setUp(self):
        self.copy = tempfile.mkdtemp(prefix="bulkhead-elsewhere-")
        self.addCleanup(shutil.rmtree, self.copy)
        for directory in DIRECTORIES:
            shutil.copytree(os.path.join(SOURCE, directory), os.path.join(self.copy, directory))
        # What the build generates.
        self.build = os.path.join(self.copy, os.path.relpath(BUILD, SOURCE))
        shutil.copytree(os.path.join(BUILD, "bpf"), os.path.join(self.build, "bpf"), ignore=shutil.ignore_patterns("*.o", "CMakeFiles"))

    def commands(self):
        """{object: the command that compiles it here}"""
        said = subprocess.run(["ninja", "-C", BUILD, "-t", "commands", "bin/bulkhead-loader"], capture_output=True, text=True, check=True).stdout
        return {match[2]: match[1] for match in re.finditer(r"^(cd \S+ && \S+ .*-target bpf .* -o (\S+\.bpf\.o)) && ", said, re.M)}

    def test_objects_do_not_depend_on_the_directory(self):
        commands = self.commands()
        self.assertGreater(len(commands), 5)
        for path, command in commands.items():
            with self.subTest(os.path.basename(path)):
                there = self.copy + path.removeprefix(SOURCE)
                subprocess.run(["sh", "-c", command.replace(SOURCE, self.copy)], check=True)
                with open(path, "rb") as f, open(there, "rb") as g:
                    self.assertTrue(f.read() == g.read(), f"{path} and {there} differ")


if __name__ == "__main__":
    unittest.main()
