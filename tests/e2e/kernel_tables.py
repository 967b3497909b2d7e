# SPDX-License-Identifier: Apache-2.0
"""Reads the tables by which the kernel side finds the mappings of processes (bpf/shared.h), from outside, and compares them with /proc."""
import contextlib
import ctypes
import mmap
import os
import re
import struct

import lib

SYS_BPF, BPF_MAP_LOOKUP_ELEM, BPF_MAP_GET_FD_BY_ID = 321, 1, 14
PROCESS = struct.Struct("<IIIIIIQ")  # struct bh_process
MAPPING = struct.Struct("<QQQII")  # struct bh_mapping
PROCESSES = 1 << 14  # BH_PROCESSES_BITS
SLAB_BYTES = 2 << 20  # BH_SLAB_BYTES
PAGE = 4096


def bpf(command, attributes):
    """Calls bpf(2) with a union bpf_attr of these bytes."""
    buffer = ctypes.create_string_buffer(attributes.ljust(128, b"\0"), 128)
    result = ctypes.CDLL(None, use_errno=True).syscall(SYS_BPF, command, buffer, 128)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


class Map:
    """A map that can be mapped, for reading. Its owner may end."""

    def __init__(self, number, length):
        fd = bpf(BPF_MAP_GET_FD_BY_ID, struct.pack("<I", number))
        try:
            self.memory = mmap.mmap(fd, (length + PAGE - 1) // PAGE * PAGE, mmap.MAP_SHARED, mmap.PROT_READ) if length else None
        except OSError:
            os.close(fd)
            raise
        self.fd = fd

    def close(self):
        if self.memory:
            self.memory.close()
        os.close(self.fd)


class Tables:
    """The tables of an agent or recording, as long as its loader runs."""

    def __init__(self, loader):
        ids = {lib.bpf_describe("map", number).get("name"): number for number in lib.bpf_ids(loader, "map")}
        self._slabs = Map(ids["slabs"], 0)
        self._inner = {}
        self._processes = Map(ids["processes"], PROCESSES * PROCESS.size)

    def close(self):
        for table in (self._slabs, self._processes, *self._inner.values()):
            table.close()

    def _slab(self, index):
        if index not in self._inner:
            key, value = ctypes.c_uint32(index), ctypes.c_uint32(0)
            bpf(BPF_MAP_LOOKUP_ELEM, struct.pack("<IIQQ", self._slabs.fd, 0, ctypes.addressof(key), ctypes.addressof(value)))
            self._inner[index] = Map(value.value, SLAB_BYTES)
        return self._inner[index].memory

    def _read(self, at):
        """(tgid, [(start, end)]) of an entry, or None if it is free or changes."""
        entry = bytes(self._processes.memory[at:at + PROCESS.size])
        tgid, sequence, slab, offset, count, _, _ = PROCESS.unpack(entry)
        if not tgid or sequence & 1:
            return None
        mappings = []
        if count:
            content = bytes(self._slab(slab)[offset:offset + count * MAPPING.size])
            mappings = [item[:2] for item in MAPPING.iter_unpack(content)]
        unchanged = bytes(self._processes.memory[at:at + PROCESS.size]) == entry
        return (tgid, mappings) if unchanged else None

    def processes(self):
        """{tgid: [(start, end)]} of the processes in the table that do not change at the moment."""
        return dict(filter(None, (self._read(PROCESS.size * i) for i in range(PROCESSES))))


def executable_mappings(pid):
    """{(start, end)} of what a process may execute, without the page of the vsyscalls, which is the kernel's."""
    lines = re.findall(r"^(\w+)-(\w+) ..x. .*?(\S*)$", lib.read(f"/proc/{pid}/maps") or "", re.MULTILINE)
    return {(int(start, 16), int(end, 16)) for start, end, name in lines if name != "[vsyscall]"}


def is_covered(mapping, mappings):
    """Whether neighbours in a list cover a mapping: the kernel merges what it has mapped in parts."""
    at, end = mapping
    for start, stop in sorted(mappings):
        if start <= at < stop:
            at = stop
    return at >= end


def missing(tables, pids):
    """[(pid, start, end)] of the mappings of these processes that the tables do not have."""
    published = tables.processes()
    wrong = []
    for pid in pids:
        wrong += [(pid, hex(m[0]), hex(m[1])) for m in executable_mappings(pid) if not is_covered(m, published.get(pid, []))]
    return wrong


def ended(tables):
    """The processes in the table that do not exist any more. Some have only just ended."""
    return {tgid for tgid in tables.processes() if not os.path.exists(f"/proc/{tgid}")}


@contextlib.contextmanager
def of(loader):
    tables = Tables(loader)
    try:
        yield tables
    finally:
        tables.close()
