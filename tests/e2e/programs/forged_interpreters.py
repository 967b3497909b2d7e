# SPDX-License-Identifier: Apache-2.0
"""Makes attaching take long: forged_interpreters.py PROCESSES.

Each process replaces the lists of its interpreters and threads by circles, in which no thread holds its own state. So each
attempt makes as many reads as it may. Then the process sleeps.
"""
import ctypes
import os
import signal
import sys

# _PyRuntimeState.interpreters.head, by the minor version (symbolizer/runtime/cpython_file.c)
INTERPRETERS = {11: 40, 12: 40}
WORDS = 512
PR_SET_PDEATHSIG = 1


def forge(head):
    """Pages of an interpreter, the state of its thread, that thread, and its keys. Only the fields `next` are not the default."""
    pages = [(ctypes.c_uint64 * WORDS)() for _ in range(4)]
    interpreter, state, thread, keys = map(ctypes.addressof, pages)
    for page, words in zip(pages, (state, thread, keys)):
        page[:] = [words] * WORDS
    pages[0][0], pages[1][1] = interpreter, state
    ctypes.c_uint64.from_address(head).value = interpreter
    return pages


libc = ctypes.PyDLL(None)
for _ in range(int(sys.argv[1]) - 1):
    parent = os.getpid()
    if not os.fork():
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            sys.exit(0)
        break
kept = forge(ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime")) + INTERPRETERS[sys.version_info.minor])
while True:
    libc.pause()
