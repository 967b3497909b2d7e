# SPDX-License-Identifier: Apache-2.0
"""Roles of a running agent: checks in /proc what each may do. The exporter needs most of the checks, because it has threads and a network."""
import collections
import os
import re
import signal

import lib
import scripted_server as scripted
import test_roles
from agent import Agent

THREADS_MAX = 128  # exporter/delivery/policy.c
WORKER_THREADS_MAX = 5  # role/process_work.h
PROCESSES_MAX = {"opener": 11, "manager": 16, "worker": 10}  # policy.c of the role: itself, its threads and its helpers, those that hang too
# Other roles hold the same as in a recording. The exporter holds its peers and connections, the spool, three memfds, and the gRPC library's own loop.
KINDS = {**test_roles.KINDS, "exporter": {"socket:unix", "socket:tcp", "socket:udp", "null", "eventpoll", "eventfd", "pipe", "memfd:stats", "memfd:journal", "memfd:spool",
                                          "spool", "reachable"}}
# exporter/delivery/configure.c allows these files, which are open for a moment whenever a name is looked up.
REACHABLE = {"/etc/hosts", "/etc/resolv.conf", "/etc/host.conf", "/etc/nsswitch.conf", "/etc/gai.conf", "/dev/urandom",
             "/sys/devices/system/cpu/possible", "/sys/devices/system/cpu/online"}
STATUS_UNDELIVERED = 5  # common/exit_status.h
TCP_LISTEN = 0x0A
UNIX_ACCEPTS = 0x10000  # net/unix: __SO_ACCEPTCON

Socket = collections.namedtuple("Socket", "table listens remote_port")


def sockets_of(pid):
    """{inode: Socket} of the process's network namespace, held by any process, without Unix sockets that do not listen."""
    found = {}
    for table in ("tcp", "tcp6", "udp", "udp6", "udplite", "udplite6", "raw", "raw6", "icmp", "icmp6"):
        for line in (lib.read(f"/proc/{pid}/net/{table}") or "").splitlines()[1:]:
            words = line.split()
            kind = table.removesuffix("6")
            found[words[9]] = Socket(kind, kind == "tcp" and int(words[3], 16) == TCP_LISTEN, int(words[2].rpartition(":")[2], 16))
    for table, column in (("packet", 8), ("netlink", -1)):
        for line in (lib.read(f"/proc/{pid}/net/{table}") or "").splitlines()[1:]:
            found[line.split()[column]] = Socket(table, False, 0)
    for line in (lib.read(f"/proc/{pid}/net/unix") or "").splitlines()[1:]:
        words = line.split()
        if int(words[3], 16) & UNIX_ACCEPTS:
            found[words[6]] = Socket("unix", True, 0)
    return found


def refine(kind, target, spool, sockets):
    """The kind of a descriptor as in test_roles, in more detail where an exporter needs it. `target` is what it points to."""
    if match := re.fullmatch(r"socket:\[(\d+)\]", target):
        return "socket:" + sockets.get(match[1], Socket("unix", False, 0)).table
    if match := re.fullmatch(r"/memfd:bulkhead-(\w+)(?: \(deleted\))?", target):
        return f"memfd:{match[1]}"
    path = target.removesuffix(" (deleted)")
    if path == spool or path.startswith(spool + "/"):
        return "spool"
    return "reachable" if path in REACHABLE and kind != "file:w" else kind


def thread_faults(role, leader, threads):
    """The faults in {tid: status} of one role. All threads must be like the first one, and only exporter and worker may have more than one."""
    faults = []
    for tid, status in threads.items():
        for key in ("Uid", "Gid", "CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Seccomp_filters"):
            if status.get(key) != leader.get(key):
                faults.append(f"{role}: thread {tid} ({status['Name'].strip()}) has {key} {status.get(key)}, the first {leader.get(key)}")
        if status["Seccomp"].strip() != "2":
            faults.append(f"{role}: thread {tid} has seccomp mode {status['Seccomp']}")
    if len(threads) > {"exporter": THREADS_MAX, "worker": WORKER_THREADS_MAX}.get(role, 1):
        faults.append(f"{role}: {len(threads)} threads, more than its cap")
    return faults


def socket_faults(role, held, sockets, backend_port):
    """The faults of the sockets that a role holds, found by their inodes."""
    faults = []
    mine = [sockets[inode] for inode in held if inode in sockets]
    faults += [f"{role}: listens on {s.table}" for s in mine if s.listens and s.table != "unix"]  # for roles that come later
    faults += [f"{role}: a socket of {s.table}" for s in mine if s.table != "unix" and role != "exporter"]
    faults += [f"{role}: connected to port {s.remote_port}" for s in mine if s.table == "tcp" and s.remote_port not in (0, backend_port)]
    return faults


