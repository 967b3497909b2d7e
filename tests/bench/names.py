# SPDX-License-Identifier: Apache-2.0
"""Names of native code by debug information: bench_names next to addr2line, for the same random addresses of our own programs."""
import os
import random
import re
import subprocess
import time

import lib
import measure

NAME = "names"
PROGRAMS = ("bulkhead-symbolizer", "bulkhead-exporter-otlp")
SPEED_TARGET = 3  # times as many addresses per second as addr2line


def addresses(path, count):
    """Addresses of .text, as input of both programs."""
    said = subprocess.run(["readelf", "-SW", path], stdout=subprocess.PIPE, text=True, check=True).stdout
    match = re.search(r" \.text +\w+ +([0-9a-f]+) +[0-9a-f]+ +([0-9a-f]+)", said)
    start, size = int(match[1], 16), int(match[2], 16)
    chosen = random.Random(path)
    return "".join(f"0x{start + chosen.randrange(size):x}\n" for _ in range(count))


def timed(command, text):
    began = time.monotonic()
    done = subprocess.run(command, input=text, capture_output=True, text=True, errors="replace", check=True)
    return time.monotonic() - began, done


def run(options):
    # BULKHEAD_BENCH_FILES: more files with debug information, separated by colons.
    paths = [os.path.join(lib.BIN, program) for program in PROGRAMS] + [path for path in os.environ.get("BULKHEAD_BENCH_FILES", "").split(":") if path]
    for path in paths[:1] if options.short else paths:
        text = addresses(path, 200 if options.short else 20000)
        ratios, longest, bytes_most = [], [], 0
        for _ in range(1 if options.short else 7):
            ours, done = timed([os.path.join(lib.BIN, "bench_names"), path], text)
            theirs, _ = timed(["addr2line", "-f", "-i", "-e", path], text)
            said = dict(field.split("=") for field in done.stderr.split())
            ratios.append(theirs / ours)
            longest.append(float(said["longest_ms"]))
            bytes_most = max(bytes_most, int(said["bytes"]))
        name = os.path.basename(path)
        yield measure.result(NAME, f"{name}: addresses per second, addr2line = 1", "ratio", ratios, at_least=SPEED_TARGET)
        yield measure.result(NAME, f"{name}: longest part of a lookup", "ms", longest)
        yield measure.result(NAME, f"{name}: memory", "MiB", bytes_most / (1 << 20))
