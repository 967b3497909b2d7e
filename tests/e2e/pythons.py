# SPDX-License-Identifier: Apache-2.0
"""CPython: the interpreters of this machine, their programs (python/*.py), and how samples are compared with what the programs know.

BULKHEAD_PYTHONS: more interpreters, separated by colons; "only:" in front: no others. BULKHEAD_PYTHON_BRIEF=1: the oldest and the newest only.
"""
import atexit
import collections
import contextlib
import functools
import glob
import json
import os
import re
import shutil
import stat
import subprocess
import tempfile
import threading
import time

import lib
import otlp_decode

DIRECTORY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "python")
VERSIONS = [(3, minor) for minor in range(6, 15)]
UNNAMED = "[Python: "  # how the name of an untrusted frame starts
EVALUATOR = re.compile(r"_PyEval_EvalFrameDefault($|\.)")
STRICT = "--strict-memory" in lib.RECORD_OPTIONS
BRIEF = os.environ.get("BULKHEAD_PYTHON_BRIEF") == "1"


class Interpreter(collections.namedtuple("Interpreter", "path version symbols")):
    """`symbols`: whether its static functions have names."""

    @property
    def name(self):
        return f"{self.version[0]}.{self.version[1]} {self.path}"


Frame = collections.namedtuple("Frame", "python name file line")  # python: otherwise native, kernel, or the mark of a cut stack
Sample = collections.namedtuple("Sample", "pid tid ns frames")  # ns: CLOCK_MONOTONIC; frames: leaf first


# Interpreters