def mapping_faults(role, maps):
    """The faults in the text of /proc/PID/maps: no memory may be writable and executable; the exporter may map one BPF map, only for reading."""
    faults = []
    for line in maps.splitlines():
        fields = line.split(None, 5)
        flags, name = fields[1], fields[5] if len(fields) > 5 else ""
        if "w" in flags and "x" in flags:
            faults.append(f"{role}: writable and executable: {line}")
        if role == "exporter" and "bpf" in name and "w" in flags:
            faults.append(f"{role}: may write a BPF map: {line}")
    return faults


def limit_faults(role, limits):
    """The faults in the text of /proc/PID/limits."""
    wanted = {"Max core file size": ("0", "0"), "Max processes": ("0", "0")}
    if role in PROCESSES_MAX:
        wanted |= {"Max processes": (str(PROCESSES_MAX[role]),) * 2}
    if role == "exporter":
        wanted |= {"Max processes": (str(THREADS_MAX),) * 2, "Max open files": ("256", "256")}
    found = {}
    for line in limits.splitlines():
        if match := re.match(r"(Max [a-z ]+?)\s{2,}(\S+)\s+(\S+)", line):
            found[match[1]] = (match[2], match[3])
    return [f"{role}: {name} {found.get(name)}, policy {value}" for name, value in wanted.items() if found.get(name) != value]


class Checker(lib.unittest.TestCase):
    """The checkers report each kind of fault."""
    THREAD = {**test_roles.Checker.GOOD, "Name": "event_engine", "Seccomp_filters": "1"}

    def test_kinds(self):
        sockets = {"5": Socket("tcp", False, 4317), "6": Socket("netlink", False, 0)}
        for kind, target, expected in (("null", "/dev/null", "null"), ("socket:unix", "socket:[4]", "socket:unix"), ("socket:not unix", "socket:[5]", "socket:tcp"),
                                       ("socket:not unix", "socket:[6]", "socket:netlink"), ("memfd", "/memfd:bulkhead-stats (deleted)", "memfd:stats"),
                                       ("memfd", "/memfd:filter (deleted)", "memfd"), ("dir", "/s/spool", "spool"), ("file:w", "/s/spool/0 (deleted)", "spool"),
                                       ("file:w", "/s/spool2", "file:w"), ("dir", "/s", "dir"), ("file:r", "/etc/hosts", "reachable"), ("file:w", "/etc/hosts", "file:w"),
                                       ("file:r", "/etc/passwd", "file:r"), ("bpf-map", "anon_inode:bpf-map", "bpf-map"), ("proc", "/proc/1/environ", "proc")):
            self.assertEqual(refine(kind, target, "/s/spool", sockets), expected)
            self.assertEqual(expected in KINDS["exporter"], expected not in ("socket:netlink", "memfd", "file:w", "dir", "file:r", "bpf-map", "proc"), expected)

    def test_threads(self):
        good = {"1": self.THREAD, "2": self.THREAD}
        self.assertEqual(thread_faults("exporter", self.THREAD, good), [])
        self.assertTrue(thread_faults("manager", self.THREAD, good))
        self.assertEqual(thread_faults("worker", self.THREAD, good), [])
        self.assertTrue(thread_faults("worker", self.THREAD, {str(n): self.THREAD for n in range(WORKER_THREADS_MAX + 1)}))
        self.assertTrue(thread_faults("exporter", self.THREAD, {str(n): self.THREAD for n in range(THREADS_MAX + 1)}))
        for change in ({"Seccomp": "0"}, {"CapEff": "1"}, {"Uid": "0\t0\t0\t0"}, {"NoNewPrivs": "0"}, {"Seccomp_filters": "2"}):
            self.assertTrue(thread_faults("exporter", self.THREAD, {"1": self.THREAD, "2": {**self.THREAD, **change}}), change)

    def test_sockets(self):
        sockets = {"1": Socket("unix", True, 0), "2": Socket("tcp", False, 4317), "3": Socket("tcp", True, 0), "4": Socket("tcp", False, 80), "5": Socket("udp", False, 53)}
        self.assertEqual(socket_faults("worker", ["1", "9"], sockets, 4317), [])
        self.assertEqual(socket_faults("exporter", ["2", "5", "9"], sockets, 4317), [])
        for role, held in (("exporter", "3"), ("exporter", "4"), ("worker", "2"), ("opener", "3"), ("loader", "5")):
            self.assertTrue(socket_faults(role, [held], sockets, 4317), (role, held))

    def test_mappings_and_limits(self):
        counters = "7f00-7f01 r--s 00000000 00:0e 1 anon_inode:bpf-map\n7f02-7f03 rw-p 00000000 00:00 0 \n7f04-7f05 r-xp 00000000 00:01 2 /lib/libc.so.6\n"
        self.assertEqual(mapping_faults("exporter", counters), [])
        self.assertTrue(mapping_faults("exporter", counters.replace("r--s", "rw-s")))
        self.assertTrue(mapping_faults("worker", counters.replace("r-xp", "rwxp")))
        limits = "Limit                     Soft Limit           Hard Limit           Units     \n" \
                 "Max core file size        0                    0                    bytes     \n" \
                 "Max processes             128                  128                  processes \n" \
                 "Max open files            256                  256                  files     \n"
        self.assertEqual(limit_faults("exporter", limits), [])
        self.assertEqual(limit_faults("opener", limits.replace("128", " 11")), [])
        self.assertTrue(limit_faults("opener", limits))
        self.assertTrue(limit_faults("worker", limits))
        self.assertTrue(limit_faults("loader", limits))
        self.assertTrue(limit_faults("exporter", limits.replace("128  ", "4096 ", 1)))
        self.assertTrue(limit_faults("exporter", ""))


