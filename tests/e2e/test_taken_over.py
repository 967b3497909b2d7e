# SPDX-License-Identifier: Apache-2.0
"""Attacker code inside each role of a running recording, agent and set of services, after its sandbox is active, does nothing that the role may not do.

The programs are the ones that are shipped: tests/security/taken_over.c makes a fork of each running role execute the system calls of an attacker.
"""
import ctypes
import os
import re
import signal
import subprocess

import lib
import scripted_server as scripted
import services
import test_roles
from agent import Agent
from suspend import suspended

TAKEN_OVER = os.path.join(lib.BIN, "taken_over")
STRICT = {"loader": "loader", "manager": "manager", "opener": "strict opener", "worker": "strict worker", "exporter": "exporter"}
EXIT_SKIPPED = 77
PROVEN_LEAST = 100  # actions that succeed without a sandbox; some kernels and machines have fewer
SYS_LANDLOCK_CREATE_RULESET, LANDLOCK_VERSION = 444, 1
LANDLOCK_TCP = 4  # the first version that restricts TCP
# How the kernel refuses what the filter allows. Anything else would mean that the action has failed by accident.
DENIED = {"EACCES", "EPERM", "EAFNOSUPPORT", "EAGAIN", "ENOSYS"}

HELPERS = {"fork": "the helpers", "pair of sockets": "the helpers", "pair of sockets without messages": "the filter sees the family, not the type"}
OPENING = {"read a file": "what it opens for others", "open a path": "it may open what it may name", "list a directory": "/proc", "open its own program": "any file",
           "ask for a file of root": "it may open it anyway"}
# What an attacker can do in a role, and why that is part of the role: docs/privsep.md. Everything else must fail.
PERMITTED = {
    "loader": {"bpf: create a map": "slabs", "bpf: load a filter of sockets": "programs of language runtimes: a filter does not see the type",
               "bpf: load a tracing program": "the same; nothing attaches it", "perf: open an event": "a CPU that comes online",
               "perf: open an event of a process": "CAP_PERFMON: a filter does not see the arguments"},
    "manager": HELPERS,
    "worker": HELPERS,
    "opener": {**HELPERS, **OPENING, "read a file of root": "CAP_DAC_READ_SEARCH", "open a file of another process again": "what the process maps",
               "list descriptors of another process": "any directory", "open memory to read": "memory with a language runtime; it cannot read it itself",
               "open memory of another process of Bulkhead": "the same", "read an environment": "identity", "read mappings": "maps"},
    "exporter": {},
    "control": {"Unix socket": "it connects to roles that start again", "connect to a Unix socket": "a filter does not see the address; those of roles are checked by uid",
                "file in memory": "what exporter and supervisor share"},
    "strict opener": {**HELPERS, **OPENING, "read mappings": "maps"},
    "strict worker": {**HELPERS, "read memory, process_vm_readv": "memory with a language runtime"},
    "agent's exporter": {"socket of TCP": "the backend", "socket of UDP": "name servers", "socket of IPv6": "the backend", "send by UDP": "Landlock does not restrict UDP",
                         "ask for a file of root": "stat(2) by name: no Landlock for it",
                         "epoll": "gRPC", "pipe": "gRPC", "eventfd": "gRPC", "handler of signals": "abort(3)"},
}
# Only where the kernel has no Landlock, or not for TCP.
WITHOUT_LANDLOCK = {"read a file", "append to a file", "write a file", "open a path", "list a directory", "open standard error again", "open its own program",
                    "create a file", "delete a file"}
WITHOUT_LANDLOCK_TCP = {"connect by TCP to another port", "listen on a port of TCP"}


def landlock():
    return max(ctypes.CDLL(None, use_errno=True).syscall(SYS_LANDLOCK_CREATE_RULESET, None, 0, LANDLOCK_VERSION), 0)


def parse(text):
    """{pid: {action: outcome}}"""
    found = {}
    for line in text.splitlines():
        if match := re.fullmatch(r"process (\d+)", line):
            outcomes = found[int(match[1])] = {}
        else:
            name, _, outcome = line.rpartition(": ")
            outcomes[name] = outcome
    return found


def faults_of(role, outcomes, proven, permitted):
    """What an attacker in this role could do although he must not, and what a role should be able to do but is not."""
    faults = []
    for name, outcome in outcomes.items():
        if name in ("memory", "secret", "victim"):
            if outcome not in ("unchanged", "alive"):
                faults.append(f"{role}: {name} {outcome}")
        elif name not in proven:
            continue
        elif name in permitted:
            if outcome != "works":
                faults.append(f"{role}: {name}: {outcome}, although it is listed as permitted")
        elif outcome != "killed" and outcome not in DENIED:
            faults.append(f"{role}: {name}: {outcome}")
    faults += [f"{role}: {name} was not tried" for name in proven if name not in outcomes]
    return faults


class Checker(lib.unittest.TestCase):
    def test_checker(self):
        good = {"memory": "unchanged", "secret": "unchanged", "victim": "alive", "fork": "works", "mount": "killed", "SIGKILL": "EPERM"}
        self.assertEqual(faults_of("r", good, {"fork", "mount", "SIGKILL"}, {"fork": ""}), [])
        for change in ({"memory": "changed"}, {"victim": "ended"}, {"fork": "killed"}, {"mount": "works"}, {"mount": "EINVAL"}, {"SIGKILL": "blocked"}, {"mount": "signal 11"}):
            self.assertTrue(faults_of("r", {**good, **change}, {"fork", "mount", "SIGKILL"}, {"fork": ""}), change)
        self.assertTrue(faults_of("r", good, {"fork", "mount", "SIGKILL", "reboot"}, {"fork": ""}))


