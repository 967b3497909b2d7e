#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/messages.md lists every message that a user can see, with its cause and remedy.

    messages.py TOP               compare the table with the sources; exit status 1 if they differ
    messages.py --list TOP        print all messages of the sources, and where they are
    messages.py --rows TOP        print rows for the messages that the table lacks, with "?" to be filled in
    messages.py --self-test

How this works: the calls in CALLS print messages. Of each such call the string literals of the text argument are joined; each
conversion (%s) becomes "...", and several of them in a row too. An argument `a ? "x" : "y"` has two messages. A macro of the
same file that stands for a literal is replaced by it. In the files of RETURNED, functions return the reasons of faults as string
literals. TABLES and NAMES are tables of texts and of single words. The script `dev` prints with `say`, `printf` and `stage`.
A text without a space or without letters is no message: it is a path, or only passes another message on ("%s: %s").

Example: log_error("cannot open the spool: error=%s", ...) in exporter/ must have a row that starts with
"| cannot open the spool: error=... |".
"""
import pathlib
import re
import sys

TABLE = "docs/messages.md"
DIRECTORIES = ["cli", "common", "exporter", "ipc", "loader", "parse", "records", "role", "symbolizer", "unwinder-mgr"]

# Call: arguments that are texts, counted from 0. An empty list: only in the files of IN_FILE.
CALLS = {
    "log_error": [0], "log_warning": [0], "log_info": [0],
    "fprintf": [1], "fputs": [0],
    "config_fault": [2], "config_warn": [1], "explain": [1],
    "usage_error": [0], "report_usage": [0], "status_usage": [0], "refuse": [],
    "snprintf": [], "log_end": [2],
}
# What a call prints in one file or directory only: (path prefix, call): arguments.
IN_FILE = {
    ("cli/preflight.c", "refuse"): [1, 2],
    ("cli/few_samples.c", "snprintf"): [2],
    ("cli/key_values.c", "snprintf"): [2],
    ("cli/config_environment.c", "snprintf"): [2],
    ("symbolizer/runtime/cpython_file.c", "refuse"): [3],
    ("symbolizer/runtime/cpython_file.c", "snprintf"): [2],
    ("symbolizer/runtime/hotspot.c", "snprintf"): [2],
}
# Files whose functions return reasons as literals, or keep them in tables: each literal with a space is a message.
RETURNED = ["cli/endpoint.c", "cli/key_values.c"]
RETURNED_EXPRESSION = re.compile(r'(?:return|:|\?)\s*((?:"(?:[^"\\]|\\.)*"\s*)+)[;:\s]')
# Tables of texts: (file, expression of a row).
TABLES = [
    ("cli/preflight.c", re.compile(r'\{CAP_\w+,\s*((?:"(?:[^"\\]|\\.)*"\s*)+)\}')),
    ("ipc/message_check.c", re.compile(r'\[MESSAGE_\w+\] = ("[^"]*")')),
]
# Tables of reasons, which are single words in the summary and in statistics: (file, expression of a row).
NAMES = [
    ("ipc/messages.h", re.compile(r'^\s*X\([A-Z_]+, "(\w+)"\)', re.M)),
    ("common/incomplete_reasons.def", re.compile(r'^INCOMPLETE_REASON\(\w+, "(\w+)"\)', re.M)),
]
MACRO = re.compile(r'^#define (\w+) ("(?:[^"\\]|\\.)*")$', re.M)

LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"', re.S)
CONVERSION = re.compile(r"%[-+#0]*(?:\*|\d+)?(?:\.(?:\*|\d+))?(?:hh|h|ll|l|z|j|t)?[diouxXeEfgGcsp]")
LITERAL_OR_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*"|/\*.*?\*/', re.S)


def arguments(text, start):
    """The arguments of the call whose parenthesis opens at `start`, and whether it was closed."""
    depth, at, found, begin = 0, start, [], start + 1
    while at < len(text):
        char = text[at]
        if char == '"':
            at = LITERAL.match(text, at).end() - 1
        elif char == "'":
            at = text.index("'", at + (3 if text[at + 1] == "\\" else 2))
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
            if depth == 0:
                return found + [text[begin:at]]
        elif char == "," and depth == 1:
            found.append(text[begin:at])
            begin = at + 1
        at += 1
    return []


def alternatives(expression):
    """`a ? "x" : "y"` as ['"x"', '"y"']; only outside of literals."""
    plain = LITERAL.sub(lambda m: "\0" * len(m[0]), expression)
    if "?" not in plain:
        return [expression]
    cuts = [at for at, char in enumerate(plain) if char in "?:"]
    return [expression[a + 1:b] for a, b in zip(cuts, cuts[1:] + [len(expression)])]


def expand(expression, macros):
    """The expression with the literals that its macros stand for."""
    return re.sub(r'"(?:[^"\\]|\\.)*"|\b\w+\b', lambda m: macros.get(m[0], m[0]), expression)


def text_of(expression):
    """The message of joined literals, "" if there is none."""
    expression = re.sub(r"\bPRI[udxi]64\b", '"llu"', expression)
    text = "".join(LITERAL.findall(expression))
    for old, new in ((r"\n", " "), (r"\r", ""), (r"\t", " "), (r"\033[K", ""), (r"\"", '"'), ("%%", "%\0")):
        text = text.replace(old, new)
    text = re.sub(r"(\.\.\.)+", "...", CONVERSION.sub("...", text)).replace("%\0", "%").replace("|", "/")
    text = " ".join(text.split())
    plain = re.sub(r"^bulkhead( \w+)?:", "", text)
    return text if " " in plain.strip() and re.search(r"[A-Za-z]{2}", plain) else ""


def messages_of_c(name, source):
    """(offset, message) of each message."""
    macros = dict(MACRO.findall(source))
    source = LITERAL_OR_COMMENT.sub(lambda m: m[0] if m[0][0] == '"' else re.sub(r"[^\n]", " ", m[0]), source)
    for found in re.finditer(r"\b(" + "|".join(CALLS) + r")\s*(\()", source):
        indexes = next((value for (prefix, call), value in IN_FILE.items() if call == found[1] and name.startswith(prefix)), CALLS[found[1]])
        given = arguments(source, found.start(2))
        if found[1] in ("fprintf", "fputs") and "stderr" not in [argument.strip() for argument in given]:
            continue
        for index in indexes:
            for expression in alternatives(given[index]) if index < len(given) else []:
                yield found.start(), text_of(expand(expression, macros))
    if name in RETURNED:
        for found in RETURNED_EXPRESSION.finditer(source):
            if " " in found[1].strip('" \n\t'):
                yield found.start(), text_of(found[1])
    for file, row in TABLES:
        for found in row.finditer(source) if name == file else []:
            yield found.start(), text_of(found[1])


def messages_of_shell(source):
    for found in re.finditer(r"""^[^#\n]*?\b(?:say|printf|stage \w+) ("(?:[^"\\]|\\.)*"|'[^']*')""", source, re.M):
        text = re.sub(r"\$\{[^}]*\}|\$\([^)]*\)|\$[\w*@#]+", "...", found[1][1:-1].replace('\\"', "'"))
        text = text_of(f'"{text}"').replace("'", '"')
        text = text.removeprefix("dev: ")
        yield found.start(), text if re.search("[a-z]{2}", text) else ""


def messages(top):
    """{message: where it is first}"""
    found = {}
    paths = sorted(path for directory in DIRECTORIES for path in (top / directory).rglob("*.c*") if path.suffix in (".c", ".cc"))
    for path in [*paths, top / "dev"]:
        name = str(path.relative_to(top))
        source = path.read_text(encoding="utf-8")
        for offset, text in messages_of_shell(source) if name == "dev" else messages_of_c(name, source):
            if text:
                found.setdefault(text, f"{name}:{source.count(chr(10), 0, offset) + 1}")
    for name, row in NAMES:
        source = (top / name).read_text(encoding="utf-8")
        for match in row.finditer(source):
            found.setdefault(match[1], f"{name}:{source.count(chr(10), 0, match.start()) + 1}")
    return found


def rows(text):
    """[(message, cause, remedy)] of a Markdown table with these three columns."""
    found = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("| `") and len(cells) == 3:
            found.append((cells[0].strip("`").strip(), *cells[1:]))
    return found


def faults(listed, found):
    """`listed`: rows of the table; `found`: messages of the sources."""
    known = [row[0] for row in listed]
    for text, where in found.items():
        if text not in known:
            yield f"{where}: not in {TABLE}: {text}"
    for text, *rest in listed:
        if text not in found:
            yield f"{TABLE}: no program prints this: {text}"
        if not all(cell and "?" not in cell.split() for cell in rest):
            yield f"{TABLE}: cause or remedy is missing: {text}"
    for text in sorted({text for text in known if known.count(text) > 1}):
        yield f"{TABLE}: listed twice: {text}"


def self_test():
    source = '''
	/* log_error("a comment"); */
	log_error("cannot open %s, \\"x\\": "
		  "error=%-5d", a, "not this");
	log_warning(x ? "first, %" PRIu64 " of them" : "the second", f(1, ','));
	fprintf(stderr, "%s: %s\\n", a, b);
	fprintf(out, "not a message");
	snprintf(reason, 8, "not a message");
#define END "the end"
	log_info("it is " END);
	log_end(role, status, "a consequence");
'''
    found = [text for _, text in messages_of_c("cli/x.c", source) if text]
    assert found == ['cannot open ..., "x": error=...', "first, ... of them", "the second", "it is the end", "a consequence"], found
    assert [text for _, text in messages_of_c("cli/endpoint.c", 'return "the host is missing";')] == ["the host is missing"]
    shell = [text for _, text in messages_of_shell('# say "no"\n\tsay "the ${a[*]} build of $preset failed"\n')]
    assert shell == ["the ... build of ... failed"], shell
    listed = rows("| message | cause | remedy |\n|---|---|---|\n| `second` | c | r |\n| `gone` | c | r |\n| `third` | ? | r |\n| `third` | c | r |\n")
    lines = list(faults(listed, {"second": "a.c:1", "third": "a.c:2", "fourth one": "a.c:3"}))
    assert len(lines) == 4, lines
    for part in ("a.c:3: not in", "no program prints this: gone", "missing: third", "twice: third"):
        assert any(part in line for line in lines), (part, lines)
    assert not list(faults([("second", "c", "r")], {"second": "a.c:1"}))


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return 0
    top = pathlib.Path(sys.argv[-1])
    found = messages(top)
    if "--list" in sys.argv:
        print("\n".join(f"{where}\t{text}" for text, where in found.items()))
        return 0
    listed = rows((top / TABLE).read_text(encoding="utf-8")) if (top / TABLE).exists() else []
    if "--rows" in sys.argv:
        known = {row[0] for row in listed}
        print("\n".join(f"| `{text}` | ? | ? |" for text in found if text not in known))
        return 0
    wrong = list(faults(listed, found))
    print("\n".join(wrong) or f"{TABLE} lists every message")
    if wrong:
        print(f"tests/lint/messages.py --rows TOP prints rows to add to {TABLE}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
