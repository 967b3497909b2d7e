#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/summary.py over results of real runs of ctest, and over results that are damaged or missing."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

SUMMARY = pathlib.Path(__file__).with_name("summary.py")
# Commands of CTestTestfile.cmake.
PASSES = 'add_test(passes "true")\n'
FAILING = {
    "fails": 'add_test(fails "false")\n',
    "crashes": 'add_test(crashes "sh" "-c" "kill -SEGV $$")\n',
    "hangs": 'add_test(hangs "sleep" "5")\nset_tests_properties(hangs PROPERTIES TIMEOUT 0.1)\n',
    "missing": 'add_test(missing "/nonexistent/program")\n',
    "depends": 'add_test(setup "false")\nset_tests_properties(setup PROPERTIES FIXTURES_SETUP f)\n'
               'add_test(depends "true")\nset_tests_properties(depends PROPERTIES FIXTURES_REQUIRED f)\n',
}
SKIPPED = 'add_test(skips "sh" "-c" "echo SKIP no guest; exit 77")\nset_tests_properties(skips PROPERTIES SKIP_RETURN_CODE 77)\n'


class Summary(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.top = pathlib.Path(self.directory.name)

    def tearDown(self):
        self.directory.cleanup()

    def stage(self, name, commands):
        """Runs ctest over the commands. Returns the path of its results."""
        stage = self.top / name
        stage.mkdir()
        (stage / "CTestTestfile.cmake").write_text(commands, encoding="utf-8")
        subprocess.run(["ctest", "--output-junit", "junit.xml", "--test-output-size-passed", "1000000"], cwd=stage, capture_output=True, check=False)
        return stage / "junit.xml"

    def summary(self, *paths):
        """The exit status and what it printed."""
        run = subprocess.run([sys.executable, "-B", SUMMARY, *paths], capture_output=True, text=True, check=False)
        self.assertEqual(run.stderr, "")
        return run.returncode, run.stdout

    def test_all_passed(self):
        status, text = self.summary(self.stage("dev", PASSES), self.stage("release", PASSES + SKIPPED))
        self.assertEqual(status, 0)
        self.assertIn("release: skips: no guest", text)
        self.assertTrue(text.endswith("2 passed, 0 failed, 1 skipped\n"), text)

    def test_every_kind_of_failure(self):
        for name, commands in FAILING.items():
            with self.subTest(name):
                status, text = self.summary(self.stage(name, PASSES + commands))
                self.assertEqual(status, 1)
                self.assertIn(f"  {name}: {name}\n", text[text.index("Failed:"):])

    def test_nothing_but_skipped_tests(self):
        self.assertEqual(self.summary(self.stage("dev", SKIPPED))[0], 1)

    def test_stage_that_did_not_build(self):
        status, text = self.summary(self.stage("dev", PASSES), self.top / "fuzz" / "junit.xml")
        self.assertEqual(status, 1)
        self.assertIn("fuzz: the stage did not build, or ctest ended early", text)

    def test_stage_whose_ctest_was_killed_while_it_wrote(self):
        path = self.stage("dev", PASSES)
        path.write_text(path.read_text(encoding="utf-8")[:-20], encoding="utf-8")
        status, text = self.summary(path, self.stage("release", PASSES))
        self.assertEqual(status, 1)
        self.assertIn("dev: the stage has results that cannot be read", text)
        path.write_text("", encoding="utf-8")
        self.assertEqual(self.summary(path)[0], 1)

    def test_stage_without_a_test(self):
        status, text = self.summary(self.stage("dev", ""), self.stage("release", PASSES))
        self.assertEqual(status, 1)
        self.assertIn("dev: the stage has no test", text)


if __name__ == "__main__":
    unittest.main()
