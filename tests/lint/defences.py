#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The sources have each text that test_defences.py removes, once, and the documents say how many defences there are. The test itself takes so
long that it is not one of the usual tests.

    defences.py TOP

Prints each fault; exit status 1 if there is one.
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "security"))
from test_defences import DEFENCES  # noqa: E402

# Where the number is.
COUNTS = {"docs/threat-model.md": r"removes (\d+) of them", "tests/README.md": r"of (\d+) defences"}


def faults_of_sources(defences, read):
    """`read` returns the text of a file by its name, or None."""
    for name, (file, text, _, _) in defences.items():
        count = (read(file) or "").count(text)
        if count != 1:
            yield f"tests/security/test_defences.py: {name}: {file} has this text {count} times: {text.strip()}"


def faults_of_counts(defences, read):
    for document, pattern in COUNTS.items():
        said = [int(count) for count in re.findall(pattern, read(document) or "")]
        if not said or any(count != len(defences) for count in said):
            yield f"{document}: there are {len(defences)} defences, and it says {said}"


def main():
    top = pathlib.Path(sys.argv[1])

    def read(name):
        path = top / name
        return path.read_text(encoding="utf-8") if path.is_file() else None

    faults = [*faults_of_sources(DEFENCES, read), *faults_of_counts(DEFENCES, read)]
    print("\n".join(faults), end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
