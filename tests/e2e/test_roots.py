# SPDX-License-Identifier: Apache-2.0
"""Other roots: a process's frames are named by the files that it maps, not by what lies at the same paths elsewhere."""
import os
import shutil
import signal
import subprocess

import lib

FILES = ("pingpong", "libping.so", "libpong.so")
CPU_SECONDS = 1.5  # that a program uses during its recording


def copy_program(directory):
    os.makedirs(directory, exist_ok=True)
    for name in FILES:
        shutil.copy2(os.path.join(lib.PROGRAMS, name), directory)
    return os.path.join(directory, "pingpong")


class Roots(lib.Case):
    def check(self, program, samples=None, **kwargs):
        with program:
            recording = self.record(**kwargs)
        self.assert_stacks(recording, recording.of("pingpong") if samples is None else samples(recording), program.expectation)
        self.assert_accounted(recording)

    def test_chroot(self):
        """The same path also exists outside and holds another program."""
        outside = os.path.join(self.directory, "place")
        root = os.path.join(self.directory, "root")
        copy_program(root + outside)
        os.makedirs(outside)
        for name in FILES:
            shutil.copy2(os.path.join(lib.PROGRAMS, "steps" if name == "pingpong" else "libpltcalls.so"), os.path.join(outside, name))
        libraries = subprocess.run(["ldd", os.path.join(lib.PROGRAMS, "recursion")], check=True, capture_output=True, text=True).stdout
        for path in [word for word in libraries.split() if word.startswith("/")]:
            os.makedirs(root + os.path.dirname(path), exist_ok=True)
            shutil.copy2(path, root + path)
        self.check(lib.Program("pingpong", 60, path=os.path.join(outside, "pingpong"), wrapper=["chroot", root],
                               env={"LD_LIBRARY_PATH": outside}))  # without /proc ld.so cannot find out its $ORIGIN

    def namespaces(self, *flags):
        copy_program(os.path.join(self.directory, "files"))
        script = 'mount -t tmpfs none /mnt && cp "$0"/* /mnt/ && exec /mnt/pingpong "$@"'
        wrapper = ["unshare", *flags, "--mount", "--pid", "--fork", "--kill-child=SIGKILL", "--mount-proc", "sh", "-c", script]
        if subprocess.run([*wrapper[:-3], "true"], stderr=subprocess.DEVNULL, check=False).returncode:
            self.skip("this machine does not allow unshare " + " ".join(flags or ("--mount", "--pid")))
        self.check(lib.Program("pingpong", 60, path=os.path.join(self.directory, "files"), wrapper=wrapper))

    def test_mount_and_pid_namespaces(self):
        """The files are on a tmpfs of a private mount namespace."""
        self.namespaces()

    def test_user_namespace(self):
        self.namespaces("--user", "--map-root-user")

    def test_overlayfs(self):
        """On this file system the device in maps differs from st_dev."""
        base = os.path.join(self.directory, "overlay")
        for name in ("lower", "upper", "work", "merged"):
            os.makedirs(os.path.join(base, name))
        copy_program(os.path.join(base, "lower"))
        mounted = subprocess.run(["mount", "-t", "overlay", "overlay", "-o", f"lowerdir={base}/lower,upperdir={base}/upper,workdir={base}/work", f"{base}/merged"],
                                 capture_output=True, text=True, check=False)
        if mounted.returncode:
            self.skip("no overlayfs on this machine: " + mounted.stderr.strip())
        self.addCleanup(subprocess.run, ["umount", "-l", f"{base}/merged"], check=False)
        # one of the libraries is in the upper layer
        os.utime(f"{base}/merged/libping.so")
        self.check(lib.Program("pingpong", 60, path=f"{base}/merged/pingpong"))

    def test_deleted(self):
        path = copy_program(os.path.join(self.directory, "files"))
        program = lib.Program("pingpong", 60, path=path)
        with program:
            for name in FILES:
                os.unlink(os.path.join(os.path.dirname(path), name))
            recording = self.record("-p", program.pid)
        self.assert_stacks(recording, recording.samples, program.expectation)

    def test_replaced(self):
        """A file is replaced by rename, as package managers do. The old process keeps its names, the new one has the new names."""
        path = copy_program(os.path.join(self.directory, "files"))
        old = lib.Program("pingpong", 60, path=path)
        new = lib.Program("pingpong", 200, path=path)
        with old:
            for name in FILES:
                replacement = {"pingpong": "recursion"}.get(name, "libpltcalls.so")
                shutil.copy2(os.path.join(lib.PROGRAMS, replacement), path + ".new")
                os.rename(path + ".new", os.path.join(os.path.dirname(path), name))
            with new:
                recording = self.record(seconds=3)
        samples = recording.of("pingpong")
        both = lib.Expectation({"chains": old.expectation.said["chains"] + new.expectation.said["chains"],
                                "need": {"ping": 0.25, "descend": 0.25}})
        self.assert_stacks(recording, samples, both)

    def test_deleted_while_recording(self):
        """A program is started and deleted during the recording: the descriptor that was opened in time is enough."""
        path = copy_program(os.path.join(self.directory, "files"))
        process = self.start(seconds=None)
        self.wait_until_recording(process)
        with lib.Program("pingpong", 60, path=path) as program:
            for name in FILES:
                os.unlink(os.path.join(os.path.dirname(path), name))
            self.wait_for_cpu_time(program, CPU_SECONDS)
        process.send_signal(signal.SIGINT)
        recording = self.finish(process)
        samples = [s for s in recording.of("pingpong") if "main" in s.frames]
        self.assert_stacks(recording, samples, program.expectation)
        unnamed = sum(s.count for s in recording.of("pingpong")) - sum(s.count for s in samples)
        self.assertLess(unnamed, 0.05 * sum(s.count for s in samples), recording.describe())

    def test_deleted_at_once(self):
        """A program deletes its own file when it starts, as installers do."""
        path = copy_program(os.path.join(self.directory, "files"))
        process = self.start(seconds=None)
        self.wait_until_recording(process)
        wrapper = ["sh", "-c", 'exec 3<"$0/pingpong"; (sleep 0.1; rm -f "$0"/*) & exec "$0/pingpong" "$@"']
        with lib.Program("pingpong", 60, path=os.path.dirname(path), wrapper=wrapper) as program:
            self.wait_for_cpu_time(program, CPU_SECONDS)
        process.send_signal(signal.SIGINT)
        recording = self.finish(process)
        self.assert_stacks(recording, [s for s in recording.of("pingpong") if "main" in s.frames], program.expectation)


if __name__ == "__main__":
    lib.main()
