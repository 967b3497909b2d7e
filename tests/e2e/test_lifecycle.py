# SPDX-License-Identifier: Apache-2.0
"""Lifecycle: whoever dies, the others follow and nothing stays; Ctrl-C finishes; a pipe sees no progress line."""
import contextlib
import gzip
import json
import os
import pty
import select
import signal
import subprocess
import time

import lib

FOLLOW_SECONDS = 3  # the design says one; a busy machine has two processors for everybody
PLACES = ("/run", "/tmp", "/var/tmp", "/dev/shm", "/sys/fs/bpf")


def things(directory):
    """What could have been left behind: paths with our name, or of a user in systemd's dynamic range or named bulkhead-*."""
    found = set()
    for place in PLACES:
        for top, directories, files in os.walk(place):
            if top.startswith(directory) or "/e2e-" in top or "bulkhead-flamegraph-" in top:
                continue
            for name in directories + files:
                path = os.path.join(top, name)
                try:
                    uid = os.lstat(path).st_uid
                except OSError:
                    continue
                # a build tree in /tmp is full of our name: only what lies at the top, or in a directory of ours
                ours = "bulkhead" in name.lower() and not name.startswith("bulkhead-flamegraph-") and top in (place, "/run/bulkhead") or place == "/sys/fs/bpf"
                if ours or 61184 <= uid <= 65519:
                    found.add(path)
            if top.count("/") - place.count("/") >= 3:
                directories.clear()
    return found


def bpf_programs():
    """Ids of loaded programs whose name looks like ours; empty without bpftool."""
    for tool in ("/usr/sbin/bpftool", "/sbin/bpftool", "/usr/bin/bpftool"):
        if os.path.exists(tool):
            done = subprocess.run([tool, "-j", "prog", "list"], capture_output=True, text=True, check=False)
            return {p["id"] for p in json.loads(done.stdout or "[]") if p.get("type") == "perf_event"} if not done.returncode else set()
    return set()


class Left(lib.Case):
    def setUp(self):
        super().setUp()
        self.assertEqual(lib.bulkhead_processes(), {}, "another bulkhead is running")
        self.before = things(self.directory)
        self.programs_before = bpf_programs()

    def assert_nothing_left(self, pids=(), since=None):
        since = since or time.monotonic()
        while alive := {p: v for p, v in lib.bulkhead_processes().items() if not pids or p in pids}:
            self.assertLess(time.monotonic() - since, FOLLOW_SECONDS, f"still alive: {alive}")
            time.sleep(0.02)
        took = time.monotonic() - since
        self.wait_for("programs unloaded", lambda: not bpf_programs() - self.programs_before, 10)
        self.assertEqual(things(self.directory) - self.before, set())
        return took


class Death(Left):
    def kill(self, who):
        with lib.Burner():
            process = self.start(seconds=60, freq=199, outputs=("out.folded", "out.otlp"))
            roles = self.wait_until_recording(process)
            os.kill(process.pid if who == "cli" else roles[who], signal.SIGKILL)
            since = time.monotonic()
            if who == "cli":
                process.wait(FOLLOW_SECONDS)
            took = self.assert_nothing_left({process.pid, *roles.values()}, since)
        recording = self.finish(process, status=None)
        print(f"{who} killed: the others ended after {took:.2f} s, status {recording.status}")
        if who != "cli":
            self.assertEqual(recording.status, 1, recording.describe())
            self.assertTrue(recording.stderr.strip(), "not a word about it")

    def test_cli(self):
        self.kill("cli")

    def test_loader(self):
        self.kill("loader")

    def test_manager(self):
        self.kill("manager")

    def test_opener(self):
        self.kill("opener")

    def test_worker(self):
        self.kill("worker")

    def test_exporter(self):
        self.kill("exporter")

    def test_cli_killed_while_starting(self):
        for delay in (0.01, 0.05, 0.15, 0.4, 0.8):
            process = self.start(seconds=60, freq=199)
            time.sleep(delay)
            process.kill()
            process.wait()
            self.assert_nothing_left()

    def test_cli_killed_with_a_command(self):
        """The command is the user's: whether it goes on is for the shell's rules, but no role does."""
        process = self.start(seconds=None, freq=199, command=["sleep", "30"])
        roles = self.wait_until_recording(process)
        os.kill(process.pid, signal.SIGKILL)
        try:
            process.wait(FOLLOW_SECONDS)
            self.assert_nothing_left({process.pid, *roles.values()})
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # the command


class Interrupt(Left):
    OUTPUTS = ("out.folded", "out.html", "out.pb.gz", "out.speedscope.json", "out.otlp")

    def interrupt(self, number, send, status=0):
        with lib.Program("steps") as program:
            process = self.start(seconds=60, freq=199, outputs=self.OUTPUTS)
            self.wait_until_recording(process)
            time.sleep(1)
            send(process.pid, number)
            recording = self.finish(process, status)
        self.assert_nothing_left()
        self.assert_accounted(recording)
        self.assert_stacks(recording, recording.of("steps"), program.expectation, 0.98, 150)
        for name in self.OUTPUTS:
            self.assertGreater(os.path.getsize(recording.path(name)), 10, name)
        with open(recording.path("out.speedscope.json"), encoding="utf-8") as f:
            json.load(f)
        with gzip.open(recording.path("out.pb.gz")) as f:
            f.read()
        self.assertLess(recording.stats["duration_ns"], 30e9)

    def test_ctrl_c(self):
        """As a terminal sends it: to everybody in the foreground."""
        self.interrupt(signal.SIGINT, os.killpg)

    def test_sigint_to_the_cli_alone(self):
        self.interrupt(signal.SIGINT, os.kill)

    def test_sigterm(self):
        self.interrupt(signal.SIGTERM, os.kill, status=None)

    def test_without_duration(self):
        with lib.Burner():
            process = self.start(seconds=None, freq=99)
            self.wait_until_recording(process)
            os.killpg(process.pid, signal.SIGINT)
            self.assert_accounted(self.finish(process))

    def test_normal_end(self):
        self.record(seconds=1)
        self.assert_nothing_left()

    def test_again_and_again(self):
        for _ in range(3):
            self.record(seconds=1, freq=99)
        self.assert_nothing_left()


class Progress(lib.Case):
    def test_quiet_in_a_pipe(self):
        with lib.Burner() as burner:
            recording = self.record("-p", burner.pid, seconds=3, freq=99)
        for text in (recording.stdout, recording.stderr):
            self.assertNotIn("\r", text)
            self.assertNotIn("\x1b", text)
        self.assertIn("leaf", recording.stdout + recording.stderr, "no summary")

    def test_alive_on_a_terminal(self):
        with lib.Burner() as burner:
            ours, theirs = pty.openpty()
            process = self.start("-p", burner.pid, seconds=3, freq=99, stdout=theirs, stderr=theirs)
            os.close(theirs)
            seen = b""
            end = time.monotonic() + lib.PATIENCE
            while time.monotonic() < end and select.select([ours], [], [], lib.PATIENCE)[0]:
                try:
                    chunk = os.read(ours, 65536)
                except OSError:
                    break
                if not chunk:
                    break
                seen += chunk
            self.finish(process)
            os.close(ours)
        # a terminal turns \n into \r\n: a bare \r or an escape is what moves back
        updates = seen.replace(b"\r\n", b"\n").count(b"\r") + seen.count(b"\x1b[")
        self.assertGreaterEqual(updates, 2, seen[-500:])


if __name__ == "__main__":
    lib.main()
