# SPDX-License-Identifier: Apache-2.0
"""Stops real multi-threaded programs of Debian 200 times in gdb, and compares our stacks with those of gdb.

record_truth.py records registers, stacks and what gdb found. unwind_truth builds tables from the same
files and unwinds the same bytes. Every difference is printed. To run it manually:

    BULKHEAD_BIN=build/release/bin python3 tests/bpf/test_gdb_truth.py

Some differences are expected. All of them are in code that no table describes: the functions of crtstuff.c
and crti.S (__do_global_dtors_aux, _init, _fini) and the first one of ld.so. We follow their instructions, and
gdb guesses. Such differences are printed, and counted separately ("undescribed").

While ld.so loads a program, gdb also goes on beyond ld.so's first function: it takes the words there (argc,
argv) for frames. If our stack ends at that function, and gdb's next frame is at an address where no code is
mapped, then gdb invented it, and its other frames are equal to ours. Such stacks count as equal ("invented"):
loading a program like clang takes a varying share of the stops.

A recorded stack has at most 64 KiB. If a program used more ("cut"), our frames must be the first of gdb's.
"""
import collections
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.environ.get("BULKHEAD_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.path.abspath(os.environ.get("BULKHEAD_BIN") or os.path.join(SOURCE, "build/release/bin"))
RECORD = os.path.join(SOURCE, "tests/e2e/gdb_truth/record_truth.py")
EQUAL = 0.995 # where a table describes the code
EQUAL_OF_ALL = 0.98

CXX = """
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <regex>
#include <string>
#include <vector>
int main(int argc, char **argv)
{
	std::map<std::string, std::vector<std::function<int(int)>>> table;
	std::regex pattern("([a-z]+)=([0-9]+)");
	for (int i = 0; i < argc; i++) {
		std::smatch match;
		std::string text(argv[i]);
		if (std::regex_search(text, match, pattern))
			table[match[1]].push_back([=](int x) { return x + std::stoi(match[2]); });
	}
	for (auto &entry : table)
		std::cout << entry.first << entry.second.front()(argc) << std::endl;
}
"""


def describe(difference):
    """Returns a description of a difference, in a few lines."""
    lines = ["{class}: stop {stop}, thread {tid} ({name}): {same} frames equal, gdb has {gdb_frames} ({gdb_end}), we {our_frames} ({reason})".format(**difference)]
    for key, text in (("from", "the last equal"), ("gdb", "gdb's next"), ("ours", "our next")):
        if key in difference:
            frame = difference[key]
            lines.append(f"    {text:15}{frame['at']} {frame.get('type', '')} {(frame.get('name') or '')[:60]} rule {json.dumps(frame.get('rule'))}")
    return "\n".join(lines)


def rule_of(difference):
    """Returns the rule of the frame after which the stacks differ, "none" if no table describes it."""
    return difference.get("from", difference.get("ours", {})).get("rule", "none")


def invented(difference):
    """Returns whether gdb added a frame that is not code beyond the outermost one, where our stack ends."""
    rule = rule_of(difference)
    ends = difference["class"] == "ours_shorter" and rule != "none" and rule["kind"] == "end"
    return ends and difference.get("gdb", {}).get("at", "").startswith("nowhere:")


def undescribed(difference):
    """Returns whether the difference is in code without a table."""
    rule = rule_of(difference)
    return difference["class"] != "cut" and (rule == "none" or rule["kind"] == "frame_pointer")


class Truth(unittest.TestCase):
    def setUp(self):
        for tool in ("gdb", "xz", "clang++", os.path.join(BIN, "unwind_truth")):
            if not shutil.which(tool):
                self.skipTest(f"{tool} is not installed")
        directory = tempfile.TemporaryDirectory(prefix="gdb-truth-")
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def path(self, name):
        return os.path.join(self.directory, name)

    def compare(self, stops, longest, *command):
        recorded = subprocess.run([sys.executable, "-B", RECORD, "--stops", str(stops), "--longest", str(longest), "-o", self.path("truth"), "--", *command],
                                  cwd=self.directory, capture_output=True, text=True, check=False)
        self.assertEqual(recorded.returncode, 0, recorded.stdout + recorded.stderr)
        walked = subprocess.run([os.path.join(BIN, "unwind_truth"), self.path("truth")], capture_output=True, text=True, check=False)
        self.assertEqual(walked.returncode, 0, walked.stderr)
        *differences, total = map(json.loads, walked.stdout.splitlines())
        total["undescribed"] = sum(map(undescribed, differences))
        total["invented"] = sum(map(invented, differences))
        print(" ".join(command)[:70], total, flush=True)
        for difference in differences:
            if difference["class"] != "cut":
                print(describe(difference), flush=True)
        self.assertEqual(total["class"], "sum")
        self.assertEqual(total["stops"], stops)
        self.assertEqual(total["equal"] + total["cut"] + total["different"], total["threads"])
        # The comparison must not succeed because the stacks are empty: they have some depth, and most are complete.
        self.assertGreater(total["frames"], 5 * total["threads"])
        self.assertLess(total["cut"], total["threads"] / 5)
        return collections.Counter({key: total[key] for key in ("stops", "threads", "equal", "cut", "different", "undescribed", "invented")})

    def xz(self):
        dice = random.Random(1)
        with open(self.path("data"), "wb") as f:
            for _ in range(24000):
                f.write(bytes(dice.choices(b"abcdefghijklmnop \n", k=1000)))
        # Three threads at each stop.
        total = self.compare(80, 0.05, "xz", "-T2", "-3", "-c", self.path("data"))
        self.assertGreater(total["threads"], 160)
        return total

    def clang(self):
        with open(self.path("heavy.cpp"), "w", encoding="utf-8") as f:
            f.write(CXX)
        return self.compare(80, 0.05, shutil.which("clang++-14") or "clang++", "-O2", "-c", self.path("heavy.cpp"), "-o", self.path("heavy.o"))

    def gdb(self):
        # Reads symbols with several threads.
        return self.compare(40, 0.05, "gdb", "-nx", "-batch", "-ex", "info functions main", "gdb")

    def test_200_stops(self):
        total = collections.Counter()
        for run in (self.xz, self.clang, self.gdb):
            total += run()
        print("total", dict(total), flush=True)
        self.assertEqual(total["stops"], 200)
        whole = total["threads"] - total["cut"]
        equal = total["equal"] + total["invented"]
        self.assertGreaterEqual(equal, EQUAL * (whole - total["undescribed"]))
        self.assertGreaterEqual(equal, EQUAL_OF_ALL * whole)


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    if result.testsRun and len(result.skipped) == result.testsRun:
        sys.exit(77)
    sys.exit(not result.wasSuccessful())
