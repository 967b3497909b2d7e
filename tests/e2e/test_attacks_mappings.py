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
            self.assertEqual({s.frames[-1] for s in samples}, {f"{lib.CUT}: {reason}]"}, comm)
            self.assertLessEqual(max(len(s.frames) for s in samples), LIMIT_STACK_FRAMES, comm)


if __name__ == "__main__":
    lib.main()
