#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The check of the table of defences finds what has moved."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import defences  # noqa: E402

TABLE = {"a": ("a.c", "if (bad)", "if (false)", "a"), "b": ("b.c", "x &&\n", "", "b")}


class Defences(unittest.TestCase):
    def test_texts_that_are_there_once(self):
        self.assertEqual(list(defences.faults_of_sources(TABLE, {"a.c": "\tif (bad)\n", "b.c": "x &&\n\ty"}.get)), [])

    def test_texts_that_have_moved(self):
        for files in ({"a.c": "if (good)", "b.c": "x &&\n"}, {"a.c": "if (bad) if (bad)", "b.c": "x &&\n"}, {"b.c": "x &&\n"}):
            self.assertEqual(len(list(defences.faults_of_sources(TABLE, files.get))), 1, files)

    def test_numbers(self):
        good = {"docs/threat-model.md": "removes 2 of them", "tests/README.md": "each of 2 defences\nof 2 defences"}
        self.assertEqual(list(defences.faults_of_counts(TABLE, good.get)), [])
        for name, text in (("docs/threat-model.md", "removes 3 of them"), ("tests/README.md", "of 2 defences, of 3 defences"), ("tests/README.md", "")):
            self.assertEqual(len(list(defences.faults_of_counts(TABLE, {**good, name: text}.get))), 1, text)


if __name__ == "__main__":
    unittest.main()
