# SPDX-License-Identifier: Apache-2.0
"""Processes with as many mappings as the kernel allows, which change all the time or are read again and again.

They cost the manager a bounded part of a CPU, and the stacks of well-behaved programs of another user stay right. One of these
starts during the attack.
"""
import contextlib
import os
import shutil

import lib
from attack import FREQ, NOBODY, AttackCase

CPU_MOST = 0.3  # of one CPU. Following the processes of one user may take 0.2 (LIMIT_FOLLOW_PERCENT)
# The manager's CPU time for one second of processes that do nothing but map. Without the array of recent mappings, and with maps that
# are read twice a second, it is 0.4 to 0.7; with them 0.1. Everything else, which is also what other processes of the machine do, may
# take a second, and a part of the duration.
CPU_PER_ATTACK = 0.25
CPU_ELSE = 1
CPU_ELSE_PART = 0.02
KEPT = 20  # processes whose maps have 4 MiB. To read and parse these takes some 70 ms each


class Manager(AttackCase):
    def program(self, name, copy):
        """A program that knows its chain, under a name that no other program has, and from a file that no other process maps."""
        copy += str(os.getpid())
        shutil.copy(f"{lib.PROGRAMS}/{name}", f"{self.directory}/{copy}")
        return lib.Program(copy, 28, path=f"{self.directory}/{copy}")

    def record_attacks(self, *attacks, least_share=0.99):
        """A recording of attacks: the manager's CPU time, that of the attackers, and the duration, in seconds."""
        with contextlib.ExitStack() as stack:
            before = stack.enter_context(self.program("recursion", "before"))
            attackers = [lib.Process(stack.enter_context(self.attack(f"{lib.PROGRAMS}/mappings", *attack, uid=NOBODY)).pid) for attack in attacks]
            process = self.start(seconds=None, freq=FREQ)
            began = sum(attacker.cpu_seconds() for attacker in attackers)
            self.wait_until_recording(process)
            later = stack.enter_context(self.program("recursion_static", "later"))
            self.give_cpu_time(5, process)
            attacked = sum(attacker.cpu_seconds() for attacker in attackers) - began
            process.terminate()
            recording = self.finish(process)
        expected = lib.Expectation({"chains": before.expectation.said["chains"] + later.expectation.said["chains"]})
        role = recording.stats["roles"]["unwinder-mgr"]
        cpu, duration = (role["user_ns"] + role["system_ns"]) / 1e9, recording.stats["duration_ns"] / 1e9
        print(f"  the manager took {cpu:.2f} s of CPU time in {duration:.1f} s, the attackers {attacked:.1f} s")
        self.assert_accounted(recording)
        self.assertEqual(recording.stats["lost"]["manager_queue"], 0, recording.describe())
        self.assert_stacks(recording, recording.of(before.comm, later.comm), expected, least_share, 5 * FREQ)
        self.assertLessEqual(cpu, CPU_MOST * duration, recording.describe())
        return cpu, attacked, duration

    def test_mappings_that_change_all_the_time(self):
        """Without the array of recent mappings, each change moves thousands of others. Without a limit, all of them are read twice a second."""
        cpu, attacked, duration = self.record_attacks(("change",), ("change",))
        self.assertLessEqual(cpu, CPU_PER_ATTACK * attacked + CPU_ELSE + CPU_ELSE_PART * duration)

    def test_sideband_that_is_flooded_next_to_processes_with_many_mappings(self):
        """Lost records have all processes scanned again. Without pauses and shares, the manager does nothing but read these maps."""
        os.mkdir(f"{self.directory}/long")
        os.chmod(f"{self.directory}/long", 0o777)
        # A program that starts now is found with its first sample. Its first stacks are complete if that takes less than 1.5 s
        # (LIMIT_DEFERRED_MS), which depends on who else needs the CPU while the manager reads maps.
        self.record_attacks(("keep", str(KEPT)), ("flood", f"{self.directory}/long"), least_share=0.9)


if __name__ == "__main__":
    lib.main()
