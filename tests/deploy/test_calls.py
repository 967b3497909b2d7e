# SPDX-License-Identifier: Apache-2.0
"""Every system call that a service makes is in the SystemCallFilter= of its unit: strace watches each role from its start through a recording to its end.

The table of deploy/start_calls.c, of calls that a program makes before its sandbox, is thereby tested as well."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.environ["BULKHEAD_SOURCE"], "tests", "e2e"))
import lib  # noqa: E402
import otlp_decode  # noqa: E402
import scripted_server as scripted  # noqa: E402
from services import Services  # noqa: E402

# sandbox_drop() proves with these that there is no way back. The unit refuses them, as the kernel would.
PROOF = {"setuid", "setresuid", "setgid"}
UNITS = {"control": "control", "loader": "loader", "manager": "unwinder-mgr", "opener": "opener", "worker": "symbolizer", "exporter": "exporter"}


def calls_of_unit(role):
    text = lib.read(os.path.join(lib.SOURCE, "deploy", "systemd", f"bulkhead-{UNITS[role]}.service"))
    return {name for line in re.findall(r"^SystemCallFilter=(.*)$", text, re.M) for name in line.split()}


class Traced(Services):
    """Services below strace, which writes the calls of each to a file."""

    def trace_of(self, role):
        return os.path.join(self.directory, f"{role}.strace")

    def command_of(self, role):
        # With --daemonize the service itself is the child that the test started, and strace is not.
        return ["strace", "--daemonize", "-f", "-qqq", "-a", "0", "-o", self.trace_of(role), *super().command_of(role)]

    def calls(self, role):
        """The names of the calls since the program of the role was started."""
        text = lib.read(self.trace_of(role))
        program = os.path.basename([part for part in super().command_of(role) if part.startswith(lib.BIN)][0])
        start = re.search(rf'execve\("[^"]*/{re.escape(program)}".*= 0$', text, re.M)
        return set(re.findall(r"^\d+ +(?:<\.\.\. )?(\w+)(?:\(| resumed>)", text[start.start():], re.M))


class Calls(lib.Case):
    def test_each_call_is_in_the_unit(self):
        with scripted.Server() as server, lib.Program("recursion", 28) as program, Traced(self, f"http://{server.target}") as running:
            running.start().wait_until_ready()
            self.wait_for("samples", lambda: any(sample["resource"].get("process.pid") == program.pid for call in server.calls
                                                 for sample in otlp_decode.decode(otlp_decode.request(call.request))))
            running.stop()
            for role in Services.ROLES:
                with self.subTest(role):
                    self.check(role, running.calls(role))

    def check(self, role, calls):
        allowed = calls_of_unit(role)
        self.assertIn("capget", calls)
        self.assertEqual(sorted(calls - PROOF - allowed), [], f"calls of {role} that its unit does not allow")
        self.assertEqual(PROOF & allowed, set())
        if os.environ.get("BULKHEAD_SHOW_CALLS"):
            print(role, "allowed, and not seen:", *sorted(allowed - calls))


if __name__ == "__main__":
    lib.main()
