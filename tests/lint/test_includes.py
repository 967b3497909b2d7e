#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The check of includes, over small trees with one fault each."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import includes  # noqa: E402


class IncludesCase(unittest.TestCase):
    def faults(self, files, state_headers=()):
        with tempfile.TemporaryDirectory() as top:
            for name, text in files.items():
                path = pathlib.Path(top) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            return includes.faults(top, state_headers)

    def test_good_tree_has_no_fault(self):
        self.assertEqual(self.faults({
            "common/log.h": "void log_error(int x);\n",
            "common/log.c": '#include "common/log.h"\nvoid log_error(int x)\n{\n}\n',
            "loader/main.c": '#include "common/log.h"\n#include "bpf/shared.h"\nint main(void)\n{\n\tlog_error(1);\n}\n',
            "bpf/shared.h": '#include "common/runtimes.def"\n',
            "common/runtimes.def": "",
        }), [])

    def test_direct_include_against_the_layering(self):
        self.assertEqual(self.faults({"common/a.c": '#include "ipc/peer.h"\n', "ipc/peer.h": ""}), ["common/a.c:1: common may not include ipc/peer.h"])

    def test_indirect_include_against_the_layering(self):
        found = self.faults({"cli/a.c": '#include "common/b.h"\n', "common/b.h": '#include "bpf/shared.h"\n', "bpf/shared.h": ""})
        self.assertIn("cli/a.c: cli may not include bpf/shared.h, which it does through common/b.h", found)

    def test_def_files_are_read(self):
        found = self.faults({"common/kinds.def": '#include "bpf/other.def"\n', "bpf/other.def": "", "cli/a.c": '#include "common/kinds.def"\n'})
        self.assertIn("common/kinds.def:1: common may not include bpf/other.def", found)
        self.assertIn("cli/a.c: cli may not include bpf/other.def, which it does through common/kinds.def", found)

    def test_innermost_directory_decides(self):
        found = self.faults({"exporter/otlp/a.c": '#include "exporter/sinks/b.h"\n', "exporter/sinks/b.h": ""})
        self.assertEqual(found, ["exporter/otlp/a.c:1: exporter/otlp may not include exporter/sinks/b.h"])

    def test_directory_without_a_layer(self):
        self.assertEqual(self.faults({"new/a.c": "", "symbolizer/b.c": ""}), ["new/a.c: its directory has no layer", "symbolizer/b.c: its directory has no layer"])

    def test_headers_that_include_each_other(self):
        found = self.faults({"cli/a.h": '#include "cli/b.h"\n', "cli/b.h": '#include "cli/a.h"\n'})
        self.assertIn("headers include each other: cli/a.h cli/b.h", found)

    CALLS = {
        "cli/a.h": "int a_open(void);\n",
        "cli/b.h": "int b_open(void);\n",
        "cli/a.c": '#include "cli/a.h"\n#include "cli/b.h"\nint a_open(void)\n{\n\treturn b_open();\n}\n',
        "cli/b.c": '#include "cli/a.h"\n#include "cli/b.h"\nint b_open(void)\n{\n\treturn a_open();\n}\n',
    }

    def test_modules_that_call_each_other(self):
        self.assertEqual(self.faults(self.CALLS), ["modules include each other: cli/a cli/b", "modules call each other: cli/a cli/b"])

    def test_modules_that_call_each_other_through_one_header(self):
        one = {"cli/all.h": "int a_open(void);\nint b_open(void);\n"}
        for name in ("cli/a.c", "cli/b.c"):
            one[name] = self.CALLS[name].replace('#include "cli/a.h"\n#include "cli/b.h"\n', '#include "cli/all.h"\n')
        self.assertEqual(self.faults(one), ["modules call each other: cli/a cli/b"])

    def test_a_name_in_a_comment_is_no_call(self):
        files = dict(self.CALLS)
        files["cli/b.c"] = files["cli/b.c"].replace("return a_open()", "return 0 /* a_open */")
        self.assertEqual(self.faults(files), ["modules include each other: cli/a cli/b"])

    # b.c needs only a type of a.h, and nothing in a.c calls b.c.
    INCLUDES = {
        "cli/a.h": '#include "cli/b.h"\nstruct a {\n\tstruct b b;\n};\n',
        "cli/b.h": "struct b {\n\tint x;\n};\n",
        "cli/b.c": '#include "cli/a.h"\nint b_of(struct a *a)\n{\n\treturn a->b.x;\n}\n',
    }

    def test_modules_that_include_each_other(self):
        self.assertEqual(self.faults(self.INCLUDES), ["modules include each other: cli/a cli/b"])

    def test_state_of_a_role_may_embed_what_includes_it(self):
        self.assertEqual(self.faults(self.INCLUDES, ["cli/a.h"]), [])

    def test_state_header_without_need_is_reported(self):
        files = {name: text for name, text in self.INCLUDES.items() if name != "cli/b.c"}
        self.assertEqual(self.faults(files, ["cli/a.h"]), ["is in no cycle, remove it from STATE_HEADERS: cli/a.h"])

    def test_tests_must_have_no_cycles_either(self):
        files = {name.replace("cli/", "tests/support/"): text.replace("cli/", "tests/support/") for name, text in self.INCLUDES.items()}
        self.assertEqual(self.faults(files), ["modules include each other: tests/support/a tests/support/b"])

    def test_includes_by_a_bare_name_are_read(self):
        files = {name: text.replace('"cli/', '"') for name, text in self.INCLUDES.items()}
        self.assertEqual(self.faults(files), ["modules include each other: cli/a cli/b"])

    def test_private_header_belongs_to_its_module(self):
        self.assertEqual(self.faults({"cli/a.h": "", "cli/a_private.h": '#include "cli/a.h"\n', "cli/a.c": '#include "cli/a_private.h"\n'}), [])


if __name__ == "__main__":
    unittest.main()
