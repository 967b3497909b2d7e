# SPDX-License-Identifier: Apache-2.0
"""Lifecycle: roles that die are replaced, or all end and nothing is left; Ctrl-C completes the recording; no progress line is written to a pipe."""
import contextlib
import glob
import gzip
import json
import os
import pty
import select
import signal
import subprocess
import time

import lib

FOLLOW_SECONDS = 3  # roles end within one second on an idle machine; this leaves time for a busy one
STOPPED_SECONDS = 2  # longer than the recording of one second
SAYS_READY_SECONDS = 0.02  # a loader needs less for that, and is told to start later
ATTEMPTS = 20
SHARED_PLACES = ("/run", "/tmp", "/var/tmp", "/dev/shm")


def files_of(uids, since):
    """Paths in directories that everybody may use, owned by one of `uids` and changed at or after `since` (seconds of the epoch)."""
    found = set()
    for place in SHARED_PLACES:
        for top, directories, files in os.walk(place):
            for name in directories + files:
                path = os.path.join(top, name)
                try:
                    status = os.lstat(path)
                except OSError:
                    continue
                if status.st_uid in uids and status.st_ctime >= since:
                    found.add(path)
            if top.count("/") - place.count("/") >= 3:
                directories.clear()
    return found


def program_exists(number):
    """Whether the kernel still has the BPF program with this id. True if bpftool is missing, because then it is not known."""
    for tool in ("/usr/sbin/bpftool", "/sbin/bpftool", "/usr/bin/bpftool"):
        if os.path.exists(tool):
            return subprocess.run([tool, "prog", "show", "id", str(number)], capture_output=True, check=False).returncode == 0
    return False


class Left(lib.Case):
    """Checks that everything which its recordings created is gone: processes, BPF programs, the run directory, files.

    It looks at nothing else on the machine: other recordings, mounts and files may appear and disappear at the same time.
    """

    def setUp(self):
        super().setUp()
        self.since = int(time.time())
        self.clis, self.uids, self.programs = set(), set(), set()
        self.tmp = os.path.join(self.directory, "tmp")
        os.mkdir(self.tmp, 0o1777)
        os.chmod(self.tmp, 0o1777)

    def start(self, *args, **kwargs):
        process = super().start(*args, env={**os.environ, "TMPDIR": self.tmp}, **kwargs)
        self.clis.add(process.pid)
        return process

    def wait_until_recording(self, process):
        roles = super().wait_until_recording(process)
        self.programs |= lib.bpf_ids(roles["loader"], "prog")
        self.assertTrue(self.programs, "the loader holds no BPF program")
        for pid in roles.values():
            self.uids.add(int(lib.proc_status(pid)["Uid"].split()[0]))
        return roles

    def run_directories(self):
        return [path for cli in self.clis for path in glob.glob(f"/run/bulkhead-{cli}-*")]

    def assert_nothing_left(self, pids=(), since=None):
        since = since or time.monotonic()
        while alive := {p: v for p, v in lib.bulkhead_processes().items() if not pids or p in pids}:
            self.assertLess(time.monotonic() - since, FOLLOW_SECONDS, f"still alive: {alive}")
            time.sleep(0.02)
        took = time.monotonic() - since
        self.wait_for("programs unloaded", lambda: not any(map(program_exists, self.programs)), 10)
        self.assertEqual(self.run_directories(), [])
        self.assertEqual(os.listdir(self.tmp), [])
        self.assertEqual(files_of(self.uids, self.since), set())
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
        """It has the programs and the counters."""
        self.kill("loader")

    def test_exporter(self):
        """It has the profile."""
        self.kill("exporter")

    def test_cli_killed_while_starting(self):
        for delay in (0.01, 0.05, 0.15, 0.4, 0.8):
            process = self.start(seconds=60, freq=199)
            time.sleep(delay)
            process.kill()
            process.wait()
            self.assert_nothing_left()

    def test_cli_killed_with_a_command(self):
        """The command belongs to the user and may continue to run, but every role ends."""
        process = self.start(seconds=None, freq=199, command=["sleep", "30"])
        roles = self.wait_until_recording(process)
        os.kill(process.pid, signal.SIGKILL)
        try:
            process.wait(FOLLOW_SECONDS)
            self.assert_nothing_left({process.pid, *roles.values()})
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # the command


