# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks share: results, programs to profile, recordings, and the costs that the kernel reports."""
import contextlib
import ctypes
import json
import os
import platform
import re
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
import lib  # noqa: E402

PROGRAMS = os.path.abspath(os.environ.get("BULKHEAD_BENCH_PROGRAMS") or os.path.join(lib.BIN, "../tests/bench/programs"))
CPUS = len(os.sched_getaffinity(0))


# Results

def result(benchmark, case, unit, values, at_most=None, at_least=None, median=None, minimum=None, disturbed=False, **detail):
    """One line of the table and one object of the JSON. `values` are the results of the windows or rounds, or one number; `median` and `minimum`
    override theirs. Disturbed: other programs used too much of the machine to judge a target."""
    values = list(values) if isinstance(values, (list, tuple)) else [values]
    out = {"benchmark": benchmark, "case": case, "unit": unit, "median": None, "minimum": None, "spread": None, "count": len(values)}
    if values:
        out["median"] = statistics.median(values) if median is None else median
        out["minimum"] = min(values) if minimum is None else minimum
        out["spread"] = spread(values)
    if at_most is not None or at_least is not None:
        out["target"] = f"<= {at_most:g}" if at_most is not None else f">= {at_least:g}"
    if disturbed:
        out["disturbed"] = True
    elif "target" in out:
        out["met"] = bool(values) and (out["median"] <= at_most if at_most is not None else out["median"] >= at_least)
    return out | ({"detail": detail} if detail else {})


def spread(values):
    """The spread: interquartile range / median."""
    middle = statistics.median(values)
    if len(values) < 2 or not middle:
        return 0.0
    quartiles = statistics.quantiles(values, n=4, method="inclusive")
    return (quartiles[2] - quartiles[0]) / middle


def machine():
    def field(path, name):
        match = re.search(rf"^{name}\s*:\s*(.+)$", lib.read(path) or "", re.MULTILINE)
        return match.group(1) if match else "unknown"
    return {"cpu": field("/proc/cpuinfo", "model name"), "cpus": os.cpu_count(), "memory": field("/proc/meminfo", "MemTotal")}


