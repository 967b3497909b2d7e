# SPDX-License-Identifier: Apache-2.0
"""Known chains, one phase each: chains.py DIRECTORY SECONDS. Waits for DIRECTORY/go, writes DIRECTORY/PID.json at the end."""
import asyncio
import functools
import os
import re
import signal
import sys
import tempfile
import threading
import time

import chain
from chain import spin

try:
    import ctypes
except ImportError:
    ctypes = None

VERSION = sys.version_info[:2]
MARKS = chain.marks_of(__file__)
SCENARIOS = []
EXPECTED = {}


def scenario(expected, plain=False):
    """`expected`: from what calls spin to the scenario's function. `plain`: from 3.11 on nothing native is between these functions."""
    def add(function):
        SCENARIOS.append(function)
        names = [entry for entry in expected if entry]
        EXPECTED[function.__name__] = {
            "plain": plain,
            "chain": [[name, mark if name in ("*", "!") else mark and MARKS[mark]] for name, mark in names],
        }
        return function
    return add


# Recursion

def recurse(depth, name):
    if depth > 1:
        return recurse(depth - 1, name)  # @recurse
    return spin(name)  # @recursed


@scenario([("recurse", "recursed")] + [("recurse", "recurse")] * 19 + [("recursion_20", "recursion_20")], plain=True)
def recursion_20():
    recurse(20, "recursion_20")  # @recursion_20


@scenario([("recurse", "recursed")] + [("recurse", "recurse")] * 299 + [("recursion_300", "recursion_300")], plain=True)
def recursion_300():
    recurse(300, "recursion_300")  # @recursion_300


# Generators

def innermost():
    yield 1
    spin("generators")  # @innermost
    yield 2


def delegating():
    received = yield from innermost()  # @delegating
    return received


def outer_generator():
    for value in delegating():  # @outer_generator
        yield value


@scenario([("innermost", "innermost"), ("delegating", "delegating"), ("outer_generator", "outer_generator"), ("generators", "generators")])
def generators():
    generator = outer_generator()
    next(generator)
    generator.send(None)  # @generators


# Functions without a name of their own

@scenario([("lambdas.<locals>.<lambda>", "lambda_1"), ("lambdas.<locals>.<lambda>.<locals>.<lambda>", "lambda_2"),
           ("lambdas.<locals>.<lambda>", "lambda_3"), ("lambdas", "lambdas")], plain=True)
def lambdas():
    one = lambda: spin("lambdas")  # @lambda_1
    make = lambda: lambda f: f()  # @lambda_2
    two = make()
    three = lambda f: two(f)  # @lambda_3
    three(one)  # @lambdas


def comprehension_leaf(_):
    spin("comprehensions")  # @comprehension_leaf


def inlined(name, mark):
    """From 3.12 on, comprehensions are part of their function; generator expressions are not."""
    return (name, mark) if VERSION < (3, 12) else None


@scenario([("comprehension_leaf", "comprehension_leaf"), inlined("in_dict.<locals>.<dictcomp>", "in_dict"), ("in_dict", "in_dict"),
           inlined("in_set.<locals>.<setcomp>", "in_set"), ("in_set", "in_set"),
           ("in_generator.<locals>.<genexpr>", "in_generator"), ("!", r"builtin_sum(_impl)?.*"), ("in_generator", "in_generator"),
           inlined("comprehensions.<locals>.<listcomp>", "comprehensions"), ("comprehensions", "comprehensions")])
def comprehensions():
    return [in_generator(x) for x in range(1)]  # @comprehensions


def in_generator(_):
    return sum(len(in_set(x)) for x in range(1))  # @in_generator


def in_set(_):
    return {len(in_dict(x)) for x in range(1)}  # @in_set


def in_dict(_):
    return {x: comprehension_leaf(x) for x in range(1)}  # @in_dict


# Decorators: the name in the function's code counts, not the one that functools.wraps sets

