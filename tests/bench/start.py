# SPDX-License-Identifier: Apache-2.0
"""Time from the exec of `bulkhead record` to the first sample, and the kernel's verifier's part of it."""
import os
import re
import subprocess
import tempfile
import time

import lib
import measure

NAME = "start"
HZ = 997  # with one busy CPU a tick follows at most 1 ms after the start of sampling
POLL_S = 0.0005


def loader_of(cli):
    """The loader's pid, maybe before its exec and its sandbox, without reading all of /proc."""
    for pid in (lib.read(f"/proc/{cli}/task/{cli}/children") or "").split():
        if (lib.read(f"/proc/{pid}/cmdline") or "").partition("\0")[0].endswith("bulkhead-loader"):
            return int(pid)
    return None


def program_of(loader):
    try:
        return measure.BpfProgram(loader)
    except RuntimeError:
        return None


def first_times():
    """ms from the exec of `bulkhead record` until the BPF programs are loaded and until their first run; CPU time of all roles when all are ready."""
    with measure.Recording(HZ, wait=False) as recording:
        cli = recording.process.pid
        loader = measure.until(lambda: loader_of(cli), "a loader", every=POLL_S)
        program = measure.until(lambda: program_of(loader), "a BPF program", every=POLL_S)
        loaded_ns = time.monotonic_ns()
        instructions = program.verified_instructions
        measure.until(lambda: program.read()[1], "a sample", every=POLL_S)
        sample_ns = time.monotonic_ns()
        recording.find_roles()
        cpu = sum(measure.cpu_ns(pid) for pid in recording.roles.values())
        recording.stop()
    begin = recording.started_ns
    return (loaded_ns - begin) / 1e6, (sample_ns - begin) / 1e6, cpu / 1e6, instructions


def command_time():
    """ms from the exec of `bulkhead record -- COMMAND` to the first action of COMMAND, which is started once samples are taken."""
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        line = [lib.BULKHEAD, "record", "-F", str(HZ), "-o", os.path.join(directory, "out.folded"), "--", os.path.join(measure.PROGRAMS, "crowd"), "-n"]
        begin = time.monotonic_ns()
        said = subprocess.run(line, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    return (int(said) - begin) / 1e6


def verifier_ms():
    """ms that the kernel reports for verifying bulkhead_sample as a recording loads it. None if that program is not built."""
    path = os.path.join(lib.BIN, "stable_verifier_cost")
    if not os.path.exists(path):
        return None
    said = subprocess.run([path], check=True, capture_output=True, text=True).stderr
    return float(re.search(r"^plain\.bulkhead_sample: verified in ([0-9.]+) ms", said, re.MULTILINE).group(1))


def run(options):
    rounds = 3 if options.short else 15
    verified = [verifier_ms() for _ in range(rounds)]
    with measure.bpf_statistics(), measure.chain(threads=1):
        loaded, sample, cpu, instructions = zip(*(first_times() for _ in range(rounds)))
    yield measure.result(NAME, "verified instructions", "", instructions)
    if None not in verified:
        yield measure.result(NAME, "verifying bulkhead_sample", "ms", verified)
    yield measure.result(NAME, "exec to programs loaded", "ms", loaded)
    yield measure.result(NAME, "exec to first sample", "ms", sample, at_most=120)
    yield measure.result(NAME, "exec to the command's start, quiet machine", "ms", [command_time() for _ in range(rounds)], at_most=120)
    yield measure.result(NAME, "CPU time of all roles until they are ready", "ms", cpu)
