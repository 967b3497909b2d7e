# SPDX-License-Identifier: Apache-2.0
"""Resident memory of all roles and memory of BPF maps, with few and many processes on the machine, and after many have come and gone."""
import contextlib
import os
import subprocess
import time

import lib
import measure

NAME = "memory"
HZ = 20
MIB = 1 << 20
SLAB_BYTES = 2 << 20  # BH_SLAB_BYTES
ARRAY_HEADER_BYTES = 4096  # the kernel adds this to an array that can be mapped


def bpf_bytes(recording, manager_sizes):
    """Memory that the kernel has locked for maps and programs: each map that the loader holds, once, and the slabs, which only the manager maps."""
    maps = {}
    for number in measure.fds(recording.loader, "bpf-map"):
        info = measure.fdinfo(recording.loader, number)
        maps[info["map_id"]] = int(info["memlock"])
    programs = sum(int(measure.fdinfo(recording.loader, n)["memlock"]) for n in measure.fds(recording.loader, "bpf-prog"))
    return sum(maps.values()) + programs + manager_sizes.count(SLAB_BYTES) * (SLAB_BYTES + ARRAY_HEADER_BYTES)


def with_helpers(pid):
    """The memory of a role and of its helpers."""
    total = measure.memory(pid)
    for helper in lib.read(f"/proc/{pid}/task/{pid}/children").split():
        of_helper = measure.memory(int(helper))
        total |= {key: total[key] + of_helper[key] for key in ("rss", "pss", "private")}
    return total


def snapshot(recording):
    roles = {name: with_helpers(pid) for name, pid in recording.roles.items()}
    bpf = bpf_bytes(recording, roles["manager"]["bpf_sizes"])
    resident = sum(m["pss"] - m["bpf_pss"] for m in roles.values())
    return {"roles": roles, "bpf": bpf, "rss": sum(m["rss"] for m in roles.values()), "all": resident + bpf}


def results(case, snapshots, at_most=None):
    for name in lib.ROLES:
        yield measure.result(NAME, f"{case}: {name} PSS", "MiB", [(s["roles"][name]["pss"] - s["roles"][name]["bpf_pss"]) / MIB for s in snapshots],
                             **{key: round(snapshots[-1]["roles"][name][key] / MIB, 2) for key in ("rss", "pss", "private", "bpf_rss", "bpf_pss")})
    yield measure.result(NAME, f"{case}: BPF maps", "MiB", [s["bpf"] / MIB for s in snapshots])
    yield measure.result(NAME, f"{case}: sum of RSS (maps in it)", "MiB", [s["rss"] / MIB for s in snapshots])
    yield measure.result(NAME, f"{case}: roles and maps", "MiB", [s["all"] / MIB for s in snapshots], at_most=at_most)


def take(recording, options):
    out = []
    for _ in range(2 if options.short else 5):
        time.sleep(1)
        out.append(snapshot(recording))
    return out


def with_processes(count, options):
    with contextlib.ExitStack() as stack:
        stack.enter_context(measure.crowd(count))
        stack.enter_context(measure.chain())
        recording = stack.enter_context(measure.Recording(HZ))
        time.sleep(1 if options.short else 15)
        yield from results(f"{count} processes", take(recording, options), at_most=64 if count == 500 else None)
        recording.stop()


def after(count, options):
    with measure.chain(), measure.Recording(HZ) as recording:
        time.sleep(1 if options.short else 5)
        subprocess.run([os.path.join(measure.PROGRAMS, "crowd"), "-c", str(count)], check=True, stdout=subprocess.DEVNULL)
        time.sleep(1 if options.short else 5)
        yield from results(f"after {count} came and went", take(recording, options))
        recording.stop()


def run(options):
    for count in (10, 50) if options.short else (10, 50, 500, 2000):
        yield from with_processes(count, options)
    yield from after(500 if options.short else 50000, options)
