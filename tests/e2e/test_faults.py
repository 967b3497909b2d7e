# SPDX-License-Identifier: Apache-2.0
"""Roles of an agent that stand still for a time, or whose memory runs out. Nobody attacks; the machine is short of something.

BULKHEAD_SUSPENDED_SECONDS says how long a role stands still.
"""
import os
import re
import signal
import subprocess
import time

import lib
import otlp_decode
import scripted_server as scripted
from test_agent import AgentCase, sample_keys

SUSPENDED_SECONDS = float(os.environ.get("BULKHEAD_SUSPENDED_SECONDS", "4"))
ROLES = ("loader", "unwinder-mgr", "opener", "worker", "exporter")
# Short programs of different names, so that all roles need memory for what is new.
CHURN = "i=0; while :; do i=$((i + 1)); cp /bin/true churn/p$i; churn/p$i; rm churn/p$i; python3 -c 'sum(i * i for i in range(200000))'; done"


class Faults(AgentCase):
    def assert_exact(self, server, account, again=0):
        """Every sample has arrived once, or is counted as lost. `again` requests may have come twice, with the same bytes, because their answers came to nobody."""
        requests = {call.request for call in server.calls}
        samples = [s for request in requests for s in otlp_decode.decode(otlp_decode.request(request))]
        arrived = set(sample_keys(samples))
        self.assertEqual(account["waiting"], 0)
        self.assertEqual(len(arrived), account["taken"] - account["lost"])
        self.assertEqual(sum(map(otlp_decode.count, samples)), len(arrived), "none has arrived twice")
        self.assertLessEqual(len(server.calls) - len(requests), again, "requests that were sent again")

    def test_roles_that_stand_still(self):
        """All other roles go on, or wait. When the role goes on, everything does."""
        with scripted.Server() as server, lib.Program("recursion", 28, seconds=600) as program, self.agent(server, {"agent.watchdog": "0"}) as running:
            self.wait_for_status(running, "samples", lambda s: s["delivered"] > 200)
            roles = {role: running.pid(role) for role in ROLES}
            for role, pid in roles.items():
                before = running.status()
                os.kill(pid, signal.SIGSTOP)
                time.sleep(SUSPENDED_SECONDS)
                self.assertIsNotNone(running.status(), f"the agent answers while {role} stands still")
                os.kill(pid, signal.SIGCONT)
                after = self.wait_for_status(running, f"samples after {role}", lambda s, b=before: s["delivered"] > b["delivered"] + 200)
                print(f"{role}: {after['taken'] - before['taken']} samples, lost {sum(after['lost'].values()) - sum(before['lost'].values())}", flush=True)
                self.wait_for_right_stacks(server, program)
            self.assertEqual({role: running.pid(role) for role in ROLES}, roles, "none was replaced")
            self.assert_exact(server, running.stop())
        self.assert_nothing_left(running)

    @staticmethod
    def memory_of(pid):
        """The bytes that count for RLIMIT_DATA."""
        return int(re.search(r"VmData:\s+(\d+) kB", lib.read(f"/proc/{pid}/status"))[1]) * 1024

    def limit(self, pid):
        """Has every further allocation of a process fail. Only its own user may do that to it."""
        uid, gid = (lib.proc_status(pid)[name].split()[0] for name in ("Uid", "Gid"))
        subprocess.run(["setpriv", "--reuid", uid, "--regid", gid, "--clear-groups", "prlimit", "--pid", str(pid), f"--data={self.memory_of(pid)}"], check=True)

    def churn(self):
        os.mkdir(os.path.join(self.directory, "churn"))
        process = subprocess.Popen(["sh", "-c", CHURN], cwd=self.directory, start_new_session=True, stdout=subprocess.DEVNULL)

        def end():
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.addCleanup(end)

    def test_roles_without_memory(self):
        """A role goes on without what it cannot store, or ends and is replaced. Nothing is wrong afterwards, and nothing is uncounted."""
        self.churn()
        with scripted.Server() as server, lib.Program("recursion", 28, seconds=600) as program, self.agent(server) as running:
            for role in ROLES:
                self.wait_for("the agent to be ready", running.ready)
                before = self.wait_for_status(running, "samples", lambda s: s["delivered"] > 100)
                pid = running.pid(role)
                self.limit(pid)
                after = self.wait_for_status(running, f"samples after {role}", lambda s, b=before: s["taken"] > b["taken"] + 300)
                lost = {reason: count - before["lost"].get(reason, 0) for reason, count in after["lost"].items() if count > before["lost"].get(reason, 0)}
                print(f"{role}: {'replaced' if running.pid(role) != pid else 'goes on'}, {after['taken'] - before['taken']} samples, lost {lost}", flush=True)
            # Other roles than these, which have memory.
            for role in ROLES:
                running.kill(role)
                self.wait_for("the agent to be ready", running.ready)
            self.wait_for_right_stacks(server, program)
            # One may be on its way whenever the exporter is killed, or lacks the memory for an answer.
            again = 1 + running.status()["backend"]["failures"]
            self.assert_exact(server, running.stop(), again)
        self.assert_nothing_left(running)
        self.assertNotIn("signal=11", running.said())
        self.assertNotIn("signal=6", running.said())
        # abort(), which no filter allows.
        self.assertNotIn("signal=31", running.said())

    def lack_memory_for_good(self, role):
        """After 30 s the role ends, and another one takes its place."""
        self.churn()
        with scripted.Server() as server, lib.Program("recursion", 28, seconds=600) as program, self.agent(server) as running:
            self.wait_for_status(running, "samples", lambda s: s["delivered"] > 100)
            pid = running.pid(role)
            self.limit(pid)
            self.wait_for(f"another {role}", lambda: running.pid(role) not in (0, pid), 3 * lib.PATIENCE)
            self.assertIn("no memory for samples for 30 s; restarting", running.said())
            self.wait_for_right_stacks(server, program)
            print(running.status()["lost"], flush=True)
            again = 1 + running.status()["backend"]["failures"]
            self.assert_exact(server, running.stop(), again)

    if SUSPENDED_SECONDS > 30:
        def test_exporter_without_memory_for_good(self):
            """The next exporter delivers what is in the journal."""
            self.lack_memory_for_good("exporter")

        def test_worker_without_memory_for_good(self):
            """The next worker names everything again."""
            self.lack_memory_for_good("worker")


if __name__ == "__main__":
    lib.main()
