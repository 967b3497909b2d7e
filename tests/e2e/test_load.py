# SPDX-License-Identifier: Apache-2.0
"""A recording of the whole machine at 997 Hz while all CPUs build C++: thousands of short processes, hundreds of new ones per second.
All samples are accounted for, none is lost without a reason, no role exceeds 64 MiB or keeps growing, but the exporter, which keeps every stack.
BULKHEAD_LOAD_SECONDS (40) is the duration."""

import collections
import os
import re
import statistics
import subprocess
import threading
import time
import unittest

import lib

SECONDS = int(os.environ.get("BULKHEAD_LOAD_SECONDS", "40"))
MEMORY_MAX = 64 << 20
# Growth allowed between the second quarter and the last one, for the allocator and for tables whose pages are touched late.
GROWTH_MAX = 6 << 20
# The exporter keeps every distinct stack of a recording until its end: 215 bytes each were seen.
EXPORTER_BYTES, EXPORTER_STACK_BYTES = 32 << 20, 256
# What the build runs. The worker knows each distinct stack of other programs, too, which may begin in the second half: 300 bytes were seen for one.
BUILD = ("sh", "true", "g++", "cc1plus", "as", "python3")
OTHER_STACK_BYTES = 1024
# The worker knows all stacks until there are LIMIT_WORKER_STACKS of them (symbolizer/worker/limits.h), and then begins again:
# at 997 Hz its memory rises for 80 s and falls. 90 bytes for each stack were seen.
WORKER_STACKS, WORKER_STACK_BYTES = 1 << 17, 128
# The manager has the tables of other programs, too.
OTHER_PROGRAM_BYTES = 128 << 10

SOURCE = """
#include <algorithm>
#include <map>
#include <string>
#include <vector>
template <int N> struct chain { static std::string text(std::map<std::string, std::vector<int>> &m) {
	m[std::to_string(N)].push_back(N); std::sort(m[std::to_string(N)].begin(), m[std::to_string(N)].end());
	return chain<N - 1>::text(m) + std::to_string(N); } };
template <> struct chain<0> { static std::string text(std::map<std::string, std::vector<int>> &) { return ""; } };
std::string unit_%d() { std::map<std::string, std::vector<int>> m; return chain<%d>::text(m); }
"""


def resident(pid):
    for line in (lib.read(f"/proc/{pid}/status") or "").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    return 0


def cut_by_program(samples):
    counts = collections.Counter()
    for sample in samples:
        counts[sample.comm] += sample.count * any(frame.startswith(lib.CUT) for frame in sample.frames)
    return +counts


class Build:
    """Compiles small files continuously, one compiler per CPU, and runs true and sh in between as makefiles do."""

    def __init__(self, directory):
        self.directory = directory
        self.stopped = threading.Event()
        self.count = 0
        self.threads = [threading.Thread(target=self.run, args=(i,)) for i in range(os.cpu_count())]

    def run(self, number):
        source = os.path.join(self.directory, f"unit{number}.cc")
        turn = 0
        while not self.stopped.is_set():
            turn += 1
            with open(source, "w", encoding="ascii") as f:
                f.write(SOURCE % (turn, 5 + turn % 20))
            subprocess.run(["g++", "-O1", "-c", source, "-o", source + ".o"], check=True)
            for _ in range(10):
                subprocess.run(["sh", "-c", "/bin/true; /bin/true"], check=True)
            self.count += 24

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        for thread in self.threads:
            thread.join()


class Load(lib.Case):
    def test_building_cxx(self):
        with Build(self.directory) as build:
            process = self.start(freq=997, seconds=SECONDS)
            roles = self.wait_until_recording(process)
            memory = {role: [] for role in roles}
            while process.poll() is None:
                for role, pid in roles.items():
                    memory[role].append((time.monotonic(), resident(pid)))
                time.sleep(0.5)
            recording = self.finish(process)
        stats = recording.stats
        lost = sum(stats["lost"].values())
        cut = sum(stats["incomplete"].values())
        others = sum(not s.comm.startswith("bulkhead") for s in recording.samples) - len(recording.of(*BUILD))
        print(f"\n{build.count} processes, {stats['taken']} samples, {lost} lost, {cut} cut "
              f"({100 * cut / stats['taken']:.2f} %), {stats['deferred']} deferred, {others} distinct stacks of other programs")
        programs = {s.comm for s in recording.samples if s.comm not in BUILD}
        print("cut:", cut_by_program(recording.samples).most_common(5))
        distinct = int(re.search(r"(\d+) distinct stacks", recording.stderr)[1])
        faults = []
        if stats["taken"] != stats["exported"] + lost:
            faults.append(f"taken {stats['taken']} is not exported {stats['exported']} + lost {lost}")
        for role, series in memory.items():
            values = [v for _, v in series if v]
            quarter = len(values) // 4
            # The median, because the manager needs more while it builds the table of a large file, which may be of another program.
            second, last = (int(statistics.median(part)) for part in (values[quarter:2 * quarter + 1], values[-quarter - 1:]))
            print(f"{role}: {second >> 10} KiB in the second quarter, {last >> 10} KiB in the last, {max(values) >> 10} KiB at most")
            of_others = (role == "worker") * others * OTHER_STACK_BYTES + (role == "manager") * len(programs) * OTHER_PROGRAM_BYTES
            allowed = max(MEMORY_MAX + of_others, (role == "exporter") * (EXPORTER_BYTES + distinct * EXPORTER_STACK_BYTES))
            if max(values) > allowed:
                faults.append(f"{role} has {max(values) >> 20} MiB")
            # Half of all stacks are new between the middles of the two quarters.
            of_new = (role == "worker") * min(distinct // 2, WORKER_STACKS) * WORKER_STACK_BYTES
            if role != "exporter" and last - second > GROWTH_MAX + of_others + of_new:
                faults.append(f"{role} grew from {second >> 10} to {last >> 10} KiB")
        self.assertGreater(stats["taken"], SECONDS * 997 * os.cpu_count() * 0.8)
        self.assert_none(faults, recording)


if __name__ == "__main__":
    lib.main()
