# SPDX-License-Identifier: Apache-2.0
"""Uses the standard library: realwork.py DIRECTORY SECONDS. The same work is done twice, first under sys.setprofile, which records every chain with the lines
of its calls. So all possible chains of the second phase, which runs without it, are known. Writes DIRECTORY/PID.json at the end."""
import json
import os
import re
import sys
import time

import chain

MARKS = chain.marks_of(__file__)
known = set()


class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y


def default(value):
    return {"x": value.x, "y": [value.y, {"deep": [value.y]}]}


def hook(pairs):
    return {key.upper(): value for key, value in pairs}


DATA = [{"name": "n%d" % n, "points": [Point(n, n + 1), None, True, 1.5], "text": "caf\u00e9 \"quoted\""} for n in range(8)]
TEXT = "".join("key_%d = value-%d; other=%d\n" % (n, n * n, n) for n in range(20))
PATTERNS = (r"(?P<key>[a-z_]+\d+)\s*=\s*(?P<value>[\w-]+);", r"(?:a|b|[^x-z]){2,5}?(?=other)|\bkey_(\d)\d*", r"^(\w+)(?<!x)\s*(=)\s*(.*?)$")


def encode():
    return json.dumps(DATA, default=default, indent=1, sort_keys=True)


def decode(text):
    return json.loads(text, object_pairs_hook=hook)


def replaced(match):
    return match.expand(r"<\g<0>>") if match.start() % 2 else match.group(0).upper()


def compiled():
    for pattern in PATTERNS:
        re.purge()
        expression = re.compile(pattern, re.MULTILINE | re.IGNORECASE)
        expression.sub(replaced, TEXT)


def work():
    decode(encode())
    compiled()


def on_event(frame, event, _):
    """Called when a function starts or continues. Its callers are at the lines of their calls."""
    if event != "call":
        return
    code = frame.f_code
    found = [(chain.name_of(code), code.co_filename, 0)]
    caller = frame.f_back
    while caller is not None:
        code = caller.f_code
        found.append((chain.name_of(code), code.co_filename, caller.f_lineno))
        caller = caller.f_back
    known.add(tuple(found))


def units(profiled, seconds):
    sys.setprofile(on_event if profiled else None)
    end = chain.monotonic() + seconds
    while True:
        work()  # @work
        if chain.monotonic() >= end:
            break
    sys.setprofile(None)


def main():
    directory, seconds = sys.argv[1], float(sys.argv[2])
    for profiled in (False, True, True, True, False):
        if profiled is False and known:
            chain.wait_for(os.path.join(directory, "go"))
            start = chain.monotonic()
        units(profiled, seconds if not profiled and known else 0.1)  # @units
    end = chain.monotonic()
    here = chain.chain_of(sys._getframe())
    # the code that works without a call
    known.add((("units", __file__, 0), ("main", __file__, MARKS["units"]), *(tuple(frame) for frame in here[1:])))
    chain.phases.append({"scenario": "realwork", "tid": chain.thread_id(), "start": int(start * 1e9), "end": int(end * 1e9)})
    numbers = {}
    chains = [[numbers.setdefault(frame, len(numbers)) for frame in found] for found in known]
    chain.write(directory, frames=[list(frame) for frame in numbers], chains=chains, **chain.lines())
    time.sleep(60)


main()  # @module
