# SPDX-License-Identifier: Apache-2.0
"""Shared by the end-to-end tests: running a recording, reading its outputs, comparing stacks.

Environment (ctest sets it): BULKHEAD_BIN, the directory with the built binaries; BULKHEAD_SOURCE, the
top of the tree; BULKHEAD_PROGRAMS, the directory with the built tests/e2e/programs.
By hand: BULKHEAD_BIN=build/release/bin BULKHEAD_PROGRAMS=build/release/tests/e2e/programs \\
         python3 tests/e2e/test_stacks.py [Stacks.test_recursion_200]
"""
import collections
import contextlib
import ctypes
import glob
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE = os.environ.get("BULKHEAD_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.path.abspath(os.environ.get("BULKHEAD_BIN") or os.path.join(SOURCE, "build/release/bin"))
PROGRAMS = os.path.abspath(os.environ.get("BULKHEAD_PROGRAMS") or os.path.join(SOURCE, "build/release/tests/e2e/programs"))
BULKHEAD = os.path.join(BIN, "bulkhead")
# Options for every recording of a test, for example --strict-memory.
RECORD_OPTIONS = os.environ.get("BULKHEAD_RECORD_OPTIONS", "").split()
PATIENCE = int(os.environ.get("BULKHEAD_E2E_PATIENCE", "60"))  # seconds that anything may take beyond what it was asked to: only to end a hang

PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h

INTERRUPTED = "interrupted before sampling started"  # a message of `bulkhead record`
STRETCH = 10  # how much longer than on an idle machine a recording may take

CUT = "[stack cut"


# Samples

Sample = collections.namedtuple("Sample", "comm frames count")  # frames: leaf first


class Malformed(Exception):
    pass


def parse_folded(text):
    """Lines of `comm;outermost;...;leaf count` as a list of Sample."""
    samples = []
    for number, line in enumerate(text.splitlines(), 1):
        stack, space, count = line.rpartition(" ")
        if not space or not count.isascii() or not count.isdigit() or int(count) < 1:
            raise Malformed(f"line {number}: no count at the end: {line[:200]!r}")
        comm, *frames = stack.split(";")
        if not all(frames):
            raise Malformed(f"line {number}: an empty frame: {line[:200]!r}")
        samples.append(Sample(comm, tuple(reversed(frames)), int(count)))
    return samples


def only_line(lines, text):
    """The number of the only line that contains this."""
    found = [number for number, content in enumerate(lines, 1) if text in content]
    assert len(found) == 1, (text, found)
    return found[0]


def user_frames(frames):
    """The frames without those of the kernel, which may only be innermost."""
    kernel = 0
    while kernel < len(frames) and frames[kernel].endswith("_[k]"):
        kernel += 1
    if any(frame.endswith("_[k]") for frame in frames[kernel:]):
        raise Malformed(f"kernel frames below user frames: {frames}")
    return frames[kernel:]


def show(frames):
    """The frames on one line, leaf first, with repetitions counted."""
    out = []
    for frame in frames:
        if out and out[-1][0] == frame:
            out[-1][1] += 1
        else:
            out.append([frame, 1])
    return " < ".join(f"{name} x{n}" if n > 1 else name for name, n in out) or "(nothing)"


# Chains

class Expectation:
    """The chains that a program announces in a line of JSON (programs/chain.h)."""

    # libc's internal functions have names only if its debug symbols are installed
    ENDS = {
        "@start": [{"re": r"(?!main$|_start$).+", "min": 2, "max": 2}, "_start"],
        "@musl_start": [{"re": r"(?!main$|_start$).+"}, "_start"],
        "@musl_thread": [{"re": ".+", "min": 2, "max": 2}],
        "@thread": [{"re": r"(?!main$|_start$).*(start_thread|libc.*|pthread.*)"}, {"re": r"(?!main$|_start$).*(clone3?|libc.*)"}],
    }

    def __init__(self, said):
        self.said = said
        self.chains = [self._compile(c) for c in said.get("chains", [])]
        self.threads = {comm: [self._compile(c) for c in chains] for comm, chains in said.get("threads", {}).items()}
        self.need = said.get("need", {})

    @classmethod
    def _compile(cls, chain):
        pattern = ""
        for entry in chain:
            for item in cls.ENDS.get(entry, [entry]) if isinstance(entry, str) else [entry]:
                if isinstance(item, str):
                    item = {"name": item}
                name = f"(?:{item['re']})" if "re" in item else re.escape(item["name"])
                low = item.get("times", item.get("min", 1))
                high = item.get("times", item.get("max", 1))
                pattern += f"(?:{name}\n){{{low},{high}}}"
        # without DOTALL an expression cannot match into the next frame; with MULTILINE $ is the end of a frame
        return re.compile(pattern, re.MULTILINE)

    def matches(self, sample):
        frames = user_frames(sample.frames)
        if any(frame.startswith(CUT) for frame in frames):
            return False
        text = "".join(frame + "\n" for frame in frames)
        return any(chain.fullmatch(text) for chain in self.threads.get(sample.comm, self.chains))


def compare(samples, expectation, least_share=0.995, least_samples=300):
    """The faults of these samples, as a list of texts."""
    total = sum(s.count for s in samples)
    faults = []
    if total < least_samples:
        faults.append(f"only {total} samples, expected at least {least_samples}")
    wrong = collections.Counter()
    for s in samples:
        if not expectation.matches(s):
            wrong[s] += s.count
    right = total - sum(wrong.values())
    if total and right < least_share * total:
        faults.append(f"{right} of {total} samples ({100 * right / total:.2f} %) have a known chain, expected {100 * least_share:.1f} %")
    for s, count in sorted(wrong.items(), key=lambda item: -item[1])[:5]:
        faults.append(f"  wrong {count} x {s.comm}: {show(s.frames)}")
    for comm in expectation.threads:
        if not any(s.comm == comm for s in samples):
            faults.append(f"no sample of thread {comm}")
    for pattern, share in expectation.need.items():
        found = sum(s.count for s in samples if any(re.fullmatch(pattern, f) for f in user_frames(s.frames)))
        if found < share * total:
            faults.append(f"{found} of {total} samples pass through {pattern}, expected {100 * share:.0f} %")
    return faults if any(not f.startswith("  ") for f in faults) else []


def unaccounted(stats, samples=None, lossless=False):
    """The faults in the account of one recording, as a list of texts."""
    faults = []
    try:
        taken, exported, lost = stats["taken"], stats["exported"], stats["lost"]
    except (KeyError, TypeError) as error:
        return [f"stats lack {error}"]
    if not all(isinstance(n, int) and n >= 0 for n in [taken, exported, *lost.values()]):
        faults.append(f"not all counts: {taken}, {exported}, {lost}")
    if taken != exported + sum(lost.values()):
        faults.append(f"taken {taken} != exported {exported} + lost {lost}")
    if samples is not None and sum(s.count for s in samples) != exported:
        faults.append(f"exported {exported}, but the folded file has {sum(s.count for s in samples)}")
    if lossless and sum(lost.values()):
        faults.append(f"lost {lost}")
    if any(not re.fullmatch(r"[a-z][a-z0-9_. -]*", reason) for reason in lost):
        faults.append(f"a reason without a name: {lost}")
    return faults


# Programs

class Busy:
    """Something that a test expects samples of. Case.record waits for the CPU time of everything in `running`."""

    running = []  # those between __enter__ and __exit__

    def __enter__(self):
        Busy.running.append(self)
        return self

    def __exit__(self, *_):
        if self in Busy.running:
            Busy.running.remove(self)

    def cpu_seconds(self):
        """The CPU time that it has used so far."""
        raise NotImplementedError


def cpu_seconds_of(stat, children=False):
    """User and system time in the text of a file `stat` in /proc; 0 if its process or thread has ended (None).

    With `children`, also that of its children that have ended and were waited for.
    """
    fields = (stat or "").rpartition(")")[2].split()
    return sum(map(int, fields[11:15 if children else 13])) / os.sysconf("SC_CLK_TCK")


class Process(Busy):
    """A process that the test started: all its threads, or those with one of these names."""

    def __init__(self, pid, *comms):
        self.pid = pid
        self.comms = comms

    def cpu_seconds(self):
        if not self.comms:
            return cpu_seconds_of(read(f"/proc/{self.pid}/stat"))
        threads = glob.glob(f"/proc/{self.pid}/task/*")
        return sum(cpu_seconds_of(read(f"{thread}/stat")) for thread in threads if (read(f"{thread}/comm") or "").strip() in self.comms)


class Program(Busy):
    """A program that announces its call chain and uses CPU time until the `with` ends."""

    def __init__(self, name, *args, env=None, path=None, wrapper=(), comm=None, seconds=120):
        self.command = [*wrapper, path or os.path.join(PROGRAMS, name), str(seconds), *map(str, args)]
        self.env = {**os.environ, **(env or {})}
        self.comm = comm or os.path.basename(name)[:15]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, env=self.env, stdout=subprocess.PIPE, start_new_session=True)
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        line = self.process.stdout.readline() if ready else b""
        if not line:
            self.__exit__()
            raise RuntimeError(f"{self.command} said nothing, status {self.process.returncode}")
        said = json.loads(line)
        self.tids = said.get("tids", {})
        self.expectation = Expectation(said)
        self.pid = self.process.pid
        time.sleep(0.2)  # the program needs this time to reach the end of its chain
        return super().__enter__()

    def cpu_seconds(self):
        """CPU time of the processes of its process group, and of those that have ended."""
        stats = (read(f"/proc/{pid}/stat") or "" for pid in filter(str.isdigit, os.listdir("/proc")))
        return sum(cpu_seconds_of(stat, children=True) for stat in stats if stat.rpartition(")")[2].split()[2:3] == [str(self.pid)])

    def __exit__(self, *_):
        super().__exit__()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.stdout.close()
        self.process.wait()


