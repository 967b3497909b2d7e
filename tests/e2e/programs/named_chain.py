# SPDX-License-Identifier: Apache-2.0
"""Burns CPU at the end of a chain that is known: named_chain.py SECONDS [PROGRAM ARGUMENT...], executed afterwards."""
import os
import sys
import time


def innermost(n):
    total = 0
    for i in range(n):
        total += i * i
    return total


class Middle:
    def step(self):
        return innermost(5000)


def outermost(seconds):
    end = time.monotonic() + seconds
    middle = Middle()
    while time.monotonic() < end:
        middle.step()


outermost(float(sys.argv[1]))
if len(sys.argv) > 2:
    os.execv(sys.argv[2], sys.argv[2:])
