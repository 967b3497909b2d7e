#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What all stages of `./dev test` found: the slowest tests, what was skipped and why, what failed, and one closing line.

    summary.py JUNIT_FILE...

Each file is what one run of ctest wrote. A file that is missing is a stage that did not build, or whose ctest ended early; this counts as a failure, as does
a file that cannot be read or has no test. A test that could not be started is a failure too: only tests that asked for it are skipped.
The exit status is 0 only if nothing failed and at least one test passed.
"""
import collections
import os
import re
import sys
import xml.etree.ElementTree

SLOWEST = 12
Result = collections.namedtuple("Result", "stage name seconds outcome skipped")


def result_of(stage, case):
    """The result of one test. `skipped` lists the reasons that the test printed for parts it left out."""
    output = case.findtext("system-out") or ""
    reasons = re.findall(r"^SKIP (.+)$", output, re.MULTILINE)
    not_run = case.find("skipped")
    if case.get("status") == "run" and case.find("failure") is None and not_run is None:
        outcome = "passed"
    elif case.get("status") == "disabled" or not_run is not None and not_run.get("message", "").startswith("SKIP_"):
        # The message names the property of the test that made ctest skip it: SKIP_RETURN_CODE or SKIP_REGULAR_EXPRESSION.
        outcome = "skipped"
        reasons = reasons or ["no reason printed"]
    else:
        outcome = "failed"
    return Result(stage, case.get("name"), float(case.get("time") or 0), outcome, reasons)


def results(path):
    """The tests of one stage."""
    stage = os.path.basename(os.path.dirname(path))
    fault = "has no test"
    try:
        found = [result_of(stage, case) for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase")]
    except FileNotFoundError:
        found, fault = [], "did not build, or ctest ended early"
    except (OSError, ValueError, xml.etree.ElementTree.ParseError) as error:
        found, fault = [], f"has results that cannot be read ({error})"
    return found or [Result(stage, f"the stage {fault}", 0.0, "failed", [])]


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