def ask(path):
    """The Interpreter at this path, or None if it is not a CPython 3."""
    program = "import sys; print('%d %d' % sys.version_info[:2], sys.implementation.name)"
    try:
        said = subprocess.run([path, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=lib.PATIENCE, check=True).stdout.split()
    except (OSError, subprocess.SubprocessError):
        return None
    if len(said) != 3 or said[2] != b"cpython" or int(said[0]) != 3:
        return None
    with open(next((name for name in mapped_files(path) if "libpython" in name), path), "rb") as f:
        symbols = b"\0.symtab\0" in f.read()
    return Interpreter(path, (int(said[0]), int(said[1])), symbols)


def mapped_files(path):
    """The files that an interpreter maps, including some extension modules."""
    program = "import math, select, socket; print(open('/proc/self/maps').read())"
    maps = subprocess.run([path, "-c", program], stdout=subprocess.PIPE, timeout=lib.PATIENCE, check=True).stdout.decode()
    return {line.split(maxsplit=5)[5] for line in maps.splitlines() if " /" in line}


def everyone_may_read(path):
    """Whether everybody may read a file. Strict mode opens no other files."""
    above = path
    while above != "/":
        above = os.path.dirname(above)
        if not os.stat(above).st_mode & stat.S_IXOTH:
            return False
    return bool(os.stat(path).st_mode & stat.S_IROTH)


def link_or_copy(source, to):
    if os.stat(source).st_mode & stat.S_IROTH:
        with contextlib.suppress(OSError):  # another file system
            os.link(source, to)
            return
    shutil.copy2(source, to)
    os.chmod(to, os.stat(to).st_mode | stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH)


def readable(path):
    """The path of an interpreter that everybody may read. For one in a private directory, such as those of pyenv, a copy that lasts until this program
    ends."""
    if all(map(everyone_may_read, mapped_files(path))):
        return path
    prefix, name = os.path.dirname(os.path.dirname(path)), os.path.basename(path)
    to = tempfile.mkdtemp(prefix="e2e-")
    atexit.register(shutil.rmtree, to, ignore_errors=True)
    shutil.copytree(os.path.join(prefix, "lib"), os.path.join(to, "lib"), symlinks=True, copy_function=link_or_copy,
                    ignore=shutil.ignore_patterns("site-packages", "test", "tests", "config-*"))
    os.mkdir(os.path.join(to, "bin"))
    for directory, _, _ in os.walk(to):
        os.chmod(directory, 0o755)
    with open(path, "rb") as f:
        program = f.read()
    # the directory in which it looks for libpython
    old, new = os.fsencode(os.path.join(prefix, "lib")) + b"\0", b"$ORIGIN/../lib\0"
    program = program.replace(old, new.ljust(len(old), b"\0") if len(old) >= len(new) else old)
    path = os.path.join(to, "bin", name)
    with open(path, "wb") as f:
        f.write(program)
    os.chmod(path, 0o755)
    closed = [name for name in mapped_files(path) if not everyone_may_read(name)]
    if closed:
        raise RuntimeError(f"{path} still maps {closed}")
    return path


@functools.cache
def interpreters():
    """Each interpreter once, the oldest first. Prints the versions that are missing."""
    paths, others = lib.listed("BULKHEAD_PYTHONS")
    if others:
        paths += glob.glob(os.path.expanduser("~/.pyenv/versions/*/bin/python3.*")) + glob.glob("/usr/bin/python3*") + glob.glob("/usr/local/bin/python3*")
    real = {os.path.realpath(path) for path in paths if path and os.access(path, os.X_OK)}
    found = [ask(path) for path in real if re.fullmatch(r"python3\.\d+t?", os.path.basename(path))]
    found = sorted((i for i in found if i), key=lambda i: (i.version, i.path))
    if BRIEF:
        found = [*found[:1], *found[1:][-1:]]
    found = [i._replace(path=readable(i.path)) if STRICT else i for i in found]
    for i in found:
        print(f"CPython {i.name}{'' if i.symbols else ' (stripped)'}", flush=True)
    for version in () if BRIEF else VERSIONS:
        if not any(i.version == version for i in found):
            print(f"CPython {version[0]}.{version[1]}: not on this machine, not tested", flush=True)
    return found


class Running:
    """A program of python/ running in each interpreter, with a common directory. All are killed at the end of the `with`."""

    def __init__(self, name, *args, only=None, env=None):
        self.path = os.path.join(DIRECTORY, name)
        self.interpreters = only if only is not None else interpreters()
        self.args = args
        self.env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **(env or {})}

    def __enter__(self):
        self.stack = contextlib.ExitStack()
        self.directory = self.stack.enter_context(tempfile.TemporaryDirectory(prefix="e2e-"))
        self.processes = {}
        for i in self.interpreters:
            process = subprocess.Popen([i.path, self.path, self.directory, *map(str, self.args)], env=self.env, start_new_session=True)
            self.processes[process.pid] = i, process
        return self

    def go(self):
        with open(os.path.join(self.directory, "go"), "w", encoding="ascii"):
            pass

    def said(self):
        """{pid: what the process wrote at its end}, including child processes."""
        found = {}
        for path in glob.glob(os.path.join(self.directory, "*.json")):
            with open(path, encoding="ascii") as f:
                said = json.load(f)
            found[said["pid"]] = said
        return found

    def interpreter_of(self, pid):
        """The interpreter of a process or of a child process."""
        everyone = lib.processes()
        while pid not in self.processes:
            pid = everyone[pid][0]
        return self.processes[pid][0]

    def finished(self, processes=1):
        """Whether this many processes of each interpreter have written what they know. An error if one ended before."""
        here = {int(os.path.basename(path)[:-5]) for path in glob.glob(os.path.join(self.directory, "*.json"))}
        for pid, (i, process) in self.processes.items():
            if pid not in here and process.poll() is not None:
                raise RuntimeError(f"{i.path} {self.path} ended with {process.returncode}")
        return here >= set(self.processes) and len(here) >= processes * len(self.processes)

    def __exit__(self, *_):
        for _, process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            process.wait()
        self.stack.close()


# Samples

class Clocks:
    """Measures continuously how far the real-time clock is ahead of the monotonic one, because it is slewed."""

    def __enter__(self):
        self.known = []
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._run)
        self._read()
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()
        self._read()

    def _read(self):
        best = None
        for _ in range(20):
            before, real, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
            if best is None or after - before < best[0]:
                best = after - before, after, real - (before + after) // 2
        self.known.append(best[1:])

    def _run(self):
        while not self.stop.wait(0.1):
            self._read()

    def monotonic(self, unix_ns):
        """The offset at a time, and its possible error: the largest step between two readings."""
        ahead = self.known[-1][1]
        for at, offset in self.known:
            if unix_ns - offset < at:
                ahead = offset
                break
        return unix_ns - ahead

    def error_ns(self):
        return 20000 + max((abs(a[1] - b[1]) for a, b in zip(self.known, self.known[1:])), default=0)


