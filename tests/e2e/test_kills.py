# SPDX-License-Identifier: Apache-2.0
"""kill -9 of each role of an agent at random moments: every sample is accounted for, and nothing is left of the roles that ended.

BULKHEAD_KILLS says how often each role is killed while all of them work, and BULKHEAD_KILLS_STARTING how often a random one while they start.
BULKHEAD_KILLS_SEED repeats the moments of an earlier run, which prints it.
"""
import collections
import contextlib
import os
import random
import re
import signal
import sys
import time

import agent
import lib
import scripted_server as scripted
from test_agent import AgentCase, sample_keys, samples_of
from test_lifecycle import files_of

KILLS = int(os.environ.get("BULKHEAD_KILLS", "2"))
KILLS_STARTING = int(os.environ.get("BULKHEAD_KILLS_STARTING", "2"))
SEED = os.environ.get("BULKHEAD_KILLS_SEED") or str(random.randrange(1 << 32))
LIFE_SECONDS = 1.0  # at most, from the moment when the agent is ready to a kill: some intervals of the worker and ticks of the supervisor
START_SECONDS = 0.3  # about as long as the roles need to start
SPARE_MIB = 8  # by which the supervisor may grow


class Kills(AgentCase):
    def setUp(self):
        super().setUp()
        self.random = random.Random(SEED)
        self.since = int(time.time())
        self.uids, self.objects, self.pids = set(), set(), set()
        print(f"BULKHEAD_KILLS_SEED={SEED}", flush=True)

    def look(self, cli):
        """Records what the present roles have. Returns {role: pid}."""
        roles = lib.roles_of(cli)
        for pid in roles.values():
            self.pids.add(pid)
            status = lib.proc_status(pid)
            if status:
                self.uids.add(int(status["Uid"].split()[0]))
            self.objects |= {(kind, number) for kind in ("prog", "map") for number in lib.bpf_ids(pid, kind)}
        self.uids.discard(0)  # a role that has not dropped its privileges yet
        return roles

    @staticmethod
    def held(cli):
        """{kind: how many} of the descriptors that the supervisor holds all the time. Some exist only while it answers `bulkhead status`."""
        least = None
        for _ in range(20):
            kinds = collections.Counter()
            for fd in os.listdir(f"/proc/{cli}/fd"):
                with contextlib.suppress(FileNotFoundError):
                    kinds[re.sub(r"\d+", "N", os.readlink(f"/proc/{cli}/fd/{fd}"))] += 1
            least = kinds if least is None else least & kinds
            time.sleep(0.02)
        return least

    @staticmethod
    def resident_mib(cli):
        return int(lib.proc_status(cli)["VmRSS"].split()[0]) / 1024

    def wait_until_ready(self, running):
        self.wait_for("the agent to be ready", lambda: running.ready() or running.ended())
        self.assertFalse(running.ended(), running.said())

    def kill(self, running, role, seconds):
        """Kills a role at a random moment of this time. If it does not run at that moment, as soon as it does."""
        time.sleep(self.random.uniform(0, seconds))
        pid = self.wait_for(f"a process of {role}", lambda: self.look(running.process.pid).get(role))
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        self.wait_for(f"the end of {role}", lambda: lib.roles_of(running.process.pid).get(role) != pid)

    @staticmethod
    def kept_by(objects):
        """What the loader has no descriptor of after it has taken these over: programs and slabs in maps, and the maps of programs."""
        found = set()
        for kind, number in objects:
            contents = {"prog_array": "prog", "array_of_maps": "map"}.get(lib.bpf_describe(kind, number).get("type")) if kind == "map" else None
            for entry in lib.bpf_describe(kind, number, "dump") if contents else ():
                found.add((contents, int.from_bytes(bytes(int(byte, 16) for byte in entry["value"]), "little")))
        for kind, number in objects | found:
            found = found | {("map", used) for used in lib.bpf_describe(kind, number).get("map_ids", ()) if kind == "prog"}
        return found

    def assert_nothing_leaked(self, running, before):
        """What the roles that ended have had is gone, although the agent runs."""
        cli = running.process.pid
        present = set(self.look(cli).values())
        mine = {(kind, number) for pid in present for kind in ("prog", "map") for number in lib.bpf_ids(pid, kind)}
        old = self.objects - mine - self.kept_by(mine)
        self.assertTrue(old, "the roles that ended had no BPF objects")
        self.wait_for("the end of old BPF objects", lambda: not any(lib.bpf_describe(*item) for item in old))
        processes = {pid for pid, p in lib.bulkhead_processes().items() if os.path.basename(p[2]) != "bulkhead"}
        helpers = {pid for pid in processes if lib.processes().get(pid, (0,))[0] in present}
        self.assertEqual(processes - helpers, present)
        # Those of helpers would be children of this test if the supervisor did not adopt them.
        self.wait_for("the end of all zombies", lambda: not lib.zombies_of(cli) + lib.zombies_of(os.getpid()))
        held, memory = before
        self.assertEqual(self.held(cli), held, "descriptors of the supervisor")
        self.assertLess(self.resident_mib(cli), memory + SPARE_MIB)

    def assert_all_arrived(self, server, running):
        account = running.stop()
        samples = sample_keys(samples_of(server))
        print(f"{account}, arrived {len(set(samples))}, again {len(samples) - len(set(samples))}", flush=True)
        self.assertEqual(account["waiting"], 0)
        self.assertEqual(len(set(samples)), account["taken"] - account["lost"], running.said()[-2000:])

    def test_each_role(self):
        plan = [role for role in lib.ROLES for _ in range(KILLS)]
        self.random.shuffle(plan)
        starting = [self.random.choice(list(lib.ROLES)) for _ in range(KILLS_STARTING)]
        with scripted.Server() as server, agent.busy(self, 7200), lib.Program("recursion", 28, seconds=7200) as program, \
                self.started(sys.executable, "-c", "print('started', flush=True)\nwhile True: pass"), \
                self.agent(server, {"agent.pin_directory": agent.pin_directory(self)}) as running:
            cli = running.process.pid
            before = self.held(cli), self.resident_mib(cli)
            # First, because the supervisor waits the longer for roles that were not ready, the more often roles have ended.
            for role in starting:
                self.wait_until_ready(running)
                # Opener and worker start again with the manager. Each of the three may then be killed before it has done anything.
                self.kill(running, "manager", 0)
                self.kill(running, role, START_SECONDS)
            for role in plan:
                self.wait_until_ready(running)
                self.kill(running, role, LIFE_SECONDS)
            self.wait_until_ready(running)
            self.wait_for("all roles", lambda: len(self.look(cli)) == len(lib.ROLES) and all(map(lib.sandboxed, self.look(cli).values())))
            self.assert_nothing_leaked(running, before)
            self.wait_for_right_stacks(server, program)
            print(f"{len(plan) + 2 * len(starting)} kills, {len(self.pids)} processes of roles, {len(self.objects)} BPF objects", flush=True)
            self.assert_all_arrived(server, running)
        self.assert_nothing_left(running)
        self.wait_for("the end of all BPF objects", lambda: not any(lib.bpf_describe(*item) for item in self.objects))
        left = {path for path in files_of(self.uids, self.since) if not path.startswith(self.directory + "/")}
        self.assertEqual(left, set())
        self.assertEqual([name for name in os.listdir(self.directory) if name not in ("run", "spool", "agent.log") and not name.startswith("bpf-")], [])


if __name__ == "__main__":
    lib.main()
