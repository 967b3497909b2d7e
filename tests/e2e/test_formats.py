# SPDX-License-Identifier: Apache-2.0
"""Formats: one recording is written in every format at once, and each reader finds the same sums."""
import base64
import collections
import gzip
import html.parser
import json
import os
import re
import subprocess
import zlib

import lib
import otlp_decode


def fields(data):
    """A protobuf message's (number, value): int for varint and fixed, bytes for what has a length."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        wire = key & 7
        if wire == 0:
            value = varint()
        else:
            length = {1: 8, 5: 4}.get(wire) or (varint() if wire == 2 else None)
            if length is None or at + length > len(data):
                raise lib.Malformed(f"wire type {wire} at {at}")
            value = data[at:at + length] if wire == 2 else int.from_bytes(data[at:at + length], "little")
            at += length
        yield key >> 3, value


def packed(data):
    """Packed varints."""
    out, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 0x7f) << shift
        shift += 7
        if byte < 0x80:
            out.append(value)
            value = shift = 0
    return out


def all_of(data, number):
    return [value for n, value in fields(data) if n == number]


def otlp_samples(data):
    """[(stack index, number of timestamps or sum of values)] of every profile in an ExportProfilesServiceRequest / ProfilesData."""
    out = []
    for resource in all_of(data, 1):
        for scope in all_of(resource, 2):
            for profile in all_of(scope, 2):
                for sample in all_of(profile, 2):
                    values = [v for chunk in all_of(sample, 4) for v in (packed(chunk) if isinstance(chunk, bytes) else [chunk])]
                    times = sum(len(chunk) // 8 if isinstance(chunk, bytes) else 1 for chunk in all_of(sample, 5))
                    out.append(((all_of(sample, 1) or [0])[0], sum(values) if values else times))
    return out


def pprof_samples(data):
    """[(location ids, first value)]"""
    out = []
    for sample in all_of(data, 2):
        values = [v for chunk in all_of(sample, 2) for v in (packed(chunk) if isinstance(chunk, bytes) else [chunk])]
        locations = [v for chunk in all_of(sample, 1) for v in (packed(chunk) if isinstance(chunk, bytes) else [chunk])]
        out.append((tuple(locations), values[0]))
    return out


class References(html.parser.HTMLParser):
    """Collects everything that a browser would fetch, and the text of the scripts."""
    FETCHING = {"src", "href", "srcset", "action", "data", "poster", "background"}

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.outside = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name in self.FETCHING and value and not value.startswith(("#", "data:")):
                self.outside.append(f"<{tag} {name}={value[:80]}>")


FREQ = 499


def read_bytes(path):
    with open(path, "rb") as f:
        return f.read()


class Formats(lib.Case):
    OUTPUTS = ("out.folded", "out.html", "out.pb.gz", "out.speedscope.json", "out.otlp")

    @classmethod
    def setUpClass(cls):
        cls.shared = cls("record_once")
        cls.shared.setUp()
        cls.addClassCleanup(cls.shared.doCleanups)
        with lib.Program("threads", 2) as cls.program, lib.Program("syscalls"), lib.Program("cxxnames"):
            cls.recording = cls.shared.record(freq=FREQ, seconds=3, outputs=cls.OUTPUTS)

    def record_once(self):
        """An empty test, because setUpClass needs an instance."""

    def bytes_of(self, name):
        with open(self.recording.path(name), "rb") as f:
            return f.read()

    @property
    def exported(self):
        return self.recording.stats["exported"]

    def test_folded(self):
        self.assert_accounted(self.recording)
        self.assertGreater(self.exported, 499)

    def test_otlp(self):
        samples = otlp_samples(self.bytes_of("out.otlp"))
        self.assertEqual(sum(n for _, n in samples), self.exported)

    def test_pprof(self):
        data = gzip.decompress(self.bytes_of("out.pb.gz"))
        samples = pprof_samples(data)
        self.assertEqual(sum(n for _, n in samples), self.exported)
        known = {dict(fields(location)).get(1) for location in all_of(data, 4)}
        self.assertEqual({l for locations, _ in samples for l in locations} - known, set(), "locations that do not exist")

    def test_functions_of_a_stripped_program_are_named_by_their_start(self):
        """Every format groups the frames of a function without a symbol; OTLP and pprof keep the address of each frame."""
        path = os.path.join(self.directory, "nameless")
        unstripped = os.path.join(lib.PROGRAMS, "recursion")
        subprocess.run(["strip", "-s", "-o", path, unstripped], check=True)
        starts = {int(value, 16): name for value, kind, name in
                  (line.split() for line in subprocess.run(["nm", "--defined-only", unstripped], capture_output=True, text=True, check=True).stdout.splitlines())
                  if kind in "tT"}
        with lib.Program("nameless", 40, path=path) as program:
            recording = self.record("-p", program.pid, outputs=("out.folded", "out.pb.gz", "out.otlp"))
        frames = {frame for s in recording.samples for frame in s.frames if frame.startswith("nameless+0x")}
        functions = {frame: starts.get(int(frame.split("+")[1], 16)) for frame in frames}
        self.assertNotIn(None, functions.values(), f"addresses that are no function's start: {functions}")
        self.assertLessEqual({"leaf", "descend", "main"}, set(functions.values()))
        self.assertEqual(len(functions), len(set(functions.values())), functions)

        samples = otlp_decode.read(recording.path("out.otlp"))
        self.assert_none(otlp_decode.differences(otlp_decode.folded(samples), recording.samples), recording)
        locations = [f for s in samples for f in s["stack"] if (f["mapping"] or "").endswith("/nameless")]
        self.assertEqual({f["name"] for f in locations}, {""}, "a backend must look for the symbol of the address")
        leaf = next(name for name, symbol in functions.items() if symbol == "leaf")
        exact = {f["address"] for f in locations if f["generated_name"] == leaf}
        self.assertGreater(len(exact), 1, "one function, several addresses")

        profile = gzip.decompress(read_bytes(recording.path("out.pb.gz")))
        strings = [text.decode() for text in all_of(profile, 6)]
        by_id = {f[1]: strings[f[2]] for f in (dict(fields(function)) for function in all_of(profile, 5))}
        self.assertEqual(sorted(by_id.values()).count(leaf), 1)
        pprof = {f[3] for f in (dict(fields(location)) for location in all_of(profile, 4)) if 4 in f and by_id[dict(fields(f[4]))[1]] == leaf}
        self.assertEqual(pprof, exact)

        done = subprocess.run([lib.BULKHEAD, "report", recording.path("out.otlp"), "-o", recording.path("again.folded")], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(lib.read(recording.path("again.folded")).splitlines()), sorted(lib.read(recording.path("out.folded")).splitlines()))

    def test_speedscope(self):
        file = json.loads(self.bytes_of("out.speedscope.json"))
        self.assertEqual(file["$schema"], "https://www.speedscope.app/file-format-schema.json")
        frames = file["shared"]["frames"]
        stacks = collections.Counter()
        for profile in file["profiles"]:
            self.assertEqual(profile["type"], "sampled")
            self.assertEqual(len(profile["samples"]), len(profile["weights"]))
            self.assertEqual(profile["endValue"] - profile["startValue"], sum(profile["weights"]))
            for stack, weight in zip(profile["samples"], profile["weights"]):
                self.assertTrue(all(0 <= f < len(frames) for f in stack))
                stacks[tuple(frames[f]["name"] for f in stack)] += weight
        # first everything, then the same by thread or process
        everything, *parts = (sum(profile["weights"]) for profile in file["profiles"])
        self.assertTrue(parts)
        self.assertEqual(everything, sum(parts))
        period, rest = divmod(everything, self.exported)
        self.assertEqual(rest, 0, "not a whole period a sample")
        self.assertTrue(period == 1 or abs(period - 1e9 / FREQ) < 1e6 / FREQ, period)
        self.assertTrue(any("leaf1" in stack and stack.index("run1") < stack.index("leaf1") for stack in stacks))

    def test_html(self):
        text = self.bytes_of("out.html").decode()
        self.assertEqual(References(text).outside, [])
        # URLs may occur as text, such as the names of schemas; nothing may fetch them
        for fetching in (r"\bfetch\s*\(", r"XMLHttpRequest", r"WebSocket\s*\(", r"\bimport\s*\(", r"@import", r"url\(\s*['\"]?(?!data:|#)"):
            self.assertIsNone(re.search(fetching, text), fetching)
        data = json.loads(re.search(r'<script type="application/json" id="profile">(.*?)</script>', text, re.S).group(1))
        stack, stacks = [], collections.Counter()
        numbers = iter(packed(zlib.decompress(base64.b64decode(data["samples"]))))
        frame_fields = packed(zlib.decompress(base64.b64decode(data["frames"])))
        names = [data["strings"][n] if isinstance(data["strings"], list) else n for n in frame_fields[::7]]
        for shared in numbers:
            stack[shared:] = [next(numbers) for _ in range(next(numbers))]
            next(numbers)  # the thread
            stacks[tuple(names[f] for f in stack)] += next(numbers)
        self.assertEqual(sum(stacks.values()), self.exported)
        self.assertEqual(data["sample_count"], self.exported)
        self.assertEqual(sum(n for s, n in stacks.items() if s and s[-1] == "leaf1"),
                         sum(s.count for s in self.recording.samples if s.frames and s.frames[0] == "leaf1"))

    def test_every_format_has_the_names(self):
        for name in self.OUTPUTS:
            data = self.bytes_of(name)
            data = gzip.decompress(data) if name.endswith("gz") else data
            if name.endswith("html"):
                strings = json.loads(re.search(rb'id="profile">(.*?)</script>', data, re.S).group(1))["strings"]
                data = "\n".join(strings).encode() if isinstance(strings, list) else zlib.decompress(base64.b64decode(strings))
            for function in (b"leaf0", b"thread1", b"reader_outer", b"worker-1"):
                self.assertIn(function, data, name)

    def test_protoc(self):
        protoc = self.need_tool("protoc", "protoc-c")
        schemas = os.path.join(lib.SOURCE, "schemas")
        for name, message, schema in (
            ("out.otlp", "opentelemetry.proto.collector.profiles.v1development.ExportProfilesServiceRequest",
             "opentelemetry/proto/collector/profiles/v1development/profiles_service.proto"),
            ("out.pb.gz", "perftools.profiles.Profile", "pprof/profile.proto"),
        ):
            data = self.bytes_of(name)
            data = gzip.decompress(data) if name.endswith("gz") else data
            done = subprocess.run([protoc, f"-I{schemas}", f"--decode={message}", schema], input=data, capture_output=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr.decode())
            text = done.stdout.decode(errors="replace")
            # a field that the schema does not know is printed by its number
            self.assertEqual(re.findall(r"^ *\d+[:{ ].*", text, re.M)[:3], [])
            if name == "out.otlp":
                values = re.findall(r"^ +values: (\d+)$", text, re.M) or text.count(" timestamps_unix_nano:") * [1]
            else:
                values = re.findall(r"^sample \{\n(?:  location_id: \d+\n)*  value: (\d+)", text, re.M)
            self.assertEqual(sum(map(int, values)), self.exported)

    def test_go_tool_pprof(self):
        self.need_tool("go")
        done = subprocess.run(["go", "tool", "pprof", "-top", "-nodecount=1000000", "-nodefraction=0", "-edgefraction=0", "-sample_index=0", self.recording.path("out.pb.gz")],
                              capture_output=True, text=True, check=False, env={**os.environ, "PPROF_TMPDIR": self.directory, "HOME": self.directory})
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = re.findall(r"^ *(\d+) +[\d.]+% +[\d.]+% +(\d+) +[\d.]+% +(.*)$", done.stdout, re.M)
        self.assertTrue(rows, done.stdout[:2000])
        # a sample without a frame has no row
        framed = sum(s.count for s in self.recording.samples if s.frames)
        self.assertEqual(sum(int(flat) for flat, _, _ in rows), framed)
        flat = {name.strip(): int(n) for n, _, name in rows}
        mine = sum(s.count for s in self.recording.samples if s.frames and s.frames[0] == "leaf1")
        self.assertEqual(flat.get("leaf1"), mine, list(flat)[:20])

    def report(self, *outputs, group_by="thread"):
        return subprocess.run([lib.BULKHEAD, "report", self.recording.path("out.otlp"), "--group-by", group_by,
                               *[a for o in outputs for a in ("-o", o)]],
                              capture_output=True, check=False, timeout=lib.PATIENCE)

    def test_report_folded(self):
        out = os.path.join(self.directory, "again.folded")
        done = self.report(out)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(out, "rb") as f:
            self.assertEqual(sorted(f.read().splitlines()), sorted(self.bytes_of("out.folded").splitlines()))

    def test_report_groups_by_process_name_or_pid(self):
        roots = {}
        for group_by in ("name", "pid"):
            out = os.path.join(self.directory, f"{group_by}.folded")
            done = self.report(out, group_by=group_by)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(out, encoding="utf-8") as f:
                samples = lib.parse_folded(f.read())
            self.assertEqual(sum(s.count for s in samples), self.exported)
            roots[group_by] = {s.comm for s in samples}
        self.assertIn("threads", roots["name"])
        self.assertNotIn("worker-1", roots["name"], "a thread's name is no process's")
        self.assertIn(f"threads ({self.program.pid})", roots["pid"])

    def test_report_every_format(self):
        outs = [os.path.join(self.directory, "again" + name.removeprefix("out")) for name in self.OUTPUTS]
        for out in outs:
            done = self.report(out)
            self.assertEqual(done.returncode, 0, (out, done.stderr))
        with open(outs[2], "rb") as f:
            self.assertEqual(sum(n for _, n in pprof_samples(gzip.decompress(f.read()))), self.exported)
        with open(outs[4], "rb") as f:
            self.assertEqual(sum(n for _, n in otlp_samples(f.read())), self.exported)

    def test_report_tree(self):
        done = self.report("-")
        self.assertEqual(done.returncode, 0, done.stderr)
        text = done.stdout.decode()
        for name in ("main", "leaf0", "reader_outer"):
            self.assertIn(name, text)
        lines = text.splitlines()
        self.assertGreater(len(lines), 10)
        outer = next(i for i, line in enumerate(lines) if re.search(r"\breader_outer\b", line))
        self.assertRegex(lines[outer + 1], r"\breader\b", "from the outermost down")

    def test_report_refuses(self):
        bad = os.path.join(self.directory, "bad.otlp")
        whole = self.bytes_of("out.otlp")
        for data in (b"not a recording\n", whole[:len(whole) // 2], whole + b"\n", b"\xff" * 4096):
            with open(bad, "wb") as f:
                f.write(data)
            done = subprocess.run([lib.BULKHEAD, "report", bad, "-o", "-"], capture_output=True, text=True, check=False, timeout=lib.PATIENCE)
            self.assertEqual(done.returncode, 1, (data[:20], done.stdout[:200], done.stderr))
            self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        done = subprocess.run([lib.BULKHEAD, "report", os.path.join(self.directory, "none.otlp"), "-o", "-"], capture_output=True, text=True, check=False, timeout=lib.PATIENCE)
        self.assertEqual(done.returncode, 1)
        self.assertIn("none.otlp", done.stderr)

    def test_converter_has_none_of_the_callers_descriptors(self):
        """It waits for its input here, so that it can be looked at."""
        ends = os.pipe()
        command = [os.path.join(lib.BIN, "bulkhead-exporter"), "--convert", "folded", "61184", "name", "no-lines", "inline"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=ends) as converter:
            self.wait_for("the sandbox", lambda: lib.proc_status(converter.pid)["Seccomp"].strip() == "2")
            found = sorted(os.listdir(f"/proc/{converter.pid}/fd"))
        for fd in ends:
            os.close(fd)
        self.assertEqual(found, ["0", "1", "2"])

    def test_stdout_and_format(self):
        """`--format folded -o -`: the format does not follow an extension, and stdout has nothing else."""
        with lib.Burner() as burner:
            done = subprocess.run([lib.BULKHEAD, "record", "-F", "199", "-d", "1", "-p", str(burner.pid), "--format", "folded", "-o", "-"],
                                  capture_output=True, text=True, check=False, timeout=lib.PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        # 199 samples if the program has a CPU for itself, fewer on a busy machine.
        self.assertGreater(sum(s.count for s in lib.parse_folded(done.stdout)), 10)


class Summary(lib.Case):
    """What a recording prints on stderr when it ends."""

    def run_record(self, *args):
        return subprocess.run([lib.BULKHEAD, "record", *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=lib.PATIENCE, cwd=self.directory)

    def test_without_an_output_a_flame_graph_is_written_and_its_path_is_printed(self):
        with lib.Burner():
            done = self.run_record("-d", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        name, = os.listdir(self.directory)
        self.assertRegex(name, r"^bulkhead-.+-[0-9]{8}-[0-9]{6}\.html$")
        self.assertIn(f"wrote {name} (html)", done.stderr)
        self.assertGreater(os.path.getsize(os.path.join(self.directory, name)), 10000)
        self.assertNotIn("few samples", done.stderr)

    def test_processes_of_one_name_are_one_line_unless_grouped_by_pid(self):
        with lib.Burner() as one, lib.Burner() as two:
            self.assertEqual(one.comm, two.comm)
            by_name, by_pid = (self.run_record("-d", "1", "-p", f"{one.pid},{two.pid}", "--group-by", group_by, "-o", f"{group_by}.folded") for group_by in ("name", "pid"))
        for done in by_name, by_pid:
            self.assertEqual(done.returncode, 0, done.stderr)
        lines = [line for line in by_name.stderr.splitlines() if line.split("%")[-1].startswith(f"  {one.comm} (")]
        self.assertEqual(lines, [f"100.0 %  {one.comm} (2 processes)"], by_name.stderr)
        pids = re.findall(rf"^ *[0-9.]+ %  {one.comm} \(pid (\d+)\)$", by_pid.stderr, re.MULTILINE)
        self.assertEqual(sorted(map(int, pids)), sorted([one.pid, two.pid]), by_pid.stderr)

    def test_a_sleeping_process_is_the_reason_for_few_samples(self):
        sleeper = subprocess.Popen(["sleep", "60"])
        self.addCleanup(sleeper.wait)
        self.addCleanup(sleeper.kill)
        done = self.run_record("-d", "1", "-o", "out.folded", "-p", str(sleeper.pid))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"few samples: the selected process used 0\.\d\d s of CPU time .* only running code is sampled")

    def test_a_process_that_ended_is_the_reason_for_few_samples(self):
        sleeper = subprocess.Popen(["sleep", "60"])
        process = self.start("-p", sleeper.pid, seconds=2)
        self.wait_until_recording(process)
        sleeper.kill()
        sleeper.wait()
        self.assertRegex(self.finish(process).stderr, "few samples: the selected process ended")

    def test_an_empty_cgroup_is_the_reason_for_few_samples(self):
        mounts = [line.split() for line in lib.read("/proc/mounts").splitlines()]
        mount = next((fields[1] for fields in mounts if fields[2] == "cgroup2"), None)
        if not mount:
            self.skip("no cgroup v2 is mounted")
        group = os.path.join(mount, f"bulkhead-test-{os.getpid()}")
        try:
            os.mkdir(group)
        except OSError as error:
            self.skip(f"{group} cannot be made: {error.strerror}")
        self.addCleanup(os.rmdir, group)
        done = self.run_record("-d", "1", "-o", "out.folded", "-G", group)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("few samples: the selected cgroup has no process", done.stderr)


class Owner(lib.Case):
    USER = 65534

    def write_all(self, prefix, environment):
        """The outputs of one recording and of its conversion."""
        paths = {what: os.path.join(self.directory, f"{prefix}.{what}") for what in ("otlp", "html", "json", "folded")}
        clean = {key: value for key, value in os.environ.items() if not key.startswith("SUDO_")}
        for arguments in (("record", "-d", "1", "-o", paths["otlp"], "-o", paths["html"], "--stats", paths["json"]),
                          ("report", paths["otlp"], "-o", paths["folded"])):
            done = subprocess.run([lib.BULKHEAD, *arguments], env={**clean, **environment}, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                                  timeout=lib.PATIENCE)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn("owner", done.stderr)
        return list(paths.values())

    def readable(self, path):
        """Whether an ordinary user may read the file."""
        return subprocess.run(["head", "-c", "1", path], user=self.USER, group=self.USER, extra_groups=[], capture_output=True, check=False).returncode == 0

    def test_only_the_user_who_ran_it_may_read_outputs(self):
        os.chmod(self.directory, 0o755)
        for environment, uid in (({}, 0), ({"SUDO_UID": str(self.USER), "SUDO_GID": str(self.USER)}, self.USER)):
            for path in self.write_all(f"of-{uid}", environment):
                with self.subTest(path=path):
                    status = os.stat(path)
                    self.assertEqual((status.st_mode & 0o7777, status.st_uid, status.st_gid), (0o600, uid, uid))
                    self.assertEqual(self.readable(path), uid == self.USER)

    def test_an_older_file_keeps_its_mode_and_owner(self):
        path = os.path.join(self.directory, "of-0.otlp")
        with open(path, "xb") as file:
            file.write(b"x" * (16 << 20))
        os.chmod(path, 0o644)
        self.write_all("of-0", {"SUDO_UID": str(self.USER), "SUDO_GID": str(self.USER)})
        status = os.stat(path)
        self.assertEqual((status.st_mode & 0o7777, status.st_uid), (0o644, 0))
        self.assertLess(status.st_size, 16 << 20, "what was in it is gone")


if __name__ == "__main__":
    lib.main()
