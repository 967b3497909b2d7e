#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares costs that a noisy machine cannot change with the baseline in the tree: instructions (callgrind), allocations, bytes, the verifier's work.

compare.py [--update] [--part PART]... BUILD_DIRECTORY

Fails if a value is worse by more than 5 %. If that is intended, `./dev baseline` (--update) writes a new baseline.json, and the commit says why. A part
whose baseline was measured with other tools or on another kernel is not compared. The exit status is 77 if no part was compared.
"""
import argparse
import concurrent.futures
import json
import os
import platform
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
BASELINE = os.path.join(HERE, "baseline.json")
TOLERANCE = 0.05
SKIPPED = 77
PROGRAMS = ("bulkhead", "bulkhead-control", "bulkhead-loader", "bulkhead-unwinder-mgr", "bulkhead-opener", "bulkhead-symbolizer", "bulkhead-exporter")
# The C library selects its functions by the features of the CPU, and how it copies by the size of the caches. These settings hide both.
LEAST_CPU = ("glibc.cpu.hwcaps=-AVX,-AVX2,-AVX512F,-AVX512VL,-AVX512BW,-BMI1,-BMI2,-ERMS,-FMA,-FSRM,-LZCNT,-MOVBE,-POPCNT,-RTM,-SSSE3,-SSE4_1,-SSE4_2,"
             "-AVX_Fast_Unaligned_Load,-Fast_Unaligned_Load,-Fast_Unaligned_Copy:glibc.cpu.x86_non_temporal_threshold=0x10000000")
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "GLIBC_TUNABLES": LEAST_CPU}


class NotMeasured(Exception):
    pass


def run(*command, status=(0,)):
    done = subprocess.run(command, env=ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode not in status:
        sys.exit(f"{' '.join(command)}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def version(*command):
    """The first version number in what a tool prints."""
    return re.search(r"\d+(\.\d+)+", run(*command, "--version").stdout)[0]


def compiler(path):
    """{its name: its version}"""
    return {"clang" if "clang" in run(path, "--version").stdout else "gcc": version(path)}


def parse(text):
    """Lines of NAME, VALUE and UNIT, separated by tabs, as {name: (value, unit)}."""
    rows = (line.split("\t") for line in text.splitlines())
    return {name: (float(value), unit) for name, value, unit in rows}


class Build:
    def __init__(self, directory):
        with open(os.path.join(directory, "CMakeCache.txt"), encoding="utf-8") as f:
            self.cache = dict(re.findall(r"^(\w+):\w+=(.*)$", f.read(), re.MULTILINE))
        self.bin = os.path.join(os.path.abspath(directory), "bin")

    def program(self, name):
        return os.path.join(self.bin, name)

    def workloads(self):
        """[(name, the unit by which its instructions are divided)]"""
        return [line.split("\t") for line in run(self.program("stable_workloads")).stdout.splitlines()]


# The parts. tools() says what the values of a part depend on, measure() measures them.

class Instructions:
    """Instructions of each workload, and the sizes of the programs, which depend on the same tools."""

    def tools(self, build):
        return {
            "build": build.cache["CMAKE_BUILD_TYPE"],
            **compiler(build.cache["CMAKE_C_COMPILER"]),
            "glibc": platform.libc_ver()[1],
            "valgrind": version("valgrind"),
        }

    def measure(self, build):
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            values = dict(pool.map(lambda workload: self.count(build, *workload), build.workloads()))
        for name in PROGRAMS:
            text, data = run("size", build.program(name)).stdout.splitlines()[1].split()[:2]
            values[f"program.{name}"] = (int(text) + int(data), "bytes")
        return values

    @staticmethod
    def count(build, name, item):
        done = run("valgrind", "--tool=callgrind", "--instr-atstart=no", "--callgrind-out-file=/dev/null", build.program("stable_workloads"), name)
        collected = int(re.search(r"Collected : (\d+)", done.stderr)[1])
        return f"instructions.{name}", (collected / parse(done.stdout)["items"][0], f"instructions/{item}")


class Bytes:
    """What each workload allocates, and the sizes of its outputs. They depend on our code alone."""

    def tools(self, _):
        return {}

    def measure(self, build):
        values = {}
        for name, _ in build.workloads():
            for kind, (value, unit) in parse(run(build.program("stable_workloads"), name).stdout).items():
                if kind in ("allocations", "allocated", "peak"):
                    values[f"{kind}.{name}"] = (value, unit)
                elif kind != "items":
                    values[kind] = (value, unit)
        return values


class Verifier:
    """The verifier's work for each BPF program, on this kernel."""

    def tools(self, build):
        return compiler(build.cache["BPF_CLANG"])

    def measure(self, build):
        done = run(build.program("stable_verifier_cost"), status=(0, SKIPPED))
        if done.returncode:
            raise NotMeasured("this process may not load BPF programs")
        print(done.stderr, end="")
        return {f"verifier.{name}": value for name, value in parse(done.stdout).items()}


