# SPDX-License-Identifier: Apache-2.0
"""Processes and threads that start and end at full speed, next to well-behaved programs, whose stacks stay right (attack.py)."""
import lib
from attack import AttackCase

# A shared library with one function at the start of its second page, which counts down from its argument.
ONE_FUNCTION = """
	.section .note.GNU-stack,"",@progbits
	.text
	.globl {name}
	.type {name}, @function
{name}:
	.cfi_startproc
	dec %rdi
	jnz {name}
	ret
	.cfi_endproc
	.size {name}, . - {name}
"""


class Processes(AttackCase):
    def test_forks_at_full_speed(self):
        self.record_program("fork_bomb", comms=["fork_bomb"])

    def test_execs_at_full_speed(self):
        self.record_program("exec_loop", comms=["exe"])

    def test_threads_at_full_speed(self):
        self.record_program("thread_bomb", comms=["thread_bomb"])

    def test_one_pid_for_many_processes(self):
        """None of these processes is shown with the code of the one before."""
        args = []
        for name in ("first_use", "second_use"):
            with open(f"{self.directory}/{name}.s", "w", encoding="ascii") as file:
                file.write(ONE_FUNCTION.format(name=name))
            self.compile("-shared", "-nostdlib", f"{name}.s", "-o", f"{name}.so")
            args += [f"{self.directory}/{name}.so", name]
        recording = self.record_program("pid_reuse", *args, comms=["first_use", "second_use"])
        other = {"first_use": "second_use", "second_use": "first_use"}
        samples = recording.of(*other)
        wrong = sum(s.count for s in samples if other[s.comm] in s.frames)
        print(f"  {wrong} of {sum(s.count for s in samples)} samples have the code of another process with the same pid,",
              f"{sum(s.count for s in samples if s.comm in s.frames)} have their own")
        self.assertEqual(wrong, 0)


if __name__ == "__main__":
    lib.main()
