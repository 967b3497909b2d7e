#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who may include whom (ARCHITECTURE.md): common <- parse, ipc <- roles; no role another's headers; whoever is privileged or writes the outputs no
parser. Prints each include that goes the wrong way; exit status 1 if there is one."""

import pathlib
import re
import sys

SHARED = "bpf/shared.h"
TABLES = ["common/runtimes.def", "common/incomplete_reasons.def"]
# Directory: what its sources may include, beside its own headers and the system's.
MAY = {
    "common": [],
    "parse": ["common/"],
    "ipc": ["common/"],
    "records": ["common/"],
    "role": ["common/", "ipc/"],
    "bpf": TABLES,
    "loader": ["common/", "ipc/", "role/", SHARED],
    "unwinder-mgr": ["common/", "ipc/", "role/", "parse/", SHARED, "bpf/unwind/"],
    "symbolizer/opener": ["common/", "ipc/", "role/"],
    "symbolizer/runtime": ["common/", "parse/", "bpf/runtime/", SHARED],
    "symbolizer/worker": ["common/", "ipc/", "role/", "records/", "parse/", "symbolizer/runtime/", SHARED],
    "exporter": ["common/", "ipc/", "role/"],
    "exporter/model": ["common/", "ipc/", "records/"],
    "exporter/otlp": ["common/", "exporter/model/"],
    "exporter/sinks": ["common/", "exporter/model/", "exporter/otlp/"],
    "exporter/delivery": ["common/", "ipc/", "role/", "records/", "exporter/model/", "exporter/otlp/"],
    "cli": ["common/", "ipc/", "role/"],
}


def rules_of(path):
    """The innermost directory of MAY that contains the file."""
    return next((str(parent) for parent in path.parents if str(parent) in MAY), None)


def faults(top):
    for directory, allowed in MAY.items():
        for path in sorted((top / directory).rglob("*")):
            if path.suffix not in (".c", ".h", ".cc") or rules_of(path.relative_to(top)) != directory:
                continue
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                found = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
                # Generated headers have no directory of ours.
                if not found or "/" not in found[1] or found[1].split("/")[0] not in {d.split("/")[0] for d in MAY}:
                    continue
                if not any(found[1].startswith(prefix) for prefix in [directory + "/", *allowed]):
                    yield f"{path.relative_to(top)}:{number}: {directory} may not include {found[1]}"


def main():
    found = list(faults(pathlib.Path(sys.argv[1])))
    print("\n".join(found) or "every include goes the right way")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
