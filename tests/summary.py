#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What all stages of `./dev test` found: the slowest tests, what was skipped and why, what failed, and one closing line.

    summary.py JUNIT_FILE...

Each file is what one run of ctest wrote. A file that is missing is a stage that did not build, which counts as a failure.
The exit status is 0 only if nothing failed and at least one test passed.
"""
import collections
import os
import re
import sys
import xml.etree.ElementTree

SLOWEST = 12
Result = collections.namedtuple("Result", "stage name seconds outcome skipped")


def results(path):
    """The tests of one stage. `skipped` lists the reasons that the test printed for parts it left out."""
    stage = os.path.basename(os.path.dirname(path))
    if not os.path.exists(path):
        yield Result(stage, "the build", 0.0, "failed", [])
        return
    for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        output = case.findtext("system-out") or ""
        reasons = re.findall(r"^SKIP (.+)$", output, re.MULTILINE)
        if case.find("failure") is not None or case.get("status") == "fail":
            outcome = "failed"
        elif case.find("skipped") is not None or case.get("status") != "run":
            outcome = "skipped"
            reasons = reasons or ["no reason printed"]
        else:
            outcome = "passed"
        yield Result(stage, case.get("name"), float(case.get("time") or 0), outcome, reasons)


def main():
    found = [result for path in sys.argv[1:] for result in results(path)]
    count = collections.Counter(result.outcome for result in found)

    print(f"\nThe slowest of {len(found)} tests:")
    for result in sorted(found, key=lambda r: -r.seconds)[:SLOWEST]:
        print(f"  {result.seconds:7.1f} s  {result.stage}: {result.name}")
    skipped = [(result, reason) for result in found for reason in result.skipped]
    if skipped:
        print("Skipped:")
        for result, reason in skipped:
            print(f"  {result.stage}: {result.name}: {reason}")
    failed = [result for result in found if result.outcome == "failed"]
    if failed:
        print("Failed:")
        for result in failed:
            print(f"  {result.stage}: {result.name}")
    print(f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped")
    return 1 if count["failed"] or not count["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
