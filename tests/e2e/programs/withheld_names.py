# SPDX-License-Identifier: Apache-2.0
"""Executes a function whose name is in the first page of fuse/code, which the server of the file system does not answer (withheld.c)."""
import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
PROT_READ, MAP_PRIVATE = 1, 2

page = libc.mmap(None, 4096, PROT_READ, MAP_PRIVATE, os.open("fuse/code", os.O_RDONLY), 0)


def nameless():
    while True:
        pass


# Whatever the version: each word of the code object that points to one of its names.
names = {id(nameless.__code__.co_name), id(getattr(nameless.__code__, "co_qualname", None)), id(nameless.__code__.co_filename)}
words = (ctypes.c_size_t * 32).from_address(id(nameless.__code__))
for i, word in enumerate(words):
    if word in names:
        words[i] = page
# The program is in a pid namespace, and /proc that of the host.
print(os.readlink("/proc/self"), flush=True)
nameless()
