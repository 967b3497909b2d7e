#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks which file includes which.

1. Layering (ARCHITECTURE.md): a file may include, directly or through other headers and .def files, only the directories that LAYERS allows its own.
2. No cycles: neither among headers, nor among modules. A module is x.c together with x.h and x_private.h. There are two ways in which modules form a cycle:
   - by includes: a.h includes b.h, and b.c includes a.h. STATE_HEADERS lists the exceptions.
   - by calls: a.c calls a function that b.c defines, and b.c one of a.c, whichever header declares them. A module calls the modules of whose functions, as
     declared in a header that it includes (also indirectly), it mentions one.

Prints each fault, and exits with status 1 if there is one. `includes.py TOP` checks the tree TOP.
"""

import pathlib
import re
import sys

import source_tree

SHARED = "bpf/shared.h"
TABLES = ["common/runtimes.def", "common/incomplete_reasons.def"]
# Directory: the directories and files that its sources may include, in addition to its own and the system's. The innermost directory counts.
LAYERS = {
    "common": [],
    "parse": ["common/"],
    "ipc": ["common/"],
    "records": ["common/"],
    "role": ["common/", "ipc/"],
    "config": ["common/", "ipc/"],
    "bpf": TABLES,
    "loader": ["common/", "ipc/", "role/", SHARED],
    "unwinder-mgr": ["common/", "ipc/", "role/", "parse/", SHARED, "bpf/unwind/"],
    "symbolizer/opener": ["common/", "ipc/", "role/"],
    "symbolizer/namer": ["common/", "parse/"],
    "symbolizer/runtime": ["common/", "parse/", "bpf/runtime/", "symbolizer/namer/", SHARED],
    "symbolizer/worker": ["common/", "ipc/", "role/", "records/", "parse/", "symbolizer/namer/", "symbolizer/runtime/", SHARED],
    "exporter": ["common/", "ipc/", "role/"],
    "exporter/model": ["common/", "ipc/", "records/"],
    "exporter/otlp": ["common/", "exporter/model/"],
    "exporter/sinks": ["common/", "exporter/model/", "exporter/otlp/"],
    "exporter/delivery": ["common/", "config/", "ipc/", "role/", "records/", "exporter/model/", "exporter/otlp/"],
    "control": ["common/", "config/", "ipc/", "role/"],
    # `bulkhead audit` compares the running roles with their policies, and reads their mappings.
    "cli": ["common/", "config/", "control/", "ipc/", "role/", "loader/policy.h", "unwinder-mgr/policy.h", "symbolizer/opener/policy.h", "symbolizer/worker/policy.h",
            "exporter/policy.h", "exporter/delivery/policy.h", "parse/proc_maps.h"],
    # The tool that writes the units from the policies.
    "deploy": ["common/", "control/policy.h", "loader/policy.h", "unwinder-mgr/policy.h", "symbolizer/opener/policy.h", "symbolizer/worker/policy.h",
               "exporter/delivery/policy.h"],
}
SOURCES = (".c", ".cc", ".cpp")
HEADERS = (".h", ".def")
# Headers with the state struct of a whole role (docs/style.md). Such a struct embeds the structs of the modules, whose functions take the role as their first
# argument, so that the header and the modules include each other. Only cycles by calls are faults there.
STATE_HEADERS = ["symbolizer/worker/worker.h", "unwinder-mgr/manager.h"]


class Tree:
    """The files below a directory, and what each includes of the others."""

    def __init__(self, top):
        self.top = top
        self.files = source_tree.files_with(top, *SOURCES, *HEADERS)
        known = set(self.files)
        # Generated headers are not in the tree.
        self.includes = {name: {found: line for found, line in self.included(name, known) if found in known} for name in self.files}

    def included(self, name, known):
        """(file, line) of each include. As for the compiler, a name is one in the directory of `name`, else one from the top on."""
        for line, text in enumerate((self.top / name).read_text(encoding="utf-8").splitlines(), 1):
            found = re.match(r'\s*#\s*include\s+"([^"]+)"', text)
            if found:
                sibling = str(pathlib.PurePath(name).parent / found[1])
                yield sibling if sibling in known else found[1], line

    def reach(self, name):
        """{file: the chain of includes from `name` to it}, for all that is included directly or indirectly."""
        chains, waiting = {}, [(name, ())]
        while waiting:
            current, chain = waiting.pop(0)
            for found in self.includes[current]:
                if found not in chains:
                    chains[found] = chain + (found,)
                    waiting.append((found, chains[found]))
        return chains


def layer_of(name):
    """The innermost directory of LAYERS that contains the file."""
    return next((str(parent) for parent in pathlib.PurePath(name).parents if str(parent) in LAYERS), None)


def layer_faults(tree):
    for name in tree.files:
        layer = layer_of(name)
        # Tests may include everything, but must have no cycles either.
        if name.startswith("tests/"):
            continue
        if layer is None:
            yield f"{name}: its directory has no layer"
            continue
        allowed = tuple([layer + "/", *LAYERS[layer]])
        for found, chain in tree.reach(name).items():
            if found.startswith(allowed):
                continue
            if len(chain) == 1:
                yield f"{name}:{tree.includes[name][found]}: {layer} may not include {found}"
            elif found not in TABLES:
                yield f"{name}: {layer} may not include {found}, which it does through {' -> '.join(chain[:-1])}"


def module_of(name):
    return str(pathlib.PurePath(name).with_suffix("")).removesuffix("_private")


def without_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)


def declared(text):
    """The names of the functions that a header declares: a declaration begins at the start of a line, and is no macro and no static function."""
    return set(re.findall(r"^(?!static|#|typedef)[a-z][\w ]*?[ *](\w+)\(", without_comments(text), re.M))


def cycles(edges):
    """The strongly connected components of more than one node, or of one that depends on itself, each as a sorted list (Tarjan's algorithm)."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in edges.get(node, ()):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            component = []
            while not component or component[-1] != node:
                component.append(stack.pop())
            if len(component) > 1 or node in edges.get(node, ()):
                found.append(sorted(component))

    sys.setrecursionlimit(10000)
    for node in sorted(edges):
        if node not in index:
            visit(node)
    return found


def defined(text):
    """The names of the functions that a source file defines for others."""
    return set(re.findall(r"^(?!static|#|typedef)[a-z][\w ]*?[ *\n](\w+)\([^;{]*\)\s*\{", without_comments(text), re.M))


def include_edges(tree, state_headers):
    """{module: the modules whose headers it includes directly}, but for those of roles' states."""
    edges = {}
    for name in tree.files:
        own = edges.setdefault(module_of(name), set())
        own |= {module_of(found) for found in tree.includes[name] if found not in state_headers} - {module_of(name)}
    return edges


def call_edges(tree):
    """{module: the modules that it calls}. A function belongs to the source file next to its header that defines it."""
    texts = {name: (tree.top / name).read_text(encoding="utf-8") for name in tree.files}
    definers = {}
    for name in tree.files:
        if name.endswith(SOURCES):
            for function in defined(texts[name]):
                definers.setdefault((str(pathlib.PurePath(name).parent), function), module_of(name))
    functions = {}  # of each header: {name: module}
    for name in tree.files:
        if name.endswith(".h"):
            parent = str(pathlib.PurePath(name).parent)
            functions[name] = {function: definers.get((parent, function), module_of(name)) for function in declared(texts[name])}
    edges = {}
    for name in tree.files:
        # Headers declare functions; what calls them are source files and inline functions of the BPF side, which include no other module.
        if not name.endswith(SOURCES):
            continue
        own = edges.setdefault(module_of(name), set())
        words = set(re.findall(r"\w+", without_comments(texts[name])))
        for found in tree.reach(name):
            own |= {module for function, module in functions.get(found, {}).items() if function in words and module != module_of(name)}
    return edges


def cycle_faults(tree, state_headers):
    for cycle in cycles({name: set(found) for name, found in tree.includes.items()}):
        yield f"headers include each other: {' '.join(cycle)}"
    for cycle in cycles(include_edges(tree, state_headers)):
        yield f"modules include each other: {' '.join(cycle)}"
    for cycle in cycles(call_edges(tree)):
        yield f"modules call each other: {' '.join(cycle)}"
    for header in state_headers:
        others = [other for other in state_headers if other != header]
        if not any(module_of(header) in cycle for cycle in cycles(include_edges(tree, others))):
            yield f"is in no cycle, remove it from STATE_HEADERS: {header}"


def faults(top, state_headers=()):
    tree = Tree(pathlib.Path(top))
    return [*layer_faults(tree), *cycle_faults(tree, state_headers)]


def main():
    found = faults(sys.argv[1], STATE_HEADERS)
    print("\n".join(found) or "every include follows the layering, and nothing depends on itself")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
