# SPDX-License-Identifier: Apache-2.0
"""Time in the kernel a sample of managed stacks of depth 20, beside native ones of 34 frames, in turns in one run. Nearly every managed stack is new, for
it says where in the leaf's code the sample was: so beside native stacks that are always the same, and are only referred to, there are such that are
always new, and go out in full."""
import contextlib
import glob
import os
import shutil
import statistics
import subprocess
import tempfile

import lib
import measure

NAME = "runtimes"
DEPTH = 20
TARGET = 1.3
LEAST_SHARE = 0.95
MANY_CHAINS = 20
STEADY_SECONDS = 3.5  # attached, and methods steady (bpf/runtime/known.h)
SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs")


class Programs:
    """So many of a program, each past its first line."""

    def __init__(self, *command):
        self.command = command

    def __enter__(self):
        self.processes = [subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) for _ in range(measure.CPUS)]
        for process in self.processes:
            process.stdout.readline()
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()
            process.stdout.close()


def pythons():
    """Each CPython; the last one with many functions, too."""
    program = os.path.join(SOURCES, "chain20.py")
    paths = sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3.*")) + glob.glob("/usr/bin/python3.*"))
    paths = [path for path in paths if os.path.basename(path).removeprefix("python3.").isdigit()]
    names = [f"CPython {os.path.basename(path)[6:]}{' (Debian)' if path.startswith('/usr') else ''}" for path in paths]
    yield from ((name, (path, program)) for name, path in zip(names, paths))
    if paths:
        yield f"{names[-1]}, {MANY_CHAINS * DEPTH} functions", (paths[-1], program, str(MANY_CHAINS))


def javas(directory):
    """With each JDK: compiled code, of which nothing is inlined, and the interpreter."""
    for javac in sorted(glob.glob("/usr/lib/jvm/*/bin/javac")):
        home = os.path.dirname(os.path.dirname(javac))
        if os.path.islink(home):
            continue
        classes = os.path.join(directory, os.path.basename(home))
        subprocess.run([javac, "-d", classes, os.path.join(SOURCES, "Chain20.java")], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for what, flags in ("compiled", ("-XX:-Inline", "-Xcomp", "-XX:CompileCommand=quiet", "-XX:CompileCommand=compileonly,Chain20::*")), ("interpreted", ("-Xint",)):
            yield f"{os.path.basename(home)}, {what}", (os.path.join(home, "bin/java"), *flags, "-cp", classes, "Chain20")


def windows(workload, count, seconds, before=1.5):
    """us a sample in each window; frames of a stack; the share of the workload among the samples."""
    with workload, measure.Recording(99) as recording:
        program = [measure.BpfProgram(recording.loader)]
        measure.windows(program, 1, before)  # tables, caches
        (times,) = measure.windows(program, count, seconds)
        recording.stop()
        samples = recording.samples()
    mine = [s for s in samples if s.comm.startswith(("chain", "python", "java"))]
    total, all_of_them = sum(s.count for s in mine), sum(s.count for s in samples)
    frames = sum(len(lib.user_frames(s.frames)) * s.count for s in mine) / max(1, total)
    named = sum(s.count for s in mine if sum("level_" in f or "level" in f for f in s.frames) >= DEPTH - 2) / max(1, total)
    return times, frames, total / max(1, all_of_them), named


def run(options):
    count, seconds = (3, 0.5) if options.short else (options.windows or 10, 1)
    directory = tempfile.mkdtemp(prefix="bench-")
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        stack.enter_context(measure.bpf_statistics())
        workloads = [*pythons(), *javas(directory)]
        for name, command in workloads[-2:] if options.short else workloads:
            native, _, share, _ = windows(measure.chain(), count, seconds)
            fresh, _, _, _ = windows(measure.chain(flags="v"), count, seconds)
            managed, frames, managed_share, named = windows(Programs(*command), count, seconds, STEADY_SECONDS)
            about = {"frames": round(frames, 1), "shares_of_workload": [round(share, 3), round(managed_share, 3)], "whole_chain": round(named, 3)}
            disturbed = min(share, managed_share) < LEAST_SHARE
            yield measure.result(NAME, f"{name}, depth {DEPTH}", "us/sample", managed, disturbed=disturbed, **about)
            yield measure.result(NAME, f"{name}: ratio to native 34", "", statistics.median(managed) / statistics.median(native), at_most=TARGET, disturbed=disturbed)
            yield measure.result(NAME, f"{name}: ratio to native 34, each stack new", "", statistics.median(managed) / statistics.median(fresh), disturbed=disturbed)
