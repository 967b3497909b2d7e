# SPDX-License-Identifier: Apache-2.0
"""Names of native code by debug information, for random addresses of our own programs: bench_names next to addr2line, and compared with llvm-symbolizer."""
import os
import random
import re
import subprocess
import tempfile
import time

import lib
import measure

NAME = "names"
PROGRAMS = ("bulkhead-symbolizer", "bulkhead-exporter-otlp")
SPEED_TARGET = 3  # times as many addresses per second as addr2line
EQUAL_TARGET = 99.5  # % of the addresses


def addresses(path, count):
    """Addresses of .text, as input of all programs."""
    said = subprocess.run(["readelf", "-SW", path], stdout=subprocess.PIPE, text=True, check=True).stdout
    match = re.search(r" \.text +\w+ +([0-9a-f]+) +[0-9a-f]+ +([0-9a-f]+)", said)
    start, size = int(match[1], 16), int(match[2], 16)
    chosen = random.Random(path)
    return "".join(f"0x{start + chosen.randrange(size):x}\n" for _ in range(count))


class Answers:
    """What a program says of addresses, and how long it takes. Input and output are files, so that only the program is measured, and not who reads it."""

    def __init__(self, command, text):
        with tempfile.TemporaryFile("w+") as asked, tempfile.TemporaryFile("w+", errors="replace") as answers:
            asked.write(text)
            asked.seek(0)
            began = time.monotonic()
            done = subprocess.run(command, stdin=asked, stdout=answers, stderr=subprocess.PIPE, text=True, check=True)
            self.seconds = time.monotonic() - began
            self.stderr = done.stderr
            answers.seek(0)
            self.stdout = answers.read()


def frames(output):
    """For each address the functions, the innermost first: (name, name of the file, line)."""
    for block in output.split("\n\n")[:-1]:
        lines = block.split("\n")
        places = [re.fullmatch(r"(.*?):(\d+)(:\d+)?", place) for place in lines[1::2]]
        yield [(name, os.path.basename(place[1]), int(place[2])) for name, place in zip(lines[::2], places)]


def symbols(path):
    """Start and end of each symbol."""
    said = subprocess.run(["nm", "--print-size", "--defined-only", path], stdout=subprocess.PIPE, text=True, check=True).stdout
    fields = [line.split() for line in said.splitlines()]
    return {f[3]: (int(f[0], 16), int(f[0], 16) + int(f[1], 16)) for f in fields if len(f) == 4}


def agree(address, ours, theirs, known):
    """Whether inlined calls, names and lines are equal. llvm-symbolizer prefers the name of a symbol for the outermost function. It may be another
    one: `parse.constprop.0` or `_ZL5parsePKc` where debug information says `parse`, or one of several for the same code."""
    if [frame[1:] for frame in ours] != [frame[1:] for frame in theirs] or [frame[0] for frame in ours[:-1]] != [frame[0] for frame in theirs[:-1]]:
        return False
    start, end = known.get(theirs[-1][0], (0, 0))
    return ours[-1][0] == theirs[-1][0] or start <= address < end


def compare(path, text, ours):
    """The share of equal answers in percent, and the number of addresses: those of which either program knows a line."""
    theirs = Answers(["llvm-symbolizer", "--no-demangle", "--inlines", "-e", path], text).stdout
    known = symbols(path)
    equal = [agree(int(address, 16), a, b, known) for address, a, b in zip(text.split(), frames(ours), frames(theirs)) if a[0][2] or b[0][2]]
    return 100 * sum(equal) / len(equal), len(equal)


def run(options):
    # BULKHEAD_BENCH_FILES: more files with debug information, separated by colons.
    paths = [os.path.join(lib.BIN, program) for program in PROGRAMS] + [path for path in os.environ.get("BULKHEAD_BENCH_FILES", "").split(":") if path]
    for path in paths[:1] if options.short else paths:
        text = addresses(path, 200 if options.short else 20000)
        ratios, longest, bytes_most = [], [], 0
        for _ in range(1 if options.short else 7):
            ours = Answers([os.path.join(lib.BIN, "bench_names"), path], text)
            theirs = Answers(["addr2line", "-f", "-i", "-e", path], text)
            said = dict(field.split("=") for field in ours.stderr.split())
            ratios.append(theirs.seconds / ours.seconds)
            longest.append(float(said["longest_ms"]))
            bytes_most = max(bytes_most, int(said["bytes"]))
        equal, compared = compare(path, text, ours.stdout)
        name = os.path.basename(path)
        yield measure.result(NAME, f"{name}: addresses per second, addr2line = 1", "ratio", ratios, at_least=SPEED_TARGET)
        yield measure.result(NAME, f"{name}: longest part of a lookup", "ms", longest)
        yield measure.result(NAME, f"{name}: memory", "MiB", bytes_most / (1 << 20))
        yield measure.result(NAME, f"{name}: as llvm-symbolizer says", "%", equal, at_least=EQUAL_TARGET, addresses=compared)
