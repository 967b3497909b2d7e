# SPDX-License-Identifier: Apache-2.0
"""Makes naming its frames take long: forged_code.py PROCESSES [FRAMES].

Each process calls a chain of functions, again and again, and each time with new code objects. Their line tables are as large as
the worker reads. The code objects of the last chains are kept, because the worker finds nothing in those that are gone.
"""
import collections
import ctypes
import os
import signal
import sys
import time

FRAMES = int(sys.argv[2]) if len(sys.argv) > 2 else 200
CHAINS = 100
LINES = bytes(256 << 10)  # CPYTHON_LINES_BYTES_MAX
PR_SET_PDEATHSIG = 1


def call(chain, i):
    return chain[i](chain, i + 1)


def burn(chain, i):
    end = clock() + 0.01  # noqa: F821, of attack()
    while clock() < end:  # noqa: F821
        pass


def attack():
    new = type(call)
    codes = [f.__code__.replace(co_linetable=LINES) for f in (call, burn)]
    chain = [new(codes[0], {}) for _ in range(FRAMES)] + [new(codes[1], {"clock": time.process_time})]
    kept = collections.deque(maxlen=CHAINS)
    while True:
        made = [codes[i == FRAMES].replace(co_firstlineno=i) for i in range(FRAMES + 1)]
        kept.append(made)
        for function, code in zip(chain, made):
            function.__code__ = code
        chain[0](chain, 1)


for _ in range(int(sys.argv[1]) - 1):
    parent = os.getpid()
    if not os.fork():
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            sys.exit(0)
        break
attack()