class Burner(Program):
    """A program that uses one CPU."""

    def __init__(self, seconds=120):
        super().__init__("recursion", 28, seconds=seconds)


# Recordings

class Recording:
    def __init__(self, command, directory):
        self.command = command
        self.directory = directory
        self.status = None
        self.stdout = self.stderr = ""
        self._samples = None

    def path(self, name):
        return os.path.join(self.directory, name)

    @property
    def samples(self):
        if self._samples is None:
            with open(self.path("out.folded"), encoding="utf-8", errors="surrogateescape") as f:
                self._samples = parse_folded(f.read())
        return self._samples

    @property
    def stats(self):
        with open(self.path("stats.json"), encoding="utf-8") as f:
            return json.load(f)

    def of(self, *comms):
        return [s for s in self.samples if s.comm in comms]

    def describe(self):
        out = f"$ {' '.join(self.command)}\nstatus {self.status}\n{self.stdout[-3000:]}{self.stderr[-3000:]}"
        with contextlib.suppress(OSError, ValueError):
            stats = self.stats
            out += "\nstats " + json.dumps({k: stats.get(k) for k in ("taken", "exported", "lost", "incomplete", "deferred")})
        return out


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="e2e-")
        os.chmod(self.directory, 0o755)
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)

    def skip(self, reason):
        print(f"SKIP {self.id()}: {reason}", flush=True)
        self.skipTest(reason)

    def need_tool(self, *names):
        for name in names:
            if shutil.which(name):
                return shutil.which(name)
        return self.skip(f"no {' or '.join(names)} on this machine")

    def start(self, *args, seconds=1, freq=997, outputs=("out.folded",), command=(), debug=False, wrapper=(), **popen):
        """Starts `bulkhead record`. Returns its Popen; self.finish() completes its attribute `recording`.

        `wrapper` is a command that executes another one. With `debug`, its log has debug messages, and can be read in the file log.txt while it runs.
        """
        # Expected stacks differ between the threads of a program, so a sample's comm is its thread's.
        line = [*wrapper, BULKHEAD, "record", "-F", str(freq), "--group-by", "thread", *RECORD_OPTIONS, *(["-d", str(seconds)] if seconds else []), *map(str, args)]
        for name in outputs:
            line += ["-o", os.path.join(self.directory, name)]
        line += ["--stats", os.path.join(self.directory, "stats.json")]
        if command:
            line += ["--", *command]
        for name in (*outputs, "stats.json"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(self.directory, name))
        popen = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "start_new_session": True, **popen}
        if debug:
            popen["env"] = {**popen.get("env", os.environ), "BULKHEAD_LOG": "debug"}
            popen["stderr"] = self.enterContext(open(os.path.join(self.directory, "log.txt"), "wb"))
        process = subprocess.Popen(line, **popen)
        process.recording = Recording(line, self.directory)
        process.patience = (seconds or 0) + PATIENCE
        self.addCleanup(self._end, process)
        return process

    @staticmethod
    def _end(process):
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for stream in (process.stdout, process.stderr):
            if stream:
                stream.close()

    def finish(self, process, status=0):
        recording = process.recording
        try:
            out, err = process.communicate(timeout=process.patience)
        except subprocess.TimeoutExpired:
            self.fail(f"still running after {process.patience} s: {' '.join(recording.command)}")
        recording.stdout, recording.stderr = ((x or b"").decode(errors="replace") for x in (out, err))
        if err is None and os.path.exists(recording.path("log.txt")):
            lines = read(recording.path("log.txt")).splitlines(keepends=True)
            recording.stderr = "".join(line for line in lines if " debug " not in line)
        recording.status = process.returncode
        if status is not None:
            self.assertEqual(recording.status, status, recording.describe())
        return recording

    def record(self, *args, status=0, seconds=1, **kwargs):
        """A recording of `seconds`, or of as long as everything in Busy.running needs to get that much CPU time.

        On an idle machine both are the same. On a loaded one a test gets as many samples as it asks for, only later.
        """
        if not Busy.running or not seconds:
            return self.finish(self.start(*args, seconds=seconds, **kwargs), status)
        while True:
            process = self.start(*args, seconds=seconds * STRETCH, **kwargs)
            self.give_cpu_time(seconds, process)
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT)
            recording = self.finish(process, status=None)
            # On an overloaded machine the roles may have needed all the time to start.
            if INTERRUPTED not in recording.stderr:
                break
        if status is not None:
            self.assertEqual(recording.status, status, recording.describe())
        return recording

    @contextlib.contextmanager
    def started(self, *command, **popen):
        """A program that has said "started"; it is killed at the end."""
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **popen) as process:
            try:
                self.assertEqual(process.stdout.readline(), "started\n")
                with Process(process.pid):
                    yield process
            finally:
                process.kill()

    def give_cpu_time(self, seconds, recording):
        """Waits until the recording samples, and then until everything in Busy.running has had CPU time for `seconds`."""
        self.wait_for("sampling to begin", lambda: recording.poll() is not None or sampling(recording.pid))
        before = [(busy, busy.cpu_seconds()) for busy in Busy.running]
        end = time.monotonic() + seconds
        patience = time.monotonic() + seconds * STRETCH
        while recording.poll() is None and time.monotonic() < patience:
            if time.monotonic() >= end and all(busy.cpu_seconds() - cpu >= 0.95 * seconds for busy, cpu in before):
                return
            time.sleep(0.02)

    def wait_for_cpu_time(self, busy, seconds):
        """Waits until `busy` has used this much CPU time since its start."""
        self.wait_for(f"{seconds} s of CPU time", lambda: busy.cpu_seconds() >= seconds, seconds * STRETCH + PATIENCE)

    def wait_until_recording(self, process):
        """{role: pid}, once samples are taken and another second has passed."""
        def ready():
            if process.poll() is not None:
                self.finish(process, status=None)
                self.fail("ended at once: " + process.recording.describe())
            return sampling(process.pid)
        self.wait_for("sampling to begin", ready)
        time.sleep(1)
        return roles_of(process.pid)

    def wait_until_attached(self, process, pids):
        """Waits until the language runtimes of these processes are attached, in a recording with `debug`."""
        log = process.recording.path("log.txt")
        self.wait_for(f"runtimes of {pids} attached", lambda: set(map(str, pids)) <= set(re.findall(r" attached: tgid=(\d+)", read(log))))

    def assert_none(self, faults, recording):
        if faults:
            self.fail("\n".join([*faults, recording.describe()]))

    def assert_stacks(self, recording, samples, expectation, least_share=0.995, least_samples=300):
        self.assert_none(compare(samples, expectation, least_share, least_samples), recording)

    def assert_accounted(self, recording, lossless=False):
        self.assert_none(unaccounted(recording.stats, recording.samples, lossless), recording)

    def remove_cgroup(self, path):
        """A cgroup has processes for a moment after they were killed."""
        def removed():
            with contextlib.suppress(OSError):
                os.rmdir(path)
            return not os.path.exists(path)
        self.wait_for("the cgroup to be empty", removed)

    def wait_for(self, what, condition, seconds=PATIENCE):
        end = time.monotonic() + seconds
        while True:
            result = condition()
            if result:
                return result
            if time.monotonic() > end:
                self.fail(f"waited {seconds} s in vain: {what}")
            time.sleep(0.02)


