#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Documents: lines of at most 100 columns, and no name of a file or of a struct that does not exist.

    documents.py TOP

Tables, indented blocks and fenced blocks may be wider. A name of a file is a word in backticks, or the target of a link, that has
a directory or one of our suffixes; `NAME` and `*` in it stand for anything. A bare file name may be anywhere in the tree.
"""
import fnmatch
import pathlib
import re
import sys

import source_tree

COLUMNS = 100
SUFFIX = r"\.(?:bpf\.c|c|h|cc|def|fbs|py|js|mjs|css|sh|md|yaml|json|png|txt)"
FILE = re.compile(rf"^(?:[\w.*{{}},-]+/)*[\w.*{{}},-]*{SUFFIX}$|^(?:[\w.*-]+/)+$")
# Files that are not ours, or are made by the build or by a user: an expression and the reason.
OTHERS = [
    (r"^(build|etc|run|var|proc|sys|usr|tmp|lib)/", "made by the build, or of the system"),
    (r"^(perf|sitecustomize|faulthandler|profile|build|bench|stats|slice|a|x)\.\w+", "of an example"),
]


def tree(top):
    names = source_tree.files(top)
    return names, {"/".join(name.split("/")[:depth]) + "/" for name in names for depth in range(1, name.count("/") + 1)}


def expand(name):
    """a.{c,h} to a.c and a.h."""
    found = re.match(r"(.*)\{([^}]*)\}(.*)", name)
    return [name] if not found else [one for part in found[2].split(",") for one in expand(found[1] + part + found[3])]


def exists(name, page, names, directories):
    pattern = re.sub(r"NAME|ROLE|[RXV](?=[/.])", "*", name)
    places = [pattern, str(pathlib.PurePosixPath(page).parent / pattern)]
    if "/" not in name.rstrip("/"):
        return any(fnmatch.fnmatch("/" + one, "*/" + pattern) for one in (directories if name.endswith("/") else names))
    return any(fnmatch.fnmatch(one, str(place).rstrip("/") + ("/" if name.endswith("/") else "")) or fnmatch.fnmatch(one, "*/" + pattern)
               for place in places for one in (directories if name.endswith("/") else names))


def mentioned(line):
    for word in re.findall(r"`([^`\s]+)`", line):
        yield word.rstrip(":,")
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", line):
        if "://" not in target:
            yield target


def structs_of(top, names):
    """The structs and enums that the sources define."""
    found = set()
    for name in names:
        if name.endswith((".c", ".h")):
            found.update(re.findall(r"^(?:struct|enum) (\w+)", (top / name).read_text(encoding="utf-8"), re.MULTILINE))
    return found


def faults(top):
    names, directories = tree(top)
    structs = structs_of(top, names)
    for page in sorted(name for name in names if name.endswith(".md")):
        fenced = False
        for number, line in enumerate((top / page).read_text(encoding="utf-8").splitlines(), 1):
            if line.startswith("```"):
                fenced = not fenced
            if fenced or line.startswith("    "):
                continue
            if len(line) > COLUMNS and not line.lstrip().startswith(("|", "![", "http")):
                yield f"{page}:{number}: {len(line)} columns"
            for struct in re.findall(r"`(?:struct|enum) (\w+)`", line):
                if struct not in structs and "NAME" not in struct:
                    yield f"{page}:{number}: there is no struct or enum {struct}"
            for word in mentioned(line):
                if word.startswith(("/", "../", "-")) or not FILE.match(word) or any(re.match(expression, word) for expression, _ in OTHERS):
                    continue
                for name in expand(word):
                    if not exists(name, page, names, directories):
                        yield f"{page}:{number}: {name} does not exist"


def main():
    found = list(faults(pathlib.Path(sys.argv[1])))
    print("\n".join(found) or "every document is narrow enough and names only files that exist")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
