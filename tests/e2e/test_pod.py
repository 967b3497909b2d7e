# SPDX-License-Identifier: Apache-2.0
"""A pod with one container for each role: the same stacks and the same account as on the host, and each container as its policy says."""
import json
import os
import subprocess

import lib
import otlp_decode
import scripted_server as scripted
from pod import Pod
from test_services import privilege_faults, samples_of


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
            self.check_audit(running)
            for role in ("worker", "loader", "exporter", "control"):
                with self.subTest(role):
                    running.kill(role)
                    self.assert_chain(server, program, since=len(server.calls) + 1, count=60)
            running.stop()

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
            self.assertEqual(len(programs), 1, programs)
            self.assertRegex(programs.pop(), "^usr/libexec/bulkhead/bulkhead-")


if __name__ == "__main__":
    lib.main()
