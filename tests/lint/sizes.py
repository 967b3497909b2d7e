#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No source file above 600 lines, no function above 60 (docs/style.md), but for the exceptions below.

    sizes.py TOP

Prints each that is too long, and each exception that is not needed any more; exit status 1 if there is one.
"""
import ast
import pathlib
import re
import sys

import source_tree

FILE_LINES = 600
FUNCTION_LINES = 60
SUFFIXES = {".c", ".h", ".cc", ".def", ".py", ".js", ".mjs", ".css", ".sh"}

# path, or path:function: the most lines it may have, and why.
EXCEPTIONS = {
    # Each is one table of attempts, a row or two per system call.
    **{f"tests/security/matrix_{name}": (120, "a table of attempts") for name in (
        "processes.c:matrix_try_processes", "processes.c:matrix_try_privileges", "network.c:matrix_try_sockets",
        "network.c:matrix_try_socket_options", "kernel.c:matrix_try_bpf", "kernel.c:matrix_try_memory", "files.c:matrix_try_files", "files.c:matrix_try_descriptors")},
}


def functions_of_c(lines):
    """(name, lines of the body). Functions are those whose braces stand in the first column, as clang-format writes them."""
    start, name = None, None
    for number, line in enumerate(lines):
        if line.startswith("{") and number:
            head = " ".join(lines[max(0, number - 8):number])
            calls = re.findall(r"(\w+)\s*\(", head)
            start, name = number, calls[-1] if calls else "?"
            # The name precedes the outermost parenthesis of the signature's last line group.
            signature = re.findall(r"(?:^|\s|\*)(\w+)\((?=[^;{}]*$)", head)
            name = signature[0] if signature else name
        elif line.startswith("}") and start is not None:
            yield name, number - start - 1
            start = None


def functions_of_python(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.end_lineno - node.body[0].lineno + 1


def sizes(top):
    """(what, lines, the most) of each file and each function."""
    for name in source_tree.files(top):
        path = top / name
        if path.suffix not in SUFFIXES:
            continue
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        yield name, len(lines), FILE_LINES
        found = functions_of_python(text) if path.suffix == ".py" else functions_of_c(lines) if path.suffix in {".c", ".h", ".cc"} else []
        for function, count in found:
            yield f"{name}:{function}", count, FUNCTION_LINES


def faults(top):
    needed = set()
    for what, lines, most in sizes(top):
        if what in EXCEPTIONS and lines > most:
            needed.add(what)
            most = EXCEPTIONS[what][0]
        if lines > most:
            yield f"{what}: {lines} lines, at most {most}"
    for what in sorted(set(EXCEPTIONS) - needed):
        yield f"{what}: is an exception without need"


def main():
    found = list(faults(pathlib.Path(sys.argv[1])))
    print("\n".join(found) or "every file and every function is short enough")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
