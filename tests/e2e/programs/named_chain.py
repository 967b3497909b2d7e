# SPDX-License-Identifier: Apache-2.0
"""Uses CPU time at the end of a known chain: named_chain.py SECONDS [PROGRAM ARGUMENT...].

The seconds are CPU time, so that a loaded machine takes as many samples as an idle one. The
program, if there is one, is executed afterwards.
"""
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
    end = time.process_time() + seconds
    middle = Middle()
    while time.process_time() < end:
        middle.step()


outermost(float(sys.argv[1]))
if len(sys.argv) > 2:
    os.execv(sys.argv[2], sys.argv[2:])
