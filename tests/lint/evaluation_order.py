#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds reads from one stream whose order C leaves open.

C evaluates the expressions of an initialiser list (C17 6.7.9p23), the arguments of a call (6.5.2.2p10) and the operands of
most operators (6.5p3) in any order. `{.major = cursor_u32(c), .minor = cursor_u32(c)}` may therefore read the second field
first. Neither gcc (-Wsequence-point), clang (-Wunsequenced) nor clang-tidy reports this, since for them each function call is
a black box.

How this works: every function with a parameter `struct STREAM *` that is not const, for the streams listed below, is taken
to move the stream, and so are the listed functions of the C library. For each two calls that move the same stream the
lint looks for what orders them: the end of a statement or of a controlling expression, a block, one of && || ?:, or a comma
that is not a separator of arguments or initialisers. Two declarators, `a = read(c), b = read(c);`, are in order.

    evaluation_order.py TOP         print each unordered pair; exit status 1 if there is one
"""

import pathlib
import re
import sys

import source_tree

STREAMS = ("cursor", "hotspot_stream", "name_reader", "text_input")
# Function: the argument that is the stream.
LIBRARY = {"read": 0, "recv": 0, "getc": 0, "fgetc": 0, "fgets": 2, "getline": 2, "fread": 3}
CONTROL = {"if", "while", "for", "switch"}
ORDERING = {";", "&&", "||", "?", ":", "return", "else", "do"}
TOKEN = re.compile(r"[A-Za-z_]\w*|&&|\|\||->|\.\.\.|[{}()\[\];,?:=]|[^\s\w]|\d[\w.]*")


def strip(text):
    """Blanks comments, literals and preprocessor lines, and keeps the lines."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match[0])
    text = re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", blank, text, flags=re.M)


def find_readers(texts):
    """Function name: index of the argument that is the stream."""
    readers = dict(LIBRARY)
    readers.update({f"cursor_u{bits}": 0 for bits in (8, 16, 32, 64)})  # made by a macro
    for text in texts:
        for name, parameters in re.findall(r"^[A-Za-z_][\w \t\*]*?\b(\w+)\(([^(){};]*)\)", text, re.M):
            for index, parameter in enumerate(parameters.split(",")):
                stream = re.search(r"struct (\w+) \*(?!\*)", parameter)
                if stream and stream[1] in STREAMS and "const" not in parameter:
                    readers[name] = index
    return readers


class Call:
    def __init__(self, name, line, path, start, end, stream):
        self.name, self.line, self.path, self.start, self.end, self.stream = name, line, path, start, end, stream


def kind_of(tokens, index, parents):
    """What the bracket at `index` encloses: control, call, group, block, list or index."""
    before = tokens[index - 1][0] if index else ";"
    if tokens[index][0] == "[":
        return "index"
    if tokens[index][0] == "(":
        return "control" if before in CONTROL else "call" if re.match(r"\w|\)|\]", before) and before != "return" else "group"
    if before in ("=", ",") or before == "{" and parents and parents[-1][1] == "list":
        return "list"
    if before == "]" or before == ")" and not closes_header(tokens, index - 1):
        return "list"
    return "block"


def closes_header(tokens, index):
    """Whether the parenthesis closed at `index` belongs to a function or a control statement, not to a compound literal."""
    depth = 0
    while index >= 0:
        depth += {")": 1, "(": -1}.get(tokens[index][0], 0)
        if not depth:
            return index > 0 and re.match(r"[A-Za-z_]", tokens[index - 1][0]) and tokens[index - 1][0] != "return"
        index -= 1
    return True


def matching(tokens, index):
    depth = 0
    for at in range(index, len(tokens)):
        depth += {"(": 1, ")": -1}.get(tokens[at][0], 0)
        if not depth:
            return at
    return len(tokens) - 1


def find_calls(tokens, readers):
    """Calls of readers, each with the brackets around it."""
    calls, stack = [], []
    for index, (token, line) in enumerate(tokens):
        if token in "([{":
            stack.append((index, kind_of(tokens, index, stack)))
        elif token in ")]}" and stack:
            stack.pop()
        elif token in readers and index + 1 < len(tokens) and tokens[index + 1][0] == "(":
            end = matching(tokens, index + 1)
            arguments, depth = [""], 0
            for t, _ in tokens[index + 2:end]:
                depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(t, 0)
                if t == "," and not depth:
                    arguments.append("")
                else:
                    arguments[-1] += t
            if readers[token] < len(arguments):
                calls.append(Call(token, line, list(stack), index, end, arguments[readers[token]]))
    return calls


def are_ordered(tokens, first, second):
    if second.start <= first.end:
        return True  # an argument of the first call, which is evaluated before the call
    common = 0
    while common < min(len(first.path), len(second.path)) and first.path[common] == second.path[common]:
        common += 1
    if any(kind in ("control", "block") for _, kind in first.path[common:] + second.path[common:]):
        return True
    kind = first.path[common - 1][1] if common else "block"
    depth = len(first.path) - common
    for token, _ in tokens[first.end + 1:second.start]:
        if token in ")]}":
            depth -= 1
        if depth == 0 and (token in ORDERING or token == "," and kind not in ("call", "list", "index")):
            return True
        if depth == 0 and token == "{" and kind == "block":
            return True
        if token in "([{":
            depth += 1
    return False


def faults(text, readers):
    lines = strip(text).split("\n")
    tokens = [(t, number) for number, line in enumerate(lines, 1) for t in TOKEN.findall(line)]
    calls = find_calls(tokens, readers)
    for i, first in enumerate(calls):
        for second in calls[i + 1:i + 8]:  # nobody reads more in one expression
            if first.stream == second.stream and not are_ordered(tokens, first, second):
                yield second.line, f"{second.name}({second.stream}) and {first.name}() of line {first.line} have no order"
                break


def check(top):
    texts = {name: (top / name).read_text(encoding="utf-8") for name in source_tree.files_with(top, ".c", ".h", ".cc")}
    readers = find_readers(map(strip, texts.values()))
    found = [f"{name}:{line}: {fault}" for name, text in texts.items() for line, fault in faults(text, readers)]
    print("\n".join(found) or f"every two reads from one stream have an order ({len(texts)} files, {len(readers)} functions)")
    return 1 if found else 0


def main():
    return check(pathlib.Path(sys.argv[1]))


if __name__ == "__main__":
    sys.exit(main())
