# SPDX-License-Identifier: Apache-2.0
"""Roles: what /proc says of each process during a recording equals its row in ARCHITECTURE.md, section 1."""
import os
import re
import signal

import lib

CAP = {"DAC_READ_SEARCH": 2, "SETPCAP": 8, "SYS_PTRACE": 19, "SYSLOG": 34, "PERFMON": 38, "BPF": 39, "CHECKPOINT_RESTORE": 40}
# Capabilities of a role while it records; roles that are not listed hold none.
HOLDS = {"loader": {"BPF", "PERFMON"}, "opener": {"SYS_PTRACE", "DAC_READ_SEARCH", "CHECKPOINT_RESTORE"}, "manager": set(), "worker": set(), "exporter": set()}
# Kinds of open descriptors. Only the loader has programs. Regular files are received from peers, read-only except for the exporter's outputs.
COMMON = {"socket:unix", "null", "pipe", "eventpoll", "eventfd", "timerfd", "signalfd", "pidfd"}
PROC = {"proc", "proc:text"}
KINDS = {
    "loader": COMMON | {"bpf-map", "bpf-prog", "bpf_link", "perf_event", "btf", "file:r"},  # the list of online CPUs
    "manager": COMMON | {"bpf-map", "perf_event", "file:r", "memfd", "proc:text"},  # maps, stat and cgroup of a process, until they are read
    "opener": COMMON | {"dir"} | PROC,
    "worker": COMMON | {"bpf-map", "file:r", "memfd"} | PROC,
    "exporter": COMMON | {"bpf-map", "file:w", "memfd"},
    # What it opens, until it has sent it; what it reads.
    "helper of opener": {"socket:unix", "null", "file:r"} | PROC,
    "helper of manager": {"socket:unix", "null", "file:r", "memfd"} | PROC,
    "helper of worker": {"socket:unix", "null"} | PROC,
}
# Children of a role: their names, and how many there are. They are what the role is, but have no descriptor of it, only one socket.
# The worker starts its helpers when it needs them.
HELPERS = {"bulkhead-symh": ("opener", {2}), "bulkhead-mgrh": ("manager", {2, 3}), "bulkhead-symwh": ("worker", {0, 1})}
SHARED_MEMORY = re.compile(r"^\S+ ...s .*", re.MULTILINE)  # a line of /proc/PID/maps


def mask(names):
    return sum(1 << CAP[name] for name in names)


def internet_inodes(pid):
    """Sockets of every family except Unix in the process's network namespace."""
    found = set()
    for table in ("tcp", "tcp6", "udp", "udp6", "udplite", "raw", "raw6", "packet", "netlink", "icmp", "icmp6"):
        for line in (lib.read(f"/proc/{pid}/net/{table}") or "").splitlines()[1:]:
            words = line.split()
            found.add(words[8] if table == "packet" else words[-1] if table == "netlink" else words[9])
    return found


def kind_of(pid, fd, not_unix, inherited):
    target = os.readlink(f"/proc/{pid}/fd/{fd}")
    if int(fd) <= 2 and target in inherited:
        return "null"  # stderr is inherited from the CLI
    flags = int(re.search(r"^flags:\s*0?([0-7]+)", lib.read(f"/proc/{pid}/fdinfo/{fd}") or "flags: 0", re.M).group(1), 8)
    if target == "/dev/null":
        return "null"
    if match := re.fullmatch(r"socket:\[(\d+)\]", target):
        return "socket:not unix" if match.group(1) in not_unix else "socket:unix"
    if match := re.fullmatch(r"anon_inode:\[?(.*?)\]?", target):
        return match.group(1)
    if target.startswith("pipe:"):
        return "pipe"
    if target.startswith("/memfd:"):
        return "memfd"
    if re.fullmatch(r"/proc/\d+/(maps|stat|cgroup)", target):
        return "proc:text"
    if re.match(r"/proc/\d+(/|$)|/proc$", target):
        return "proc"
    if os.path.isdir(f"/proc/{pid}/fd/{fd}"):
        return "dir"
    if target.startswith("/dev/"):
        return target
    return "file:w" if flags & (os.O_WRONLY | os.O_RDWR) else "file:r"


def faults_of(role, status, fds):
    """The faults of one role, from the text of its status and the kinds of its descriptors."""
    faults = []
    uids, gids = (set(status[key].split()) for key in ("Uid", "Gid"))
    if len(uids) != 1 or "0" in uids or len(gids) != 1 or "0" in gids:
        faults.append(f"uid {status['Uid']} gid {status['Gid']}")
    if status["Groups"].split() and set(status["Groups"].split()) - gids:
        faults.append(f"supplementary groups {status['Groups']}")
    allowed = mask(HOLDS[role.removeprefix("helper of ")])
    for key, exact in (("CapEff", True), ("CapPrm", True), ("CapInh", False), ("CapBnd", False), ("CapAmb", False)):
        held = int(status[key], 16)
        if held & ~allowed or exact and held != allowed:
            faults.append(f"{key} {held:x}, policy {allowed:x}")
    if status["NoNewPrivs"].strip() != "1":
        faults.append("no_new_privs is not set")
    if status["Seccomp"].strip() != "2":
        faults.append(f"seccomp mode {status['Seccomp']}")
    faults += [f"fd {fd} is {kind}" for fd, kind in fds.items() if kind not in KINDS[role]]
    if role.startswith("helper of ") and list(fds.values()).count("socket:unix") != 1:
        faults.append(f"has not one socket: {fds}")
    return [f"{role}: {fault}" for fault in faults]