# Processes

def role_table():
    """common/roles.def as {identifier: {column: value}}, without the CLI."""
    columns = ("directory", "user", "process", "program", "agent_program")
    with open(os.path.join(SOURCE, "common/roles.def"), encoding="utf-8") as f:
        rows = re.findall(r'^ROLE\((\w+), (.*)\)$', f.read(), re.M)
    table = {name: dict(zip(columns, re.findall(r'"([^"]*)"', values), strict=True)) for name, values in rows}
    del table["CONTROL"]
    return table


ROLE_TABLE = role_table()
ROLES = {name.lower(): role["process"] for name, role in ROLE_TABLE.items()}
EXECUTABLES = tuple(dict.fromkeys(role[column] for role in ROLE_TABLE.values() for column in ("program", "agent_program")))


def listed(variable):
    """(paths, whether there are others) of an environment variable: paths separated by colons; with "only:" in front, there are no others."""
    value = os.environ.get(variable, "")
    return [path for path in value.removeprefix("only:").split(":") if path], not value.startswith("only:")


def programs(variable, name):
    """The programs that the variable lists, and the one of this name that a shell would execute."""
    paths, others = listed(variable)
    own = shutil.which(name) if others else None
    return [*paths, os.path.realpath(own)] if own else paths


def is_elf(path):
    """Whether it is a program itself, not a script that starts one."""
    with open(path, "rb") as f:
        return f.read(4) == b"\x7fELF"