def commit():
    """The commit of the tree, with a + if files were changed since. None outside of git."""
    def git(*args):
        return subprocess.run(["git", "-c", "safe.directory=*", "-C", lib.SOURCE, *args], capture_output=True, text=True, check=True).stdout.strip()
    try:
        return git("rev-parse", "--short=12", "HEAD") + ("+" if git("--no-optional-locks", "status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def kernel():
    return platform.release()


# Programs

class Child:
    """A program that prints a line when it is ready, and ends when its stdin is closed."""

    def __init__(self, *command):
        self.command = [str(c) for c in command]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.pid = self.process.pid
        try:
            self.said = self._line()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _line(self):
        ready, _, _ = select.select([self.process.stdout], [], [], lib.PATIENCE)
        line = self.process.stdout.readline().decode() if ready else ""
        if not line:
            raise RuntimeError(f"{' '.join(self.command)[:200]} said nothing, status {self.process.poll()}")
        return line

    def ask(self):
        """The program's answer to a line of input."""
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        return json.loads(self._line())

    def end(self):
        """What the program prints at its end."""
        out, _ = self.process.communicate(timeout=lib.PATIENCE)
        return json.loads(out) if out.strip() else None

    def __exit__(self, *_):
        if self.process.poll() is None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process.stdout.close()
        with contextlib.suppress(OSError):
            self.process.stdin.close()


def chain(threads=CPUS, depth=34, flags="", modules=(), omit=False):
    """programs/chain.c: `threads` that calculate at the end of a chain of `depth` frames. Flags: s (system calls), f (fixed), v (all stacks differ)."""
    name = os.path.join(PROGRAMS, "chain_omit" if omit else "chain")
    return Child(name, "-t", threads, "-d", depth, *(f"-{flag}" for flag in flags), *(["-m", *modules] if modules else []))


def crowd(count):
    """programs/crowd.c: processes that sleep most of the time."""
    return Child(os.path.join(PROGRAMS, "crowd"), count) if count else contextlib.nullcontext()


@contextlib.contextmanager
def modules(count):
    """Paths of this many shared objects (programs/hop.c) for chain(), each a file of its own."""
    directory = tempfile.mkdtemp(prefix="bench-")
    try:
        paths = []
        for i in range(count):
            paths.append(os.path.join(directory, f"hop{i}.so"))
            shutil.copy(os.path.join(PROGRAMS, f"hop{i % 8}.so"), paths[-1])
        yield paths
    finally:
        shutil.rmtree(directory, ignore_errors=True)


# Recordings

class Recording:
    """A running `bulkhead record` of the build in the directory `build`. roles is {name: pid}; stats and samples exist after stop()."""

    def __init__(self, hz, *args, outputs=("out.folded",), wait=True, command=(), build=lib.BIN):
        self.directory = tempfile.mkdtemp(prefix="bench-")
        self.outputs = outputs
        self.wait = wait
        self.command = [os.path.join(build, "bulkhead"), "record", "-F", str(hz), *map(str, args), "--stats", self.path("stats.json")]
        for name in outputs:
            self.command += ["-o", self.path(name)]
        self.command += ["--", *command] if command else []

    def path(self, name):
        return os.path.join(self.directory, name)

    def __enter__(self):
        self.started_ns = time.monotonic_ns()
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            if self.wait:
                self.find_roles()
                until(lambda: lib.sampling(self.process.pid), "the first tick")
        except BaseException:
            self.__exit__()
            raise
        return self

    def find_roles(self):
        """Waits until all roles are in their sandboxes."""
        self.roles = until(self._sandboxed, "five sandboxed roles")
        self.loader = self.roles["loader"]

    def _sandboxed(self):
        if self.process.poll() is not None:
            raise RuntimeError(f"{' '.join(self.command)} ended at once: {self.process.stderr.read().decode()[-500:]}")
        roles = lib.roles_of(self.process.pid)
        return roles if len(roles) == len(lib.ROLES) and all(map(lib.sandboxed, roles.values())) else None

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        return self.finish()

    def finish(self):
        """Waits until the recorded command, and with it the recording, ends."""
        _, self.stderr = self.process.communicate(timeout=lib.PATIENCE)
        if self.process.returncode:
            raise RuntimeError(f"{' '.join(self.command)} ended with {self.process.returncode}: {self.stderr.decode()[-500:]}")
        with open(self.path("stats.json"), encoding="utf-8") as f:
            self.stats = json.load(f)
        return self.stats

    def samples(self):
        with open(self.path("out.folded"), encoding="utf-8", errors="surrogateescape") as f:
            return lib.parse_folded(f.read())

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.process.stderr:
            self.process.stderr.close()
        shutil.rmtree(self.directory, ignore_errors=True)


@contextlib.contextmanager
def two_builds(hz, against, turn, **options):
    """A recording of this build and one of the build in `against`, of the same workload at the same time. One of them samples at 3 Hz more, so that
    the two ticks seldom coincide. Which one does, and which one starts first, changes with the turn; four turns have each combination once."""
    builds = [lib.BIN, against] if turn % 2 else [against, lib.BIN]
    rates = [hz + 3, hz] if turn % 4 < 2 else [hz, hz + 3]
    with contextlib.ExitStack() as stack:
        recordings = [stack.enter_context(Recording(rate, build=build, **options)) for build, rate in zip(builds, rates)]
        yield recordings if turn % 2 else recordings[::-1]
        for recording in recordings:
            recording.stop()


def ratio_to_other_build(benchmark, case, pairs, unit):
    """One line for the results of this build and of the other one in each turn; each ratio is of results of the same turn."""
    pairs = [pair for pair in pairs if all(pair)]
    ours, others = ([round(pair[i], 3) for pair in pairs] for i in (0, 1))
    return result(benchmark, f"{case}: ratio to other build", "x", [o / other for o, other in pairs], ours=ours, others=others, unit_of_both=unit)


def until(condition, what, seconds=lib.PATIENCE, every=0.01):
    end = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > end:
            raise RuntimeError(f"waited {seconds} s in vain: {what}")
        time.sleep(every)
    return found


# Costs

def cpu_ns(pid):
    """CPU time of a process in ns, from its CPU clock (clock_getcpuclockid)."""
    return time.clock_gettime_ns(~pid << 3 | 2)


def user_system_ticks(pid):
    fields = lib.read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return int(fields[11]), int(fields[12])


def memory(pid):
    """RSS, PSS and private memory of a process in bytes, and separately the RSS, PSS and sizes of its mappings of BPF maps."""
    total = dict.fromkeys(("rss", "pss", "private", "bpf_rss", "bpf_pss"), 0)
    sizes, in_bpf = [], False
    for line in lib.read(f"/proc/{pid}/smaps").splitlines():
        match = re.match(r"(Size|Rss|Pss|Private_Clean|Private_Dirty):\s+(\d+) kB", line)
        if not match:
            if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
                in_bpf = line.endswith("anon_inode:bpf-map")
            continue
        key, value = match.group(1), int(match.group(2)) << 10
        if key == "Size":
            sizes += [value] if in_bpf else []
        elif key.startswith("Private"):
            total["private"] += 0 if in_bpf else value
        else:
            total[key.lower()] += value
            total["bpf_" + key.lower()] += value if in_bpf else 0
    return total | {"bpf_sizes": sizes}


# BPF

@contextlib.contextmanager
def bpf_statistics():
    """The kernel keeps run statistics while this descriptor is open. Unlike kernel.bpf_stats_enabled, nothing remains switched on if this process is killed."""
    number = {"x86_64": 321, "aarch64": 280}[platform.machine()]
    enable_stats, run_time = 32, ctypes.create_string_buffer(128)
    fd = ctypes.CDLL(None, use_errno=True).syscall(ctypes.c_long(number), ctypes.c_long(enable_stats), run_time, ctypes.c_long(len(run_time)))
    if fd < 0:
        raise OSError(ctypes.get_errno(), "BPF_ENABLE_STATS")
    try:
        yield
    finally:
        os.close(fd)


def fdinfo(pid, number):
    text = lib.read(f"/proc/{pid}/fdinfo/{number}") or ""
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def fds(pid, kind):
    """The descriptors of a kind: bpf-prog or bpf-map."""
    found = []
    with contextlib.suppress(OSError):
        for number in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{pid}/fd/{number}") == f"anon_inode:{kind}":
                    found.append(number)
    return found


class BpfProgram:
    """The program that a process runs in perf events: bulkhead_sample in the loader, floor_sample in bench_floor.

    The time of programs that continue it by tail calls is part of its run time.
    """

    NAMES = ("bulkhead_sample", "floor_sample")

    def __init__(self, pid):
        self.pid = pid
        # A descriptor may be closed meanwhile: the loader closes those of runtimes after it has loaded them.
        ids = {number: fdinfo(pid, number).get("prog_id") for number in fds(pid, "bpf-prog")}
        found = [number for number, prog in ids.items() if prog and lib.bpf_describe("prog", prog).get("name") in self.NAMES]
        if len(found) != 1:
            raise RuntimeError(f"process {pid} holds {len(found)} programs named {' or '.join(self.NAMES)}, not one")
        self.number = found[0]

    def read(self):
        """(run time in ns, runs)"""
        info = fdinfo(self.pid, self.number)
        return int(info["run_time_ns"]), int(info["run_cnt"])

    @property
    def verified_instructions(self):
        """Verified instructions; kernels before 5.16 do not report them."""
        return int(fdinfo(self.pid, self.number).get("verified_insns", 0))


def windows(programs, count, seconds):
    """us per run of each program in each of `count` windows."""
    out = [[] for _ in programs]
    until(lambda: all(p.read()[1] for p in programs), "the first run of each program")
    before = [p.read() for p in programs]
    for _ in range(count):
        time.sleep(seconds)
        now = [p.read() for p in programs]
        for values, (ns, runs), (ns_before, runs_before) in zip(out, now, before):
            if runs > runs_before:
                values.append((ns - ns_before) / (runs - runs_before) / 1e3)
        before = now
    return out
