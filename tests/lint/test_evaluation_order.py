#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The check of the order of reads: each bad sample is found, and no good one is."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import evaluation_order  # noqa: E402

BAD = (
    "struct key k = {.major = cursor_u32(c), .minor = cursor_u32(c)};",
    "struct key k = {\n.major = cursor_u32(c),\n.minor = (uint16_t)cursor_u16(c),\n};",
    "uint64_t v[2] = {cursor_u64(c), cursor_u64(c)};",
    "f(cursor_u8(&c), cursor_u8(&c));",
    "f(cursor_u8(&c), g(1, cursor_u8(&c)));",
    "*out = (struct pair){cursor_u8(c), cursor_u8(c)};",
    "return (struct pair){.a = own_read(1, s), .b = own_read(2, s)};",
    "x = cursor_u8(c) | cursor_u8(c) << 8;",
    "x = a[cursor_u8(c)] + cursor_u8(c);",
    "if (cursor_u8(c) == cursor_u8(c)) { }",
)
GOOD = (
    "uint32_t a = cursor_u32(c), b = cursor_u32(c);",
    "a = cursor_u8(c); b = cursor_u8(c);",
    "struct key k = {.major = cursor_u32(a), .minor = cursor_u32(b)};",
    "if (cursor_u8(c)) x = cursor_u8(c); else x = cursor_u16(c);",
    "x = cursor_u8(c) && cursor_u8(c);",
    "x = wide ? cursor_u64(c) : cursor_u32(c);",
    "for (i = cursor_u8(c); i < n; i += cursor_u8(c)) { x = cursor_u8(c); }",
    "switch (kind) { case 1: return cursor_u8(c); case 2: return cursor_u16(c); }",
    "while (cursor_left(c)) { a(cursor_u8(c)); b(cursor_u8(c)); }",
    "x = cursor_take(c, cursor_u8(c));",
    "/* {cursor_u8(c), cursor_u8(c)} */",
    "for_each(x) { a = cursor_u8(c); }\nint g(void)\n{ return cursor_u8(c); }",
)


class EvaluationOrder(unittest.TestCase):
    def faults(self, statement):
        readers = evaluation_order.find_readers(["int own_read(int wide, struct hotspot_stream *s);\nsize_t cursor_left(const struct cursor *c);",
                                                 "void *cursor_take(struct cursor *c, uint64_t length);"])
        return list(evaluation_order.faults("void f(void)\n{\n" + statement + "\n}\n", readers))

    def test_bad_samples_are_found(self):
        for statement in BAD:
            with self.subTest(statement):
                self.assertTrue(self.faults(statement))

    def test_good_samples_are_not_found(self):
        for statement in GOOD:
            with self.subTest(statement):
                self.assertEqual(self.faults(statement), [])


if __name__ == "__main__":
    unittest.main()
