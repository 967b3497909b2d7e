# SPDX-License-Identifier: Apache-2.0
"""The checkers of pythons.py and test_python_churn.py accept right samples and reject wrong ones, shown with invented samples."""
import unittest

import pythons
import test_python_churn

FILE = "/p.py"
BELOW = [("PyEval_EvalCode", None), ("Py_RunMain", None), ("Py_BytesMain", None), ("libc.so.6+0x27249", None), ("_start", None)]
SAID = {"scenario": "s", "tid": 7, "start": 1000, "end": 2000, "leaf_lines": [70, 80],
        "chain": [["spin", FILE, 72], ["f", FILE, 10], ["f", FILE, 10], ["<module>", FILE, 20]]}
INTERPRETER = pythons.Interpreter("/python3.12", (3, 12), True)
RIGHT = [("long_bitwise", None), ("spin", 77), ("f", 10), ("f", 10), ("<module>", 20), *BELOW]


def frames(*listed, file=FILE):
    return tuple(pythons.Frame("python", name, file, line) if line is not None else pythons.Frame("native", name, None, 0) for name, line in listed)


def without(at):
    return RIGHT[:at] + RIGHT[at + 1:]


def instead(at, *others):
    return RIGHT[:at] + list(others) + RIGHT[at + 1:]


class Phases(unittest.TestCase):
    def phase(self, interpreter=INTERPRETER, **kwargs):
        return pythons.Phase(SAID, interpreter, **kwargs)

    def test_right(self):
        self.assertIsNone(self.phase(plain=2).fault(frames(*RIGHT)))
        self.assertIsNone(self.phase().fault(frames(*RIGHT[1:])))
        self.assertIsNone(self.phase(pythons.Interpreter("/python3.11", (3, 11), False)).fault(frames(*RIGHT[:-2], ("libc.so.6+0x1", None), ("python3.11+0x2", None))))

    def test_wrong(self):
        for listed in (
            *(without(at) for at in (1, 2, 3, 4)),                # a Python frame is missing
            instead(2, ("f", 10), ("f", 10)),                     # one too many
            instead(1, ("spin", 69)), instead(1, ("spin", 81)),   # lines that the leaf does not have
            instead(2, ("f", 11)), instead(4, ("<module>", 0)),   # wrong lines
            instead(2, ("g", 10)), instead(4, ("main", 20)),      # wrong names
            instead(2, ("[Python: no longer in memory]", 0)),
            instead(0, ("_PyEval_EvalFrameDefault", None)),       # an evaluator frame that was not replaced
            instead(0, ("_PyEval_EvalFrameDefault.cold", None)),
            instead(3, ("f", 10), ("_PyEval_EvalFrameDefault", None)),
            RIGHT[:5],                                            # no caller
            RIGHT[:-1],                                           # no _start
            RIGHT[:5] + RIGHT[7:],                                # no main
            BELOW, [],
        ):
            self.assertTrue(self.phase().fault(frames(*listed)), listed)

    def test_wrong_file(self):
        self.assertTrue(self.phase().fault(frames(*RIGHT, file="/q.py")))

    def test_cut(self):
        cut = pythons.Frame("cut", "[stack cut: no table]", None, 0)
        self.assertTrue(self.phase().fault((*frames(*RIGHT), cut)))

    def test_native_frames_in_their_places(self):
        mixed = instead(2, ("f", 10), ("map_next", None), ("list", None))
        self.assertIsNone(self.phase(native=[(1, "map_next.*")], plain=0).fault(frames(*mixed)))
        self.assertTrue(self.phase(native=[(0, "map_next.*")]).fault(frames(*mixed)))
        self.assertTrue(self.phase(native=[(2, "map_next.*")]).fault(frames(*mixed)))
        self.assertTrue(self.phase(native=[(1, "sort.*")]).fault(frames(*mixed)))
        self.assertTrue(self.phase(plain=2).fault(frames(*mixed)))
        # without symbols some frame has to be there
        stripped = pythons.Interpreter("/python3.12", (3, 12), False)
        self.assertIsNone(self.phase(stripped, native=[(1, "sort.*")]).fault(frames(*mixed)))
        self.assertTrue(self.phase(stripped, native=[(0, "sort.*")]).fault(frames(*mixed)))

    def test_share(self):
        good, bad = (pythons.Sample(1, 7, 1500, frames(*listed)) for listed in (RIGHT, without(2)))
        self.assertEqual(pythons.judge(self.phase(), [good] * 99 + [bad])[:2] + pythons.judge(self.phase(), [good] * 99 + [bad])[3:], (99, 100, []))
        self.assertTrue(pythons.judge(self.phase(), [good] * 98 + [bad] * 2)[3])
        self.assertTrue(pythons.judge(self.phase(), [good] * 39)[3])
        self.assertTrue(pythons.judge(self.phase(), [])[3])

    def test_time_and_thread(self):
        phase = self.phase()
        self.assertTrue(phase.covers(pythons.Sample(1, 7, 1500, ()), 10))
        for tid, ns in ((8, 1500), (7, 1005), (7, 1995)):
            self.assertFalse(phase.covers(pythons.Sample(1, tid, ns, ()), 10))


