# SPDX-License-Identifier: Apache-2.0
"""Samples that are lost while all CPUs are busy."""
import time

import measure

NAME = "loss"


def run(options):
    for hz in (997,) if options.short else (20, 99, 997):
        with measure.chain(threads=2 * measure.CPUS), measure.Recording(hz) as recording:
            time.sleep(2 if options.short else 20)
            stats = recording.stop()
        lost = sum(stats["lost"].values())
        if stats["taken"] != stats["exported"] + lost:
            raise RuntimeError(f"taken {stats['taken']} is not exported {stats['exported']} + lost {lost}")
        yield measure.result(NAME, f"{hz} Hz: lost", "samples", lost, at_most=0, taken=stats["taken"])
        yield measure.result(NAME, f"{hz} Hz: taken of the ticks that were due", "%",
                             100 * stats["taken"] / (hz * measure.CPUS * stats["duration_ns"] / 1e9))
