# SPDX-License-Identifier: Apache-2.0
"""A process on which a role of an agent hangs: the role is replaced, and leaves that process alone, while others are profiled on."""
import os
import secrets
import select
import subprocess
import tempfile
import time

import containers
import lib
import otlp_decode
import scripted_server as scripted
from test_agent import AgentCase, samples_of

DAY = 86400
WORKER = lib.ROLES["worker"]
GIVEN_UP = "memory or mappings of a process could not be read in time; the process is left alone for a time"
THREADS_MAX = 5  # of role/process_work.h
HANGS = f"a role did not answer in time; it is killed and restarted: role={WORKER}"


def time_of(log, text):
    """The time of day of the first line with this text, in seconds."""
    line = next(line for line in log.splitlines() if text in line)
    hours, minutes, seconds = line.split("Z ")[0].split(":")
    return 3600 * int(hours) + 60 * int(minutes) + float(seconds)


def seconds_between(earlier, later):
    return (later - earlier) % DAY


class Quarantine(AgentCase):
    def start_attack(self, wrapper=()):
        """A Python program. A process that reads the name of its function hangs. Returns its pid."""
        directory = tempfile.mkdtemp(dir=self.directory)
        os.chmod(self.directory, 0o755)
        process = subprocess.Popen([*wrapper, f"{lib.PROGRAMS}/withheld", directory, "memory", "/usr/bin/python3", "-c",
                                    lib.read(f"{lib.SOURCE}/tests/e2e/programs/withheld_names.py")],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end_attack, process)
        self.assertTrue(select.select([process.stdout], [], [], lib.PATIENCE)[0], "the attack has not begun")
        return int(process.stdout.readline())

    @staticmethod
    def end_attack(process):
        process.kill()
        process.wait()
        process.stdout.close()

    @staticmethod
    def samples_of_process(server, pid, since=0):
        return [s for s in samples_of(server, since) if s["resource"].get("process.pid") == pid]

    def is_left_alone(self, server, pid, since=0):
        return any("[Python: process left alone]" in sample.frames for sample in otlp_decode.folded(self.samples_of_process(server, pid, since)))

    def check_others(self, server, program, since):
        """The samples of a well-behaved program since then are right."""
        def found():
            return self.samples_of_process(server, program.pid, since)
        self.wait_for("samples of others", lambda: sum(map(otlp_decode.count, found())) > 100)
        self.assertEqual(lib.compare(otlp_decode.folded(found()), program.expectation, 0.99, 100), [])

    def check_thread(self, settings):
        with scripted.Server() as server, lib.Program("recursion", 28) as program, self.agent(server, {"agent.watchdog": "5s", **settings}) as running:
            attacker = self.start_attack()
            self.wait_for("work that is given up", lambda: f"{GIVEN_UP}: pid={attacker} " in running.said())
            since = len(server.calls)
            self.check_others(server, program, since)
            self.assertTrue(self.is_left_alone(server, attacker, since), otlp_decode.folded(self.samples_of_process(server, attacker, since)))
            self.assertNotIn(HANGS, running.said())
            self.assertEqual(running.status()["roles"]["worker"]["restarts"], 0)
            self.assertEqual(running.stop()["lost"], 0)

    def test_memory_in_a_file_system_that_does_not_answer(self):
        """Another thread goes on. Without it the worker hangs, even if it is killed."""
        self.check_thread({})

    def test_the_same_in_strict_mode(self):
        self.check_thread({"runtimes.strict_memory": "true"})

    def test_worker_that_hangs_in_the_memory_of_a_process(self):
        """More threads hang than there may be, and the last one is the worker. Without the quarantine each worker hangs there again."""
        with scripted.Server() as server, lib.Program("recursion", 28) as program, self.agent(server, {"agent.watchdog": "5s"}) as running:
            for _ in range(THREADS_MAX - 1):
                attacker = self.start_attack(containers.wrapper(self, secrets.token_hex(32)))
                self.wait_for("samples that say that the process is left alone", lambda: self.is_left_alone(server, attacker))
            attacker = self.start_attack(containers.wrapper(self, secrets.token_hex(32)))
            self.wait_for("a worker that hangs", lambda: HANGS in running.said())
            left_alone = f"which is left alone for a time: pid={attacker} "
            self.wait_for("a worker that leaves the process alone", lambda: left_alone in running.said())
            self.check_others(server, program, len(server.calls))
            # Only when its time is over may the process cause the next hang.
            since = time_of(running.said(), left_alone)
            self.wait_for("ten seconds to pass", lambda: seconds_between(since, time.time()) > 10)
            later = running.said().split(left_alone, 1)[1]
            if HANGS in later:
                self.assertGreater(seconds_between(since, time_of(later, HANGS)), 10, running.said())
            running.stop()


if __name__ == "__main__":
    lib.main()
