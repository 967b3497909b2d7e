# SPDX-License-Identifier: Apache-2.0
"""Twenty functions, each calling the next; the last one calculates for ever."""
import sys

LEVELS = 20


def spin():
    while True:
        for i in range(1000):
            i * i


namespace = {"level_0": spin}
# Functions of their own, not one that calls itself: each has a code object. The module and spin() are two of the levels.
for level in range(1, LEVELS - 1):
    exec(f"def level_{level}():\n    level_{level - 1}()\n", namespace)
print("{}", flush=True)
sys.setrecursionlimit(10000)
namespace[f"level_{LEVELS - 2}"]()
