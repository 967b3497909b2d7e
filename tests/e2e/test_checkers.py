# SPDX-License-Identifier: Apache-2.0
"""The checkers of lib.py accept right recordings and reject each kind of fault, shown with invented recordings."""
import unittest

import lib

START = ["_start", "__libc_start_main", "libc.so.6+0x2724a"]  # outermost first, as in a folded line


def folded(*lines):
    return lib.parse_folded("\n".join(lines))


def line(*frames, comm="prog", count=1000):
    return ";".join([comm, *frames]) + f" {count}"


class Folded(unittest.TestCase):
    def test_reads(self):
        self.assertEqual(folded("my prog;a;std::map<int, int>::at(int) const;b_[k] 12"),
                         [lib.Sample("my prog", ("b_[k]", "std::map<int, int>::at(int) const", "a"), 12)])
        self.assertEqual(folded("idle 3"), [lib.Sample("idle", (), 3)])

    def test_refuses(self):
        for bad in ("a;b", "a;b 0", "a;b -1", "a;b x", "a;;b 1", "a;b 1.5", "a;b ²", " "):
            with self.assertRaises(lib.Malformed, msg=bad):
                folded(bad)

    def test_kernel_frames_only_at_the_leaf(self):
        self.assertEqual(lib.user_frames(("x_[k]", "y_[k]", "a", "b")), ("a", "b"))
        with self.assertRaises(lib.Malformed):
            lib.user_frames(("a", "x_[k]", "b"))


class Chains(unittest.TestCase):
    plain = lib.Expectation({"chains": [["leaf", {"name": "rec", "times": 3}, "main", "@start"]]})

    def right(self, expectation, *lines, **kwargs):
        self.assertEqual(lib.compare(folded(*lines), expectation, **kwargs), [])

    def wrong(self, expectation, *lines, **kwargs):
        faults = lib.compare(folded(*lines), expectation, **kwargs)
        self.assertTrue(faults)
        return faults

    def test_right(self):
        self.right(self.plain, line(*START, "main", "rec", "rec", "rec", "leaf"))
        self.right(self.plain, line("_start", "__libc_start_main_impl", "__libc_start_call_main", "main", "rec", "rec", "rec", "leaf", "tick_[k]"))

    def test_wrong(self):
        for frames in (
            ["main", "rec", "rec", "rec", "leaf"],                                    # no end
            [*START[1:], "main", "rec", "rec", "rec", "leaf"],                        # _start is missing
            [*START, "main", "rec", "rec", "leaf"],                                   # one too few
            [*START, "main", "rec", "rec", "rec", "rec", "leaf"],                     # one too many
            [*START, "main", "rec", "rec", "rec"],                                    # no leaf
            [*START, "main", "rec", "prog+0x1234", "rec", "leaf"],                    # no name
            [*START, "main", "rec", "rec", "rec", "leaf2"],
            ["_start", *START, "main", "rec", "rec", "rec", "leaf"],
            ["_start", "main", "main", "main", "rec", "rec", "rec", "leaf"],
            ["[stack cut: no table]", "main", "rec", "rec", "rec", "leaf"],
            ["[stack cut: depth]", *START, "main", "rec", "rec", "rec", "leaf"],
            ["_start", "[stack cut: x]", "y", "main", "rec", "rec", "rec", "leaf"],
            ["tick_[k]"],
            [],
        ):
            self.wrong(self.plain, line(*frames))

    def test_share(self):
        good, bad = line(*START, "main", "rec", "rec", "rec", "leaf", count=1990), line("main", "leaf", count=10)
        self.right(self.plain, good, bad)
        faults = self.wrong(self.plain, good, bad, line("leaf"))
        self.assertIn("1990 of 3000", faults[0])
        self.assertTrue(any("wrong 1000 x prog: leaf" in f for f in faults))

    def test_too_few(self):
        self.wrong(self.plain, line(*START, "main", "rec", "rec", "rec", "leaf", count=299))
        self.assertTrue(lib.compare([], self.plain))

    def test_expressions_stay_in_their_frame(self):
        e = lib.Expectation({"chains": [[{"re": ".*", "min": 0, "max": 2}, "a", "@start"]]})
        self.right(e, line(*START, "a"))
        self.right(e, line(*START, "a", "b", "c"))
        self.wrong(e, line(*START, "a", "b", "c", "d"))
        self.wrong(e, line(*START, "b", "ab"))
        e = lib.Expectation({"chains": [[{"re": "x|y"}, "a", "@start"]]})
        self.right(e, line(*START, "a", "y"))
        self.wrong(e, line(*START, "a", "xy"))
        self.wrong(e, line(*START, "a"))

    def test_names_are_no_expressions(self):
        e = lib.Expectation({"chains": [["f(int*)", "@start"]]})
        self.right(e, line(*START, "f(int*)"))
        self.wrong(e, line(*START, "fint"))

    def test_threads(self):
        e = lib.Expectation({"threads": {"w0": [["l0", "@thread"]], "w1": [["l1", "@thread"]]}})
        ends = [["libc.so.6+0x10", "libc.so.6+0x20"], ["__clone3", "start_thread"], ["clone", "start_thread"]]
        for end in ends:
            self.right(e, line(*end, "l0", comm="w0"), line(*end, "l1", comm="w1"))
        self.wrong(e, line(*ends[0], "l0", comm="w0"))                                          # w1 has none
        self.wrong(e, line(*ends[0], "l0", comm="w1"), line(*ends[0], "l1", comm="w0"))         # exchanged
        self.wrong(e, line("libc.so.6+0x1", "l0", comm="w0"), line(*ends[0], "l1", comm="w1"))  # one frame short
        self.wrong(e, line(*START, "l0", comm="w0"), line(*ends[0], "l1", comm="w1"))

    def test_need(self):
        e = lib.Expectation({"chains": [["a", "@start"], ["b", "@start"]], "need": {"b": 0.25}})
        self.right(e, line(*START, "a", count=300), line(*START, "b", count=100))
        self.wrong(e, line(*START, "a", count=301), line(*START, "b", count=99))


class Accounts(unittest.TestCase):
    def test_right(self):
        stats = {"taken": 10, "exported": 7, "lost": {"ring full": 2, "rate_limit": 1}}
        self.assertEqual(lib.unaccounted(stats, folded("a;b 4", "a;c 3")), [])
        self.assertEqual(lib.unaccounted({"taken": 7, "exported": 7, "lost": {"ring full": 0}}, lossless=True), [])

    def test_wrong(self):
        good = {"taken": 10, "exported": 7, "lost": {"ring full": 3}}
        for change in ({"taken": 11}, {"exported": 8}, {"lost": {}}, {"lost": {"": 3}}, {"lost": {"7": 3}},
                       {"taken": 10.0}, {"taken": "10"}, {"lost": {"ring full": 4, "other": -1}}):
            self.assertTrue(lib.unaccounted({**good, **change}), change)
        self.assertTrue(lib.unaccounted({}))
        self.assertTrue(lib.unaccounted(good, lossless=True))
        self.assertTrue(lib.unaccounted(good, folded("a;b 6")))
        self.assertTrue(lib.unaccounted(good, folded("a;b 8")))


if __name__ == "__main__":
    unittest.main(verbosity=2)