def frames_of(location):
    """The frames of a location, the innermost inlined one first."""
    kind = location["frame_type"]
    if kind == "cpython":
        return [Frame("python", line["name"], line["filename"], line["line"]) for line in location["lines"]] or [Frame("python", "", "", 0)]
    names = otlp_decode.folded_frames(location)
    kind = "cut" if kind == "abort-marker" or names[0].startswith(lib.CUT) else kind
    return [Frame(kind, name, location["mapping"], 0) for name in names]


def samples_of(path, clocks):
    """Reads an OTLP file as {pid: [Sample]}."""
    found = collections.defaultdict(list)
    stacks = {}
    for sample in otlp_decode.read(path):
        pid = int(sample["resource"].get("process.pid", 0))
        key = tuple(map(id, sample["stack"]))
        if key not in stacks:
            stacks[key] = tuple(frame for location in sample["stack"] for frame in frames_of(location)), sample["stack"]
        for unix_ns in sample["timestamps"]:
            found[pid].append(Sample(pid, int(sample["attributes"].get("thread.id", 0)), clocks.monotonic(unix_ns), stacks[key][0]))
    return found


def python_frames(sample):
    return [frame for frame in sample.frames if frame.python == "python"]


def show(frames):
    return lib.show([f"{f.name} ({os.path.basename(f.file)}:{f.line})" if f.python == "python" else f.name for f in frames])


# Which samples are right

def plain_name(name, version):
    return name if version >= (3, 11) else name.rsplit(".", 1)[-1]


def against_dump(expected, chain, version, path):
    """Compares the chain that a program's author expects with the one that its runtime reported, both without the leaf. Returns a list of (index in the
    chain, expression) for native frames, or a text with the difference."""
    native = []
    at = 0
    for name, mark in expected:
        if name == "!":
            native.append((at, mark))
        elif name == "*":
            begun = at
            while at < len(chain) and mark in chain[at][1]:
                at += 1
            if at == begun:
                return f"no function of {mark} at {at}: {chain[at:at + 1]}"
        elif at >= len(chain) or chain[at][0] != plain_name(name, version) or (mark and (chain[at][2] != mark or chain[at][1] != path)):
            return f"expected {name}:{mark} at {at}, the runtime says {chain[at:at + 1]}"
        else:
            at += 1
    return native if at == len(chain) else f"the runtime goes on with {chain[at]}"


FAULT_LINE = re.compile(r'  File "(.*)", line (\d+) in (.*)')


def against_faulthandler(text, chain):
    """faulthandler prints at most 100 frames, names without their class, and escapes."""
    dumped = [(m[1], int(m[2]), m[3]) for m in map(FAULT_LINE.fullmatch, text.splitlines()) if m]
    for (file, line, name), (known_name, known_file, known_line) in zip(dumped[3:], chain[1:]):  # after fault_dump, the start and the leaf
        if (file, name) != tuple(ascii_of(t) for t in (known_file, known_name.rsplit(".", 1)[-1])) or line != known_line:
            return f"faulthandler says {name} {file}:{line}, sys._getframe {known_name} {known_file}:{known_line}"
    return None


def ascii_of(text):
    return "".join(c if " " <= c < "\x7f" else f"\\x{ord(c):02x}" if ord(c) < 0x100 else f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}"
                   for c in text)


