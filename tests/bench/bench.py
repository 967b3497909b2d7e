# SPDX-License-Identifier: Apache-2.0
"""./dev bench: runs the benchmarks, prints a table and writes JSON. docs/performance.md explains the methods."""
import argparse
import importlib
import json
import math
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
BENCHMARKS = ("kernel_time", "start", "first_stack", "tables", "names", "cost", "memory", "overhead", "loss", "export", "runtimes")
COMPARE_BUILDS = ("kernel_time", "cost")  # understand --against


def arguments():
    parser = argparse.ArgumentParser(prog="./dev bench", description="Runs the benchmarks named, or all of them; docs/performance.md tells how each works.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--list", action="store_true", help="the names")
    parser.add_argument("--short", action="store_true", help="small sizes: shows that the benchmarks work, results mean nothing")
    parser.add_argument("--json", metavar="FILE", help="where to write the results (bench.json next to the directory of the programs)")
    parser.add_argument("--bin", metavar="DIR", help="the built programs (build/release/bin)")
    parser.add_argument("--case", metavar="TEXT", help="only cases whose name contains this (kernel_time)")
    parser.add_argument("--windows", type=int, metavar="N", help="windows a case (kernel_time)")
    parser.add_argument("--against", metavar="DIR", help="compare with the programs of another build, at the same time (kernel_time, cost)")
    options = parser.parse_args()
    if options.against:
        options.against = os.path.abspath(options.against)
        options.names = options.names or list(COMPARE_BUILDS)
        if not os.access(os.path.join(options.against, "bulkhead"), os.X_OK):
            parser.error(f"--against: {options.against} has no program bulkhead")
    for name in options.names:
        if name not in BENCHMARKS:
            parser.error(f"no benchmark is called {name}; there are {', '.join(BENCHMARKS)}")
        if options.against and name not in COMPARE_BUILDS:
            parser.error(f"{name} cannot compare builds; {' and '.join(COMPARE_BUILDS)} can")
    return options


HEADER = f"{'benchmark':12} {'case':50} {'median':>10} {'minimum':>10} {'spread':>7} {'n':>4} {'unit':12} {'target':>9}"


def format_value(value):
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def row(r):
    verdict = "disturbed" if r.get("disturbed") else {True: "met", False: "MISSED", None: ""}[r.get("met")]
    target = f"{r.get('target', ''):>9} {verdict}"
    scatter = "-" if r["spread"] is None else f"{100 * r['spread']:.0f} %"
    numbers = f"{format_value(r['median']):>10} {format_value(r['minimum']):>10} {scatter:>7} {r['count']:>4}"
    return f"{r['benchmark']:12} {r['case']:50} {numbers} {r['unit']:12} {target}".rstrip()


def sane(r):
    """Checks that results exist and are possible on any machine. No time is judged."""
    values = (r["median"], r["minimum"], r["spread"])
    return r["count"] > 0 and all(v is not None and math.isfinite(v) for v in values)


def main():
    options = arguments()
    if options.list:
        print("\n".join(BENCHMARKS))
        return 0
    if os.geteuid() != 0:
        print("bench: needs root", file=sys.stderr)
        return 77
    if options.bin:
        os.environ["BULKHEAD_BIN"] = os.path.abspath(options.bin)
        os.environ.setdefault("BULKHEAD_PROGRAMS", os.path.abspath(os.path.join(options.bin, "../tests/e2e/programs")))
    sys.path.insert(0, HERE)
    measure = importlib.import_module("measure")
    if not os.path.exists(measure.lib.BULKHEAD):
        print(f"bench: {measure.lib.BULKHEAD} does not exist: build first, or say --bin", file=sys.stderr)
        return 2
    sys.stdout.reconfigure(line_buffering=True)
    about = {"machine": measure.machine(), "kernel": measure.kernel(), "commit": measure.commit(), "short": options.short}
    cpu, cpus, memory = about["machine"].values()
    print(f"{cpu}, {cpus} CPUs, {memory}, Linux {about['kernel']}, commit {about['commit']}\n\n{HEADER}")
    results, faults = [], []
    for name in options.names or BENCHMARKS:
        before = len(results)
        try:
            for r in importlib.import_module(name).run(options):
                results.append(r)
                print(row(r))
                if not sane(r):
                    faults.append(f"{name}: impossible results: {r}")
        except (RuntimeError, OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
            faults.append(f"{name}: {type(error).__name__}: {error}")
        if len(results) == before:
            faults.append(f"{name}: no results")
    path = options.json or os.path.join(os.path.dirname(measure.lib.BIN), "bench.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(about | {"results": results}, f, indent=1)
        f.write("\n")
    print(f"\nwrote {path}")
    for fault in faults:
        print(f"bench: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
