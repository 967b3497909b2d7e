# SPDX-License-Identifier: Apache-2.0
"""Runs inside the guest of test_booted.py, as a service of systemd: it installs the package, and tests what systemd makes of it.

The steps follow each other: what one has started, the next ones use. The first that fails is the last one.

    booted_guest.py STEP...    by hand, in such a guest: only these steps, and the guest goes on
"""
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))

# pylint: disable=wrong-import-position
import agent
import lib
import otlp_decode
import scripted_server as scripted
import test_services
import test_taken_over

PORT = 4317
UNITS = {"control": "control"} | {name.lower(): role["directory"].replace("worker", "symbolizer") for name, role in lib.ROLE_TABLE.items()}
SERVICES = {role: f"bulkhead-{name}.service" for role, name in UNITS.items()}
PROGRAMS = "/usr/libexec/bulkhead"
PINS = "/sys/fs/bpf/bulkhead"
CONFIGURATION = "/etc/bulkhead/bulkhead.conf"
# The guest is emulated, on a machine that does other things too: what takes a role a tenth of a second elsewhere takes it ten. Both watchdogs have time.
DROP_IN = "/etc/systemd/system/bulkhead-.service.d/slow.conf"
SLOW = "[Service]\nWatchdogSec=5min\n"
OPTIONS = f"[agent]\nfrequency = 99\nwatchdog = 5m\n[export]\nendpoint = http://127.0.0.1:{PORT}\n"
OPENER_DROP_IN = "/etc/systemd/system/bulkhead-opener.service.d/apparmor.conf"
# Which services start again with one of them; others do so alone.
FOLLOWING = {"control": set(UNITS), "manager": {"manager", "opener", "worker"}}
STOPPED_SECONDS = 5
CHAIN_SAMPLES = 100
FILES = ("/etc", "/usr", "/var", "/run", "/lib", "/opt")
# What changes on a running machine, or with every package: logs, lists and caches of dpkg and of others, what useradd and systemd write, and a directory that dh_apparmor
# removes if it is empty.
OTHERS = re.compile(r"/(var/(log|cache|tmp|lib/(dpkg|apt|systemd))|run/(systemd|udev|log|lock|user|mount|initramfs|blkid)|etc/(passwd|group|shadow|gshadow|subuid|subgid)-$"
                    r"|etc/apparmor\.d/disable$|etc/\.pwd\.lock$|etc/ld\.so\.cache$|run/utmp)")
APPARMOR = "/sys/kernel/security/apparmor"
TAKEN_OVER = os.path.join(lib.PROGRAMS, "taken_over")
# What Docker and others give to containers: who reads processes in it must be in it, or have no profile.
CONTAINER = """abi <abi/3.0>,
profile like-a-container flags=(attach_disconnected,mediate_deleted) {
  file,
  capability,
  network,
  signal (receive) peer=unconfined,
  ptrace (trace, read, tracedby, readby) peer=like-a-container,
}
"""
# Actions of taken_over.c that AppArmor of Linux 6.1 does not judge. The filters of the roles do. Standard error is a pipe here, which has no path.
NOT_JUDGED = {
    "open standard error again", "open a path", "watch files", "ask for a file of root", "ask for a file, statx(2)", "ask for a file, stat(2)", "ask whether a file may be used",
    "ask for a file system", "change the times of a file", "change the directory", "connect to a Unix socket", "fork", "fork, fork(2)", "fork that shares memory",
    "descriptor of a process", "affinity of a process", "priority of a process", "scheduler of a process", "new session", "memory that is code",
    "memory that is code and writable", "memory becomes code", "memory becomes code, pkey_mprotect", "file in memory", "shared memory without a file",
    "shared memory of System V", "addresses without randomness", "io_uring", "asynchronous input and output", "add a key", "find the keyring",
    "join a session keyring", "epoll", "pipe", "eventfd", "timer", "signals as a file", "alarm", "uid of root", "all uids of root", "gids of root",
    "uid of file access", "capabilities of root", "ambient capability", "dumpable", "traceable by all", "adopt orphans", "limits of itself",
    "limits of itself, setrlimit(2)", "handler of signals", "namespace of users", "fork in a namespace",
    # Roles are connected by such sockets.
    "Unix socket", "pair of sockets", "pair of sockets without messages"}
# Descriptors of any file are passed to these roles. A profile does not distinguish that from opening.
ANY_FILE = {"read a file", "read a file of root", "read a file, open(2)", "read a file, openat2(2)", "list a directory", "open its own program",
            "make a descriptor standard error", "list descriptors of another process"}