def traced(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)  # @wrapper
    return wrapper


class Counted:
    def __init__(self, function):
        self.function = function

    def __call__(self, *args):
        return self.function(*args)  # @counted


@traced
@Counted
@traced
def decorated():
    return spin("decorators")  # @decorated


@scenario([("decorated", "decorated"), ("traced.<locals>.wrapper", "wrapper"), ("Counted.__call__", "counted"),
           ("traced.<locals>.wrapper", "wrapper"), ("decorators", "decorators")])
def decorators():
    decorated()  # @decorators


# Classes

class Outer:
    class Inner:
        def __init__(self):
            self.seen = self.value  # @init

        @property
        def value(self):
            return self.missing  # @value

        def __getattr__(self, name):
            return self + name  # @getattr

        def __add__(self, other):
            return spin("methods")  # @add

    @classmethod
    def make(cls):
        return cls.help()  # @make

    @staticmethod
    def help():
        return Outer.Inner()  # @help


@scenario([("Outer.Inner.__add__", "add"), ("Outer.Inner.__getattr__", "getattr"), ("Outer.Inner.value", "value"),
           ("Outer.Inner.__init__", "init"), ("Outer.help", "help"), ("Outer.make", "make"), ("methods", "methods")])
def methods():
    Outer.make()  # @methods


# Exceptions

def raiser(depth):
    if depth:
        raiser(depth - 1)
    raise ValueError(depth)


class Context:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.in_flight()  # @exit
        except ValueError:
            return True

    def in_flight(self):
        try:
            raiser(3)
        finally:
            spin("exceptions")  # @in_flight


def in_handler():
    with Context():
        raise KeyError("in_handler")


@scenario([("Context.in_flight", "in_flight"), ("Context.__exit__", "exit"), ("in_handler", None), ("exceptions", "exceptions")])
def exceptions():
    try:
        raiser(20)
    except ValueError:
        in_handler()  # @exceptions


# Python and C

def by_key(_):
    return list(map(by_map, [1]))  # @by_key


def by_map(_):
    return functools.reduce(by_reduce, [1, 2])  # @by_map


def by_reduce(_, __):
    return re.compile("x").sub(by_sub, "x")  # @by_reduce


def by_sub(_):
    if ctypes:
        two = (ctypes.c_int * 2)(1, 2)
        ctypes.CDLL(None).qsort(two, ctypes.c_size_t(2), ctypes.c_size_t(4), COMPARE)  # @by_sub
    else:
        by_qsort(0, 0)  # @by_sub_alone
    return ""


def by_qsort(_, __):
    spin("mixed")  # @by_qsort
    return 0


COMPARE = ctypes and ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(by_qsort)


@scenario([("by_qsort", "by_qsort"), ("!", r"_?CallPythonObject.*|closure_fcn.*"), ("by_sub", "by_sub" if ctypes else "by_sub_alone"), ("!", r"pattern_subx.*"),
           ("by_reduce", "by_reduce"), ("!", r"_?functools_reduce.*"), ("by_map", "by_map"), ("!", r"map_next.*"),
           ("by_key", "by_key"), ("!", r"list_?sort.*"), ("mixed", "mixed")])
def mixed():
    return sorted([1], key=by_key)  # @mixed


# Coroutines

async def coroutine_leaf():
    await asyncio.sleep(0)
    spin("coroutines")  # @coroutine_leaf


async def asynchronous_generator():
    await coroutine_leaf()  # @asynchronous_generator
    yield 1


class Manager:
    async def __aenter__(self):
        async for _ in asynchronous_generator():  # @aenter
            pass

    async def __aexit__(self, *_):
        pass


async def coroutine_outer():
    async with Manager():  # @coroutine_outer
        pass


@scenario([("coroutine_leaf", "coroutine_leaf"), ("asynchronous_generator", "asynchronous_generator"), ("Manager.__aenter__", "aenter"),
           ("coroutine_outer", "coroutine_outer"), ("*", "/asyncio/"), ("coroutines", "coroutines")])
