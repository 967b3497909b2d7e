# SPDX-License-Identifier: Apache-2.0
"""Building tables from .eh_frame: bench_tables for libraries and programs that are installed here."""
import glob
import json
import os
import shutil
import subprocess

import lib
import measure

NAME = "tables"
FILES = {
    "libc": "/usr/lib/*-linux-gnu/libc.so.6",
    "libstdc++": "/usr/lib/*-linux-gnu/libstdc++.so.6",
    "gdb": "gdb",
    "node": "node",
    "libjvm": "/usr/lib/jvm/*/lib/server/libjvm.so",
    "libLLVM": "/usr/lib/*-linux-gnu/libLLVM-1*.so.1",
}
SPEED_TARGETS = {"libLLVM": 300}
DELTA_TARGET = 8


def find(pattern):
    found = sorted(glob.glob(pattern)) if "/" in pattern else filter(None, [shutil.which(pattern)])
    return next((os.path.realpath(path) for path in found), None)


def build(path):
    """(MB of .eh_frame per second, bytes of slab per delta, MiB of memory for building): the best of a process's rounds."""
    done = subprocess.run([os.path.join(lib.BIN, "bench_tables"), "--json", path], stdout=subprocess.PIPE, text=True, check=True)
    result = json.loads(done.stdout)[0]
    return result["mb_per_s"]["best"], result["bytes_per_delta"], result["peak_bytes"] / (1 << 20)


def run(options):
    for name, pattern in FILES.items():
        path = find(pattern)
        if not path or options.short and name not in ("libc", "libstdc++"):
            continue
        speeds, per_delta, peaks = zip(*(build(path) for _ in range(1 if options.short else 5)))
        yield measure.result(NAME, f"{name}: speed", "MB/s", speeds, at_least=SPEED_TARGETS.get(name), file=os.path.basename(path))
        yield measure.result(NAME, f"{name}: slab a delta", "bytes", per_delta, at_most=DELTA_TARGET)
        yield measure.result(NAME, f"{name}: peak memory", "MiB", peaks)