# What a profile permits, because the role needs it or something that AppArmor does not distinguish from it: who may open memory to read it may also trace and
# write it. The filters refuse that.
PERMITTED = {
    "control": set(), "unwinder-mgr": ANY_FILE, "symbolizer": ANY_FILE,
    "loader": {"bpf: create a map", "bpf: load a filter of sockets", "bpf: load a tracing program", "perf: open an event", "perf: open an event of a process",
               "read the kernel's log"},
    "opener": ANY_FILE | {"open a file by its handle", "open a file of another process again", "read a link", "trace a process, ATTACH", "trace a process, SEIZE",
                          "trace another process of Bulkhead", "read memory by name", "open memory to read", "open memory of another process of Bulkhead",
                          "read an environment", "read mappings", "take a descriptor of a process", "compare processes", "read memory, process_vm_readv",
                          "write memory, process_vm_writev", "faults of memory"},
    "exporter": {"socket of TCP", "socket of UDP", "socket of IPv6", "connect by TCP to another port", "send by UDP", "listen on a port of TCP"},
}
REFUSED_LEAST = 60  # actions that are refused under each profile
# The same for the domains of SELinux. What a process does to itself, and system calls that have no object, are not judged, or every domain may do them. The
# process is one of root already, so it can become root.
SELINUX_NOT_JUDGED = {
    "Unix socket", "addresses without randomness", "adopt orphans", "alarm", "all uids of root", "ambient capability", "asynchronous input and output",
    "descriptor of a process", "dumpable", "epoll", "eventfd", "file in memory", "fork", "fork in a namespace", "fork that shares memory", "fork, fork(2)",
    "gids of root", "handler of signals", "join a session keyring", "limits of itself", "limits of itself, setrlimit(2)", "namespace of users",
    "pair of sockets", "pair of sockets without messages", "pipe", "shared memory without a file", "signals as a file", "timer", "traceable by all",
    "uid of file access", "uid of root", "watch files", "write its own memory by name"}
# Manager and worker may read files of /proc that they are handed, which the kernel also asks for here.
READ_STATE = {"compare processes"}
SELINUX_PERMITTED = {
    # Directories of debug files.
    "control": {"change the directory", "open a path"},
    "unwinder-mgr": READ_STATE, "symbolizer": READ_STATE,
    "loader": {"bpf: create a map", "bpf: load a filter of sockets", "bpf: load a tracing program", "capabilities of root", "perf: open an event",
               "perf: open an event of a process"},
    "opener": PERMITTED["opener"] | {"ask for a file of root", "ask for a file system", "ask for a file, stat(2)", "ask for a file, statx(2)",
                                     "ask whether a file may be used", "capabilities of root", "change the directory", "open a path"},
    # Files of /usr, and the test's own program is labelled like one.
    "exporter": {"socket of TCP", "socket of UDP", "socket of IPv6", "send by UDP", "open its own program"},
}


def run(*command, status=0):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, check=False, timeout=lib.PATIENCE)
    except subprocess.TimeoutExpired as error:
        raise AssertionError(f"{' '.join(command)} did not end\n{journal()}") from error
    if status is not None and done.returncode != status:
        raise AssertionError(f"{' '.join(command)} ended with status {done.returncode}:\n{done.stdout}")
    return done.stdout


def journal():
    return run("journalctl", "-b", "-o", "short-monotonic", "--no-pager", "-n", "200", "-u", "bulkhead-*", status=None)


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def show(unit, name):
    return run("systemctl", "show", "-P", name, unit).strip()


def measured(what, seconds):
    print(f"measured: {what}: {seconds:.1f} s", flush=True)


def files():
    """Each file with its owner and mode."""
    found = {}
    for top in FILES:
        for path, directories, names in os.walk(top):
            directories[:] = [name for name in directories if not OTHERS.match(f"{path}/{name}")]
            for name in directories + names:
                full = f"{path}/{name}"
                if not OTHERS.match(full):
                    status = os.lstat(full)
                    found[full] = (status.st_uid, status.st_gid, status.st_mode)
    return found


def state():
    """What a purge must restore."""
    with open("/etc/passwd", encoding="utf-8") as users, open("/etc/group", encoding="utf-8") as groups:
        return {"files": files(), "users": sorted(users), "groups": sorted(groups), "profiles": loaded_profiles()}


def has_apparmor():
    return os.path.exists(APPARMOR)


