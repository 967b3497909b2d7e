# SPDX-License-Identifier: Apache-2.0
"""Roles that are services: each is started, restarted and asked to end by itself, under its own uid, in any order."""
import os
import random
import re
import signal
import subprocess
import time

import lib
import otlp_decode
import scripted_server as scripted
import services
from services import Services

STEADY = {"loader": {"cap_bpf", "cap_perfmon"}, "opener": {"cap_sys_ptrace", "cap_dac_read_search", "cap_checkpoint_restore"}}
CAPABILITY_BITS = {"cap_dac_read_search": 2, "cap_sys_ptrace": 19, "cap_perfmon": 38, "cap_bpf": 39, "cap_checkpoint_restore": 40}


def all_samples(server, since=0):
    return [sample for call in server.calls[since:] for sample in otlp_decode.decode(otlp_decode.request(call.request))]


def samples_of(server, pid, since=0):
    return [sample for sample in all_samples(server, since) if sample["resource"].get("process.pid") == pid]


def privilege_faults(role, uid, status):
    """What a running service has that it should not have, or the other way round."""
    steady = sum(1 << CAPABILITY_BITS[name] for name in STEADY.get(role, ()))
    wanted = {"Uid": [str(uid)] * 4, "Gid": [str(uid)] * 4, "NoNewPrivs": ["1"], "Seccomp": ["2"]}
    if set(status["Groups"].split()) - {str(uid)}:
        yield f"{role}: Groups is {status['Groups']}"
    for name, value in wanted.items():
        if status[name].split() != value:
            yield f"{role}: {name} is {status[name]}"
    for name in ("CapPrm", "CapEff", "CapInh", "CapAmb"):
        expected = steady if name in ("CapPrm", "CapEff") else 0
        if int(status[name], 16) != expected:
            yield f"{role}: {name} is {status[name]}, not {expected:x}"


class ServiceCase(lib.Case):
    def services(self, server, options=None, **more):
        return Services(self, f"http://{server.target}", options, **more)

    def assert_chain(self, server, program, since=0, count=250, since_ns=0):
        """`since`: the number of the first request that counts; `since_ns`: the time of the first sample that does."""
        def found():
            return [s for s in samples_of(server, program.pid, since) if min(s["timestamps"]) >= since_ns]
        self.wait_for("its samples", lambda: sum(map(otlp_decode.count, found())) >= count)
        self.assertEqual(lib.compare(otlp_decode.folded(found()), program.expectation, least_samples=count), [])


class Work(ServiceCase):
    def test_in_any_order(self):
        order = list(Services.ROLES)
        random.shuffle(order)
        with scripted.Server() as server, lib.Program("recursion", 28) as program, self.services(server) as running:
            running.start(order, pause=0.2).wait_until_ready()
            self.assert_chain(server, program)
            for role in Services.ROLES:
                faults = list(privilege_faults(role, running.uids[role], lib.proc_status(running.pid(role))))
                self.assertEqual(faults, [], order)
                self.assertIn("READY=1", running.reports[role], role)
                self.wait_for(f"a sign of life of {role}", lambda role=role: "WATCHDOG=1" in running.reports[role])
            status = running.status()
            self.assertEqual({role: status["roles"][lib.ROLE_TABLE[role.upper()]["directory"]]["pid"] for role in lib.ROLES},
                             {role: running.pid(role) for role in lib.ROLES})
            self.assertTrue(all(role["rss_bytes"] > 1 << 20 for role in status["roles"].values()), status["roles"])
            self.assertEqual(running.stop()["lost"], 0)

    def test_root_of_a_container_becomes_the_user_of_its_role(self):
        with scripted.Server() as server, lib.Program("recursion", 28) as program, self.services(server, as_root=("loader", "opener")) as running:
            running.start().wait_until_ready()
            self.assert_chain(server, program)
            for role in ("loader", "opener"):
                status = lib.proc_status(running.pid(role))
                self.assertEqual(list(privilege_faults(role, running.uids[role], status)), [])
                self.assertEqual(int(status["CapBnd"], 16), 0)
            running.stop()

    def test_secrets_are_readable_to_the_exporter_only(self):
        headers = os.path.join(self.directory, "headers")
        with open(headers, "w", encoding="utf-8") as f:
            f.write("x-tenant: secret-of-the-test\n")
        os.chmod(headers, 0o400)
        with scripted.Server() as server, self.services(server, {"export.headers_file": headers, "export.plaintext_headers": "true"}) as running:
            os.chown(headers, running.uids["exporter"], running.uids["exporter"])
            running.start().wait_until_ready()
            self.wait_for("a request", lambda: server.calls)
            self.assertEqual(server.calls[0].metadata.get("x-tenant"), "secret-of-the-test")
            running.stop()


