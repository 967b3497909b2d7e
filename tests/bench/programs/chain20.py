# SPDX-License-Identifier: Apache-2.0
"""Twenty functions, each calling the next; the last one calculates. With a number, this many such chains in turn, 5 ms each."""
import sys
import time

LEVELS = 20
CHAINS = int(sys.argv[1]) if len(sys.argv) > 1 else 1


def spin():
    end = time.monotonic() + 0.005
    while time.monotonic() < end:
        for i in range(1000):
            i * i


namespace = {"spin": spin}
# Functions of their own, not one that calls itself: each has a code object. The module and spin() are two of the levels.
for chain in range(CHAINS):
    below = "spin"
    for level in range(1, LEVELS - 1):
        exec(f"def level_{level}_of_{chain}():\n    {below}()\n", namespace)
        below = f"level_{level}_of_{chain}"
print("{}", flush=True)
chains = [namespace[f"level_{LEVELS - 2}_of_{chain}"] for chain in range(CHAINS)]
while True:
    for chain in chains:
        chain()
