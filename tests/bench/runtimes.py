# SPDX-License-Identifier: Apache-2.0
"""Time in the kernel per sample of managed stacks of depth 20, compared with native stacks of 34 frames.

All workloads are in one recording and take turns, each process on a CPU of its own, so that other load on the machine affects all of them. A ratio compares
times of the same round. Nearly every managed stack is new, because it contains the place in the leaf's code. Therefore there are two native workloads: stacks
that are always the same, of which only the id is sent, and stacks that are always new and sent in full.
"""
import collections
import contextlib
import glob
import os
import shutil
import signal
import subprocess
import tempfile
import time

import lib
import measure

NAME = "runtimes"
DEPTH = 20
TARGET = 1.3
LEAST_SHARE = 0.95
MANY_CHAINS = 20
# Until runtimes are attached, and the method cache trusts their methods (bpf/runtime/method_cache.h). It does so only while they run: between the
# turns of a workload it sees none of them for longer than VALIDATE_GAP.
STEADY_SECONDS = 2.6
SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs")
NATIVE, FRESH = "native 34", "native 34, each stack new"

# At the higher rate caches are warm.
Rate = collections.namedtuple("Rate", "hz rounds seconds")


class Programs:
    """A program on each CPU, after it has printed its first line."""

    def __init__(self, *command):
        self.command = command

    def __enter__(self):
        self.processes = [subprocess.Popen(["taskset", "-c", str(cpu), *self.command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
                          for cpu in sorted(os.sched_getaffinity(0))]
        for process in self.processes:
            process.stdout.readline()
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()
            process.stdout.close()


def pythons():
    """One workload per CPython, and one with many functions for the newest."""
    program = os.path.join(SOURCES, "chain20.py")
    paths = sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3.*")) + glob.glob("/usr/bin/python3.*"))
    paths = [path for path in paths if os.path.basename(path).removeprefix("python3.").isdigit()]
    names = [f"CPython {os.path.basename(path)[6:]}{' (Debian)' if path.startswith('/usr') else ''}" for path in paths]
    yield from ((name, (path, program)) for name, path in zip(names, paths))
    if paths:
        yield f"{names[-1]}, {MANY_CHAINS * (DEPTH - 2)} functions", (paths[-1], program, str(MANY_CHAINS))


def javas(directory):
    """Two workloads per JDK: compiled code without inlining, and interpreted code."""
    for javac in sorted(glob.glob("/usr/lib/jvm/*/bin/javac")):
        home = os.path.dirname(os.path.dirname(javac))
        if os.path.islink(home):
            continue
        classes = os.path.join(directory, os.path.basename(home))
        subprocess.run([javac, "-d", classes, os.path.join(SOURCES, "Chain20.java")], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for what, flags in ("compiled", ("-XX:-Inline", "-Xcomp", "-XX:CompileCommand=quiet", "-XX:CompileCommand=compileonly,Chain20::*")), ("interpreted", ("-Xint",)):
            yield f"{os.path.basename(home)}, {what}", (os.path.join(home, "bin/java"), *flags, "-cp", classes, "Chain20")


def nodes():
    """Two workloads per Node: code of all tiers without inlining, and interpreted code. BULKHEAD_NODES: more programs "node", separated by colons."""
    programs = [path for path in os.environ.get("BULKHEAD_NODES", "").split(":") if path]
    if shutil.which("node"):
        programs.insert(0, os.path.realpath(shutil.which("node")))
    for node in programs:
        version = subprocess.run([node, "-p", "process.versions.node"], check=True, capture_output=True, text=True).stdout.split(".")[0]
        for what, flags in ("compiled", ("--no-turbo-inlining", "--no-maglev-inlining")), ("interpreted", ("--no-opt", "--no-sparkplug", "--no-maglev")):
            yield f"Node {version}, {what}", (node, *flags, os.path.join(SOURCES, "chain20.js"))


def perls():
    """One workload per Perl. BULKHEAD_PERLS: more programs "perl", separated by colons."""
    programs = [path for path in os.environ.get("BULKHEAD_PERLS", "").split(":") if path]
    if shutil.which("perl"):
        programs.insert(0, os.path.realpath(shutil.which("perl")))
    for perl in programs:
        version = subprocess.run([perl, "-e", 'printf "%vd", $^V'], check=True, capture_output=True, text=True).stdout
        yield f"Perl {version}", (perl, os.path.join(SOURCES, "chain20.pl"))


def phps():
    """One workload per PHP. BULKHEAD_PHPS: more programs "php", separated by colons."""
    programs = [path for path in os.environ.get("BULKHEAD_PHPS", "").split(":") if path]
    if shutil.which("php"):
        programs.insert(0, os.path.realpath(shutil.which("php")))
    for php in programs:
        version = subprocess.run([php, "-n", "-r", "echo PHP_VERSION;"], check=True, capture_output=True, text=True).stdout
        yield f"PHP {version}", (php, os.path.join(SOURCES, "chain20.php"))


def rubies():
    """One workload per Ruby. BULKHEAD_RUBIES: more programs "ruby", separated by colons."""
    programs = [path for path in os.environ.get("BULKHEAD_RUBIES", "").split(":") if path]
    if shutil.which("ruby"):
        programs.insert(0, os.path.realpath(shutil.which("ruby")))
    for ruby in programs:
        version = subprocess.run([ruby, "--disable-all", "-e", "print RUBY_VERSION"], check=True, capture_output=True, text=True).stdout
        yield f"Ruby {version}", (ruby, os.path.join(SOURCES, "chain20.rb"))


def processes(workload):
    return [workload.process] if isinstance(workload, measure.Child) else workload.processes


def signal_all(workload, number):
    for process in processes(workload):
        process.send_signal(number)


def turn(workload, program, seconds):
    """us per sample of the one workload that runs."""
    signal_all(workload, signal.SIGCONT)
    time.sleep(STEADY_SECONDS)
    (times,) = measure.windows([program], 1, seconds)
    signal_all(workload, signal.SIGSTOP)
    return times[0]


def record(workloads, rate):
    """({name: us per sample in each round}, the workloads' share of the samples, the share of complete managed stacks)"""
    times = {name: [] for name in workloads}
    with measure.Recording(rate.hz) as recording:
        program = measure.BpfProgram(recording.loader)
        for _ in range(rate.rounds):
            for name, workload in workloads.items():
                times[name].append(turn(workload, program, rate.seconds))
        recording.stop()
        samples = recording.samples()
    managed = [s for s in samples if s.comm.startswith(("python", "java", "node", "perl", "php", "ruby"))]
    count = sum(s.count for s in managed)
    of_workloads = count + sum(s.count for s in samples if s.comm.startswith("chain"))
    whole = sum(s.count for s in managed if sum("level" in f for f in s.frames) >= DEPTH - 2)
    return times, of_workloads / max(1, sum(s.count for s in samples)), whole / max(1, count)


def run(options):
    rates = [Rate(99, 3, 0.5)] if options.short else [Rate(99, options.windows or 10, 1), Rate(4000, options.windows or 10, 0.2)]
    directory = tempfile.mkdtemp(prefix="bench-")
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        stack.enter_context(measure.bpf_statistics())
        managed = [*pythons(), *javas(directory), *nodes(), *perls(), *phps(), *rubies()]
        workloads = {NATIVE: measure.chain(), FRESH: measure.chain(flags="v")}
        workloads |= {name: Programs(*command) for name, command in (managed[-2:] if options.short else managed)}
        for workload in workloads.values():
            stack.enter_context(workload)
            signal_all(workload, signal.SIGSTOP)
            stack.callback(signal_all, workload, signal.SIGCONT)
        for rate in rates:
            times, share, whole = record(workloads, rate)
            about = {"share_of_workloads": round(share, 3), "whole_chains": round(whole, 3)}
            disturbed = share < LEAST_SHARE
            for name, values in times.items():
                yield measure.result(NAME, f"{rate.hz} Hz, {name}", "us/sample", values, disturbed=disturbed, **about)
            for name in list(times)[2:]:
                for native, target in ((NATIVE, TARGET), (FRESH, None)):
                    ratios = [a / b for a, b in zip(times[name], times[native])]
                    yield measure.result(NAME, f"{rate.hz} Hz, {name}: ratio to {native}", "", ratios, at_most=target, disturbed=disturbed)
