#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a noisy machine cannot change, against the figures kept in the tree: instructions by callgrind, allocations and bytes, the verifier's work.

compare.py [--update] [--part PART]... BUILD_DIRECTORY

Fails where something is worse by more than 5 %. That is acknowledged by `./dev figures` (--update) and a commit of figures.json that says why. A part
whose figures were made with other tools, or on another kernel, is not compared; exit status 77 if that is so for all.
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
FIGURES = os.path.join(HERE, "figures.json")
TOLERANCE = 0.05
SKIPPED = 77
PROGRAMS = ("bulkhead", "bulkhead-loader", "bulkhead-unwinder-mgr", "bulkhead-opener", "bulkhead-symbolizer", "bulkhead-exporter")
# The C library chooses its functions by what the CPU can do, and how it copies by the size of the caches: here it is told that there is little.
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
    """The first thing in a tool's answer that looks like one."""
    return re.search(r"\d+(\.\d+)+", run(*command, "--version").stdout)[0]


def compiler(path):
    """{its name: its version}"""
    return {"clang" if "clang" in run(path, "--version").stdout else "gcc": version(path)}


def parse(text):
    """NAME, VALUE and UNIT between tabs, a line each: {name: (value, unit)}."""
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
        """[(name, what its instructions are divided by)]"""
        return [line.split("\t") for line in run(self.program("stable_workloads")).stdout.splitlines()]


# The parts: each says what its figures depend on, and measures them.

class Instructions:
    """Of each workload; and the size of the programs, which depends on the same."""

    def tools(self, build):
        return {
            "build": build.cache["CMAKE_BUILD_TYPE"],
            **compiler(build.cache["CMAKE_C_COMPILER"]),
            "glibc": platform.libc_ver()[1],
            "valgrind": version("valgrind"),
        }

    def measure(self, build):
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            figures = dict(pool.map(lambda workload: self.count(build, *workload), build.workloads()))
        for name in PROGRAMS:
            text, data = run("size", build.program(name)).stdout.splitlines()[1].split()[:2]
            figures[f"program.{name}"] = (int(text) + int(data), "bytes")
        return figures

    @staticmethod
    def count(build, name, item):
        done = run("valgrind", "--tool=callgrind", "--instr-atstart=no", "--callgrind-out-file=/dev/null", build.program("stable_workloads"), name)
        collected = int(re.search(r"Collected : (\d+)", done.stderr)[1])
        return f"instructions.{name}", (collected / parse(done.stdout)["items"][0], f"instructions/{item}")


class Bytes:
    """What each workload allocates, and the sizes of what it makes: they depend on our code alone."""

    def tools(self, _):
        return {}

    def measure(self, build):
        figures = {}
        for name, _ in build.workloads():
            for figure, (value, unit) in parse(run(build.program("stable_workloads"), name).stdout).items():
                if figure in ("allocations", "allocated", "peak"):
                    figures[f"{figure}.{name}"] = (value, unit)
                elif figure != "items":
                    figures[figure] = (value, unit)
        return figures


class Verifier:
    """For each BPF program, on this kernel."""

    def tools(self, build):
        return compiler(build.cache["BPF_CLANG"])

    def measure(self, build):
        done = run(build.program("stable_verifier_cost"), status=(0, SKIPPED))
        if done.returncode:
            raise NotMeasured("this process may not load BPF programs")
        print(done.stderr, end="")
        return {f"verifier.{name}": figure for name, figure in parse(done.stdout).items()}


KERNEL = ".".join(platform.release().split(".")[:2])
PARTS = {"instructions": ("instructions", Instructions()), "bytes": ("bytes", Bytes()), "verifier": (f"verifier, kernel {KERNEL}", Verifier())}


# What was kept, and what is now

def rounded(value):
    """Six digits are plenty, and whole numbers stay whole."""
    return int(value) if value == int(value) else float(f"{value:.6g}")


def worse_by(kept, now):
    """As a share; every figure is a cost."""
    return now / kept - 1 if kept else float(now > 0)


