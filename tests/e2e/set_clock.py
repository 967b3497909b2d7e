# SPDX-License-Identifier: Apache-2.0
"""Sets CLOCK_REALTIME for some processes only, while they run: the clock of the machine, which everybody else needs, stays as it is.

Programs read the clock with a function of the vDSO, code of the kernel that is mapped into each of them. Its pages are private to a process as soon as a
debugger writes to them. Clock replaces the function by one that asks the kernel and adds an offset to CLOCK_REALTIME. Children that a process forks have
the same offset; programs that it executes have the machine's clock.
"""
import contextlib
import os
import re
import signal
import struct
import time

import lib

NS = 10 ** 9
X86_64_CLOCK_GETTIME = 228  # arch/x86/entry/syscalls/syscall_64.tbl


def code(offset_ns):
    """int clock_gettime(edi, rsi) for x86-64."""
    seconds, rest = divmod(offset_ns, NS)
    tail = b"\x48\x81\x06" + struct.pack("<i", seconds)   # add qword [rsi], seconds
    tail += b"\xb9" + struct.pack("<i", rest)             # mov ecx, rest
    tail += b"\x48\x03\x4e\x08"                           # add rcx, [rsi + 8]
    tail += b"\x48\x81\xf9" + struct.pack("<i", NS)       # cmp rcx, 1000000000
    tail += b"\x7c\x0a"                                   # jl over the next two
    tail += b"\x48\x81\xe9" + struct.pack("<i", NS)       # sub rcx, 1000000000
    tail += b"\x48\xff\x06"                               # inc qword [rsi]
    tail += b"\x48\x89\x4e\x08"                           # mov [rsi + 8], rcx
    tail += b"\x31\xc0"                                   # xor eax, eax
    head = b"\xb8" + struct.pack("<i", X86_64_CLOCK_GETTIME) + b"\x0f\x05"  # mov eax, 228; syscall
    head += b"\x85\xff\x75" + bytes([len(tail)])          # test edi, edi; jne to the end
    return head + tail + b"\xc3"                          # ret


def vdso_of(pid):
    """(start, end) of the vDSO of a process."""
    found = re.search(r"^(\w+)-(\w+) .*\[vdso\]$", lib.read(f"/proc/{pid}/maps") or "", re.MULTILINE)
    if not found:
        raise ProcessLookupError(pid)  # it has ended, and may be a zombie
    return int(found[1], 16), int(found[2], 16)


def function_in(image):
    """(offset, length) of clock_gettime() in an image of the vDSO, an ELF file whose addresses start at 0."""
    section_at, = struct.unpack_from("<Q", image, 40)
    count, = struct.unpack_from("<H", image, 60)
    sections = [struct.unpack_from("<IIQQQQIIQQ", image, section_at + 64 * i) for i in range(count)]
    symbols = next(section for section in sections if section[1] == 11)  # SHT_DYNSYM
    names = sections[symbols[6]][4]
    for at in range(symbols[4], symbols[4] + symbols[5], 24):
        name, _, _, _, value, size = struct.unpack_from("<IBBHQQ", image, at)
        if image[names + name:].split(b"\0", 1)[0] == b"__vdso_clock_gettime":
            return value, size
    raise LookupError("this kernel has no __vdso_clock_gettime")


def is_stopped_outside(pid, start, end):
    """Whether all threads are stopped, and none of them between these addresses. None if some still run."""
    outside = True
    for task in os.listdir(f"/proc/{pid}/task"):
        state = lib.read(f"/proc/{pid}/task/{task}/status") or ""
        if re.search(r"^State:\t[ZX]", state, re.MULTILINE):
            raise ProcessLookupError(pid)
        place = (lib.read(f"/proc/{pid}/task/{task}/syscall") or "running").split()
        if not re.search(r"^State:\tT", state, re.MULTILINE) or place[0] == "running":
            return None
        outside &= not start <= int(place[-1], 16) < end
    return outside


class Clock:
    """The clock of some processes. `offset_ns` is how far it is ahead of the machine's. A process that has ended leaves them, such as a helper of a role."""

    def __init__(self, pids):
        self.pids = list(pids)
        self.offset_ns = 0

    @staticmethod
    def _write(pid, content):
        start, end = vdso_of(pid)
        with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
            memory.seek(start)
            at, size = function_in(memory.read(end - start))
            if len(content) > size:
                raise ValueError(f"clock_gettime() has only {size} bytes")
            memory.seek(start + at)
            memory.write(content)

    def _write_stopped(self, pid, content):
        while True:
            os.kill(pid, signal.SIGSTOP)
            try:
                while (outside := is_stopped_outside(pid, *vdso_of(pid))) is None:
                    time.sleep(0.0005)
                if outside:
                    self._write(pid, content)
                    return
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
            time.sleep(0.0005)

    def set(self, offset_ns):
        self.offset_ns = offset_ns
        for pid in list(self.pids):
            try:
                self._write_stopped(pid, code(offset_ns))
            except (FileNotFoundError, ProcessLookupError):
                self.pids.remove(pid)

    def now_ns(self):
        """What the processes read now."""
        return time.time_ns() + self.offset_ns
