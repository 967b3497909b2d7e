# SPDX-License-Identifier: Apache-2.0
"""Processes whose heaps are forged, next to programs that know their call chain.

Some make naming their frames take as long as possible, some are of every language runtime and change all the time. One of the well-behaved programs
starts during the attack. Their samples are not lost, and are right and named, whatever the attackers do.

BULKHEAD_INTERPRETERS: how many forged interpreters sleep (300).
"""
import contextlib
import os
import re
import shutil
import subprocess
import time

import lib
from attack import FREQ, NOBODY, AttackCase
from suspend import suspended

BUSY_ATTACKERS = 4
NEW_FRAMES = 15  # of a stack of new code that is copied as a whole (NEW_CODES_MAX of bpf/env.h), and small enough for two seconds in the ring
SLEEPING_ATTACKERS = int(os.environ.get("BULKHEAD_INTERPRETERS", "300"))
LIMIT_STACK_FRAMES = 2304  # common/limits.h
PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs")
PYTHON = os.path.realpath("/usr/bin/python3")  # everybody may execute it
CHAIN = ["innermost", "Middle.step", "outermost", "<module>"]  # of named_chain.py
# A program of each runtime that is in nested functions all the time, and the name of its process.
LOOPS = {
    os.path.basename(PYTHON): [PYTHON, "-c", "def descend(n):\n    return n and descend(n - 1) or sum(range(1000))\nwhile 1:\n    descend(20)"],
    "perl": ["/usr/bin/perl", "-e", "sub descend { my $n = shift; return descend($n - 1) if $n; my $s = 0; $s += $_ for 1 .. 1000; $s } descend(20) while 1"],
    "php": ["/usr/bin/php", "-r", "function descend($n) { return $n ? descend($n - 1) : array_sum(range(1, 1000)); } while (1) descend(20);"],
    "ruby": ["/usr/bin/ruby", "-e", "def descend(n) = n > 0 ? descend(n - 1) : (1..1000).sum { |i| i }\nloop { descend(20) }"],
    "node": ["/usr/bin/node", "-e", "function descend(n) { if (n) return descend(n - 1); let s = ''; for (let i = 0; i < 1000; i++) s += i; return s; } for (;;) descend(20);"],
    "java": ["/usr/bin/java", "-Xmx64m", "-Xint", "Descend"],
}
JAVA = """class Descend {
	static long descend(int n) {
		if (n > 0)
			return descend(n - 1);
		long sum = 0;
		for (int i = 0; i < 1000; i++)
			sum += i;
		return sum;
	}
	public static void main(String[] arguments) {
		while (true)
			descend(20);
	}
}
"""
NO_TIME = "[Python: name not read in time]"