class TakenOver(lib.Case):
    def setUp(self):
        super().setUp()
        if not os.path.exists(TAKEN_OVER):
            self.skip("only the registers of x86-64 are supported")
        self.wrapper = (TAKEN_OVER, "start", str(len(lib.ROLES)))

    def run_taken_over(self, *arguments):
        done = subprocess.run([TAKEN_OVER, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=lib.PATIENCE)
        if done.returncode == EXIT_SKIPPED:
            self.skip("filters cannot be suspended here: this needs CAP_SYS_ADMIN, and no filter of its own")
        self.assertEqual(done.returncode, 0, done.stdout[-1000:] + done.stderr)
        return parse(done.stdout)

    def attack_roles_of(self, cli, names):
        roles = {pid: role for role, pid in lib.roles_of(cli).items()}
        self.assertEqual(len(roles), len(lib.ROLES))
        self.attack(cli, roles, names)
        # The roles are the same, and go on.
        self.assertEqual({pid: role for role, pid in lib.roles_of(cli).items()}, roles)

    def attack(self, other, roles, names):
        """Attacks these roles ({pid: role}) and their helpers. `other` is a process that none of them may reach. `names` says which policy each role has."""
        found = {pid: (parent, comm) for pid, (parent, comm, _) in lib.processes().items() if comm in test_roles.HELPERS and parent in roles}
        for name, (_, counts) in test_roles.HELPERS.items():
            self.assertIn([comm for _, comm in found.values()].count(name), counts)
        helpers = {pid: test_roles.HELPERS[comm][0] for pid, (_, comm) in found.items()}
        control, = self.run_taken_over("control").values()
        proven = {name for name, outcome in control.items() if outcome == "works"}
        for name, outcome in control.items():
            if outcome not in ("works", "changed", "ended"):
                print(f"not proven: {name}: {outcome}")
        self.assertGreaterEqual(len(proven), PROVEN_LEAST)
        self.assertEqual([control[target] for target in ("memory", "secret", "victim")], ["changed", "changed", "ended"], "the attacks have no effect")
        attacked = self.run_taken_over(other, *roles)
        for helper, (parent, _) in found.items():
            # Otherwise the parent takes a helper that is stopped for one that hangs, and kills it.
            with suspended(parent):
                attacked.update(self.run_taken_over(other, helper))
        self.assertEqual(set(attacked), {*roles, *helpers})
        faults = []
        for pid, outcomes in attacked.items():
            policy = names[roles.get(pid) or helpers[pid]]
            title = policy if pid in roles else f"helper of {policy}"
            permitted = dict(PERMITTED[policy])
            if policy == "agent's exporter":
                permitted.update(dict.fromkeys(WITHOUT_LANDLOCK_TCP if landlock() < LANDLOCK_TCP else (), ""))
                permitted.update(dict.fromkeys(WITHOUT_LANDLOCK if not landlock() else (), ""))
            faults += faults_of(title, outcomes, proven, permitted)
            kinds = [outcomes[name] for name in proven]
            print(f"{title}: {len(kinds)} actions, {kinds.count('killed')} killed, {kinds.count('works')} permitted, the others denied")
        self.assertEqual(faults, [])

    def attack_recording(self, *options, names):
        with lib.Program("pingpong", 60) as program:
            process = self.start(*options, "-p", program.pid, seconds=None, freq=199, wrapper=self.wrapper)
            self.wait_until_recording(process)
            self.attack_roles_of(process.pid, names)
            self.give_cpu_time(1, process)
            process.send_signal(signal.SIGINT)
            recording = self.finish(process)
            self.assert_accounted(recording)
            self.assert_stacks(recording, recording.of("pingpong"), program.expectation, 0.98, 150)

    def test_recording(self):
        self.attack_recording(names=dict(zip(lib.ROLES, lib.ROLES, strict=True)))

    def test_strict_recording(self):
        self.attack_recording("--strict-memory", names=STRICT)

    def test_agent(self):
        names = {**dict(zip(lib.ROLES, lib.ROLES, strict=True)), "exporter": "agent's exporter"}
        with scripted.Server() as server, lib.Burner(), Agent(self, f"http://{server.target}", wrapper=self.wrapper) as running:
            server.wait(1)
            self.attack_roles_of(running.process.pid, names)
            server.wait(len(server.calls) + 1)
            self.assertEqual(running.stop()["lost"], 0)
            self.assertNotIn("is restarted", running.said())

    def test_services(self):
        """The roles are services, and so is control, which has no parent with more privileges."""
        names = {**dict(zip(lib.ROLES, lib.ROLES, strict=True)), "exporter": "agent's exporter", "control": "control"}
        with scripted.Server() as server, lib.Burner() as other, services.Services(self, f"http://{server.target}", wrapper=(TAKEN_OVER, "start", "0")) as running:
            running.start().wait_until_ready()
            server.wait(1)
            self.attack(other.pid, {process.pid: role for role, process in running.processes.items()}, names)
            server.wait(len(server.calls) + 1)
            self.assertEqual(running.ends, {}, "none was replaced")


if __name__ == "__main__":
    lib.main()
