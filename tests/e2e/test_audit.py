# SPDX-License-Identifier: Apache-2.0
"""`bulkhead audit` agrees with recordings and agents as they are, and reports each property that is loosened."""
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import agent
import lib
import services

SECONDS = 600  # of a recording at most; the test ends it
PROPERTIES = {"executable", "uids", "gids", "groups", "capabilities", "no-new-privs", "seccomp", "tracer", "threads", "namespaces", "root", "label", "limits",
              "dumpable", "mappings", "sockets", "bpf", "descriptors", "processes"}
FILE_PROPERTIES = {"owner", "mode", "file-capabilities", "hash"}
# What tests/security/loosen.c does: (the property that is reported, what is found). Of a thread, what differs has its own subject.
LOOSENED = {
    "uids": ("uids", r"^(\d+) \1 60000 \1$"),
    "gids": ("gids", r"^(\d+) \1 4 \1$"),
    "groups": ("groups", "^4$"),
    "effective": ("capabilities", "^effective: cap_chown$"),
    "permitted": ("capabilities", "^permitted: cap_chown$"),
    "inheritable": ("capabilities", "^inheritable: cap_chown$"),
    "ambient": ("capabilities", "^ambient: cap_chown$"),
    "bounding": ("capabilities", "^bounding: cap_chown$"),
    "no-new-privs": ("no-new-privs", "^not set$"),
    "seccomp": ("seccomp", "^mode 0, filters: 0$"),
    "thread": ("seccomp", "^mode 0, filters: 0$"),
    "namespaces": ("namespaces", r"^uts:\[\d+\]$"),
    "root": ("root", r"^another directory, inode \d+$"),
    "limits": ("limits", r"^open files: \d+$"),
    "dumpable": ("dumpable", "^yes$"),
    "writable-code": ("mappings", "^[0-9a-f]+-[0-9a-f]+ wx $"),
    "anonymous-code": ("mappings", "^[0-9a-f]+-[0-9a-f]+ x $"),
    "tcp-socket": ("sockets", "network: family 2, type 1, protocol 6,"),
    "raw-socket": ("sockets", "no kind that roles have: family 2, type 3, protocol 1,"),
    "datagram-pair": ("sockets", "no kind that roles have: family 1, type 2, protocol 0,"),
    "bpf-program": ("bpf", r"program: , id \d+, type 7,"),
    "bpf-map": ("bpf", r"no kind that roles have: , id \d+, type 27, not one of the loader$"),
    "perf-event": ("descriptors", r"perf event: anon_inode:\[perf_event\]"),
    "writable-file": ("descriptors", "no kind that roles have: /.*/loosen, writable$"),
    "memfd": ("descriptors", "own file: /memfd:loosened"),
    "pipe": ("descriptors", r"no kind that roles have: pipe:\[\d+\]"),
    "directory": ("descriptors", "directory: /$"),
    "device": ("descriptors", "no kind that roles have: /dev/kmsg"),
}
# Where the kernel makes one loosened property another: without no_new_privs only CAP_SYS_ADMIN permits a filter, and an ambient capability is in all sets.
# A thread that was started before the worker entered the sandbox has all that the worker gave up there.
ALSO = {"no-new-privs": {"capabilities"}, "thread": {"capabilities"}}
# What a worker can loosen that was not started as root.
OF_SERVICES = ("dumpable", "writable-code", "anonymous-code", "tcp-socket", "datagram-pair", "memfd", "pipe", "directory")
SEIZE = "import ctypes, sys, time; print(ctypes.CDLL(None).ptrace(0x4206, int(sys.argv[1]), 0, 0), flush=True); time.sleep(600)"


