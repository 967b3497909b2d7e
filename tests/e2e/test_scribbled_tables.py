# SPDX-License-Identifier: Apache-2.0
"""A manager or worker that was taken over writes random, changing values into all tables that the kernel side reads, while it samples.

The kernel side neither faults nor hangs, goes on taking samples, and counts what is inconsistent. The account stays exact, and what is sampled after the
roles were replaced is right. BULKHEAD_SCRIBBLE_SECONDS says how long it writes; BULKHEAD_SCRIBBLE_SEED repeats the values of an earlier run.
"""
import collections
import contextlib
import ctypes
import os
import random
import re
import shutil
import signal
import subprocess

import lib
import otlp_decode
import scripted_server as scripted
from test_agent import AgentCase, sample_keys, samples_of

SECONDS = int(os.environ.get("BULKHEAD_SCRIBBLE_SECONDS", "5"))
SEED = os.environ.get("BULKHEAD_SCRIBBLE_SEED") or str(random.randrange(1 << 32))
# Programs that are only in the language's interpreter, and how to start them.
RUNTIMES = {
    "/usr/bin/python3": ["-c", "print('started', flush=True)\ndef f(n): return f(n - 1) if n else sum(range(2000))\nwhile True: f(30)"],
    "node": ["-e", "console.log('started'); function f(n) { return n ? f(n - 1) : Math.sqrt(2) } while (true) f(30)"],
    "perl": ["-e", "$| = 1; print \"started\\n\"; sub f { my $n = shift; return $n ? f($n - 1) : sqrt(2) } while (1) { f(30) }"],
    "php": ["-r", "echo \"started\\n\"; function f($n) { return $n ? f($n - 1) : sqrt(2); } while (true) f(30);"],
    "ruby": ["-e", "$stdout.sync = true; puts 'started'; def f(n) = n > 0 ? f(n - 1) : (1..2000).sum; loop { f(30) }"],
    "java": ["-Xmx64m", "{directory}/Scribbled.java"],
}
JAVA = """public class Scribbled {
    static double f(int n) { return n > 0 ? f(n - 1) : Math.sqrt(2); }
    public static void main(String[] arguments) {
        System.out.println("started");
        while (true) f(30);
    }
}"""
COMMS = ("python3", "node", "MainThread", "perl", "php", "php8.2", "ruby", "java")
FUNCTIONS = ("f", "Object#f", "Scribbled.f")
SYS_BPF, BPF_ENABLE_STATS = 321, 32
# What the kernel says when it has found a fault of its own.
FAULT = re.compile(r"BUG:|WARNING:|Oops|general protection|unable to handle|soft lockup|hard LOCKUP|rcu_\w+ (self-)?detected|stall|hung task|scheduling while atomic")
INCONSISTENT = ("table_inconsistent", "tables_changed", "runtime_inconsistent")
OTHER = ("process_unknown", "mapping_unknown", "module_without_table", "no_rule", "memory_unreadable", "stack_not_descending", "register_not_saved", "table_refused")


def kernel_log():
    """Lines of the kernel's log, or None if it cannot be read."""
    done = subprocess.run(["dmesg"], capture_output=True, text=True, errors="replace", check=False)
    return done.stdout.splitlines() if done.returncode == 0 else None


def measure_programs(case):
    """Has the kernel measure the run time of BPF programs until the test ends. Without that, none is printed."""
    attributes = (ctypes.c_uint32 * 1)(0)  # BPF_STATS_RUN_TIME
    fd = ctypes.CDLL(None).syscall(SYS_BPF, BPF_ENABLE_STATS, attributes, ctypes.sizeof(attributes))
    if fd >= 0:
        case.addCleanup(os.close, fd)


class Checker(lib.unittest.TestCase):
    def test_faults_of_the_kernel_are_recognised(self):
        for line in ("[1.0] WARNING: CPU: 0 PID: 1 at kernel/bpf/x.c", "[1.0] BUG: unable to handle page fault for address: 0", "[1.0] rcu: INFO: rcu_preempt detected stalls",
                     "[1.0] watchdog: BUG: soft lockup - CPU#0 stuck", "[1.0] general protection fault, probably for non-canonical address"):
            self.assertTrue(FAULT.search(line), line)
        self.assertFalse(FAULT.search("[1.0] audit: type=1326 audit(1.0:1): comm=\"security_filter\" sig=31"))


