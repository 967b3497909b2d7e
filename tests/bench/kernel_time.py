# SPDX-License-Identifier: Apache-2.0
"""Time in the kernel per sample: run statistics of bulkhead_sample, and of the floor (floor.bpf.c) that runs at the same time."""
import collections
import math
import os
import statistics

import lib
import measure

NAME = "kernel_time"

Case = collections.namedtuple("Case", "name hz depth options crowd modules short target", defaults=(34, {}, 0, 0, False, None))
CASES = [
    Case("native 10, 99 Hz", 99, 10),
    Case("native 34, 99 Hz", 99, 34, short=True, target=1.0),
    Case("native 100, 99 Hz", 99, 100),
    Case("native 400, 99 Hz", 99, 400),
    Case("native 10, 997 Hz", 997, 10),
    Case("native 34, 997 Hz", 997, 34, short=True),
    Case("native 100, 997 Hz", 997, 100),
    Case("native 400, 997 Hz", 997, 400),
    Case("native 34, 20 Hz", 20, 34),
    Case("native 34, 99 Hz, each stack new", 99, 34, {"flags": "v"}),
    Case("native 34, 997 Hz, each stack new", 997, 34, {"flags": "v"}),
    Case("native 34, 99 Hz, no frame pointers", 99, 34, {"omit": True}),
    Case("system calls 34, 99 Hz", 99, 34, {"flags": "s"}),
    Case("next to 10 processes, 99 Hz", 99, 34, crowd=10),
    Case("next to 1000 processes, 99 Hz", 99, 34, crowd=1000),
    Case("10 modules, 99 Hz", 99, 34, modules=10),
    Case("300 modules, 99 Hz", 99, 34, modules=300, short=True),
    Case("10 modules, one stack, 99 Hz", 99, 34, {"flags": "f"}, modules=10),
    Case("300 modules, one stack, 99 Hz", 99, 34, {"flags": "f"}, modules=300),
]
# Results that may grow with the machine, with the smaller case to compare with.
GROWTH = {"next to 1000 processes, 99 Hz": "next to 10 processes, 99 Hz", "300 modules, 99 Hz": "10 modules, 99 Hz",
          "300 modules, one stack, 99 Hz": "10 modules, one stack, 99 Hz"}
GROWTH_TARGET = 1.5
FLOOR_FRAMES_MAX = 127


# If fewer of the samples are the workload's, another program had the CPU, and the results describe that program's stacks.
LEAST_SHARE = 0.95


def mean_frames(samples):
    """Mean frames of the chain's samples, and the share of all samples that are the chain's or the crowd's."""
    chain = [s for s in samples if s.comm.startswith("chain")]
    count, total = sum(s.count for s in chain), sum(s.count for s in samples)
    crowd = sum(s.count for s in samples if s.comm == "crowd")
    frames = sum(len(lib.user_frames(s.frames)) * s.count for s in chain)
    return frames / count if count else 0, (count + crowd) / total if total else 0


def measure_once(case, paths, count, seconds):
    """Windows of both programs in one recording, mean frames of each, and the share of the workload's samples."""
    with measure.chain(depth=case.depth, modules=paths, **case.options), measure.Recording(case.hz) as recording, \
            measure.Child(os.path.join(lib.BIN, "bench_floor"), case.hz + 2) as floor:  # 2 Hz more, so that the two ticks seldom coincide
        programs = [measure.BpfProgram(recording.loader), measure.BpfProgram(floor.pid)]
        measure.windows(programs, 1, 1)  # until tables are built and caches are filled
        ours, floors = measure.windows(programs, count, seconds)
        recording.stop()
        read = floor.end()
        return ours, floors, mean_frames(recording.samples()), read["user_frames"] / max(1, read["samples"])


def measure_undisturbed(case, starts, count, seconds):
    """The recordings of a case, and how many were discarded because the workload's share was too small. At most as many are repeated as there
    are recordings; after that the least disturbed ones are used. A recording is never discarded for its times."""
    good, bad = [], []
    with measure.bpf_statistics(), measure.crowd(case.crowd), measure.modules(case.modules) as paths:
        while len(good) < starts and len(good) + len(bad) < 2 * starts:
            part = measure_once(case, paths, count, seconds)
            (good if part[2][1] >= LEAST_SHARE else bad).append(part)
    missing = starts - len(good)
    bad.sort(key=lambda part: -part[2][1])
    return good + bad[:missing], len(bad) - missing, missing > 0


def run_case(case, starts, count, seconds):
    # Several recordings, because the place of maps and stacks in memory (and in the sets of caches) makes a difference.
    parts, thrown_away, disturbed = measure_undisturbed(case, starts, count, seconds)
    ours, floors = ([value for part in parts for value in part[i]] for i in (0, 1))
    frames, floor_frames = parts[-1][2][0], parts[-1][3]
    medians = [[round(statistics.median(part[i]), 3) if part[i] else None for part in parts] for i in (0, 1)]
    about = {"shares_of_workload": [round(part[2][1], 3) for part in parts], "thrown_away": thrown_away}
    yield measure.result(NAME, case.name, "us/sample", ours, disturbed=disturbed, frames=round(frames, 1), medians_of_starts=medians[0], **about)
    if case.options.get("omit"):
        return  # the floor cannot walk these stacks
    yield measure.result(NAME, case.name + ": floor", "us/sample", floors, disturbed=disturbed, frames=round(floor_frames, 1), medians_of_starts=medians[1])
    # bpf_get_stack cannot walk stacks this deep, so there is nothing to compare.
    if case.depth <= FLOOR_FRAMES_MAX:
        pairs = [o / f for part in parts for o, f in zip(*part[:2])]
        yield measure.result(NAME, case.name + ": ratio", "", pairs, at_most=case.target, median=statistics.median(ours) / statistics.median(floors),
                             minimum=min(ours) / min(floors), disturbed=disturbed,
                             note="of the medians, and of the minima; spread: of the ratios of each window")


def compare_builds(case, against, starts, count, seconds):
    """The ratio of this build's time per sample to that of another build."""
    pairs = []
    with measure.bpf_statistics(), measure.crowd(case.crowd), measure.modules(case.modules) as paths:
        for turn in range(starts):
            with measure.chain(depth=case.depth, modules=paths, **case.options), measure.two_builds(case.hz, against, turn) as recordings:
                programs = [measure.BpfProgram(recording.loader) for recording in recordings]
                measure.windows(programs, 1, 1)  # until tables are built and caches are filled
                pairs.append([statistics.median(values) for values in measure.windows(programs, count, seconds)])
    return measure.ratio_to_other_build(NAME, case.name, pairs, "us/sample")


def run(options):
    starts, count, seconds = (1, 3, 0.5) if options.short else (4, math.ceil((options.windows or 20) / 4), 1)
    done = {}
    for case in CASES:
        if options.short and not case.short or options.case and options.case not in case.name:
            continue
        if options.against:
            yield compare_builds(case, options.against, starts, count, seconds)
            continue
        for result in run_case(case, starts, count, seconds):
            done[result["case"]] = result
            yield result
        base = done.get(GROWTH.get(case.name))
        if base:
            yield measure.result(NAME, f"{case.name}: growth", "x", done[case.name]["median"] / base["median"], at_most=GROWTH_TARGET,
                                 disturbed=any(r.get("disturbed") for r in (base, done[case.name])))