class Ends(ServiceCase):
    def check(self, signal_number, roles):
        with scripted.Server() as server, lib.Program("recursion", 28, seconds=300) as program, self.services(server) as running:
            running.start().wait_until_ready()
            self.assert_chain(server, program)
            for role in roles:
                with self.subTest(role):
                    running.kill(role, signal_number)
                    # Samples that were taken before contain ids of modules that only the last manager knew.
                    self.assert_chain(server, program, since=len(server.calls) + 1, since_ns=time.time_ns())
            return running.stop(), running

    def test_a_role_that_is_killed_returns(self):
        account, running = self.check(signal.SIGKILL, lib.ROLES)
        self.assertLess(account["lost"], account["taken"] / 2)
        self.assert_loader_returned(running)

    def test_a_role_that_is_asked_to_end_returns(self):
        _, running = self.check(signal.SIGTERM, ("loader", "worker", "exporter"))
        self.assertIn("asked a role to end: role=bulkhead-symw", running.said("control"))
        self.assertEqual({status for (role, _), (status, _) in running.ends.items() if role == "worker"}, {0}, running.said())
        self.assert_loader_returned(running)

    def assert_loader_returned(self, running):
        """Alone, with what the last one had pinned."""
        self.assertIn("took over the BPF programs and maps of the last loader", running.said("loader"))
        self.assertNotIn("cannot take over", running.said("loader"))
        self.assertEqual(os.listdir(running.pins), [])

    def test_control_returns_and_goes_on_with_the_account(self):
        with scripted.Server() as server, lib.Program("recursion", 28) as program, self.services(server) as running:
            running.start().wait_until_ready()
            self.assert_chain(server, program)
            before = running.status()["taken"]
            for _ in range(2):
                running.kill("control")
                # The other roles start again with it, and with new ids of modules, as above.
                self.assert_chain(server, program, since=len(server.calls) + 1, since_ns=time.time_ns())
            paused = running.status()["paused_ms"]
            account = running.stop()
            self.assertGreater(account["taken"], before + 100)
            self.assertIn("goes on with the account", running.said("control"))
            self.assert_paused(running, paused)
            self.assertEqual(sum(map(otlp_decode.count, all_samples(server))), account["delivered"])
            # The note of when it sampled last is for the case that this is a restart.
            self.wait_for("the descriptors to be given back", lambda: set(running.kept["control"]) == {"bulkhead-note"})

    def assert_paused(self, running, paused):
        """The status has the sum of what was logged."""
        logged = [int(ms) for ms in re.findall(r"nothing was sampled while all roles were started again: ms_at_most=(\d+)", running.said("control"))]
        self.assertGreater(min(logged), 0)
        self.assertTrue(sum(logged) <= paused <= sum(logged) + len(logged), (logged, paused))
        return logged

    def test_all_are_restarted(self):
        """As by an upgrade of the package: the account ends without a loss, another one begins, and how long nothing was sampled is counted."""
        with scripted.Server() as server, lib.Program("recursion", 28) as program, self.services(server) as running:
            running.start().wait_until_ready()
            self.assert_chain(server, program)
            self.assertEqual(running.status()["paused_ms"], 0)
            running.restart()
            self.assert_chain(server, program, since=len(server.calls) + 1, since_ns=time.time_ns())
            paused = running.status()["paused_ms"]
            running.stop()
            self.assertEqual(len(self.assert_paused(running, paused)), 1)
            accounts = running.accounts()
            self.assertEqual([account["lost"] for account in accounts], [0, 0])
            self.assertEqual(sum(map(otlp_decode.count, all_samples(server))), sum(account["delivered"] for account in accounts))
            self.assertEqual(os.listdir(running.pins), [])

    def test_statistics_of_another_version_are_not_used(self):
        with scripted.Server() as server, self.services(server) as running:
            running.start().wait_until_ready()
            kept = running.kept["control"]
            other = os.memfd_create("other", os.MFD_ALLOW_SEALING)
            os.dup2(other, kept["bulkhead-stats"])
            os.close(other)
            running.kill("control")
            self.assertNotIn("goes on with the account", running.said("control"))
            running.stop()

    def test_a_role_that_is_missing_is_named(self):
        with scripted.Server() as server, self.services(server) as running:
            running.start([role for role in Services.ROLES if role != "opener"])
            self.wait_for("control to say for whom it waits", lambda: "waits for another role to listen" in running.said("control"))
            self.assertIn("role=bulkhead-sym\n", running.said("control"))
            for role in ("manager", "worker"):
                self.wait_for(f"{role} to say that it waits", lambda role=role: "waits for another role to say that all roles are there" in running.said(role))
                self.assertIn("role=bulkhead-control\n", running.said(role))
            self.assertFalse(running.ready())
            running.start_role("opener")
            running.wait_until_ready().stop()


class Refusals(lib.Case):
    """Each ends with status 2, which no service manager should answer with another start."""

    def refuse(self, *command):
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=lib.PATIENCE)
        self.assertEqual(done.returncode, 2, done.stderr)
        return done.stderr

    def test_no_users(self):
        empty = os.path.join(self.directory, "passwd")
        with open(empty, "w", encoding="utf-8") as f:
            f.write("root:x:0:0::/:/bin/sh\n")
        for program in ("bulkhead-control", "bulkhead-opener"):
            said = self.refuse("unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/passwd && exec "$1" --service', empty, os.path.join(lib.BIN, program))
            self.assertIn("create it with systemd-sysusers", said)

    def test_another_user(self):
        uids = services.own_uids(len(Services.ROLES) + 1)
        listed, other = ",".join(map(str, uids[:-1])), str(uids[-1])
        for program in ("bulkhead-control", "bulkhead-loader"):
            said = self.refuse("setpriv", "--reuid", other, "--clear-groups", os.path.join(lib.BIN, program), "--service", "--uids", listed)
            self.assertIn("as another user than its own", said)

    def test_not_as_a_service(self):
        self.assertIn("is started as a service", self.refuse(os.path.join(lib.BIN, "bulkhead-control")))


if __name__ == "__main__":
    lib.main()
