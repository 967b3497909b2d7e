# SPDX-License-Identifier: Apache-2.0
"""Refusals: before any work is done, one line names the cause and the remedy, and the exit status is the documented one."""
import contextlib
import os
import re
import shutil
import signal
import subprocess
import time

import lib

UNPRIVILEGED = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
# the values that count as too high in Debian's kernels and in upstream's
PARANOID = "/proc/sys/kernel/perf_event_paranoid"


class Refusals(lib.Case):
    def setUp(self):
        super().setUp()
        os.chmod(self.directory, 0o777)
        self.marker = os.path.join(self.directory, "a role was started")
        self.bin = os.path.join(self.directory, "bin")
        os.mkdir(self.bin)
        # A copy of the real CLI next to roles that only record that they were started. With a link it would find the real roles.
        shutil.copy2(lib.BULKHEAD, self.bin)
        for executable in lib.EXECUTABLES:
            path = os.path.join(self.bin, executable)
            with open(path, "w", encoding="ascii") as f:
                f.write(f"#!/bin/sh\n: > '{self.marker}'\nexit 1\n")
            os.chmod(path, 0o755)

    def run_bulkhead(self, *args, wrapper=(), real=False, timeout=lib.PATIENCE):
        cli = lib.BULKHEAD if real else os.path.join(self.bin, "bulkhead")
        return subprocess.run([*wrapper, cli, *map(str, args)], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=timeout, cwd=self.directory)

    def assert_refused(self, done, status, *words, files=()):
        said = f"status {done.returncode}\nstdout {done.stdout!r}\nstderr {done.stderr!r}"
        self.assertEqual(done.returncode, status, said)
        lines = done.stderr.strip().splitlines()
        self.assertEqual(len(lines), 1, said)
        self.assertEqual(done.stdout, "", said)
        for word in words:
            self.assertRegex(lines[0], re.compile(word, re.I), said)
        self.assertFalse(os.path.exists(self.marker), "a role was started before the refusal")
        for name in files:
            self.assertFalse(os.path.exists(os.path.join(self.directory, name)), f"{name} was written")
        self.assertEqual(lib.bulkhead_processes(self.bin), {})

    def test_start_of_a_role_is_noticed(self):
        """The replaced roles record that they were started. The other tests rely on this."""
        self.run_bulkhead("record", "-d", "1", "-o", "out.folded")
        self.assertTrue(os.path.exists(self.marker), "bulkhead did not start the role next to it")

    # wrong usage: 2

    def test_unknown_option(self):
        self.assert_refused(self.run_bulkhead("record", "--frobnicate", "-o", "out.folded"), 2, "frobnicate", files=["out.folded"])

    def test_unknown_short_option(self):
        self.assert_refused(self.run_bulkhead("record", "-y", "-o", "out.folded"), 2, "y")

    def test_unknown_command(self):
        self.assert_refused(self.run_bulkhead("rekord", "-o", "out.folded"), 2, "rekord")

    def test_missing_value(self):
        self.assert_refused(self.run_bulkhead("record", "-o", "out.folded", "-F"), 2, "-F|freq")

    def test_bad_numbers(self):
        for option, value in (("-F", "0"), ("-F", "x"), ("-F", "-5"), ("-F", "99x"), ("-F", "1000000000"), ("-F", ""), ("-d", "0"), ("-d", "10q"), ("-d", "-1"),
                              ("-d", "99999999999999999999"), ("-p", "x"), ("-p", "0"), ("-p", "-1"), ("-p", "99999999999999"), ("-t", "x")):
            with self.subTest(f"{option} {value!r}"):
                self.assert_refused(self.run_bulkhead("record", "-d", "1", "-o", "out.folded", option, value), 2, re.escape(option) + "|freq|duration|pid|tid|process|thread", files=["out.folded"])

    def test_unknown_format(self):
        self.assert_refused(self.run_bulkhead("record", "-d", "1", "-o", "out.folded", "--format", "jpeg"), 2, "jpeg")

    def test_extension_without_a_format(self):
        self.assert_refused(self.run_bulkhead("record", "-d", "1", "-o", "out.jpeg"), 2, "jpeg", files=["out.jpeg"])

    def test_user_and_kernel_only(self):
        self.assert_refused(self.run_bulkhead("record", "-d", "1", "-o", "out.folded", "-U", "-K"), 2, "-U|-K|user|kernel", files=["out.folded"])

    # failed: 1

    def test_no_such_pid(self):
        pid = 4194303  # the highest there can be
        while os.path.exists(f"/proc/{pid}"):
            pid -= 1
        self.assert_refused(self.run_bulkhead("record", "-d", "1", "-o", "out.folded", "-p", pid), 1, str(pid), files=["out.folded"])

    def test_output_in_a_missing_directory(self):
        self.assert_refused(self.run_bulkhead("record", "-d", "1", "-o", "no/such/out.folded"), 1, "no/such/out.folded")

    def test_output_is_a_directory(self):
        os.mkdir(os.path.join(self.directory, "d.folded"))
        self.assert_refused(self.run_bulkhead("record", "-d", "1", "-o", "d.folded"), 1, "d.folded")

    def test_second_output_cannot_be_written(self):
        self.assert_refused(self.run_bulkhead("record", "-d", "1", "-o", "out.folded", "-o", "no/such/out.html"), 1, "no/such/out.html")

    def test_stats_cannot_be_written(self):
        self.assert_refused(self.run_bulkhead("record", "-d", "1", "-o", "out.folded", "--stats", "no/such/stats.json"), 1, "no/such/stats.json")

    def test_no_such_cgroup(self):
        self.assert_refused(self.run_bulkhead("record", "-d", "1", "-o", "out.folded", "-G", "/no/such/group"), 1, "group")

    def test_output_that_fills_up(self):
        """Writing to /dev/full fails, which is reported at the end of the recording."""
        with lib.Burner():  # on an idle machine there might be no sample to write
            done = self.run_bulkhead("record", "-F", "99", "-d", "1", "--format", "folded", "-o", "/dev/full", real=True)
        self.assertIn(done.returncode, (1, 5), done.stderr)
        self.assertRegex(done.stderr, re.compile("/dev/full|no space|write", re.I))
        self.assertEqual(lib.bulkhead_processes(), {})

    # not permitted: 4

    def test_not_root(self):
        shutil.chown(self.directory, 65534, 65534)
        self.assert_refused(self.run_bulkhead("record", "-d", "1", "-o", "out.folded", wrapper=UNPRIVILEGED), 4, "root|capabilit|CAP_|sudo")

    def test_usage_comes_before_permission(self):
        self.assert_refused(self.run_bulkhead("record", "--frobnicate", wrapper=UNPRIVILEGED), 2, "frobnicate")

    def test_help_needs_nothing(self):
        for args in (["--help"], ["record", "--help"], ["report", "--help"], ["run", "--help"], ["status", "--help"], ["--version"]):
            done = self.run_bulkhead(*args, wrapper=UNPRIVILEGED)
            self.assertEqual((done.returncode, done.stderr), (0, ""), args)
            self.assertTrue(done.stdout.strip())
        for flag in ("-F", "-d", "-p", "-t", "-o", "-G", "--comm", "-U", "-K", "--stats", "--group-by"):
            self.assertIn(flag, self.run_bulkhead("record", "--help").stdout)

    def without(self, *capabilities):
        drop = ",".join("-" + c for c in capabilities)
        wrapper = ["setpriv", "--bounding-set", drop, "--inh-caps", drop]
        probe = subprocess.run([*wrapper, "true"], capture_output=True, text=True, check=False)
        if probe.returncode:
            self.skip("setpriv cannot drop " + ", ".join(capabilities) + ": " + probe.stderr.strip())
        return self.run_bulkhead("record", "-F", "99", "-d", "1", "-o", "out.folded", wrapper=wrapper, real=True)

    def assert_said_once(self, done, status, pattern):
        said = f"status {done.returncode}\nstderr {done.stderr!r}"
        self.assertEqual(done.returncode, status, said)
        self.assertRegex(done.stderr, re.compile(pattern, re.I), said)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, said)
        self.assertEqual(lib.bulkhead_processes(), {})

    def test_no_cap_bpf(self):
        self.assert_said_once(self.without("bpf", "sys_admin"), 4, "CAP_BPF")

    def test_no_cap_perfmon(self):
        self.assert_said_once(self.without("perfmon", "sys_admin"), 4, "CAP_PERFMON")

    def test_no_cap_sys_ptrace(self):
        self.assert_said_once(self.without("sys_ptrace"), 4, "CAP_SYS_PTRACE")

    def test_no_cap_setuid(self):
        self.assert_said_once(self.without("setuid"), 4, "CAP_SETUID|root")

    def test_perf_event_paranoid(self):
        """In kernels that have a value above 2 (Debian's), CAP_SYS_ADMIN is needed even with CAP_PERFMON."""
        before = lib.read(PARANOID)
        try:
            try:
                with open(PARANOID, "w", encoding="ascii") as f:
                    f.write("3")
            except OSError as error:
                self.skip(f"{PARANOID} cannot be set to 3: {error.strerror}")
            probe = subprocess.run(["setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin", "/usr/bin/python3", "-c", """
import ctypes, struct, sys
attr = struct.pack("=IIQ", 1, 112, 0) + bytes(96)
fd = ctypes.CDLL(None, use_errno=True).syscall(298, attr, -1, 0, -1, 0)
sys.exit(0 if fd >= 0 else 10 + (ctypes.get_errno() == 13))"""], check=False).returncode
            if probe == 0:
                self.skip("this kernel lets CAP_PERFMON pass whatever perf_event_paranoid says")
            self.assert_said_once(self.without("sys_admin"), 4, "perf_event_paranoid")
        finally:
            with open(PARANOID, "w", encoding="ascii") as f:
                f.write(before)

    def test_lockdown(self):
        state = lib.read("/sys/kernel/security/lockdown")
        version = tuple(map(int, os.uname().release.split("-")[0].split(".")[:2]))
        if not state or "[confidentiality]" not in state or version >= (5, 15):
            self.skip("only kernels before 5.15 at lockdown=confidentiality refuse, and that mode cannot be left again: tried in qemu")
        self.assert_said_once(self.run_bulkhead("record", "-d", "1", "-o", "out.folded", real=True), 4, "lockdown")

    # the kernel lacks a feature: 3

    def test_no_btf(self):
        """/sys/kernel/btf and every file that libbpf would read instead are hidden."""
        script = 'mount -t tmpfs none /sys/kernel/btf && { [ ! -d /boot ] || mount -t tmpfs none /boot; } && { [ ! -d /lib/modules ] || mount -t tmpfs none /lib/modules; } && exec "$@"'
        wrapper = ["unshare", "--mount", "sh", "-c", script, "sh"]
        if subprocess.run([*wrapper, "true"], capture_output=True, check=False).returncode:
            self.skip("mounts over /sys/kernel/btf are not allowed here")
        self.assert_said_once(self.run_bulkhead("record", "-F", "99", "-d", "1", "-o", "out.folded", wrapper=wrapper, real=True), 3, "BTF")

    def test_roles_are_missing(self):
        """An incomplete installation is reported, and nothing hangs."""
        for executable in lib.EXECUTABLES:
            if os.path.exists(os.path.join(self.bin, executable)):
                os.unlink(os.path.join(self.bin, executable))
        done = self.run_bulkhead("record", "-d", "1", "-o", "out.folded")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"bulkhead-(loader|opener|symbolizer|exporter|unwinder-mgr)")

    def test_target_ends_while_recorded(self):
        """This is not refused: the recording is written, whether it ends with the target or later."""
        with lib.Burner() as program:
            process = self.start("-p", program.pid, seconds=60, freq=99)
            self.give_cpu_time(1, process)
        time.sleep(0.5)  # the recording goes on without its target
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)
        recording = self.finish(process)
        self.assert_accounted(recording)
        self.assertTrue(recording.samples)

    def test_signals_while_starting(self):
        """Ctrl-C while the roles start ends the recording without a crash."""
        for delay in (0.02, 0.1, 0.3):
            process = self.start(seconds=20, freq=99)
            with self.subTest(delay):
                try:
                    process.wait(delay)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGINT)
                recording = self.finish(process, status=None)
                self.assertIn(recording.status, (0, 1, -signal.SIGINT, 128 + signal.SIGINT), recording.describe())
                self.assertEqual(lib.bulkhead_processes(), {})


if __name__ == "__main__":
    lib.main()
