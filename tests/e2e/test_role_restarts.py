# SPDX-License-Identifier: Apache-2.0
"""Roles of an agent that end and return alone, while the others go on sampling: their stacks stay right, and new programs and runtimes are found afterwards.

BULKHEAD_RESTARTS says how often each of them ends.
"""
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import agent
import lib
import otlp_decode
import scripted_server as scripted
from test_agent import AgentCase, sample_keys, samples_of

SCRIPT = """
def {leaf}():
    return sum(range(2000))
print("started", flush=True)
while True:
    {leaf}()
"""
PERL = """
sub {leaf} {{ my $sum = 0; $sum += $_ for 1 .. 2000; return $sum }}
$| = 1;
print "started\\n";
{leaf}() while 1;
"""
COMMS = {name.lower(): role["directory"] for name, role in lib.ROLE_TABLE.items()}
KILLS = int(os.environ.get("BULKHEAD_RESTARTS", "1"))


class Returns(AgentCase):
    def python(self, leaf):
        """A Python program that is in a function of this name, which is a child of this test."""
        return self.started(sys.executable, "-c", SCRIPT.format(leaf=leaf))

    def wait_for_window(self, server, what, pid, is_right, least=40):
        """Waits for `least` samples of a process in a row for which is_right([lib.Sample]) holds. On a loaded machine they take longer to come."""
        since = [len(server.calls)]
        latest = []

        def found():
            mine = [s for s in samples_of(server, since[0]) if s["resource"].get("process.pid") == pid]
            if sum(map(otlp_decode.count, mine)) < least:
                return time.sleep(0.3)
            latest[:] = otlp_decode.folded(mine)
            since[0] = len(server.calls)
            return is_right(latest)
        try:
            self.wait_for(what, found, 3 * lib.PATIENCE)
        except AssertionError as error:
            error.add_note("\n".join(f"{s.count} x {lib.show(s.frames)}" for s in sorted(latest, key=lambda s: -s.count)[:20]))
            error.add_note(lib.read(os.path.join(self.directory, "agent.log"))[-8000:])
            raise

    def wait_for_leaf(self, server, program, leaf):
        self.wait_for_window(server, f"samples in {leaf}", program.pid,
                             lambda samples: sum(s.count for s in samples if leaf in s.frames) > 0.9 * sum(s.count for s in samples))

    def wait_for_chain(self, server, program):
        self.wait_for_window(server, f"stacks of {program.comm} that are right", program.pid, lambda samples: not lib.compare(samples, program.expectation, 0.98, 40))

    def others(self, running, *roles):
        return {name: pid for name, pid in lib.roles_of(running.process.pid).items() if COMMS[name] not in roles}

    def perl(self, leaf):
        """The same in Perl, whose program the loader loads when the first Perl starts."""
        return self.started("/usr/bin/perl", "-e", PERL.format(leaf=leaf))

    def check(self, role, signal_number=signal.SIGKILL, options=None, following=()):
        """`following`: roles that start again with it. Returns the account. The programs that run before, and those that start while the role is missing or afterwards, are shown as without its end."""
        with scripted.Server() as server, lib.Program("recursion", 28, seconds=600) as program, self.python("before") as before, self.agent(server, options) as running:
            self.wait_for_chain(server, program)
            self.wait_for_leaf(server, before, "before")
            others = self.others(running, role, *following)
            for i in range(KILLS):
                with contextlib.ExitStack() as stack:
                    pid = running.pid(role)
                    # A file that nobody knows, mapped while the role is missing.
                    new_file = shutil.copy(os.path.join(lib.PROGRAMS, "recursion"), os.path.join(self.directory, f"new_{i}"))
                    os.kill(pid, signal_number)
                    native = stack.enter_context(lib.Program("recursion", 20, seconds=600, path=new_file))
                    during = stack.enter_context(self.python(f"during_{i}"))
                    perl = stack.enter_context(self.perl(f"perl_{i}"))
                    self.wait_for(f"another {role}", lambda pid=pid: running.pid(role) not in (0, pid))
                    after = stack.enter_context(self.python(f"after_{i}"))
                    for started, leaf in ((before, "before"), (during, f"during_{i}"), (perl, f"main::perl_{i}"), (after, f"after_{i}")):
                        self.wait_for_leaf(server, started, leaf)
                    for known in (program, native):
                        self.wait_for_chain(server, known)
                self.assertEqual(self.others(running, role, *following), others, running.said())
                self.wait_for("the end of all zombies", lambda: not lib.zombies_of(running.process.pid) + lib.zombies_of(os.getpid()))
            status = self.wait_for_status(running, "the agent to be ready", lambda s: s["ready"])
            counted = agent.lost(status)
            self.assertEqual({name: r["restarts"] for name, r in status["roles"].items() if r["restarts"]}, dict.fromkeys((role, *following), KILLS), status["roles"])
            account = running.stop()
            samples = sample_keys(samples_of(server))
            self.assertEqual(len(samples), len(set(samples)), "samples that arrived twice")
            self.assertEqual(len(samples), account["taken"] - account["lost"], running.said())
            print(f"{role}: {KILLS} restarts, {account}, of which {counted} were counted before the end", flush=True)
            # What is lost is counted when it is lost, not only at the end, where a sample or two may be lost as well.
            self.assertGreaterEqual(counted, min(0.9 * account["lost"], account["lost"] - 2))
            return account

    def test_loader(self):
        """What it has loaded is pinned, and goes on sampling."""
        self.assertEqual(self.check("loader", options={"agent.pin_directory": agent.pin_directory(self)})["lost"], 0)

    def test_opener(self):
        """It is not on the way of a sample."""
        self.assertEqual(self.check("opener")["lost"], 0)

    def test_worker(self):
        """What it has taken from the ring and not sent yet is lost, and what refers to stacks that only it knew."""
        account = self.check("worker")
        self.assertLess(account["lost"], account["taken"] / 4)

    def test_manager(self):
        """Opener and worker start again with it. Sampling goes on, and stacks wait until the files have been read again."""
        account = self.check("unwinder-mgr", following=("opener", "worker"))
        self.assertLess(account["lost"], account["taken"] / 4)

    def test_two_at_once(self):
        with scripted.Server() as server, lib.Program("recursion", 28, seconds=600) as program, self.python("before") as before, self.agent(server) as running:
            self.wait_for_chain(server, program)
            others = {name: pid for name, pid in lib.roles_of(running.process.pid).items() if name in ("loader", "manager")}
            for pid in [running.pid(role) for role in ("opener", "worker", "exporter")]:
                os.kill(pid, signal.SIGKILL)
            self.wait_for_chain(server, program)
            self.wait_for_leaf(server, before, "before")
            with self.python("after") as after:
                self.wait_for_leaf(server, after, "after")
            now = lib.roles_of(running.process.pid)
            self.assertEqual({name: now[name] for name in others}, others, running.said())
            running.stop()

    def test_loader_and_manager_at_once(self):
        """The next manager does not need to know what the pinned tables contain."""
        with scripted.Server() as server, lib.Program("recursion", 28, seconds=600) as program, self.python("before") as before, \
                self.agent(server, {"agent.pin_directory": agent.pin_directory(self)}) as running:
            self.wait_for_chain(server, program)
            others = self.others(running, "loader", "unwinder-mgr", "opener", "worker")
            for pid in [running.pid(role) for role in ("loader", "unwinder-mgr")]:
                os.kill(pid, signal.SIGKILL)
            self.wait_for_chain(server, program)
            self.wait_for_leaf(server, before, "before")
            self.wait_for("the agent to be ready", running.ready)
            self.assertEqual(self.others(running, "loader", "unwinder-mgr", "opener", "worker"), others, running.said())
            account = running.stop()
            arrived = sample_keys(samples_of(server))
            self.assertEqual((len(arrived), len(set(arrived))), (account["taken"] - account["lost"],) * 2, running.said())

    def test_one_that_is_never_ready(self):
        """Its uid is the reason, because it has as many processes as it may have. So after some vain starts all roles are started again, with other uids."""
        with scripted.Server() as server, lib.Program("recursion", 28, seconds=600) as program, self.agent(server) as running, contextlib.ExitStack() as stack:
            self.wait_for_chain(server, program)
            before = lib.roles_of(running.process.pid)
            opener = before["opener"]
            uid = int(lib.proc_status(opener)["Uid"].split()[0])
            limit = int(re.search(r"^Max processes +(\d+) ", lib.read(f"/proc/{opener}/limits"), re.MULTILINE)[1])
            for _ in range(limit):
                waiting = stack.enter_context(subprocess.Popen(["sleep", "600"], user=uid))
                stack.callback(waiting.kill)
            os.kill(opener, signal.SIGKILL)
            self.wait_for("another loader", lambda: lib.roles_of(running.process.pid).get("loader", before["loader"]) != before["loader"])
            self.wait_for_chain(server, program)
            self.assertNotEqual(lib.proc_status(running.pid("opener"))["Uid"].split()[0], str(uid), running.said())
            running.stop()

    def test_the_agent_ends_while_a_role_is_missing(self):
        """The account is exact in any case; the worker is waited for, because what is in the ring is for it."""
        options = {"agent.pin_directory": agent.pin_directory(self)}
        for role in ("loader", "unwinder-mgr", "opener", "worker"):
            with self.subTest(role), scripted.Server() as server, agent.busy(self, 600), self.agent(server, options) as running:
                self.wait_for_status(running, "samples", lambda s: s["delivered"] > 100)
                os.kill(running.pid(role), signal.SIGKILL)
                account = running.stop()
                self.assertEqual(account["waiting"], 0, running.said())
                print(f"{role}: {account}", flush=True)


if __name__ == "__main__":
    lib.main()