class ScribbledTables(AgentCase):
    def start_runtimes(self):
        with open(f"{self.directory}/Scribbled.java", "w", encoding="ascii") as f:
            f.write(JAVA)
        for name, arguments in RUNTIMES.items():
            arguments = [argument.replace("{directory}", self.directory) for argument in arguments]
            path = shutil.which(name)
            if path:
                self.enterContext(self.started(path, *arguments))
            else:
                print(f"SKIP {self.id()}: no {name} on this machine")

    def scribble(self, what, *pids):
        """Writes into the tables of these processes, while the agent samples."""
        done = subprocess.run([os.path.join(lib.BIN, "scribble"), str(SECONDS), SEED, what, *map(str, pids)], capture_output=True, text=True, check=False,
                              timeout=SECONDS + lib.PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        print(f"SEED={SEED} " + done.stdout.replace("\n", ", "), flush=True)

    @staticmethod
    def walked_share(server, since):
        """Of the samples of the runtimes in the requests from `since` on, the share that have their function, which only a walker of the runtime finds."""
        found = collections.Counter()
        for sample in otlp_decode.folded(samples_of(server, since)):
            if sample.comm in COMMS:
                found[any(re.split(r"[ :@]", frame)[0] in FUNCTIONS for frame in sample.frames)] += sample.count
        return found[True] / max(found.total(), 1)

    def check(self, what, roles, stopped):
        """`roles` write wrong values. Those in `stopped` do nothing else. Returns {reason: how often it was counted}, and the share before and while they write."""
        before = kernel_log()
        measure_programs(self)
        with scripted.Server() as server, lib.Program("recursion", 28) as program, self.agent(server, {"agent.watchdog": "5m"}) as running:
            self.start_runtimes()
            pids = lib.roles_of(running.process.pid)
            self.wait_for_status(running, "samples", lambda s: s["delivered"] > 300)
            status = running.status()
            before_share, since = self.walked_share(server, 0), len(server.calls)
            for role in stopped:
                os.kill(pids[role], signal.SIGSTOP)
            self.scribble(what, *(pids[role] for role in roles))
            after = self.wait_for_status(running, "more samples", lambda s: s["taken"] > status["taken"])
            self.assertEqual(lib.roles_of(running.process.pid), pids, f"a role has ended: {running.said()[-2000:]}")
            runs = after["bpf"]["run_cnt"] - status["bpf"]["run_cnt"]
            cost = (after["bpf"]["run_time_ns"] - status["bpf"]["run_time_ns"]) / max(runs, 1)
            counted = {reason: after["incomplete"].get(reason, 0) - status["incomplete"].get(reason, 0) for reason in (*INCONSISTENT, *OTHER)}
            shares = before_share, self.walked_share(server, since)
            print(f"{after['taken'] - status['taken']} samples, {cost / 1000:.1f} us each, {counted}, with their function: {shares}", flush=True)
            # The roles are replaced, and with them the tables.
            for role in roles:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pids[role], signal.SIGKILL)
            self.wait_for("other roles", lambda: set(lib.roles_of(running.process.pid).values()).isdisjoint({pids[role] for role in roles}))
            self.wait_for("the agent to be ready", running.ready)
            self.wait_for_right_stacks(server, program)
            account = running.stop()
            self.assertEqual(account["waiting"], 0)
            arrived = set(sample_keys(samples_of(server)))
            self.assertEqual(len(arrived), account["taken"] - account["lost"])
        self.assert_nothing_left(running)
        if before is None:
            print(f"SKIP {self.id()}: the kernel's log cannot be read")
        else:
            self.assertEqual([line for line in kernel_log()[len(before):] if FAULT.search(line)], [])
        return counted, shares

    def test_tables_of_the_manager(self):
        counted, _ = self.check("tables", ["manager"], ["manager"])
        self.assert_inconsistent(counted)

    def test_table_of_the_worker(self):
        """What is wrong there often means that there is no runtime, which is not inconsistent: the frames are native then."""
        counted, (before, meanwhile) = self.check("tables", ["worker"], [])
        self.assert_inconsistent(counted)
        self.assertLess(meanwhile, before, "the values had no effect")

    def assert_inconsistent(self, counted):
        self.assertGreater(sum(counted[reason] for reason in INCONSISTENT), 0, "nothing inconsistent was found")

    def test_positions_in_rings(self):
        """Both roles are stopped, because a worker that reads at a wrong position would invent samples."""
        self.check("pages", ["manager", "worker"], ["manager", "worker"])


if __name__ == "__main__":
    lib.main()