def has_selinux():
    return os.path.exists("/sys/fs/selinux/enforce") and lib.read("/sys/fs/selinux/enforce").strip() == "1"


def loaded_profiles():
    if not has_apparmor():
        return set()
    with open(f"{APPARMOR}/profiles", encoding="ascii") as f:
        return {line.split()[0] for line in f if line.startswith("bulkhead-")}


def label_of(pid):
    return (lib.read(f"/proc/{pid}/attr/current") or "").rstrip("\0\n")


def context_of(role):
    return f"system_u:system_r:bulkhead_{role}_t:s0"


def denials():
    """What AppArmor has refused to the roles so far, or SELinux to them and of what is theirs."""
    said = run("journalctl", "-b", "-o", "cat", "--no-pager", "_TRANSPORT=audit", "+", "_TRANSPORT=kernel", status=None)
    return [line for line in said.splitlines() if re.search(r'apparmor="DENIED"|avc:  denied', line) and "bulkhead" in line]


def copy_of(path, directory):
    """A program that no role has seen yet."""
    return lib.shutil.copy(path, directory)


def agent_processes():
    """{pid: (ppid, comm, executable)} of all processes of the agent, helpers too."""
    return {pid: process for pid, process in lib.processes().items() if os.path.dirname(process[2]) == PROGRAMS}


