#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The checks of words, sizes and documents, over small trees with one fault each."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import documents  # noqa: E402
import sizes  # noqa: E402
import words  # noqa: E402


class LintCase(unittest.TestCase):
    def faults(self, check, files):
        with tempfile.TemporaryDirectory() as directory:
            top = pathlib.Path(directory)
            for name, text in files.items():
                (top / name).parent.mkdir(parents=True, exist_ok=True)
                (top / name).write_text(text, encoding="utf-8")
            return list(check(top))


class Words(LintCase):
    def words(self, name, text):
        return self.faults(lambda top: words.faults(top, []), {name: text})

    def test_comments_and_messages_are_read(self):
        for name, text in (("a/b.c", "/* Behind the row. */\n"), ("a/b.c", 'int a = log("a peer beside it");\n'), ("a/b.py", "# begin anew\n"),
                           ("a/b.mjs", "// so many rows\n"), ("README.md", "Some figures.\n")):
            self.assertEqual(len(self.words(name, text)), 1, text)

    def test_names_in_code_are_not_read(self):
        self.assertEqual(self.words("a/b.c", 'int behind(void);\nint x = find("beside");\n'), [])

    def test_rates_say_per(self):
        self.assertEqual(len(self.words("a/b.c", "/* ten samples a second */\n")), 1)
        self.assertEqual(self.words("a/b.c", "/* takes a second time */\n"), [])

    def test_a_document_may_quote_words(self):
        self.assertEqual(self.words("docs/a.md", "<!-- lint words: off -->\nanew\n<!-- lint words: on -->\nfine\n"), [])


    def test_torn_comments(self):
        for text in ("/* One\n *two. */\n", "/* One.\n */\n", "\tint a; /* one\n\t\t*/\n"):
            self.assertEqual(len(self.words("a/b.c", text)), 1, text)
        for text in ("/*\n * One.\n */\n", "/* One\n * two. */\n", "int a = b\n\t*c;\n", "/** One. */\n"):
            self.assertEqual(self.words("a/b.c", text), [], text)


class Sizes(LintCase):
    def sizes(self, name, text):
        # The tree's own exceptions are reported as not needed in a tree without these files.
        return [fault for fault in self.faults(sizes.faults, {name: text}) if "exception" not in fault]

    def test_a_long_file(self):
        self.assertEqual(self.sizes("a.c", "int a;\n" * 601), ["a.c: 601 lines, at most 600"])
        self.assertEqual(self.sizes("a.c", "int a;\n" * 600), [])

    def test_a_long_function_of_c(self):
        self.assertEqual(self.sizes("a.c", "static int f(int a)\n{\n" + "\ta++;\n" * 61 + "}\n"), ["a.c:f: 61 lines, at most 60"])

    def test_a_long_function_of_python(self):
        self.assertEqual(self.sizes("a.py", "def f():\n" + "    a = 1\n" * 61), ["a.py:f: 61 lines, at most 60"])

    def test_an_exception_without_need_is_reported(self):
        self.assertTrue(any("exception" in fault for fault in self.faults(sizes.faults, {"a.c": ""})))


class Exceptions(LintCase):
    def test_a_word_where_it_is_right(self):
        self.assertEqual(self.faults(lambda top: words.faults(top, []), {"tests/lint/a.py": "# behind\n"}), [])

    def test_an_exception_of_words_without_need_is_reported(self):
        found = self.faults(words.unneeded_exceptions, {"tests/lint/a.py": "# behind\n"})
        self.assertEqual(len(found), len(words.EXCEPTIONS) - 1)
        self.assertFalse(any("tests/lint" in fault for fault in found))


class Documents(LintCase):
    def documents(self, text):
        return self.faults(documents.faults, {"docs/a.md": text, "cli/main.c": "struct here {\n\tint a;\n};\n"})

    def test_a_wide_line(self):
        self.assertEqual(self.documents("word " * 21), ["docs/a.md:1: 105 columns"])
        self.assertEqual(self.documents("| " + "word " * 21), [])

    def test_a_file_that_does_not_exist(self):
        self.assertEqual(self.documents("See `cli/main.c`, `main.c`, `cli/` and `*.c`.\n"), [])
        self.assertEqual(self.documents("See `cli/gone.c`.\n"), ["docs/a.md:1: cli/gone.c does not exist"])
        self.assertEqual(self.documents("See [it](b.md).\n"), ["docs/a.md:1: b.md does not exist"])

    def test_a_struct_that_does_not_exist(self):
        self.assertEqual(self.documents("A `struct here`.\n"), [])
        self.assertEqual(self.documents("A `struct gone`.\n"), ["docs/a.md:1: there is no struct or enum gone"])


if __name__ == "__main__":
    unittest.main()