class Phase:
    """A phase of python/chain.py and its right samples. `native`: the native frames expected between Python frames. `plain`: between this many Python frames
    there is no native one (from 3.11 on). `thread`: the stack does not start in main. `inner`: it may continue in another interpreter."""

    def __init__(self, said, interpreter, native=(), plain=0, thread=False, inner=False):
        self.said = said
        self.interpreter = interpreter
        self.native = native
        self.plain = plain
        self.thread = thread
        self.inner = inner
        self.start, self.end = said["start"], said["end"]
        self.verdicts = {}

    def covers(self, sample, error_ns, settled_ns=0):
        return sample.tid == self.said["tid"] and max(self.start + error_ns, settled_ns) <= sample.ns <= self.end - error_ns

    def fault(self, frames):
        """The fault of these frames, or None."""
        if frames not in self.verdicts:
            self.verdicts[frames] = self._python(frames) or self._native(frames)
        return self.verdicts[frames]

    def _python(self, frames):
        found = [f for f in frames if f.python == "python"]
        chain = self.said["chain"]
        low, high = self.said["leaf_lines"]
        for at, frame in enumerate(found):
            if at >= len(chain) and self.inner:
                return None
            if at >= len(chain):
                return f"{len(found)} Python frames instead of {len(chain)}"
            name, file, line = chain[at]
            if (frame.name, frame.file) != (name, file) or not (low <= frame.line <= high if at == 0 else frame.line == line):
                return f"frame {at} is {frame.name} {frame.file}:{frame.line} instead of {name} {file}:{line if at else (low, high)}"
        return None if len(found) == len(chain) else f"{len(found)} Python frames instead of {len(chain)}"

    def _native(self, frames):
        if any(f.python == "cut" for f in frames):
            return "cut"
        if not self.inner and any(EVALUATOR.match(f.name) for f in frames if f.python != "python"):
            return "an evaluator that is not replaced"
        between, run = [], []  # run: the native frames between the leaf and the next Python frame
        for frame in frames:
            if frame.python == "python":
                between.append(run)
                run = []
            else:
                run.append(frame.name)
        between = between[1:]  # [k]: between Python frames k and k + 1
        for at, expression in self.native:
            if not between[at] or self.interpreter.symbols and not any(re.fullmatch(expression, name) for name in between[at]):
                return f"{expression} is not between Python frames {at} and {at + 1} but {between[at]}"
        if self.plain and self.interpreter.version >= (3, 11):
            for at, names in enumerate(between[:self.plain]):
                if names:
                    return f"{names} between Python frames {at} and {at + 1}"
        return self._bottom(run)

    def _bottom(self, names):
        if self.thread:
            return None if len(names) >= 3 and re.fullmatch(r"clone3?|.*libc.*\+0x[0-9a-f]+|.*clone.*", names[-1]) else f"the thread begins with {names[-3:]}"
        if len(names) < 4 or not re.fullmatch(r"_start|python3[\w.]*\+0x[0-9a-f]+", names[-1]):
            return f"the process begins with {names[-4:]}"
        # the compiler may have turned the call in main into a jump
        return None if not self.interpreter.symbols or {"main", "Py_BytesMain", "_Py_UnixMain"} & set(names) else "no main"


class KnownChains(Phase):
    """realwork.py: a sample must have one of many chains."""

    def __init__(self, said, interpreter):
        super().__init__(said["phases"][0], interpreter)
        frames = [tuple(frame) for frame in said["frames"]]
        self.chains = {tuple(frames[n] for n in found) for found in said["chains"]}
        self.lines = said["lines"]
        self.generators = {tuple(generator) for generator in said["generators"]}

    def _python(self, frames):
        found = [(f.name, f.file, f.line) for f in frames if f.python == "python"]
        if found and found[0] in self.generators:
            # called to create the generator: no event reports that
            return self._chain(found[1:]) and self._chain(found)
        return self._chain(found)

    def _chain(self, found):
        if not found:
            return "no Python frames"
        name, file, line = found[0]
        if ((name, file, 0), *found[1:]) not in self.chains:
            return f"not one of the chains of {name}"
        known = self.lines.get(file, {}).get(name)
        return None if known is None or line in known else f"{name} of {file} has no line {line}"


def impossible(samples, lines):
    """Impossible frames, in files whose functions and lines are all recorded: [text]."""
    found = collections.Counter()
    for sample in samples:
        for frame in python_frames(sample):
            if not frame.name.startswith(UNNAMED) and frame.file in lines and frame.line not in lines[frame.file].get(frame.name, ()):
                found[f"no such frame: {frame.name} {frame.file}:{frame.line}"] += 1
    return [f"{count} x {text}" for text, count in found.most_common(5)]


def judge(phase, samples, least_share=0.99, least_samples=40):
    """(right samples, all samples, faults of the wrong ones, faults of the phase) of a phase. The last is empty if enough samples are right."""
    total, wrong = 0, collections.defaultdict(list)
    for sample in samples:
        total += 1
        fault = phase.fault(sample.frames)
        if fault:
            wrong[fault].append(sample)
    right = total - sum(map(len, wrong.values()))
    details = []
    for fault, of_it in sorted(wrong.items(), key=lambda item: -len(item[1]))[:5]:
        times = [round((s.ns - phase.start) / 1e6) for s in of_it]
        details.append(f"  {len(of_it)} x {fault}\n      {min(times)} to {max(times)} ms into the phase: {show(of_it[0].frames)[:3000]}")
    faults = []
    if total < least_samples:
        faults.append(f"only {total} samples")
    if right < least_share * total:
        faults.append(f"{right} of {total} samples have the known chain")
    return right, total, details, faults and faults + details
