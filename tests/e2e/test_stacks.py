# SPDX-License-Identifier: Apache-2.0
"""Right stacks: at least 99.5 % of the samples of programs that know their call chain have exactly that chain."""
import collections
import unittest

import lib

CHILD_MS = 30  # that each child of vforks runs, thus at most as many samples, at 997 Hz


class Stacks(lib.Case):
    def check(self, name, *args, least_share=0.995, seconds=1, **kwargs):
        with lib.Program(name, *args, **kwargs) as program:
            recording = self.record("-p", program.pid, seconds=seconds)
        self.assert_stacks(recording, recording.samples, program.expectation, least_share)
        self.assert_accounted(recording)

    def check_with_short_copies(self, *program):
        """For programs whose stacks do not fit into the copy of a stack: samples that were deferred, since tables were still built when the recording began,
        are cut at the end of the copy."""
        with lib.Program(*program) as program:
            recording = self.record("-p", program.pid)
        short = [s for s in recording.samples if lib.user_frames(s.frames)[-1:] == ("[stack cut: stack_copy_short]",)]
        self.assertLessEqual(sum(s.count for s in short), recording.stats["deferred"], recording.describe())
        self.assertLess(sum(s.count for s in short), 0.5 * sum(s.count for s in recording.samples), recording.describe())
        self.assert_stacks(recording, [s for s in recording.samples if s not in short], program.expectation)
        self.assert_accounted(recording)

    def test_stacks_that_change_all_the_time(self):
        self.check("wander", 70)

    def test_contexts(self):
        """The stack of a coroutine ends where it begins, and says so."""
        with lib.Program("contexts") as program:
            recording = self.record("-p", program.pid)
        self.assert_stacks(recording, recording.samples, program.expectation)
        self.assertEqual({reason: count for reason, count in recording.stats["incomplete"].items() if count}, {}, recording.describe())

    def test_recursion_28(self):
        self.check("recursion", 28)

    def test_recursion_200(self):
        self.check("recursion", 200)

    def test_recursion_500(self):
        self.check("recursion", 500)

    def test_recursion_not_pie(self):
        self.check("recursion_nopie", 40)

    def test_recursion_stripped(self):
        """A stripped program: names come from .dynsym, which does not contain _start."""
        with lib.Program("recursion_stripped", 40) as program:
            recording = self.record("-p", program.pid)
        chain = program.expectation.said["chains"][0][:-1]
        nameless = lib.Expectation({"chains": [[*chain, {"re": "(?!main$).+", "min": 2, "max": 2}, {"re": r"recursion_stripped\+0x[0-9a-f]+|_start"}]]})
        self.assert_stacks(recording, recording.samples, nameless)

    def test_recursion_without_eh_frame_hdr(self):
        self.check("recursion_nohdr", 40)

    def test_recursion_with_debug_frame_only(self):
        self.check("recursion_debugframe", 40)

    def test_recursion_static(self):
        self.check("recursion_static", 40)

    def test_recursion_static_pie(self):
        self.check("recursion_staticpie", 40)

    def test_recursion_without_tables(self):
        self.check("recursion_no_tables", 40)

    def test_every_instruction_without_tables(self):
        self.check("steps_no_tables")

    def test_signal_handler_without_tables(self):
        self.check("signals_no_tables", 0)

    def test_musl(self):
        self.check("musl")

    def test_musl_static(self):
        self.check("musl_static")

    def test_musl_stripped(self):
        """Without symbols there are no names to compare, but the depth of the chain is, and that all samples of a
        thread start in the same place."""
        with lib.Program("musl_stripped") as program:
            recording = self.record("-p", program.pid)
        nameless = r"musl_stripped\+0x[0-9a-f]+"
        begins = {}
        for sample in recording.samples:
            frames = lib.user_frames(sample.frames)
            begins.setdefault(sample.comm, collections.Counter())[frames[-3:]] += sample.count
        threads = {}
        for comm, counter in begins.items():
            begin, _ = counter.most_common(1)[0]
            threads[comm] = [[{"re": nameless, "min": 0, "max": 15}, *begin]]
        main = [{"re": nameless, "min": 34, "max": 34}]
        self.assertEqual(set(threads), {"musl_stripped", "sorter", "printer", "mover"})
        self.assert_stacks(recording, recording.samples, lib.Expectation({"threads": {**threads, "musl_stripped": [main]}}))

    def test_musl_signal_handler(self):
        self.check("musl_signals", 0)

    def test_musl_signal_at_the_first_instruction(self):
        self.check("musl_signals", 1)

    def test_two_shared_libraries(self):
        self.check("pingpong", 60)

    def test_plt(self):
        self.check("plt")

    def test_plt_with_cet(self):
        self.check("plt_cet")

    def test_plt_through_the_resolver(self):
        self.check("plt", env={"LD_BIND_NOT": "1"})

    def test_signal_handler(self):
        self.check("signals", 0)

    def test_signal_at_the_first_instruction(self):
        self.check("signals", 1)

    def test_signal_on_its_own_stack(self):
        """A copy has the signal's stack only."""
        self.check_with_short_copies("signals", 2)

    def test_signal_within_a_signal(self):
        self.check("signals", 3)

    def test_alloca_and_realigned(self):
        """A copy ends within the frame of 40,000 bytes."""
        self.check_with_short_copies("frames")

    def test_every_instruction(self):
        self.check("steps")

    def test_exceptions(self):
        """The moment that the program describes has 1 to 2 of 1,000 samples, and in one second sometimes more than 5."""
        self.check("exceptions", seconds=4)

    def test_cxx_names(self):
        self.check("cxxnames")

    def test_assembly_frames(self):
        self.check("assembly", 0)

    def test_assembly_moving_stack_pointer(self):
        self.check("assembly", 1)

    def test_assembly_cfa_in_r10(self):
        self.check("assembly", 2)

    def test_assembly_cfa_in_memory(self):
        self.check("assembly", 3)

    def test_assembly_cfa_in_memory_plus_offset(self):
        self.check("assembly", 4)

    def test_assembly_cfa_in_rbx(self):
        self.check("assembly", 5)

    def test_tail_calls(self):
        self.check("tailcalls")

    def test_threads(self):
        self.check("threads", 4)

    def test_vdso(self):
        self.check("clocks", 0)

    def test_vsyscall(self):
        if "[vsyscall]" not in lib.read("/proc/self/maps"):
            self.skip("this kernel has no vsyscall page")
        self.check("clocks", 1)

    def test_jit_code_calling_back(self):
        self.check("jit", 0)

    def test_jit_code(self):
        self.check("jit", 1)

    def test_system_calls(self):
        self.check("syscalls")

    def test_vfork(self):
        with lib.Program("vforks", 0) as program:
            # Long enough for a loaded machine, which has not built the table in time for the first samples.
            recording = self.record(seconds=5)
        self.assert_stacks(recording, recording.of("vforks"), program.expectation)

    def test_vfork_repeatedly(self):
        with lib.Program("vforks", CHILD_MS) as program:
            recording = self.record()
        # The child that runs while the recording starts may end before its mappings can be read.
        start = [s for s in recording.of("vforks") if lib.user_frames(s.frames)[-1:] == ("[stack cut: process_unknown]",)]
        self.assertLess(sum(s.count for s in start), 2 * CHILD_MS, recording.describe())
        # One that ends has given up its memory, and with it its user stack.
        ended = [s for s in recording.of("vforks") if "do_exit_[k]" in s.frames and not lib.user_frames(s.frames)]
        self.assertLess(sum(s.count for s in ended), 0.2 * sum(s.count for s in recording.of("vforks")), recording.describe())
        self.assert_stacks(recording, [s for s in recording.of("vforks") if s not in start + ended], program.expectation)

    def test_started_by_the_recording(self):
        """A command of `record` is sampled from its first instruction: after main was called, every sample has the chain."""
        recording = self.record(seconds=None, status=None, command=[f"{lib.PROGRAMS}/recursion", "2", "200"])
        expectation = lib.Expectation({"chains": [["leaf", {"name": "descend", "times": 195}, "main", "@start"]]})
        in_main = [s for s in recording.of("recursion") if "main" in s.frames]
        self.assert_stacks(recording, in_main, expectation)
        early = [s for s in recording.of("recursion") if "main" not in s.frames]
        self.assertLess(sum(s.count for s in early), 0.02 * sum(s.count for s in in_main), recording.describe())


if __name__ == "__main__":
    lib.main()