def start_seconds():
    """The CPU time that this interpreter takes to start, which depends on the machine and its load."""
    process = subprocess.Popen([PYTHON, "-c", "pass"], stdin=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_utime + used.ru_stime


class Heaps(lib.Case):
    @contextlib.contextmanager
    def python(self, name, program, *args, user=None):
        """A Python program that runs until the `with` ends, as a process of this name."""
        path = f"{self.directory}/{name}"
        if not os.path.lexists(path):
            os.symlink(PYTHON, path)
        shutil.copy(os.path.join(PROGRAMS, program), self.directory)
        process = subprocess.Popen([path, f"{self.directory}/{program}", *args], stdin=subprocess.DEVNULL, user=user)
        try:
            yield process.pid
            self.assertIsNone(process.poll(), f"{name} ended")
        finally:
            process.kill()
            process.wait()

    def assert_named(self, recording, name):
        """The samples of a well-behaved program have all of its functions, but for a few that were taken while it started."""
        samples = recording.of(name)
        frames = [([f for f in lib.user_frames(s.frames) if f in CHAIN], s.count) for s in samples]
        named = sum(count for found, count in frames if found in (CHAIN, CHAIN[1:], CHAIN[2:]))
        taken = sum(s.count for s in samples)
        print(f"  {named} of {taken} samples of {name} are named")
        self.assertGreaterEqual(taken, FREQ / 2, recording.describe())
        self.assertGreaterEqual(named, 0.9 * taken - 2 * FREQ * self.start_seconds, recording.describe() + "\n" + "\n".join(lib.show(s.frames) for s in samples if not set(CHAIN) & set(s.frames)))

    @contextlib.contextmanager
    def recorded_attack(self, program, count, *args):
        """`count` processes of another user that run `program`, and a well-behaved one, while all are recorded: (process of the recording, {role: pid}, pid of
        the first attacker, pid of the well-behaved one)."""
        with self.python("attack", program, str(count), *args, user=NOBODY) as attack, self.python("steady", "named_chain.py", "1000") as steady:
            self.wait_for("all attackers", lambda: len(lib.descendants(attack)) == count - 1)
            process = self.start(seconds=None, freq=FREQ)
            yield process, self.wait_until_recording(process), attack, steady

    def assert_room(self, recording):
        """All samples are accounted for, and hardly one found no room in the ring."""
        self.assert_accounted(recording)
        lost, taken = recording.stats["lost"]["ring_full"], recording.stats["taken"]
        print(f"  {lost} of {taken} samples found no room in the ring; runtimes: {recording.stats['runtimes']['cpython']}")
        self.assertLessEqual(lost, 0.01 * taken, recording.describe())

    def record_attack(self, program, count):
        """A recording of processes of another user that run `program`, and of two well-behaved ones. Returns it, and the pids of the former."""
        with self.recorded_attack(program, count) as (process, _, attack, steady):
            attackers = {attack, *lib.descendants(attack)}
            self.start_seconds = start_seconds()
            with self.python("newcomer", "named_chain.py", "1000") as newcomer, lib.Process(steady), lib.Process(newcomer):
                self.give_cpu_time(3, process)
            process.terminate()
            recording = self.finish(process)
        self.assert_room(recording)
        self.assert_named(recording, "steady")
        self.assert_named(recording, "newcomer")
        return recording, attackers

    def assert_logged(self, recording, attackers):
        said = re.findall(r"naming the functions of a process takes too long.* pid=(\d+)", recording.stderr)
        # Once a minute, which a recording on a loaded machine may take.
        self.assertTrue(said, recording.stderr)
        self.assertLessEqual(set(map(int, said)), attackers)

    def test_functions_that_take_long_to_name(self):
        """Without a share of the time for each process, the worker names the attackers' frames while the ring overflows."""
        recording, attackers = self.record_attack("forged_code.py", BUSY_ATTACKERS)
        self.assert_logged(recording, attackers)
        self.assertGreater(recording.stats["runtimes"]["cpython"]["unnamed"], 0)
        attack = recording.of("attack")
        self.assertTrue(any(NO_TIME in s.frames for s in attack), recording.describe())
        self.assertTrue(any("call" in s.frames for s in attack), "some of their frames have names")

    def test_interpreters_that_take_long_to_attach(self):
        """Without the share, the worker attaches for as long as there are forged interpreters."""
        self.record_attack("forged_interpreters.py", SLEEPING_ATTACKERS)

    def test_copies_of_code_while_the_worker_is_late(self):
        """Without half of the ring for samples alone, the copies of new code leave room for no more than some forty samples."""
        with self.recorded_attack("forged_code.py", BUSY_ATTACKERS, str(NEW_FRAMES)) as (process, roles, _, _):
            self.give_cpu_time(0.5, process)
            with suspended(roles["worker"]):
                time.sleep(2)
            self.give_cpu_time(0.5, process)
            process.terminate()
            recording = self.finish(process)
        self.assertGreater(recording.stats["taken"], 3 * FREQ, recording.describe())
        self.assert_room(recording)


class Runtimes(AttackCase):
    def test_heaps_of_every_runtime_that_change_all_the_time(self):
        """Pointers lead in circles and lengths are of any size, in what the walkers and the worker read next. Where each program was stopped, and so
        whether its frames can be found at all, is chance."""
        with open(f"{self.directory}/Descend.java", "w", encoding="ascii") as file:
            file.write(JAVA)
        subprocess.run(["javac", "Descend.java"], cwd=self.directory, check=True)
        command = [word for loop in LOOPS.values() for word in (",", *loop)][1:]
        # The first program runs while the tables of seven large files are built, when its stacks may be cut.
        recording = self.record_attack(f"{lib.PROGRAMS}/scribbled_heaps", *command, after_tables=True, least_share=0.95)
        reached = 0
        for comm in LOOPS:
            samples = recording.of(comm)
            named = sum(s.count for s in samples if any("descend" in frame for frame in s.frames))
            longest = max(len(s.frames) for s in samples)
            print(f"  {comm}: {named} of {sum(s.count for s in samples)} samples have a name of it, {len(samples)} stacks, at most {longest} frames")
            reached += named > 0
            self.assertLessEqual(longest, LIMIT_STACK_FRAMES, comm)
        self.assertGreaterEqual(reached, len(LOOPS) / 2, recording.describe())


if __name__ == "__main__":
    lib.main()
