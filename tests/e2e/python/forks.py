# SPDX-License-Identifier: Apache-2.0
"""Starts child processes in several ways: forks.py DIRECTORY SECONDS. Each child and the parent write DIRECTORY/PID.json."""
import multiprocessing
import os
import sys
import time

import chain

MARKS = chain.marks_of(__file__)
EXPECTED = {
    "forked": [["deeper", MARKS["forked"]], ["deeper", MARKS["deeper"]], ["in_child", MARKS["in_child"]], ["fork", MARKS["fork"]],
               ["main", MARKS["main_fork"]], ["<module>", MARKS["module"]]],
    "multiprocessing": [["target", MARKS["target"]], ["*", "/multiprocessing/"], ["start", MARKS["start"]], ["main", MARKS["main_start"]], ["<module>", MARKS["module"]]],
    "spawned": [["target", MARKS["target"]], ["*", "/multiprocessing/"], ["<module>", None]],
    "parent": [["main", MARKS["parent"]], ["<module>", MARKS["module"]]],
}


def write(directory):
    chain.write(directory, expected=EXPECTED, path=os.path.abspath(__file__))


def deeper(depth):
    if depth:
        return deeper(depth - 1)  # @deeper
    chain.spin("forked")  # @forked


def in_child(directory):
    deeper(1)  # @in_child
    write(directory)
    time.sleep(60)


def fork(directory):
    if not os.fork():
        in_child(directory)  # @fork
        os._exit(0)


def target(directory, seconds, name):
    chain.patience[0] = seconds
    chain.spin(name)  # @target
    write(directory)
    time.sleep(60)


def start(process):
    process.start()  # @start


def main():
    directory, seconds = sys.argv[1], float(sys.argv[2])
    chain.patience[0] = seconds
    chain.wait_for(os.path.join(directory, "go"))
    for _ in range(2):
        fork(directory)  # @main_fork
    for method, name in (("fork", "multiprocessing"), ("spawn", "spawned")):
        start(multiprocessing.get_context(method).Process(target=target, args=(directory, seconds, name)))  # @main_start
    chain.spin("parent")  # @parent
    write(directory)
    time.sleep(60)


if __name__ == "__main__":
    main()  # @module
