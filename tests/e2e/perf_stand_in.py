#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs Linux perf in bulkhead's place, to check the test programs and the checkers independently.

It understands the part of `bulkhead record` that test_stacks.py uses, samples with `perf record
--call-graph dwarf` and unwinds with perf's own unwinder. It is not a test by itself. To run it manually:

    mkdir /tmp/stand-in && cp tests/e2e/perf_stand_in.py /tmp/stand-in/bulkhead
    BULKHEAD_BIN=/tmp/stand-in BULKHEAD_PROGRAMS=... python3 tests/e2e/test_stacks.py
"""
import argparse
import collections
import json
import os
import re
import subprocess
import sys
import tempfile


def main():
    p = argparse.ArgumentParser()
    p.add_argument("record")
    p.add_argument("-F", default="199")
    p.add_argument("-d", default=None)
    p.add_argument("-p")
    p.add_argument("-t")
    p.add_argument("-o", action="append", default=[])
    p.add_argument("--stats")
    p.add_argument("--group-by", choices=("thread",))  # as perf script has it
    line = sys.argv[1:]
    split = line.index("--") if "--" in line else len(line)
    args = p.parse_args(line[:split])
    args.command = line[split + 1:]
    freq = min(int(args.F), int(os.environ.get("PERF_FREQ", "299")))
    with tempfile.TemporaryDirectory() as directory:
        data = f"{directory}/perf.data"
        what = ["-p", args.p] if args.p else ["-t", args.t] if args.t else ["-a"] if not args.command else []
        command = args.command or ["sleep", args.d]
        status = subprocess.run(["perf", "record", "-q", "-e", "cpu-clock", "-F", str(freq), "--call-graph", "dwarf,65528", "-m", "4096",
                                 "-o", data, *what, "--", *command], stderr=subprocess.DEVNULL, check=False).returncode
        text = subprocess.run(["perf", "script", "-i", data, "--max-stack", "700", "-F", "comm,tid,ip,sym,dso"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout.decode(errors="replace")
    folded = collections.Counter()
    for block in text.split("\n\n"):
        lines = block.strip("\n").splitlines()
        if not lines:
            continue
        comm = re.match(r"\s*(.*?)\s+\d+\s*$", lines[0]).group(1)
        frames = []
        for line in lines[1:]:
            ip, symbol, dso = re.fullmatch(r"\s*([0-9a-f]+) (.*) \((.*)\)", line).groups()
            if int(ip, 16) >= 1 << 63 and "vsyscall" not in dso and all(f.endswith("_[k]") for f in frames):
                symbol = symbol + "_[k]"
            elif symbol == "[unknown]" or dso.startswith("[vdso"):
                symbol = f"{os.path.basename(dso) or '[anon]'}+0x{ip}"
            frames.append(re.sub(r"\+0x[0-9a-f]+$", "", symbol) if not symbol.startswith(("[", "lib", "plt+", "plt_cet+", "ld")) else symbol)
        folded[";".join([comm.replace(";", "_"), *reversed(frames)])] += 1
    total = sum(folded.values())
    for path in args.o:
        with open(path, "w", encoding="utf-8") as f:
            f.writelines(f"{stack} {count}\n" for stack, count in folded.items())
    if args.stats:
        with open(args.stats, "w", encoding="utf-8") as f:
            json.dump({"taken": total, "exported": total, "lost": {}, "incomplete": {}, "deferred": 0}, f)
    sys.exit(status if args.command else 0)


main()
