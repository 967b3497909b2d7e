# SPDX-License-Identifier: Apache-2.0
"""A pod with one container for each role: the same stacks and the same account as on the host, and each container as its policy says."""
import json
import os
import socket
import subprocess

import lib
import otlp_decode
import scripted_server as scripted
from pod import Pod
from test_services import privilege_faults, samples_of


class Strict(Pod):
    """A pod in which a call that is in no profile ends the process, instead of failing. So a role that works needs no other call, also where it would not notice."""

    # sandbox_drop() proves with these that there is no way back, and the C library of the exporter would like to have a list of addresses.
    TRIED = ("setuid", "setgid", "setresuid", "setresgid")

    def seccomp(self, role):
        profile = super().seccomp(role)
        allowed = {name for rule in profile["syscalls"] for name in rule["names"]}
        profile["syscalls"].append({"names": sorted(set(self.TRIED) - allowed), "action": "SCMP_ACT_ERRNO"})
        profile["syscalls"].append({"names": ["socket"], "action": "SCMP_ACT_ERRNO", "args": [{"index": 0, "op": "SCMP_CMP_EQ", "value": socket.AF_NETLINK}]})
        return profile | {"defaultAction": "SCMP_ACT_KILL_PROCESS"}


class Containers(lib.Case):
    def setUp(self):
        super().setUp()
        self.need_tool("runc")

    def assert_chain(self, server, program, since=0, count=250):
        self.wait_for("its samples", lambda: sum(map(otlp_decode.count, samples_of(server, program.pid, since))) >= count)
        found = otlp_decode.folded(samples_of(server, program.pid, since))
        self.assertEqual(lib.compare(found, program.expectation, least_samples=count), [])

    def test_pod(self):
        with scripted.Server() as server, lib.Program("recursion", 28, seconds=300) as program, Pod(self, f"http://{server.target}") as running:
            running.start().wait_until_ready()
            self.assert_chain(server, program)
            for role in Pod.ROLES:
                self.assertEqual(list(privilege_faults(role, running.uids[role], lib.proc_status(running.pid(role)))), [])
            self.check_filters(running)
            self.check_probe(running)
            self.check_audit(running)
            for role in ("worker", "loader", "exporter", "control"):
                with self.subTest(role):
                    running.kill(role)
                    self.assert_chain(server, program, since=len(server.calls) + 1)
            running.stop()

    def test_roles_call_nothing_that_their_profiles_lack(self):
        with scripted.Server() as server, lib.Program("recursion", 28, seconds=300) as program, Strict(self, f"http://{server.target}") as running:
            running.start().wait_until_ready()
            self.assert_chain(server, program)
            self.check_probe(running)
            self.assertEqual(running.ends, {}, "roles that have ended")
            running.stop()

    def check_filters(self, running):
        """The runtime has installed a filter, to which the role and its library have added another one."""
        for role in Pod.ROLES:
            self.assertEqual(lib.proc_status(running.pid(role))["Seccomp_filters"], "2", role)

    def check_probe(self, running):
        """What an orchestrator executes in the container of control, as its user and with its profile."""
        done = running.execute("control", "/usr/bin/bulkhead", "status", "--ready", "--run-directory", running.run_directory)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        done = running.execute("control", "/usr/bin/bulkhead", "status", "--json", "--run-directory", running.run_directory)
        self.assertEqual((done.returncode, done.stderr, json.loads(done.stdout)["ready"]), (0, "", True))

    def check_audit(self, running):
        done = subprocess.run([lib.BULKHEAD, "audit", "--json", "--pid", str(running.pid("control"))], capture_output=True, text=True, check=False, timeout=lib.PATIENCE)
        results = json.loads(done.stdout)["results"]
        self.assertEqual((done.returncode, done.stderr), (0, ""), [result for result in results if result["status"] != "ok"])
        pids = {result["subject"]: result["pid"] for result in results if result["property"] == "capabilities" and "helper" not in result["subject"]}
        self.assertEqual(pids, {"control" if role == "control" else lib.ROLE_TABLE[role.upper()]["directory"]: running.pid(role) for role in Pod.ROLES})

    def test_images_have_nothing_to_execute_but_the_role(self):
        pod = Pod(self, "http://127.0.0.1:4999")
        for role in Pod.ROLES:
            root = os.path.join(pod.bundle(role), "rootfs")
            found = {os.path.relpath(os.path.join(at, name), root) for at, _, names in os.walk(root) for name in names}
            programs = {name for name in found if os.access(os.path.join(root, name), os.X_OK) and ".so" not in name}
            own = {name for name in programs if name.startswith("usr/libexec/bulkhead/bulkhead-")}
            self.assertEqual(len(own), 1, programs)
            # Probes are executed in one of the containers.
            self.assertEqual(programs - own, {"usr/bin/bulkhead"} if role == "control" else set())


if __name__ == "__main__":
    lib.main()