def coroutines():
    loop = asyncio.new_event_loop()
    loop.run_until_complete(coroutine_outer())  # @coroutines
    loop.close()


# Code compiled from strings

@scenario([("made", None), ("<module>", None), ("<module>", None), ("made_code", "made_code")])
def made_code():
    inner = compile("\n\ndef made():\n\n    spin('made_code')\n\nmade()", "<made \\ of ; \"what\">", "exec")
    exec("x = 1\nexec(inner)", {"spin": spin, "inner": inner})  # @made_code


@scenario([("na\u00efve", None), ("\u540d\u524d", None), ("\U00020000", None), ("letters", "letters")], plain=True)
def letters():
    """Names with one, two and four bytes per character."""
    namespace = {"spin": spin}
    for source in ("def na\u00efve():\n    spin('letters')\n", "def \u540d\u524d():\n    na\u00efve()\n", "def \U00020000():\n\n    \u540d\u524d()\n"):
        exec(compile(source, "<\u00fc \u2192 \U0001f40d>" if "spin" in source else "<" + source[4:6] + ">", "exec"), namespace)
    namespace["\U00020000"]()  # @letters


@scenario([("far", None), ("far_away", "far_away")], plain=True)
def far_away():
    """A long function at a high line number, with gaps and with lines in descending order."""
    source = ("\n" * 70000 + "def far(spin):\n" + "    x = 1\n" * 20000 + "\n" * 300 + "    return (\n" + "\n" * 150 + "        x,\n" + "\n" * 130
              + "        spin(\n            'far_away'\n        ),\n        x)\n")
    namespace = {}
    exec(compile(source, "<far>", "exec"), namespace)
    namespace["far"](spin)  # @far_away


@scenario([("<module>", None), ("*", "<frozen importlib"), ("imports", "imports")])
def imports():
    with tempfile.TemporaryDirectory() as directory:
        with open(os.path.join(directory, "e2e_imported.py"), "w") as f:
            f.write("import chain\n\n\nchain.spin('imports')\n")
        sys.path.insert(0, directory)
        import e2e_imported  # @imports
        sys.path.remove(directory)
    return e2e_imported


# Called by the runtime

class Dropped:
    def __del__(self):
        spin("finalizers")  # @del


@scenario([("Dropped.__del__", "del"), ("!", r"slot_tp_finalize.*"), ("finalizers", "finalizers")])
def finalizers():
    dropped = Dropped()
    del dropped  # @finalizers


def on_signal(*_):
    spin("signals")  # @on_signal
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)


@scenario([("on_signal", "on_signal"), ("!", r"(_?PyErr_CheckSignals|handle_signals).*"), ("signals", None)])
def signals():
    signal.signal(signal.SIGUSR2, on_signal)
    os.kill(os.getpid(), signal.SIGUSR2)
    while signal.getsignal(signal.SIGUSR2) is on_signal:
        pass


# Threads: each has its own chain

def in_thread(depth):
    return in_thread(depth - 1) if depth else spin("threads")  # @in_thread


@scenario([("in_thread", "in_thread"), ("*", "/chains.py"), ("*", "/threading.py")])
def threads():
    started = [threading.Thread(target=in_thread, args=(1 + 3 * n,), name="chain-%d" % n) for n in range(4)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()


def main():
    directory, chain.patience[0] = sys.argv[1], float(sys.argv[2])
    chain.wait_for(os.path.join(directory, "go"))
    for run in SCENARIOS:
        chain.patience[0] = float(sys.argv[2]) * (2 if run is threads else 1)
        run()  # @main
    chain.write(directory, expected=EXPECTED,
                ends=[["main", __file__, MARKS["main"]], ["<module>", __file__, MARKS["module"]]])
    time.sleep(60)  # the process still exists when its last frames are looked up


main()  # @module
