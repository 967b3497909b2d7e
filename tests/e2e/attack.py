# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of attacks (test_attacks*.py): an attack runs next to well-behaved programs, whose stacks stay right.

Each attack is a program of tests/e2e/programs (attack.h), or one that its test builds. The well-behaved programs know their call
chains; one of them starts during the attack.
"""
import contextlib
import os
import re
import select
import shutil
import struct
import subprocess
import time

import lib

FREQ = 99
SECONDS = 3  # of CPU time that each well-behaved program has during a recording
X86_64 = 62  # e_machine
NOBODY = 65534  # the uid of the attackers
DATA_LIMIT = re.compile(r"^Max data size +(\d+) ", re.MULTILINE)


def is_start(sample):
    """Whether a program was executed, loaded or ended at this time, so that it was not in its chain."""
    frames = lib.user_frames(sample.frames)
    return not frames or re.match(r"ld-linux|ld-musl|_dl_start", frames[-1]) or (frames[-1] == "_start" and "main" not in frames)


def is_descent(sample):
    """Whether the program was on its way to its leaf, fN calling fN-1, when a page of its stack had to be provided."""
    numbers = [int(name[1:]) for name in lib.user_frames(sample.frames) if re.fullmatch(r"f\d+", name)]
    return "asm_exc_page_fault_[k]" in sample.frames and numbers != [] and numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def is_setup(sample, expectation):
    """Whether main() was still in a function of the C library, such as alarm(), before it called any function of its chain."""
    names = lib.user_frames(sample.frames)
    of_chains = {entry if isinstance(entry, str) else entry.get("name") for chain in expectation.said["chains"] for entry in chain}
    return len(names) > 1 and "main" in names[1:] and names[-1] == "_start" and not (of_chains - {"main"}) & set(names)


def silently_wrong(samples, expectation):
    """The samples that have another stack than their program's and do not say that it was cut."""
    return [s for s in samples if not expectation.matches(s) and not any(f.startswith(lib.CUT) for f in s.frames)
            and not is_start(s) and not is_descent(s) and not is_setup(s, expectation)]


def memory_of(pid):
    """(most bytes that the process had resident so far, how many it may have), or None if it has ended."""
    status, limits = lib.proc_status(pid), lib.read(f"/proc/{pid}/limits")
    limit = DATA_LIMIT.search(limits or "")
    return (int(status["VmHWM"].split()[0]) << 10, int(limit[1])) if status and limit and "VmHWM" in status else None


