# SPDX-License-Identifier: Apache-2.0
"""An agent for a long time, next to short processes (100,000 in an hour), language runtimes that start and end, and attacks.

Every ten seconds it measures each role: memory, descriptors, and what is in the tables of the kernel side. In the end the account is exact, no role was
replaced, nothing of processes that have ended is in the tables, and nothing has grown: each measure in the last third of the time is at most GROWTH times
that in the second third, plus SPARE. The first third is for caches to fill. Of memory the most counts. Of descriptors and processes the least counts,
because it grows if something is never given back, and not while others on the machine start programs: manager and worker have one for each file in use.

BULKHEAD_SOAK_SECONDS says how long. BULKHEAD_SOAK_REPORT is a file for the measurements. By hand, for an hour:
BULKHEAD_SOAK_SECONDS=3600 BULKHEAD_SOAK_REPORT=/tmp/soak.json ./dev test e2e.soak
"""
import collections
import contextlib
import json
import os
import re
import shutil
import subprocess
import time

import attack
import kernel_tables
import lib
import otlp_decode
import scripted_server as scripted
from test_agent import AgentCase

SECONDS = float(os.environ.get("BULKHEAD_SOAK_SECONDS", "180"))
PER_SECOND = 28  # short processes: 100,000 in an hour
NEW_FILE_EVERY = 20  # seconds: then the short processes are a program that nobody has executed before
MEASURE_EVERY = 10
ATTACK_SECONDS, PAUSE_SECONDS = 8, 12
RUNTIME_SECONDS = 4
GROWTH = 1.05
# Memory is counted in pages, and allocators keep what they had at most. What an attack fills is at its cap sooner or later.
SPARE = {"pss_kib": 2048, "fds": 32, "map_bytes": 4 << 20, "processes": 50}
BY_LEAST = ("fds", "processes")
# Programs for the interpreters of languages, which call functions of their own until they are killed.
RUNTIMES = {
    "python3": ["-c", "def f(n): return f(n - 1) if n else sum(range(2000))\nwhile True: f(30)"],
    "node": ["-e", "function f(n) { return n ? f(n - 1) : Math.sqrt(2) } while (true) f(30)"],
    "ruby": ["-e", "def f(n) = n > 0 ? f(n - 1) : (1..2000).sum\nloop { f(30) }"],
    "perl": ["-e", "sub f { my $n = shift; return $n ? f($n - 1) : sqrt(2) } while (1) { f(30) }"],
    "php": ["-r", "function f($n) { return $n ? f($n - 1) : sqrt(2); } while (true) f(30);"],
    "java": ["-Xmx64m", "{directory}/Soak.java"],
}
JAVA = "public class Soak { static double f(int n) { return n > 0 ? f(n - 1) : Math.sqrt(2); } public static void main(String[] a) { while (true) f(30); } }"
# Attack programs of tests/e2e/programs, with their arguments. The one that fills most comes first: also in three minutes it is not new in the last third.
ATTACKS = (("fork_bomb",), ("many_mappings",), ("mapping_churn",), ("false_stacks",), ("exec_loop",), ("thread_bomb",), ("zombie_leader",), ("traced",),
           ("compat",), ("core_dumps", "{directory}/cores"), ("event_storm", "{seed}"), ("mappings", "change"), ("mappings", "keep", "4"))


class Account:
    """What the backend has received. Requests are decoded once, and not kept."""

    def __init__(self, server, program):
        self.server, self.program = server, program
        self.arrived, self.count, self.wrong, self.right = set(), 0, collections.Counter(), 0

    def take(self):
        for call in self.server.take():
            for sample in otlp_decode.decode(otlp_decode.request(call.request)):
                self.count += otlp_decode.count(sample)
                at = sample["attributes"]["cpu.logical_number"], sample["attributes"].get("thread.id")
                self.arrived |= {(*at, t) for t in sample["timestamps"]}
                if sample["resource"].get("process.pid") == self.program.pid:
                    self.judge(otlp_decode.folded([sample]))

    def judge(self, samples):
        expectation = self.program.expectation
        wrong = attack.silently_wrong(samples, expectation)
        self.right += sum(s.count for s in samples if expectation.matches(s))
        self.wrong.update(lib.show(s.frames) for s in wrong)


