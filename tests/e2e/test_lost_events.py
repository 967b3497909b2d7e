# SPDX-License-Identifier: Apache-2.0
"""The kernel drops events about processes and mappings at random moments, because the manager stands still while processes fork, end, execute programs, and
map and unmap code.

Next to them, programs know their chains: one that runs all the time, one that loads and unloads libraries, and others that are started while events are
lost. No stack of the first and of the last is wrong without saying so. The loss is logged. Afterwards the tables of the kernel side are what /proc says, and
all stacks are right.

BULKHEAD_LOST_ROUNDS says how often the manager stands still; BULKHEAD_LOST_SEED repeats the moments of an earlier run.
"""
import collections
import contextlib
import os
import random
import re
import shutil
import time

import attack
import kernel_tables
import lib
import otlp_decode
import scripted_server as scripted
from suspend import suspended
from test_agent import AgentCase, sample_keys, samples_of

ROUNDS = int(os.environ.get("BULKHEAD_LOST_ROUNDS", "5"))
SEED = os.environ.get("BULKHEAD_LOST_SEED") or str(random.randrange(1 << 32))
STOPPED_SECONDS = (0.3, 2.0)  # a storm fills the rings in about half a second
RUNNING_SECONDS = (0.05, 1.0)


class LostEvents(AgentCase, attack.AttackCase):
    def setUp(self):
        super().setUp()
        self.random = random.Random(SEED)
        self.decoded, self.of = 0, collections.defaultdict(list)
        print(f"BULKHEAD_LOST_SEED={SEED}", flush=True)

    def program(self, name, copy, *args):
        """A program that no other process executes, from a file that no other process maps."""
        path = f"{self.directory}/{copy}"
        shutil.copy(f"{lib.PROGRAMS}/{name}", path)
        return lib.Program(copy, *args, path=path, seconds=3600)

    def samples(self, server, program, since_ns=0):
        """Its samples from this time on. Each request is decoded once."""
        for call in server.calls[self.decoded:]:
            self.decoded += 1
            for sample in otlp_decode.decode(otlp_decode.request(call.request)):
                key = sample["resource"].get("process.pid"), sample["attributes"].get("thread.name")
                for folded in otlp_decode.folded([sample]):
                    self.of[key] += [(at, folded._replace(count=1)) for at in sample["timestamps"]]
        return [sample for at, sample in self.of[program.pid, program.comm] if at >= since_ns]

    def wrong(self, server, program, since_ns=0):
        return attack.silently_wrong(self.samples(server, program, since_ns), program.expectation)

    def lose_events(self, manager, stack):
        """Has the manager stand still again and again. Starts a program each time, and returns them."""
        programs = []
        for i in range(ROUNDS):
            time.sleep(self.random.uniform(*RUNNING_SECONDS))
            with suspended(manager):
                before, after = (self.random.uniform(*STOPPED_SECONDS) / 2 for _ in range(2))
                time.sleep(before)
                programs.append(stack.enter_context(self.program("recursion", f"late{i}x{os.getpid()}"[:15], 28 + i)))
                time.sleep(after)
        return programs

    def test_tables_and_stacks(self):
        libraries = [f"{lib.PROGRAMS}/libplugin_{name}.so" for name in "ab"]
        with scripted.Server() as server, self.program("recursion", f"early{os.getpid()}", 28) as early, \
                self.program("plugins", f"plugins{os.getpid()}", *libraries) as plugins, self.agent(server, {"agent.watchdog": "0"}) as running, \
                contextlib.ExitStack() as stack:
            self.wait_for_right_stacks(server, early)
            roles = lib.roles_of(running.process.pid)
            tables = stack.enter_context(kernel_tables.of(roles["loader"]))
            with self.attack(f"{lib.PROGRAMS}/event_storm", SEED):
                late = self.lose_events(roles["manager"], stack)
            lost = re.findall(r"events about processes and mappings were lost", running.said())
            self.assertTrue(lost, "the loss is logged")
            # What has ended leaves the tables, also if its end was lost. Processes end all the time on this machine, so only those are meant.
            leftover = kernel_tables.ended(tables)
            self.assertTrue(leftover, "the storm was not in the tables")
            self.wait_for("processes that have ended to leave the tables", lambda: not leftover & kernel_tables.ended(tables), 2 * lib.PATIENCE)
            programs = [early, *late]
            self.wait_for("the mappings of the programs", lambda: not kernel_tables.missing(tables, [p.pid for p in programs]))
            settled_ns = time.time_ns()
            for program in (*programs, plugins):
                self.wait_for(f"samples of {program.comm}", lambda p=program: len(self.samples(server, p, settled_ns)) > 60, 4 * lib.PATIENCE)
            self.assertEqual(lib.roles_of(running.process.pid), roles, "no role was replaced")
            for program in programs:
                self.assertEqual([lib.show(s.frames) for s in self.wrong(server, program)], [], program.comm)
                self.assertEqual(lib.compare(self.samples(server, program, settled_ns), program.expectation, 0.98, 60), [])
            # Between the moment when it loads a library and the one when the manager reads that, its stacks are walked by the rules of the other one. The
            # manager reads it the later, the busier the machine is. If it did not read it again, half of them would be wrong.
            self.assertLessEqual(len(self.wrong(server, plugins, settled_ns)), 0.3 * len(self.samples(server, plugins, settled_ns)))
            meanwhile = self.samples(server, plugins)
            print(f"{len(leftover)} ended processes were in the tables; of a program that loads libraries meanwhile, "
                  f"{len(self.wrong(server, plugins))} of {len(meanwhile)} stacks are wrong, without saying so", flush=True)
            account = running.stop()
            arrived = set(sample_keys(samples_of(server)))
            self.assertEqual((account["waiting"], len(arrived)), (0, account["taken"] - account["lost"]))
            print(account, flush=True)
        self.assert_nothing_left(running)

    def test_process_whose_first_thread_ends_first(self):
        """There is no event for the end of its last one, and it leaves the tables all the same."""
        with scripted.Server() as server, self.agent(server) as running:
            self.wait_for_status(running, "samples", lambda s: s["delivered"])
            with kernel_tables.of(lib.roles_of(running.process.pid)["loader"]) as tables:
                with self.attack(f"{lib.PROGRAMS}/zombie_leader") as process:
                    self.wait_for("the process in the tables", lambda: tables.processes().get(process.pid))
                    # What the tables had of it before its first thread has ended stays for three seconds (LIMIT_EXIT_GRACE_MS).
                    time.sleep(4)
                    self.wait_for("the process in the tables", lambda: tables.processes().get(process.pid))
                self.wait_for("the process to leave the tables", lambda: process.pid not in tables.processes())
            running.stop()


if __name__ == "__main__":
    lib.main()