class Checker(lib.unittest.TestCase):
    """The checker reports each kind of fault."""
    GOOD = {"Uid": "61001\t61001\t61001\t61001", "Gid": "61001\t61001\t61001\t61001", "Groups": "", "CapInh": "0", "CapPrm": "c000000000",
            "CapEff": "c000000000", "CapBnd": "c000000000", "CapAmb": "0", "NoNewPrivs": "1", "Seccomp": "2"}

    def test_checker(self):
        self.assertEqual(faults_of("loader", self.GOOD, {"3": "bpf-prog"}), [])
        for change in ({"Uid": "0\t0\t0\t0"}, {"Uid": "61001\t0\t61001\t61001"}, {"Gid": "0\t0\t0\t0"}, {"Groups": "0 4"}, {"CapPrm": "0"}, {"CapEff": "1ffffffffff"},
                       {"CapEff": "4000000000"}, {"CapBnd": "1ffffffffff"}, {"CapAmb": "1"}, {"NoNewPrivs": "0"}, {"Seccomp": "0"}, {"Seccomp": "1"}):
            self.assertTrue(faults_of("loader", {**self.GOOD, **change}, {}), change)
        none = {**self.GOOD, "CapPrm": "0", "CapEff": "0", "CapBnd": "0"}
        self.assertEqual(faults_of("manager", none, {"3": "file:r", "4": "proc:text"}), [])
        for fds in ({"3": "bpf-prog"}, {"3": "socket:not unix"}, {"3": "file:w"}, {"3": "/dev/mem"}, {"3": "proc"}):
            self.assertTrue(faults_of("manager", none, fds), fds)
        self.assertTrue(faults_of("manager", self.GOOD, {}))
        opener = {**self.GOOD, **dict.fromkeys(("CapPrm", "CapEff"), f"{mask(HOLDS['opener']):x}"), **dict.fromkeys(("CapBnd",), "0")}
        self.assertEqual(faults_of("helper of opener", opener, {"2": "null", "3": "socket:unix", "4": "proc"}), [])
        for fds in ({}, {"3": "socket:unix", "4": "socket:unix"}, {"2": "pipe", "3": "socket:unix"}, {"3": "socket:unix", "4": "eventpoll"}):
            self.assertTrue(faults_of("helper of opener", opener, fds), fds)


class Roles(lib.Case):
    def look(self, role, pid, not_unix, inherited):
        status = lib.proc_status(pid)
        fds = {}
        for fd in os.listdir(f"/proc/{pid}/fd"):
            try:
                fds[fd] = kind_of(pid, fd, not_unix, inherited)
            except FileNotFoundError:
                pass  # closed in the meantime
        return status, faults_of(role, status, fds)

    def test_while_recording(self):
        with lib.Program("pingpong", 60):
            process = self.start(seconds=None, freq=199)
            roles = self.wait_until_recording(process)
            inherited = {os.readlink(f"/proc/{process.pid}/fd/{n}") for n in (0, 1, 2)}
            faults, uids = [], {}
            for _ in range(20):  # repeatedly, because open descriptors change while a role works
                for role, pid in roles.items():
                    status, found = self.look(role, pid, internet_inodes(pid), inherited)
                    faults += [f for f in found if f not in faults]
                    uids[role] = status["Uid"].split()[0]
                    threads = os.listdir(f"/proc/{pid}/task")
                    for tid in threads:
                        task = lib.proc_status(f"{pid}/task/{tid}")
                        if task and (task["Seccomp"], task["CapEff"]) != (status["Seccomp"], status["CapEff"]):
                            faults.append(f"{role}: thread {tid} differs")
            helpers = dict.fromkeys(HELPERS, 0)
            for pid, (parent, comm, executable) in lib.bulkhead_processes().items():
                role, _ = HELPERS.get(comm, (None, None))
                if role and parent == roles[role]:
                    faults += self.look(f"helper of {role}", pid, internet_inodes(pid), inherited)[1]
                    faults += [f"helper of {role} shares memory: {line}" for line in SHARED_MEMORY.findall(lib.read(f"/proc/{pid}/maps") or "")]
                    helpers[comm] += 1
                elif pid != process.pid and pid not in roles.values() and os.path.basename(executable) != "bulkhead":
                    faults.append(f"another process: {pid} {comm} {executable}, CapEff {(lib.proc_status(pid) or {}).get('CapEff')}")
            if any(helpers[name] not in counts for name, (_, counts) in HELPERS.items()):
                faults.append(f"helpers: {helpers}")
            process.send_signal(signal.SIGINT)
            recording = self.finish(process)
        print("uids: " + str(uids))
        if len(set(uids.values())) != len(uids):
            faults.append(f"roles share a uid: {uids}")
        self.assert_none(faults, recording)

    def test_nobody_can_reach_into_a_role(self):
        """Not dumpable: another process of the same uid cannot read its memory or trace it."""
        process = self.start(seconds=None, freq=49)
        for role, pid in self.wait_until_recording(process).items():
            with self.subTest(role):
                self.assertEqual(os.stat(f"/proc/{pid}/mem").st_uid, 0, "its /proc files belong to its uid: it is dumpable")
        process.send_signal(signal.SIGINT)
        self.finish(process)

    def test_environment_is_not_handed_down(self):
        process = self.start(seconds=None, freq=49, env={**os.environ, "E2E_SECRET": "do not pass on", "LD_E2E": "x"})
        for role, pid in self.wait_until_recording(process).items():
            with self.subTest(role):
                self.assertNotIn("E2E_SECRET", lib.read(f"/proc/{pid}/environ") or "")
        process.send_signal(signal.SIGINT)
        self.finish(process)


if __name__ == "__main__":
    lib.main()