class Booted(lib.Case):
    server = before = None
    cycles = 0  # how often each role is killed, and stopped

    def status(self):
        done = subprocess.run([lib.BULKHEAD, "status", "--json"], capture_output=True, text=True, check=False)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def ready(self):
        return subprocess.run([lib.BULKHEAD, "status", "--ready"], capture_output=True, check=False).returncode == 0

    def states(self):
        """{unit: ActiveState}"""
        units = ["bulkhead.target", *SERVICES.values()]
        return dict(zip(units, run("systemctl", "is-active", *units, status=None).split(), strict=True))

    def assert_all(self, wanted):
        found = self.states()
        if set(found.values()) != {wanted}:
            self.fail(f"not all {wanted}: {found}\n{journal()}")

    def assert_healthy(self):
        """Polls, since systemd may still be busy with jobs of its own."""
        self.wait_for("systemd to be done", lambda: run("systemctl", "is-system-running", status=None).strip() not in ("starting", "initializing"))
        self.assertEqual(run("systemctl", "is-system-running", status=None).strip(), "running")

    def wait_until_ready(self):
        try:
            self.wait_for("the roles", lambda: self.ready() and set(self.states().values()) == {"active"})
        except AssertionError as error:
            raise AssertionError(f"{error}\n{journal()}") from error

    def assert_chain(self, program):
        """Waits until the latest requests have the chain of the program. Until the tables of its files are built, stacks are cut."""
        seen = {"next": len(self.server.calls), "samples": [], "faults": []}

        def is_right():
            time.sleep(1)
            # Each request is decoded once, because that takes long here.
            new = self.server.calls[seen["next"]:]
            seen["next"] += len(new)
            for call in new:
                seen["samples"] += [s for s in otlp_decode.decode(otlp_decode.request(call.request)) if s["resource"].get("process.pid") == program.pid]
            if sum(map(otlp_decode.count, seen["samples"])) < CHAIN_SAMPLES:
                return False
            seen["faults"] = lib.compare(otlp_decode.folded(seen["samples"]), program.expectation, least_share=0.98, least_samples=CHAIN_SAMPLES)
            seen["samples"] = []
            return not seen["faults"]
        try:
            self.wait_for("right stacks", is_right)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{seen['faults']}\n{journal()}") from error

    def assert_accounted(self, status):
        self.assertEqual(status["taken"] + status["spooled_at_start"],
                         status["delivered"] + status["waiting"] + status["in_flight"] + sum(status["lost"].values()), status)

    def assert_never_restarted(self):
        found = {role: show(unit, "NRestarts") for role, unit in SERVICES.items()}
        if set(found.values()) != {"0"}:
            self.fail(f"restarts: {found}\n{journal()}")

    # The steps

    def healthy_before(self):
        self.assert_healthy()
        type(self).before = state()

    def enforced(self):
        self.assertTrue(has_selinux())

    def install(self):
        began = time.monotonic()
        run("dpkg", "-i", next(iter(sorted(lib.glob.glob(f"{lib.SOURCE}/*.deb")))))
        measured("dpkg -i", time.monotonic() - began)
        self.assert_all("inactive")
        self.assertEqual(loaded_profiles(), {f"bulkhead-{name}" for name in UNITS.values()} if has_apparmor() else set())

    def configure(self):
        """As debian/README.Debian says."""
        write("/etc/sysctl.d/bulkhead.conf", "kernel.perf_event_paranoid = 2\n")
        run("/lib/systemd/systemd-sysctl")
        with open(CONFIGURATION, "a", encoding="utf-8") as f:
            f.write(OPTIONS)
        write(DROP_IN, SLOW)
        run("bulkhead", "doctor")
        run("bulkhead", "run", "--check")

    def start(self):
        began = time.monotonic()
        run("systemctl", "enable", "--now", "bulkhead.target")
        measured("systemctl enable --now bulkhead.target", time.monotonic() - began)
        self.assert_all("active")
        self.wait_until_ready()
        self.assert_healthy()
        self.assert_never_restarted()

    def chains(self):
        with lib.Program("recursion", 28) as program:
            self.assert_chain(program)

    def privileges(self):
        """`bulkhead audit` says the same as /proc, and both what the policies say."""
        pids = {role: int(show(unit, "MainPID")) for role, unit in SERVICES.items()}
        everything = agent_processes()
        self.assertLessEqual(set(pids.values()), set(everything))
        faults = []
        for pid, (parent, _, _) in everything.items():
            role = next((role for role, main in pids.items() if main in (pid, parent)), None)
            self.assertIsNotNone(role, everything)
            status = lib.proc_status(pid)
            faults += test_services.privilege_faults(role, self.uid(role), status)
            self.assertGreater(min(map(int, status["Uid"].split())), 0)
        self.assertEqual(faults, [])
        # The service manager has many files that a container or a command lacks; some properties are only shown.
        report = json.loads(run("bulkhead", "audit", "--json"))
        self.assertTrue(report["agrees"], report)
        found = {(result["pid"], result["property"]): result["found"] for result in report["results"]}
        self.assertEqual({pid for pid, _ in found if pid}, set(everything))
        for pid in everything:
            status = lib.proc_status(pid)
            held = int(status["CapEff"], 16)
            names = [name for name, bit in sorted(test_services.CAPABILITY_BITS.items(), key=lambda item: item[1]) if held & 1 << bit]
            self.assertEqual(found[pid, "capabilities"] != "none", bool(names), found[pid, "capabilities"])
            for name in names:
                self.assertIn(name, found[pid, "capabilities"])
            if has_apparmor() or has_selinux():
                self.assertEqual(found[pid, "label"], label_of(pid))

    def uid(self, role):
        return int(run("id", "-u", show(SERVICES[role], "User")))

    def assert_labels(self, unconfined):
        everything = agent_processes()
        units = {int(show(unit, "MainPID")): unit.removesuffix(".service") for unit in SERVICES.values()}
        for pid, (parent, _, _) in everything.items():
            unit = units.get(pid) or units[parent]
            self.assertEqual(label_of(pid), "unconfined" if unit in unconfined else f"{unit} (enforce)")

    def labels(self):
        if has_apparmor():
            self.assert_labels({"bulkhead-opener"})
        if has_selinux():
            mains = {int(show(unit, "MainPID")): role for role, unit in SERVICES.items()}
            for pid, (parent, _, _) in agent_processes().items():
                self.assertEqual(label_of(pid), context_of(mains.get(pid) or mains[parent]))

    def containers(self):
        """Programs that AppArmor confines like those of a container are profiled like others."""
        if not has_apparmor():
            return
        write(f"{self.directory}/profile", CONTAINER)
        run("apparmor_parser", "-r", f"{self.directory}/profile")
        with lib.Program("recursion", 28, path=copy_of(os.path.join(lib.PROGRAMS, "recursion"), self.directory), wrapper=("aa-exec", "-p", "like-a-container", "--")) as program:
            self.assertEqual(label_of(program.pid), "like-a-container (enforce)")
            self.assert_chain(program)
        run("apparmor_parser", "-R", f"{self.directory}/profile")

    def confined_opener(self):
        """The opener works under its profile too."""
        if not has_apparmor():
            return
        write(OPENER_DROP_IN, "[Service]\nAppArmorProfile=bulkhead-opener\n")
        run("systemctl", "daemon-reload")
        run("systemctl", "restart", "bulkhead.target")
        self.wait_until_ready()
        self.assert_labels(set())
        with lib.Program("recursion", 28, path=copy_of(os.path.join(lib.PROGRAMS, "recursion"), self.directory)) as program:
            self.assert_chain(program)

    def denials(self):
        """What works, works without a refusal by the security module."""
        self.assertEqual(denials(), [])

    def refusals(self):
        """The security module alone refuses what an attacker would do in each role: to a process of root, without a filter, with the label of the role."""
        if not has_apparmor() and not has_selinux():
            return
        control, = test_taken_over.parse(run(TAKEN_OVER, "control")).values()
        proven = {name for name, outcome in control.items() if outcome == "works"}
        for role, unit in UNITS.items():
            label = context_of(role) if has_selinux() else f"bulkhead-{unit}"
            outcomes, = test_taken_over.parse(run(TAKEN_OVER, "labelled", label)).values()
            permitted = SELINUX_NOT_JUDGED | SELINUX_PERMITTED[unit] if has_selinux() else NOT_JUDGED | PERMITTED[unit]
            refused = {name for name in proven if outcomes[name] in ("EACCES", "EPERM")}
            print(f"measured: {label}: {len(refused)} of {len(proven)} actions refused by the security module", flush=True)
            self.assertEqual(proven - refused - permitted, set(), role)
            self.assertGreaterEqual(len(refused), REFUSED_LEAST, role)
            self.assertEqual(outcomes["secret"], "unchanged", role)

    def strangers(self):
        """A process that has the uid of the worker, but not its domain, is no worker: it would replace the right one otherwise."""
        if not has_selinux():
            return
        pids = {role: show(unit, "MainPID") for role, unit in SERVICES.items()}
        for role in ("manager", "opener", "exporter"):
            code = (f"import socket\ns = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\ns.settimeout({lib.PATIENCE})\n"
                    f"s.connect('/run/bulkhead/{lib.ROLE_TABLE[role.upper()]['directory']}/sock')\nprint(s.recv(1))")
            self.assertEqual(run("setpriv", "--reuid", str(self.uid("worker")), "--clear-groups", "python3", "-c", code).strip(), "b''", role)
        self.assertEqual({role: show(unit, "MainPID") for role, unit in SERVICES.items()}, pids)
        self.assertIn("refused a connection from a process that is not an expected role", journal())

    def kills(self):
        """Each role is killed; all are active again, and stacks are right again."""
        with lib.Program("recursion", 28, seconds=3600) as program:
            for cycle in range(self.cycles):
                for role, unit in SERVICES.items():
                    pids = {other: show(service, "MainPID") for other, service in SERVICES.items()}
                    before, began = pids[role], time.monotonic()
                    os.kill(int(before), signal.SIGKILL)
                    self.wait_for(f"another {role}", lambda unit=unit, before=before: show(unit, "MainPID") not in ("0", before))
                    self.wait_until_ready()
                    measured(f"{role} killed ({cycle + 1}), all ready again", time.monotonic() - began)
                    self.assert_chain(program)
                    self.assert_accounted(self.status())
                    changed = {other for other, pid in pids.items() if show(SERVICES[other], "MainPID") != pid}
                    self.assertEqual(changed, FOLLOWING.get(role, {role}), journal())
        print("measured: lost by kills: " + json.dumps(self.status()["lost"]), flush=True)

    def stops(self):
        """A role that stands still for five seconds goes on."""
        with lib.Program("recursion", 28, seconds=3600) as program:
            for cycle in range(self.cycles):
                for role, unit in SERVICES.items():
                    pid = int(show(unit, "MainPID"))
                    os.kill(pid, signal.SIGSTOP)
                    time.sleep(STOPPED_SECONDS)
                    began = time.monotonic()
                    os.kill(pid, signal.SIGCONT)
                    self.wait_until_ready()
                    measured(f"{role} stopped ({cycle + 1}), ready again", time.monotonic() - began)
                    self.assertEqual(int(show(unit, "MainPID")), pid)
                    self.assert_chain(program)
                    self.assert_accounted(self.status())
        print("measured: lost after stops: " + json.dumps(self.status()["lost"]), flush=True)

    def pins(self):
        """{name: number of the inode, which no later pin has}"""
        return {name: os.stat(f"{PINS}/{name}").st_ino for name in os.listdir(PINS)}

    def upgrade(self):
        """A package with other BPF programs is installed while roles run: all of them are its own, what the last loader had pinned is gone, and the pause is counted."""
        with lib.Program("recursion", 28, seconds=3600) as program:
            self.assert_chain(program)
            mains, pins = {role: show(unit, "MainPID") for role, unit in SERVICES.items()}, self.pins()
            self.assertIn("state", pins)
            run("dpkg", "-i", next(iter(lib.glob.glob(f"{lib.SOURCE}/next/*.deb"))))
            self.assertIn("+next", run("dpkg-query", "-W", "-f", "${Version}", "bulkhead"))
            self.wait_until_ready()
            self.assertEqual([role for role, pid in mains.items() if show(SERVICES[role], "MainPID") == pid], [], journal())
            new_pins = self.pins()
            self.assertIn("state", new_pins)
            self.assertEqual(set(pins.values()) & set(new_pins.values()), set())
            self.assert_chain(program)
            status = self.status()
            self.assert_accounted(status)
            self.assertGreater(status["paused_ms"], 0)
            self.assertIn("nothing was sampled while all roles were started again", journal())
            measured("not sampled during an upgrade", status["paused_ms"] / 1000)
        self.assert_healthy()

    def stop(self):
        began = time.monotonic()
        run("systemctl", "stop", "bulkhead.target", *SERVICES.values())
        measured("systemctl stop", time.monotonic() - began)
        self.assert_all("inactive")
        self.assertEqual({unit: show(unit, "Result") for unit in SERVICES.values()}, dict.fromkeys(SERVICES.values(), "success"))
        self.assertEqual(agent_processes(), {})
        self.assert_healthy()
        said = run("journalctl", "-b", "-o", "cat", "--no-pager", "-u", SERVICES["control"])
        accounts = agent.accounts_of(said)
        print(f"measured: accounts: {json.dumps(accounts)}", flush=True)
        for account in accounts:
            self.assertEqual(account["taken"] + account["spooled_at_start"], account["delivered"] + account["waiting"] + account["lost"])
        self.assertEqual(accounts[-1]["waiting"], 0)
        # Accepted by the receiver, each once.
        self.assertEqual(sum(map(otlp_decode.count, test_services.all_samples(self.server))), sum(account["delivered"] for account in accounts))

    def purge(self):
        """While it runs."""
        run("systemctl", "start", "bulkhead.target")
        self.assert_all("active")
        run("dpkg", "--purge", "bulkhead")
        for path in ("/etc/sysctl.d/bulkhead.conf", DROP_IN, OPENER_DROP_IN):
            os.unlink(path)
        for path in (DROP_IN, OPENER_DROP_IN):
            os.rmdir(os.path.dirname(path))
        self.assertEqual(agent_processes(), {})
        after = state()
        for kind, found in type(self).before.items():
            if kind != "files":
                self.assertEqual(after[kind], found, kind)
        before = type(self).before["files"]
        self.assertEqual({path: (before.get(path), after["files"].get(path)) for path in before.keys() | after["files"] if before.get(path) != after["files"].get(path)}, {})
        run("systemctl", "daemon-reload")
        self.assertEqual(run("systemctl", "list-units", "--all", "--no-legend", "--plain", "bulkhead*").split(), [])
        self.assertEqual(run("systemctl", "list-unit-files", "--no-legend", "bulkhead*", status=None).split(), [])
        self.assert_healthy()


