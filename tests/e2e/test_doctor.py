# SPDX-License-Identifier: Apache-2.0
"""`bulkhead doctor` in environments that lack one thing each: it names it with its remedy, and has the exit status that `bulkhead record` has there."""
import contextlib
import json
import os
import re
import resource
import shutil
import subprocess
import sys

import lib

# As the first argument of `python3 -c`: further arguments are an errno, system calls separated by commas, and a command, which runs under a filter that
# answers these calls with the errno, as container runtimes do.
FILTER = """
import ctypes, os, struct, sys
LOAD, EQUAL, RETURN, ERRNO, ALLOW = 0x20, 0x15, 0x06, 0x50000, 0x7fff0000
code = [(LOAD, 0, 0, 0)]
for number in sys.argv[2].split(","):
    code += [(EQUAL, 0, 1, int(number)), (RETURN, 0, 0, ERRNO | int(sys.argv[1]))]
code.append((RETURN, 0, 0, ALLOW))
text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code), ctypes.addressof(text)))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(22, 2, program, 0, 0):
    sys.exit(os.strerror(ctypes.get_errno()))
os.execvp(sys.argv[3], sys.argv[3:])
"""
EPERM, ENOSYS = 1, 38
CAP_SYS_RESOURCE = 24
BPF, PERF_EVENT_OPEN, SECCOMP, MEMFD_CREATE, LANDLOCK = "321", "298", "317", "319", "444,445,446"
UNPRIVILEGED = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
STATUSES = {"ok", "unknown", "restriction", "fault"}


def filtered(errno, calls):
    return [sys.executable, "-c", FILTER, str(errno), calls]


def without(*capabilities):
    drop = ",".join("-" + name for name in capabilities)
    return ["setpriv", "--bounding-set", drop, "--inh-caps", drop]


def mounted(script):
    """In a mount namespace in which the script has changed mounts."""
    return ["unshare", "--mount", "sh", "-e", "-c", script + '; exec "$@"', "sh"]


