# SPDX-License-Identifier: Apache-2.0
"""Checks with gdb that the programs in tests/e2e/programs have the call chains that they announce. To run it manually:

    BULKHEAD_PROGRAMS=build/release/tests/e2e/programs python3 tests/e2e/gdb_truth/check_programs.py [NAME ARG...]

Unlike perf, gdb reads memory below the stack pointer, where the compiler's tables say that registers
are still stored after they were popped. gdb does not use frame pointers where there are no tables
(jit), does not follow a vfork, and has no table for the vsyscall page.
"""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import lib

PROGRAMS = [
    ["recursion", "28"], ["recursion", "200"], ["recursion", "500"], ["recursion_nopie", "40"], ["recursion_nohdr", "40"],
    ["recursion_debugframe", "40"], ["recursion_static", "40"], ["recursion_staticpie", "40"], ["pingpong", "60"],
    ["plt"], ["plt_cet"], ["signals", "0"], ["signals", "1"], ["signals", "2"], ["signals", "3"], ["frames"], ["steps"],
    ["exceptions"], ["cxxnames"], *(["assembly", str(n)] for n in range(6)), ["tailcalls"], ["threads", "4"], ["clocks", "0"], ["syscalls"],
]


def truth(path):
    maps = []
    with open(path, encoding="ascii") as f:
        for line in f:
            line = json.loads(line)
            if line["kind"] == "maps":
                maps = [(*(int(x, 16) for x in m.split()[0].split("-")), int(m.split()[2], 16), m.split(maxsplit=5)[5] if len(m.split()) > 5 else "[anon]")
                        for m in line["text"].splitlines()]
            elif line["kind"] == "thread":
                yield line, maps


def name_of(pc, name, maps):
    for low, high, offset, path in maps:
        if low <= pc < high:
            return name.replace("[cold]", ".cold") if name and path != "[vdso]" else f"{os.path.basename(path)}+0x{pc - low + offset:x}"
    return name or f"nowhere+0x{pc:x}"


def check(name, *args, stops=60):
    with tempfile.TemporaryDirectory(prefix="e2e-") as directory:
        done = subprocess.run([sys.executable, "-B", os.path.join(os.path.dirname(__file__), "record_truth.py"), "--stops", str(stops), "--longest", "0.04",
                               "-o", f"{directory}/truth", "--stdout", f"{directory}/said", "--", os.path.join(lib.PROGRAMS, name), "60", *args],
                              capture_output=True, text=True, check=False)
        if done.returncode:
            return [done.stdout + done.stderr]
        with open(f"{directory}/said", encoding="utf-8") as f:
            expectation = lib.Expectation(json.loads(f.readline()))
        samples = []
        waiting = 0
        for stop, maps in truth(f"{directory}/truth"):
            frames = tuple(name_of(int(pc, 16), n, maps) for pc, n in zip(stop["pcs"], stop["names"]))
            if expectation.threads and stop["name"] not in expectation.threads or stop["stop"] < 5:
                waiting += 1  # a thread that waits, or one that has not reached the end of its chain
                continue
            samples.append(lib.Sample(stop["name"], frames, 1))
    return lib.compare(samples, expectation, 0.995, stops // 2)


failed = 0
for program in [sys.argv[1:]] if len(sys.argv) > 1 else PROGRAMS:
    faults = check(*program)
    failed += bool(faults)
    print("\n".join(["FAILED " if faults else "ok     ", *faults]) if faults else "ok    ", " ".join(program), flush=True)
sys.exit(failed > 0)