class AgentRoles(lib.Case):
    def roles(self, running):
        """{role: pid}, once all of them are sandboxed."""
        def ready():
            roles = lib.roles_of(running.process.pid)
            return roles if len(roles) == len(lib.ROLES) and all(map(lib.sandboxed, roles.values())) else None
        return self.wait_for("five sandboxed roles", ready)

    def look(self, role, pid, running, backend_port, inherited):
        """The present faults of one role, and {fd: kind}."""
        sockets = sockets_of(pid)
        not_unix = {inode for inode, s in sockets.items() if s.table != "unix"}
        status = lib.proc_status(pid)
        self.assertIsNotNone(status, f"{role} has ended: {running.said()}")
        kinds, held = {}, set()
        for fd in os.listdir(f"/proc/{pid}/fd"):
            try:
                target = os.readlink(f"/proc/{pid}/fd/{fd}")
                kind = test_roles.kind_of(pid, fd, not_unix, inherited)
            except FileNotFoundError:
                continue  # closed meanwhile
            if match := re.fullmatch(r"socket:\[(\d+)\]", target):
                held.add(match[1])
            kinds[fd] = refine(kind, target, running.spool, sockets) if role == "exporter" else kind
        faults = test_roles.faults_of(role, status, {})
        faults += [f"{role}: fd {fd} is {kind}" for fd, kind in kinds.items() if kind not in KINDS[role]]
        threads = {tid: lib.proc_status(f"{pid}/task/{tid}") for tid in os.listdir(f"/proc/{pid}/task")}
        faults += thread_faults(role, status, {tid: s for tid, s in threads.items() if s})
        faults += socket_faults(role, held, sockets, backend_port)
        faults += mapping_faults(role, lib.read(f"/proc/{pid}/maps") or "")
        faults += limit_faults(role, lib.read(f"/proc/{pid}/limits") or "")
        if os.stat(f"/proc/{pid}/mem").st_uid != 0:
            faults.append(f"{role}: its files in /proc are its own: it is dumpable")
        return faults, kinds

    def look_often(self, running, backend_port):
        """Checks repeatedly, because open descriptors change while roles work. Prints those of the exporter; returns {kind: most at the same time}."""
        roles = self.roles(running)
        inherited = {os.readlink(f"/proc/{running.process.pid}/fd/{n}") for n in (0, 1, 2)}
        faults, most = [], collections.Counter()
        for _ in range(30):
            for role, pid in roles.items():
                found, kinds = self.look(role, pid, running, backend_port, inherited)
                faults += [f for f in found if f not in faults]
                if role == "exporter":
                    most |= collections.Counter(kinds.values())
        print(f"exporter: {len(os.listdir('/proc/%d/task' % roles['exporter']))} threads, {dict(most)}")
        self.assertEqual(faults, [], running.said())
        return most

    def test_while_it_delivers(self):
        with scripted.Server() as server, lib.Burner(), Agent(self, f"http://{server.target}") as running:
            server.wait(1)
            most = self.look_often(running, server.port)
            self.assertGreater(most["socket:tcp"], 0)
            self.assertEqual((most["memfd:stats"], most["memfd:journal"], most["memfd:spool"]), (1, 1, 1))
            roles = self.roles(running)
            uids = {role: lib.proc_status(pid)["Uid"].split()[0] for role, pid in roles.items()}
            print(f"uids: {uids}")
            self.assertEqual(len(set(uids.values())), len(lib.ROLES), uids)
            self.assertEqual(os.stat(running.spool).st_uid, int(uids["exporter"]))
            self.assertEqual(os.stat(running.spool).st_mode & 0o777, 0o700)
            others = [p for pid, p in lib.bulkhead_processes().items() if pid not in roles.values() and os.path.basename(p[2]) != "bulkhead"]
            helpers = collections.Counter(p[:2] for p in others)
            for name, (role, counts) in test_roles.HELPERS.items():
                self.assertIn(helpers.pop((roles[role], name), 0), counts, others)
            self.assertFalse(helpers, "other processes")
            # The exporter that replaces it holds no more than the first one.
            running.kill("exporter")
            self.wait_for("the agent to be ready again", running.ready)
            server.wait(len(server.calls) + 1)
            self.look_often(running, server.port)
            running.stop()

    def test_while_nobody_answers(self):
        """While the backend does not answer, requests go to the disk, and its name is looked up repeatedly."""
        with scripted.Server() as server:
            port = server.port
        with lib.Burner(), Agent(self, f"http://localhost:{port}", {"agent.drain_timeout": "1s"}) as running:
            self.wait_for("a segment on the disk", lambda: any(os.path.getsize(os.path.join(running.spool, name)) for name in os.listdir(running.spool)))
            most = self.look_often(running, port)
            self.assertGreater(most["spool"], 0)
            running.stop(STATUS_UNDELIVERED)

    def test_agent_gives_up_what_it_does_not_need(self):
        """The supervisor of `bulkhead run` is root with fourteen capabilities (cli/run.c): neither SYS_ADMIN nor any of the network, of modules or of devices."""
        numbers = (0, 1, 2, 3, 5, 6, 7, 8, 19, 24, 34, 38, 39, 40)
        with scripted.Server() as server, Agent(self, f"http://{server.target}") as running:
            status = lib.proc_status(running.process.pid)
            for name in ("CapPrm", "CapEff", "CapBnd"):
                self.assertEqual(int(status[name], 16) & ~sum(1 << number for number in numbers), 0, f"{name} {status[name]}")
            self.assertEqual(int(status["CapInh"], 16), 0)
            running.kill("worker")
            # An agent that ends while its roles start leaves the rest to the next one, with status 5.
            self.wait_for("the agent to be ready again", running.ready)
            running.stop()

    def test_agent_is_not_dumpable(self):
        """No core dump has its secrets. The kernel then gives its files in /proc to root and root's group, whatever group it runs as."""
        with scripted.Server() as server, Agent(self, f"http://{server.target}", wrapper=["setpriv", "--regid", "12345", "--clear-groups"]) as running:
            self.assertEqual(lib.proc_status(running.process.pid)["Gid"].split()[0], "12345")
            self.wait_for("the agent to be ready", running.ready)
            self.assertEqual(os.stat(f"/proc/{running.process.pid}/environ").st_gid, 0)

    def test_secrets_stay_where_they_are_needed(self):
        """Headers reach the exporter in a message, not in the environment or in arguments, which others can read."""
        environment = {"OTEL_EXPORTER_OTLP_HEADERS": "x-tenant=e2e-secret", "E2E_SECRET": "e2e-secret", "GRPC_TRACE": "all", "LD_E2E": "x"}
        options = {"export.plaintext_headers": "true"}
        with scripted.Server() as server, lib.Burner(), Agent(self, f"http://{server.target}", options, environment) as running:
            server.wait(1)
            self.assertEqual(server.calls[0].metadata["x-tenant"], "e2e-secret")
            for role, pid in self.roles(running).items():
                with self.subTest(role):
                    said = (lib.read(f"/proc/{pid}/environ") or "") + (lib.read(f"/proc/{pid}/cmdline") or "")
                    for word in ("e2e-secret", "GRPC_TRACE", "LD_E2E"):
                        self.assertNotIn(word, said)
            self.assertNotIn("e2e-secret", running.said())
            running.stop()

    def test_an_exporter_that_breaks_its_rules_is_replaced(self):
        """SIGSYS, which the filter sends, ends only the exporter, which is then replaced."""
        with scripted.Server() as server, lib.Burner(), Agent(self, f"http://{server.target}") as running:
            server.wait(1)
            before = self.roles(running)
            os.kill(before["exporter"], signal.SIGSYS)
            self.wait_for("another exporter", lambda: running.pid("exporter") not in (0, before["exporter"]))
            after = self.roles(running)
            self.assertEqual({r: p for r, p in after.items() if r != "exporter"}, {r: p for r, p in before.items() if r != "exporter"})
            running.stop()


if __name__ == "__main__":
    lib.main()
