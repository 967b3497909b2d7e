# SPDX-License-Identifier: Apache-2.0
"""What the profiled programs notice: their throughput with a recording, relative to that without one before and after it."""
import os
import time

import lib
import measure

NAME = "overhead"


def throughput(workload, seconds):
    """Turns per second, and turns per second of the workload's own CPU time."""
    begin = workload.ask()
    time.sleep(seconds)
    end = workload.ask()
    turns, ns, cpu_ns = (end[key] - begin[key] for key in ("turns", "ns", "cpu_ns"))
    return turns / ns, turns / cpu_ns


def ratios(workload, burden, rounds, seconds, settle):
    """Pairs of throughputs with `burden` running, relative to the mean of those before and after."""
    out, without = [], throughput(workload, seconds)
    for _ in range(rounds):
        with burden() as running:
            time.sleep(settle)
            burdened = throughput(workload, seconds)
            if isinstance(running, measure.Recording):
                running.stop()
        time.sleep(settle / 4)
        after = throughput(workload, seconds)
        out.append([2 * b / (w + a) for b, w, a in zip(burdened, without, after)])
        without = after
    return zip(*out)


def results(case, pairs):
    by_time, by_cpu_time = pairs
    yield measure.result(NAME, case, "x throughput", by_time)
    yield measure.result(NAME, f"{case}, by CPU time", "x throughput", by_cpu_time)


def run(options):
    size = (2, 1, 0.5) if options.short else (8, 3, 2)
    for name, flags in (("calculating", ""), ("system calls", "s"))[:1 if options.short else None]:
        with measure.chain(flags=flags) as workload:
            time.sleep(0.5)
            for hz in (997,) if options.short else (20, 99, 997):
                yield from results(f"{name}, {hz} Hz", ratios(workload, lambda: measure.Recording(hz), *size))
            # The interrupts alone, which every sampling profiler costs.
            ticks = ratios(workload, lambda: measure.Child(os.path.join(lib.BIN, "bench_floor"), 997, "ticks"), *size)
            yield from results(f"{name}, 997 Hz, ticks only", ticks)
