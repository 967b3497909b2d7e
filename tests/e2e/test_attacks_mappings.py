# SPDX-License-Identifier: Apache-2.0
"""Attacks by mappings and by what registers point to, next to well-behaved programs, whose stacks stay right (attack.py)."""
import lib
from attack import AttackCase

LIMIT_STACK_FRAMES = 2304  # common/limits.h


class Mappings(AttackCase):
    def test_as_many_mappings_as_the_kernel_allows(self):
        recording = self.record_attack(f"{lib.PROGRAMS}/many_mappings")
        self.assertTrue(recording.of("many_mappings"))

    def test_mappings_that_change_at_full_speed(self):
        recording = self.record_attack(f"{lib.PROGRAMS}/mapping_churn")
        self.assertTrue(recording.of("mapping_churn"))

    def test_registers_that_point_to_no_stack(self):
        """A walk of such a stack ends, and says why. What is said of it is bounded."""
        recording = self.record_attack(f"{lib.PROGRAMS}/false_stacks")
        reasons = {"unmapped": "memory_unreadable", "prot_none": "memory_unreadable", "noncanonical": "memory_unreadable", "kernel": "memory_unreadable",
                   "wraps": "stack_not_descending", "endless": "too_deep", "itself": "stack_not_descending", "cycle": "stack_not_descending",
                   "descends": "stack_not_descending"}
        for comm, reason in reasons.items():
            samples = [s for s in recording.of(comm) if "run" not in s.frames]
            self.assertTrue(all(s.frames[-1].startswith(lib.CUT) for s in samples), comm)
            # Before the tables are ready a stack is copied, and has another reason.
            expected = sum(s.count for s in samples if s.frames[-1] == f"{lib.CUT}: {reason}]")
            self.assertGreater(expected, 0.5 * sum(s.count for s in samples), comm)
            self.assertLessEqual(max(len(s.frames) for s in samples), LIMIT_STACK_FRAMES, comm)


if __name__ == "__main__":
    lib.main()