class Soak(AgentCase):
    def setUp(self):
        super().setUp()
        self.measured = []
        self.started_processes = 0
        self.running = []  # (end, process) of what is to be killed then
        for name in ("cores", "short"):
            os.mkdir(f"{self.directory}/{name}")
            os.chmod(f"{self.directory}/{name}", 0o777)
        with open(f"{self.directory}/Soak.java", "w", encoding="ascii") as file:
            file.write(JAVA)
        self.addCleanup(self.end_all)

    def end_all(self, now=float("inf")):
        for end, process in [item for item in self.running if item[0] <= now]:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()
            self.running.remove((end, process))

    def start_for(self, seconds, *command, **popen):
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen(command, cwd=self.directory, **quiet, **popen)
        self.running.append((time.monotonic() + seconds, process))

    def short_processes(self, second):
        """Starts those of a second."""
        program = "/bin/true"
        if second % NEW_FILE_EVERY == 0:
            program = f"{self.directory}/short/{second}"
            shutil.copy("/bin/true", program)
        loop = f"i=0; while [ $i -lt {PER_SECOND} ]; do {program}; i=$((i + 1)); done; [ {program} = /bin/true ] || rm {program}"
        self.start_for(lib.PATIENCE, "/bin/sh", "-c", loop)
        self.started_processes += PER_SECOND + 1

    def attack_or_pause(self, turn):
        words = [word.format(directory=self.directory, seed=turn) for word in ATTACKS[turn % len(ATTACKS)]]
        user = {"user": attack.NOBODY} if words[0] == "mappings" else {}
        self.start_for(ATTACK_SECONDS, f"{lib.PROGRAMS}/{words[0]}", *words[1:], **user)

    def start_runtime(self, turn):
        name = list(RUNTIMES)[turn % len(RUNTIMES)]
        path = shutil.which(name)
        if path:
            self.start_for(RUNTIME_SECONDS, os.path.realpath(path) if name != "python3" else "/usr/bin/python3",
                           *(word.format(directory=self.directory) if name == "java" else word for word in RUNTIMES[name]))
        elif turn < len(RUNTIMES):
            print(f"SKIP {self.id()}: no {name} on this machine", flush=True)

    @staticmethod
    def measure_process(pid):
        rollup = lib.read(f"/proc/{pid}/smaps_rollup") or ""
        found = re.search(r"^Pss:\s+(\d+) kB", rollup, re.MULTILINE)
        return {"pss_kib": int(found[1]) if found else 0, "fds": len(os.listdir(f"/proc/{pid}/fd"))}

    def measure(self, running, roles, tables, seconds):
        """One entry for each role, with its helpers, one for the supervisor, and one for the kernel side."""
        status = running.status()
        self.assertEqual(lib.roles_of(running.process.pid), roles, f"a role was replaced: {running.said()[-3000:]}")
        result = {"supervisor": self.measure_process(running.process.pid)}
        for role, pid in roles.items():
            total = collections.Counter()
            for process in (pid, *lib.descendants(pid)):
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                    total.update(self.measure_process(process))
            result[role] = dict(total)
        published = tables.processes()
        result["kernel"] = {"map_bytes": status["bpf"]["map_bytes"], "processes": len(published)}
        self.measured.append((seconds, result))
        print(f"{seconds:5.0f} s: {status['taken']} taken, {len(published)} processes in the table, BPF {status['bpf']['map_bytes'] >> 20} MiB, "
              + ", ".join(f"{role} {values['pss_kib'] >> 10}" for role, values in result.items() if role != "kernel"), flush=True)
        if os.environ.get("BULKHEAD_SOAK_REPORT"):
            with open(os.environ["BULKHEAD_SOAK_REPORT"], "w", encoding="utf-8") as file:
                json.dump(self.measured, file)

    def result(self, who, what, begin, end):
        return (min if what in BY_LEAST else max)(values[who][what] for at, values in self.measured if begin <= at <= end)

    def grown(self):
        """What has grown: a list of texts."""
        faults = []
        for who, values in self.measured[-1][1].items():
            for what in values:
                second, last = self.result(who, what, SECONDS / 3, 2 * SECONDS / 3), self.result(who, what, 2 * SECONDS / 3, SECONDS + 1)
                print(f"{who} {what}: {second} in the second third, {last} in the last", flush=True)
                if last > GROWTH * second + SPARE[what]:
                    faults.append(f"{who} {what}: {second}, then {last}")
        return faults

    def soak(self, running, roles, tables, account):
        start = time.monotonic()
        second = measured = attacks = runtimes = 0
        while (now := time.monotonic() - start) < SECONDS:
            self.end_all(time.monotonic())
            if now >= second:
                self.short_processes(second)
                second += 1
            if now >= attacks * (ATTACK_SECONDS + PAUSE_SECONDS):
                self.attack_or_pause(attacks)
                attacks += 1
            if now >= runtimes * RUNTIME_SECONDS:
                self.start_runtime(runtimes)
                runtimes += 1
            if now >= measured * MEASURE_EVERY:
                self.measure(running, roles, tables, now)
                measured += 1
            account.take()
            time.sleep(0.05)
        print(f"{self.started_processes} short processes, {attacks} attacks, {runtimes} runtimes", flush=True)
        self.end_all()

    def test_soak(self):
        early = shutil.copy(f"{lib.PROGRAMS}/recursion", f"{self.directory}/early{os.getpid()}")
        with scripted.Server() as server, lib.Program(os.path.basename(early), 28, path=early, seconds=int(SECONDS) + 3600) as program, \
                self.agent(server, {"spool.memory_max_bytes": "64MiB"}) as running:
            account = Account(server, program)
            self.wait_for_status(running, "samples", lambda s: s["delivered"] > 100)
            roles = lib.roles_of(running.process.pid)
            with kernel_tables.of(roles["loader"]) as tables:
                self.soak(running, roles, tables, account)
                leftover = kernel_tables.ended(tables)
                end = time.monotonic() + 2 * lib.PATIENCE
                while (left := leftover & kernel_tables.ended(tables)) and time.monotonic() < end:
                    time.sleep(1)
                self.assertEqual(left, set(), f"processes that have ended stay in the tables\n{running.said()[-3000:]}")
            self.assertEqual(lib.roles_of(running.process.pid), roles, f"a role was replaced: {running.said()[-3000:]}")
            ended = running.stop()
            account.take()
            print(f"{ended}, arrived {len(account.arrived)}; of a program that knows its chain {account.right} are right, {sum(account.wrong.values())} wrong", flush=True)
            self.assertEqual((ended["waiting"], len(account.arrived)), (0, ended["taken"] - ended["lost"]))
            self.assertEqual(account.count, len(account.arrived), "none has arrived twice")
            self.assertEqual(account.wrong, {}, "wrong, without saying so")
            self.assertGreater(account.right, 0)
        self.assertEqual(self.grown(), [])
        self.assert_nothing_left(running)


if __name__ == "__main__":
    lib.main()
