# SPDX-License-Identifier: Apache-2.0
"""Programs that live for a few milliseconds: how many of their samples are complete, and how long they ran without unwind tables."""
import contextlib
import os
import shlex
import shutil
import tempfile

import lib
import measure
import test_short_lived

NAME = "first_stack"
HZ = 997


@contextlib.contextmanager
def script(count, ms, new):
    """A command that runs `short` this many times, one per CPU at a time. New: each run uses a file that was never run before."""
    program = os.path.join(lib.PROGRAMS, "short")
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        os.chmod(directory, 0o755)
        paths = [shutil.copy(program, os.path.join(directory, f"short-{i}")) if new else program for i in range(count)]
        lanes = [f"(for p in {shlex.join(paths[i::measure.CPUS])}; do $p {ms}; done) &" for i in range(measure.CPUS)]
        yield ["sh", "-c", "\n".join(lanes) + "\nwait"]


def complete(sample):
    """Whether a stack reaches its outermost frame, or there is no user stack. Whether it is right is checked by tests/e2e/test_short_lived.py."""
    return not any(frame.startswith(lib.CUT) for frame in sample.frames) or test_short_lived.complete(sample)


def run(options):
    count = 10 if options.short else 100
    for new in (False, True):
        for ms in (20,) if options.short else (5, 10, 20, 50):
            with script(count, ms, new) as command, measure.Recording(HZ, wait=False, command=command) as recording:
                stats = recording.finish()
                samples = [s for s in recording.samples() if s.comm.startswith("short")]
            total = sum(s.count for s in samples)
            cut = sorted((s for s in samples if not complete(s)), key=lambda s: -s.count)
            whole = total - sum(s.count for s in cut)
            case = f"{count} x {ms} ms, {'each a new file' if new else 'the same file'}"
            yield measure.result(NAME, f"{case}: complete", "%", [100 * whole / total] if total else [], at_least=99.5, samples=total,
                                 incomplete=[f"{s.count} x {lib.show(s.frames)}" for s in cut[:5]])
            # Every sample that is taken before the tables exist is deferred, one per tick.
            yield measure.result(NAME, f"{case}: without tables", "ms/process", 1e3 * stats["deferred"] / HZ / count, at_most=20, deferred=stats["deferred"])
