# SPDX-License-Identifier: Apache-2.0
"""Creates and drops functions continuously: churn.py DIRECTORY SECONDS [EACH]. Each function is compiled, called once, spins during the call, and is dropped, so
that the next one is stored at the same address. Eight functions in a row differ in everything, then only in the line, the name, the file, or the qualified name.
In the second half, about a hundred functions are kept for a while. With EACH, each function calls another one that spins for that many seconds, and none is kept.
Writes DIRECTORY/PID.json, which says when each function was called."""
import collections
import os
import sys
import time

import chain
from chain import monotonic

MARKS = chain.marks_of(__file__)
WAIT = "def wait(end):\n    while monotonic() < end:\n        pass\n"
SOURCE = "def {}(end):\n    while monotonic() < end:\n        pass\n    return end\nmade = {}\n"
CALLER = "def {}(end):\n    wait(end)\n    return end\nmade = {}\n"
NESTED = "def {}():\n    def same(end):\n        while monotonic() < end:\n            pass\n        return end\n    return same\nmade = {}()\n"


def shape(i, source=SOURCE):
    """Source, name, file and the line of its def."""
    kind = (0, 1, 2, 3, 4, 4, 4, 4)[i // 8 % 8]
    line = i * 7 % 997 + 2
    name, file, line = (("f_%06d" % i, "<gen_%06d>" % i, line), ("same", "<same>", line), ("f_%06d" % i, "<same>", 2), ("same", "<gen_%06d>" % i, 2),
                        ("outer_%06d" % i, "<same>", 2))[kind]
    if kind < 4:
        return "\n" * (line - 1) + source.format(name, name), name, file, line
    # only the qualified name differs
    return NESTED.format(name, name), name + ".<locals>.same" if chain.QUALIFIED else "same", file, line


def churn(seconds, each):
    calls = []
    kept = None
    waiting = {"monotonic": monotonic}
    exec(compile(WAIT, "<wait>", "exec"), waiting)
    begun = monotonic()
    while monotonic() < begun + seconds:
        if kept is None and not each and monotonic() > begun + seconds / 2:
            kept = collections.deque(maxlen=300)
        i = len(calls)
        source, name, file, line = shape(i, CALLER if each else SOURCE)
        namespace = {"monotonic": monotonic, "wait": waiting["wait"]}
        exec(compile(source, file, "exec"), namespace)
        function = namespace.pop("made")
        namespace.pop(source.split()[1].split("(")[0])
        # most calls are short; some last as long as the lookup of a name
        duration = each or (0.3 if i % 101 == 100 else 0.001 + i % 3 * 0.001)
        start = monotonic()
        function(start + duration)  # @churn
        calls.append((int(start * 1e9), int(monotonic() * 1e9), name, file, line))
        if kept is not None:
            kept.append(function)
        del function, namespace
    return calls


def main():
    directory, seconds, each = sys.argv[1], float(sys.argv[2]), float((sys.argv + ["0"])[3])
    chain.wait_for(os.path.join(directory, "go"))
    calls = churn(seconds, each)  # @main
    chain.write(directory, calls=calls, tail=[["churn", __file__, MARKS["churn"]], ["main", __file__, MARKS["main"]], ["<module>", __file__, MARKS["module"]]])
    time.sleep(60)


main()  # @module