def compare(kept, now):
    """Prints the table; the names of those that are worse, and of those that are better."""
    worse, better = [], []
    print(f"{'':44} {'kept':>12} {'now':>12} {'change':>9}")
    for name in sorted(kept.keys() & now.keys()):
        change = worse_by(kept[name][0], now[name][0])
        verdict = "WORSE" if change > TOLERANCE else "better" if change < -TOLERANCE else ""
        worse += [name] if change > TOLERANCE else []
        better += [name] if change < -TOLERANCE else []
        print(f"{name:44} {kept[name][0]:12,.10g} {now[name][0]:12,.10g} {100 * change:+8.2f}% {now[name][1]:24} {verdict}".rstrip())
    return worse, better


def check(title, kept, tools, now):
    """Whether all is well; None if nothing was compared."""
    if title not in kept:
        print(f"NOT COMPARED: {title}: no figures are kept for it; ./dev figures makes them")
        return None
    was = kept[title]["made_with"]
    changed = [f"{tool} {was.get(tool, 'none')}, here {tools.get(tool, 'none')}" for tool in sorted({*was, *tools}) if was.get(tool) != tools.get(tool)]
    if changed:
        print(f"NOT COMPARED: {title}: the figures that are kept were made with other tools ({'; '.join(changed)})")
        return None
    worse, better = compare(kept[title]["figures"], now)
    single = sorted(kept[title]["figures"].keys() ^ now.keys())
    if better:
        print(f"Better by more than {TOLERANCE:.0%}: {', '.join(better)}. The figures should be renewed: ./dev figures")
    if single:
        print(f"FAILED: kept but not measured, or measured but not kept: {', '.join(single)}. Run ./dev figures and commit tests/bench/stable/figures.json.")
    if worse:
        print(f"FAILED: worse by more than {TOLERANCE:.0%}: {', '.join(worse)}.\n"
              "If that is meant, run ./dev figures, and commit tests/bench/stable/figures.json with the change; the commit's message gives the reason.")
    return not worse and not single


def save(kept):
    """A figure a line, for the sake of diffs."""
    parts = []
    for title in sorted(kept):
        lines = ",\n".join(f"      {json.dumps(name)}: {json.dumps(figure)}" for name, figure in sorted(kept[title]["figures"].items()))
        made_with = json.dumps(kept[title]["made_with"], sort_keys=True)
        parts.append(f'  {json.dumps(title)}: {{\n    "made_with": {made_with},\n    "figures": {{\n{lines}\n    }}\n  }}')
    with open(FIGURES, "w", encoding="utf-8") as f:
        f.write("{\n" + ",\n".join(parts) + "\n}\n")


def main():
    parser = argparse.ArgumentParser(description="Compares what a noisy machine cannot change with tests/bench/stable/figures.json.")
    parser.add_argument("--update", action="store_true", help="keep what is measured now")
    parser.add_argument("--part", action="append", choices=list(PARTS), help="only this one; all, if none is given")
    parser.add_argument("build", help="directory of a release build")
    args = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)
    build, kept, verdicts = Build(args.build), {}, []
    if os.path.exists(FIGURES):
        with open(FIGURES, encoding="utf-8") as f:
            kept = json.load(f)
    for title, part in (PARTS[name] for name in args.part or PARTS):
        try:
            now = {name: [rounded(value), unit] for name, (value, unit) in part.measure(build).items()}
        except NotMeasured as reason:
            print(f"NOT COMPARED: {title}: {reason}")
            continue
        if args.update:
            compare(kept.get(title, {"figures": {}})["figures"], now)
            kept[title] = {"made_with": part.tools(build), "figures": now}
        else:
            verdicts.append(check(title, kept, part.tools(build), now))
    if args.update:
        save(kept)
        print(f"Now kept in {os.path.relpath(FIGURES)}; to be committed with the reason.")
        return 0
    if False in verdicts:
        return 1
    return 0 if True in verdicts else SKIPPED


if __name__ == "__main__":
    sys.exit(main())