class Replaced(Left):
    """The recording goes on without the role, and with the next one."""

    def wait_for_another(self, process, role, pid):
        def other():
            now = lib.roles_of(process.pid).get(role)
            return now if now != pid else None
        self.wait_for(f"another {role}", other, 3 * lib.PATIENCE)

    def end(self, process, program, role, consequence):
        """Ends a recording in which the role was replaced."""
        self.give_cpu_time(2, process)
        process.send_signal(signal.SIGINT)
        recording = self.finish(process)
        self.assert_nothing_left()
        self.assert_accounted(recording)
        self.assertIn(f"{consequence}: role={lib.ROLES[role]}", recording.stderr)
        # What was sampled just before a manager ended has modules that only that one knew.
        self.assert_stacks(recording, recording.of("steps"), program.expectation, 0.95 if role == "manager" else 0.98, 300)
        lost = {reason: count for reason, count in recording.stats["lost"].items() if count}
        print(f"{role}: {recording.stats['taken']} samples, lost {lost}", flush=True)
        # What the role held, and what refers to stacks that only it knew.
        self.assertLessEqual(lost.keys(), {"role_ended", "stack_undefined"})

    def kill(self, role):
        with lib.Program("steps", seconds=600) as program:
            process = self.start(seconds=None, freq=199)
            pid = self.wait_until_recording(process)[role]
            self.give_cpu_time(1, process)
            os.kill(pid, signal.SIGKILL)
            self.wait_for_another(process, role, pid)
            self.end(process, program, role, "a role was killed; it is restarted")

    def test_manager(self):
        self.kill("manager")

    def test_opener(self):
        self.kill("opener")

    def test_worker(self):
        self.kill("worker")

    def test_worker_that_hangs(self):
        with lib.Program("steps", seconds=600) as program:
            process = self.start(seconds=None, freq=199)
            pid = self.wait_until_recording(process)["worker"]
            os.kill(pid, signal.SIGSTOP)
            self.wait_for_another(process, "worker", pid)
            self.end(process, program, "worker", "a role did not answer in time; it is killed and restarted")

    def test_all_that_stand_still_for_long(self):
        """As after Ctrl-Z and `fg`: none of them hangs."""
        with lib.Program("steps", seconds=600):
            process = self.start(seconds=None, freq=199)
            roles = self.wait_until_recording(process)
            for pid in (process.pid, *roles.values()):
                os.kill(pid, signal.SIGSTOP)
            time.sleep(15)  # longer than roles may be silent, and than one tick may be late
            for pid in (*roles.values(), process.pid):
                os.kill(pid, signal.SIGCONT)
            self.give_cpu_time(1, process)
            self.assertEqual(lib.roles_of(process.pid), roles)
            process.send_signal(signal.SIGINT)
            self.assert_accounted(self.finish(process))


class Interrupt(Left):
    OUTPUTS = ("out.folded", "out.html", "out.pb.gz", "out.speedscope.json", "out.otlp")

    def interrupt(self, number, send, status=0):
        with lib.Program("steps") as program:
            process = self.start(seconds=60, freq=199, outputs=self.OUTPUTS)
            self.wait_until_recording(process)
            self.give_cpu_time(1, process)
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
        """SIGINT is sent to the whole foreground process group, as a terminal does."""
        self.interrupt(signal.SIGINT, os.killpg)

    def test_ctrl_c_before_sampling_says_that_nothing_was_recorded(self):
        process = self.start(seconds=60, freq=199)
        self.wait_for("a run directory", self.run_directories)
        os.kill(process.pid, signal.SIGINT)
        recording = self.finish(process, status=1)
        self.assertIn(lib.INTERRUPTED, recording.stderr)
        self.assertFalse(os.path.exists(recording.path("out.folded")))
        self.assert_nothing_left()

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

    def test_repeated_recordings(self):
        for _ in range(3):
            self.record(seconds=1, freq=99)
        self.assert_nothing_left()


class Duration(lib.Case):
    def test_time_counts_from_the_first_tick(self):
        """A loader that is slow to start, here because it is stopped, does not shorten the time for which is recorded."""
        with lib.Burner() as burner:
            for _ in range(ATTEMPTS):
                process = self.start("-p", burner.pid, seconds=1, freq=99)
                self.wait_for("a loader in its sandbox", lambda: lib.sandboxed(lib.roles_of(process.pid).get("loader", 0)))
                loader = lib.roles_of(process.pid)["loader"]
                time.sleep(SAYS_READY_SECONDS)
                os.kill(loader, signal.SIGSTOP)
                is_early = not lib.sampling(process.pid)
                time.sleep(STOPPED_SECONDS)
                os.kill(loader, signal.SIGCONT)
                recording = self.finish(process)
                if is_early:
                    break
        self.assertTrue(is_early, "the loader was always stopped too late")
        self.assertGreaterEqual(recording.stats["duration_ns"], 1e9)
        self.assertGreater(sum(s.count for s in recording.samples), 20, recording.describe())


class Progress(lib.Case):
    def test_no_progress_line_in_a_pipe(self):
        with lib.Burner() as burner:
            recording = self.record("-p", burner.pid, seconds=3, freq=99)
        for text in (recording.stdout, recording.stderr):
            self.assertNotIn("\r", text)
            self.assertNotIn("\x1b", text)
        self.assertIn("leaf", recording.stdout + recording.stderr, "no summary")

    def test_progress_line_on_a_terminal(self):
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
        # a terminal turns \n into \r\n, so only a \r without \n or an escape moves the cursor back
        updates = seen.replace(b"\r\n", b"\n").count(b"\r") + seen.count(b"\x1b[")
        self.assertGreaterEqual(updates, 2, seen[-500:])


if __name__ == "__main__":
    lib.main()
