# SPDX-License-Identifier: Apache-2.0
"""A backend that listens on a Unix socket: the exporter of an agent has no network, and a helper makes its connections."""
import contextlib
import json
import os
import signal
import subprocess

import agent
import lib
import otlp_decode
import scripted_server as scripted
from agent import Agent
from services import Services

HELPER = "bulkhead-exph"


def samples_of(server, pid):
    return [sample for call in server.calls for sample in otlp_decode.decode(otlp_decode.request(call.request)) if sample["resource"].get("process.pid") == pid]


class LocalBackend(lib.Case):
    @contextlib.contextmanager
    def server(self):
        """A backend on a socket that every user may connect to."""
        with scripted.Server(path=self.path) as server:
            os.chmod(self.path, 0o666)
            yield server

    def setUp(self):
        super().setUp()
        os.chmod(self.directory, 0o755)
        self.path = os.path.join(self.directory, "backend.sock")

    def helper_of(self, pid):
        children = lib.read(f"/proc/{pid}/task/{pid}/children").split()
        found = [child for child in map(int, children) if lib.read(f"/proc/{child}/comm").strip() == HELPER]
        self.assertEqual(len(found), 1, children)
        return found[0]

    def assert_chain(self, server, program, count=250):
        self.wait_for("its samples", lambda: sum(map(otlp_decode.count, samples_of(server, program.pid))) >= count)
        self.assertEqual(lib.compare(otlp_decode.folded(samples_of(server, program.pid)), program.expectation, least_samples=count), [])

    def assert_confined(self, exporter):
        """Neither process has a socket of a network, and the helper has a filter, no capability and nothing but its socket."""
        helper = self.helper_of(exporter)
        own = {f"socket:[{line.split()[9]}]" for table in ("tcp", "tcp6", "udp", "udp6") for line in lib.read(f"/proc/{exporter}/net/{table}").splitlines()[1:]}
        for pid in (exporter, helper):
            held = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
            self.assertEqual(held & own, set())
            status = lib.proc_status(pid)
            self.assertEqual((status["Seccomp"], status["NoNewPrivs"], int(status["CapPrm"], 16)), ("2", "1", 0))
            self.assertEqual(status["Uid"].split(), lib.proc_status(exporter)["Uid"].split())
        self.assertEqual(sorted(target.partition(":")[0] for target in held), ["/dev/null", "socket"], "what the helper has")
        return helper

    def test_agent(self):
        with self.server() as server, lib.Program("recursion", 28) as program, Agent(self, f"unix://{self.path}") as running:
            self.assert_chain(server, program)
            self.assert_confined(running.pid("exporter"))
            done = subprocess.run([lib.BULKHEAD, "audit", "--json", "--pid", str(running.process.pid)], capture_output=True, text=True, check=False, timeout=lib.PATIENCE)
            results = json.loads(done.stdout)["results"]
            self.assertEqual((done.returncode, done.stderr), (0, ""), [result for result in results if result["status"] != "ok"])
            sockets = {result["subject"]: result["found"] for result in results if result["property"] == "sockets"}
            # The transport keeps a second descriptor of its connection, and may be between two.
            self.assertRegex(sockets["exporter"], "role: 3, listener: 1, helper: 1(, backend: 2)?$")
            self.assertEqual(sockets["exporter helper"], "helper: 1")
            self.assertEqual(running.stop()["lost"], 0)

    def test_backend_goes_and_comes_back(self):
        with agent.busy(self, 120), Agent(self, f"unix:{self.path}") as running:
            self.wait_for("samples that wait", lambda: running.status()["waiting"] > 100)
            for _ in range(2):
                with self.server() as server:
                    self.wait_for("all to be delivered", lambda: running.status()["waiting"] == 0 and len(server.calls) > 1)
                self.wait_for("samples that wait", lambda: running.status()["waiting"] > 100)
            with self.server():
                account = running.stop()
            self.assertEqual((account["lost"], account["waiting"]), (0, 0))

    def test_helper_that_is_killed(self):
        with self.server() as server, lib.Program("recursion", 28) as program, Agent(self, f"unix:{self.path}") as running:
            self.assert_chain(server, program)
            before = running.pid("exporter")
            os.kill(self.helper_of(before), signal.SIGKILL)
            self.wait_for("another exporter", lambda: running.pid("exporter") not in (0, before))
            self.wait_for("the agent to be ready", running.ready)
            self.assert_confined(running.pid("exporter"))
            self.assertIn("the helper that connects to the backend has ended", running.said())
            self.assertEqual(running.stop()["lost"], 0)

    def test_service_that_is_stopped(self):
        """A service manager sends SIGTERM to the helper, too. It still makes the connection for what is left."""
        with lib.Program("recursion", 28) as program, Services(self, f"unix:{self.path}") as running:
            running.start().wait_until_ready()
            # Of which the program has few if others need the CPUs.
            self.wait_for("samples that wait", lambda: running.status()["waiting"] > 300)
            helper = self.assert_confined(running.pid("exporter"))
            with self.server() as server:
                os.kill(helper, signal.SIGTERM)
                self.assertEqual(running.stop()["lost"], 0)
                self.assertEqual(lib.compare(otlp_decode.folded(samples_of(server, program.pid)), program.expectation, least_samples=20), [])


if __name__ == "__main__":
    lib.main()
