#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Words that docs/style.md replaces, in comments, messages and documents.

    words.py TOP [PATH_PREFIX...]

It also finds comments of C that a formatter has torn: lines without a space after the asterisk, and ends on a line of their own.

Prints each place as FILE:LINE: WORD: the line; exit status 1 if there is one. In sources only comments and string literals
count, so that a name of a library or of the kernel may be what it is. In a document, lines between `<!-- lint words: off -->`
and `<!-- lint words: on -->` do not count.
"""
import pathlib
import re
import sys

import source_tree

# What is searched: (expression, what to write).
WORDS = [
    (r"\banew\b", "again, reset"),
    (r"\b(the|a|its|their|at|'s|of) begin\b", "start"),
    (r"\bbehind\b", "after, beyond"),
    (r"\bbesides?\b", "next to, in addition to"),
    (r"\b(told|tells?|telling) \w*\s?apart\b", "distinguish"),
    (r"\bfigures?\b", "statistics, counters, metrics, results"),
    (r"\bfor good\b", "continuously, permanently"),
    (r"\bso (many|much)\b", "this many"),
    (r"\bso long\b(?! as)", "this long"),
    (r"\bwho(m|se)?ever\b|\bwhose ever\b", "name the subject"),
    (r"\bnoted\b|\bnotes? (ahead|its|the|a) frames?\b", "push"),
    (r"\b(forgets?|forgotten|forgot|forgetting)\b", "evict, reset, drop"),
    (r"\b(settles?|settled|settling)\b", "commit, flush"),
    (r"\b(strangers?|knock(s|ed)?)\b", "unexpected peer, connected"),
    (r"\bholes?\b", "gap"),
    (r"\bdrafts?\b", "builder"),
    (r"\bto and fro\b", "back and forth"),
    (r"\b(samples|bytes|instructions|allocations|frames|stacks|reads|writes|records|messages|processes|times|words|slots|lines|ticks|[kMG]i?B|[num]s) "
     r"an? (second|minute|hour|sample|frame|stack|file|CPU|process|delta|record|tick|operation)\b", "per"),
]

# Places where such a word is right: (path prefix, expression of the line, reason).
EXCEPTIONS = [
    ("tests/lint/", r".", "the lints name the words they look for"),
    ("unwinder-mgr/rule_compile.c", r"psABI, figure", "a figure of a specification"),
]

C_LIKE = {".c", ".h", ".cc", ".def", ".js", ".mjs", ".css", ".S", ".fbs", ".in"}
HASH_LIKE = {".py", ".sh", ".txt", ".cmake", ".yaml", ".conf", ".supp", ".awk"}
TEXT = {".md", ".html"}

C_TOKEN = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`", re.DOTALL)
HASH_TOKEN = re.compile(r'"""(?:.*?)"""|#[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)


def pieces(path, text):
    """(line number, text) of what a reader reads: comments and strings of a source, all of a document."""
    if path.suffix in TEXT:
        on = True
        for number, line in enumerate(text.splitlines(), 1):
            if "lint words:" in line:
                on = "on" in line.split("lint words:")[1].split()
            elif on:
                yield number, line
        return
    token = C_TOKEN if path.suffix in C_LIKE else HASH_TOKEN
    for found in token.finditer(text):
        first = text.count("\n", 0, found.start()) + 1
        # A string without a space is a name, not prose.
        if found[0][0] in "\"'`" and not found[0].startswith('"""') and " " not in found[0].strip("\"'` "):
            continue
        for number, line in enumerate(found[0].splitlines(), first):
            yield number, line


def torn(path, text):
    """(line number, line) of the places where a formatter has torn a comment of C."""
    if path.suffix not in C_LIKE:
        return
    for found in C_TOKEN.finditer(text):
        first = text.count("\n", 0, found.start()) + 1
        lines = found[0].splitlines()
        if not found[0].startswith("/*") or len(lines) < 2:
            continue
        for number, line in enumerate(lines[1:], first + 1):
            if re.match(r"\s*\*[^\s*/]", line):
                yield number, line
        if lines[-1].strip() == "*/" and lines[0].strip() not in ("/*", "/**"):
            yield first + len(lines) - 1, lines[-1]


def places(top, prefixes):
    """(row of EXCEPTIONS or None, fault) of each place with such a word."""
    for name in source_tree.files(top):
        path = pathlib.Path(name)
        known = path.suffix in C_LIKE | HASH_LIKE | TEXT or name in ("dev", ".ci/run")
        if not known or "/corpus/" in name or "/cases/" in name or (prefixes and not name.startswith(tuple(prefixes))):
            continue
        try:
            text = (top / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in torn(path, text):
            yield None, f"{name}:{number}: a comment was torn: {line.strip()}"
        for number, line in pieces(path, text):
            exception = next((row for row in EXCEPTIONS if name.startswith(row[0]) and re.search(row[1], line)), None)
            for expression, instead in WORDS:
                found = re.search(expression, line, re.IGNORECASE)
                if found:
                    yield exception, f"{name}:{number}: \"{found[0]}\" ({instead}): {line.strip()}"


def faults(top, prefixes):
    return [fault for exception, fault in places(top, prefixes) if not exception]


def unneeded_exceptions(top):
    needed = {exception for exception, _ in places(top, [])}
    return [f"EXCEPTIONS: is not needed: {prefix} {expression}" for prefix, expression, reason in EXCEPTIONS if (prefix, expression, reason) not in needed]


def main():
    top = pathlib.Path(sys.argv[1])
    found = faults(top, sys.argv[2:]) + (unneeded_exceptions(top) if not sys.argv[2:] else [])
    print("\n".join(found) or "no word that docs/style.md replaces")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
