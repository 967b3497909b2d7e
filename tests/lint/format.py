#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The sources of the programs are formatted as .clang-format says.

    format.py TOP
"""
import pathlib
import subprocess
import sys

import source_tree


def faults(top):
    """What clang-format would change; "" if there is nothing."""
    names = source_tree.sources(top, ".c", ".h", ".cc")
    run = subprocess.run(["clang-format", "--dry-run", "-Werror", *names], cwd=top, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return run.stderr or (f"clang-format ended with status {run.returncode}\n" if run.returncode or not names else "")


def main():
    found = faults(pathlib.Path(sys.argv[1]))
    print(found or "every source file is formatted", end="\n" if not found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