class Expected(unittest.TestCase):
    CHAIN = [["A.f", FILE, 10], ["f.<locals>.<lambda>", FILE, 11], ["_run", "/lib/asyncio/events.py", 5], ["_run", "/lib/asyncio/base.py", 6], ["main", FILE, 20]]
    EXPECTED = [("A.f", 10), ("!", "sort"), ("f.<locals>.<lambda>", 11), ("*", "/asyncio/"), ("main", None)]

    def test_right(self):
        self.assertEqual(pythons.against_dump(self.EXPECTED, self.CHAIN, (3, 11), FILE), [(1, "sort")])
        old = [[name.rsplit(".", 1)[-1], file, line] for name, file, line in self.CHAIN]
        self.assertEqual(pythons.against_dump(self.EXPECTED, old, (3, 10), FILE), [(1, "sort")])
        self.assertIsInstance(pythons.against_dump(self.EXPECTED, old, (3, 11), FILE), str)

    def test_wrong(self):
        for expected in (self.EXPECTED[:-1], [*self.EXPECTED, ("x", None)], self.EXPECTED[1:], [("A.f", 9), *self.EXPECTED[1:]],
                         [*self.EXPECTED[:3], ("*", "/threading"), ("main", None)], [("A.g", 10), *self.EXPECTED[1:]]):
            self.assertIsInstance(pythons.against_dump(expected, self.CHAIN, (3, 11), FILE), str, expected)

    def test_faulthandler(self):
        chain = [["spin", FILE, 1], ["A.f", FILE, 10], ["na\u00efve", FILE, 11]]
        head = 'Current thread 0x1 (most recent call first):\n  File "/c.py", line 1 in fault_dump\n  File "/c.py", line 2 in begin\n  File "/p.py", line 3 in spin\n'
        right = head + '  File "/p.py", line 10 in f\n  File "/p.py", line 11 in na\\xefve\n'
        self.assertIsNone(pythons.against_faulthandler(right, chain))
        for text in (right.replace("10 in f", "9 in f"), right.replace("in f\n", "in g\n"), right.replace('p.py", line 11', 'q.py", line 11')):
            self.assertTrue(pythons.against_faulthandler(text, chain))


