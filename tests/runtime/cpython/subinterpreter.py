# SPDX-License-Identifier: Apache-2.0
"""Python in another interpreter of the same thread, for cases: subinterpreter.py. Needs Python 3.8."""
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

CODE = """
def spin():
    while True:
        for i in range(1000):
            i * i

def inside():
    spin()

inside()
"""


def run():
    interpreters.run_string(interpreters.create(), CODE)


def main():
    run()


main()
