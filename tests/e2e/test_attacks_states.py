# SPDX-License-Identifier: Apache-2.0
"""Processes in unusual states, next to well-behaved programs, whose stacks stay right (attack.py)."""
import os
import re
import struct
import subprocess

import lib
from attack import NOBODY, AttackCase

I386 = 3  # e_machine
ADDRESS = 0x08048000


def write_elf32(path):
    """A program of 32 bits: it writes "ready", and then counts and asks for its pid again and again."""
    text = b"ready\n"
    start = 52 + 32
    code = bytes([0xb8]) + struct.pack("<I", 4) + bytes([0xbb]) + struct.pack("<I", 1)  # mov $write, %eax; mov $1, %ebx
    loop = bytes([0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0xb9, 0x80, 0x96, 0x98, 0, 0x49, 0x75, 0xfd, 0xeb, 0xef])  # as in programs/compat.c
    at = ADDRESS + start + len(code) + 12 + len(loop)
    code += bytes([0xb9]) + struct.pack("<I", at) + bytes([0xba]) + struct.pack("<I", len(text)) + bytes([0xcd, 0x80]) + loop + text
    header = struct.pack("<16sHHIIIIIHHHHHH", b"\x7fELF\1\1\1", 2, I386, 1, ADDRESS + start, 52, 0, 0, 52, 32, 1, 0, 0, 0)
    load = struct.pack("<IIIIIIII", 1, 0, ADDRESS, ADDRESS, start + len(code), start + len(code), 5, 4096)
    with open(path, "wb") as file:
        file.write(header + load + code)
    os.chmod(path, 0o755)


class States(AttackCase):
    def assert_all_cut(self, samples, reason):
        """Every sample says that its user stack was cut, and why."""
        self.assertEqual({s.frames[-1] for s in samples}, {f"{lib.CUT}: {reason}]"})

    def assert_most_pass_through(self, samples, function):
        through = sum(s.count for s in samples if function in s.frames)
        self.assertGreater(through, 0.9 * sum(s.count for s in samples), function)

    def test_process_whose_first_thread_has_ended(self):
        """/proc/PID has no mappings then."""
        recording = self.record_program("zombie_leader", comms=["orphan"])
        self.assert_most_pass_through(recording.of("orphan"), "use_cpu_time")

    def test_stopped_process_and_frozen_cgroup(self):
        recording = self.record_program("stopped", self.make_cgroup(), comms=["stopped", "frozen"])
        self.assert_most_pass_through(recording.of("stopped", "frozen"), "use_cpu_time")

    def make_cgroup(self):
        mounts = re.findall(r"^\S+ (\S+) cgroup2 ", lib.read("/proc/mounts"), re.MULTILINE)
        if not mounts:
            self.skip("no cgroup2 is mounted")
        path = f"{mounts[0]}/{os.path.basename(self.directory)}"
        os.mkdir(path)
        self.addCleanup(self.remove_cgroup, path)
        return path

    def test_process_under_ptrace(self):
        self.record_program("traced", comms=["tracee", "tracer"])

    def test_core_dumps(self):
        """The kernel reads the memory of a process that is sampled meanwhile."""
        os.mkdir(f"{self.directory}/cores")
        recording = self.record_program("core_dumps", f"{self.directory}/cores", comms=["crash"])
        self.assertTrue(any("vfs_coredump_[k]" in s.frames or "do_coredump_[k]" in s.frames for s in recording.of("crash")), "a sample while it dumped")

    def test_code_of_32_bits_in_a_process_of_64_bits(self):
        recording = self.record_program("compat", comms=["int80", "code32"])
        self.assert_all_cut([s for s in recording.of("code32") if "execute_code_32" not in s.frames], "compat_32_bit")
        self.assert_most_pass_through(recording.of("int80"), "make_system_calls")

    def test_program_of_32_bits(self):
        """Without frames, samples in user mode were lost: their record looked like a reference to a stack."""
        path = f"{self.directory}/elf32"
        write_elf32(path)
        try:
            process = subprocess.Popen([path], stdout=subprocess.PIPE)
        except OSError as error:
            self.skip(f"this kernel does not execute programs of 32 bits: {error}")
        process.kill()
        process.communicate()
        recording = self.record_attack(path, uid=NOBODY)
        self.assertTrue(any(len(s.frames) == 1 for s in recording.of("elf32")), "samples in user mode")
        self.assert_all_cut(recording.of("elf32"), "compat_32_bit")


if __name__ == "__main__":
    lib.main()
