# SPDX-License-Identifier: Apache-2.0
"""Records the time of its start, and then spins in a chain: startup.py DIRECTORY SECONDS. Writes DIRECTORY/PID.json at the end."""
import time
began = time.monotonic()
import sys

import chain


def main():
    chain.patience[0] = float(sys.argv[2])
    chain.spin("startup")
    chain.write(sys.argv[1], began=int(began * 1e9), **chain.lines())
    time.sleep(60)


main()