class Doctor(lib.Case):
    def setUp(self):
        super().setUp()
        os.chmod(self.directory, 0o777)
        self.bulkhead = lib.BULKHEAD

    def install(self, *paths):
        """Copies programs to where every user can execute them. Returns the path of the last copy."""
        for path in paths:
            shutil.copy2(path, self.directory)
        return os.path.join(self.directory, os.path.basename(paths[-1]))

    def run_bulkhead(self, *args, wrapper=(), **options):
        return subprocess.run([*wrapper, self.bulkhead, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=lib.PATIENCE,
                              cwd=self.directory, **options)

    def diagnose(self, *args, wrapper=(), **options):
        """The exit status and the checks by name, after comparing text and JSON."""
        done = self.run_bulkhead("doctor", "--json", *args, wrapper=wrapper, **options)
        self.assertEqual(done.stderr, "", done.stdout)
        found = json.loads(done.stdout)
        checks = {check["name"]: check for check in found["checks"]}
        self.assertEqual(len(checks), len(found["checks"]))
        faults = [check["exit_status"] for check in found["checks"] if check["status"] == "fault"]
        for check in found["checks"]:
            self.assertIn(check["status"], STATUSES)
            self.assertTrue(check["found"], check)
            if check["status"] in ("fault", "restriction"):
                self.assertTrue(check["remedy"], check)
        self.assertEqual((found["exit_status"], found["works"]), (done.returncode, done.returncode == 0))
        self.assertEqual(done.returncode, faults[0] if faults else 0)
        text = self.run_bulkhead("doctor", *args, wrapper=wrapper, **options)
        self.assertEqual((text.returncode, text.stderr), (done.returncode, ""))
        self.assertRegex(text.stdout.splitlines()[-1], r"^`bulkhead record` (would fail here with exit status \d: \S|works here)")
        for line, check in zip(re.findall(r"^\w+ .*", text.stdout, re.M), found["checks"], strict=True):
            self.assertEqual(line.split()[:2], [check["status"], check["name"]])
        return done.returncode, checks

    def record(self, *args, wrapper=(), **options):
        return self.run_bulkhead("record", "-d", "1", "-F", "99", *args, "-o", "out.folded", "--stats", "stats.json", wrapper=wrapper, **options)

    def compare(self, status, name, state, remedy=None, wrapper=(), args=(), **options):
        """`doctor` says that check `name` is in this state, and ends as `record` does. A refusal has the words of `doctor`. Returns what was found."""
        got, checks = self.diagnose(*args, wrapper=wrapper, **options)
        check = checks[name]
        self.assertEqual(check["status"], state, check)
        if remedy:
            self.assertRegex(check["remedy"], remedy)
        self.assertEqual(got, status, checks)
        out = os.path.join(self.directory, "out.folded")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(out)
        done = self.record(*args, wrapper=wrapper, **options)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertEqual(os.path.exists(out), status == 0)
        if status:
            self.assertEqual(done.stderr, f"bulkhead: {check['found']}; {check['remedy']}\n")
        self.assertEqual(lib.bulkhead_processes(), {})
        return check["found"]

    def incomplete(self, reason):
        with open(os.path.join(self.directory, "stats.json"), encoding="utf-8") as f:
            return json.load(f)["incomplete"].get(reason, 0)

    def samples_of(self, comm):
        with open(os.path.join(self.directory, "out.folded"), encoding="utf-8") as f:
            return [sample for sample in lib.parse_folded(f.read()) if sample.comm == comm]

    def test_root(self):
        """The machine that the tests run on can be profiled."""
        self.compare(0, "capabilities", "ok")
        self.compare(0, "bpf", "ok", args=["--strict-memory"])
        _, checks = self.diagnose()
        initial = os.readlink("/proc/self/ns/pid") == "pid:[4026531836]"
        self.assertEqual(checks["pid-namespace"]["status"], "ok" if initial else "restriction")
        # A security module may protect some processes, but the opener sees the others.
        for name in ("processes", "process-memory"):
            refused, tried = map(int, re.findall(r"\d+", checks[name]["found"])[:2])
            self.assertLess(refused if checks[name]["status"] != "ok" else 0, tried, checks[name])

    def test_another_user(self):
        self.bulkhead = self.install(*(os.path.join(lib.BIN, name) for name in (*lib.EXECUTABLES, "bulkhead")))
        self.compare(4, "user", "fault", "sudo|root|--user 0|runAsUser", wrapper=UNPRIVILEGED)
        _, checks = self.diagnose(wrapper=UNPRIVILEGED)
        for name in ("perf-events", "bpf", "kernel-symbols", "processes", "process-memory"):
            self.assertEqual(checks[name]["status"], "unknown", checks[name])

    def test_each_capability(self):
        for name in ("bpf", "perfmon", "syslog", "sys_ptrace", "setuid", "setgid", "setpcap", "chown"):
            with self.subTest(name):
                found = self.compare(4, "capabilities", "fault", rf"\b(CAP_)?{name.upper()}\b", wrapper=without(name))
                self.assertEqual(found, "missing capabilities: CAP_" + name.upper())

    def test_strict_memory_needs_less(self):
        wrapper = without("dac_read_search", "checkpoint_restore")
        self.compare(4, "capabilities", "fault", "--strict-memory", wrapper=wrapper)
        self.compare(0, "capabilities", "ok", wrapper=wrapper, args=["--strict-memory"])

    def test_user_namespace(self):
        found = self.compare(4, "user-namespace", "fault", "userns=host|hostUsers|outside", wrapper=["unshare", "--user", "--map-root-user"])
        self.assertNotIn("paranoid", found)

    def test_pid_namespace(self):
        """Programs outside of it are sampled, but their stacks are not walked."""
        with lib.Burner():
            self.compare(0, "pid-namespace", "restriction", "--pid=host|hostPID|outside", wrapper=["unshare", "--pid", "--fork", "--mount-proc"])
        self.assertGreater(self.incomplete("process_unknown"), 20)

    def test_hidepid(self):
        """It hides nothing from a process with CAP_SYS_PTRACE: programs of other users have their functions."""
        with lib.Program("recursion", 28, path=self.install(os.path.join(lib.PROGRAMS, "recursion")), wrapper=UNPRIVILEGED):
            found = self.compare(0, "proc", "ok", wrapper=mounted("mount -t proc -o hidepid=2 proc /proc"))
        self.assertIn("hidepid=", found)
        samples = self.samples_of("recursion")
        named = sum(sample.count for sample in samples if "_start" in sample.frames)
        self.assertGreaterEqual(named, 0.9 * sum(sample.count for sample in samples))
        self.assertTrue(samples)

    def test_subset_of_proc(self):
        self.compare(4, "proc", "fault", "mount -t proc proc /proc", wrapper=mounted("mount -t proc -o subset=pid proc /proc"))

    def test_no_proc(self):
        self.compare(1, "proc", "fault", "mount -t proc", wrapper=mounted("mount -t tmpfs none /proc"))

    def test_hidden_kernel_symbols(self):
        """Without addresses, as with kernel.kptr_restrict=2, the worker cannot name kernel frames."""
        zeros = os.path.join(self.directory, "kallsyms")
        with open("/proc/kallsyms", encoding="utf-8") as symbols, open(zeros, "w", encoding="utf-8") as f:
            f.writelines(re.sub("^[0-9a-f]+", "0" * 16, line) for line in symbols)
        wrapper = mounted(f"mount --bind {zeros} /proc/kallsyms")
        self.compare(0, "kernel-symbols", "restriction", "umount /proc/kallsyms|kptr_restrict", wrapper=wrapper)
        # The worker reads the symbols when it is ready, which may take longer than a second where the machine has hardly any CPU time.
        with lib.Burner():
            process = self.start(seconds=None, wrapper=wrapper)
            self.give_cpu_time(1, process)
            process.terminate()
            self.assertIn("kernel frames have no names", self.finish(process).stderr)

    def test_no_btf(self):
        self.compare(3, "btf", "fault", "CONFIG_DEBUG_INFO_BTF", wrapper=mounted("mount -t tmpfs none /sys/kernel/btf"))

    def test_no_sysfs(self):
        self.compare(3, "btf", "fault", "mount -t sysfs sysfs /sys", wrapper=mounted("mount -t tmpfs none /sys"))

    def test_forged_btf(self):
        self.compare(3, "btf", "fault", "umount", wrapper=mounted("mount --bind /dev/null /sys/kernel/btf/vmlinux"))

    def test_filters_of_containers(self):
        for name, call, number in (("bpf", "bpf", BPF), ("perf-events", "perf_event_open", PERF_EVENT_OPEN), ("sandbox", "seccomp", SECCOMP),
                                   ("sandbox", "memfd_create", MEMFD_CREATE)):
            for errno in (EPERM, ENOSYS):
                with self.subTest(call, errno=errno):
                    found = self.compare(4, name, "fault", rf"\b{call}$", wrapper=filtered(errno, number))
                    self.assertEqual(found, f"a seccomp filter refuses {call}(2)")

    def test_landlock(self):
        """A kernel without it is profiled without it; a filter that refuses it is not taken for such a kernel."""
        self.compare(4, "sandbox", "fault", "landlock_create_ruleset", wrapper=filtered(EPERM, LANDLOCK))
        self.compare(0, "sandbox", "ok", wrapper=filtered(ENOSYS, LANDLOCK))

    def test_read_only_run(self):
        self.compare(1, "run-directory", "fault", "/run", wrapper=mounted("mount -t tmpfs -o ro none /run"))

    def test_incomplete_installation(self):
        self.bulkhead = self.install(lib.BULKHEAD)
        self.assertIn(lib.EXECUTABLES[0], self.compare(1, "programs", "fault", "reinstall"))

    def limited(self, kind, value):
        return {"preexec_fn": lambda: resource.setrlimit(kind, (value, value))}

    def test_limits(self):
        """With CAP_SYS_RESOURCE the roles raise the limit of files."""
        mib = 1 << 20
        for name, kind, few, more in (("files", resource.RLIMIT_NOFILE, 64, 512), ("process-limit", resource.RLIMIT_NPROC, 2, 6),
                                      ("memory", resource.RLIMIT_AS, 12 * mib, 48 * mib)):
            with self.subTest(name):
                wrapper = without("sys_resource")
                self.compare(1, name, "fault", "limit|nofile|nproc|LimitN", wrapper=wrapper, **self.limited(kind, few))
                self.compare(0, name, "restriction", "limit|nofile|nproc|LimitN", wrapper=wrapper, **self.limited(kind, more))

    def test_limit_of_files_that_the_roles_raise(self):
        if not int(lib.proc_status("self")["CapBnd"], 16) >> CAP_SYS_RESOURCE & 1:
            self.skip("root has no CAP_SYS_RESOURCE here")
        self.compare(0, "files", "ok", **self.limited(resource.RLIMIT_NOFILE, 64))

    def test_memory_of_the_cgroup(self):
        group, limit = self.make_memory_cgroup()
        wrapper = ["sh", "-e", "-c", f'echo $$ >{group}/cgroup.procs; exec "$@"', "sh"]
        for mib, status, state in ((16, 1, "fault"), (48, 0, "restriction")):
            with open(os.path.join(group, limit), "w", encoding="ascii") as f:
                f.write(str(mib << 20))
            self.assertIn(f"{mib} MiB", self.compare(status, "memory", state, "(?i)memory", wrapper=wrapper))

    def make_memory_cgroup(self):
        """A new cgroup whose memory can be limited, and the name of the file for that."""
        for line in lib.read("/proc/self/mountinfo").splitlines():
            fields, kind, options = line.split()[:5], line.split(" - ")[1].split()[0], line.split()[-1].split(",")
            limit = {"cgroup": "memory.limit_in_bytes", "cgroup2": "memory.max"}.get(kind)
            if not limit or (kind == "cgroup" and "memory" not in options):
                continue
            group = os.path.join(fields[4], f"bulkhead-test-{os.getpid()}")
            try:
                os.mkdir(group)
            except OSError:
                continue
            self.addCleanup(self.remove_cgroup, group)
            if os.path.exists(os.path.join(group, limit)):
                return group, limit
        return self.skip("no cgroup can be made whose memory can be limited")

    def test_sample_rate(self):
        """Above the largest rate of the kernel, `record` is refused."""
        most = int(lib.read("/proc/sys/kernel/perf_event_max_sample_rate"))
        if most >= 10000:
            self.assertEqual(self.diagnose("-F", "10000")[1]["sample-rate"]["status"], "ok")
        # As if the kernel had lowered it, which it does on busy machines.
        lowered = os.path.join(self.directory, "rate")
        with open(lowered, "w", encoding="ascii") as f:
            f.write("98\n")
        wrapper = mounted(f"mount --bind {lowered} /proc/sys/kernel/perf_event_max_sample_rate")
        self.compare(1, "sample-rate", "fault", "-F 98", wrapper=wrapper)
        self.assertEqual(self.diagnose("-F", "98", wrapper=wrapper)[1]["sample-rate"]["status"], "ok")

    def test_usage(self):
        for args in (["--frobnicate"], ["-F"], ["-F", "0"], ["-F", "99x"], ["extra"]):
            done = self.run_bulkhead("doctor", *args)
            self.assertEqual((done.returncode, done.stdout), (2, ""), args)
            self.assertRegex(done.stderr, "^bulkhead doctor: .*; see bulkhead doctor --help\n$")
        done = self.run_bulkhead("doctor", "--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("--json", done.stdout)

    def test_output_that_cannot_be_written(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([lib.BULKHEAD, "doctor"], stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=lib.PATIENCE)
        self.assertEqual(done.returncode, 1)
        self.assertIn("No space left on device", done.stderr)


if __name__ == "__main__":
    lib.main()
