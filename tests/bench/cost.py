# SPDX-License-Identifier: Apache-2.0
"""CPU time per sample and role in steady state, and bytes per sample on its way."""
import os
import time

import lib
import measure

NAME = "cost"
OVERHEAD_TARGETS = {20: 0.1, 99: 0.5}  # % of all CPUs
ROLES_TARGETS = {99: 2.5}  # us per sample


def steady_state(recording, count, seconds):
    """Windows of (samples, BPF ns, wall ns, {process: CPU ns}), and the share of user time per role."""
    program = measure.BpfProgram(recording.loader)
    pids = recording.roles | {"cli": recording.process.pid}

    def now():
        return time.monotonic_ns(), program.read(), {name: measure.cpu_ns(pid) for name, pid in pids.items()}
    ticks_before = {name: measure.user_system_ticks(pid) for name, pid in pids.items()}
    out, before = [], now()
    for _ in range(count):
        time.sleep(seconds)
        after = now()
        out.append((after[1][1] - before[1][1], after[1][0] - before[1][0], after[0] - before[0], {name: after[2][name] - before[2][name] for name in pids}))
        before = after
    shares = {}
    for name, pid in pids.items():
        user, system = (a - b for a, b in zip(measure.user_system_ticks(pid), ticks_before[name]))
        shares[name] = round(user / (user + system), 2) if user + system else None
    return out, shares


def run_rate(hz, what, flags, options):
    count, seconds, settle = (2, 1, 1) if options.short else (6, 5, 5)
    with measure.bpf_statistics(), measure.chain(flags=flags), measure.Recording(hz, outputs=("out.folded", "out.otlp")) as recording:
        time.sleep(settle)
        rounds, shares = steady_state(recording, count, seconds)
        stats = recording.stop()
        otlp_bytes = os.path.getsize(recording.path("out.otlp"))
    rounds = [r for r in rounds if r[0]]
    for name in (*lib.ROLES, "cli"):
        values = [cpu[name] / samples / 1e3 for samples, _, _, cpu in rounds]
        yield measure.result(NAME, f"{what}: {name}", "us/sample", values, share_of_user_time=shares[name])
    roles = [sum(cpu[name] for name in lib.ROLES) for _, _, _, cpu in rounds]
    values = [r / samples / 1e3 for r, (samples, _, _, _) in zip(roles, rounds)]
    yield measure.result(NAME, f"{what}: all roles", "us/sample", values, at_most=ROLES_TARGETS.get(hz))
    yield measure.result(NAME, f"{what}: BPF program", "us/sample", [bpf / samples / 1e3 for samples, bpf, _, _ in rounds])
    yield measure.result(NAME, f"{what}: roles and BPF, of all CPUs", "%",
                         [100 * (r + bpf) / (wall * measure.CPUS) for r, (_, bpf, wall, _) in zip(roles, rounds)], at_most=OVERHEAD_TARGETS.get(hz))
    exported = max(1, stats["exported"])
    yield measure.result(NAME, f"{what}: ring", "bytes/sample", stats["bpf"]["ring_bytes"] / exported)
    if "batch_bytes" in stats:
        yield measure.result(NAME, f"{what}: worker to exporter", "bytes/sample", stats["batch_bytes"] / exported)
    yield measure.result(NAME, f"{what}: OTLP file", "bytes/sample", otlp_bytes / exported, samples=exported)


def compare_builds(hz, what, flags, options):
    """The ratio of this build's CPU time per sample to that of another build."""
    turns, seconds, settle = (1, 1, 1) if options.short else (4, 15, 5)
    pairs = {}

    def now(recordings, programs):
        return [(program.read()[1], {name: measure.cpu_ns(pid) for name, pid in recording.roles.items()})
                for recording, program in zip(recordings, programs)]
    with measure.bpf_statistics(), measure.chain(flags=flags):
        for turn in range(turns):
            with measure.two_builds(hz, options.against, turn, outputs=("out.folded", "out.otlp")) as recordings:
                programs = [measure.BpfProgram(recording.loader) for recording in recordings]
                time.sleep(settle)
                before = now(recordings, programs)
                time.sleep(seconds)
                costs = []
                for (samples, cpu), (samples_before, cpu_before) in zip(now(recordings, programs), before):
                    used = {name: cpu[name] - cpu_before[name] for name in lib.ROLES}
                    costs.append({name: ns / max(1, samples - samples_before) / 1e3 for name, ns in (used | {"all roles": sum(used.values())}).items()})
                for name in (*lib.ROLES, "all roles"):
                    pairs.setdefault(name, []).append([cost[name] for cost in costs])
    for name, values in pairs.items():
        if any(map(all, values)):  # the opener may have had nothing to do
            yield measure.ratio_to_other_build(NAME, f"{what}: {name}", values, "us/sample")


def run(options):
    measure_case = compare_builds if options.against else run_rate
    for hz in (99, 997) if options.short else (20, 99, 997):
        yield from measure_case(hz, f"{hz} Hz", "", options)
    yield from measure_case(99, "99 Hz, each stack new", "v", options)
