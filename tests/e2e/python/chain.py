# SPDX-License-Identifier: Apache-2.0
"""Shared by the programs of this directory: each knows the chain in which it uses CPU time, and writes it to a file at its end.

Works with every CPython from 3.6 on. A line that a chain passes through ends in a comment "# @mark". A chain is written leaf first:
    (qualified name, mark)     this function, at that line; no mark: at the line that the runtime reports
    ("*", text)                one function or more, in files whose name contains the text
    ("!", expression)          native frames, one of which has such a name
A phase is a time in which one thread only executed its chain.
"""
import dis
import inspect
import json
import os
import sys
import tempfile
import time

try:
    import faulthandler
except ImportError:  # a subinterpreter may not have it
    faulthandler = None

QUALIFIED = sys.version_info >= (3, 11)
monotonic = time.monotonic

phases = []
kept = []  # the code objects of the chains: a worker that is late on a loaded machine still finds their names
patience = [1.0]  # seconds that a phase takes


def name_of(code):
    return code.co_qualname if QUALIFIED else code.co_name


def thread_id():
    return int(os.readlink("/proc/thread-self").rsplit("/", 1)[1])


def chain_of(frame):
    """The stack that the runtime itself reports: [name, file, line], leaf first."""
    found = []
    while frame is not None:
        kept.append(frame.f_code)
        found.append([name_of(frame.f_code), frame.f_code.co_filename, frame.f_lineno])
        frame = frame.f_back
    return found


def fault_dump():
    """The stack of this thread that faulthandler prints."""
    if not faulthandler:
        return ""
    with tempfile.TemporaryFile() as f:
        faulthandler.dump_traceback(file=f, all_threads=False)
        f.seek(0)
        return f.read().decode()


def marks_of(path):
    found = {}
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            _, at, mark = line.rstrip("\n").rpartition("# @")
            if at:
                if mark in found:
                    raise ValueError("a mark twice: " + mark)
                found[mark] = number
    return found


def begin(scenario):
    return {"scenario": scenario, "pid": os.getpid(), "tid": thread_id(), "chain": chain_of(sys._getframe(1)), "faulthandler": fault_dump(),
            "leaf_lines": LEAF_LINES, "seconds": patience[0]}


def finish(phase, start, end):
    phase["start"], phase["end"] = int(start * 1e9), int(end * 1e9)
    phases.append(phase)


def spin(scenario):
    phase = begin(scenario)
    x = 0
    seconds = phase["seconds"]
    start = monotonic()  # @first
    end = start + seconds
    while monotonic() < end:
        for x in range(100):
            x = x * 3 & 255
    finish(phase, start, monotonic())  # @last


LEAF_LINES = [marks_of(__file__)["first"], marks_of(__file__)["last"]]


def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.01)


def lines_of(code, lines, generators):
    name = name_of(code)
    lines.setdefault(code.co_filename, {}).setdefault(name, set()).update([code.co_firstlineno], (line for _, line in dis.findlinestarts(code) if line))
    if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        generators.append([name, code.co_filename, code.co_firstlineno])
    for constant in code.co_consts:
        if isinstance(constant, type(code)):
            lines_of(constant, lines, generators)


def lines():
    """Describes the code of all modules that are files. lines: {file: {function: [lines]}}; generators: [name, file, first line]."""
    lines, generators = {}, []
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if path and path.endswith(".py"):
            with open(path, "rb") as f:
                lines_of(compile(f.read(), path, "exec"), lines, generators)
    return {"lines": {path: {name: sorted(of_it) for name, of_it in names.items()} for path, names in lines.items()}, "generators": generators}


def write(directory, name=None, **said):
    """Writes what the process knows to DIRECTORY/PID.json."""
    path = os.path.join(directory, "%s.json" % (name or os.getpid()))
    with open(path + ".tmp", "w", encoding="ascii") as f:
        json.dump(dict(said, pid=os.getpid(), phases=phases), f)
    os.rename(path + ".tmp", path)