def write_elf(path, kind, segments, content, sections):
    """An ELF file: its header, `segments` (program headers), `content`, and the headers of `sections`, of which the last has their names."""
    start = 64 + len(segments)
    with open(path, "wb") as file:
        file.write(struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", kind, X86_64, 1, 0, 64 if segments else 0, start + len(content), 0, 64,
                               56 if segments else 0, len(segments) // 56, 64, len(sections), len(sections) - 1))
        file.write(segments + content)
        for section in sections:
            file.write(struct.pack("<IIQQQQIIQQ", *section))


class AttackCase(lib.Case):
    def compile(self, *args):
        subprocess.run(["cc", *args], cwd=self.directory, check=True)

    @contextlib.contextmanager
    def attack(self, *command, uid=None):
        """A running attack, which has said that it has begun."""
        process = subprocess.Popen(command, cwd=self.directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, user=uid)
        try:
            select.select([process.stdout], [], [], lib.PATIENCE)
            self.assertTrue(process.stdout.readline(), "the attack has begun")
            yield process
            self.assertIsNone(process.poll(), "the attack ended")
        finally:
            process.kill()
            process.wait()
            process.stdout.close()

    def build_well_behaved(self):
        """The paths of two programs that are in no other process, nor are their names. The unwind rules of the second one are in no other file."""
        early, late = f"{self.directory}/early{os.getpid()}", f"{self.directory}/late{os.getpid()}"
        shutil.copy(f"{lib.PROGRAMS}/recursion", early)
        functions = 20
        with open(f"{self.directory}/late.c", "w", encoding="ascii") as file:
            file.write('#include "chain.h"\nCHAIN_GLOBALS;\nKEEP long f0(long n) { CHAIN_BURN(); return n; }\n')
            for i in range(1, functions):
                file.write(f"KEEP long f{i}(long n) {{ volatile char room[{16 * (3000 + i)}]; room[0] = 1; return f{i - 1}(n) + room[n]; }}\n")
            chain = ", ".join(f"'f{i}'" for i in range(functions))
            file.write(f"int main(int argc, char **argv)\n{{\n\tchain_start(argc, argv, 0);\n\tchain_say(\"{{'chains': [[{chain}, 'main', '@start']]}}\");\n")
            file.write(f"\treturn (int)f{functions - 1}(0);\n}}\n")
        self.compile("-O1", "-g0", "-fomit-frame-pointer", "-fno-stack-protector", "-fasynchronous-unwind-tables",
                     "-I", f"{lib.SOURCE}/tests/e2e/programs", "late.c", "-o", late)
        return early, late

    def faults_of(self, roles):
        """What is wrong with {role: pid}: those that were started are gone, or have needed more memory than their limit."""
        memory = {role: memory_of(pid) for role, pid in roles.items()}
        print("".join(f"  {role}: {used[0] >> 20} of {used[1] >> 20} MiB" for role, used in memory.items() if used))
        return [f"{role} has ended" if not used else f"{role} needs {used[0]} of {used[1]} bytes" for role, used in memory.items() if not used or used[0] > used[1]]

    def wait_for_tables(self):
        """Waits until the manager has built no unwind table for two seconds, longer than a browser's takes next to some busy programs."""
        built, since = 0, time.monotonic()

        def is_idle():
            nonlocal built, since
            count = lib.read(os.path.join(self.directory, "log.txt")).count("unwind table: ")
            if count != built:
                built, since = count, time.monotonic()
            return built and time.monotonic() > since + 2

        self.wait_for("the tables of the files", is_idle)

    def record_attack(self, *command, uid=None, options=(), outputs=("out.folded",), after_tables=False, least_share=0.99):
        """A recording of an attack and of two well-behaved programs. Checks the samples of the latter and the roles, and returns the recording. Of
        their stacks, `least_share` must be whole, and the others must say that they were cut. With `after_tables`, the second program starts when the
        unwind tables of the files of the attack are built."""
        early, late = self.build_well_behaved()
        with lib.Program(early, 28, path=early) as before, self.attack(*command, uid=uid):
            process = self.start(*options, seconds=None, freq=FREQ, outputs=outputs, debug=after_tables)
            roles = self.wait_until_recording(process)
            if after_tables:
                self.wait_for_tables()
            with lib.Program(late, path=late) as later:
                self.give_cpu_time(SECONDS, process)
                expected = lib.Expectation({"chains": before.expectation.said["chains"] + later.expectation.said["chains"]})
            faults = self.faults_of(roles)
            process.terminate()
            recording = self.finish(process)
        self.assert_none(faults, recording)
        self.assert_accounted(recording)
        # What a program does before main() is in no chain.
        samples = [s for s in recording.of(os.path.basename(early), os.path.basename(late)) if not is_start(s)]
        right = sum(s.count for s in samples if expected.matches(s))
        lost, taken = sum(recording.stats["lost"].values()), recording.stats["taken"]
        print(f"  {right} of {sum(s.count for s in samples)} samples of the well-behaved programs are right, {lost} of {taken} are lost")
        for sample in [s for s in samples if not expected.matches(s)][:5]:
            print(f"  not right: {sample.count} x {lib.show(sample.frames)}")
        if after_tables and right < least_share * sum(s.count for s in samples):
            print("".join(line for line in lib.read(os.path.join(self.directory, "log.txt")).splitlines(True) if "symbols" in line))
        self.assert_stacks(recording, samples, expected, least_share, SECONDS * FREQ)
        self.assert_none([f"wrong, but not cut: {lib.show(s.frames)}" for s in silently_wrong(samples, expected)], recording)
        self.assertLessEqual(lost, 0.01 * taken, recording.describe())
        self.wait_for("all processes of the recording to end", lambda: not lib.bulkhead_processes())
        return recording

    def record_program(self, name, *args, comms):
        """A recording of tests/e2e/programs/NAME, which has samples of these threads."""
        recording = self.record_attack(f"{lib.PROGRAMS}/{name}", *args)
        for comm in comms:
            self.assertTrue(recording.of(comm), f"no sample of {comm}")
        return recording
