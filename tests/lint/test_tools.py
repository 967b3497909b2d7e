#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The checks that other programs make, clang-format and ESLint, find faults with our settings."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import format as clang_format  # noqa: E402

TOP = pathlib.Path(__file__).parents[2]


class Format(unittest.TestCase):
    def faults(self, files):
        with tempfile.TemporaryDirectory() as directory:
            top = pathlib.Path(directory)
            shutil.copy(TOP / ".clang-format", top)
            for name, text in files.items():
                (top / name).parent.mkdir(exist_ok=True)
                (top / name).write_text(text, encoding="utf-8")
            return clang_format.faults(top)

    def test_formatted_file(self):
        self.assertEqual(self.faults({"cli/a.c": "int f(void)\n{\n\treturn 1;\n}\n"}), "")

    def test_file_that_is_not_formatted(self):
        self.assertIn("cli/a.c:", self.faults({"cli/a.c": "int f(void)\n{\n  return 1;\n}\n"}))

    def test_no_file_at_all(self):
        self.assertNotEqual(self.faults({}), "")


class JavaScript(unittest.TestCase):
    def faults(self, text):
        with tempfile.TemporaryDirectory() as directory:
            (pathlib.Path(directory) / "a.mjs").write_text(text, encoding="utf-8")
            run = subprocess.run(["eslint", "--no-eslintrc", "--config", str(TOP / "tests/lint/eslint.json"), "--format", "unix", "--ext", ".mjs",
                                  "--max-warnings", "0", "."], cwd=directory, capture_output=True, text=True, check=False)
            self.assertEqual(run.stderr, "")
            return run.stdout

    def test_good_module(self):
        self.assertEqual(self.faults("export function f(a) {\n\treturn a === 1;\n}\n"), "")

    def test_each_fault(self):
        for rule, text in {
            "eqeqeq": "export function f(a) {\n\treturn a == 1;\n}\n",
            "no-var": "export function f() {\n\tvar a = 1;\n\treturn a;\n}\n",
            "no-undef": "export function f() {\n\treturn document;\n}\n",
            "no-unused-vars": "const a = 1;\n",
            "no-restricted-properties": "export function f(a) {\n\ta.innerHTML = '';\n}\n",
            "max-lines-per-function": "export function f(a) {\n" + "\ta();\n" * 61 + "}\n",
        }.items():
            with self.subTest(rule):
                self.assertIn(rule, self.faults(text))


if __name__ == "__main__":
    unittest.main()
