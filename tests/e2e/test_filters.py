# SPDX-License-Identifier: Apache-2.0
"""Filters: the recording contains only what was selected. Also: the exit status of a recorded command."""
import os
import signal
import subprocess

import lib


def cgroup2_mount():
    for line in lib.read("/proc/mounts").splitlines():
        if line.split()[2] == "cgroup2":
            return line.split()[1]
    return None


class Filters(lib.Case):
    def assert_only(self, recording, comms, least_samples=200):
        others = [s for s in recording.samples if s.comm not in comms]
        self.assertEqual(others, [], recording.describe())
        for comm in comms:
            self.assertGreaterEqual(sum(s.count for s in recording.of(comm)), least_samples, f"{comm}\n{recording.describe()}")
        self.assert_accounted(recording)

    def test_pid(self):
        with lib.Burner(), lib.Program("threads", 3) as program:
            recording = self.record("-p", program.pid)
        self.assert_only(recording, ["worker-0", "worker-1", "worker-2"])

    def test_pid_long_option(self):
        with lib.Burner(), lib.Program("steps") as program:
            recording = self.record("--pid", program.pid)
        self.assert_only(recording, ["steps"])

    def test_tid(self):
        with lib.Burner(), lib.Program("threads", 2) as program:
            recording = self.record("-t", program.tids["worker-1"])
        self.assert_only(recording, ["worker-1"])

    def test_comm(self):
        with lib.Burner(), lib.Program("steps"):
            recording = self.record("--comm", "steps")
        self.assert_only(recording, ["steps"])

    def test_cgroup(self):
        mount = cgroup2_mount()
        if not mount:
            self.skip("no cgroup v2 hierarchy is mounted")
        group = os.path.join(mount, f"e2e-{os.getpid()}")
        try:
            os.mkdir(group)
        except OSError as error:
            self.skip(f"no cgroup can be made in {mount}: {error.strerror}")
        try:
            with lib.Burner(), lib.Program("steps") as inside:
                with open(os.path.join(group, "cgroup.procs"), "w", encoding="ascii") as f:
                    f.write(str(inside.pid))
                recording = self.record("-G", group)
        finally:
            self.remove_cgroup(group)
        self.assert_only(recording, ["steps"])

    def test_user_only(self):
        with lib.Program("syscalls") as program:
            recording = self.record("-U", "-p", program.pid)
        self.assertEqual([f for s in recording.samples for f in s.frames if f.endswith("_[k]")], [], recording.describe())
        self.assert_only(recording, ["syscalls"], 20)

    def test_kernel_only(self):
        with lib.Program("syscalls") as program:
            recording = self.record("-K", "-p", program.pid)
        self.assertEqual([f for s in recording.samples for f in s.frames if not f.endswith("_[k]")], [], recording.describe())
        self.assert_only(recording, ["syscalls"])

    def test_samples_without_frames_are_not_lost(self):
        """Such a record looked like a reference to a stack that was sent before."""
        with lib.Burner() as program:
            recording = self.record("-K", "-p", program.pid)
        self.assertEqual(recording.stats["lost"]["stack_undefined"], 0, recording.describe())
        without = sum(s.count for s in recording.samples if not s.frames)
        self.assertGreater(without, 0.9 * sum(s.count for s in recording.samples), recording.describe())

    def test_both_by_default(self):
        with lib.Program("syscalls") as program:
            recording = self.record("-p", program.pid)
        both = sum(s.count for s in recording.samples if s.frames[0].endswith("_[k]") and s.frames[-1] == "_start")
        self.assertGreater(both, 0.3 * sum(s.count for s in recording.samples), recording.describe())

    def test_filters_together(self):
        with lib.Program("threads", 2) as program, lib.Program("steps"):
            recording = self.record("-p", program.pid, "--comm", "worker-0")
        self.assert_only(recording, ["worker-0"])


class Command(lib.Case):
    def test_status_is_passed_on(self):
        for script, status in (("exit 7", 7), ("exit 0", 0), ("exit 255", 255)):
            recording = self.record(seconds=None, status=None, command=["sh", "-c", script])
            self.assertEqual(recording.status, status, recording.describe())
            self.assert_accounted(recording)

    def test_status_of_a_killed_command(self):
        recording = self.record(seconds=None, status=None, command=["sh", "-c", "kill -TERM $$"])
        self.assertIn(recording.status, (128 + signal.SIGTERM, -signal.SIGTERM), recording.describe())

    def test_command_that_does_not_exist(self):
        recording = self.record(seconds=None, status=None, command=["/nonexistent/program"])
        self.assertIn(recording.status, (1, 2, 127), recording.describe())
        self.assertIn("/nonexistent/program", recording.stderr)
        self.assertEqual(lib.bulkhead_processes(), {})

    def test_output_of_the_command_is_not_changed(self):
        recording = self.record(seconds=None, command=["sh", "-c", "echo to stdout"])
        self.assertEqual(recording.stdout.splitlines()[:1], ["to stdout"], recording.describe())

    def test_command_runs_with_the_identity_of_the_caller(self):
        """The command runs with the identity of the caller, not with what the profiler dropped or acquired."""
        script = "grep -E 'Uid|CapEff|NoNewPrivs|Seccomp:|SigBlk|SigIgn' /proc/self/status; ls -l /proc/self/fd | wc -l"
        outside = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL, start_new_session=True, restore_signals=True).stdout
        recording = self.record(seconds=None, command=["sh", "-c", script])
        self.assertTrue(recording.stdout.startswith(outside), f"outside:\n{outside}inside:\n{recording.describe()}")

    def test_only_the_command_and_its_children_are_profiled(self):
        script = f"cd {lib.PROGRAMS}; ./short 500 & (./short 500; :) & wait; :"
        with lib.Burner() as burner:
            recording = self.record(seconds=None, command=["sh", "-c", script])
        self.assertEqual(recording.of(burner.comm), [], recording.describe())
        names = {s.comm for s in recording.samples}
        self.assertLessEqual(names, {"short", "sh", "bulkhead"}, recording.describe())
        total = sum(s.count for s in recording.of("short"))
        self.assertGreater(total, 0.7 * 997, recording.describe())
        self.assertLess(total, 1.2 * 997, recording.describe())

    def test_duration_ends_before_the_command(self):
        """-d limits the recording even if the command runs longer: there is no hang."""
        recording = self.record(seconds=2, status=None, command=["sleep", "6"])
        self.assert_accounted(recording)


if __name__ == "__main__":
    lib.main()