class Known(unittest.TestCase):
    SAID = {**SAID, "phases": [SAID], "frames": [["g", FILE, 0], ["f", FILE, 10], ["<module>", FILE, 20], ["gen", FILE, 0]], "chains": [[0, 1, 2], [3, 2]],
            "lines": {FILE: {"g": [30, 31], "f": [10], "<module>": [20], "gen": [40, 41]}}, "generators": [["gen", FILE, 40]]}

    def fault(self, *listed):
        return pythons.KnownChains(self.SAID, INTERPRETER).fault(frames(*listed, *BELOW))

    def test_right(self):
        self.assertIsNone(self.fault(("g", 31), ("f", 10), ("<module>", 20)))
        self.assertIsNone(self.fault(("gen", 41), ("<module>", 20)))
        self.assertIsNone(self.fault(("gen", 40), ("g", 31), ("f", 10), ("<module>", 20)))  # called to create the generator

    def test_wrong(self):
        for listed in ([("g", 29), ("f", 10), ("<module>", 20)], [("g", 30), ("f", 11), ("<module>", 20)], [("g", 30), ("<module>", 20)], [("h", 30), ("f", 10), ("<module>", 20)],
                       [("gen", 41), ("g", 31), ("f", 10), ("<module>", 20)], [("g", 30)], []):
            self.assertTrue(self.fault(*listed), listed)

    def test_impossible(self):
        lines = self.SAID["lines"]
        for listed, number in (([("g", 30)], 0), ([("g", 32)], 1), ([("h", 30)], 1), ([("[Python: not readable]", 0)], 0)):
            self.assertEqual(len(pythons.impossible([pythons.Sample(1, 7, 1500, frames(*listed))], lines)), number, listed)
        self.assertEqual(pythons.impossible([pythons.Sample(1, 7, 1500, frames(("h", 1), file="/elsewhere.py"))], lines), [])


class Churned(unittest.TestCase):
    TAIL = [["churn", FILE, 33], ["main", FILE, 49], ["<module>", FILE, 54]]
    CALLS = test_python_churn.Calls({"calls": [[1000, 2000, "f_0", "<gen_0>", 5], [2500, 3500, "f_1", "<gen_1>", 9]], "tail": TAIL})

    def verdict(self, ns, *made, tail=((33, "churn"), (49, "main"), (54, "<module>"))):
        found = [pythons.Frame("python", name, file, line) for name, file, line in made] + [pythons.Frame("python", name, FILE, line) for line, name in tail]
        return self.CALLS.verdict(pythons.Sample(1, 7, ns, tuple(found)), 10)

    def test_right(self):
        self.assertEqual(self.verdict(1500, ("f_0", "<gen_0>", 6)), "right")
        self.assertEqual(self.verdict(2005, ("f_0", "<gen_0>", 6)), "right")
        self.assertEqual(self.verdict(3000, ("f_1", "<gen_1>", 12)), "right")
        self.assertEqual(self.verdict(3000, ("[Python: no longer in memory]", "", 0)), "not named")
        self.assertEqual(self.verdict(2200), "between")
        self.assertEqual(self.verdict(2200, ("<module>", "<gen_1>", 1), tail=((31, "churn"), (49, "main"), (54, "<module>"))), "between")

    def test_wrong(self):
        for ns, made in ((1500, ("f_1", "<gen_1>", 9)), (3000, ("f_0", "<gen_0>", 6)), (2100, ("f_0", "<gen_0>", 6)), (1500, ("f_0", "<gen_0>", 4)),
                         (1500, ("f_0", "<gen_0>", 9)), (1500, ("f_0", "<gen_1>", 6)), (2200, ("<module>", "<gen_0>", 1)), (1500, ("\\", FILE, 3))):
            self.assertTrue(self.verdict(ns, made).startswith("wrong"), (ns, made))
        self.assertTrue(self.verdict(1500, ("f_0", "<gen_0>", 6), tail=((34, "churn"), (49, "main"), (54, "<module>"))).startswith("wrong"))
        self.assertTrue(self.verdict(1500, ("f_0", "<gen_0>", 6), tail=((33, "churn"), (50, "main"), (54, "<module>"))).startswith("wrong"))
        self.assertTrue(self.verdict(1500, ("f_0", "<gen_0>", 6), ("f_1", "<gen_1>", 9)).startswith("wrong"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