KERNEL = ".".join(platform.release().split(".")[:2])
PARTS = {"instructions": ("instructions", Instructions()), "bytes": ("bytes", Bytes()), "verifier": (f"verifier, kernel {KERNEL}", Verifier())}


# The baseline compared with what is measured now

def rounded(value):
    """Six digits are enough, and whole numbers stay whole."""
    return int(value) if value == int(value) else float(f"{value:.6g}")


def worse_by(kept, now):
    """The relative change. Every value is a cost, so more is worse."""
    return now / kept - 1 if kept else float(now > 0)


def compare(kept, now):
    """Prints the table. Returns the names that got worse, and those that got better."""
    worse, better = [], []
    print(f"{'':44} {'baseline':>12} {'now':>12} {'change':>9}")
    for name in sorted(kept.keys() & now.keys()):
        change = worse_by(kept[name][0], now[name][0])
        verdict = "WORSE" if change > TOLERANCE else "better" if change < -TOLERANCE else ""
        worse += [name] if change > TOLERANCE else []
        better += [name] if change < -TOLERANCE else []
        print(f"{name:44} {kept[name][0]:12,.10g} {now[name][0]:12,.10g} {100 * change:+8.2f}% {now[name][1]:24} {verdict}".rstrip())
    return worse, better


def check(title, kept, tools, now):
    """Whether no value got worse. None if nothing was compared."""
    if title not in kept:
        print(f"NOT COMPARED: {title}: the baseline has no values for it; run ./dev baseline")
        return None
    was = kept[title]["made_with"]
    changed = [f"{tool} {was.get(tool, 'none')}, here {tools.get(tool, 'none')}" for tool in sorted({*was, *tools}) if was.get(tool) != tools.get(tool)]
    if changed:
        print(f"NOT COMPARED: {title}: the baseline was measured with other tools ({'; '.join(changed)})")
        return None
    worse, better = compare(kept[title]["values"], now)
    single = sorted(kept[title]["values"].keys() ^ now.keys())
    if better:
        print(f"Better by more than {TOLERANCE:.0%}: {', '.join(better)}. Run ./dev baseline to keep this improvement.")
    if single:
        print(f"FAILED: only in the baseline, or only measured: {', '.join(single)}. Run ./dev baseline and commit tests/bench/stable/baseline.json.")
    if worse:
        print(f"FAILED: worse by more than {TOLERANCE:.0%}: {', '.join(worse)}.\n"
              "If that is intended, run ./dev baseline and commit tests/bench/stable/baseline.json with the change and the reason.")
    return not worse and not single


def save(kept):
    """One value per line, so that diffs are short."""
    parts = []
    for title in sorted(kept):
        lines = ",\n".join(f"      {json.dumps(name)}: {json.dumps(value)}" for name, value in sorted(kept[title]["values"].items()))
        made_with = json.dumps(kept[title]["made_with"], sort_keys=True)
        parts.append(f'  {json.dumps(title)}: {{\n    "made_with": {made_with},\n    "values": {{\n{lines}\n    }}\n  }}')
    with open(BASELINE, "w", encoding="utf-8") as f:
        f.write("{\n" + ",\n".join(parts) + "\n}\n")


def main():
    parser = argparse.ArgumentParser(description="Compares costs that a noisy machine cannot change with tests/bench/stable/baseline.json.")
    parser.add_argument("--update", action="store_true", help="write what is measured now as the new baseline")
    parser.add_argument("--part", action="append", choices=list(PARTS), help="only this part (default: all)")
    parser.add_argument("build", help="directory of a release build")
    args = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)
    build, kept, verdicts = Build(args.build), {}, []
    if os.path.exists(BASELINE):
        with open(BASELINE, encoding="utf-8") as f:
            kept = json.load(f)
    for title, part in (PARTS[name] for name in args.part or PARTS):
        try:
            now = {name: [rounded(value), unit] for name, (value, unit) in part.measure(build).items()}
        except NotMeasured as reason:
            print(f"NOT COMPARED: {title}: {reason}")
            continue
        if args.update:
            compare(kept.get(title, {"values": {}})["values"], now)
            kept[title] = {"made_with": part.tools(build), "values": now}
        else:
            verdicts.append(check(title, kept, part.tools(build), now))
    if args.update:
        save(kept)
        print(f"Wrote {os.path.relpath(BASELINE)}. Commit it with the reason.")
        return 0
    if False in verdicts:
        return 1
    return 0 if True in verdicts else SKIPPED


if __name__ == "__main__":
    sys.exit(main())
