# SPDX-License-Identifier: Apache-2.0
"""A chain of calls of every kind, for cases: chain.py spin|sleep|c [DEPTH]. Works with Python 3.6 and later."""
import functools
import sys
import time


def leaf(how):
    while how == "spin":
        for i in range(1000):
            i * i
    while how == "sleep":
        time.sleep(0.05)
    while how == "c":
        sum(range(200000))


def recurse(n, how):
    if n:
        recurse(n - 1, how)
    else:
        leaf(how)


def generate(n, how):
    yield n
    recurse(n, how)
    yield n


def through_generator(n, how):
    for _ in generate(n, how):
        pass


def decorated(function):
    @functools.wraps(function)
    def wrapper(*arguments):
        return function(*arguments)

    return wrapper


class Shape:
    @decorated
    def area(self, n, how):
        return [through_generator(m, how) for m in [n]]

    def __lt__(self, other):
        return self.area(*other)


def by_key(n, how):
    sorted([0], key=lambda _: Shape().area(n, how))


def by_map(n, how):
    list(map(lambda m: by_key(m, how), [n]))


def by_reduce(n, how):
    functools.reduce(lambda _, m: by_map(m, how), [0, n])


def outer(n, how):
    def inner(n):
        try:
            raise KeyError(n)
        except KeyError:
            by_reduce(n, how)

    inner(n)


def main():
    outer(int(sys.argv[2]) if len(sys.argv) > 2 else 3, sys.argv[1])


main()
