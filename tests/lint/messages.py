#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/messages.md lists every message that a user can see, with its cause and remedy.

    messages.py TOP               compare the table with the sources; exit status 1 if they differ
    messages.py --list TOP        print all messages of the sources, and where they are
    messages.py --rows TOP        print rows for the messages that the table lacks, with "?" to be filled in

How this works: every text that a program prints for people is a message, whichever function prints it (PRINTERS, CALLS) and whichever stream it goes to.
What is printed for other purposes is listed in REPORTS, by file and function: formats that programs read, help texts and the outputs of a recording.

Of each call the string literals of the text argument are joined; each conversion (%s) becomes "...", and several of them in a row too. An argument
`a ? "x" : "y"` has two messages. A macro of the same file that stands for a literal is replaced by it. A text without a space or without letters is no
message: it is a path, or it passes on what another function has written ("%s: %s"). The lint cannot see what is passed on, so PASSED_ON lists each function
that does so, with the place where those texts are seen: CALLS; RETURNED, files whose functions return reasons as string literals; or TABLES and NAMES, tables
of texts and of single words. The script `dev` prints with `say`, `printf` and `stage`.

Example: log_error("cannot open the spool: error=%s", ...) in exporter/ must have a row that starts with
"| cannot open the spool: error=... |".
"""
import pathlib
import re
import sys

import source_tree

TABLE = "docs/messages.md"

# Functions of the C library that print: (index of the text, index of the stream, or the name of the stream). A single character is no text.
PRINTERS = {
    "fprintf": (1, 0), "vfprintf": (1, 0), "dprintf": (1, 0), "vdprintf": (1, 0), "fputs": (0, 1), "fputs_unlocked": (0, 1), "fwrite": (0, 3),
    "printf": (0, "stdout"), "vprintf": (0, "stdout"), "puts": (0, "stdout"), "perror": (0, "stderr"), "psignal": (1, "stderr"),
    "err": (1, "stderr"), "errx": (1, "stderr"), "warn": (0, "stderr"), "warnx": (0, "stderr"), "error": (2, "stderr"), "write": (1, 0),
}
# write() prints only to these.
TERMINAL = {"0", "1", "2", "STDOUT_FILENO", "STDERR_FILENO"}
# Functions whose output is no message: (file or directory, expression of the function's name, what it prints).
REPORTS = [
    ("config/config_print.c", r"config_print_(help|sample|dump)|print_", "help, a configuration file, and the values of all options"),
    ("config/config_value.c", r"(config_value_)?print_|config_value_print", "values in that output, and bounds in a message"),
    ("cli/audit_report.c", r"json_", "a format that programs read"),
    ("cli/check_print.c", r"check_print_json_", "a part of formats that programs read"),
    ("cli/doctor.c", r"json_", "a format that programs read"),
    ("cli/help.c", r"help_print_", "help"),
    ("cli/names.c", r"names_print_json", "a part of formats that programs read"),
    ("cli/runtime_print.c", r"runtime_print_(json|metrics)", "formats that programs read"),
    ("config/runtime_set.c", r"runtime_set_print", "the value of an option"),
    ("cli/status_print.c", r"json_|metric|status_print_(json|metrics)", "formats that programs read"),
    ("cli/summary.c", r"write_|summary_write_stats", "the statistics file, a format that programs read"),
    ("common/escape.c", r"escape_", "a string in one of these formats"),
    ("deploy/systemd/unit_policy.c", r"", "a part of a unit, and what goes wrong in a build"),
    ("deploy/containers/container_policy.c", r"", "a profile, and what goes wrong in a build"),
    ("exporter/sinks/sink", r"", "the outputs of a recording"),
    ("exporter/sinks/flamegraph/script/table.mjs", r"", "the text of a button"),
]
# Functions that print texts of others: {(file, function): what they are, and where this lint sees them}.
PASSED_ON = {
    ("config/config_check.c", "check_headers"): "reasons of config/key_values.c, in RETURNED",
    ("config/config_environment.c", "apply_variables"): "a system error",
    ("config/config_state.c", "print_line"): "texts of config_fault() and config_warn(), in CALLS",
    ("config/config_state.c", "config_set"): "reasons of config/config_value.c: explain() in CALLS",
    ("config/config_value.c", "check_text"): "reasons of config/endpoint.c, in RETURNED",
    ("cli/check_print.c", "check_print_row"): "names of checks and of their results",
    ("cli/host_checks.c", "check_remedy_by_runtime"): "its arguments, in CALLS",
    ("cli/main.c", "main"): "the version",
    ("cli/preflight.c", "refuse"): "its arguments, in IN_FILE",
    ("cli/preflight.c", "check_host"): "results of cli/host_checks*.c, in CALLS",
    ("cli/runtime_print.c", "runtime_print_faults"): "the names of language runtimes",
    ("cli/summary.c", "print_top_functions"): "the names of functions",
    ("cli/summary.c", "print_reasons"): "reasons, in NAMES",
    ("common/log.c", "log_write"): "texts of log_error() and so on, in CALLS",
    ("symbolizer/worker/runtime_stats.c", "runtime_stats_refuse"): "refusals of symbolizer/runtime/, in IN_FILE",
}

# Functions of ours that print their arguments, or that write texts which others print: the arguments that are texts, counted from 0. An empty list: only in
# the files of IN_FILE.
CALLS = {
    "log_error": [0], "log_warning": [0], "log_info": [0],
    "config_fault": [2], "config_warn": [1], "explain": [1],
    "usage_error": [0], "report_usage": [0], "status_usage": [0], "doctor_usage": [0], "audit_usage": [0], "refuse": [],
    "check_ok": [1], "check_unknown": [1], "check_restriction": [1], "check_fault": [2], "check_remedy": [1],
    "check_remedy_by_runtime": [2, 3, 4], "judge_access": [2],
    "snprintf": [], "log_end": [2],
}
# What a call prints in one file or directory only: (path prefix, call): arguments.
IN_FILE = {
    ("cli/preflight.c", "refuse"): [1, 2],
    ("cli/few_samples.c", "snprintf"): [2],
    ("config/key_values.c", "snprintf"): [2],
    ("config/config_environment.c", "snprintf"): [2],
    ("config/config_file.c", "snprintf"): [2],
    ("symbolizer/runtime/cpython_file.c", "refuse"): [3],
    ("symbolizer/runtime/go_file.c", "refuse"): [3],
    ("symbolizer/runtime/perl_file.c", "refuse"): [2],
    ("symbolizer/runtime/php_file.c", "refuse"): [3],
    ("symbolizer/runtime/ruby_file.c", "refuse"): [3],
    ("symbolizer/runtime/v8_image.c", "refuse"): [3],
    ("symbolizer/runtime/recognise.c", "snprintf"): [2],
}
# Files whose functions return reasons as literals, or keep them in tables: each literal with a space is a message.
RETURNED = ["config/endpoint.c", "config/key_values.c", "config/text_input.c", "exporter/delivery/transport_grpc.c"]
RETURNED_EXPRESSION = re.compile(r'(?:return|:|\?|fault =)\s*((?:"(?:[^"\\]|\\.)*"\s*)+)(?=[;:])')
# Tables of texts: (file, expression of a row).
TABLES = [
    ("config/config_value.c", re.compile(r'\[CONFIG_TYPE_\w+\] = ("[^"]* [^"]*")')),
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


def function_at(source, offset):
    """The name of the function whose body contains the offset; "" outside of functions."""
    start = source.rfind("\n{", 0, offset)
    if start < 0 or source.rfind("\n}", 0, offset) > start:
        return ""
    head = source[max(source.rfind(end, 0, start) for end in ("\n}", ";\n", "\n\n", "\n#")) + 1:start]
    return next((name for name in re.findall(r"(\w+)\s*\((?!\()", head) if name != "__attribute__"), "")


def texts_of_call(name, call, given):
    """The arguments of a call in file `name` that may be messages: those that are texts, and literals with a space among the values."""
    if call not in PRINTERS:
        indexes = next((value for (prefix, other), value in IN_FILE.items() if call == other and name.startswith(prefix)), CALLS[call])
    else:
        index, stream = PRINTERS[call]
        stream = stream if isinstance(stream, str) else given[stream].strip() if stream < len(given) else ""
        indexes = [] if call == "write" and stream not in TERMINAL else [index]
    texts = [given[index] for index in indexes if index < len(given)]
    values = [literal[0] for value in given[indexes[-1] + 1:] for literal in LITERAL.finditer(value)] if indexes else []
    return texts + [value for value in values if text_of(value)]


def is_report(name, function):
    return any(name.startswith(file) and re.match(expression, function) for file, expression, _ in REPORTS)


def calls_of_c(name, source):
    """(offset, call, function, expression of the text) of each call that prints in a function."""
    macros = dict(MACRO.findall(source))
    source = LITERAL_OR_COMMENT.sub(lambda m: m[0] if m[0][0] == '"' else re.sub(r"[^\n]", " ", m[0]), source)
    for found in re.finditer(r"(?<![\w>.])(" + "|".join([*CALLS, *PRINTERS]) + r")\s*(\()", source):
        function = function_at(source, found.start())
        for expression in texts_of_call(name, found[1], arguments(source, found.start(2))) if function else []:
            for alternative in alternatives(expression):
                yield found.start(), found[1], function, expand(alternative, macros)


def messages_of_c(name, source):
    """(offset, message) of each message."""
    for offset, _, function, expression in calls_of_c(name, source):
        if not is_report(name, function):
            yield offset, text_of(expression)
    if name in RETURNED:
        for found in RETURNED_EXPRESSION.finditer(source):
            if " " in found[1].strip('" \n\t'):
                yield found.start(), text_of(found[1])
    for file, row in TABLES:
        for found in row.finditer(source) if name == file else []:
            yield found.start(), text_of(found[1])


def is_layout(expression):
    """Whether it is spaces, punctuation or a control sequence in quotes, without a value."""
    return not LITERAL.sub("", expression).strip() and not CONVERSION.search(expression) and not text_of(expression)


def unseen_of_c(name, source):
    """(offset, function, call) of each call that prints what it was given, as functions of PASSED_ON do."""
    for offset, call, function, expression in calls_of_c(name, source):
        if call != "snprintf" and not is_report(name, function) and not text_of(expression) and not is_layout(expression):
            yield offset, function, call


def messages_of_script(name, source):
    """Messages of the page that shows a flame graph. Words on its buttons and in its menus are none."""
    literal = r"""(?:'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`(?:\\.|[^`\\])*`)"""
    for found in re.finditer(r"(?:\bshowMessage\(|\bnew Error\(|\btextContent = )(" + literal + r"(?:\s*\+\s*" + literal + ")*)", source):
        text = "".join(part[1:-1] for part in re.findall(literal, found[1]))
        yield found.start(), "" if is_report(name, "") else text_of('"' + re.sub(r"\$\{[^}]*\}", "%s", text).replace('"', r"\"") + '"')


def messages_of_shell(source):
    for found in re.finditer(r"""^[^#\n]*?\b(?:say|printf|stage \w+) ("(?:[^"\\]|\\.)*"|'[^']*')""", source, re.M):
        text = re.sub(r"\$\{[^}]*\}|\$\([^)]*\)|\$[\w*@#]+", "...", found[1][1:-1].replace('\\"', "'"))
        text = text_of(f'"{text}"').replace("'", '"')
        text = text.removeprefix("dev: ")
        yield found.start(), text if re.search("[a-z]{2}", text) else ""


def sources(top):
    """(name, text) of each file that prints."""
    for name in [*source_tree.sources(top, ".c", ".h", ".cc", ".mjs"), "dev"]:
        yield name, (top / name).read_text(encoding="utf-8")


def line_of(source, offset):
    return source.count("\n", 0, offset) + 1


def messages(top):
    """{message: where it is first}"""
    found = {}
    for name, source in sources(top):
        texts = messages_of_shell(source) if name == "dev" else messages_of_script(name, source) if name.endswith(".mjs") else messages_of_c(name, source)
        for offset, text in texts:
            if text:
                found.setdefault(text, f"{name}:{line_of(source, offset)}")
    for name, row in NAMES:
        source = (top / name).read_text(encoding="utf-8")
        for match in row.finditer(source):
            found.setdefault(match[1], f"{name}:{line_of(source, match.start())}")
    return found


def exception_faults(top):
    """Calls whose texts nothing sees, and exceptions that are not needed."""
    reports, passed_on = set(), set()
    for name, source in sources(top):
        if name == "dev":
            continue
        printed = [(name, "")] if name.endswith(".mjs") else [(name, function) for _, _, function, _ in calls_of_c(name, source)]
        reports |= {row for row in REPORTS for file, function in printed if file.startswith(row[0]) and re.match(row[1], function)}
        for offset, function, call in unseen_of_c(name, source):
            passed_on.add((name, function))
            if (name, function) not in PASSED_ON:
                yield f"{name}:{line_of(source, offset)}: {call}() in {function}() prints a text that this lint cannot see; use a literal, or add it to PASSED_ON"
    for row in REPORTS:
        if row not in reports:
            yield f"REPORTS: prints nothing: {row[0]} {row[1]}"
    for name, function in sorted(set(PASSED_ON) - passed_on):
        yield f"PASSED_ON: passes nothing on: {name} {function}()"


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


def main():
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
    wrong = [*faults(listed, found), *exception_faults(top)]
    print("\n".join(wrong) or f"{TABLE} lists every message")
    if wrong:
        print(f"tests/lint/messages.py --rows TOP prints rows to add to {TABLE}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
