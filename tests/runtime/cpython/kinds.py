# SPDX-License-Identifier: Apache-2.0
"""Other ways for Python to call Python, for cases: kinds.py. Works with Python 3.6 and later."""


def spin():
    while True:
        for i in range(1000):
            i * i


async def coroutine(n):
    if n:
        return await coroutine(n - 1)
    spin()


def subgenerator():
    try:
        coroutine(2).send(None)
    finally:
        yield 1


def delegating():
    yield from subgenerator()


class Meta(type):
    def __call__(cls, *arguments):
        return super().__call__(*arguments)


class Thing(metaclass=Meta):
    def __init__(self, n):
        self.value = n

    @property
    def attribute(self):
        return next(delegating())

    @staticmethod
    def static(thing):
        return {k: thing.attribute for k in [1]}

    @classmethod
    def of_class(cls):
        return cls.static(cls(1))

    def __getitem__(self, key):
        return self.of_class()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return self["key"]


def größe():
    with Thing(1):
        pass


class Body:
    exec(compile("def generated(f):\n\n    return f()\ngenerated(größe)", "<generated>", "exec"))
