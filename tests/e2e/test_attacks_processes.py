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
        """The stacks of these processes may be wrong (docs/threat-model.md), but not those of others."""
        args = []
        for name in ("first_use", "second_use"):
            with open(f"{self.directory}/{name}.s", "w", encoding="ascii") as file:
                file.write(ONE_FUNCTION.format(name=name))
            self.compile("-shared", "-nostdlib", f"{name}.s", "-o", f"{name}.so")
            args += [f"{self.directory}/{name}.so", name]
        self.record_program("pid_reuse", *args, comms=["first_use", "second_use"])


if __name__ == "__main__":
    lib.main()
