# SPDX-License-Identifier: Apache-2.0
"""Spins in a chain in a subinterpreter: subinterpreters.py DIRECTORY SECONDS. Writes DIRECTORY/PID.json."""
import os
import sys
import time

import chain

MARKS = chain.marks_of(__file__)
SOURCE = """
import sys
sys.path.insert(0, {path!r})
import chain

def inner(depth):
    if depth:
        return inner(depth - 1)
    chain.spin("subinterpreter")

chain.patience[0] = {seconds!r}
inner(3)
chain.write({directory!r}, "inner")
"""


def run(source):
    """Runs the source in a new interpreter, in this thread. Returns False if this version cannot do that."""
    try:
        import _interpreters
    except ImportError:
        try:
            import _xxsubinterpreters as _interpreters
        except ImportError:
            try:
                import _testcapi
            except ImportError:
                return False
            _testcapi.run_in_subinterp(source)  # @testcapi
            return True
    interpreter = _interpreters.create()
    _interpreters.run_string(interpreter, source)  # @run
    return True


def main():
    directory, seconds = sys.argv[1], float(sys.argv[2])
    chain.wait_for(os.path.join(directory, "go"))
    inner = os.path.join(directory, str(os.getpid()))
    os.mkdir(inner)
    ran = run(SOURCE.format(path=os.path.dirname(os.path.abspath(__file__)), seconds=seconds, directory=inner))  # @main
    chain.spin("afterwards")  # @afterwards
    chain.write(directory, ran=ran)
    time.sleep(60)


main()  # @module