class Audit(lib.Case):
    def setUp(self):
        super().setUp()
        os.chmod(self.directory, 0o755)
        self.bin = os.path.join(self.directory, "bin")
        os.mkdir(self.bin, 0o755)
        for name in {"bulkhead", "bulkhead-control", *lib.EXECUTABLES}:
            shutil.copy2(os.path.join(lib.BIN, name), self.bin)
        self.write_manifest()

    def path(self, name):
        return os.path.join(self.bin, name)

    def write_manifest(self):
        lines = []
        for name in sorted({"bulkhead", "bulkhead-control", *lib.EXECUTABLES}):
            with open(self.path(name), "rb") as f:
                lines.append(f"{hashlib.sha256(f.read()).hexdigest()}  {name}\n")
        with open(self.path("bulkhead.sha256"), "w", encoding="ascii") as f:
            f.writelines(lines)

    def is_sampling(self, pid, unfiltered):
        """Of a role without a filter it is not known when it has entered its sandbox. It enters it when the others do."""
        roles = {role: pid for role, pid in lib.roles_of(pid).items() if role not in unfiltered}
        if not unfiltered:
            return lib.sampling(pid)
        if len(roles) + len(unfiltered) == len(lib.ROLES) and all(map(lib.sandboxed, roles.values())):
            time.sleep(1)
            return True
        return False

    def start(self, *options, unfiltered=()):
        log = os.path.join(self.directory, "log")
        with open(log, "wb") as f:
            recording = subprocess.Popen([self.path("bulkhead"), "record", "-F", "49", "-d", str(SECONDS), *options, "-o", os.path.join(self.directory, "out.folded")],
                                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=f)
        self.addCleanup(self.end, recording)
        self.wait_for("sampling", lambda: self.is_sampling(recording.pid, unfiltered) or recording.poll() is not None)
        self.assertIsNone(recording.poll(), lib.read(log))
        return recording

    def end(self, process):
        process.kill()
        process.wait()
        self.wait_for("the end of the roles", lambda: not lib.bulkhead_processes(self.bin))

    def audit(self, pid, *args, program=None, wrapper=()):
        """The exit status and the results, after comparing text and JSON."""
        command = [*wrapper, program or self.path("bulkhead"), "audit", "--pid", str(pid), *args]
        done = subprocess.run([*command, "--json"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=lib.PATIENCE)
        found = json.loads(done.stdout)
        for result in found["results"]:
            self.assertIn(result["status"], ("ok", "difference", "unverified"))
            self.assertTrue(result["found"], result)
            self.assertEqual(result["expected"] is not None, result["status"] == "difference", result)
        agrees = all(result["status"] == "ok" for result in found["results"])
        self.assertEqual(found["agrees"], agrees)
        return done, found["results"]

    def differences(self, pid, *args, **options):
        """What is not as the policy says, as (subject, property, found). The worker has a helper only if it has needed one, so the two count as one."""
        done, results = self.audit(pid, *args, **options)
        different = list(dict.fromkeys((result["subject"].replace("worker helper", "worker"), result["property"], result["found"])
                                       for result in results if result["status"] != "ok"))
        self.assertEqual((done.returncode, done.stderr), (1 if different else 0, ""), different)
        return different

    def check_complete(self, results):
        """Each role, and each program, has each property."""
        by_subject = {}
        for result in results:
            by_subject.setdefault(result["subject"], set()).add(result["property"])
        for role in ("loader", "unwinder-mgr", "opener", "worker", "exporter", "unwinder-mgr helper", "opener helper"):
            self.assertEqual(by_subject[role], PROPERTIES | ({"pins"} if role == "loader" else set()), role)
        for name in {"bulkhead", "bulkhead-control", *lib.EXECUTABLES}:
            self.assertEqual(by_subject[name], FILE_PROPERTIES, name)

    def test_recording(self):
        recording = self.start()
        done, results = self.audit(recording.pid)
        self.assertEqual((done.returncode, done.stderr), (0, ""), [result for result in results if result["status"] != "ok"])
        self.check_complete(results)
        program = next(result for result in results if (result["subject"], result["property"]) == ("loader", "bpf"))
        loader = next(result["pid"] for result in results if result["subject"] == "loader")
        for number in lib.bpf_ids(loader, "prog"):
            self.assertIn(f"{lib.bpf_describe('prog', number)['name']} {lib.bpf_describe('prog', number)['tag']}", program["found"])
        text = subprocess.run([self.path("bulkhead"), "audit", "-p", str(recording.pid)], capture_output=True, text=True, check=False, timeout=lib.PATIENCE)
        self.assertEqual((text.returncode, text.stderr), (0, ""), text.stdout)
        self.assertRegex(text.stdout.splitlines()[-1], r"^everything is as the policy says: properties=\d+$")

    def test_programs_of_a_package(self):
        """Users find `bulkhead` in bin, and the others are in libexec."""
        libexec = os.path.join(self.directory, "libexec", "bulkhead")
        os.makedirs(libexec, 0o755)
        for name in os.listdir(self.bin):
            if name != "bulkhead":
                os.rename(self.path(name), os.path.join(libexec, name))
        recording = self.start()
        done, results = self.audit(recording.pid)
        self.assertEqual((done.returncode, done.stderr), (0, ""), [result for result in results if result["status"] != "ok"])
        self.check_complete(results)
        directories = {result["found"].split()[-1] for result in results if result["subject"] == "directory"}
        self.assertLessEqual({self.bin, libexec}, directories)

    def test_strict_memory(self):
        recording = self.start("--strict-memory")
        self.assertEqual(self.differences(recording.pid), [])

    def test_agent(self):
        with agent.Agent(self, "http://127.0.0.1:4999") as running:
            done, results = self.audit(running.process.pid, program=lib.BULKHEAD)
            self.assertEqual((done.returncode, done.stderr), (0, ""), [result for result in results if result["status"] != "ok"])
            self.check_complete(results)
            self.assertEqual({result["subject"] for result in results if result["property"] == "roles"}, {"agent"})
            # Without limits of its own, it inspects this agent too.
            everything = subprocess.run([lib.BULKHEAD, "audit", "--json"], capture_output=True, text=True, check=False, timeout=lib.PATIENCE)
            self.assertIn(running.process.pid, [result["pid"] for result in json.loads(everything.stdout)["results"]])

    def test_pins(self):
        """Of the loader alone, and closed to others."""
        pins = agent.pin_directory(self)
        with lib.Burner(), agent.Agent(self, "http://127.0.0.1:4999", {"agent.pin_directory": pins}) as running:
            self.wait_for("samples", lambda: "cpu0" in os.listdir(pins))
            _, results = self.audit(running.process.pid, program=lib.BULKHEAD)
            of_loader = {result["property"]: result["found"] for result in results if result["subject"] == "loader"}
            self.assertEqual(of_loader["pins"], f"directory: 1 ({len(os.listdir(pins))} pins)")
            self.assertIn("link: ", of_loader["bpf"])
            for change in (lambda: os.chmod(pins, 0o710), lambda: os.chmod(os.path.join(pins, "samples"), 0o640), lambda: os.chown(os.path.join(pins, "samples"), 0, 0)):
                before = {path: os.stat(path) for path in (pins, os.path.join(pins, "samples"))}
                self.assertEqual(self.differences(running.process.pid, program=lib.BULKHEAD), [])
                change()
                different = self.differences(running.process.pid, program=lib.BULKHEAD)
                self.assertEqual([(subject, name) for subject, name, _ in different], [("loader", "pins")], different)
                for path, status in before.items():
                    os.chmod(path, status.st_mode & 0o777)
                    os.chown(path, status.st_uid, status.st_gid)

    def test_services(self):
        with services.Services(self, "http://127.0.0.1:4999") as running:
            running.start().wait_until_ready()
            done, results = self.audit(running.pid("control"), program=lib.BULKHEAD, wrapper=self.with_users(running))
            self.assertEqual((done.returncode, done.stderr), (0, ""), [result for result in results if result["status"] != "ok"])
            self.check_complete(results)
            self.assertEqual({result["property"] for result in results if result["subject"] == "control"}, PROPERTIES)
            capabilities = {result["subject"]: result["found"] for result in results if result["property"] == "capabilities"}
            self.assertEqual({role for role, found in capabilities.items() if found != "none"}, {"loader", "opener", "opener helper"})

    def test_each_property_of_a_service(self):
        shutil.copy2(os.path.join(lib.BIN, "loosened_worker"), self.path("bulkhead-symbolizer"))
        self.write_manifest()
        for name in ("nothing", *OF_SERVICES):
            with open(self.path("loosen"), "w", encoding="ascii") as f:
                f.write(name)
            with self.subTest(name):
                self.check_service(name)

    def with_users(self, running):
        """A command that runs another one where the roles have users."""
        path = os.path.join(self.directory, "passwd")
        running.write_users(path)
        return ("unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/passwd && exec "$@"', path)

    def check_service(self, name):
        with services.Services(self, "http://127.0.0.1:4999", directory=self.bin) as running:
            running.start().wait_until_ready()
            different = self.differences(running.pid("control"), wrapper=self.with_users(running))
        shutil.rmtree(running.run_directory)
        shutil.rmtree(running.spool)
        reported, found = LOOSENED.get(name, (None, ""))
        self.assertEqual({(subject, property_) for subject, property_, _ in different}, {("worker", reported)} if reported else set(), different)
        self.assertRegex("\n".join(text for _, _, text in different), f"(?m){found}")

    def test_each_property_of_a_role(self):
        shutil.copy2(os.path.join(lib.BIN, "loosened_worker"), self.path("bulkhead-symbolizer"))
        self.write_manifest()
        for name, (reported, found) in {"nothing": (None, None), **LOOSENED}.items():
            with self.subTest(name):
                with open(self.path("loosen"), "w", encoding="ascii") as f:
                    f.write(name)
                recording = self.start(unfiltered=["worker"] if name == "seccomp" else ())
                try:
                    different = self.differences(recording.pid)
                finally:
                    self.end(recording)
                if reported:
                    self.assertRegex("\n".join(text for _, property_, text in different if property_ == reported), f"(?m){found}")
                self.assertEqual({property_ for _, property_, _ in different}, {reported} - {None} | ALSO.get(name, set()), different)
                # Its second thread (role/process_work.h) is as loose as it is.
                self.assertLessEqual({subject for subject, _, _ in different}, {"worker thread"} | ({"worker"} if name != "thread" else set()))

    def test_mode(self):
        """The command line of a role cannot make the audit expect other rights."""
        shutil.copy2(os.path.join(lib.BIN, "loosened_worker"), self.path("bulkhead-symbolizer"))
        self.write_manifest()
        with open(self.path("loosen"), "w", encoding="ascii") as f:
            f.write("mode")
        different = self.differences(self.start().pid)
        self.assertEqual(different, [("recording", "mode", "only one of them has --strict-memory")])

    def spawn(self, *command):
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def test_other_processes(self):
        recording = self.start()
        worker = lib.roles_of(recording.pid)["worker"]
        uid = lib.proc_status(worker)["Uid"].split()[0]
        with self.subTest("uid"):
            other = self.spawn("setpriv", "--reuid", uid, "--clear-groups", "sleep", str(SECONDS))
            self.wait_for("the uid", lambda: lib.proc_status(other.pid)["Uid"].split()[0] == uid)
            self.assertEqual(self.differences(recording.pid), [("worker", "processes", f"pid {other.pid} has the uid of the role or is a child of it")])
            other.kill()
            other.wait()
        with self.subTest("tracer"):
            tracer = self.spawn(sys.executable, "-c", SEIZE, str(worker))
            self.assertEqual(tracer.stdout.readline(), "0\n")
            different = self.differences(recording.pid)
            self.assertIn(("worker", "tracer", f"pid {tracer.pid}"), different)
            self.assertEqual({property_ for _, property_, _ in different}, {"tracer"})
            tracer.kill()
            tracer.wait()
        with self.subTest("executable"):
            shutil.copy2(self.path("bulkhead-symbolizer"), self.path("new"))
            os.rename(self.path("new"), self.path("bulkhead-symbolizer"))
            self.assertEqual(self.differences(recording.pid), [("worker", "executable", f"a file that was at {self.path('bulkhead-symbolizer')} before")])
        with self.subTest("roles"):
            os.kill(recording.pid, signal.SIGSTOP)
            os.kill(lib.roles_of(recording.pid)["exporter"], signal.SIGKILL)
            self.wait_for("the end of the exporter", lambda: "exporter" not in lib.roles_of(recording.pid))
            done, _ = self.audit(recording.pid)
            self.assertEqual(done.returncode, 1)

    def test_each_property_of_a_file(self):
        recording = self.start()
        name = "bulkhead-exporter-otlp"  # it does not run, so that it can be changed
        path = self.path(name)
        everything_allowed = bytes.fromhex("0100000200000000000000000000000000000000")  # no capability; VFS_CAP_REVISION_2 of linux/capability.h
        changes = {
            "owner": (lambda: os.chown(path, 65534, 0), lambda: os.chown(path, 0, 0)),
            "mode": (lambda: os.chmod(path, 0o775), lambda: os.chmod(path, 0o755)),
            "set-id": (lambda: os.chmod(path, 0o4755), lambda: os.chmod(path, 0o755)),
            "file-capabilities": (lambda: os.setxattr(path, "security.capability", everything_allowed), lambda: os.removexattr(path, "security.capability")),
            "hash": (lambda: self.append(path), None),
        }
        for change, (loosen, restore) in changes.items():
            with self.subTest(change):
                loosen()
                different = self.differences(recording.pid)
                self.assertEqual([(subject, property_) for subject, property_, _ in different], [(name, "mode" if change == "set-id" else change)])
                if restore:
                    restore()
        with self.subTest("another manifest"):
            manifest = os.path.join(self.directory, "manifest")
            shutil.copy2(self.path("bulkhead.sha256"), manifest)
            self.write_manifest()
            self.assertEqual(self.differences(recording.pid), [])
            self.assertEqual([property_ for _, property_, _ in self.differences(recording.pid, "--manifest", manifest)], ["hash"])
        with self.subTest("directory"):
            os.chmod(self.bin, 0o777)
            self.assertEqual(self.differences(recording.pid), [("directory", "mode", f"0777 {self.bin}")])
            os.chmod(self.bin, 0o755)
        with self.subTest("missing"):
            os.unlink(path)
            self.assertEqual([(subject, property_) for subject, property_, _ in self.differences(recording.pid)], [(name, "file")])

    def append(self, path):
        with open(path, "ab") as f:
            f.write(b"x")

    def test_without_rights(self):
        """What cannot be read is reported, and is no agreement."""
        recording = self.start()
        done, results = self.audit(recording.pid, wrapper=["setpriv", "--bounding-set", "-sys_ptrace", "--inh-caps", "-sys_ptrace"])
        self.assertEqual(done.returncode, 1)
        self.assertIn("unverified", {result["status"] for result in results})

    def test_nothing_runs(self):
        done, results = self.audit(os.getpid())
        self.assertEqual(done.returncode, 1)
        self.assertIn("no recording or agent of this installation runs here", done.stderr)
        self.assertEqual({result["status"] for result in results}, {"ok"})

    def test_usage(self):
        for args in (["--frobnicate"], ["-p"], ["-p", "0"], ["-p", "1x"], ["extra"]):
            done = subprocess.run([lib.BULKHEAD, "audit", *args], capture_output=True, text=True, check=False, timeout=lib.PATIENCE)
            self.assertEqual((done.returncode, done.stdout), (2, ""), args)
            self.assertRegex(done.stderr, "^bulkhead audit: .*; see bulkhead audit --help\n$")


if __name__ == "__main__":
    lib.main()