STEPS = ("healthy_before", "install", "configure", "start", "chains", "privileges", "labels", "containers")
LONG = ("kills", "stops", "confined_opener", "denials", "refusals", "upgrade", "stop", "purge")
SHORT = ("upgrade", "stop")
# The package was installed and configured before the guest was labelled.
SELINUX = ("enforced", "start", "chains", "privileges", "labels", "denials", "strangers", "refusals", "stop")


def main():
    with open("/proc/cmdline", encoding="ascii") as f:
        arguments = dict(argument.partition("=")[::2] for argument in f.read().split())
    Booted.cycles = int(arguments.get("bulkhead.cycles", 0))
    steps = sys.argv[1:] or (SELINUX if "bulkhead.selinux" in arguments else STEPS + (LONG if Booted.cycles else SHORT))
    with contextlib.ExitStack() as stack:
        Booted.server = stack.enter_context(scripted.Server(port=PORT))
        result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2, failfast=True).run(unittest.TestSuite(map(Booted, steps)))
    if not result.wasSuccessful():
        print("\n".join(denials()))
    print("passed" if result.wasSuccessful() and result.testsRun == len(steps) else "failed", flush=True)


if __name__ == "__main__":
    try:
        main()
    finally:
        if not sys.argv[1:]:
            run("systemctl", "poweroff", "--no-block")