def read(path):
    """The contents of a file in /proc, or None if its process has ended."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(path, encoding="utf-8", errors="surrogateescape") as f:
        return f.read()
    return None


def proc_status(pid):
    text = read(f"/proc/{pid}/status")
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line) if text else None


def processes():
    """{pid: (ppid, comm, path of the executable)} without kernel threads and zombies."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        status = proc_status(pid)
        try:
            executable = os.readlink(f"/proc/{pid}/exe")
        except OSError:
            continue
        if status and not status["State"].startswith(("Z", "X")):
            found[int(pid)] = (int(status["PPid"]), status["Name"], executable.removesuffix(" (deleted)"))
    return found


def adopt_orphans():
    """Makes this test the parent of every process that its recordings leave over, so that nothing escapes bulkhead_processes()."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def descendants(ancestor):
    """{pid: (ppid, comm, executable)} of the living processes that `ancestor` started, directly or not."""
    everyone = processes()
    found = {}
    for pid, process in everyone.items():
        above = pid
        while above in everyone and above != ancestor:
            above = everyone[above][0]
        if above == ancestor and pid != ancestor:
            found[pid] = process
    return found


def zombies_of(parent):
    """[name] of the children that have ended and that their parent has not collected."""
    children = filter(None, map(proc_status, filter(str.isdigit, os.listdir("/proc"))))
    return [c["Name"] for c in children if int(c["PPid"]) == parent and c["State"][0] == "Z"]


def bulkhead_processes(directory=BIN):
    """The processes of Bulkhead that this test has started. Other recordings on the machine are not its concern."""
    names = ("bulkhead", *EXECUTABLES)
    return {pid: p for pid, p in descendants(os.getpid()).items() if os.path.dirname(p[2]) == directory and os.path.basename(p[2]) in names}


def bpf_ids(pid, kind):
    """Ids of the BPF programs ("prog") or maps ("map") that a process holds descriptors of."""
    found = set()
    for entry in glob.glob(f"/proc/{pid}/fdinfo/*"):
        found.update(int(number) for number in re.findall(rf"^{kind}_id:\s+(\d+)$", read(entry) or "", re.MULTILINE))
    return found


def bpf_describe(kind, number, verb="show"):
    """What bpftool says of a BPF program or map, {} if it is gone."""
    done = subprocess.run(["bpftool", "-j", kind, verb, "id", str(number)], capture_output=True, text=True, check=False,
                          env={**os.environ, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
    return json.loads(done.stdout) if done.returncode == 0 else {}


def roles_of(cli):
    """{role: pid} of the roles that descend from this CLI. Until it has chosen its own, a helper has the name of its role, which is its parent."""
    found, everyone = {}, descendants(cli)
    for pid, (parent, comm, executable) in everyone.items():
        for role, role_comm in ROLES.items():
            if comm == role_comm and os.path.basename(executable) in EXECUTABLES and everyone.get(parent, (0, ""))[1] != comm:
                found[role] = pid
    return found


def sampling(cli):
    """Whether the roles of this CLI are in their sandboxes, and the BPF programs have counted a tick, of whatever kind."""
    roles = roles_of(cli)
    if len(roles) != len(ROLES) or not all(map(sandboxed, roles.values())):
        return False
    counters = [number for number in bpf_ids(roles["loader"], "map") if bpf_describe("map", number).get("name") == "counters"]
    return any(int(byte, 16) for number in counters for entry in bpf_describe("map", number, "dump") for byte in entry["value"])


def sandboxed(pid):
    status = proc_status(pid)
    return status is not None and status["Seccomp"] == "2"


def main():
    if os.geteuid() != 0:
        print(f"SKIP {os.path.basename(sys.argv[0])}: not root")
        sys.exit(77)
    if not os.path.exists(BULKHEAD):
        sys.exit(f"{BULKHEAD} does not exist: build first, or set BULKHEAD_BIN")
    sys.stdout.reconfigure(line_buffering=True)
    adopt_orphans()
    unittest.main(verbosity=2)
